//! Faults: what the fault registers of a processor say, in words. One file an architecture.

mod aarch64;
mod arm;
mod cortex_m;
mod riscv;

pub use cortex_m::{FrameDoubt, NO_THUMB, as_cfsr};

use super::{Architecture, Group, Origin, Registers};
use crate::abi::Addr;

/// A bit of a fault register: its mask, its name in the manual, and what it means.
type Bit = (u64, &'static str, &'static str);

/// What the fault registers of one CPU say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Which fault it is, by its handler that runs or by its registers: `HardFault`, `data abort`.
    pub name: Option<&'static str>,
    /// True where its handler is known to run. False where none does: what is recorded is of an earlier fault, since the
    /// registers were last cleared. `None` where that is not known.
    pub current: Option<bool>,
    /// The registers that are known, with their values.
    pub registers: Vec<(&'static str, u64)>,
    /// What they record.
    pub bits: Vec<FaultBit>,
    /// The address whose access failed, and the register that holds it; only where that register is valid.
    pub address: Option<(Addr, &'static str)>,
    /// False where the registers say that they do not hold the address of this fault. `None` where a fault of this kind has
    /// none, or where it is not known.
    pub address_valid: Option<bool>,
}

/// What kind of fault it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// The bus answered an access with an error, or nothing answered.
    Bus,
    /// Memory protection, or address translation, refused an access.
    Memory,
    /// An instruction that the CPU refused, or an address that is not aligned.
    Usage,
    /// A rule of TrustZone was broken.
    Secure,
}

/// One thing that a fault register records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultBit {
    /// The register.
    pub register: &'static str,
    /// The bit's name, or the field and its number: `PRECISERR`, `EC 0x25`.
    pub name: String,
    /// What it means.
    pub words: String,
    /// As [`Fault::current`].
    pub current: Option<bool>,
    /// The kind of fault; `None` where it says something else.
    pub kind: Option<FaultKind>,
}

impl Fault {
    /// Whether it is going on, as a sentence without a full stop.
    pub fn state(&self) -> String {
        match (self.current, self.name) {
            (Some(true), Some(name)) => format!("{name}: its handler runs"),
            (Some(true), None) => "its handler runs".to_owned(),
            (Some(false), _) => "no fault handler runs: recorded since the registers were last cleared".to_owned(),
            (None, name) => {
                let name = name.map_or_else(String::new, |name| format!("{name}: "));
                format!("{name}whether its handler runs is not known: it may be an earlier fault")
            }
        }
    }

    /// In one line: `HardFault: its handler runs; PRECISERR, FORCED; address 0xe0200000 (bfar)`.
    pub fn line(&self) -> String {
        let names: Vec<&str> = self.bits.iter().map(|bit| bit.name.as_str()).collect();
        let bits = if names.is_empty() { "nothing is recorded".to_owned() } else { names.join(", ") };
        let address = match (self.address, self.address_valid) {
            (Some((at, register)), _) => format!("; address {at:#x} ({register})"),
            (None, Some(false)) => "; its address is not known".to_owned(),
            (None, _) => String::new(),
        };
        format!("{}; {bits}{address}", self.state())
    }
}

impl Registers {
    /// What the fault registers say; `None` where none is known, or none records a fault.
    pub fn fault(&self) -> Option<Fault> {
        match self.architecture() {
            Architecture::CortexM => cortex_m::fault(self),
            Architecture::Riscv32 | Architecture::Riscv64 => riscv::fault(self),
            Architecture::Arm => arm::fault(self),
            Architecture::Aarch64 => aarch64::fault(self),
            Architecture::X86 | Architecture::X86_64 => None,
        }
    }

    /// The registers that show a fault and that a stub has to be asked for by name, where they could be of a fault that goes
    /// on. None for a Cortex-M, which maps them into memory.
    pub fn fault_names(&self) -> &'static [&'static str] {
        match self.architecture() {
            Architecture::Arm if arm::may_be_in_fault(self) => &arm::NAMES,
            Architecture::Aarch64 => &aarch64::NAMES,
            Architecture::Riscv32 | Architecture::Riscv64 => &riscv::NAMES,
            _ => &[],
        }
    }

    /// The name under which a stub has a register that each exception level has of its own: `ESR_EL1` for `esr`.
    pub fn banked_name(&self, name: &str) -> Option<String> {
        (self.architecture() == Architecture::Aarch64).then(|| aarch64::banked_name(self, name)).flatten()
    }

    /// The known ones of these names.
    fn known_of(&self, names: &[&'static str]) -> Vec<(&'static str, u64)> {
        names.iter().filter_map(|name| Some((*name, self.get(name)?))).collect()
    }

    /// The known registers of faults and exceptions.
    fn known_of_faults(&self) -> Vec<(&'static str, u64)> {
        self.known().filter(|(r, _)| r.group == Group::Fault).map(|(r, (value, _))| (r.name, value)).collect()
    }

    /// True for a register that was typed: it is printed whatever it says.
    fn is_given(&self, name: &str) -> bool {
        self.value(name).is_some_and(|(_, origin)| origin == Origin::Given)
    }
}

/// The bits of a register that are set.
fn set_bits(register: &'static str, value: u64, all: &[Bit], current: impl Fn(u64) -> Option<bool>) -> Vec<FaultBit> {
    let kind = |mask: u64, name: &str| match (register, mask) {
        ("cfsr", 0..=0xFF) if name != "MMARVALID" => Some(FaultKind::Memory),
        ("cfsr", 0x100..=0xFFFF) if name != "BFARVALID" => Some(FaultKind::Bus),
        ("cfsr", 0x1_0000..) => Some(FaultKind::Usage),
        ("sfsr", _) if name != "SFARVALID" => Some(FaultKind::Secure),
        ("hfsr", _) if name == "VECTTBL" => Some(FaultKind::Bus),
        _ => None,
    };
    let set = all.iter().filter(|(mask, ..)| value & mask != 0);
    let bit = |(mask, name, words): &Bit| FaultBit {
        register,
        name: (*name).to_owned(),
        words: (*words).to_owned(),
        current: current(*mask),
        kind: kind(*mask, name),
    };
    set.map(bit).collect()
}

#[cfg(test)]
mod tests;
