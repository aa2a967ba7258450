//! Which variable of the program leads to most of the blocks of a pool that are in use: a list that only grows, a ring of buffers
//! that nobody takes out. Pointers in blocks that are reached so lead on to others.
//!
//! Against it: a number may look like such an address by chance, and what is kept may be kept on purpose.

use std::collections::{BTreeMap, BTreeSet};

use super::super::{Case, Evidence, Finding};
use super::corrupt_pool::blocks_in_use;
use super::lost_blocks::{each_pointer, holding, is_old, old};
use super::set_by::{SetBy, without_indices};
use super::static_pointers::kernel_memory;
use super::words::function_at;
use crate::abi::{Addr, Region};
use crate::sym::Symbol;

/// The fewest blocks that are worth a word.
const FEWEST: usize = 3;
/// The most variables that are followed.
const VARIABLES: usize = 64;
/// The most functions that are named.
const MOST: usize = 4;

/// Such a variable.
pub(super) struct Holder {
    pub variable: Symbol,
    /// How many blocks it leads to, and how many are in use.
    pub counts: (usize, usize),
    /// The first of its words with the address of a block, where it has those of all of them itself.
    pub first: Option<Addr>,
}

impl Finding {
    /// The same with the variable that leads to most of a pool's blocks.
    pub(super) fn with_holder(self, pool: Addr, case: &Case<'_>) -> Self {
        let Some(Holder { variable, counts: (held, used), first }) = holder(pool, case) else { return self };
        let member = first.and_then(|first| Some((case.look.place(first)?, first)));
        let how = how(&variable, first, case);
        let set_by = member.and_then(|(_, first)| {
            let word = case.words(&case.look.bytes(first, case.width())?, true).first().copied();
            SetBy::of(first, word?, case)
        });
        let words = format!("{how} {held} of its {used} blocks in use");
        let memory = Region { start: variable.address, len: variable.size.max(1) };
        let names: Vec<String> = case.functions_with(memory).into_iter().map(|at| function_at(at, case)).collect();
        let by = match names.as_slice() {
            [] => String::new(),
            all if all.len() > MOST => format!("; {} functions have its address", all.len()),
            all => format!("; {} {} its address", all.join(", "), if all.len() == 1 { "has" } else { "have" }),
        };
        let set = set_by.as_ref().and_then(|set_by| set_by.words.as_ref());
        let set = set.map_or_else(String::new, |set| format!("; {}", set.of("its elements")));
        let claim = format!("{}; {words}{set}", self.claim);
        Self { claim, ..self }
            .against(["blocks may be kept on purpose"])
            .evidence([Evidence::memory(variable.address, format!("{words}{by}"))])
            .evidence(set_by.map(|set_by| set_by.evidence))
    }
}

/// `tp_ch[].seg[] has the addresses of`, or `first_job leads to`.
pub(super) fn how(variable: &Symbol, first: Option<Addr>, case: &Case<'_>) -> String {
    match first.and_then(|first| case.look.place(first)) {
        Some(member) => format!("{} has the addresses of", without_indices(&member)),
        None => format!("{} leads to", variable.name),
    }
}

/// The one that leads to at least half of the blocks in use.
pub(super) fn holder(pool: Addr, case: &Case<'_>) -> Option<Holder> {
    if !case.look.is_stored() || case.trust.other_build {
        return None;
    }
    let pool = case.kernel?.object(pool)?;
    let used = blocks_in_use(pool, case)?;
    let memory = Region { start: pool.get("start")?, len: pool.get("size")? };
    let (old, kernel) = (old(case)?, kernel_memory(case));
    let mut from: BTreeMap<Addr, (Symbol, BTreeMap<usize, Addr>)> = BTreeMap::new();
    let mut within: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    each_pointer(&used, case, &mut |at, block| {
        if memory.contains(at) {
            holding(at, &used).into_iter().for_each(|from| _ = within.entry(from).or_default().insert(block));
        } else if !is_old(at, &old)
            && !kernel.iter().any(|region| region.contains(at))
            && let Some(variable) = case.look.variable(at).filter(|variable| !variable.name.starts_with("_tx"))
        {
            from.entry(variable.address).or_insert_with(|| (variable, BTreeMap::new())).1.entry(block).or_insert(at);
        }
    })?;
    // Of many variables only those that lead to most by themselves, and lists.
    let mut from: Vec<(Symbol, BTreeMap<usize, Addr>)> = from.into_values().collect();
    from.sort_by_key(|(_, direct)| std::cmp::Reverse(direct.len()));
    from.truncate(VARIABLES);
    let all = from.into_iter().map(|(variable, direct)| {
        let held = reached(direct.keys().copied().collect(), &within).len();
        let member = |at: &Addr| case.look.place(*at).map(|place| without_indices(&place));
        let first = direct.values().min().copied().filter(|_| direct.len() == held);
        let first = first.filter(|first| direct.values().all(|at| member(at) == member(first)));
        Holder { variable, counts: (held, used.len()), first }
    });
    let found = all.max_by_key(|holder| holder.counts.0)?;
    let (held, used) = found.counts;
    (held >= FEWEST && held >= used.div_ceil(2)).then_some(found)
}

/// The blocks to which some lead, themselves too.
fn reached(first: BTreeSet<usize>, within: &BTreeMap<usize, BTreeSet<usize>>) -> BTreeSet<usize> {
    let (mut all, mut next) = (first.clone(), Vec::from_iter(first));
    while let Some(from) = next.pop() {
        next.extend(within.get(&from).into_iter().flatten().filter(|to| all.insert(**to)));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A list that kept a pool full was not named: its variable has the address of its first element alone.
    #[test]
    fn a_list_of_blocks_was_one_block() {
        let within = BTreeMap::from([(0, BTreeSet::from([1])), (1, BTreeSet::from([2])), (2, BTreeSet::from([0]))]);
        assert_eq!(reached(BTreeSet::from([0]), &within), BTreeSet::from([0, 1, 2]));
        assert_eq!(reached(BTreeSet::from([5]), &within), BTreeSet::from([5]));
    }
}
