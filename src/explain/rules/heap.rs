//! The heap of the C library: what fails in `malloc` or `free` is most often a list of free memory that is damaged. newlib locks it by
//! `__malloc_lock`, which does nothing unless the program replaces it, or what it calls: threads that preempt each other then change the
//! list at the same time.
//!
//! Against it: a write past the end of memory that was allocated damages the list as well.

use std::collections::BTreeSet;

use super::super::usage::User;
use super::super::{Case, Confidence, Evidence, Finding};
use super::shared::names;
use super::words::place_of_function;
use crate::abi::Addr;
use crate::session::Place;

/// The functions that change the list (newlib, and its smaller variant).
const FUNCTIONS: [&str; 6] = ["_malloc_r", "_free_r", "_realloc_r", "_memalign_r", "malloc", "free"];
/// What they call to lock it.
const LOCK: &str = "__malloc_lock";

impl Finding {
    /// The same, where it came in a function of the heap, with those who use the heap and do not lock it. `place`: of the failure.
    pub(super) fn with_heap(self, place: Option<&Place>, case: &Case<'_>) -> Self {
        let places: Vec<Addr> = place.iter().flat_map(|place| &place.functions).map(|function| function.pc).collect();
        let Some((words, evidence)) = without_lock(&places, case) else { return self };
        let claim = format!("{}; {words}", self.claim);
        Self { claim, confidence: self.confidence.min(Confidence::Likely), ..self }
            .against(["that they came together there is inferred: a write past the end of allocated memory damages the heap as well"])
            .evidence([evidence])
            .next(format!("lock a mutex in {LOCK} and put it in __malloc_unlock, or allocate in one thread alone"))
    }
}

/// That several use the heap, and nothing locks it.
fn without_lock(places: &[Addr], case: &Case<'_>) -> Option<(String, Evidence)> {
    let usage = case.usage()?;
    let all: BTreeSet<Addr> = FUNCTIONS.iter().filter_map(|name| Some(case.look.symbol(name)?.address & !1)).collect();
    let is_of_heap =
        |pc: &Addr| case.look.function(*pc & !1).is_some_and(|function| all.contains(&(function.address & !1)));
    let lock = case.look.symbol(LOCK).filter(|_| places.iter().any(is_of_heap))?.address & !1;
    let users: BTreeSet<User> = usage.without_lock(&all);
    if users.len() < 2 || usage.locks(lock) {
        return None;
    }
    let words = format!(
        "{} use the heap of the C library, and {LOCK} does not lock it: they may change it at the same time",
        names(&users, case)
    );
    let text = format!("{LOCK} neither calls the kernel nor disables interrupts");
    Some((words, Evidence::symbol(lock, &place_of_function(lock, case), text)))
}
