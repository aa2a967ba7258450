//! Places in a trace as people write them: by number, by ticks, by time; from the start or back from the newest.

use super::wrong_filter;
use crate::error::Error;
use crate::trace::Trace;

/// A place in a trace.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Position {
    /// `123`: the event of this sequence number.
    Seq(u64),
    /// `-3`: the third newest event; `-1` is the newest.
    Newest(u64),
    /// `1200t`: ticks since the origin of the trace.
    Ticks(i64),
    /// `-1200t`: so many ticks before the newest event.
    TicksBack(i64),
    /// `1.5ms`: seconds since the origin of the trace.
    Time(f64),
    /// `-20us`: so many seconds before the newest event.
    TimeBack(f64),
}

/// How much is asked for: the `N` of `last N`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Amount {
    /// `50`: so many events.
    Events(u64),
    /// `1200t`: what happened in so many ticks.
    Ticks(i64),
    /// `5ms`: what happened in so many seconds.
    Time(f64),
}

/// A place made definite in one trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// A sequence number.
    Seq(u64),
    /// Ticks since the origin.
    Ticks(i64),
}

/// Which end of a range a place is: what is between two ticks is counted in at both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edge {
    /// The first that is in.
    From,
    /// The last that is in.
    To,
}

/// The seconds of `1.5ms`; `None` where there is no unit of time after a number.
fn seconds(text: &str) -> Option<f64> {
    const UNITS: [(&str, f64); 6] = [("ns", 1e-9), ("us", 1e-6), ("µs", 1e-6), ("μs", 1e-6), ("ms", 1e-3), ("s", 1.0)];
    let (number, scale) = UNITS.iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, scale)))?;
    if !number.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        || !number.bytes().all(|b| b.is_ascii_digit() || b == b'.')
    {
        return None;
    }
    number.parse::<f64>().ok().map(|n| n * scale)
}

fn digits(text: &str) -> Option<u64> {
    (!text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok())?
}

impl Position {
    /// Reads a place.
    ///
    /// # Errors
    /// Where the text is none; the message says what it may be.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let (back, body) = match text.strip_prefix('-') {
            Some(body) => (true, body),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        if let Some(n) = digits(body) {
            if !back {
                return Ok(Self::Seq(n));
            }
            if n > 0 {
                return Ok(Self::Newest(n));
            }
        }
        if let Some(n) = body.strip_suffix('t').and_then(digits).and_then(|n| i64::try_from(n).ok()) {
            return Ok(if back { Self::TicksBack(n) } else { Self::Ticks(n) });
        }
        if let Some(s) = seconds(body) {
            return Ok(if back { Self::TimeBack(s) } else { Self::Time(s) });
        }
        Err(wrong_filter("not a position in the trace").hint(
            "a position is 123 (sequence number), -1 (the newest), 1200t (ticks) or 1.5ms (time in ns, us, ms, s)",
        ))
    }

    /// True where no trace has an event from this place to the other.
    pub fn is_after(self, other: Self) -> bool {
        match (self, other) {
            (Self::Seq(a), Self::Seq(b)) => a > b,
            (Self::Newest(a), Self::Newest(b)) => a < b,
            (Self::Ticks(a), Self::Ticks(b)) => a > b,
            (Self::TicksBack(a), Self::TicksBack(b)) => a < b,
            (Self::Time(a), Self::Time(b)) => a > b,
            (Self::TimeBack(a), Self::TimeBack(b)) => a < b,
            _ => false,
        }
    }

    /// Makes the place definite.
    ///
    /// # Errors
    /// Where it is a time and the clock's rate is not known.
    pub fn bound(self, trace: &Trace, edge: Edge) -> Result<Bound, Error> {
        let newest = || trace.newest().map_or(0, |e| e.ticks);
        Ok(match self {
            Self::Seq(n) => Bound::Seq(n),
            Self::Newest(n) => Bound::Seq(nth_newest(trace, n).unwrap_or(0)),
            Self::Ticks(t) => Bound::Ticks(t),
            Self::TicksBack(t) => Bound::Ticks(newest().saturating_sub(t)),
            Self::Time(s) => Bound::Ticks(whole(s * rate(trace)?, edge)),
            Self::TimeBack(s) => {
                let other = if edge == Edge::From { Edge::To } else { Edge::From };
                Bound::Ticks(newest().saturating_sub(whole(s * rate(trace)?, other)))
            }
        })
    }

    /// The sequence number of the event there: for ticks and time the first that is not earlier. `None` where the
    /// trace ends before.
    ///
    /// # Errors
    /// Where it is a time and the clock's rate is not known.
    pub fn seq(self, trace: &Trace) -> Result<Option<u64>, Error> {
        if let Self::Newest(n) = self {
            return Ok(nth_newest(trace, n));
        }
        Ok(match self.bound(trace, Edge::From)? {
            Bound::Seq(n) => trace.events().any(|e| e.seq == n).then_some(n),
            Bound::Ticks(t) => trace.events().find(|e| e.ticks >= t).map(|e| e.seq),
        })
    }
}

