//! What an access that failed was to, and where its pointer came from: the word that it was read from, the caller that passed it, or
//! a variable that holds it.

use super::super::super::address::NULL;
use super::super::super::graph::Graph;
use super::super::super::{Case, Evidence};
use super::super::passed::Access;
use super::super::pointer::{NEAR, Pointer, stack_of};
use super::super::set_by::SetBy;
use super::super::static_pointers::{self, StaticPointer};
use super::super::wrong_index::WrongIndex;
use super::super::{control_blocks, message, pools};
use super::chosen::can_fail;
use super::{Look, PART, riscv};
use crate::abi::{Addr, Region};
use crate::cpu::{Effect, Registers};
use crate::kernel::{Kind, Thread};
use crate::session::Place;
use crate::unwind::Origin;

/// What `mcause` says of a store that was refused: an access fault, a page fault.
const STORES: [u64; 2] = [7, 15];
/// The most characters of a text in front of an address.
const TEXT: u64 = 64;

impl Look<'_, '_> {
    /// `a write of 4 bytes to 0x0 (a null pointer)`.
    pub(super) fn access(&self, effect: Effect) -> String {
        let said = effect.address().and_then(|at| self.what(at));
        said.map_or_else(|| effect.words(), |said| format!("{} ({said})", effect.words()))
    }

    /// `0x0 (a null pointer)`.
    pub(super) fn named(&self, at: Addr) -> String {
        self.what(at).map_or_else(|| format!("{at:#x}"), |said| format!("{at:#x} ({said})"))
    }

    /// What is at an address: `in greeting, in .rodata: the text "hello"`.
    pub(super) fn what(&self, at: Addr) -> Option<String> {
        let all: Vec<&str> = self.cpus.at(at).into_iter().chain(self.cpus.constant(at)).collect();
        (!all.is_empty()).then(|| all.join(", "))
    }

    /// The address of the access that failed: that which was recorded, else that of the instruction.
    pub(super) fn accessed(&self) -> Option<Addr> {
        let read = self.address().map(|(at, _)| at);
        read.or_else(|| self.place?.effect?.address()).or_else(|| riscv::accessed(self.cpu))
    }

    /// What the instruction at the place was about to do, where the address that was recorded is its own: `bit` says that data failed.
    pub(super) fn refused(&self, bit: &str) -> Option<String> {
        let effect = self.place?.effect.filter(|_| matches!(bit, "PRECISERR" | "DACCVIOL"))?;
        let (failed, _) = self.address()?;
        (self.way.is_none() && effect.address() == Some(failed)).then(|| self.access(effect))
    }

    /// The place with the register that the instruction made its address of, where the handler of the fault has used that since: the
    /// address that failed shows it.
    pub(super) fn with_failed(&self) -> Option<Place> {
        let is_of_data = self.has("PRECISERR") || self.has("DACCVIOL");
        let place = self.place.filter(|place| is_of_data && place.effect.is_none() && !place.is_outside_code)?;
        let ((failed, _), pc) = (self.address()?, place.registers.pc()?);
        let code = self.case.look.bytes(pc, 4).filter(|_| self.case.look.function(pc).is_some())?;
        let (registers, effect) = Effect::of_failed(&place.registers, &code, failed)?;
        Some(Place { registers, effect: Some(effect), ..place.clone() })
    }

    /// True for a write to what the program's file says is code or a constant.
    pub(super) fn writes_constant(&self) -> bool {
        let by_trap = self.cpu.registers.get("mcause").is_some_and(|cause| STORES.contains(&cause));
        let writes = by_trap
            || self.is_of_pointer() && self.place.is_some_and(|place| matches!(place.effect, Some(Effect::Write(..))));
        let is_constant = |at: Addr| at >= NULL && self.cpus.is_read_only(at);
        writes && self.way.is_none() && self.accessed().is_some_and(is_constant)
    }

    /// True where it is the pointer of the instruction at the place, or that of a jump to it, that failed.
    pub(super) fn is_of_pointer(&self) -> bool {
        let Some(place) = self.place else { return false };
        let at = place.effect.and_then(Effect::address);
        let is_it = |(failed, _): (Addr, _)| at.is_none_or(|at| failed.abs_diff(at) < PART);
        match self.bits().find(|bit| bit.kind.is_some()).map(|bit| bit.name.as_str()) {
            Some("PRECISERR" | "DACCVIOL" | "UNALIGNED") => self.way.is_none() && self.address().is_none_or(is_it),
            Some("IBUSERR" | "IACCVIOL" | "INVSTATE" | "UNDEFINSTR") => self.way.is_some(),
            Some(_) => false,
            None => !self.knows_bits() && can_fail(place, self.cpus),
        }
    }

