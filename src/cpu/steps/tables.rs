//! Jumps of Thumb code through tables (Armv7-M Architecture Reference Manual, A7.7.43 and A7.7.185).

use super::super::calls::Program;
use super::super::values::{Flags, State, Value};
use super::{ENTRIES, Flow};
use crate::abi::Addr;

/// TBB and TBH: a table of distances behind the instruction, as long as the comparison in front of it says.
pub(super) fn distances(first: u16, second: u16, at: Addr, state: &State, program: &dyn Program) -> Flow {
    if first & 0xF != 15 {
        return Flow::Unknown;
    }
    let is_half = second >> 4 & 1 == 1;
    let entry = |n: u32| {
        let start = at.checked_add(4)?;
        let half = program.code(start.checked_add(Addr::from(if is_half { n << 1 } else { n & !1 }))?)?;
        let distance = if is_half { half } else { half >> ((n & 1) << 3) & 0xFF };
        start.checked_add(Addr::from(distance) << 1)
    };
    jumps(state.get(second & 0xF), state, &entry)
}

/// LDR of pc from a table of addresses, as GCC writes it without optimisation.
pub(super) fn words(first: u16, second: u16, state: &State, program: &dyn Program) -> Flow {
    let Value::Is(start) = state.get(first & 0xF) else { return Flow::Unknown };
    let shift = u32::from(second >> 4 & 3);
    // The lowest bit says that the code there is Thumb.
    let entry = |n: u32| {
        let word = program.constant(Addr::from(start.checked_add(n.checked_shl(shift)?)?))?;
        (word & 1 == 1).then_some(Addr::from(word & !1))
    };
    jumps(state.get(second & 0xF), state, &entry)
}

/// A jump through a table that is as long as the comparison in front of it says. `entry`: where its entry of this number leads.
fn jumps(index: Value, state: &State, entry: &dyn Fn(u32) -> Option<Addr>) -> Flow {
    let Flags::Compared(_, Value::Is(last)) = state.flags else { return Flow::Unknown };
    if last >= ENTRIES {
        return Flow::Unknown;
    }
    let all: Option<Vec<Addr>> = match index.known() {
        Some(index) if index <= last => entry(index).map(|to| vec![to]),
        _ => (0..=last).map(entry).collect(),
    };
    all.map_or(Flow::Unknown, |mut all| {
        all.sort_unstable();
        all.dedup();
        Flow::Jumps(all)
    })
}
