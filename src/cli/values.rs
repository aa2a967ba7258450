//! What the options take: each function makes a typed value of the text after an option, or says what it takes.

use std::ffi::{OsStr, OsString};
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use crate::analysis::Name;
use crate::catalogue::Names;
use crate::code::Code;
use crate::error::Error;
use crate::follow::Saved;
use crate::format::{self, Format};
use crate::mem::Region;
use crate::mem::image;
use crate::output::ExtraColumn;
use crate::query::{Amount, Position};
use crate::session::Image;
use crate::trace::Direction;

/// Why an option does not take a value. The caller puts option and value in front.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Wrong {
    /// The code of the error.
    pub code: Code,
    /// What is wrong, or what the option takes.
    pub why: String,
    /// What to type instead; empty where that says it.
    pub hint: String,
}

type Value<T> = Result<T, Wrong>;

fn wrong(code: Code, why: impl Into<String>) -> Wrong {
    Wrong { code, why: why.into(), hint: String::new() }
}

impl From<Error> for Wrong {
    /// Without the value, which the caller puts in front.
    fn from(error: Error) -> Self {
        Self { code: error.code, why: error.message, hint: error.hint }
    }
}

/// The highest rate of a clock: beyond it every time would be shown as 0.
const MAX_HZ: f64 = 1e12;

/// The lowest: a tick each 17 minutes.
const MIN_HZ: f64 = 1e-3;

/// `--hz`: ticks in a second, or a variable that holds them.
#[derive(Debug, Clone, PartialEq)]
pub enum Rate {
    /// More than 0.
    Hz(f64),
    /// The name of a symbol.
    Symbol(String),
}

/// `--after`: where a run of `follow` in a debugger begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Here, for the first time.
    Now,
    /// Where the run before ended.
    Saved(Saved),
}

/// `50`, `1200t`, `5ms`: how much of the newest.
pub(super) fn amount(text: &str) -> Value<Amount> {
    Ok(Amount::parse(text)?)
}

/// `50`: how many events.
pub fn count(text: &str) -> Value<u64> {
    match Amount::parse(text) {
        Ok(Amount::Events(n)) => Ok(n),
        _ => Err(wrong(Code::Position, "not a number of events, such as 50")),
    }
}

/// `4096`, `0x1000`.
pub fn number(text: &str) -> Value<u64> {
    image::parse_number(text).ok_or_else(|| {
        let is_hex = text.len() >= 4 && image::parse_number(&format!("0x{text}")).is_some();
        let hint = if is_hex { format!("did you mean 0x{text}?") } else { String::new() };
        Wrong { hint, ..wrong(Code::Number, "not a number: 4096 or 0x20000000") }
    })
}

/// A number that may be negative: a dump linked high and loaded low.
pub fn offset(text: &str) -> Value<u64> {
    match text.strip_prefix('-') {
        Some(rest) => Ok(number(rest)?.wrapping_neg()),
        None => number(text),
    }
}

/// `NAME=ADDR`
pub fn symbol(text: &str) -> Value<(String, u64)> {
    pair(text, "NAME=ADDR", "_tx_trace_header_ptr=0x20001000")
}

/// `NAME=VALUE`
pub fn register(text: &str) -> Value<(String, u64)> {
    pair(text, "NAME=VALUE", "pc=0x8001234")
}

fn pair(text: &str, form: &str, example: &str) -> Value<(String, u64)> {
    let (name, value) = text
        .split_once('=')
        .filter(|(name, _)| !name.is_empty())
        .ok_or_else(|| wrong(Code::Symbol, format!("not {form}, such as {example}")))?;
    let value = image::parse_number(value).ok_or_else(|| {
        wrong(Code::Number, format!("`{value}` is not a number: it must be {form}, such as {example}"))
    })?;
    Ok((name.to_owned(), value))
}

/// `FILE@ADDR`: the last `@` with a number after it; a path may hold others.
pub(super) fn image(text: OsString) -> Value<Image> {
    let split = text.to_str().and_then(|t| t.rsplit_once('@'));
    let Some((path, address)) = split.filter(|(p, a)| !p.is_empty() && a.starts_with(|c: char| c.is_ascii_digit()))
    else {
        return Ok(Image { path: PathBuf::from(text), address: None });
    };
    Ok(Image { path: PathBuf::from(path), address: Some(number(address)?) })
}

