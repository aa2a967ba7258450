//! Who passed a pointer that failed: a function that got it as an argument is not to blame for it, as those of a C library. The
//! code shows whether the pointer of the instruction is an argument, on each path that leads there, and whether the caller got it as
//! an argument itself.

use super::super::Case;
use super::super::usage::global_pointer;
use super::pointer::{Pointer, stack_at};
use super::{jump, place, through, words};
use crate::abi::{Addr, Endian};
use crate::cpu::{Architecture, Call, Callee, InstructionSet, Paths, Program, Read, Registers, Value};
use crate::session::{Function, is_of_kernel};

/// The most callers that are looked at.
const MOST: usize = 3;
/// The mark of the argument that is followed.
const MARK: Value = Value::Mark(1);

/// An instruction that failed, with the registers in front of it.
pub(super) struct Access<'a> {
    pub at: Addr,
    /// The address that failed, where it is known.
    pub failed: Option<Addr>,
    pub registers: &'a Registers,
}

impl Access<'_> {
    /// The register of which the address was made, and what it holds, where that is known.
    pub fn base(&self, case: &Case<'_>) -> Option<(u16, Option<u64>)> {
        let (from, code) = through::code(self.at, case)?;
        let word = |_: Addr| None;
        let code =
            crate::cpu::Code { at: self.at, registers: self.registers, from, code: &code, stack: None, word: &word };
        code.base(self.failed)
    }

    /// The register with the pointer, or with a divisor that is 0, and what it holds, where that is known.
    fn needed(&self, case: &Case<'_>) -> Option<(u16, Option<u64>)> {
        let divisor = || Pointer::code_at(self.at, self.registers, None, case, &|code| code.divisor());
        self.base(case).or_else(|| Some((divisor()?, Some(0))))
    }

    /// The word from which the caller read the pointer, or the divisor, that it passed, where the function that failed needs it as it is and
    /// has written no memory. `caller`: its registers, where it goes on.
    pub fn read_by_caller(&self, functions: &[Function], caller: &Registers, case: &Case<'_>) -> Option<Read> {
        let architecture = self.registers.architecture();
        let own = Body::of(self.at, architecture, case)?;
        let (register, value) = self.needed(case)?;
        let unchanged = |code: &crate::cpu::Code<'_>| code.unchanged_argument(register);
        let argument = Pointer::code_at(self.at, self.registers, None, case, &unchanged)?;
        let mut frames = functions.split_inclusive(|function| !function.is_inlined);
        let inner = frames.next().filter(|inner| inner.first().is_some_and(|first| first.pc == self.at))?;
        let back = frames.next().filter(|frame| is_call(inner, frame))?.first()?.pc;
        let body = Body::of(back.checked_sub(1)?, architecture, case)?;
        if body.jumps_on(back, own.first).is_some() {
            return None;
        }
        let stack = stack_at(caller.sp(), case);
        let read = |code: &crate::cpu::Code<'_>| code.argument(back, argument, value?);
        Pointer::code_at(back.checked_sub(2)?, caller, stack, case, &read)
    }

    /// The function that passed the pointer, or the divisor: `cfg_set (gateway.c:198)`, or `cfg_set (gateway.c:198) through copy_text`.
    /// `functions`: of
    /// the backtrace, the innermost first. Hostile text: escape before printing.
    pub fn passed(&self, functions: &[Function], case: &Case<'_>) -> Option<String> {
        let (register, _) = self.needed(case)?;
        let own = Body::of(self.at, self.registers.architecture(), case)?;
        let mut argument = own.argument_at(self.at, register)?;
        let mut frames = functions.split_inclusive(|function| !function.is_inlined);
        let mut inner = frames.next().filter(|inner| inner.first().is_some_and(|first| first.pc == self.at))?;
        let (mut callee, mut chain, mut caller) = (own, Chain::default(), None);
        for frame in frames.take(MOST) {
            let Some(function) = frame.first().filter(|_| is_call(inner, frame)) else { break };
            let Some(body) = Body::of(function.pc.checked_sub(1)?, self.registers.architecture(), case) else { break };
            // A function that was called at the end of another one has no frame of that one behind it.
            if let Some(between) = body.jumps_on(function.pc, callee.first) {
                let name = plain(&words::function_at(between.first, case));
                match between.passes(None, callee.first, argument) {
                    Some(passed) => (argument, callee) = (passed, between),
                    None => return Some(format!("{}, which {} called", chain.named(&name), place::one(function))),
                }
                chain.add(name);
            }
            caller = Some(chain.named(&place::one(function)));
            let Some(passed) = body.passes(Some(function.pc), callee.first, argument) else { break };
            chain.add(plain(&function.name.clone().unwrap_or_else(|| words::function_at(body.first, case))));
            (argument, callee, inner) = (passed, body, frame);
        }
        caller
    }
}

