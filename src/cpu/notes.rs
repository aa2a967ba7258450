//! `NT_PRSTATUS`: what a core's note says of one thread or CPU, as Linux and GDB lay it out.

use super::table::words;
use super::{Architecture, Level, Origin, Registers, arm, x86};
use crate::abi::{Endian, Width};

/// Offsets of `pr_pid` and `pr_reg`, by the size of a word.
const fn head(width: Width) -> (usize, usize) {
    match width {
        Width::W4 => (24, 72),
        Width::W8 => (32, 112),
    }
}

/// The registers of one thread of a system, from its `NT_PRSTATUS` note and the `NT_386_TLS` note after that; `None`
/// where the first is too short.
pub fn from_notes(
    architecture: Architecture,
    endian: Endian,
    prstatus: &[u8],
    tls: Option<&[u8]>,
) -> Option<Registers> {
    let (lwp, mut registers) = from_prstatus(architecture, endian, prstatus)?;
    match architecture {
        Architecture::X86 => {
            let base = tls.and_then(|note| x86::segment(note, endian, &registers));
            registers.belong_to(lwp, base);
        }
        Architecture::X86_64 => registers.belong_to(lwp, None),
        // Bare metal: the number is that of a CPU.
        _ => {}
    }
    Some(registers)
}

/// The `NT_386_TLS` note that goes after a thread's `NT_PRSTATUS`, where there is one.
pub fn to_tls(registers: &Registers, endian: Endian) -> Option<Vec<u8>> {
    (registers.architecture() == Architecture::X86).then(|| x86::segment_note(registers, endian)).flatten()
}

/// The thread's number and registers from the description of one `NT_PRSTATUS` note; `None` where it is too short.
///
/// A big-endian ARM target (BE8) has its data big-endian, but QEMU sends its registers little-endian and GDB copies
/// them into cores as they came: the order in which the status register makes sense is taken. For a Cortex-M QEMU
/// writes the status word of the other profiles: that is no xPSR, which is unknown then.
pub(super) fn from_prstatus(architecture: Architecture, endian: Endian, desc: &[u8]) -> Option<(u32, Registers)> {
    let (width, order) = (architecture.width(), words(architecture.model().note));
    let (pid, start) = head(width);
    let lwp = endian.u32(desc, pid)?;
    let read = |endian: Endian| {
        let mut registers = Registers::of(architecture, Origin::Core);
        for (name, word) in order.clone().zip(desc.get(start..)?.chunks(width.bytes())) {
            if let Some(name) = name {
                registers.put(name, endian.word(width, word, 0)?);
            }
        }
        // A note that ends before the last register is none of this architecture.
        let whole = order.clone().flatten().all(|name| registers.get(name).is_some());
        if architecture == Architecture::CortexM && registers.level() == Level::Unknown {
            registers.forget("xpsr");
        }
        whole.then_some(registers)
    };
    Some((lwp, arm::in_order(architecture, endian, read)?))
}

/// The description of an `NT_PRSTATUS` note. It has no way to say that a register is not known: such a one is 0.
pub fn to_prstatus(registers: &Registers, endian: Endian, lwp: u32, signal: u16) -> Vec<u8> {
    let (width, order) = (registers.architecture().width(), words(registers.architecture().model().note));
    let (pid, start) = head(width);
    let mut desc = vec![0; start];
    let mut put = |at: usize, width: usize, value: u64| {
        let bytes = value.to_le_bytes().into_iter().take(width);
        let place = desc.iter_mut().skip(at).take(width);
        match endian {
            Endian::Little => place.zip(bytes).for_each(|(to, from)| *to = from),
            Endian::Big => place.zip(bytes.rev()).for_each(|(to, from)| *to = from),
        }
    };
    put(0, 4, signal.into());
    put(12, 2, signal.into());
    put(pid, 4, lwp.into());
    let values = order.map(|name| name.and_then(|name| registers.get(name)).unwrap_or(0));
    // Readers of cores need one word after the registers.
    desc.extend(values.chain([0]).flat_map(|value| endian.bytes(width, value)));
    desc
}
