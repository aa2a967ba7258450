//! Memory, in chunks that the stub survives, several in flight where it keeps them apart.

use std::collections::VecDeque;

use super::Client;
use super::link::{Failure, Wait, bump};
use super::reply::{self, Data};
use crate::abi::{Addr, last_address};
use crate::rsp::error::{RspError, RspErrorKind, excerpt};

mod zeros;

/// The most bytes in one chunk, whatever the stub announces.
const MAX_CHUNK: usize = 0x4000;

/// The most bytes in one chunk where the stub announces no packet size. GDB then sends no packet above 400 characters,
/// so that is what such a stub has been tried with.
const DEFAULT_CHUNK: usize = 192;

/// A chunk that was refused is asked for again in pieces of this many bytes, to find what can be read.
const PIECE: usize = 256;

/// How many requests are in flight together.
const DEPTH: usize = 16;

/// How many chunks are taken back when the order of answers is in doubt.
const FLIGHT: usize = 64;

/// Parts of one range have four lengths in turn, so many bytes apart.
const STEP: usize = 16;

/// No chunk has so many bytes: OpenOCD 0.12 cuts the checksum off an answer of exactly 1020 characters.
const CUT_BY_OPENOCD: usize = 510;

/// How often one chunk is asked for.
const TRIES: u32 = 4;

/// Why a range could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadFailure {
    /// The stub answers, and refuses these bytes.
    Refused {
        /// First address of the piece that was refused.
        addr: Addr,
        /// The stub's reply: `E14`, `E01`, ...
        reply: String,
    },
    /// The stub does not refuse them, and could not read them.
    Unreadable {
        /// First address of the piece.
        addr: Addr,
        /// What the stub says.
        why: String,
    },
    /// The link or the stub failed, or its target.
    Link(RspError),
}

/// A part of one wanted range.
#[derive(Debug, Clone, Copy)]
struct Chunk {
    which: usize,
    offset: usize,
    addr: Addr,
    len: usize,
    tries: u32,
}

impl Chunk {
    /// The same chunk, for another try.
    #[allow(clippy::arithmetic_side_effects, reason = "counts tries, of which there are TRIES at most")]
    const fn again(self) -> Self {
        Self { tries: self.tries + 1, ..self }
    }

    fn part(&self, from: usize, len: usize) -> Option<Self> {
        let addr = self.addr.checked_add(from as u64)?;
        let offset = self.offset.checked_add(from)?;
        (len > 0).then_some(Self { addr, offset, len, tries: 0, ..*self })
    }

    /// Parts of at most `most` bytes, in order. Neighbours differ in length, so that the answer to one is not taken for
    /// that to another.
    fn split(self, most: usize) -> impl Iterator<Item = Self> {
        let most = most.max(1);
        let mut shorter =
            [0, STEP, 2 * STEP, 3 * STEP].into_iter().filter(move |less| *less == 0 || most > 4 * STEP).cycle();
        let mut rest = Some(self);
        std::iter::from_fn(move || {
            let chunk = rest.take()?;
            let len = most.saturating_sub(shorter.next().unwrap_or(0)).min(chunk.len);
            rest = chunk.part(len, chunk.len.saturating_sub(len));
            chunk.part(0, len)
        })
    }

    fn request(&self, binary: bool) -> Vec<u8> {
        format!("{}{:x},{:x}", if binary { 'x' } else { 'm' }, self.addr, self.len).into_bytes()
    }
}

/// One question of a flight.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// A part of the memory that is wanted.
    Read(Chunk),
    /// A question whose answer resembles no other.
    Fence,
    /// `g`, where the registers are wanted too.
    Registers,
}

impl Step {
    fn request(&self, binary: bool) -> Vec<u8> {
        match self {
            Self::Read(chunk) => chunk.request(binary),
            Self::Fence => reply::FENCE.to_vec(),
            Self::Registers => b"g".to_vec(),
        }
    }