    /// Where the pointer was read from, where it is the pointer that failed; or the divisor, where that is 0.
    pub(super) fn pointer(&self, graph: &Graph) -> Option<Pointer> {
        let place = self.place?;
        let divisor = || Pointer::of_divisor(place, self.case, graph).filter(|_| self.may_be_division());
        let pointer = || Pointer::of_place(place, self.way.as_ref(), self.case, graph);
        let is_it = || self.is_of_pointer();
        let by_caller = || {
            let fails = if place.effect == Some(Effect::DivideByZero) { self.may_be_division() } else { is_it() };
            let at = place.registers.pc().filter(|_| self.way.is_none() && fails)?;
            let access = Access { at, failed: self.accessed(), registers: &place.registers };
            Pointer::of_caller(&access, place, self.case, graph)
        };
        divisor().or_else(|| if is_it() { pointer() } else { None }).or_else(by_caller)
    }

    /// The place in memory that holds the pointer, in what the variables of the function lead to.
    pub(super) fn chained(&self, graph: &Graph) -> Option<Pointer> {
        let (at, registers) = self.instruction()?;
        let access = Access { at, failed: Some(self.accessed()?), registers: &registers };
        Pointer::of_chain(&access, self.functions(), self.case, graph)
    }

    /// False where the registers say that the fault is no division by zero.
    fn may_be_division(&self) -> bool {
        self.way.is_none() && (!self.knows_bits() || self.has("DIVBYZERO"))
    }

    /// The same of a RISC-V.
    pub(super) fn pointer_of_trap(&self, graph: &Graph) -> Option<Pointer> {
        if self.outer().is_some() {
            return None;
        }
        let (at, registers) = riscv::access(self.cpu, self.thread, self.way.as_ref(), self.case)?;
        Pointer::of(at, &registers, self.thread.and_then(stack_of), self.case, graph)
    }

    /// The pointer that the instruction needed at which the trap or interrupt came within whose handler this one came: where the access
    /// that failed here was near it, both failed by it.
    fn base_of_outer(&self, outer: &Place) -> Option<Addr> {
        let (at, failed) = (outer.registers.pc()?, self.accessed()?);
        let (_, base) = Access { at, failed: Some(failed), registers: &outer.registers }.base(self.case)?;
        let is_it = |base: &Addr| *base >= NULL && base.abs_diff(failed) < NEAR && self.cpus.has(*base) == Some(false);
        base.filter(is_it)
    }

    /// `; its code is in RAM, ...`: where an instruction is undefined that the program itself may have written over.
    pub(super) fn code_in_ram(&self) -> Option<String> {
        let pc = self.place?.registers.pc().filter(|_| self.way.is_none() && self.has("UNDEFINSTR"))?;
        let start = self.case.look.function(pc)?.address & !1;
        let is_written = self.cpus.writes(Region { start, len: 4 });
        let by = || control_blocks::writer(start, self.case);
        is_written.then(|| format!("; its code is in RAM, and may have been written over, past the end of {}", by()))
    }

    /// The instruction whose access failed, with the registers in front of it.
    pub(super) fn instruction(&self) -> Option<(Addr, Registers)> {
        if self.way.is_some() {
            return None;
        }
        let place =
            self.place.filter(|place| self.is_of_pointer() && place.effect.is_some_and(|e| e.address().is_some()));
        let of_place = || Some((place?.registers.pc()?, place?.registers.clone()));
        of_place().or_else(|| riscv::access(self.cpu, self.thread, None, self.case))
    }

