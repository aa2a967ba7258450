//! A place in a trace as text, for a debugger to keep from one stop to the next.

use super::number::Numbers;
use crate::bytes::hex;
use crate::format::Follow;

/// The place in the trace: the next slot, the bytes of the one before it, and the numbers of the next event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saved {
    slot: u64,
    before: Vec<u8>,
    seq: u64,
    ticks: Option<i64>,
    stamp: Option<u64>,
}

impl Saved {
    pub(super) fn of(cursor: &dyn Follow, numbers: &Numbers) -> Self {
        let (slot, before) = cursor.save();
        let (ticks, stamp) = numbers.last.map_or((None, None), |(ticks, stamp)| (Some(ticks), stamp));
        Self { slot, before, seq: numbers.seq, ticks, stamp }
    }

    pub(super) fn put(&self, cursor: &mut dyn Follow, numbers: &mut Numbers) {
        numbers.seq = self.seq;
        numbers.last = self.ticks.map(|ticks| (ticks, self.stamp));
        cursor.restore(self.slot, &self.before);
    }

    /// Parses what [`Saved`] was written as.
    pub fn parse(text: &str) -> Option<Self> {
        const MAX_DIGITS: usize = 1024;
        let mut parts = text.split(':');
        let slot = parts.next()?.parse().ok()?;
        let digits = parts.next().filter(|d| d.len() <= MAX_DIGITS && d.is_ascii() && d.len().is_multiple_of(2))?;
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let before = digits.as_bytes().chunks(2).map(byte).collect::<Option<Vec<u8>>>()?;
        let seq = parts.next()?.parse().ok()?;
        let ticks = parts.next()?.parse().ok();
        let stamp = parts.next()?.parse().ok();
        parts.next().is_none().then_some(Self { slot, before, seq, ticks, stamp })
    }
}

impl std::fmt::Display for Saved {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}:{}:", self.slot, hex(&self.before), self.seq)?;
        self.ticks.map_or(Ok(()), |ticks| write!(f, "{ticks}"))?;
        f.write_str(":")?;
        self.stamp.map_or(Ok(()), |stamp| write!(f, "{stamp}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let saved = Saved { slot: 7, before: vec![0, 0xAB], seq: 9, ticks: Some(-3), stamp: None };
        assert_eq!(saved.to_string(), "7:00ab:9:-3:");
        assert_eq!(Saved::parse("7:00ab:9:-3:"), Some(saved));
        for text in ["", "7", "7:0:9::", "7:zz:9::", "x::9::", "7::9:::", "7::"] {
            assert_eq!(Saved::parse(text), None, "{text}");
        }
    }
}