    /// Bytes of the target that it asks for.
    const fn len(&self) -> usize {
        match self {
            Self::Read(chunk) => chunk.len,
            Self::Fence | Self::Registers => 0,
        }
    }

    /// True for an answer to it; `known`: the stub has answered reads before.
    fn accepts(&self, body: &[u8], binary: bool, known: bool) -> bool {
        match self {
            Self::Read(chunk) => reply::data(body, chunk.len, binary).is_some_and(|d| !known || d != Data::Unsupported),
            Self::Fence => body.is_empty(),
            Self::Registers => reply::is_registers(body),
        }
    }
}

/// What a flight brought.
struct Answers {
    /// To the chunks, in their order; `None` for a damaged one.
    chunks: Vec<Option<Vec<u8>>>,
    /// To `g`.
    registers: Option<Vec<u8>>,
}

/// Reads under way.
struct Job {
    queue: VecDeque<Chunk>,
    flying: Vec<Chunk>,
    /// Bytes that each range still lacks.
    lacks: Vec<usize>,
    /// Chunks whose answers are zeros, and which are still to be checked.
    zeros: Vec<Chunk>,
    done: Vec<Result<Vec<u8>, ReadFailure>>,
}

impl Job {
    /// Of a range that has failed only what is before the failed address is still asked for: the lowest is wanted.
    fn next(&mut self) -> Option<Chunk> {
        loop {
            let mut chunk = self.queue.pop_front()?;
            if chunk.len == CUT_BY_OPENOCD {
                // The two differ in length, as those of `split` do.
                chunk.len = PIECE;
                self.put_back(chunk.part(PIECE, CUT_BY_OPENOCD.saturating_sub(PIECE)));
            }
            match self.done.get(chunk.which) {
                Some(Ok(_)) => return Some(chunk),
                Some(Err(ReadFailure::Refused { addr, .. })) if chunk.addr < *addr => return Some(chunk),
                _ => {}
            }
        }
    }

    /// The queue stays in the order of ranges and addresses, so that the first refusal is the lowest.
    fn put_back(&mut self, chunks: impl IntoIterator<Item = Chunk>) {
        for chunk in chunks {
            let key = |c: &Chunk| (c.which, c.offset);
            let place = self.queue.partition_point(|c| key(c) < key(&chunk));
            self.queue.insert(place, chunk);
        }
    }

    fn store(&mut self, chunk: &Chunk, bytes: &[u8]) {
        let Some(Ok(whole)) = self.done.get_mut(chunk.which) else { return };
        if let Some(place) = whole.get_mut(chunk.offset..).and_then(|rest| rest.get_mut(..bytes.len())) {
            place.copy_from_slice(bytes);
            if let Some(lack) = self.lacks.get_mut(chunk.which) {
                *lack = lack.saturating_sub(bytes.len());
            }
        }
    }

    /// A range keeps the lowest address that failed.
    fn refuse(&mut self, chunk: &Chunk, reply: String) {
        let Some(slot) = self.done.get_mut(chunk.which) else { return };
        match slot {
            Err(ReadFailure::Refused { addr, .. }) if *addr <= chunk.addr => {}
            Err(ReadFailure::Link(_) | ReadFailure::Unreadable { .. }) => {}
            slot => *slot = Err(ReadFailure::Refused { addr: chunk.addr, reply }),
        }
    }

    /// The answers. What is not complete failed with the link.
    fn finish(mut self, error: Option<RspError>, name: &str) -> Vec<Result<Vec<u8>, ReadFailure>> {
        let unknown = || RspErrorKind::Link { why: "a read was left unfinished".into() }.at(name);
        for (slot, _) in self.done.iter_mut().zip(&self.lacks).filter(|(slot, lack)| slot.is_ok() && **lack > 0) {
            *slot = Err(ReadFailure::Link(error.clone().unwrap_or_else(unknown)));
        }
        self.done
    }
}

