//! What the handler of an interrupt does when it comes the next time, with memory as it is: its instructions are carried out up to
//! its end, with those of all that it calls. What it reads of devices is not known, and where that decides nothing is said.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use super::calls::{Program, half_of};
use super::instruction_set::InstructionSet;
use super::round::{carry_out, is_stored_downwards};
use super::steps::Flow;
use super::values::{State, Stored, Value};
use crate::abi::Addr;

/// The most instructions that are carried out.
const STEPS: usize = 4096;
/// So many of them are the last.
const LAST: usize = 1024;
/// So often an instruction has to come again with the same state, and so many instructions are looked at.
const REPEATS: usize = 4;
const COMPARED: usize = 64;
/// The most words of code and memory that are read: over a link each takes time.
const WORDS: usize = 2048;
/// The most calls within each other.
const DEPTH: usize = 32;
/// MRS from IPSR, which holds the number of the exception (Armv7-M Architecture Reference Manual, B5.2.2).
const MRS: u16 = 0xF3EF;
const IPSR: u16 = 0x05;

/// Such a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Run {
    /// The addresses of registers of devices that it accesses.
    pub devices: BTreeSet<Addr>,
    /// Those of them that it writes.
    pub devices_written: BTreeSet<Addr>,
    /// The addresses of memory that it accesses outside of the kernel, constants of its code among them.
    pub accessed: BTreeSet<Addr>,
    /// The instructions that are not of the kernel, in their order.
    pub own: Vec<Addr>,
    /// How many instructions it carries out.
    pub steps: usize,
    /// What it does last, where it has not come to its end after the most instructions that are carried out.
    pub endless: Option<Endless>,
}

/// The last instructions of a run that does not come to its end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Endless {
    /// Their addresses, without those of the kernel.
    pub code: BTreeSet<Addr>,
    /// The addresses of memory that they access.
    pub accessed: BTreeSet<Addr>,
    /// True where they write to memory, the stack left out.
    pub writes: bool,
    /// True where the registers and the stack are the same each time that one of them comes again: no counter there ends it.
    pub repeats: bool,
}

/// The state of the registers and the stack at the instructions of a loop, and how often each came with the same; `None` where it came with
/// another one.
#[derive(Default)]
struct Again(BTreeMap<Addr, Option<(State, usize)>>);

impl Again {
    /// The next instruction.
    fn next(&mut self, at: Addr, state: &State) {
        if self.0.len() >= COMPARED && !self.0.contains_key(&at) {
            return;
        }
        let known = self.0.entry(at).or_insert_with(|| Some((state.clone(), 0)));
        *known = known
            .take()
            .filter(|(before, _)| before.is_same_with_frame(state))
            .map(|(before, n)| (before, n.saturating_add(1)));
    }

    /// True where one of them came again and again with the same state: what counts in a register, or on the stack, differs at each.
    fn repeats(&self) -> bool {
        self.0.values().flatten().any(|(_, times)| *times > REPEATS)
    }
}

/// True for the addresses at which a Cortex-M has the devices of its chip, of its board and of its core (Armv7-M Architecture Reference
/// Manual, B3.1): to read one may change it.
#[must_use]
pub const fn is_device(at: Addr) -> bool {
    matches!(at, 0x4000_0000..=0x5FFF_FFFF | 0xA000_0000..=0xFFFF_FFFF)
}

/// True for those of what belongs to the core: the NVIC, SysTick, the cycle counter. Nothing there acknowledges an interrupt of a device,
/// but for the words that disable one in the NVIC (B3.4.3).
#[must_use]
pub const fn is_of_core(at: Addr) -> bool {
    matches!(at, 0xE000_0000..=0xE00F_FFFF) && !matches!(at, 0xE000_E180..=0xE000_E1BF)
}

