//! An access that the MPU forbids, to a variable of the program: the address may be right and the protection wrong. Which functions
//! write the MPU's registers while threads run, and for whom, is known from the code.

use std::collections::BTreeSet;

use super::super::super::usage::User;
use super::super::super::{Evidence, Finding};
use super::super::words::place_of_function;
use super::Look;
use crate::abi::{Addr, Region};

/// The registers of the MPU, and those that change what it allows: CTRL, RNR, RBAR, and RASR, in Armv8-M RLAR (Armv7-M Architecture
/// Reference Manual, B3.5.4; Armv8-M has more behind them).
const MPU: Region = Region { start: 0xE000_ED90, len: 0x40 };
const CHANGING: [Addr; 4] = [0xE000_ED94, 0xE000_ED98, 0xE000_ED9C, 0xE000_EDA0];
/// The most functions that are named, and the most threads.
const FEW: usize = 3;

impl Look<'_, '_> {
    /// Adds to a fault who writes the MPU's registers.
    pub(super) fn with_protection(&self, fault: Finding) -> Finding {
        let accessed = self.accessed().filter(|_| self.has("DACCVIOL"));
        let variable = accessed.and_then(|at| self.case.look.variable(at));
        let (Some(_), Some(usage)) = (variable, self.case.usage()) else { return fault };
        let thread = |user: User| if let User::Thread(at) = user { Some(at) } else { None };
        let callers = |function: Addr| usage.callers_of(function).into_iter().filter_map(thread).collect::<Vec<_>>();
        let stores = CHANGING.into_iter().flat_map(|word| usage.stores(word, MPU, &|_| false));
        let functions: BTreeSet<Addr> = stores.map(|store| store.function).collect();
        let all = functions.into_iter().map(|function| (function, callers(function)));
        let all: Vec<(Addr, Vec<Addr>)> = all.filter(|(_, threads)| !threads.is_empty()).collect();
        let mut threads: Vec<Addr> = all.iter().flat_map(|(_, threads)| threads).copied().collect();
        threads.sort_unstable();
        threads.dedup();
        let names: Vec<String> = threads.iter().map(|thread| self.case.label(*thread)).collect();
        let places: Vec<String> = all.iter().map(|(at, _)| place_of_function(*at, self.case)).collect();
        if places.is_empty() {
            return fault;
        }
        let (write, call) =
            (if places.len() == 1 { "writes" } else { "write" }, if names.len() == 1 { "calls" } else { "call" });
        let claim = format!(
            "{}; {}, which {} {call}, {write} the MPU's registers",
            fault.claim,
            listed(&places),
            listed(&names)
        );
        Finding { claim, ..fault }
            .against(["that this changed what the MPU allows there is not known: who writes its registers is inferred from the code"])
            .evidence(
                all.iter().zip(&places).map(|((at, _), place)| {
                    Evidence::symbol(*at, place, "the MPU's registers are written here".to_owned())
                }),
            )
            .next("look at which region the MPU has there, and at who had changed it before this access")
    }
}

/// `a and b`, `a, b, c and 2 more`.
fn listed(names: &[String]) -> String {
    let (shown, rest) = names.split_at(names.len().min(FEW));
    match (shown, rest.len()) {
        ([first @ .., last], 0) if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        (shown, 0) => shown.join(", "),
        (shown, more) => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_left_out_are_counted() {
        let of = |names: &[&str]| listed(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(of(&["a"]), "a");
        assert_eq!(of(&["a", "b"]), "a and b");
        assert_eq!(of(&["a", "b", "c"]), "a, b and c");
        assert_eq!(of(&["a", "b", "c", "d", "e"]), "a, b, c and 2 more");
    }
}