/// The most bytes to ask for at once. Half of the packet size less the frame: gdbserver 13 overruns its own buffer
/// beyond that, QEMU answers E22, Black Magic has 512 bytes. A multiple of 16, so that words are never cut.
pub(super) fn chunk_limit(packet_size: Option<usize>, line_limit: usize) -> usize {
    let most = packet_size.map_or(DEFAULT_CHUNK, |size| size.saturating_sub(4) / 2);
    let limit = most.min(MAX_CHUNK).min(line_limit);
    if limit >= 16 { limit & !15 } else { limit.max(4) }
}

impl Client {
    /// Fills `buf` from `addr`.
    ///
    /// # Errors
    /// As the entries of [`Client::read_batch`]; `buf` is then unspecified.
    pub fn read_memory(&mut self, addr: Addr, buf: &mut [u8]) -> Result<(), ReadFailure> {
        let bytes = self.read_batch(&[(addr, buf.len())]).pop().unwrap_or_else(|| Ok(Vec::new()))?;
        if buf.len() == bytes.len() {
            buf.copy_from_slice(&bytes);
        }
        Ok(())
    }

    /// Reads several ranges, given as address and number of bytes; the answers are in the order of the questions.
    /// Exactly these bytes are asked for, in one series of requests: on a stub without acknowledgements up to 16 of
    /// them are in flight together. A range of which any byte is refused fails, and the rest of it is then not asked
    /// for. A range that passes the end of the address space is refused without asking.
    ///
    /// # Errors
    /// Each entry: [`ReadFailure`].
    pub fn read_batch(&mut self, wanted: &[(Addr, usize)]) -> Vec<Result<Vec<u8>, ReadFailure>> {
        let mut job = Job {
            queue: VecDeque::new(),
            flying: Vec::new(),
            lacks: wanted.iter().map(|&(_, len)| len).collect(),
            zeros: Vec::new(),
            done: Vec::with_capacity(wanted.len()),
        };
        for (which, &(addr, len)) in wanted.iter().enumerate() {
            if last_address(addr, len).is_none() {
                let reply = "it passes the end of the address space".to_owned();
                job.done.push(Err(ReadFailure::Refused { addr, reply }));
                continue;
            }
            job.done.push(Ok(vec![0; len]));
            job.queue.extend(Chunk { which, offset: 0, addr, len, tries: 0 }.split(self.max_chunk));
        }
        let error = self.run_checked(&mut job).err();
        job.finish(error, &self.link.name)
    }

    fn run(&mut self, job: &mut Job) -> Result<(), RspError> {
        if let Some(error) = self.link.broken() {
            return Err(error.clone());
        }
        while let Some(chunk) = job.next() {
            job.put_back([chunk]);
            self.rate.begin();
            // What others on a shared link were answered last, and what memory holds that changes, is not known: a flight ends with
            // a question of its own.
            let alone = job.queue.len() == 1 && !self.wants_registers;
            let together = !alone || self.link.shared || self.runs_while_read();
            if together && self.link.may_pipeline() { self.volley(job)? } else { self.single(job)? }
        }
        Ok(())
    }

    /// One chunk, strictly question and answer.
    ///
    /// A request or an answer that came twice on its way shifts the answers by one: what is taken for the answer to this
    /// request is then the one before it, once more. So an answer counts at once unless it is the same as that one.
    fn single(&mut self, job: &mut Job) -> Result<(), RspError> {
        let Some(chunk) = job.next().and_then(|c| self.shortened(job, c)) else { return Ok(()) };
        let binary = self.binary;
        let known = self.link.stats.memory_bytes > 0;
        let accept =
            move |body: &[u8]| reply::data(body, chunk.len, binary).is_some_and(|d| !known || d != Data::Unsupported);
        // Memory that changes is not the same the second time.
        self.link.outstanding |= self.runs_while_read();
        let in_step = self.link.doubtful();
        let before = std::mem::take(&mut self.link.last_answer);
        let body = self.link.ask(&chunk.request(binary), &accept)?;
        self.rate.received(chunk.len);
        if !in_step && body == before && !self.is_confirmed(&chunk, &body)? {
            job.put_back([chunk]);
            return Ok(());
        }
        if let Some(Data::Bytes(bytes)) = reply::data(&body, chunk.len, binary)
            && bytes.len() < chunk.len
            && known
            && !in_step
        {
            self.link.outstanding = true;
            job.put_back([chunk]);
            return Ok(());
        }
        self.settle(job, &chunk, &body, binary)
    }