/// `FIRST..LAST`, both ends included.
pub(super) fn range(text: &str) -> Value<Region> {
    let wrong = || wrong(Code::Usage, "not FIRST..LAST, such as 0x20000000..0x2000ffff");
    let (first, last) = text.split_once("..").ok_or_else(wrong)?;
    let (first, last) = (number(first)?, number(last)?);
    Region::between(first, last).ok_or_else(wrong)
}

/// `500ms`, `1.5s`: from a millisecond to 11 days.
pub(super) fn time(text: &str) -> Value<Duration> {
    match Position::parse(text) {
        Ok(Position::Time(seconds)) if (0.001..=1e6).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(wrong(Code::Usage, "not a time: 500ms, 2s (in ms or s, from a millisecond to 11 days)")),
    }
}

/// The same, to an hour; a number alone is seconds.
pub(super) fn timeout(text: &str) -> Value<Duration> {
    let seconds = match Position::parse(text) {
        Ok(Position::Time(seconds)) => Some(seconds),
        _ => text.parse().ok(),
    };
    let seconds = seconds.filter(|s| (0.001..=3600.0).contains(s));
    seconds
        .map(Duration::from_secs_f64)
        .ok_or_else(|| wrong(Code::Usage, "not a time: 2 (seconds), 2s or 500ms, from a millisecond to an hour"))
}

/// `72000000`, `72M`, `32.768k`, or a symbol.
pub(super) fn rate(text: &str) -> Value<Rate> {
    if !text.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '.') {
        return Ok(Rate::Symbol(text.to_owned()));
    }
    let (digits, factor) = match text.char_indices().next_back() {
        Some((end, 'k' | 'K')) => (text.get(..end), 1e3),
        Some((end, 'M')) => (text.get(..end), 1e6),
        Some((end, 'G')) => (text.get(..end), 1e9),
        _ => (Some(text), 1.0),
    };
    match digits.filter(|d| d.starts_with(|c: char| c.is_ascii_digit())).and_then(|d| d.parse::<f64>().ok()) {
        Some(n) if (MIN_HZ..=MAX_HZ).contains(&(n * factor)) => Ok(Rate::Hz(n * factor)),
        Some(n) if n > 0.0 => Err(wrong(Code::Clock, "a rate is from 0.001 to 1000000000000 (1e12) ticks a second")),
        _ => Err(wrong(
            Code::Clock,
            "not a rate in ticks a second: 72000000, 72M, 32.768k, or a symbol that holds it (SystemCoreClock)",
        )),
    }
}

/// `up`, `down`
pub(super) fn direction(text: &str) -> Value<Direction> {
    match text {
        "up" => Ok(Direction::Up),
        "down" => Ok(Direction::Down),
        _ => Err(wrong(Code::Clock, "not a direction: up or down")),
    }
}

/// Ticks until the clock starts over.
pub(super) fn period(text: &str) -> Value<u64> {
    match number(text)? {
        0 => Err(wrong(Code::Clock, "a clock starts over after at least one tick")),
        ticks => Ok(ticks),
    }
}

/// `duo`, `classic`
pub(super) fn netx(text: &str) -> Value<Names> {
    match text {
        "duo" => Ok(Names::Duo),
        "classic" => Ok(Names::Classic),
        _ => Err(wrong(Code::Netx, "not a NetX: duo or classic")),
    }
}

/// `6.4`, `7.1`, `8.0`, also with a third number: the first two as one number.
pub(super) fn qnx_release(text: &str) -> Value<u16> {
    let parts: Option<Vec<u16>> = text.split('.').map(|p| p.parse().ok().filter(|n| *n < 10)).collect();
    let release = match parts.as_deref() {
        Some([major]) => Some((major, &0)),
        Some([major, minor] | [major, minor, _]) => Some((major, minor)),
        _ => None,
    };
    release
        .map(|(major, minor)| major.saturating_mul(10).saturating_add(*minor))
        .filter(|r| (60..90).contains(r))
        .ok_or_else(|| wrong(Code::Usage, "not a release of QNX: 6.4, 7.1, 8.0"))
}

/// The name of a trace format.
pub(super) fn trace_format(text: &str) -> Value<&'static dyn Format> {
    format::ALL.iter().find(|f| f.name() == text).copied().ok_or_else(|| {
        let all: Vec<&str> = format::ALL.iter().map(|f| f.name()).collect();
        wrong(Code::FormatIn, format!("not a format of traces: {}", all.join(", ")))
    })
}

