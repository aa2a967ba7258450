//! Where else in memory a word is that damage wrote over a pointer or a number of the kernel: the variable or the message may show where it
//! came from. Of floating-point numbers, the number is named.
//!
//! Against it: words are equal by chance. So it is evidence, and no claim; only of a word that is neither small nor an address, and of
//! which there are few.

use super::super::{Case, Evidence, Finding};
use super::lost_blocks::words;
use super::static_pointers::kernel_memory;
use crate::abi::Addr;

/// The most places that are named. A word that is in more says nothing.
const MOST: usize = 3;
/// Smaller numbers are in memory by chance.
const SMALL: u64 = 0x1_0000;

/// Adds the places, beside this one, to a finding about it.
pub(super) fn added_to(finding: Finding, at: Addr, case: &Case<'_>) -> Finding {
    let places = find(at, case).unwrap_or_default();
    let Some((first, _)) = places.first() else { return finding };
    let next = format!("find who writes what {first} holds, and where else; and {}", finding.next);
    finding.evidence(places.into_iter().map(|(_, evidence)| evidence)).next(next)
}

/// Each with its name.
fn find(at: Addr, case: &Case<'_>) -> Option<Vec<(String, Evidence)>> {
    if !case.look.is_stored() || case.trust.other_build || case.width() != 4 {
        return None;
    }
    let word = case.words(&case.look.bytes(at, 4)?, true).first().copied().filter(|word| is_rare(*word))?;
    let (cpus, kernel) = (case.cpus?, kernel_memory(case));
    if cpus.has(word) != Some(false) || cpus.is_read_only(word) {
        return None;
    }
    let mut found: Vec<Addr> = Vec::new();
    for region in cpus.written()? {
        words(region, case, &mut |place, other| {
            let is_it = other == word && place.is_multiple_of(4) && place != at && !found.contains(&place);
            if is_it && found.len() <= MOST && !kernel.iter().any(|region| region.contains(place)) {
                found.push(place);
            }
        })?;
    }
    let number =
        as_float(word).map_or_else(String::new, |number| format!(", which is {number} as a floating-point number"));
    let evidence = |place: Addr| {
        let name = case.look.place(place)?;
        let text = format!("{name} has the same word{number}");
        Some((name, Evidence::memory(place, text).holds(word)))
    };
    (found.len() <= MOST).then(|| found.into_iter().filter_map(evidence).collect())
}

/// True for a word that is not likely to be in memory by chance: no small number, none near 0 from below, and no byte over and over.
fn is_rare(word: u64) -> bool {
    let is_fill = word.is_multiple_of(0x0101_0101);
    (SMALL..0xFFFF_0000).contains(&word) && !is_fill
}

/// The number, where it has few digits, as those that a program sets.
fn as_float(word: u64) -> Option<f32> {
    let number = f32::from_bits(u32::try_from(word).ok()?);
    let is_plain = (0.001..=1e6).contains(&number.abs()) && number.to_string().len() <= 8;
    is_plain.then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_elsewhere_by_chance_says_nothing() {
        assert!(is_rare(0x41C8_0000) && is_rare(0x1234_5678));
        assert!(![0, 25, 0xFFFF, 0xFFFF_FFFE, 0xA5A5_A5A5, 0xEFEF_EFEF, 0xFFFF_FFFF].into_iter().any(is_rare));
    }

    #[test]
    fn a_floating_point_number_is_named() {
        assert_eq!(as_float(0x41C8_0000), Some(25.0));
        assert_eq!(as_float(0x3DCC_CCCD), Some(0.1));
        assert_eq!(as_float(0xC2DC_0000), Some(-110.0));
        assert_eq!(as_float(0x3EAA_AAAB), None, "a third: any word looks like such a number");
        assert_eq!(as_float(0x0001_0000), None);
        assert_eq!(as_float(0x7FC0_0000), None);
    }
}