    /// Asks for a chunk again without its last byte, or the last two. An answer to the first question that is still to come is
    /// too long for this one.
    fn is_confirmed(&mut self, chunk: &Chunk, body: &[u8]) -> Result<bool, RspError> {
        let less = if chunk.len == CUT_BY_OPENOCD.saturating_add(1) { 2 } else { 1 };
        let shorter = chunk.len.checked_sub(less).and_then(|len| chunk.part(0, len));
        let Some(most) = shorter else { return self.link.nothing_follows() };
        let binary = self.binary;
        let data = move |body: &[u8], len: usize| reply::data(body, len, binary);
        let before = self.link.stats.strays;
        let known = !body.is_empty();
        let accept = move |body: &[u8]| data(body, most.len).is_some_and(|d| !known || d != Data::Unsupported);
        let again = self.link.ask(&most.request(binary), &accept)?;
        let agree = match (data(body, chunk.len), data(&again, most.len)) {
            (Some(Data::Bytes(all)), Some(Data::Bytes(most))) => all.starts_with(&most),
            (first, second) => first == second,
        };
        Ok(agree && self.link.stats.strays == before)
    }

    /// Up to [`FLIGHT`] chunks, up to [`DEPTH`] of them on their way together. An answer that is lost or doubled
    /// shifts those after it, and they look alike: so none counts before all are here and none is left over, and
    /// between two of one length, and after the last, there is a question with another answer.
    fn volley(&mut self, job: &mut Job) -> Result<(), RspError> {
        self.link.prepare()?;
        if !self.link.may_pipeline() {
            return Ok(());
        }
        let binary = self.binary;
        while job.flying.len() < FLIGHT {
            let Some(chunk) = job.next().and_then(|c| self.shortened(job, c)) else { break };
            job.flying.push(chunk);
        }
        let mut steps = fenced(&job.flying);
        // The answer to a read before, once more, would be a short answer to the first chunk: a short one is allowed.
        let last = std::mem::take(&mut self.link.last_answer);
        if matches!(reply::data(&last, usize::MAX, binary), Some(Data::Bytes(_) | Data::Refused(_))) {
            steps.insert(0, Step::Fence);
        }
        // Asked for once: what does not answer to it is asked for memory alone.
        if std::mem::take(&mut self.wants_registers) && !self.runs_while_read() {
            // In front of it nothing is doubled, and the fence after it keeps its answer from the reads.
            steps.splice(..0, [Step::Registers, Step::Fence]);
        }
        let Some(Answers { chunks: bodies, registers }) = self.fly(job, steps)? else { return Ok(()) };
        self.link.outstanding = false;
        let asked: Vec<Chunk> = job.flying.iter().copied().take(bodies.len()).collect();
        if !self.link.in_step()? || shifted(&asked, &bodies, binary) {
            let request = job.flying.first().map(|c| c.request(binary)).unwrap_or_default();
            let error = self.link.why_late(&request, Failure::OutOfStep);
            self.again(job, error)?;
            return Ok(());
        }
        if let Some(body) = registers {
            self.registers_seen = reply::known_registers(&body);
        }
        let flying = std::mem::take(&mut job.flying);
        for (i, chunk) in flying.iter().enumerate() {
            match bodies.get(i) {
                Some(None) => job.put_back([chunk.again()]),
                Some(Some(body)) => self.settle(job, chunk, body, binary)?,
                None => job.put_back([*chunk]),
            }
        }
        Ok(())
    }

