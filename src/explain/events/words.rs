//! Payload words that say what is asked for and given: event flags, and the memory of pools.

use super::resumes::{READY, SUSPENDED};
use crate::abi::Addr;
use crate::catalogue::{ArgKind, Catalogue, Word};
use crate::kernel::{Kind, Wanted};
use crate::trace::{DefId, Event};

/// After these calls a thread may have any priority.
const SETS_PRIORITY: [&str; 3] = ["tx_thread_priority_change", "tx_thread_create", "tx_thread_delete"];

/// Where one definition has them.
#[derive(Debug, Clone, Copy)]
pub struct Places {
    memory: Word,
    buffer: Word,
    flags: Word,
    option: Word,
    current: Word,
    size: Word,
    suspended: Word,
    time: Word,
    held: Word,
    free: Word,
    sleep: Word,
    clock: Word,
    previous: Word,
    posture: Word,
    /// The thread that a call of `tx_thread_resume` is for, and the state in which it finds it.
    resumed: (Word, Word),
    /// The thread whose priority a call sets, also one that creates or deletes it.
    reprioritized: Word,
    /// True where one of these is of time.
    pub is_timed: bool,
}

impl Places {
    const NONE: Self = Self {
        memory: Word::NONE,
        buffer: Word::NONE,
        flags: Word::NONE,
        option: Word::NONE,
        current: Word::NONE,
        size: Word::NONE,
        suspended: Word::NONE,
        time: Word::NONE,
        held: Word::NONE,
        free: Word::NONE,
        sleep: Word::NONE,
        clock: Word::NONE,
        previous: Word::NONE,
        posture: Word::NONE,
        resumed: (Word::NONE, Word::NONE),
        reprioritized: Word::NONE,
        is_timed: false,
    };
}

/// By definition.
#[derive(Debug, Default)]
pub struct Fields(Vec<Places>);

impl Fields {
    /// Of a catalogue.
    pub fn of(catalogue: &Catalogue) -> Self {
        let places = |def: &crate::catalogue::EventDef| {
            let find = |is: &dyn Fn(&crate::catalogue::FieldDef) -> bool| {
                Word::at(def.fields.iter().position(|field| field.as_ref().is_some_and(is)))
            };
            let time = find(&|field| field.name == "new_time");
            let sleep = find(&|field| field.name == "sleep_value");
            let clock = find(&|field| field.name == "current_time");
            let of_resume = |name: &str| {
                let is_it = |field: &crate::catalogue::FieldDef| def.name == "tx_thread_resume" && field.name == name;
                find(&is_it)
            };
            Places {
                memory: find(&|field| field.name == "memory_ptr"),
                buffer: find(&|field| field.name == "source_ptr" || field.name == "destination_ptr"),
                size: find(&|field| field.name == "size_requested"),
                suspended: find(&|field| field.name == "suspended" || field.name == "suspended_count"),
                held: find(&|field| field.name == "enqueued" || field.name == "current_count"),
                free: find(&|field| field.name == "available_bytes"),
                flags: find(&|field| field.kind == ArgKind::Flags),
                current: find(&|field| field.name == "current_flags"),
                option: find(&|field| field.name == "get_option" || field.name == "set_option"),
                is_timed: [time, sleep, clock].iter().any(|word| word.is_some()),
                time,
                sleep,
                clock,
                previous: find(&|field| field.name == "previous_state"),
                posture: find(&|field| field.name == "new_interrupt_posture"),
                resumed: (of_resume("thread_ptr"), of_resume("thread_state")),
                reprioritized: find(&|field| SETS_PRIORITY.contains(&def.name.as_str()) && field.name == "thread_ptr"),
            }
        };
        Self(catalogue.iter().map(places).collect())
    }

    /// Where an event has them.
    pub fn of_event(&self, event: &Event) -> Places {
        let number = event.def.map(DefId::index);
        number.and_then(|number| self.0.get(number)).copied().unwrap_or(Places::NONE)
    }
}

impl Places {
    /// The memory that is allocated or released, 0 where none was; `None` where the event does not say.
    pub fn memory(&self, event: &Event, words: &[u64]) -> Option<Addr> {
        let bit = self.memory.index().and_then(|word| 1u8.checked_shl(u32::try_from(word).ok()?))?;
        self.memory.of(words).filter(|_| event.doubtful & bit == 0)
    }

    /// The buffer of a message.
    pub fn buffer(&self, words: &[u64]) -> Option<Addr> {
        self.buffer.of(words)
    }

    /// The bytes that are asked for.
    pub fn size(&self, words: &[u64]) -> Option<u64> {
        self.size.of(words)
    }

    /// For how many ticks of the kernel a thread asks to sleep.
    pub fn sleep(&self, words: &[u64]) -> Option<u64> {
        self.sleep.of(words)
    }

    /// The kernel's count of ticks, where a call asks for it.
    pub fn clock(&self, words: &[u64]) -> Option<u64> {
        self.clock.of(words)
    }

