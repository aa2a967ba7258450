//! Numbers of threads, as packets have them.

/// Which threads a packet is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// `-1`, or none at all.
    All,
    /// `0`.
    Any,
    /// This one, which need not exist.
    One(usize),
}

impl Which {
    /// `TID`, or `pPID.TID`.
    pub fn parse(text: &str) -> Option<Self> {
        let tid = match text.strip_prefix('p') {
            Some(both) => both.split_once('.').map_or("-1", |(_, tid)| tid),
            None => text,
        };
        if tid == "-1" {
            return Some(Self::All);
        }
        let id = usize::from_str_radix(tid, 16).ok().filter(|_| !tid.starts_with('+'))?;
        Some(if id == 0 { Self::Any } else { Self::One(id) })
    }
}

/// The number of a thread without its process; `None` for what names no single thread.
pub fn plain(text: &str) -> Option<usize> {
    match Which::parse(text)? {
        Which::One(id) => Some(id),
        Which::All | Which::Any => None,
    }
}

/// The process in front of a number, as it is written there: `p1.`; empty without one.
pub fn process(text: &str) -> &str {
    match text.split_once('.') {
        Some((pid, _)) if pid.starts_with('p') => text.get(..=pid.len()).unwrap_or_default(),
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_and_without_a_process() {
        let all = [("p1.-1", Which::All), ("-1", Which::All), ("p1", Which::All), ("0", Which::Any)];
        for (text, which) in all.into_iter().chain([("p1.1f", Which::One(0x1f)), ("20000040", Which::One(0x2000_0040))])
        {
            assert_eq!(Which::parse(text), Some(which), "{text}");
        }
        assert!(["", "+1", "p1.", "g"].iter().all(|text| Which::parse(text).is_none()));
        assert_eq!((plain("p1.2"), plain("-1"), process("p1.2"), process("2")), (Some(2), None, "p1.", ""));
    }
}
