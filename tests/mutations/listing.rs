//! What a JSON listing shows, and how two listings of one capture differ where nothing was damaged.

use std::collections::{HashMap, HashSet};

/// One event of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    pub slot: u64,
    /// What is the entry's own and not the registry's: stamp, id, words.
    pub own: String,
    pub ticks: Option<i128>,
    pub core: String,
    /// In what it ran, without the name; `None` where that is said to be unknown.
    pub context: Option<String>,
}

impl Shown {
    /// The stored stamp, where it has one.
    pub fn stamp(&self) -> Option<u64> {
        u64::from_str_radix(self.own.split('"').nth(1)?.strip_prefix("0x")?, 16).ok()
    }

    /// True where the other is shown on another core, or in another context. What is unknown is not wrong.
    pub fn is_elsewhere(&self, other: &Self) -> bool {
        self.core != other.core || other.context.is_some() && self.context != other.context
    }
}

fn part<'l>(line: &'l str, from: &str, to: &str) -> Option<&'l str> {
    let start = line.find(from)? + from.len();
    let len = line[start..].find(to)?;
    Some(&line[start..start + len])
}

/// The events of a JSON listing.
pub fn events(listing: &str) -> impl Iterator<Item = Shown> + '_ {
    listing.lines().filter(|l| l.starts_with(r#"{"type":"event""#)).map(|line| {
        let context = part(line, r#""context":"#, r#","priority""#).unwrap();
        let of = |from: &str, to: &str| part(context, from, to).unwrap_or_default();
        Shown {
            slot: part(line, r#""slot":"#, ",").unwrap().parse().unwrap(),
            own: format!(
                "{} {} {}",
                part(line, r#""stamp":"#, ",").unwrap(),
                part(line, r#""id":"#, ",").unwrap(),
                part(line, r#""words":["#, "]").unwrap()
            ),
            ticks: part(line, r#""ticks":"#, ",").unwrap().parse().ok(),
            core: part(line, r#""core":"#, ",").unwrap().to_owned(),
            context: context.starts_with('{').then(|| {
                format!(
                    "{} {} {} {}",
                    of(r#""kind":"#, ","),
                    of(r#""address":"#, ","),
                    of(r#""pid":"#, ","),
                    of(r#""tid":"#, "}"),
                )
            }),
        }
    })
}

/// The issues of a JSON listing: code, severity, count.
pub fn issues(listing: &str) -> HashSet<(String, String, u64)> {
    let lines = listing.lines().filter(|l| l.starts_with(r#"{"type":"issue""#));
    lines
        .map(|l| {
            let text = |from| part(l, from, "\"").unwrap().to_owned();
            let count = part(l, r#""count":"#, ",").unwrap().parse().unwrap();
            (text(r#""code":""#), text(r#""severity":""#), count)
        })
        .collect()
}

/// What differs in a listing of a damaged capture, among the entries that the damage did not touch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wrong {
    /// Entries that are not shown at all.
    pub missing: u64,
    /// Entries in whose slot something else is shown.
    pub words: u64,
    /// Entries that are shown before one that is older.
    pub order: u64,
    /// Neighbours whose distance in time is another.
    pub ticks: u64,
    /// Entries of another thread, interrupt or core.
    pub context: u64,
}

impl Wrong {
    pub fn any(self) -> bool {
        self != Self::default()
    }
}

/// Compares what is shown with the entries that were not touched, oldest first.
pub fn compare<'e>(untouched: impl Iterator<Item = &'e Shown>, shown: &[Shown]) -> Wrong {
    let mut wrong = Wrong::default();
    let slots: HashSet<u64> = shown.iter().map(|s| s.slot).collect();
    let places: HashMap<(u64, &str), usize> =
        shown.iter().enumerate().rev().map(|(i, s)| ((s.slot, s.own.as_str()), i)).collect();
    let mut before: Option<(&Shown, usize)> = None;
    for want in untouched {
        let Some(&i) = places.get(&(want.slot, want.own.as_str())) else {
            *(if slots.contains(&want.slot) { &mut wrong.words } else { &mut wrong.missing }) += 1;
            continue;
        };
        wrong.context += u64::from(want.is_elsewhere(&shown[i]));
        if let Some((old, at)) = before {
            wrong.order += u64::from(i <= at);
            let distance = |a: &Shown, b: &Shown| Some(b.ticks? - a.ticks?);
            wrong.ticks += u64::from(distance(&shown[at], &shown[i]) != distance(old, want));
        }
        before = Some((want, i));
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::{Shown, Wrong, compare};

    fn shown(slot: u64, ticks: i128, context: &str) -> Shown {
        Shown { slot, own: format!("own {slot}"), ticks: Some(ticks), core: "0".into(), context: Some(context.into()) }
    }

    #[test]
    fn each_kind_of_difference_is_counted() {
        let want: Vec<Shown> = (0..5).map(|i| shown(i, i128::from(i) * 10, "a")).collect();
        let check = |listing: &[Shown]| compare(want.iter(), listing);
        // Ticks count from the first event that is shown, so only distances are compared.
        let later: Vec<Shown> = want.iter().map(|w| Shown { ticks: w.ticks.map(|t| t + 7), ..w.clone() }).collect();
        assert_eq!(check(&later), Wrong::default());
        assert_eq!(check(&want[1..]), Wrong { missing: 1, ..Wrong::default() });
        let mut other = want.clone();
        other[2].own = "another".into();
        assert_eq!(check(&other), Wrong { words: 1, ..Wrong::default() });
        let mut other = want.clone();
        other[4].context = Some("b".into());
        // Not known is not wrong.
        other[3].context = None;
        assert_eq!(check(&other), Wrong { context: 1, ..Wrong::default() });
        let mut other = want.clone();
        other[3].ticks = Some(1 << 32);
        other[4].ticks = Some((1 << 32) + 10);
        assert_eq!(check(&other), Wrong { ticks: 1, ..Wrong::default() });
        let turned: Vec<Shown> = want[2..].iter().chain(&want[..2]).cloned().collect();
        assert_eq!(check(&turned), Wrong { order: 1, ..Wrong::default() });
    }
}