/// True where the second frame is that of a caller by the program's own code: what is inferred may not be there, and the kernel
/// calls functions of threads and of timers with what these were created with.
fn is_call(inner: &[Function], frame: &[Function]) -> bool {
    let is_kernel =
        |frame: &[Function]| frame.last().is_some_and(|function| function.name.as_deref().is_some_and(is_of_kernel));
    let is_known = frame.first().is_some_and(|function| function.origin.is_caller() && function.name.is_some());
    is_known && (is_kernel(inner) || !is_kernel(frame))
}

/// A function's name without what a compiler appends to that of a copy of it: `set.constprop.0`.
fn plain(name: &str) -> String {
    name.split_once('.').map_or(name, |(name, _)| name).to_owned()
}

/// Functions that only passed it on.
#[derive(Default)]
struct Chain(Vec<String>);

impl Chain {
    fn add(&mut self, name: String) {
        self.0.insert(0, name);
    }

    fn named(&self, caller: &str) -> String {
        if self.0.is_empty() { caller.to_owned() } else { format!("{caller} through {}", self.0.join(" and ")) }
    }
}

/// The code of one function.
struct Body<'b, 'c> {
    first: Addr,
    code: Vec<u8>,
    set: InstructionSet,
    case: &'b Case<'c>,
}

impl<'b, 'c> Body<'b, 'c> {
    fn of(at: Addr, architecture: Architecture, case: &'b Case<'c>) -> Option<Self> {
        let set = InstructionSet::of(architecture)?;
        let (first, code) = through::code(at, case)?;
        Some(Self { first, code, set, case })
    }

    fn last(&self) -> Addr {
        self.first.saturating_add((self.code.len() as u64).saturating_sub(1))
    }

    /// The argument that a register holds in front of an instruction, whatever was added to it.
    fn argument_at(&self, at: Addr, register: u16) -> Option<usize> {
        let is_it = |arguments| {
            let (_, value) = Paths::watching(self, self.first, self.last(), arguments, (at, register));
            value == Some(MARK)
        };
        marked().position(is_it)
    }

    /// The argument of its own that it passes as an argument of a function, in front of a return address, or in its jumps there
    /// where that is not known.
    fn passes(&self, back: Option<Addr>, callee: Addr, argument: usize) -> Option<usize> {
        let is_there = |call: &&Call| match back {
            Some(back) => matches!(back.checked_sub(call.at), Some(2 | 4)),
            None => call.to == Callee::At(callee),
        };
        let passes = |arguments| {
            let paths = Paths::of(self, self.first, self.last(), arguments);
            let is_call = |call: &&Call| call.to.is_function();
            let calls: Vec<&Call> = paths.calls().filter(is_there).filter(is_call).collect();
            let last = calls.iter().map(|call| call.at).max();
            let passed = |call: &&Call| call.arguments.get(argument) == Some(&MARK);
            last.is_some() && calls.iter().filter(|call| Some(call.at) == last).all(passed)
        };
        marked().position(passes)
    }

