//! Which clock stamps the trace, for an event that is inserted by hand.
//!
//! A Cortex-M's cycle counter counts whether the trace is stamped with it or not, and half of all numbers follow the
//! newest stamp. So it is taken only where the program's own code shows that insertions read it.

use super::change::{Change, Destination};
use super::mark::Insertion;
use crate::abi::{Addr, Width};
use crate::elf::{Elf, SHF_ALLOC, SHF_EXECINSTR};
use crate::error::Error;
use crate::format::threadx::symbols::{SIMULATED_TIME, TRACE};

/// The cycle counter of a Cortex-M: what its ports stamp with.
const CYCCNT: Addr = 0xE000_1004;
/// Its unit's control register, the DWT's first; bit 0: it counts.
const DWT_CTRL: Addr = 0xE000_1000;
/// The debug control register; bit 24 (TRCENA) switches the DWT on.
const DEMCR: Addr = 0xE000_EDFC;
const TRCENA: u64 = 1 << 24;
const CYCCNTENA: u64 = 1;
/// How far apart the two halves of an address in code may be, in bytes.
const NEAR: usize = 32;

/// The stamp of an event that is inserted now.
pub struct Stamp {
    /// Its value.
    pub value: u64,
    /// The write that moves the clock on, where software does that.
    pub ticked: Option<Change>,
    /// How it is known.
    pub note: String,
}

/// Reads the clock, where it is known which one it is; else takes the stamp of the newest event. `current` is where the
/// next event goes.
pub(super) fn stamp(insertion: &mut Insertion<'_>, current: Addr) -> Result<Stamp, Error> {
    let layout = insertion.layout;
    let newest = layout.address(layout.before(layout.slot_of(current), 1));
    let mut word = |number: u64| {
        let at = newest.wrapping_add(number.wrapping_mul(layout.word.size()));
        insertion.word(at, layout.word)
    };
    let (used, value) = (word(0)? != 0, word(3)?);
    let newest = used.then_some(value);
    if let Some(stamp) = simulated(insertion, newest)? {
        return Ok(stamp);
    }
    let (value, note) = match cycles(insertion, newest) {
        Ok(value) => {
            (value, "its stamp is the cycle counter's, DWT CYCCNT, which the kernel's own code reads".to_owned())
        }
        Err(why) => (newest.unwrap_or(0), format!("its stamp is that of the event before it, because {why}")),
    };
    Ok(Stamp { value, ticked: None, note })
}

/// The time that the kernel counts for itself, where the newest event bears it.
fn simulated(insertion: &mut Insertion<'_>, newest: Option<u64>) -> Result<Option<Stamp>, Error> {
    let Some(symbol) = insertion.symbols.lookup(SIMULATED_TIME) else { return Ok(None) };
    let (layout, address) = (insertion.layout, symbol.address);
    let width = Width::from_bytes(symbol.size).unwrap_or(layout.word);
    let time = insertion.word(address, width)?;
    let mask = layout.time_mask;
    // A program may have the variable and never count it: then it is always 0.
    if time == 0 || newest.is_none_or(|newest| time & mask != newest & mask) {
        return Ok(None);
    }
    let next = time.wrapping_add(1) & width.max();
    let change = Change {
        destination: Destination::Variable(SIMULATED_TIME),
        address,
        bytes: layout.endian.bytes(width, next),
        before: layout.endian.bytes(width, time),
        what: format!("{SIMULATED_TIME} {time:#x} -> {next:#x}"),
    };
    let note = "its stamp is the kernel's simulated time".to_owned();
    Ok(Some(Stamp { value: next & layout.word.max(), ticked: Some(change), note }))
}

