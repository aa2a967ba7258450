//! Serial lines.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;
use rustix::termios::{ControlModes, OptionalActions, QueueSelector, tcflush, tcgetattr, tcsetattr};

/// The rates that serial lines here can have, in bits a second. Linux takes others, and most adapters do not.
const RATES: [u32; 17] = [
    1200, 2400, 4800, 9600, 19_200, 38_400, 57_600, 115_200, 230_400, 460_800, 500_000, 576_000, 921_600, 1_000_000,
    1_500_000, 2_000_000, 3_000_000,
];

/// Opens a serial line in raw mode, 8N1, at `baud` bits a second, and drops what it received before. Returns the
/// ends to read and to write; neither blocks.
///
/// # Errors
/// The system's; where `path` is no serial line, or `baud` none of its rates.
pub fn open_serial(path: &Path, baud: u32) -> io::Result<(File, File)> {
    let flags = i32::try_from((OFlags::NOCTTY | OFlags::NONBLOCK).bits()).unwrap_or(0);
    let line = File::options().read(true).write(true).custom_flags(flags).open(path)?;
    let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidInput, why);
    let no_rate = || invalid(format!("{baud} is not a baud rate that serial lines here can have"));
    if !RATES.contains(&baud) {
        return Err(no_rate());
    }
    let mut mode = tcgetattr(&line).map_err(|_| invalid("it is not a serial line".to_owned()))?;
    mode.make_raw();
    mode.control_modes |= ControlModes::CLOCAL | ControlModes::CREAD;
    mode.control_modes &= !(ControlModes::CSTOPB | ControlModes::CRTSCTS);
    mode.set_speed(baud).map_err(|_| no_rate())?;
    tcsetattr(&line, OptionalActions::Now, &mode)?;
    tcflush(&line, QueueSelector::IFlush)?;
    Ok((line.try_clone()?, line))
}