    /// That the last wait of the thread ended as its object was deleted: the call returned `TX_DELETED`, and gave nothing.
    pub(super) fn deleted(&self) -> Option<(String, Evidence)> {
        let (thread, events) = (self.thread.filter(|_| self.within.is_none())?, self.case.events?);
        let (stored, by, seq) = events.activity(thread.address)?.deleted?;
        let kind = events.kind(stored).map_or("object", Kind::name);
        let named = events.name(stored).map(str::to_owned).or_else(|| self.case.look.block(stored));
        let object = named.map_or_else(|| format!("the {kind} at {stored:#x}"), |name| format!("{kind} {name}"));
        let threads = || self.case.kernel.into_iter().flat_map(|kernel| &kernel.threads);
        let by = by.and_then(|by| threads().find(|thread| events.is(thread.address, by))).map(Thread::label);
        let by = by.map_or_else(String::new, |by| format!(" by {by}"));
        let name = thread.label();
        let words = format!(
            "before it, {object} was deleted{by} while {name} waited for it, so that its call got nothing (TX_DELETED)"
        );
        Some((words, Evidence::event(seq, format!("the wait of {name} for {object} ends, as it is deleted{by}"))))
    }

    /// That the thread went on without a lock that it had asked for: it gave it back without having it.
    pub(super) fn went_without_lock(&self) -> Option<(String, Evidence)> {
        let (thread, events) = (self.thread.filter(|_| self.within.is_none())?, self.case.events?);
        let one = events.tries.not_owned(events.stored(thread.address))?;
        let (name, lock) = (thread.label(), self.case.object(one.lock));
        let how = one.failed.map_or_else(String::new, |seq| format!(": it had asked for it in vain (event {seq})"));
        let words = format!("before it, {name} gave back {lock} without owning it{how}");
        Some((words, Evidence::event(one.put, format!("{name} gives back {lock}, which it does not own"))))
    }

    /// That a thread whose null pointer failed got no memory before.
    pub(super) fn got_no_memory(&self) -> Option<(String, Evidence)> {
        let thread = self.thread.filter(|_| self.within.is_none() && self.way.is_none())?;
        self.accessed().filter(|at| *at < NULL)?;
        let (pool, bytes) = thread.got_no_memory()?;
        let object = self.case.kernel?.object(pool)?;
        let (what, asked) = match object.kind {
            Kind::BytePool => (format!("{bytes} bytes"), bytes),
            Kind::BlockPool => ("a block".to_owned(), 1),
            _ => return None,
        };
        let (name, label) = (thread.label(), self.case.object(pool));
        let words = format!(
            "before it, {name} waited for {what} of {label}{}, and got none (TX_NO_MEMORY)",
            pools::room(pool, asked, self.case)
        );
        let text = format!("{name}: its last call that waited was for {what} of {label}, and returned TX_NO_MEMORY");
        Some((words, Evidence::memory(thread.address, text)))
    }

    /// That the pointer that failed came in a message.
    pub(super) fn brought(&self) -> Option<(String, Evidence)> {
        let (thread, failed) = (self.thread?, self.accessed().filter(|failed| *failed >= NULL)?);
        let is_of_thread = self.within.is_none() && self.way.is_none() && self.is_of_pointer();
        let by_message = || {
            let brought = message::brought(thread.address, failed, self.case);
            brought.or_else(|| message::of_stack(thread.address, self.case))
        };
        if is_of_thread { by_message() } else { None }
    }

    /// The same of the word that it was read from, by the code of the functions on the stack.
    pub(super) fn brought_by_code(&self, word: Addr) -> Option<(String, Evidence)> {
        let thread = self.thread.filter(|_| self.within.is_none())?;
        let of_place = |place: &Place| Some((place.registers.pc()? & !1, place.registers.sp()?));
        let of_trap = || Some((riscv::trap_pc(self.cpu)?, self.cpu.failed.as_ref()?.sp?));
        let at = self.place.map_or_else(of_trap, of_place)?;
        message::brought_by_code(word, thread, at, self.functions(), self.case)
    }

    /// The function that passed the pointer that failed, or the divisor.
    pub(super) fn passed(&self) -> Option<String> {
        let divides = |place: &&Place| place.effect == Some(Effect::DivideByZero) && self.may_be_division();
        let division =
            || self.place.filter(divides).and_then(|place| Some((place.registers.pc()?, place.registers.clone())));
        let (at, registers) = self.instruction().or_else(division)?;
        Access { at, failed: self.accessed(), registers: &registers }.passed(self.functions(), self.case)
    }

