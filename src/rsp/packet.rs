//! Framing: cuts the bytes of a link into tokens, and puts packets into frames. No input or output here.
//!
//! A packet is `$body#cc`, where `cc` is the sum of the body's raw bytes, modulo 256, in hex. In a body `}` escapes
//! the next byte (xor 0x20), and `*` with a count byte repeats the byte before it. A stub may use run lengths at any
//! time without being asked (gdbserver and gdbstub do), so they are always undone. `%body#cc` is a notification:
//! it is never acknowledged.

use std::ops::Range;

use nom::branch::alt;
use nom::bytes::complete::take_while1;
use nom::bytes::streaming::{tag, take, take_till};
use nom::character::streaming::one_of;
use nom::combinator::{map, recognize, value};
use nom::{IResult, Parser};

use crate::bytes::hex;

/// The most raw bytes one packet may have before its end is seen. The largest packet size that a known stub
/// announces is 128 KiB (lldb-server).
const MAX_RAW: usize = 4 << 20;

/// The most bytes that a body may grow to once its run lengths are undone.
pub const MAX_BODY: usize = 4 << 20;

/// One token of the link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// `+`: the last packet came over well.
    Ack,
    /// `-`: send the last packet again.
    Nak,
    /// 0x03 outside a packet: stop the target.
    Interrupt,
    /// `$body#cc`.
    Packet(Body),
    /// `%body#cc`.
    Notification(Body),
    /// Bytes that are part of no token: noise, or a packet whose start or end was lost.
    Junk,
}

/// The body of a packet, with escapes and run lengths undone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Body {
    /// The bytes.
    pub data: Vec<u8>,
    /// The checksum agrees and the escapes and run lengths make sense. If not, `data` is not to be trusted.
    pub checksum_ok: bool,
}

/// A token and where its raw bytes are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// What it is.
    pub kind: Kind,
    /// Its bytes as they came, as a range of the input of [`next_token`]. It starts where the input starts.
    pub raw: Range<usize>,
}

/// A packet that does not end, or that expands beyond [`MAX_BODY`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endless;

/// Cuts the first token off `input`. `Ok(None)`: it has not come over completely yet.
///
/// # Errors
/// [`Endless`] once a packet passes 4 MiB without an end or [`MAX_BODY`] when expanded.
pub fn next_token(input: &[u8]) -> Result<Option<Token>, Endless> {
    match token(input) {
        Ok((rest, frame)) => {
            let raw = 0..input.len().saturating_sub(rest.len());
            let kind = match frame {
                Frame::Plain(kind) => kind,
                Frame::Packet(raw) => Kind::Packet(raw.decode()?),
                Frame::Notification(raw) => Kind::Notification(raw.decode()?),
            };
            Ok(Some(Token { kind, raw }))
        }
        Err(nom::Err::Incomplete(_)) if input.len() > MAX_RAW => Err(Endless),
        // `junk` takes whatever no other parser does, so an error can only mean that there is no input.
        Err(_) => Ok(None),
    }
}

/// What the grammar sees, before the body is decoded.
#[derive(Clone)]
enum Frame<'a> {
    Plain(Kind),
    Packet(RawBody<'a>),
    Notification(RawBody<'a>),
}

#[derive(Clone)]
struct RawBody<'a> {
    body: &'a [u8],
    sum: &'a [u8],
}

fn token(input: &[u8]) -> IResult<&[u8], Frame<'_>> {
    alt((
        value(Frame::Plain(Kind::Ack), tag(&b"+"[..])),
        value(Frame::Plain(Kind::Nak), tag(&b"-"[..])),
        value(Frame::Plain(Kind::Interrupt), tag(&b"\x03"[..])),
        map((tag(&b"$"[..]), framed), |(_, raw)| Frame::Packet(raw)),
        map((tag(&b"%"[..]), framed), |(_, raw)| Frame::Notification(raw)),
        value(Frame::Plain(Kind::Junk), cut_short),
        value(Frame::Plain(Kind::Junk), take_while1(|b| !b"+-\x03$%".contains(&b))),
    ))
    .parse(input)
}

/// A body up to `#`, and the two bytes of its checksum. There is never a `$` in a body: it is the next packet's start.
fn framed(input: &[u8]) -> IResult<&[u8], RawBody<'_>> {
    let (rest, body) = take_till(|b| b == b'#' || b == b'$').parse(input)?;
    let (rest, _) = tag(&b"#"[..]).parse(rest)?;
    let (rest, sum) = take(2_usize).parse(rest)?;
    Ok((rest, RawBody { body, sum }))
}

