//! Shell-like patterns: `*`, `?` and `[a-z]` (`[!a-z]`), over characters, with or without regard to case. `~` is `*`: a
//! table has it where it cuts a name, and the name is copied from there.

/// True where the text holds a character that makes it a pattern.
pub fn is_pattern(text: &str) -> bool {
    text.contains(['*', '~', '?', '['])
}

/// A pattern, taken apart once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob {
    parts: Vec<Part>,
    fold: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Any,
    One,
    Char(char),
    Set { not: bool, ranges: Vec<(char, char)> },
}

impl Glob {
    /// A pattern; `fold` makes it ignore the case of ASCII letters. A `[` that is never closed matches itself.
    pub fn new(pattern: &str, fold: bool) -> Self {
        let low = |c: char| if fold { c.to_ascii_lowercase() } else { c };
        let mut parts = Vec::new();
        let mut rest = pattern.chars();
        while let Some(c) = rest.next() {
            parts.push(match c {
                '*' | '~' if parts.last() == Some(&Part::Any) => continue,
                '*' | '~' => Part::Any,
                '?' => Part::One,
                '[' => match set(rest.as_str(), &low) {
                    Some((part, after)) => {
                        rest = after.chars();
                        part
                    }
                    None => Part::Char('['),
                },
                c => Part::Char(low(c)),
            });
        }
        Self { parts, fold }
    }

    /// True where the whole text fits. One star is remembered at a time, so the time is bounded by the product of
    /// the lengths whatever the pattern.
    pub(super) fn fits(&self, text: &str) -> bool {
        let text: Vec<char> =
            if self.fold { text.chars().map(|c| c.to_ascii_lowercase()).collect() } else { text.chars().collect() };
        let (mut p, mut t) = (0usize, 0usize);
        let mut star: Option<(usize, usize)> = None;
        loop {
            let one = match (self.parts.get(p), text.get(t)) {
                (None, None) => return true,
                (Some(Part::Any), _) => {
                    star = Some((p, t));
                    p = p.saturating_add(1);
                    continue;
                }
                (Some(part), Some(c)) => part.takes(*c),
                _ => false,
            };
            if one {
                (p, t) = (p.saturating_add(1), t.saturating_add(1));
                continue;
            }
            // Give the last star one character more.
            let Some((at, from)) = star else { return false };
            let from = from.saturating_add(1);
            if from > text.len() {
                return false;
            }
            star = Some((at, from));
            (p, t) = (at.saturating_add(1), from);
        }
    }
}

impl Part {
    fn takes(&self, c: char) -> bool {
        match self {
            Self::Any => false,
            Self::One => true,
            Self::Char(own) => *own == c,
            Self::Set { not, ranges } => ranges.iter().any(|(a, b)| (*a..=*b).contains(&c)) != *not,
        }
    }
}

/// The set that `text` (after its `[`) begins with, and what follows it.
fn set<'a>(text: &'a str, low: &dyn Fn(char) -> char) -> Option<(Part, &'a str)> {
    let (not, body) = match text.strip_prefix(['!', '^']) {
        Some(body) => (true, body),
        None => (false, text),
    };
    // A bracket that comes first is one of the set.
    let close = body.char_indices().skip(1).find(|(_, c)| *c == ']').map(|(i, _)| i)?;
    let (inside, after) = body.split_at_checked(close)?;
    let mut ranges = Vec::new();
    let mut rest = inside.chars().peekable();
    while let Some(a) = rest.next() {
        let mut ahead = rest.clone();
        if ahead.next() == Some('-')
            && let Some(b) = ahead.next()
        {
            ranges.push((low(a), low(b)));
            rest = ahead;
        } else {
            ranges.push((low(a), low(a)));
        }
    }
    Some((Part::Set { not, ranges }, after.get(1..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_whole_texts() {
        let fits = |p: &str, t: &str| Glob::new(p, false).fits(t);
        assert!(fits("tx_queue_*", "tx_queue_send"));
        assert!(fits("*", ""));
        assert!(fits("*_get", "tx_mutex_get"));
        assert!(fits("*a*b", "xaxbxab"));
        assert!(!fits("*_get", "tx_mutex_get_x"));
        assert!(fits("thread ?", "thread 3"));
        assert!(fits("t[0-9]x", "t5x") && !fits("t[!0-9]x", "t5x"));
        assert!(fits("a[b", "a[b"));
        assert!(fits("[]]", "]"));
        assert!(fits("ü*", "übung"));
        assert!(Glob::new("TX_*", true).fits("tx_sleep") && !fits("TX_*", "tx_sleep"));
    }

    #[test]
    fn many_stars_take_no_exponential_time() {
        let text = "a".repeat(2000);
        assert!(!Glob::new(&"*a".repeat(200).replace("*a", "*a*"), false).fits("b"));
        assert!(!Glob::new(&format!("{}b", "*a".repeat(200)), false).fits(&text));
    }
}