    /// Asks what a flight asks. `None` where the flight is to be asked for again.
    #[allow(clippy::arithmetic_side_effects, reason = "counts the steps of a flight")]
    fn fly(&mut self, job: &mut Job, mut steps: Vec<Step>) -> Result<Option<Answers>, RspError> {
        let (binary, known) = (self.binary, self.link.stats.memory_bytes > 0);
        let (mut sent, mut answered) = (0, 0);
        let mut answers = Answers { chunks: Vec::with_capacity(job.flying.len()), registers: None };
        loop {
            // Once something is refused, what has not been sent yet may not be wanted any more.
            let refused = answers.chunks.iter().flatten().any(|b| b.is_empty() || reply::is_error(b));
            if refused && steps.get(sent..).is_some_and(|rest| rest.len() > 1) {
                steps.truncate(sent);
                steps.push(Step::Fence);
            }
            let goal = self.ahead(&steps, answered, sent);
            let requests: Vec<Vec<u8>> =
                steps.get(sent..goal).unwrap_or_default().iter().map(|step| step.request(binary)).collect();
            if !requests.is_empty() {
                self.link.send_flight(&requests.iter().map(Vec::as_slice).collect::<Vec<_>>())?;
                sent = goal;
            }
            let Some(step) = steps.get(answered).filter(|_| answered < sent) else { return Ok(Some(answers)) };
            answered += 1;
            let accept = |body: &[u8]| step.accepts(body, binary, known);
            match (self.link.answer(&step.request(binary), &accept, Wait::InFlight), step) {
                (Ok(_), Step::Fence) => {}
                (Ok(body), Step::Registers) => answers.registers = Some(body),
                (Ok(body), Step::Read(chunk)) => {
                    self.rate.received(chunk.len);
                    answers.chunks.push(Some(body));
                }
                (Err(Failure::Fatal(error)), _) => return Err(self.link.fail_with(error)),
                // The frame is whole, so the order is certain: only this one is asked for again.
                (Err(Failure::Damaged), Step::Read(chunk)) if chunk.again().tries < TRIES => answers.chunks.push(None),
                (Err(Failure::Damaged), Step::Registers) => {}
                (Err(failure), _) => {
                    // Not one answer came: the link is slow. Where others came, this one was lost.
                    let silent = matches!(&failure, Failure::Late(received) if received.stray.is_none());
                    if matches!(step, Step::Read(_)) && answers.chunks.is_empty() && silent {
                        self.rate.late();
                    }
                    let error = self.link.why_late(&step.request(binary), failure);
                    self.again(job, error)?;
                    return Ok(None);
                }
            }
        }
    }

    /// Up to which step requests are sent now: no more are on their way than the rate allows, and always one.
    #[allow(clippy::arithmetic_side_effects, reason = "counts steps, and bytes of chunks that are held in memory")]
    fn ahead(&self, steps: &[Step], answered: usize, sent: usize) -> usize {
        let most = self.rate.in_flight();
        let mut flying: usize = steps.get(answered..sent).unwrap_or_default().iter().map(Step::len).sum();
        let mut goal = sent;
        for step in steps.iter().take(answered + DEPTH).skip(sent) {
            flying += step.len();
            if goal > answered && flying > most {
                break;
            }
            goal += 1;
        }
        goal
    }

    /// Asks for a whole flight again, or gives up with `error`.
    fn again(&mut self, job: &mut Job, error: RspError) -> Result<(), RspError> {
        let tries = job.flying.iter().map(|c| c.again().tries).max().unwrap_or(1);
        if tries >= TRIES || !self.link.resync() {
            return Err(self.link.fail_with(error));
        }
        let again: Vec<Chunk> = job.flying.drain(..).map(|c| Chunk { tries, ..c }).collect();
        job.put_back(again);
        Ok(())
    }

