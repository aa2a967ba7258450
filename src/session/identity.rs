//! Whether ELF and memory belong together, and which kernel runs.

use super::Session;
use crate::abi::{Endian, Width};
use crate::mem::Memory;
use crate::sym::Symbols;
use crate::trace::{Issue, Severity, Trace};

/// What memory and ELF say of the program.
#[derive(Debug, Clone, Default)]
pub struct Identity {
    /// The kernel's version string.
    pub version: Option<String>,
    /// The enable mask.
    pub enable_bits: Option<u64>,
    /// How many thread names agree between memory and ELF.
    pub agreement: Option<Agreement>,
}

/// Thread control blocks point to their names, which lie in the program's constants: under the ELF of another build
/// they read as something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Agreement {
    /// Names that are the same in the registry and behind the control block's pointer.
    pub same: usize,
    /// Names that could be compared.
    pub compared: usize,
}

impl Agreement {
    /// True where the ELF is of the program in memory. One renamed thread is a change of source; most names wrong is
    /// another layout.
    #[must_use]
    pub const fn holds(self) -> bool {
        self.same.saturating_mul(2) > self.compared
    }

    /// The sentence that a mismatch deserves.
    #[must_use]
    pub fn issue(self) -> Option<Issue> {
        (!self.holds()).then(|| {
            Issue::new(
                "elf-mismatch",
                Severity::Inferred,
                format!(
                    "{} of {} thread names agree: this ELF is of another build; names and lines from it are wrong",
                    self.same, self.compared
                ),
            )
        })
    }
}

/// The most threads whose names are compared.
const MOST: usize = 32;
/// The longest version string.
const LONGEST: usize = 160;

impl Session<'_> {
    /// Reads what tells whether ELF and memory belong together. Costs reads: for `info`, not for `last`.
    pub fn identity(&mut self, trace: &Trace) -> Identity {
        let endian = trace.about.endian;
        let mut identity = Identity::default();
        identity.version = self.kernel_version();
        if let Some(symbol) = self.symbols.lookup("_tx_trace_event_enable_bits") {
            let width = Width::from_bytes(symbol.size).unwrap_or(trace.about.word);
            identity.enable_bits = word_at(self.memory.memory(), symbol.address, endian, width);
        }
        identity.agreement = self.agreement(trace);
        identity
    }

    /// The kernel's version string.
    pub fn kernel_version(&mut self) -> Option<String> {
        let symbol = self.symbols.lookup("_tx_version_id")?;
        text_at(self.memory.memory(), symbol.address, LONGEST)
    }

    pub(super) fn agreement(&mut self, trace: &Trace) -> Option<Agreement> {
        let elf = self.elf.clone()?;
        let pointer = elf.width();
        // Truncated addresses cannot be followed.
        if pointer != trace.about.word {
            return None;
        }
        let offset = self.symbols.member_offset("TX_THREAD_STRUCT", "tx_thread_name").unwrap_or(match pointer {
            Width::W4 => 40,
            Width::W8 => 80,
        });
        let mut result = Agreement { same: 0, compared: 0 };
        for object in trace.objects.iter().filter(|o| o.is_thread && !o.deleted && !o.name.is_empty()).take(MOST) {
            let place = object.address.wrapping_add(offset);
            let Some(name) = word_at(self.memory.memory(), place, trace.about.endian, pointer) else { continue };
            let Some(section) = elf.section_holding(name.wrapping_sub(self.load_offset.value)) else {
                // A pointer to outside the program is as wrong as another name.
                result.compared = result.compared.saturating_add(1);
                continue;
            };
            let bytes = elf.section_bytes(&section);
            let start = name.wrapping_sub(self.load_offset.value).wrapping_sub(section.addr);
            let Some(text) = usize::try_from(start).ok().and_then(|s| bytes.get(s..)) else { continue };
            let end = text.iter().position(|b| *b == 0).unwrap_or(text.len());
            result.compared = result.compared.saturating_add(1);
            // The registry cuts long names.
            let in_elf = String::from_utf8_lossy(text.get(..end).unwrap_or(&[]));
            if in_elf == object.name || (object.name.len() >= 31 && in_elf.starts_with(&object.name)) {
                result.same = result.same.saturating_add(1);
            }
        }
        (result.compared > 0).then_some(result)
    }
}

fn word_at(memory: &mut dyn Memory, address: u64, endian: Endian, width: Width) -> Option<u64> {
    let bytes = memory.read_bytes(address, width.bytes()).ok()?;
    endian.word(width, &bytes, 0)
}

/// A string of at most `most` bytes; what lies behind its end need not be readable.
fn text_at(memory: &mut dyn Memory, address: u64, most: usize) -> Option<String> {
    let mut text = Vec::new();
    let mut at = address;
    while text.len() < most {
        let bytes = memory.read_bytes(at, 16).or_else(|_| memory.read_bytes(at, 1)).ok()?;
        match bytes.iter().position(|b| *b == 0) {
            Some(end) => {
                text.extend_from_slice(bytes.get(..end)?);
                break;
            }
            None => text.extend_from_slice(&bytes),
        }
        at = at.checked_add(bytes.len() as u64)?;
    }
    text.truncate(most);
    (!text.is_empty() && text.is_ascii()).then(|| String::from_utf8_lossy(&text).into_owned())
}
