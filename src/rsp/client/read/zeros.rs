//! Zeros that OpenOCD gives for memory that it could not read.
//!
//! OpenOCD's GDB port answers a read that failed with zeros, and says nothing: a GDB that unwinds a stack is to go on
//! (`gdb report_data_abort disable`, which is the default). A failed read is never zeros in part, so an answer that is
//! all zeros is doubtful, and no other. Its monitor command `mdw` reads the same memory and can fail: it says why.
//!
//! A short chunk is asked for whole. Of a longer one only the first words are asked for, and the last words of a range:
//! a ring that was never filled costs one question and not its size again. Where they are not zero, the chunk is read
//! again in small pieces.

use super::super::Client;
use super::super::stub::{Stub, may_be_openocd};
use super::{Chunk, Job, PIECE, ReadFailure, TRIES};
use crate::abi::Addr;
use crate::rsp::error::RspError;
use crate::rsp::openocd::{Failed, failed};

/// The longest chunk that is asked for whole, in bytes.
const WHOLE: usize = 512;

/// The bytes of a longer chunk that are asked for: an event, however wide its words are.
const SAMPLE: usize = 64;

/// The most words in one question. They come back as 18 characters each.
const WORDS: usize = 768;

/// So many words are printed as 510 characters: OpenOCD 0.12 cuts the checksum off an answer of exactly 1020 digits.
const CUT_BY_OPENOCD: usize = 48;

/// Words that `mdw` is asked for, to check a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sample {
    /// The place of the chunk in the list.
    chunk: usize,
    addr: Addr,
    words: usize,
}

/// What a check shows.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Found {
    Zeros,
    /// Something else is there.
    Other,
    /// It cannot be read, and these are OpenOCD's messages.
    Unreadable(String),
}

impl Client {
    /// Reads all, checks answers of zeros, and reads again those that are not zeros in memory.
    pub(super) fn run_checked(&mut self, job: &mut Job) -> Result<(), RspError> {
        let error = loop {
            match self.run(job).and_then(|()| self.check_zeros(job)) {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(error) => break error,
            }
        };
        // They will not be checked any more. Over a broken link the program at the other end cannot be asked for its name.
        if self.stub.map_or_else(|| may_be_openocd(self.features()), |stub| stub == Stub::OpenOcd) {
            let zeros = std::mem::take(&mut job.zeros);
            zeros.iter().for_each(|chunk| job.fail(chunk, &ReadFailure::Link(error.clone())));
        }
        Err(error)
    }

    /// Checks the chunks whose answers are zeros. True where some of them are to be read again.
    fn check_zeros(&mut self, job: &mut Job) -> Result<bool, RspError> {
        if job.zeros.is_empty() || !self.is_openocd() {
            return Ok(false);
        }
        job.zeros.sort_by_key(|chunk| (chunk.addr, chunk.len));
        let zeros = job.zeros.clone();
        let mut again = false;
        let samples = samples(&zeros);
        let mut rest = samples.as_slice();
        while !rest.is_empty() {
            // No more than the link carries in a quarter of a second.
            let most = WORDS.min(self.rate.in_flight() / 4);
            let (now, later) = rest.split_at(within(rest, most));
            rest = later;
            // Mostly one question shows that all are zeros. Otherwise each is asked for alone.
            if now.len() > 1 && self.dump(now)?.is_some_and(|words| is_zero(&words)) {
                continue;
            }
            for sample in now {
                let Some(chunk) = zeros.get(sample.chunk).filter(|c| job.is_wanted(c)) else { continue };
                match self.check(*sample)? {
                    Found::Zeros => {}
                    Found::Other => again |= job.read_again(chunk),
                    Found::Unreadable(messages) => {
                        let state = self.openocd_curstate()?;
                        match failed(&self.link.name, &state, &messages) {
                            Failed::Address(why) => job.fail(chunk, &ReadFailure::Unreadable { addr: chunk.addr, why }),
                            Failed::Target(error) => {
                                zeros.iter().for_each(|c| job.fail(c, &ReadFailure::Link(error.clone())));
                                return Ok(false);
                            }
                        }
                    }
                }
            }
        }
        job.zeros.clear();
        Ok(again)
    }

