//! What a program wrote down before it stopped itself: the text of the condition that failed, in a register; a source file with its
//! line in a variable, and the texts beside them. All of it is evidence: the claim does not depend on how memory is read.

use super::super::{Case, Evidence};
use super::lost_blocks::words;
use super::stopped;
use crate::abi::Addr;
use crate::session::{CpuState, Function};

/// Registers in which arguments are passed, and where compilers keep them over calls.
const ARGUMENTS: [&str; 16] =
    ["r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "a0", "a1", "a2", "a3", "s0", "s1", "x0", "x1"];
/// Words on each side of the name of a file in which its line is, and texts are.
const BESIDE: u64 = 4;
/// The most lines that a condition and its message take.
const LINES: u64 = 8;
/// The most bytes of a text; the fewest of one that says something.
const TEXT: u64 = 80;
const SHORTEST: usize = 4;
/// The most texts of registers, and the most variables.
const MOST: usize = 2;

/// All of it. `cpu`: of a program that stopped itself.
pub(super) fn of(cpu: &CpuState, case: &Case<'_>) -> Vec<Evidence> {
    let mut all = in_registers(cpu, case);
    all.extend(in_variables(&cpu.functions, case));
    all
}

/// True where a variable of the program, and not only a stack, has the source file and the line of the caller.
pub(super) fn is_so(cpu: &CpuState, case: &Case<'_>) -> bool {
    let own = cpu.functions.iter().position(|function| !function.is_inlined);
    let caller = own.and_then(|own| cpu.functions.get(own.checked_add(1)?));
    caller.is_some_and(|caller| {
        let caller = std::slice::from_ref(caller);
        places(caller, case).into_iter().any(|at| !is_in_stack(at, case) && record(at, caller, case).is_some())
    })
}

/// A variable with the address of the name of a source file, and the words beside it.
pub(super) struct Record {
    at: Addr,
    file: String,
    beside: Vec<u64>,
}

impl Record {
    /// True where one of the words is the line of a place: `gates.c:39`.
    pub fn is_at(&self, place: &str) -> bool {
        let of = place.rsplit_once(':').and_then(|(file, line)| Some((base(file), line.parse::<u64>().ok()?)));
        of.is_some_and(|(file, line)| file == base(&self.file) && line > 0 && self.beside.contains(&line))
    }

    /// It as evidence: `check_record says "gates.c", line 39; beside it "c->stage == ST_WEIGHED"`. `place`: the line that it has.
    pub fn shown(&self, place: &str, case: &Case<'_>) -> Option<Evidence> {
        let (name, line) = (case.look.block(self.at)?, place.rsplit_once(':')?.1);
        Some(Evidence::memory(
            self.at,
            format!("{name} says \"{}\", line {line}{}", self.file, texts(&self.beside, case)),
        ))
    }
}

/// `; beside it "len <= MAX"`, of texts to which words point; empty where none does.
fn texts(beside: &[u64], case: &Case<'_>) -> String {
    let texts = beside.iter().filter_map(|word| Some(format!("\"{}\"", constant_text(*word, case)?)));
    let texts: Vec<String> = texts.collect();
    if texts.is_empty() { String::new() } else { format!("; beside it {}", texts.join(", ")) }
}

/// The first of them that are in no stack.
pub(super) fn all(most: usize, case: &Case<'_>) -> Vec<Record> {
    let find = || {
        let regions = case.cpus?.written().filter(|_| case.look.is_stored())?;
        let mut found: Vec<Record> = Vec::new();
        for region in regions {
            words(region, case, &mut |at, word| {
                let is_new = found.len() < most && at.is_multiple_of(case.width()) && !is_in_stack(at, case);
                let file = || constant_text(word, case).filter(|text| stopped::is_source(text));
                if let Some(record) = is_new.then(file).flatten().and_then(|file| of_file(at, file, case)) {
                    found.push(record);
                }
            })?;
        }
        Some(found)
    };
    find().unwrap_or_default()
}

fn of_file(at: Addr, file: String, case: &Case<'_>) -> Option<Record> {
    Some(Record { at, file, beside: beside(at, case)? })
}

/// Constant texts to which registers point.
fn in_registers(cpu: &CpuState, case: &Case<'_>) -> Vec<Evidence> {
    let mut all: Vec<(&str, Addr)> = Vec::new();
    for (name, at) in ARGUMENTS.iter().filter_map(|name| Some((*name, cpu.registers.get(name)?))) {
        if !all.iter().any(|(_, other)| *other == at) {
            all.push((name, at));
        }
    }
    let said = all.into_iter().filter_map(|(name, at)| {
        Some(Evidence::register(name, at, format!("it points to the text \"{}\"", constant_text(at, case)?)))
    });
    said.take(MOST).collect()
}

/// Variables that hold the name of a caller's source file, and beside it a line of that caller.
fn in_variables(functions: &[Function], case: &Case<'_>) -> Vec<Evidence> {
    let all: Vec<(Addr, Evidence)> =
        places(functions, case).into_iter().filter_map(|at| Some((at, record(at, functions, case)?))).collect();
    // What is on a stack may be left over, with another number beside it.
    let has_record = all.iter().any(|(at, _)| !is_in_stack(*at, case));
    all.into_iter().filter(|(at, _)| !has_record || !is_in_stack(*at, case)).map(|(_, record)| record).collect()
}

fn is_in_stack(at: Addr, case: &Case<'_>) -> bool {
    case.kernel.is_some_and(|kernel| kernel.threads.iter().any(|thread| thread.holds(at)))
}

/// Where the addresses of the names of source files of these functions are: the first ones in stacks, and elsewhere.
fn places(functions: &[Function], case: &Case<'_>) -> Vec<Addr> {
    let find = || {
        functions.iter().find(|function| function.file.is_some())?;
        let regions = case.cpus?.written().filter(|_| case.look.is_stored())?;
        let (mut in_stacks, mut elsewhere): (Vec<Addr>, Vec<Addr>) = (Vec::new(), Vec::new());
        for region in regions {
            words(region, case, &mut |at, word| {
                if at.is_multiple_of(case.width()) && is_file(word, functions, case) {
                    let found = if is_in_stack(at, case) { &mut in_stacks } else { &mut elsewhere };
                    if found.len() < MOST && !found.contains(&at) {
                        found.push(at);
                    }
                }
            })?;
        }
        elsewhere.extend(in_stacks);
        Some(elsewhere)
    };
    find().unwrap_or_default()
}

/// True for the address of the name of a source file of one of these functions.
fn is_file(at: Addr, functions: &[Function], case: &Case<'_>) -> bool {
    let text = constant_text(at, case);
    let is_of = |function: &Function, text: &str| function.file.as_deref().map(base) == Some(base(text));
    text.is_some_and(|text| stopped::is_source(&text) && functions.iter().any(|function| is_of(function, &text)))
}

/// `fault_record says "drv/spi.c", line 148; beside it "len <= MAX"`.
fn record(at: Addr, functions: &[Function], case: &Case<'_>) -> Option<Evidence> {
    let (file, beside) = (constant_text(read(at, case)?, case)?, beside(at, case)?);
    let line = beside.iter().find(|line| is_line(**line, &file, functions) == Some(true))?;
    let texts = texts(&beside, case);
    let name = case.look.block(at)?;
    Some(Evidence::memory(at, format!("{name} says \"{file}\", line {line}{texts}")))
}

/// The words of a variable on each side of one of them.
fn beside(at: Addr, case: &Case<'_>) -> Option<Vec<u64>> {
    let variable = case.look.variable(at)?;
    let (end, width) = (variable.address.checked_add(variable.size)?, case.width());
    let places = (0..=BESIDE.checked_mul(2)?).filter_map(|n| {
        let from = at.checked_sub(BESIDE.checked_mul(width)?)?;
        from.checked_add(n.checked_mul(width)?)
    });
    let within = places.filter(|place| *place >= variable.address && *place < end && *place != at);
    Some(within.filter_map(|place| read(place, case)).collect())
}

/// True for a line near that of one of these functions in a file; `None` where no line of them in that file is known.
fn is_line(line: u64, file: &str, functions: &[Function]) -> Option<bool> {
    let of = functions.iter().filter(|function| function.file.as_deref().map(base) == Some(base(file)));
    let lines: Vec<u64> = of.filter_map(|function| function.line).map(u64::from).collect();
    (!lines.is_empty()).then(|| lines.iter().any(|own| own.abs_diff(line) < LINES))
}

/// True where a number that an assertion was called with may be a line of a file: it is no text's address, and the calls do not show
/// another line.
pub(super) fn may_be_line(line: u64, file: &str, functions: &[Function], case: &Case<'_>) -> bool {
    is_line(line, file, functions).unwrap_or_else(|| constant_text(line, case).is_none())
}

fn read(at: Addr, case: &Case<'_>) -> Option<u64> {
    case.words(&case.look.bytes(at, case.width())?, true).first().copied()
}

/// The name of a file without its folders.
fn base(file: &str) -> &str {
    file.rsplit(['/', '\\']).next().unwrap_or(file)
}

/// The text that begins at an address of what the program does not write, with nothing of a text in front of it: the name of a file may
/// have its folders there.
fn constant_text(at: Addr, case: &Case<'_>) -> Option<String> {
    let cpus = case.cpus.filter(|cpus| cpus.is_read_only(at))?;
    let front = at.checked_sub(1).filter(|front| cpus.is_read_only(*front));
    let front = front.and_then(|front| case.look.bytes(front, 1)).and_then(|bytes| bytes.first().copied());
    if front.is_some_and(|byte| !matches!(byte, 0 | b'/' | b'\\') && is_text(byte)) {
        return None;
    }
    text_at(at, case)
}

/// The text that begins at an address. Hostile.
pub(super) fn text_at(at: Addr, case: &Case<'_>) -> Option<String> {
    let bytes = [TEXT, 32, 16, 8].into_iter().find_map(|len| case.look.bytes(at, len))?;
    text(&bytes)
}

/// The text with which these bytes begin, and which ends in them or goes on.
fn text(bytes: &[u8]) -> Option<String> {
    let len = bytes.iter().take_while(|byte| is_text(**byte)).count();
    let text = bytes.get(..len).filter(|text| text.len() >= SHORTEST)?;
    let said = String::from_utf8_lossy(text);
    match bytes.get(len) {
        Some(0) => Some(said.into_owned()),
        None => Some(format!("{said}...")),
        Some(_) => None,
    }
}

const fn is_text(byte: u8) -> bool {
    byte.is_ascii_graphic() || byte == b' '
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_ends_with_a_zero_or_goes_on() {
        assert_eq!(text(b"len <= MAX\0next").as_deref(), Some("len <= MAX"));
        assert_eq!(text(&[b'x'; 16]).as_deref(), Some("xxxxxxxxxxxxxxxx..."));
        assert_eq!(text(b"len\0"), None, "it may be a number");
        assert_eq!(text(b"len <= MAX\x01"), None, "code");
    }

    /// `segment.c:14849`: the address of the condition's text, which r0 held, was taken for the line.
    #[test]
    fn a_line_far_from_the_calls_was_taken_for_that_of_an_assertion() {
        let of = |file: &str, line| Function {
            pc: 0,
            name: None,
            offset: None,
            file: Some(file.into()),
            line: Some(line),
            is_inlined: false,
            origin: crate::unwind::Origin::Cfi,
        };
        let functions = [of("main.c", 40), of("src/segment.c", 59)];
        assert_eq!(is_line(14_849, "segment.c", &functions), Some(false));
        assert_eq!(is_line(57, "fw/segment.c", &functions), Some(true), "the first line of the condition");
        assert_eq!(is_line(57, "pump.h", &functions), None);
    }

    #[test]
    fn the_name_of_a_file_is_compared_without_its_folders() {
        assert_eq!((base("fw/app/spi.c"), base("C:\\fw\\spi.c"), base("spi.c")), ("spi.c", "spi.c", "spi.c"));
    }
}
