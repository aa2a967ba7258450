//! The heap of the C library: what fails in `malloc` or `free`, or by a pointer to allocated memory, is often a list of free memory that is
//! damaged. newlib locks it by `__malloc_lock`, which does nothing unless the program replaces it, or what it calls: threads that preempt
//! each other then change the list at the same time, and two of them may get the same memory.
//!
//! Against it: a write past the end of memory that was allocated damages the heap as well.

use std::collections::BTreeSet;

use super::super::usage::User;
use super::super::{Case, Confidence, Evidence, Finding};
use super::shared::names;
use super::words::place_of_function;
use crate::abi::Addr;
use crate::session::Function;

/// The functions that change the list (newlib, and its smaller variant).
const FUNCTIONS: [&str; 6] = ["_malloc_r", "_free_r", "_realloc_r", "_memalign_r", "malloc", "free"];
/// Those that an application calls. What the C library calls itself, as in `printf`, it may never come to.
const OF_APPLICATIONS: [&str; 4] = ["malloc", "free", "realloc", "calloc"];
/// What they call to lock it.
const LOCK: &str = "__malloc_lock";

/// How a failure may be one of the heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Suspect {
    /// It is, where it came in a function of the heap.
    Place,
    /// By a pointer of which nothing else is known, in a function that allocates memory or releases it.
    Pointer,
}

impl Finding {
    /// The same, where the failure may be one of the heap, with those who use the heap and do not lock it. `functions`: those that it
    /// came in.
    pub(super) fn with_heap(self, functions: &[Function], suspect: Suspect, case: &Case<'_>) -> Self {
        // A return address that was found on the stack may be of an older call.
        let known = functions.iter().take_while(|function| !function.is_inferred());
        let places = known.filter_map(|function| case.look.function(function.pc & !1));
        let places: BTreeSet<Addr> = places.map(|function| function.address & !1).collect();
        let Some((words, evidence)) = without_lock(&places, suspect, case) else { return self };
        let claim = format!("{}; {words}", self.claim);
        Self { claim, confidence: self.confidence.min(Confidence::Likely), ..self }
            .against(["that they came together there is inferred: a write past the end of allocated memory damages the heap as well"])
            .evidence([evidence])
            .next(format!("lock a mutex in {LOCK} and put it in __malloc_unlock, or allocate in one thread alone"))
    }
}

/// That several use the heap, and nothing locks it.
fn without_lock(places: &BTreeSet<Addr>, suspect: Suspect, case: &Case<'_>) -> Option<(String, Evidence)> {
    let usage = case.usage()?;
    let all = |names: &[&str]| -> BTreeSet<Addr> {
        names.iter().filter_map(|name| Some(case.look.symbol(name)?.address & !1)).collect()
    };
    let (of_heap, of_applications) = (all(&FUNCTIONS), all(&OF_APPLICATIONS));
    let functions = if !places.is_disjoint(&of_heap) {
        of_heap
    } else if suspect == Suspect::Pointer && usage.calls_one(places, &of_applications) {
        of_applications
    } else {
        return None;
    };
    let lock = case.look.symbol(LOCK)?.address & !1;
    let users: BTreeSet<User> = usage.without_lock(&functions);
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