    /// Asks for one sample.
    fn check(&mut self, sample: Sample) -> Result<Found, RspError> {
        for part in sample.parts() {
            match self.check_part(part)? {
                Found::Zeros => {}
                other => return Ok(other),
            }
        }
        Ok(Found::Zeros)
    }

    fn check_part(&mut self, sample: Sample) -> Result<Found, RspError> {
        let text = self.link.monitor(&mdw(&sample))?.text().unwrap_or_default();
        let words = words(&text);
        Ok(match words.len() == sample.words {
            true if is_zero(&words) => Found::Zeros,
            true => Found::Other,
            false => Found::Unreadable(text),
        })
    }

    /// The words of several samples, by one question; `None` where one of them failed.
    fn dump(&mut self, samples: &[Sample]) -> Result<Option<Vec<u32>>, RspError> {
        let commands: Vec<String> = samples.iter().map(|sample| format!("[{}]", mdw(sample))).collect();
        let command = padded(&format!("join [list {}]", commands.join(" ")));
        let text = self.link.monitor(&command)?.text().unwrap_or_default();
        let wanted: usize = samples.iter().map(|sample| sample.words).sum();
        Ok(Some(words(&text)).filter(|words| words.len() == wanted))
    }
}

impl Job {
    /// True unless the range of the chunk has failed already.
    fn is_wanted(&self, chunk: &Chunk) -> bool {
        self.done.get(chunk.which).is_some_and(Result::is_ok)
    }

    fn fail(&mut self, chunk: &Chunk, failure: &ReadFailure) {
        if let Some(slot) = self.done.get_mut(chunk.which).filter(|slot| slot.is_ok()) {
            *slot = Err(failure.clone());
        }
    }

    /// Puts a chunk back, in pieces that are checked whole. False where it was tried often enough.
    #[allow(clippy::arithmetic_side_effects, reason = "bytes of a range that is held in memory")]
    fn read_again(&mut self, chunk: &Chunk) -> bool {
        let tries = chunk.again().tries;
        if tries >= TRIES {
            let why = "OpenOCD gives zeros for it, and something else when it is asked again".to_owned();
            self.fail(chunk, &ReadFailure::Unreadable { addr: chunk.addr, why });
            return false;
        }
        if let Some(lack) = self.lacks.get_mut(chunk.which) {
            *lack += chunk.len;
        }
        self.put_back(chunk.split(PIECE).map(|piece| Chunk { tries, ..piece }));
        true
    }
}

/// What is asked for, to check these chunks, which are sorted by address.
fn samples(chunks: &[Chunk]) -> Vec<Sample> {
    let mut samples = Vec::with_capacity(chunks.len());
    let mut rest = chunks.iter().enumerate().peekable();
    while let Some((i, chunk)) = rest.next() {
        let Some(last) = chunk.len.checked_sub(SAMPLE).filter(|_| chunk.len > WHOLE) else {
            samples.extend(Sample::of(i, chunk.addr, chunk.len));
            continue;
        };
        samples.extend(Sample::of(i, chunk.addr, SAMPLE));
        let goes_on = rest.peek().is_some_and(|(_, next)| Some(next.addr) == chunk.end());
        if !goes_on {
            samples.extend(chunk.part(last, SAMPLE).and_then(|part| Sample::of(i, part.addr, part.len)));
        }
    }
    samples
}

impl Chunk {
    fn end(&self) -> Option<Addr> {
        self.addr.checked_add(self.len as u64)
    }
}

impl Sample {
    /// The words that hold these bytes.
    fn of(chunk: usize, addr: Addr, len: usize) -> Option<Self> {
        let start = addr & !3;
        let skipped = usize::try_from(addr.checked_sub(start)?).ok()?;
        Some(Self { chunk, addr: start, words: len.checked_add(skipped)?.div_ceil(4) })
    }
}

