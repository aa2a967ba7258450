//! A constant table of functions that has an entry without one: a call through it is a call through a null pointer. A list of what the
//! program can do was made longer, and the table was not.
//!
//! Against it: the code may look at an entry before it calls it, or the table may end with an empty one. So it is said of a call
//! through a null pointer that is known, by a function that has the address of the table; and as a hint of a trace that ends behind an
//! event that has the number of the entry, inserted by who ran last.

use super::super::events::Giver;
use super::super::graph::Graph;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::pointer::body;
use super::words::function_at;
use crate::abi::{Addr, Endian};
use crate::cpu::called_member;
use crate::sym::Symbol;

/// Bytes of a pointer of a Cortex-M.
const WIDTH: u64 = 4;
/// The most bytes of such a table.
const LONGEST: u64 = 4096;
/// The fewest functions in it.
const FEWEST: usize = 2;
/// The most empty entries that are named.
const MOST: usize = 3;

pub(super) fn find(case: &Case<'_>, _: &Graph) -> Vec<Finding> {
    finding(case).into_iter().collect()
}

/// In a bare trace: it ends behind an event of the application, whose words have the number of the only empty entry of a table.
fn finding(case: &Case<'_>) -> Option<Finding> {
    let events = case.events.filter(|events| case.kernel.is_none() && events.cores <= 1)?;
    let last = events.last_inserted()?;
    if case.trust.other_build {
        return None;
    }
    let mut all = case.look.constants().into_iter().filter_map(|symbol| EmptyEntry::of(symbol, case));
    let mut by_word = all.by_ref().filter(|empty| empty.has_number(&last.words));
    let (empty, None) = (by_word.next()?, by_word.next()) else { return None };
    let who = match last.by {
        Giver::Thread(thread) => case.label(thread),
        Giver::Interrupt(number) => case.interrupt(number),
        Giver::Other => return None,
    };
    let entry = empty.entries.join(" and ");
    let claim = format!(
        "the trace ends behind event {}, in which {who} recorded {}: the index of {entry}, a null pointer in a table of functions; \
         perhaps it was called",
        last.seq,
        words(&empty.numbers)
    );
    let recorded = format!("{who} recorded {}, and nobody else has an event since", words(&last.words));
    Some(
        Finding::new(Code::NullCall, case.cap(Confidence::Hint), claim)
            .against([
                "the CPU may have been stopped there by chance, and the code may not call through the table then",
            ])
            .evidence([Evidence::event(last.seq, recorded), empty.evidence()])
            .next(format!(
                "look at the code that calls through {}, and at the entries of that table",
                empty.table.name
            )),
    )
}

/// `6, 5, 71`.
fn words(all: &[u64]) -> String {
    all.iter().map(ToString::to_string).collect::<Vec<String>>().join(", ")
}

/// A table with an empty entry.
pub(super) struct EmptyEntry {
    table: Symbol,
    /// The address of the first empty entry.
    at: Addr,
    /// The first ones, as `exec_tab[6]`.
    entries: Vec<String>,
    /// The numbers of the first one: two for a table of two dimensions.
    numbers: Vec<u64>,
    /// True for a structure that alone has no function in the member that was called.
    is_member: bool,
}

impl EmptyEntry {
    fn of(table: Symbol, case: &Case<'_>) -> Option<Self> {
        let len = Some(table.size).filter(|size| (WIDTH..=LONGEST).contains(size) && size.is_multiple_of(WIDTH))?;
        let bytes = case.look.bytes(table.address, len)?;
        let words: Vec<u64> =
            bytes.chunks_exact(4).filter_map(|four| Endian::Little.u32(four, 0)).map(u64::from).collect();
        // Few constants are such tables: the debug information is asked for those alone.
        let functions = words.iter().filter(|word| is_function(**word, case)).take(FEWEST).count();
        if functions < FEWEST || !words.contains(&0) {
            return None;
        }
        let array = case.look.arrays_at(table.address).into_iter().find(|array| array.address == table.address);
        let element = array.as_ref().map_or(WIDTH, |array| array.element);
        let per = usize::try_from(element.checked_div(WIDTH)?)
            .ok()
            .filter(|per| *per > 0 && element.is_multiple_of(WIDTH))?;
        let lengths = array.map(|array| array.array.lengths).unwrap_or_default();
        // The member of each element that is a function, of an array of structures.
        let empty = (0..per).find_map(|member| {
            let column: Vec<u64> = words.iter().copied().skip(member).step_by(per).collect();
            let functions = column.iter().filter(|word| is_function(**word, case)).count();
            let empty: Vec<u64> =
                (0..).zip(&column).filter(|(_, word)| **word == 0).map(|(number, _)| number).collect();
            let is_table =
                functions >= FEWEST && !empty.is_empty() && functions.checked_add(empty.len())? == column.len();
            is_table.then_some((member, empty))
        });
        let (member, empty) = empty?;
        let first = *empty.first()?;
        let into = u64::try_from(member).ok()?.checked_mul(WIDTH)?;
        let at = |number: u64| table.address.checked_add(number.checked_mul(element)?)?.checked_add(into);
        let named = |number: u64| {
            let numbers: String = split(number, &lengths).iter().map(|number| format!("[{number}]")).collect();
            let plain = format!("{}{numbers}", table.name);
            if per == 1 { plain } else { at(number).and_then(|at| case.look.place(at)).unwrap_or(plain) }
        };
        let entries = empty.iter().take(MOST).map(|number| named(*number)).collect();
        Some(Self { at: at(first)?, entries, numbers: split(first, &lengths), table, is_member: false })
    }