    /// Variables that hold the pointer that failed: the address itself, or what the instruction adds to.
    pub(super) fn kept(&self) -> Kept {
        let find = || {
            if let Some(outer) = self.outer() {
                // Its handler uses variables of the program, too.
                return self.kept_of(&[self.base_of_outer(outer)?], &|one| one.is_pointer == Some(true));
            }
            let (at, registers) = self.instruction()?;
            let failed = self.accessed()?;
            let base = Access { at, failed: Some(failed), registers: &registers }.base(self.case);
            let base = base.and_then(|(_, value)| value);
            let base = base.filter(|base| *base != failed && base.abs_diff(failed) < NEAR);
            let values: Vec<Addr> = [Some(failed), base].into_iter().flatten().filter(|value| *value >= NULL).collect();
            let kept = self.kept_of(&values, &|one| self.may_be_origin(one)).or_else(|| self.kept_of_text(failed))?;
            Some(Kept { base: kept.base.filter(|base| *base != failed), ..kept })
        };
        find().unwrap_or_default()
    }

    /// Variables that hold the first of these that some hold.
    fn kept_of(&self, values: &[Addr], is: &dyn Fn(&StaticPointer) -> bool) -> Option<Kept> {
        values.iter().find_map(|value| {
            let all = static_pointers::into(Region { start: *value, len: 1 }, self.case);
            let all: Vec<StaticPointer> = all.into_iter().filter(is).collect();
            (!all.is_empty()).then_some(Kept { all, base: Some(*value) })
        })
    }

    /// Variables that point to the beginning of a constant text in which the address that failed is.
    fn kept_of_text(&self, failed: Addr) -> Option<Kept> {
        let from =
            failed.checked_sub(TEXT).filter(|from| self.cpus.is_read_only(failed) && self.cpus.is_read_only(*from))?;
        let bytes = self.case.look.bytes(from, TEXT)?;
        let is_text = |byte: &&u8| byte.is_ascii_graphic() || **byte == b' ';
        let before = u64::try_from(bytes.iter().rev().take_while(is_text).count()).ok()?;
        let start = failed.checked_sub(before).filter(|start| *start != failed && before < TEXT)?;
        self.kept_of(&[start], &|one| self.may_be_origin(one))
    }

    /// False for a number, and for what the handler of the fault writes: it may store the address.
    fn may_be_origin(&self, one: &StaticPointer) -> bool {
        let own = self.cpu.functions.iter().take_while(|function| function.origin != Origin::Exception);
        let own = own.filter_map(|function| self.case.look.function(function.pc.saturating_sub(1)));
        let is_of_handler = own.map(|function| function.address & !1).any(|at| one.users.contains(&at));
        one.is_pointer != Some(false) && !is_of_handler
    }
}

/// Variables that hold a pointer that failed. They are evidence and no part of the claim: over a link memory is not searched for them,
/// and what a fault is called does not depend on how it is read.
#[derive(Default)]
pub(super) struct Kept {
    all: Vec<StaticPointer>,
    /// What they hold, where that is not the address that failed.
    base: Option<Addr>,
}

impl Kept {
    /// The only one of them, where it is a pointer.
    fn only(&self) -> Option<&StaticPointer> {
        match self.all.as_slice() {
            [one] if one.is_pointer == Some(true) => Some(one),
            _ => None,
        }
    }

    /// Who sets the only one of them.
    pub fn set_by(&self, case: &Case<'_>) -> Option<SetBy> {
        self.only().and_then(|one| SetBy::of(one.evidence.address?, one.evidence.value?, case))
    }

    /// Who may have written over the only one of them; and where to look then, with that.
    pub fn overwritten(&self, case: &Case<'_>) -> Option<WrongIndex> {
        let one = self.only()?;
        let wrong = WrongIndex::of(one.evidence.address?, case)?;
        let what = if self.base.is_some() { "the pointer" } else { "this address" };
        Some(WrongIndex { words: format!("{} holds {what}; {}", one.name, wrong.words), ..wrong })
    }

    /// What to look at.
    pub fn next(&self, set_by: Option<&SetBy>) -> Option<String> {
        let holds = |base: Addr| format!("{base:#x}, of which the address was made");
        let what = self.base.map_or_else(|| "this address".to_owned(), holds);
        let by = set_by
            .and_then(|set_by| set_by.words.as_ref())
            .map_or_else(String::new, |words| format!("; {}", words.of("it")));
        self.only().map(|one| format!("look for who sets {}: it holds {what}{by}", one.name))
    }

    /// Each of them.
    pub fn evidence(self) -> impl Iterator<Item = Evidence> {
        self.all.into_iter().map(|one| one.evidence)
    }
}
