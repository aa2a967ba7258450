//! Programs of which something more is known; and instructions that only some of the paths lead to.

use std::collections::BTreeSet;

use super::{Call, Callee, Outcome, Paths, Program, Value};
use crate::abi::Addr;
use crate::cpu::InstructionSet;

/// A program of which something more is known.
pub trait Variant {
    /// The program otherwise.
    fn follow(&self) -> &dyn Program;

    /// As [`Program::constant`].
    fn constant(&self, at: Addr) -> Option<u32> {
        self.follow().constant(at)
    }

    /// As [`Program::outcome`].
    fn outcome(&self, call: &Call) -> Outcome {
        self.follow().outcome(call)
    }
}

impl<V: Variant> Program for V {
    fn instructions(&self) -> InstructionSet {
        self.follow().instructions()
    }

    fn global_pointer(&self) -> Option<u32> {
        self.follow().global_pointer()
    }

    fn code(&self, at: Addr) -> Option<u16> {
        self.follow().code(at)
    }

    fn constant(&self, at: Addr) -> Option<u32> {
        Variant::constant(self, at)
    }

    fn reads(&self, to: Callee, arguments: [Value; 4]) -> Option<u32> {
        self.follow().reads(to, arguments)
    }

    fn returns_nothing(&self, function: Addr) -> bool {
        self.follow().returns_nothing(function)
    }

    fn marks_are_set(&self) -> bool {
        self.follow().marks_are_set()
    }

    fn outcome(&self, call: &Call) -> Outcome {
        Variant::outcome(self, call)
    }
}

/// A program in which the paths end with some of the calls.
struct Until<'p> {
    program: &'p dyn Program,
    ends: &'p dyn Fn(&Call) -> bool,
}

impl Variant for Until<'_> {
    fn follow(&self) -> &dyn Program {
        self.program
    }

    fn outcome(&self, call: &Call) -> Outcome {
        let outcome = self.program.outcome(call);
        Outcome { returns: outcome.returns && !(self.ends)(call), ..outcome }
    }
}

/// A function of a program, as it is called.
pub struct Function<'p> {
    /// The program.
    pub program: &'p dyn Program,
    /// Its first address.
    pub first: Addr,
    /// Its last address.
    pub last: Addr,
    /// Its arguments.
    pub arguments: [Value; 4],
}

impl Function<'_> {
    /// True where each path that leads to an instruction comes from a call for which `begins` holds, without one for which `ends` holds
    /// between them; false where no path does. `None` where only some paths do, where no path is known to lead there, where not all could
    /// be followed, or where `may_end` holds for a call between them.
    pub fn is_between(
        &self,
        pc: Addr,
        begins: &dyn Fn(&Call) -> bool,
        ends: &dyn Fn(&Call) -> bool,
        may_end: &dyn Fn(&Call) -> bool,
    ) -> Option<bool> {
        let (paths, is_reached) = self.reach(pc, &|_| false)?;
        let sites = |is: &dyn Fn(&Call) -> bool| -> BTreeSet<Addr> {
            paths.calls().filter(|call| is(call)).map(|call| call.at).collect()
        };
        let (first, last) = (sites(begins), sites(ends));
        if !is_reached {
            return None;
        }
        if !self.comes_from(&first, pc, ends)? {
            return Some(false);
        }
        // Registers are not known behind the call, so that what is put may not be known, either.
        let is_sure = self.comes_from(&first, pc, &|call| ends(call) || may_end(call))?;
        let (_, comes_before) = self.reach(pc, begins)?;
        let comes_behind = self.comes_from(&last, pc, begins)?;
        (is_sure && !comes_before && !comes_behind).then_some(true)
    }

    /// True where a path leads from one of these calls to an instruction, without a call for which `stops` holds; `None` where not all
    /// could be followed.
    fn comes_from(&self, calls: &BTreeSet<Addr>, pc: Addr, stops: &dyn Fn(&Call) -> bool) -> Option<bool> {
        let comes = |at: &Addr| {
            // The call itself is no stop.
            let ends = |call: &Call| call.at != *at && stops(call);
            let until = Until { program: self.program, ends: &ends };
            let (paths, comes) = Paths::from(&until, self.first, self.last, *at, pc);
            paths.is_complete.then_some(comes)
        };
        // In front of a call nothing of it is done yet.
        calls.iter().filter(|at| **at != pc).map(comes).try_fold(false, |any, comes| Some(any || comes?))
    }

    /// The paths up to such a call, and whether one leads to an instruction; `None` where not all could be followed.
    fn reach(&self, pc: Addr, ends: &dyn Fn(&Call) -> bool) -> Option<(Paths, bool)> {
        let until = Until { program: self.program, ends };
        let watch = (pc, self.program.instructions().stack_pointer());
        let (paths, seen) = Paths::watching(&until, self.first, self.last, self.arguments, watch);
        paths.is_complete.then_some((paths, seen.is_some()))
    }
}