/// Memory, with what the run has written.
struct Live<'a> {
    word: &'a dyn Fn(Addr) -> Option<u32>,
    known: RefCell<BTreeMap<Addr, Option<u32>>>,
    written: RefCell<BTreeSet<Addr>>,
    devices: RefCell<BTreeSet<Addr>>,
    devices_written: RefCell<BTreeSet<Addr>>,
    /// True in a function of the kernel, and in what that calls, as to read the clock of the trace.
    in_kernel: Cell<bool>,
}

impl Live<'_> {
    fn word(&self, at: Addr) -> Option<u32> {
        let mut known = self.known.try_borrow_mut().ok()?;
        if known.len() >= WORDS && !known.contains_key(&at) {
            return None;
        }
        *known.entry(at).or_insert_with(|| (self.word)(at))
    }

    /// True where the run has written a word, of which it does not know all.
    fn is_written(&self, at: Addr) -> bool {
        self.written.try_borrow().is_ok_and(|written| written.contains(&at))
    }

    fn device(&self, at: Addr) -> Option<()> {
        if !self.in_kernel.get() {
            self.devices.try_borrow_mut().ok()?.insert(at);
        }
        Some(())
    }

    /// So many bytes were written: `None` where what was is not known.
    fn write(&self, at: Addr, value: Option<u32>, bytes: u32) -> Option<()> {
        if is_of_core(at) {
            return Some(());
        }
        // What cannot be read is no memory of the program.
        if is_device(at) || self.word(at & !3).is_none() && !self.is_written(at & !3) {
            if !self.in_kernel.get() {
                self.devices_written.try_borrow_mut().ok()?.insert(at);
            }
            return self.device(at);
        }
        let mut known = self.known.try_borrow_mut().ok()?;
        let words = [at & !3, at.checked_add(Addr::from(bytes.clamp(1, 4)).checked_sub(1)?)? & !3];
        let before = known.get(&(at & !3)).copied().flatten();
        let value = value.and_then(|value| merged(before, at, value, bytes));
        self.written.try_borrow_mut().ok()?.extend(words);
        words.into_iter().for_each(|word| _ = known.insert(word, value));
        Some(())
    }
}

impl Live<'_> {
    fn done(&self, run: Run) -> Option<Run> {
        let devices = self.devices.try_borrow().ok()?.clone();
        let devices_written = self.devices_written.try_borrow().ok()?.clone();
        Some(Run { devices, devices_written, ..run })
    }
}

impl Program for Live<'_> {
    fn instructions(&self) -> InstructionSet {
        InstructionSet::Thumb
    }

    fn code(&self, at: Addr) -> Option<u16> {
        half_of(self.word(at & !3).filter(|_| !is_device(at))?, at)
    }

    fn constant(&self, at: Addr) -> Option<u32> {
        if is_of_core(at) {
            return None;
        }
        if is_device(at) {
            self.device(at)?;
            return None;
        }
        // A word that is not aligned is in two.
        let word = Some(at).filter(|at| at & 3 == 0).and_then(|at| self.word(at));
        if word.is_none() && !self.is_written(at & !3) {
            self.device(at)?;
        }
        word
    }
}

/// A word after so many of its bytes were written; `None` where it is not known, or where they are in two words.
fn merged(before: Option<u32>, at: Addr, value: u32, bytes: u32) -> Option<u32> {
    let mask = match bytes {
        4 if at & 3 == 0 => return Some(value),
        2 if at & 1 == 0 => 0xFFFF,
        1 => 0xFF,
        _ => return None,
    };
    let shift = u32::try_from(at & 3).ok()?.checked_mul(8)?;
    let moved = |bits: u32| bits.checked_shl(shift);
    Some(before? & !moved(mask)? | moved(value & mask)?)
}

