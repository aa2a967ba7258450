//! Serial lines: `COM3`.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::windows::fs::OpenOptionsExt;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::path::Path;
use std::ptr;
use std::sync::{Arc, Weak};

use windows_sys::Win32::Devices::Communication::{
    COMMTIMEOUTS, DCB, GetCommState, NOPARITY, ONESTOPBIT, PURGE_RXCLEAR, PurgeComm, SetCommState, SetCommTimeouts,
};
use windows_sys::Win32::Foundation::{ERROR_IO_PENDING, HANDLE};
use windows_sys::Win32::Storage::FileSystem::{FILE_FLAG_OVERLAPPED, ReadFile, WriteFile};
use windows_sys::Win32::System::IO::{GetOverlappedResult, OVERLAPPED};
use windows_sys::Win32::System::Threading::CreateEventW;

use super::links::{Writer, through_socket};

/// How long a read waits for the first byte before it looks whether anybody still wants one, in milliseconds.
const READ: u32 = 200;
/// How long a write may take, in milliseconds.
const WRITE: u32 = 5000;
/// `fBinary`, and DTR and RTS are on: without DTR a Black Magic Probe does not answer (DCB in winbase.h).
const FLAGS: u32 = 1 | 1 << 4 | 1 << 12;

/// Opens a serial line in raw mode, 8N1, at `baud` bits a second, and drops what it received before. Returns the ends to
/// read and to write.
///
/// # Errors
/// The system's; where `path` is no serial line, or `baud` none of its rates.
pub fn open_serial(path: &Path, baud: u32) -> io::Result<(TcpStream, Writer<Line>)> {
    // From COM10 on a name needs this prefix, and COM3 takes it too.
    let device = Path::new(r"\\.\").join(path);
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        // Nobody else may open it: the system has it so.
        .share_mode(0)
        .custom_flags(FILE_FLAG_OVERLAPPED)
        .open(device)?;
    set_up(&file, baud)?;
    let line = Arc::new(file);
    let reader = through_socket(Incoming { line: Arc::downgrade(&line), event: event()? })?;
    Ok((reader, Writer(Line { line, event: event()? })))
}

fn set_up(file: &File, baud: u32) -> io::Result<()> {
    let invalid = |why: String| io::Error::new(ErrorKind::InvalidInput, why);
    let line = file.as_raw_handle();
    let timeouts = COMMTIMEOUTS {
        // The three of them: a read ends with the first byte that comes, or after the last.
        ReadIntervalTimeout: u32::MAX,
        ReadTotalTimeoutMultiplier: u32::MAX,
        ReadTotalTimeoutConstant: READ,
        WriteTotalTimeoutMultiplier: 0,
        WriteTotalTimeoutConstant: WRITE,
    };
    let size = u32::try_from(size_of::<DCB>()).unwrap_or(0);
    // SAFETY: the handle is open as long as `file`; the structs live as long as the calls, and all zeros is a valid DCB.
    #[allow(unsafe_code, reason = "the standard library has no serial lines")]
    unsafe {
        let mut mode: DCB = std::mem::zeroed();
        mode.DCBlength = size;
        if GetCommState(line, &raw mut mode) == 0 {
            return Err(invalid("it is not a serial line".to_owned()));
        }
        mode.BaudRate = baud;
        mode.ByteSize = 8;
        mode.Parity = NOPARITY;
        mode.StopBits = ONESTOPBIT;
        mode._bitfield = FLAGS;
        if SetCommState(line, &raw const mode) == 0 {
            return Err(invalid(format!("{baud} is not a baud rate that this serial line can have")));
        }
        if SetCommTimeouts(line, &raw const timeouts) == 0 || PurgeComm(line, PURGE_RXCLEAR) == 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// The writing end. The line is closed when it is dropped.
pub struct Line {
    line: Arc<File>,
    event: OwnedHandle,
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let count = transfer(&self.line, &self.event, |line, overlapped| {
            // SAFETY: `transfer` waits for the end of what is started here, and `bytes` lives until then.
            #[allow(unsafe_code, reason = "the standard library writes to such a line only while nothing reads it")]
            unsafe {
                WriteFile(line, bytes.as_ptr(), len, ptr::null_mut(), overlapped)
            }
        })?;
        if count == 0 { Err(ErrorKind::TimedOut.into()) } else { Ok(count) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The reading end: it ends when the writing end is dropped.
struct Incoming {
    line: Weak<File>,
    event: OwnedHandle,
}

impl Read for Incoming {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let len = u32::try_from(buf.len()).unwrap_or(u32::MAX);
        while let Some(line) = self.line.upgrade() {
            let count = transfer(&line, &self.event, |line, overlapped| {
                // SAFETY: `transfer` waits for the end of what is started here, and `buf` lives until then.
                #[allow(unsafe_code, reason = "the standard library reads such a line only while nothing writes it")]
                unsafe {
                    ReadFile(line, buf.as_mut_ptr(), len, ptr::null_mut(), overlapped)
                }
            })?;
            if count > 0 {
                return Ok(count);
            }
        }
        Ok(0)
    }
}

/// An event that is reset by hand, and not set.
fn event() -> io::Result<OwnedHandle> {
    // SAFETY: no attributes and no name are allowed; what is not null is a new handle, which is ours.
    #[allow(unsafe_code, reason = "the standard library has no events")]
    unsafe {
        let event = CreateEventW(ptr::null(), 1, 0, ptr::null());
        if event.is_null() { Err(io::Error::last_os_error()) } else { Ok(OwnedHandle::from_raw_handle(event)) }
    }
}

/// Starts a transfer and waits for its end: so a read and a write can run at the same time. Returns the number of bytes.
fn transfer(line: &File, event: &OwnedHandle, start: impl FnOnce(HANDLE, *mut OVERLAPPED) -> i32) -> io::Result<usize> {
    let line = line.as_raw_handle();
    let mut count = 0;
    // SAFETY: all zeros is a valid OVERLAPPED. It lives until the transfer is over, for which the last call waits.
    #[allow(unsafe_code, reason = "the standard library has no transfers that run at the same time")]
    unsafe {
        let mut overlapped: OVERLAPPED = std::mem::zeroed();
        overlapped.hEvent = event.as_raw_handle();
        if start(line, &raw mut overlapped) == 0 {
            let error = io::Error::last_os_error();
            if error.raw_os_error().map(i32::unsigned_abs) != Some(ERROR_IO_PENDING) {
                return Err(error);
            }
        }
        if GetOverlappedResult(line, &raw const overlapped, &raw mut count, 1) == 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(usize::try_from(count).unwrap_or(0))
}