impl Sample {
    /// The sample, or two halves of one whose text OpenOCD would cut. Older versions of OpenOCD print what `mdw` finds and give no
    /// result of it, so that the text cannot be made longer.
    fn parts(self) -> impl Iterator<Item = Self> {
        let rest = if self.words == CUT_BY_OPENOCD { self.words / 2 } else { 0 };
        let first = self.words.saturating_sub(rest);
        let behind = u64::try_from(first).ok().and_then(|words| self.addr.checked_add(words.checked_mul(4)?));
        let second = behind.filter(|_| rest > 0).map(|addr| Self { addr, words: rest, ..self });
        std::iter::once(Self { words: first, ..self }).chain(second)
    }
}

/// How many of the first samples have no more words than these together; one at least.
fn within(samples: &[Sample], most: usize) -> usize {
    let mut room = Some(most);
    let first = samples.iter().take_while(|sample| {
        room = room.and_then(|room| room.checked_sub(sample.words));
        room.is_some()
    });
    first.count().max(1).min(samples.len())
}

fn mdw(sample: &Sample) -> String {
    format!("mdw {:#x} {}", sample.addr, sample.words)
}

/// The command, with an answer of 512 characters at the least, as OpenOCD 0.12 cuts the checksum off one of exactly 510.
fn padded(command: &str) -> String {
    format!("format %-512s [{command}]")
}

fn is_zero(words: &[u32]) -> bool {
    words.iter().all(|word| *word == 0)
}

/// The words of `0x20000000: 00000000 54585442 ...`, line by line; messages between them are left out.
fn words(text: &str) -> Vec<u32> {
    let mut words = Vec::new();
    for line in text.lines() {
        let Some((addr, values)) = line.trim().split_once(": ") else { continue };
        let is_address = addr.strip_prefix("0x").is_some_and(|hex| Addr::from_str_radix(hex, 16).is_ok());
        let values: Result<Vec<u32>, _> =
            values.split_ascii_whitespace().map(|word| u32::from_str_radix(word, 16)).collect();
        words.extend(values.ok().filter(|_| is_address).unwrap_or_default());
    }
    words
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "tests say what they expect by failing")]
mod tests {
    use super::*;

    fn chunk(addr: Addr, len: usize) -> Chunk {
        Chunk { which: 0, offset: 0, addr, len, tries: 0 }
    }

    #[test]
    fn words_between_messages() {
        let text = "0x20000000: 00000000 54585442 \nPolling target cm.cpu failed\n0x0000000020000008: 00000001 \n\
                    Failed to read memory at 0x20000010\n";
        assert_eq!(words(text), [0, 0x5458_5442, 1]);
        assert!(words("0x20000000: Failed to read\n: 00000000\nx: 00000000").is_empty());
    }

    #[test]
    fn a_sample_whose_text_openocd_cuts_is_asked_for_in_halves() {
        let parts = |words| {
            let all = Sample { chunk: 0, addr: 0x1000, words }.parts();
            all.map(|part| (part.addr, part.words)).collect::<Vec<_>>()
        };
        assert_eq!(parts(48), [(0x1000, 24), (0x1060, 24)]);
        assert_eq!(parts(47), [(0x1000, 47)]);
        // Lines of eight words, each with an address and a line end.
        assert_eq!((48 / 8) * ("0x20000000: ".len() + 8 * "00000000 ".len() + 1) * 2, 1020);
    }

    #[test]
    fn short_chunks_are_checked_whole_and_long_ones_at_their_ends() {
        let zeros = [chunk(0x1002, 7), chunk(0x2000, 0x1000), chunk(0x3000, 0x1000)];
        let expected = [(0, 0x1000, 3), (1, 0x2000, 16), (2, 0x3000, 16), (2, 0x3fc0, 16)];
        let samples: Vec<_> = samples(&zeros).iter().map(|s| (s.chunk, s.addr, s.words)).collect();
        assert_eq!(samples, expected);
        assert_eq!(Sample::of(0, Addr::MAX, 1), Some(Sample { chunk: 0, addr: !3, words: 1 }));
    }

    #[test]
    fn questions_have_a_limit_and_at_least_one_sample() {
        let sample = |words| Sample { chunk: 0, addr: 0, words };
        assert_eq!(within(&[sample(4), sample(4), sample(4)], 8), 2);
        assert_eq!(within(&[sample(9)], 8), 1);
        assert_eq!(within(&[], 8), 0);
    }
}