    /// Another function than the callee to which the call in front of a return address leads.
    fn jumps_on(&self, back: Addr, callee: Addr) -> Option<Self> {
        let case = self.case;
        let architecture = match self.set {
            InstructionSet::Thumb => Architecture::CortexM,
            InstructionSet::Riscv32 => Architecture::Riscv32,
            InstructionSet::Riscv64 => Architecture::Riscv64,
        };
        let to = match self.set {
            InstructionSet::Thumb => jump::called_in_front_of(back | 1, case),
            _ => match through::riscv_call(back, architecture, case)? {
                through::Call::Function { to, .. } => Some(to),
                through::Call::Register { .. } => None,
            },
        };
        let to = to.filter(|to| to & !1 != callee)?;
        Self::of(to, architecture, case).filter(|between| between.first == to & !1)
    }
}

/// Arguments of which one has the mark.
fn marked() -> impl Iterator<Item = [Value; 4]> {
    (0..4).map(|marked| std::array::from_fn(|argument| if argument == marked { MARK } else { Value::Unknown }))
}

impl Program for Body<'_, '_> {
    fn instructions(&self) -> InstructionSet {
        self.set
    }

    fn global_pointer(&self) -> Option<u32> {
        global_pointer(self.case)
    }

    fn code(&self, at: Addr) -> Option<u16> {
        Endian::Little.u16(&self.code, usize::try_from(at.checked_sub(self.first)?).ok()?)
    }

    fn constant(&self, at: Addr) -> Option<u32> {
        let own = at.checked_sub(self.first).and_then(|into| usize::try_from(into).ok());
        let own = own.and_then(|into| Endian::Little.u32(&self.code, into));
        let is_constant = || self.case.cpus.is_some_and(|cpus| cpus.is_read_only(at));
        own.or_else(|| Endian::Little.u32(&self.case.look.bytes(at, 4).filter(|_| is_constant())?, 0))
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "tests say what they expect by failing")]
mod tests {
    use super::super::super::{Look, Trust};
    use super::*;
    use crate::mem::{Memory, ReadError};
    use crate::sym::{Symbol, Symbols};
    use crate::unwind::Origin;

    const START: Addr = 0x100;
    /// Functions: where they are, and their code; `Err` is a call, or a jump at the end.
    const PROGRAM: [(&str, Addr, &[Half]); 7] = [
        // add r2, r1; mov r3, r0; push {r4, lr}; L: cmp r1, r2; bne; pop {r4, pc}; ldrb r4, [r1], #1; strb r4, [r3], #1; b L
        (
            "memcpy",
            0x100,
            &[
                Ok(0x440A),
                Ok(0x4603),
                Ok(0xB510),
                Ok(0x4291),
                Ok(0xD100),
                Ok(0xBD10),
                Ok(0xF811),
                Ok(0x4B01),
                Ok(0xF803),
                Ok(0x4B01),
                Ok(0xE7F7),
            ],
        ),
        // push {r3, lr}; bl memcpy; pop {r3, pc}
        ("copy", 0x120, &[Ok(0xB508), CALL, Ok(0xBD08)]),
        // push {r3, lr}; ldr r0, [r0, #4]; bl copy; pop {r3, pc}
        ("set", 0x130, &[Ok(0xB508), Ok(0x6840), Err((0x120, 0xF800)), Ok(0xBD08)]),
        // movs r2, #4; b.w memcpy
        ("put.constprop.0", 0x140, &[Ok(0x2204), JUMP]),
        // push {r3, lr}; ldr r0, [r0]; bl put; pop {r3, pc}
        ("run", 0x150, &[Ok(0xB508), Ok(0x6800), Err((0x140, 0xF800)), Ok(0xBD08)]),
        // ldr r0, [r0]; b.w memcpy
        ("own", 0x160, &[Ok(0x6800), JUMP]),
        // push {r3, lr}; bl own; pop {r3, pc}
        ("main_loop", 0x170, &[Ok(0xB508), Err((0x160, 0xF800)), Ok(0xBD08)]),
    ];
    const CALL: Half = Err((0x100, 0xF800));
    const JUMP: Half = Err((0x100, 0xB800));

