//! Arrays that end where something was accessed: an index that is one too large leads there. That it was one is not known: it
//! is said as what is in front of the address.

use super::super::Case;
use crate::abi::Addr;
use crate::sym::ArrayMember;

/// The arrays that end in front of an address and are in the same variable: the linker puts variables in any order, and what is
/// in front of one says less. Stacks are left out: these are left at their lowest end, which is where the array in front ends.
pub(super) fn in_front(at: Addr, case: &Case<'_>) -> Vec<ArrayMember> {
    let variable = |at: Addr| case.look.variable(at).map(|variable| variable.address);
    let is_within = at.checked_sub(1).and_then(variable).is_some_and(|own| variable(at) == Some(own));
    let is_stack = case.kernel.is_some_and(|kernel| kernel.threads.iter().any(|thread| thread.holds(at)));
    if is_within && !is_stack { case.look.arrays_before(at) } else { Vec::new() }
}

/// `the array metering.window[16]`, as it is declared; `None` where there is none. An array of structs ends where the array at
/// the end of its last one does.
pub(super) fn named(all: &[ArrayMember]) -> Option<String> {
    match all {
        [] => None,
        [one] => Some(format!("the array {one}")),
        [first @ .., last] => {
            let first: Vec<String> = first.iter().map(ToString::to_string).collect();
            Some(format!("the arrays {} and {last}", first.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_is_named_as_it_is_declared() {
        let array = |name: &str, lengths: &[u64]| ArrayMember { name: name.to_owned(), lengths: lengths.to_vec() };
        assert_eq!(named(&[]), None);
        assert_eq!(named(&[array("grid", &[3, 4])]).as_deref(), Some("the array grid[3][4]"));
        let both = [array("pool", &[3]), array("pool[2].text", &[8])];
        assert_eq!(named(&both).as_deref(), Some("the arrays pool[3] and pool[2].text[8]"));
    }
}