/// The cycle counter, where all that is known says that it is the trace's clock; else why not.
fn cycles(insertion: &mut Insertion<'_>, newest: Option<u64>) -> Result<u64, &'static str> {
    if !insertion.with_cycles || insertion.layout.time_mask != Width::W4.max() {
        return Err("nothing shows which clock stamps this trace");
    }
    let mut read = |address| {
        insertion.memory.refresh();
        insertion.word(address, Width::W4).ok()
    };
    // Where the unit is off its registers are not to be read.
    let on = read(DEMCR).is_some_and(|r| r & TRCENA != 0) && read(DWT_CTRL).is_some_and(|r| r & CYCCNTENA != 0);
    if !on {
        return Err("the cycle counter, which the kernel's code reads, is off");
    }
    let (first, second) = read(CYCCNT).zip(read(CYCCNT)).ok_or("the cycle counter cannot be read")?;
    let after = |from: u64, to: u64| to.wrapping_sub(from) & Width::W4.max() <= Width::W4.max() / 2;
    let lies_behind = |newest: u64| newest != second && after(newest, first) && after(first, second);
    if newest.is_some_and(|newest| !lies_behind(newest)) {
        return Err("the cycle counter is not later than the newest stamp");
    }
    Ok(second)
}

/// True where a function of the program holds the address of a variable of the trace and that of the cycle counter: it
/// inserts events, and stamps them with it.
pub(super) fn inserts_with_cycles(elf: &Elf) -> bool {
    let variables: Vec<Addr> = TRACE.into_iter().filter_map(|name| Some(elf.symbol(name)?.address)).collect();
    let (mut of_trace, mut of_counter) = (Vec::new(), Vec::new());
    let code = SHF_ALLOC | SHF_EXECINSTR;
    for section in elf.sections().filter(|s| s.flags & code == code) {
        each_constant(&elf.section_bytes(&section), |offset, value| {
            let list = match value {
                DWT_CTRL | CYCCNT => &mut of_counter,
                _ if variables.contains(&value) => &mut of_trace,
                _ => return,
            };
            let function = section.addr.checked_add(offset).and_then(|at| elf.covering(at));
            list.extend(function.map(|f| f.address));
        });
    }
    of_counter.iter().any(|function| of_trace.contains(function))
}

/// Hands out the words in Thumb code, and what pairs of MOVW and MOVT load, with their offsets.
fn each_constant(code: &[u8], mut each: impl FnMut(u64, u64)) {
    // By register: where its low half was loaded, and the half.
    let mut low: [Option<(usize, u64)>; 16] = [None; 16];
    for (index, four) in code.windows(4).enumerate().step_by(2) {
        let &[a, b, c, d] = four else { continue };
        if index.is_multiple_of(4) {
            each(index as u64, u64::from(u32::from_le_bytes([a, b, c, d])));
        }
        let (first, second) = (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]));
        let register = usize::from(second >> 8 & 15);
        let half = u64::from((first & 15) << 12 | (first >> 10 & 1) << 11 | (second >> 12 & 7) << 8 | second & 0xFF);
        let Some(slot) = low.get_mut(register).filter(|_| second & 0x8000 == 0) else { continue };
        match first & 0xFBF0 {
            0xF240 => *slot = Some((index, half)),
            0xF2C0 => {
                if let Some((_, low)) = slot.take().filter(|(at, _)| index.saturating_sub(*at) <= NEAR) {
                    each(index as u64, half << 16 | low);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn constants(code: &[u16]) -> Vec<u64> {
        let code: Vec<u8> = code.iter().flat_map(|h| h.to_le_bytes()).collect();
        let mut all = Vec::new();
        each_constant(&code, |_, value| all.push(value));
        all
    }

    /// As GNU as encodes them.
    #[test]
    fn constants_of_thumb_code() {
        // movw r3, #0x1004; movt r3, #0xe000; and the other way for r9, with another instruction between.
        assert!(constants(&[0xF241, 0x0304, 0xF2CE, 0x0300]).contains(&0xE000_1004));
        assert!(constants(&[0xF642, 0x1994, 0xBF00, 0xF2C2, 0x0900]).contains(&0x2000_2994));
        assert!(constants(&[0x0000, 0x0000, 0x1000, 0xE000]).contains(&0xE000_1000), "a literal");
        assert!(!constants(&[0x0000, 0x1000, 0xE000, 0x0000]).contains(&0xE000_1000), "literals are aligned");
        assert!(!constants(&[0xF2CE, 0x0300, 0xF241, 0x0304]).contains(&0xE000_1004), "MOVT keeps the half of before");
        assert!(constants(&[0xF241]).is_empty());
    }
}