    /// Half of an instruction; or BL or B.W to an address.
    type Half = Result<u16, (Addr, u16)>;

    struct Code;

    impl Code {
        fn bytes() -> Vec<u8> {
            let mut all = vec![0; 0x100];
            for (_, first, code) in PROGRAM {
                let mut at = first;
                for half in code {
                    let halves = match half {
                        Ok(half) => vec![*half],
                        Err((to, kind)) => {
                            let offset = to.wrapping_sub(at + 4);
                            vec![
                                0xF000 | (offset >> 12) as u16 & 0x3FF | (offset >> 14) as u16 & 0x400,
                                kind | (offset >> 1) as u16 & 0x7FF,
                            ]
                        }
                    };
                    for half in halves {
                        let into = (at - START) as usize;
                        all[into..into + 2].copy_from_slice(&half.to_le_bytes());
                        at += 2;
                    }
                }
            }
            all
        }
    }

    impl Memory for Code {
        fn read(&mut self, at: Addr, to: &mut [u8]) -> Result<(), ReadError> {
            let all = Self::bytes();
            let into = at.checked_sub(START).map(|into| into as usize);
            let bytes = into.and_then(|into| all.get(into..into + to.len()));
            to.copy_from_slice(bytes.ok_or_else(|| ReadError::unmapped(at, to.len()))?);
            Ok(())
        }
    }

    impl Symbols for Code {
        fn lookup(&self, _: &str) -> Option<Symbol> {
            None
        }

        fn function(&self, at: Addr) -> Option<Symbol> {
            let len = |code: &[Half]| code.iter().map(|half| if half.is_ok() { 2 } else { 4 }).sum();
            let symbol = |(name, address, code): (&str, Addr, &[Half])| {
                let size: u64 = len(code);
                (address..address + size).contains(&at).then(|| Symbol { name: name.to_owned(), address, size })
            };
            PROGRAM.into_iter().find_map(symbol)
        }
    }

    fn frame(name: &str, pc: Addr, origin: Origin) -> Function {
        Function { pc, name: Some(name.to_owned()), offset: None, file: None, line: None, is_inlined: false, origin }
    }

    /// Of a store in `memcpy` with these callers.
    fn passed(callers: &[(&str, Addr, Origin)]) -> Option<String> {
        let (mut memory, symbols) = (Code, Code);
        let look = Look::new(&mut memory, &symbols);
        let case = Case::new(None, None, None, Trust::default(), &look);
        let mut functions = vec![frame("memcpy", 0x110, Origin::Registers)];
        functions.extend(callers.iter().map(|(name, pc, origin)| frame(name, *pc, *origin)));
        let registers = Registers::new(Architecture::CortexM);
        Access { at: 0x110, failed: None, registers: &registers }.passed(&functions, &case)
    }

    #[test]
    fn a_function_of_the_library_was_named_without_the_caller_that_passed_the_pointer() {
        let copy = ("copy", 0x126, Origin::Cfi);
        assert_eq!(passed(&[copy, ("set", 0x138, Origin::Cfi)]).as_deref(), Some("set through copy"));
        assert_eq!(passed(&[copy]).as_deref(), Some("copy"), "who called that is not known");
        assert_eq!(passed(&[("copy", 0x126, Origin::Found)]), None, "it may be an old return address");
        assert_eq!(passed(&[("_tx_thread_shell_entry", 0x126, Origin::Cfi)]), None);
        assert_eq!(passed(&[]), None);
    }

    /// A function that jumps to another at its end is not in the backtrace.
    #[test]
    fn the_caller_of_a_function_that_jumped_on_was_said_to_pass_the_pointer() {
        let run = passed(&[("run", 0x158, Origin::Cfi)]);
        assert_eq!(run.as_deref(), Some("run through put"));
        let own = passed(&[("main_loop", 0x176, Origin::Cfi)]);
        assert_eq!(own.as_deref(), Some("own, which main_loop called"));
    }
}
