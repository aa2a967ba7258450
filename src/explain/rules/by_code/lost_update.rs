//! Why a thread waits, where a variable decides it: a count of what is under way, or a map of what is free. Where an interrupt, or another
//! thread, changes the variable as well, and the code that changes it neither disables interrupts nor holds a lock, one change may be
//! lost: it is read by one, changed by the other, and written back by the first. The thread then waits for what is there.
//!
//! Against it: the two may never come together.

use std::collections::BTreeSet;

use super::super::super::usage::{Lock, Store, User};
use super::super::super::{Evidence, Finding};
use super::super::words::{function_at, place_at};
use super::ByCode;
use crate::abi::{Addr, Region};
use crate::cpu::Architecture;

/// The most functions that change it and are looked at.
const MOST: usize = 16;
/// What speaks against it.
const AGAINST: &str = "that a change was lost is inferred from the program's code: the two may never come together";

/// Such a variable.
pub(super) struct LostUpdate {
    /// Behind the claim: `; it waits because line_map is 0x0: ...`.
    words: String,
    evidence: Vec<Evidence>,
    next: String,
}

impl ByCode<'_, '_> {
    /// The variable by which a thread came to wait, where changes of it may be lost.
    pub(super) fn lost_update(&self, thread: Addr) -> Option<LostUpdate> {
        let back = self.case.cpus?.call(thread)?.pc;
        let function = self.case.look.function(back.checked_sub(1)? & !1)?.address & !1;
        let len = |at: Addr| self.case.look.len_in_word(at);
        let deciding = self.usage.deciding(function, back & !1, &|at| self.variable_word(at), &len);
        deciding.into_iter().find_map(|(at, word)| self.lost_at(thread, at, word))
    }

    fn lost_at(&self, thread: Addr, at: Addr, word: u32) -> Option<LostUpdate> {
        let variable = self.case.look.variable(at)?;
        let variable = Region { start: variable.address, len: variable.size };
        // What is computed of what it was.
        let stores = self.usage.stores(at, variable, &|_| false);
        let computed: Vec<_> = stores.into_iter().filter(|store| store.value.is_none()).collect();
        let accesses = self.usage.accesses(Region { start: at, len: 1 }, variable);
        let mut functions = BTreeSet::new();
        let first = computed.iter().filter(|store| functions.insert(store.function)).take(MOST);
        let users: Vec<(Store, User)> = first
            .flat_map(|store| self.usage.all_callers_of(store.function).into_iter().map(move |user| (*store, user)))
            .collect();
        let is_riscv = self.case.kernel.and_then(|kernel| kernel.processor) != Some(Architecture::CortexM);
        let lock = |(store, user): &(Store, User)| {
            accesses.iter().find(|one| one.user == *user && one.function == store.function).map(|one| one.lock)
        };
        // A mutex keeps off threads alone.
        let can_come_between = |own: &(Store, User), other: &(Store, User)| match (own.1, other.1) {
            (User::Thread(_), User::Handler(_)) => matches!(lock(own), Some(Lock::None | Lock::Object(_))),
            // The handler of traps of a RISC-V calls those of its interrupts through pointers.
            (User::Thread(_), User::Other(_)) => is_riscv && matches!(lock(own), Some(Lock::None | Lock::Object(_))),
            (User::Thread(one), User::Thread(other)) => one != other && lock(own) == Some(Lock::None),
            _ => false,
        };
        let pair = users.iter().find_map(|own| {
            let others = users.iter().filter(|other| other.0.function != own.0.function);
            others.copied().find(|other| can_come_between(own, other)).map(|other| (*own, other))
        });
        let ((own, user), (other, by)) = pair?;
        let (name, holds) = (self.case.look.place(at)?, self.case.look.holds(at, word)?);
        let [first, second] = [own.function, other.function].map(|at| function_at(at, self.case));
        let shown = |store: Addr, user: User| {
            let text = format!("{} changes {name} here", self.name(user));
            Evidence::symbol(store, &place_at(store, self.case), text)
        };
        let waiter = self.case.label(thread);
        let is_handler = matches!(by, User::Handler(_) | User::Other(_));
        let (what, keep) =
            if is_handler { ("disabling interrupts", "disable interrupts") } else { ("a lock", "take a lock") };
        Some(LostUpdate {
            words: format!(
                "; it waits because {holds}: {first} changes that without {what}, and {second} changes it too, so one change may be lost"
            ),
            evidence: vec![
                Evidence::memory(at, format!("{holds}: with another value {waiter} would not wait here")),
                shown(own.at, user),
                shown(other.at, by),
            ],
            next: format!("{keep} in {first} from where it reads {name} to where it writes it back"),
        })
    }
}

impl Finding {
    /// The same, with why the thread waits.
    pub(super) fn with_lost_update(self, lost: Option<LostUpdate>) -> Self {
        let Some(LostUpdate { words, evidence, next }) = lost else { return self };
        let claim = format!("{}{words}", self.claim);
        Self { claim, ..self }.against([AGAINST]).evidence(evidence).next(next)
    }
}