    /// What a call of `tx_interrupt_control` passes: it enables or disables interrupts.
    pub fn posture(&self, words: &[u64]) -> Option<u64> {
        self.posture.of(words)
    }

    /// The thread whose priority a call sets.
    pub fn reprioritized(&self, words: &[u64]) -> Option<Addr> {
        self.reprioritized.of(words)
    }

    /// The thread that a call is to resume, and the state in which it finds it.
    pub fn resumed(&self, words: &[u64]) -> Option<(Addr, u64)> {
        self.resumed.0.of(words).zip(self.resumed.1.of(words))
    }

    /// True where a thread is made ready that was suspended by a call.
    pub fn was_suspended(&self, words: &[u64]) -> bool {
        self.previous.of(words) == Some(SUSPENDED)
    }

    /// True where a thread is made ready that waited for no object: it slept, or was suspended.
    pub fn waited_for_none(&self, words: &[u64]) -> bool {
        self.previous
            .of(words)
            .is_some_and(|state| u32::try_from(state).is_ok_and(|state| Kind::of_state(state).is_none()))
    }

    /// True where a thread is made ready that was so before.
    pub fn was_ready(&self, words: &[u64]) -> bool {
        self.previous.of(words) == Some(READY)
    }

    /// The new time of a call that changes the kernel's count of ticks.
    pub fn set_time(&self, words: &[u64]) -> Option<u64> {
        self.time.of(words)
    }

    /// True where memory that is released goes to a thread that waits for it.
    pub fn is_handed_over(&self, words: &[u64]) -> bool {
        self.suspended.of(words).is_some_and(|threads| threads != 0)
    }

    /// What a queue or a semaphore holds.
    pub fn held(&self, words: &[u64]) -> Option<u64> {
        self.held.of(words)
    }

    /// Where something is given while threads wait: the bytes that a pool has for them, 0 for event flags.
    pub fn free(&self, words: &[u64]) -> Option<u64> {
        let free = if self.free.is_some() { self.free.of(words) } else { self.flags(words).map(|_| 0) };
        free.filter(|_| self.is_handed_over(words))
    }

    /// The event flags that a thread asks for.
    pub fn wanted(&self, words: &[u64]) -> Option<Wanted> {
        let (flags, option) = (self.flags.of(words)?, self.option.of(words)?);
        Some(Wanted { flags, all: option & 2 != 0, clears: option & 1 != 0 })
    }

    /// The event flags that a thread asks for and takes away, and those that it gets at once.
    pub fn cleared(&self, words: &[u64]) -> Option<Cleared> {
        let (wanted, option) = (self.flags.of(words)?, self.option.of(words)?);
        Some(Cleared::of(wanted, self.current.of(words)?, option))
    }

    /// The event flags that a call keeps which clears all others.
    pub fn kept(&self, words: &[u64]) -> Option<u64> {
        let option = self.option.of(words)?;
        self.flags.of(words).filter(|_| option & 2 != 0)
    }

    /// The event flags that are set; `None` for a call that clears some.
    pub fn flags(&self, words: &[u64]) -> Option<u64> {
        let option = self.option.of(words)?;
        self.flags.of(words).filter(|_| option & 2 == 0)
    }
}

/// What a thread asks for with an option that clears.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cleared {
    /// The event flags that it takes away, now or when its wait ends; 0 where it leaves them set.
    pub asked: u64,
    /// Those that it takes at once.
    pub taken: u64,
    /// Those that it gets at once and leaves set.
    pub left: u64,
    /// Where it asks for several at once and not all are there: those that it asks for, and those of them that are there.
    pub lacks: Option<(u64, u64)>,
}

impl Cleared {
    /// `option`: 1 clears, 2 asks for all of them.
    const fn of(wanted: u64, current: u64, option: u64) -> Self {
        let there = wanted & current;
        let asked = if option & 1 != 0 { wanted } else { 0 };
        let is_given = there != 0 && (option & 2 == 0 || there == wanted);
        let got = if is_given { there } else { 0 };
        let lacks = if option & 2 != 0 && !is_given { Some((wanted, there)) } else { None };
        Self { asked, taken: got & asked, left: got & !asked, lacks }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_taken_by_calls_that_clear_and_get_them() {
        assert_eq!(Cleared::of(1, 3, 1), Cleared { asked: 1, taken: 1, left: 0, lacks: None });
        assert_eq!(Cleared::of(1, 2, 1), Cleared { asked: 1, taken: 0, left: 0, lacks: None }, "it waits");
        assert_eq!(Cleared::of(1, 1, 0), Cleared { asked: 0, taken: 0, left: 1, lacks: None }, "it leaves them set");
        assert_eq!(Cleared::of(3, 1, 3), Cleared { asked: 3, taken: 0, left: 0, lacks: Some((3, 1)) }, "it wants both");
        assert_eq!(Cleared::of(3, 7, 3), Cleared { asked: 3, taken: 3, left: 0, lacks: None });
    }
}