/// A packet whose end was lost: everything up to the next one's `$`.
fn cut_short(input: &[u8]) -> IResult<&[u8], &[u8]> {
    recognize((one_of(&b"$%"[..]), take_till(|b| b == b'#' || b == b'$'))).parse(input)
}

impl RawBody<'_> {
    fn decode(&self) -> Result<Body, Endless> {
        let expected = std::str::from_utf8(self.sum).ok().and_then(|s| u8::from_str_radix(s, 16).ok());
        let mut checksum_ok = expected == Some(checksum(self.body));
        let mut data: Vec<u8> = Vec::with_capacity(self.body.len());
        let mut bytes = self.body.iter().copied();
        while let Some(byte) = bytes.next() {
            match byte {
                b'}' => match bytes.next() {
                    Some(escaped) => data.push(escaped ^ 0x20),
                    None => checksum_ok = false,
                },
                b'*' => match (data.last().copied(), bytes.next().and_then(|n| n.checked_sub(29))) {
                    (Some(last), Some(more @ 3..)) => {
                        data.extend(std::iter::repeat_n(last, usize::from(more)));
                    }
                    _ => checksum_ok = false,
                },
                plain => data.push(plain),
            }
            if data.len() > MAX_BODY {
                return Err(Endless);
            }
        }
        Ok(Body { data, checksum_ok })
    }
}

/// The sum of `raw` modulo 256.
pub fn checksum(raw: &[u8]) -> u8 {
    raw.iter().fold(0, |sum, &byte| sum.wrapping_add(byte))
}

/// Frames `body`: `$`, the body with `#`, `$`, `}` and `*` escaped, `#` and the checksum.
pub fn encode(body: &[u8]) -> Vec<u8> {
    let mut frame = vec![b'$'];
    for &byte in body {
        if matches!(byte, b'#' | b'$' | b'}' | b'*') {
            frame.push(b'}');
            frame.push(byte ^ 0x20);
        } else {
            frame.push(byte);
        }
    }
    let sum = checksum(frame.get(1..).unwrap_or_default());
    frame.push(b'#');
    frame.extend_from_slice(&to_hex(&[sum]));
    frame
}

/// Lower-case hex, two digits a byte.
pub fn to_hex(bytes: &[u8]) -> Vec<u8> {
    hex(bytes).into_bytes()
}

/// Bytes of hex digits in either case; `None` for an odd number of digits or for anything else between them.
pub fn from_hex(digits: &[u8]) -> Option<Vec<u8>> {
    let digit = |b: u8| char::from(b).to_digit(16).and_then(|d| u8::try_from(d).ok());
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    digits
        .chunks_exact(2)
        .map(|pair| match pair {
            [high, low] => Some((digit(*high)? << 4) | digit(*low)?),
            _ => None,
        })
        .collect()
}

/// Collects bytes as they are received, and returns tokens.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: Vec<u8>,
    start: usize,
    last: Range<usize>,
}