    /// Of the only such table of which the function has the address that called through a null pointer, by the address of the call.
    pub fn called(site: Addr, case: &Case<'_>) -> Option<Self> {
        let (_, code) = body(site & !1, case)?;
        let literals = code.chunks_exact(4).filter_map(|four| Endian::Little.u32(four, 0));
        let start = case.look.function(site & !1)?.address & !1;
        let used = case.usage().map(|usage| usage.addresses_of(start)).unwrap_or_default();
        let mut all: Vec<Addr> = literals.chain(used).map(Addr::from).collect();
        all.sort_unstable();
        all.dedup();
        let is_constant = |at: &Addr| case.cpus.is_some_and(|cpus| cpus.is_read_only(*at));
        let tables = all.into_iter().filter(is_constant);
        let tables = tables.filter_map(|at| case.look.variable(at).filter(|table| table.address == at));
        let mut tables = tables.filter_map(|table| Self::of(table, case));
        match (tables.next(), tables.next()) {
            (Some(only), None) => Some(only),
            (Some(_), Some(_)) => None,
            (None, _) => Self::member(site, case),
        }
    }

    /// Of the only constant structure of functions that has none in the member through which a call went, where others of its size have one.
    fn member(site: Addr, case: &Case<'_>) -> Option<Self> {
        let (from, code) = body(site & !1, case)?;
        let end = usize::try_from((site & !1).checked_sub(from)?.checked_add(2)?).ok()?;
        let into = called_member(code.get(..end)?)?;
        let is_constant = |at: u64| case.cpus.is_some_and(|cpus| cpus.is_read_only(at));
        // What each structure of functions has there; other constants of its size are none.
        let member = |table: &Symbol| {
            let len = Some(table.size)
                .filter(|size| *size <= LONGEST && into.checked_add(WIDTH).is_some_and(|end| end <= *size))?;
            let bytes = case.look.bytes(table.address, len)?;
            let words = bytes.chunks_exact(4).filter_map(|four| Endian::Little.u32(four, 0)).map(u64::from);
            // Also a name, as the first member often is.
            let fits = |word: u64| word == 0 || is_function(word, case) || is_constant(word);
            let of_functions = words.clone().all(fits) && words.clone().any(|word| is_function(word, case));
            let own = words.clone().nth(usize::try_from(into / WIDTH).ok()?)?;
            of_functions.then_some((table.address.checked_add(into)?, own))
        };
        let all: Vec<(Symbol, (Addr, u64))> =
            case.look.constants().into_iter().filter_map(|table| member(&table).map(|found| (table, found))).collect();
        let has_one = |size: u64| all.iter().any(|(other, (_, to))| other.size == size && is_function(*to, case));
        let mut lacking = all.iter().filter(|(_, (_, to))| *to == 0);
        let ((table, (at, _)), None) = (lacking.next()?, lacking.next()) else { return None };
        let entry = case.look.place(*at).filter(|_| has_one(table.size))?;
        Some(Self { at: *at, entries: vec![entry], numbers: Vec::new(), table: table.clone(), is_member: true })
    }

    /// Adds it to a fault.
    pub fn added_to(self, finding: Finding, site: Addr, case: &Case<'_>) -> Finding {
        if self.is_member {
            let entry = self.entries.join(" and ");
            // What is perhaps so is no part of what is certain.
            let claim = match finding.confidence {
                Confidence::Proven => finding.claim,
                _ => format!("{}; perhaps the pointer was read from {entry}, which is null", finding.claim),
            };
            let evidence =
                Evidence::memory(self.at, format!("{entry}: no function, where other constants of its size have one"))
                    .holds(0);
            return Finding { claim, ..finding }
                .against(["which structure the call went through is inferred: it alone of those of its size lacks this member"])
                .evidence([evidence])
                .next(format!("look at who may call {entry} without a check, and at its initial value"));
        }
        let verb = if self.entries.len() == 1 { "is" } else { "are" };
        let claim = format!(
            "{}; {} {verb} null, and {} has the address of {}",
            finding.claim,
            self.entries.join(" and "),
            function_at(site, case),
            self.table.name
        );
        let next =
            format!("look at the index with which {} is used there, and at the entries of that table", self.table.name);
        Finding { claim, ..finding }
            .against(["that the call went through this table is inferred from the code of its function"])
            .evidence([self.evidence()])
            .next(next)
    }

    fn evidence(&self) -> Evidence {
        let name = self.entries.first().map_or(self.table.name.as_str(), String::as_str);
        Evidence::memory(self.at, format!("{name}: no function in a constant table of functions")).holds(0)
    }

    /// True where the words of an event have the number of the entry, and the table has no other empty one.
    fn has_number(&self, words: &[u64]) -> bool {
        self.entries.len() == 1
            && self.numbers.iter().any(|number| *number > 1)
            && self.numbers.iter().all(|number| words.contains(number))
    }
}

/// True for the address of a function of Thumb code.
fn is_function(word: u64, case: &Case<'_>) -> bool {
    word & 1 == 1 && case.look.function(word & !1).is_some_and(|function| function.address & !1 == word & !1)
}

/// The numbers of an element in an array of one dimension or more.
fn split(number: u64, lengths: &[u64]) -> Vec<u64> {
    let mut rest = number;
    let mut all: Vec<u64> = Vec::new();
    for length in lengths.iter().skip(1).rev() {
        all.push(rest.checked_rem(*length).unwrap_or(0));
        rest = rest.checked_div(*length).unwrap_or(0);
    }
    all.push(rest);
    all.reverse();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_an_element() {
        assert_eq!(split(6, &[7]), [6]);
        assert_eq!(split(6, &[]), [6]);
        assert_eq!(split(13, &[5, 4]), [3, 1]);
    }
}
