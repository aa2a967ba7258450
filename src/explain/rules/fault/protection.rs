//! An access that the MPU forbids, to a variable of the program: the address may be right and the protection wrong. Which functions
//! set up the MPU while threads run, and for whom, is known from the code.

use super::super::super::usage::User;
use super::super::super::{Evidence, Finding};
use super::super::words::place_of_function;
use super::Look;
use crate::abi::{Addr, Region};

/// The registers of the MPU (Armv7-M Architecture Reference Manual, B3.5.4; Armv8-M has more behind them).
const MPU: Region = Region { start: 0xE000_ED90, len: 0x40 };
/// The most functions that are named, and the most threads.
const FEW: usize = 3;

impl Look<'_, '_> {
    /// Adds to a fault who sets up the MPU.
    pub(super) fn with_protection(&self, fault: Finding) -> Finding {
        let accessed = self.accessed().filter(|_| self.has("DACCVIOL"));
        let variable = accessed.and_then(|at| self.case.look.variable(at));
        let (Some(_), Some(usage)) = (variable, self.case.usage()) else { return fault };
        let thread = |user: User| if let User::Thread(at) = user { Some(at) } else { None };
        let callers = |function: Addr| usage.callers_of(function).into_iter().filter_map(thread).collect::<Vec<_>>();
        let all = self.case.functions_with(MPU).into_iter().map(|function| (function, callers(function)));
        let all: Vec<(Addr, Vec<Addr>)> = all.filter(|(_, threads)| !threads.is_empty()).take(FEW).collect();
        let mut threads: Vec<Addr> = all.iter().flat_map(|(_, threads)| threads).copied().collect();
        threads.sort_unstable();
        threads.dedup();
        let names: Vec<String> = threads.iter().take(FEW).map(|thread| self.case.label(*thread)).collect();
        let places: Vec<String> = all.iter().map(|(at, _)| place_of_function(*at, self.case)).collect();
        if places.is_empty() {
            return fault;
        }
        let (set, call) =
            (if places.len() == 1 { "sets" } else { "set" }, if names.len() == 1 { "calls" } else { "call" });
        let claim = format!(
            "{}; {}, which {} {call}, {set} the MPU's regions",
            fault.claim,
            places.join(" and "),
            names.join(" and ")
        );
        Finding { claim, ..fault }
            .against(["who sets the MPU is inferred from the program's code"])
            .evidence(
                all.iter().zip(&places).map(|((at, _), place)| {
                    Evidence::symbol(*at, place, "the MPU's registers are set here".to_owned())
                }),
            )
            .next("look at which region the MPU has there, and at who had changed it before this access")
    }
}
