//! Programs of which something more is known; and instructions that only some of the paths lead to.

use std::collections::BTreeSet;

use super::{Call, Outcome, Paths, Program, Value};
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
    /// True where a path leads from a call for which `begins` holds to an instruction, without one for which `ends` holds between them,
    /// and no path leads there otherwise than behind a call for which `begins` holds. `None` where no path is known to lead there, not
    /// all could be followed, or only `may_end` holds for a call between them.
    pub fn is_between(
        &self,
        pc: Addr,
        begins: &dyn Fn(&Call) -> bool,
        ends: &dyn Fn(&Call) -> bool,
        may_end: &dyn Fn(&Call) -> bool,
    ) -> Option<bool> {
        let (paths, is_reached) = self.reach(pc, &|_| false)?;
        let (_, is_reached_otherwise) = self.reach(pc, begins)?;
        let all: BTreeSet<Addr> = paths.calls().filter(|call| begins(call)).map(|call| call.at).collect();
        let from = |stops: &dyn Fn(&Call) -> bool| {
            let until = Until { program: self.program, ends: stops };
            let comes = |at: &Addr| {
                let (paths, comes) = Paths::from(&until, self.first, self.last, *at, pc);
                paths.is_complete.then_some(comes)
            };
            all.iter().map(comes).try_fold(false, |any, comes| Some(any || comes?))
        };
        // Registers are not known behind the call, so that what is put may not be known, either.
        match (is_reached, from(ends)?, from(&|call| ends(call) || may_end(call))?) {
            (false, ..) => None,
            (_, false, _) => Some(false),
            (_, true, true) => Some(!is_reached_otherwise),
            (_, true, false) => None,
        }
    }

    /// The paths up to such a call, and whether one leads to an instruction; `None` where not all could be followed.
    fn reach(&self, pc: Addr, ends: &dyn Fn(&Call) -> bool) -> Option<(Paths, bool)> {
        let until = Until { program: self.program, ends };
        let watch = (pc, self.program.instructions().stack_pointer());
        let (paths, seen) = Paths::watching(&until, self.first, self.last, self.arguments, watch);
        paths.is_complete.then_some((paths, seen.is_some()))
    }
}