/// Carries out the handler at an address, of a Cortex-M exception of this number. `word`: a word of memory, also of its code, at a
/// multiple of 4; `None` for what is not to be read. `is_kernel`: whether code at an address is of the kernel. `None` where its way is not
/// known: it depends on a device, or on what is not read.
#[must_use]
pub fn run(
    handler: Addr,
    number: u32,
    word: &dyn Fn(Addr) -> Option<u32>,
    is_kernel: &dyn Fn(Addr) -> bool,
) -> Option<Run> {
    let live = Live {
        word,
        known: RefCell::default(),
        written: RefCell::default(),
        devices: RefCell::default(),
        devices_written: RefCell::default(),
        in_kernel: Cell::new(false),
    };
    let mut state = State::new(InstructionSet::Thumb, [Value::Unknown; 4]);
    state.stores = Some(Vec::new());
    let (mut at, mut callers, mut own) = (handler & !1, Vec::new(), Vec::new());
    let mut accessed = BTreeSet::new();
    let (mut endless, mut again) = (Endless::default(), Again::default());
    // Its function, for another one.
    let mut has_left = true;
    for steps in 0..STEPS {
        if has_left {
            live.in_kernel.set(callers.iter().chain([&at]).any(|at| is_kernel(*at)));
        }
        if !live.in_kernel.get() {
            own.push(at);
        }
        let first = live.code(at)?;
        if is_stored_downwards(first) {
            return None;
        }
        let is_skipped = state.block.first() == Some(&false);
        let second = at.checked_add(2).and_then(|at| live.code(at)).unwrap_or_default();
        let place = InstructionSet::Thumb.accessed(first, second, &state).filter(|_| !is_skipped);
        let place = place.map(Addr::from).filter(|_| !live.in_kernel.get());
        accessed.extend(place);
        let is_last = steps >= STEPS.saturating_sub(LAST);
        if is_last && !live.in_kernel.get() {
            again.next(at, &state);
            endless.code.insert(at);
            endless.accessed.extend(place);
        }
        let (flow, next) = carry_out(at, &mut state, &live)?;
        if first == MRS && !is_skipped {
            let second = live.code(at.checked_add(2)?)?;
            if second & 0xFF == IPSR {
                state.set(second >> 8 & 0xF, Value::Is(number));
            }
        }
        for Stored { place, value, bytes } in state.stores.as_mut().map(std::mem::take)? {
            endless.writes |= is_last && matches!(place, Value::Is(_));
            match place {
                Value::Is(place) => live.write(place.into(), value.known(), bytes.into())?,
                Value::Frame(_) => {}
                _ => return None,
            }
        }
        if state.reads_unknown {
            return None;
        }
        has_left = !matches!(flow, Flow::Next | Flow::Branch(..));
        at = match flow {
            Flow::Next | Flow::Branch(_, Some(false)) => next,
            Flow::Branch(to, Some(true)) | Flow::Jump(Some(to)) => to & !1,
            Flow::Jumps(all) => {
                let [to] = <[Addr; 1]>::try_from(all).ok()?;
                to & !1
            }
            Flow::Select(ways) => {
                let [way] = <[Vec<bool>; 1]>::try_from(ways).ok()?;
                state.block = way;
                next
            }
            Flow::Call(Some(to)) if callers.len() < DEPTH => {
                callers.push(next);
                state.set(InstructionSet::Thumb.link(), Value::Unknown);
                to & !1
            }
            Flow::Returns => match callers.pop() {
                Some(caller) => caller,
                None => {
                    let steps = steps.saturating_add(1);
                    return live.done(Run { accessed, own, steps, ..Run::default() });
                }
            },
            Flow::Jump(None) if InstructionSet::Thumb.is_return(first) => callers.pop()?,
            _ => return None,
        };
    }
    endless.repeats = again.repeats();
    live.done(Run { accessed, own, steps: STEPS, endless: Some(endless), ..Run::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of code at 0x100 and of words.
    fn found(code: &[u16], words: &[(Addr, u32)]) -> Option<Run> {
        let half = |at: Addr| code.get(usize::try_from(at.checked_sub(0x100)?).ok()? / 2).copied();
        let word = |at: Addr| {
            let code = || Some(u32::from(half(at)?) | u32::from(half(at.checked_add(2)?).unwrap_or_default()) << 16);
            code().or_else(|| words.iter().find(|(place, _)| *place == at).map(|(_, word)| *word))
        };
        run(0x101, 24, &word, &|_| false)
    }

    /// push {r4, lr}; ldr r0, [pc, #16]; ldr r1, [r0]; cmp r1, #8; bge full; ldr r2, [pc, #12]; str r1, [r2]; pop {r4, pc};
    /// full: ldr r3, [r0, #4]; adds r3, #1; str r3, [r0, #4]; pop {r4, pc}; .word 0x20000000, 0x4000000c
    const HANDLER: [u16; 16] = [
        0xB510, 0x4805, 0x6801, 0x2908, 0xDA02, 0x4A04, 0x6011, 0xBD10, 0x6843, 0x3301, 0x6043, 0xBD10, 0x0000, 0x2000,
        0x000C, 0x4000,
    ];

    #[test]
    fn a_handler_that_returns_before_it_acknowledges_its_interrupt() {
        let of = |count| found(&HANDLER, &[(0x2000_0000, count), (0x2000_0004, 7)]).unwrap();
        let free = of(3);
        assert_eq!((free.devices, free.steps), ([0x4000_000C].into(), 8));
        let full = of(8);
        assert_eq!((full.devices, full.own.last().copied()), (BTreeSet::new(), Some(0x116)));
        assert_eq!(found(&HANDLER, &[]), None, "what decides is not known");
    }

    #[test]
    fn bytes_are_written_into_a_word() {
        assert_eq!(merged(Some(0x4433_2211), 0x2000_0001, 0xABCD, 1), Some(0x4433_CD11));
        assert_eq!(merged(Some(0x4433_2211), 0x2000_0002, 0xABCD, 2), Some(0xABCD_2211));
        assert_eq!(merged(None, 0x2000_0000, 7, 4), Some(7));
        assert_eq!(merged(None, 0x2000_0000, 7, 1), None, "the rest is not known");
        assert_eq!(merged(Some(1), 0x2000_0002, 7, 4), None, "in two words");
        assert_eq!(merged(Some(1), 0x2000_0003, 7, 2), None);
    }

    /// push {lr}; bl get; cmp r0, #0; bne there; pop {pc}; there: b there
    /// get: ldr r0, [pc, #8]; mrs r1, ipsr; str r1, [r0]; ldr r0, [r0]; subs r0, #24; bx lr; .word 0x20000000
    const CALLS: [u16; 16] = [
        0xB500, 0xF000, 0xF803, 0x2800, 0xD100, 0xBD00, 0x4803, 0xF3EF, 0x8105, 0x6001, 0x6800, 0x3818, 0x4770, 0xBF00,
        0x0000, 0x2000,
    ];

    #[test]
    fn what_a_function_writes_is_read_again() {
        let code = |branch| CALLS.iter().map(|half| if *half == 0xD100 { branch } else { *half }).collect::<Vec<_>>();
        let run = found(&code(0xD100), &[(0x2000_0000, 0)]).unwrap();
        let own = [0x100, 0x102, 0x10C, 0x10E, 0x112, 0x114, 0x116, 0x118, 0x106, 0x108, 0x10A];
        assert_eq!((run.own, run.devices), (own.to_vec(), BTreeSet::new()));
        let endless = found(&code(0xE7FE), &[(0x2000_0000, 0)]).unwrap();
        assert_eq!(endless.steps, STEPS, "a loop without an end");
        assert!(endless.endless.is_some_and(|endless| endless.repeats && !endless.writes));
    }

    #[test]
    fn what_a_device_says_is_not_known() {
        // ldr r0, [pc, #4]; ldr r1, [r0]; cmp r1, #0; beq . + 4; bx lr; .word 0x40000000
        assert_eq!(found(&[0x4802, 0x6801, 0x2900, 0xD000, 0x4770, 0x4770, 0x0000, 0x4000], &[]), None);
    }
}