    /// A chunk that is not too long for the stub and the link; the rest goes back to the queue.
    fn shortened(&self, job: &mut Job, chunk: Chunk) -> Option<Chunk> {
        let most = self.max_chunk.min(self.rate.chunk());
        if chunk.len <= most {
            return Some(chunk);
        }
        job.put_back(chunk.split(most));
        job.next()
    }

    /// Takes one answer: bytes, fewer bytes than asked, or a refusal.
    fn settle(&mut self, job: &mut Job, chunk: &Chunk, body: &[u8], binary: bool) -> Result<(), RspError> {
        match reply::data(body, chunk.len, binary) {
            Some(Data::Bytes(bytes)) => {
                bump(&mut self.link.stats.memory_bytes, bytes.len());
                job.store(chunk, &bytes);
                job.zeros.extend(bytes.iter().all(|b| *b == 0).then_some(Chunk { len: bytes.len(), ..*chunk }));
                let rest = chunk.part(bytes.len(), chunk.len.saturating_sub(bytes.len()));
                job.put_back(rest);
            }
            Some(Data::Refused(reply)) => {
                // E22 is QEMU's "too long"; on other stubs it may be any error.
                if reply == "E22" && chunk.len > PIECE {
                    self.max_chunk = self.max_chunk.min((chunk.len / 2).max(PIECE));
                    job.put_back(chunk.split(self.max_chunk));
                } else if chunk.len > PIECE {
                    job.put_back(chunk.split(PIECE));
                } else {
                    job.refuse(chunk, reply);
                }
            }
            Some(Data::Unsupported) if binary => {
                self.binary = false;
                job.put_back([*chunk]);
            }
            // The answer to a fence, where a request was lost and the fence came doubled: asked once more to be sure.
            Some(Data::Unsupported) if !self.link.acks && chunk.tries == 0 => {
                self.link.outstanding = true;
                job.put_back([chunk.again()]);
            }
            Some(Data::Unsupported) => {
                return Err(self.link.fail(RspErrorKind::Unsupported { packet: "m".into() }));
            }
            None => {
                let packet = excerpt(&chunk.request(binary));
                return Err(self.link.error(RspErrorKind::BadReply { packet, reply: excerpt(body) }));
            }
        }
        Ok(())
    }
}

/// The steps of a flight: chunks, and fences between two of one length and after the last.
fn fenced(chunks: &[Chunk]) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut lengths = Vec::new();
    for chunk in chunks {
        if lengths.contains(&chunk.len) {
            steps.push(Step::Fence);
            lengths.clear();
        }
        lengths.push(chunk.len);
        steps.push(Step::Read(*chunk));
    }
    steps.push(Step::Fence);
    steps
}

/// True where an answer is shorter than its question, and as long as another one's should be: they may have changed
/// places. A stub that gives less than it is asked for gives what it likes, and not just that.
fn shifted(asked: &[Chunk], bodies: &[Option<Vec<u8>>], binary: bool) -> bool {
    asked.iter().zip(bodies).any(|(chunk, body)| {
        let Some(Some(Data::Bytes(bytes))) = body.as_ref().map(|b| reply::data(b, chunk.len, binary)) else {
            return false;
        };
        bytes.len() < chunk.len && asked.iter().any(|other| other.len == bytes.len())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_above_half_the_packet() {
        assert_eq!(chunk_limit(Some(0x1000), usize::MAX), 0x7f0);
        assert_eq!(chunk_limit(Some(0x47ff), usize::MAX), 0x23f0);
        assert_eq!(chunk_limit(Some(131_072), usize::MAX), MAX_CHUNK);
        assert_eq!(chunk_limit(Some(1024), usize::MAX), 0x1f0);
        assert_eq!(chunk_limit(None, usize::MAX), DEFAULT_CHUNK);
        assert_eq!(chunk_limit(Some(0), usize::MAX), 4);
        assert_eq!(chunk_limit(Some(0x1000), 100), 96);
    }
}