impl Amount {
    /// Reads an amount.
    ///
    /// # Errors
    /// Where the text is none.
    pub fn parse(text: &str) -> Result<Self, Error> {
        match Position::parse(text) {
            Ok(Position::Seq(n)) => Ok(Self::Events(n)),
            Ok(Position::Ticks(t)) => Ok(Self::Ticks(t)),
            Ok(Position::Time(s)) => Ok(Self::Time(s)),
            _ => Err(wrong_filter("neither a number of events nor a time")
                .hint("N is 50 (events), 1200t (ticks) or 5ms (time in ns, us, ms, s)")),
        }
    }

    /// Where the newest so much begins; `None` for a number of events.
    pub const fn start(self) -> Option<Position> {
        match self {
            Self::Events(_) => None,
            Self::Ticks(t) => Some(Position::TicksBack(t)),
            Self::Time(s) => Some(Position::TimeBack(s)),
        }
    }
}

/// The first whole tick that is not before, or the last that is not after; the dust of the multiplication is shaken
/// off first.
fn whole(ticks: f64, edge: Edge) -> i64 {
    let ticks = match edge {
        Edge::From => (ticks - 1e-6).ceil(),
        Edge::To => (ticks + 1e-6).floor(),
    };
    // A cast from a float saturates.
    #[allow(clippy::cast_possible_truncation)]
    let whole = ticks as i64;
    whole
}

fn rate(trace: &Trace) -> Result<f64, Error> {
    if !trace.clock.runs() {
        return Err(wrong_filter("a time means nothing here: the clock of this trace does not run")
            .hint("give a number of events (50), or a sequence number (123)"));
    }
    trace.clock.hz.filter(|hz| *hz > 0.0).ok_or_else(|| {
        wrong_filter("a time means nothing here: the clock's rate is not known")
            .hint("give the rate (--hz 72M), or ticks in place of time (1200t)")
    })
}

/// The sequence number of the n-th newest event, counting events and not slots.
fn nth_newest(trace: &Trace, n: u64) -> Option<u64> {
    let skip = trace.len().checked_sub(n)?;
    trace.events().nth(usize::try_from(skip).ok()?).map(|e| e.seq)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read() {
        let parse = |t| Position::parse(t).unwrap();
        assert_eq!(parse("123"), Position::Seq(123));
        assert_eq!(parse("-1"), Position::Newest(1));
        assert_eq!(parse("1200t"), Position::Ticks(1200));
        assert_eq!(parse("-1200t"), Position::TicksBack(1200));
        assert_eq!(parse("1.5ms"), Position::Time(1.5 * 1e-3));
        assert_eq!(parse("-20us"), Position::TimeBack(20.0 * 1e-6));
        assert_eq!(parse("2s"), Position::Time(2.0));
        for bad in ["", "-", "-0", "t", "x", "1.5", "ms", "1e3s", "--1", "infs", "1x", "99999999999999999999"] {
            assert!(Position::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn amounts_are_read() {
        assert_eq!(Amount::parse("50").unwrap(), Amount::Events(50));
        assert_eq!(Amount::parse("5ms").unwrap().start(), Some(Position::TimeBack(5.0 * 1e-3)));
        assert!(Amount::parse("-5").is_err());
    }

    #[test]
    fn the_ends_of_a_range_are_in() {
        assert_eq!(whole(1e-3 * 1e6, Edge::From), 1000);
        assert_eq!(whole(1000.4, Edge::From), 1001);
        assert_eq!(whole(1000.6, Edge::To), 1000);
        assert_eq!(whole(f64::INFINITY, Edge::To), i64::MAX);
    }
}