/// The name of a report.
pub(super) fn report(text: &str) -> Value<Name> {
    Name::ALL.into_iter().find(|name| name.name() == text).ok_or_else(|| {
        let all: Vec<&str> = Name::ALL.iter().map(|name| name.name()).collect();
        wrong(Code::Usage, format!("not a report: {}", all.join(", ")))
    })
}

/// Columns of a table.
pub(super) fn width(text: &str) -> Value<usize> {
    let columns = text.parse().ok().filter(|w| (20..=10_000).contains(w));
    columns.ok_or_else(|| wrong(Code::Usage, "not a number of columns from 20 to 10000"))
}

/// The name of a column that the table of events has only where it is asked for.
pub(super) fn column(text: &str) -> Value<ExtraColumn> {
    ExtraColumn::ALL.into_iter().find(|column| column.name() == text).ok_or_else(|| {
        let all = ExtraColumn::ALL.map(ExtraColumn::name).join(", ");
        wrong(Code::Usage, format!("columns are {all}; seq, delta, who, event and arguments are always shown"))
    })
}

/// `now`, or what `follow` printed as the place where it ended.
pub fn place(text: &str) -> Value<Place> {
    match text {
        "now" => Ok(Place::Now),
        _ => Saved::parse(text).map(Place::Saved).ok_or_else(|| wrong(Code::Usage, "not a place that follow printed")),
    }
}

/// `:PORT` and `HOST:PORT`. Without a host it is 127.0.0.1; port 0 is any that is free.
pub(super) fn listen(text: &str) -> Value<SocketAddr> {
    if let Some(port) = text.strip_prefix(':') {
        let port: u16 =
            port.parse().map_err(|_| wrong(Code::Listen, format!("`{port}` is not a port (0 to 65535)")))?;
        return Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    }
    let mut found = text
        .to_socket_addrs()
        .map_err(|e| wrong(Code::Listen, format!("not an address to listen at, such as :3334 or HOST:3334 ({e})")))?;
    found.next().ok_or_else(|| wrong(Code::Listen, "the host has no address"))
}

/// True for digits alone, with or without a minus: N or SEQ, and no file.
pub(super) fn is_number(word: &OsStr) -> bool {
    let digits = word.to_str().map(|w| w.strip_prefix('-').unwrap_or(w)).unwrap_or_default();
    !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_without_a_host() {
        assert_eq!(listen(":3334").unwrap().to_string(), "127.0.0.1:3334");
        assert_eq!(listen("0.0.0.0:0").unwrap().to_string(), "0.0.0.0:0");
        assert_eq!(listen("[::1]:3334").unwrap().to_string(), "[::1]:3334");
        for text in ["", "3334", ":", ":70000", "::1:3334:", "host"] {
            assert!(listen(text).is_err_and(|w| w.code == Code::Listen), "{text}");
        }
    }

    #[test]
    fn numbers_take_a_sign_and_separators() {
        for text in ["4096", "+4096", "0x1000", "0X1000", "0x+1000", "4_096", "0x1_000"] {
            assert_eq!(number(text), Ok(4096), "{text}");
        }
        assert_eq!(offset("-0x1000"), Ok(4096_u64.wrapping_neg()));
        for text in ["", "-1", "0x", "1k", "0x10000000000000000"] {
            assert!(number(text).is_err_and(|w| w.code == Code::Number), "{text}");
        }
    }

    #[test]
    fn rates_and_releases() {
        assert_eq!(rate("72M"), Ok(Rate::Hz(72e6)));
        assert_eq!(rate("32.768k"), Ok(Rate::Hz(32768.0)));
        assert_eq!(rate("SystemCoreClock"), Ok(Rate::Symbol("SystemCoreClock".to_owned())));
        for text in ["0", "-5", "72Mhz", "1e13", "1e999", "1e-300", "0.0009", "."] {
            assert!(rate(text).is_err_and(|w| w.code == Code::Clock), "{text}");
        }
        assert_eq!((qnx_release("6.4"), qnx_release("7.1.0"), qnx_release("8")), (Ok(64), Ok(71), Ok(80)));
        for text in ["", "x", "5.9", "6.10", "6.4.0.1", "9.0"] {
            assert!(qnx_release(text).is_err(), "{text}");
        }
    }
}