impl Decoder {
    /// Adds bytes that were received.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.start.min(self.buffer.len()));
        self.start = 0;
        self.last = 0..0;
        self.buffer.extend_from_slice(bytes);
    }

    /// The next complete token; `None` until more bytes come.
    ///
    /// # Errors
    /// As [`next_token`].
    pub fn next_token(&mut self) -> Result<Option<Kind>, Endless> {
        let Some(token) = next_token(self.buffer.get(self.start..).unwrap_or_default())? else { return Ok(None) };
        let end = self.start.saturating_add(token.raw.end);
        self.last = self.start..end;
        self.start = end;
        Ok(Some(token.kind))
    }

    /// The bytes of the token that was returned last, as they came, until the next [`Decoder::push`].
    pub fn raw(&self) -> &[u8] {
        self.buffer.get(self.last.clone()).unwrap_or_default()
    }

    /// Bytes that came and are no complete token yet.
    pub fn pending(&self) -> &[u8] {
        self.buffer.get(self.start..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(bytes: &[u8]) -> Vec<Kind> {
        let mut decoder = Decoder::default();
        decoder.push(bytes);
        std::iter::from_fn(|| decoder.next_token().unwrap()).collect()
    }

    fn packet(data: &[u8]) -> Kind {
        Kind::Packet(Body { data: data.to_vec(), checksum_ok: true })
    }

    #[test]
    fn tokens_of_every_kind() {
        let kinds = all(b"+-\x03$OK#9a%Stop:T05#00 \r\n$m0,4#fd$");
        assert_eq!(&kinds[..4], &[Kind::Ack, Kind::Nak, Kind::Interrupt, packet(b"OK")]);
        assert!(matches!(&kinds[4], Kind::Notification(b) if b.data == b"Stop:T05" && !b.checksum_ok));
        assert_eq!(&kinds[5..], &[Kind::Junk, packet(b"m0,4")]);
        assert_eq!(all(b"noise"), [Kind::Junk], "noise is reported at once, not when a packet follows it");
    }

    #[test]
    fn run_lengths_and_escapes_are_undone() {
        assert_eq!(all(b"$0* #7a"), [packet(b"0000")]);
        assert_eq!(all(b"$b}\x03}]#bc"), [packet(b"b#}")]);
        // A run may repeat an escaped byte.
        let mut frame = b"$}\x0a*!".to_vec();
        let sum = checksum(&frame[1..]);
        frame.extend_from_slice(b"#");
        frame.extend_from_slice(&to_hex(&[sum]));
        assert_eq!(all(&frame), [packet(b"*****")]);
    }

    #[test]
    fn broken_bodies_are_reported() {
        for bad in [&b"$* #4a"[..], b"$ab}#40", b"$0*\x1c#76", b"$OK#zz", b"$OK#9b"] {
            assert!(matches!(&all(bad)[..], [Kind::Packet(b)] if !b.checksum_ok), "{}", bad.escape_ascii());
        }
    }

    #[test]
    fn a_packet_that_lost_its_end_does_not_swallow_the_next() {
        assert_eq!(all(b"$0011$OK#9a"), [Kind::Junk, packet(b"OK")]);
        assert_eq!(all(b"%x$OK#9a"), [Kind::Junk, packet(b"OK")]);
    }

    #[test]
    fn a_packet_without_end_is_refused() {
        let mut decoder = Decoder::default();
        decoder.push(b"$");
        decoder.push(&vec![b'0'; MAX_RAW]);
        assert_eq!(decoder.next_token(), Err(Endless));
    }

    #[test]
    fn runs_that_expand_beyond_reason_are_refused() {
        let mut frame = b"$0".to_vec();
        frame.extend(b"*~".iter().copied().cycle().take(MAX_BODY / 20));
        frame.extend_from_slice(b"#00");
        assert_eq!(next_token(&frame), Err(Endless));
    }

    proptest! {
        #[test]
        fn what_is_encoded_comes_back_however_it_is_split(
            bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 1..6),
            cuts in prop::collection::vec(1_usize..9, 1..200),
        ) {
            let stream: Vec<u8> = bodies.iter().flat_map(|b| [b"+".to_vec(), encode(b)].concat()).collect();
            let mut decoder = Decoder::default();
            let (mut got, mut raw) = (Vec::new(), Vec::new());
            let mut rest = &stream[..];
            for cut in cuts.iter().cycle() {
                if rest.is_empty() { break }
                let (now, later) = rest.split_at((*cut).min(rest.len()));
                decoder.push(now);
                rest = later;
                while let Some(kind) = decoder.next_token().unwrap() {
                    raw.extend_from_slice(decoder.raw());
                    got.push(kind);
                }
            }
            let wanted: Vec<Kind> = bodies.iter().flat_map(|b| [Kind::Ack, packet(b)]).collect();
            prop_assert_eq!(got, wanted);
            prop_assert_eq!(raw, stream);
            prop_assert!(decoder.pending().is_empty());
        }

        #[test]
        fn any_bytes_are_cut_into_tokens_without_loss(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let mut decoder = Decoder::default();
            decoder.push(&bytes);
            let mut raw = Vec::new();
            while decoder.next_token().unwrap().is_some() {
                prop_assert!(!decoder.raw().is_empty());
                raw.extend_from_slice(decoder.raw());
            }
            raw.extend_from_slice(decoder.pending());
            prop_assert_eq!(raw, bytes);
        }

        #[test]
        fn hex_there_and_back(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            prop_assert_eq!(from_hex(&to_hex(&bytes)), Some(bytes));
        }
    }
}
