//! Writes a trace buffer of 32-bit words: what `export` makes of the events that filters keep. It is read back as any other.

use std::io::{self, Write};

use super::layout::{CONTEXT_INIT, CONTEXT_ISR};
use crate::abi::{Endian, Width};
use crate::code::Code;
use crate::error::Error;
use crate::trace::{ContextKind, Event, Object, Trace};

/// Bytes of a header, and of the numbers of an object in front of its name.
const HEADER: u64 = 48;
const OBJECT: u64 = 16;
/// Bytes of a slot.
const SLOT: u64 = 32;
/// `TX_TRACE_VALID`.
const VALID: u32 = 0x5458_5442;
/// The usual room for a name.
const NAME: usize = 32;

/// Writes one buffer, slot by slot.
pub struct Writer<'a, W> {
    out: W,
    trace: &'a Trace,
    endian: Endian,
    /// Events that have no form in this layout.
    left_out: u64,
    slots: u64,
}

/// A word of which 32 bits are kept: all that a trace of such words has.
fn low(value: u64) -> u32 {
    u32::try_from(value & Width::W4.max()).unwrap_or(0)
}

impl<'a, W: Write> Writer<'a, W> {
    /// Begins a buffer with room for so many events: header and registry.
    ///
    /// # Errors
    /// [`Code::Usage`] where the trace is none of ThreadX or has words of 8 bytes; where the writer fails.
    pub fn begin(mut out: W, trace: &'a Trace, events: u64) -> Result<Self, Error> {
        let about = &trace.about;
        let refuse = |why: String, hint: &str| Err(Error::usage(Code::Usage, why).hint(hint));
        if about.format != "threadx" {
            return refuse(
                format!("a .trx is a buffer of ThreadX, and this trace is of {}", about.format),
                "--to perfetto",
            );
        }
        if about.word != Width::W4 {
            let hint = "dump -o FILE.trx saves the buffer as it is";
            return refuse("a .trx for TraceX has words of 4 bytes, and those of this trace have 8".to_owned(), hint);
        }
        let objects: Vec<&Object> = trace.objects.iter().collect();
        let name = objects.iter().map(|o| o.name.len().saturating_add(1)).max().unwrap_or(0).max(NAME);
        let name = name.min(1 << 12).next_multiple_of(4) as u64;
        let base = about.base.unwrap_or(0) & Width::W4.max();
        let registry = base.saturating_add(HEADER);
        let ring = (objects.len() as u64).saturating_mul(OBJECT.saturating_add(name)).saturating_add(registry);
        // One slot stays free: it says that nothing was overwritten.
        let current = events.saturating_mul(SLOT).saturating_add(ring);
        let end = current.saturating_add(SLOT);
        if end > Width::W4.max() {
            return refuse(
                format!("{events} events do not fit into 32 bits of addresses"),
                "--from and --to choose fewer",
            );
        }
        let endian = about.endian;
        let word = |value: u64| word(endian, low(value));
        let name_size = half(endian, u16::try_from(name).unwrap_or(u16::MAX));
        let mut head: Vec<u8> = Vec::new();
        for value in [u64::from(VALID), trace.clock.mask, base, registry] {
            head.extend(word(value));
        }
        head.extend(half(endian, 0));
        head.extend(name_size);
        for value in [ring, ring, end, current, 0xAAAA_AAAA, 0xBBBB_BBBB, 0xCCCC_CCCC] {
            head.extend(word(value));
        }
        for object in objects {
            head.extend(entry(object, endian, usize::try_from(name).unwrap_or(NAME)));
        }
        out.write_all(&head)?;
        Ok(Self { out, trace, endian, left_out: 0, slots: 0 })
    }

    /// The next event.
    ///
    /// # Errors
    /// Where the writer fails.
    pub fn event(&mut self, event: &Event) -> io::Result<()> {
        let address = |id| self.trace.contexts.get(id).map_or(0, |c| c.address);
        let Some(context) = self.trace.contexts.get(event.context) else { return self.leave_out() };
        let (who, priority) = match context.kind {
            ContextKind::Thread => {
                // Old kernels stored no threshold, and no mark that there is one.
                let threshold = event.threshold.map_or(0, |threshold| 0x8000_0000 | u64::from(threshold) << 16);
                (context.address, threshold | event.priority.map_or(0, u64::from))
            }
            ContextKind::Isr => (CONTEXT_ISR, event.interrupted.map_or(0, address)),
            ContextKind::Init => (CONTEXT_INIT, 0),
            // The word that says who inserted it was overwritten.
            ContextKind::Unknown | ContextKind::Idle => return self.leave_out(),
        };
        let core = if self.trace.about.cores > 1 { u64::from(event.core) << 24 } else { 0 };
        let words = self.trace.words(event);
        let info = |at: usize| words.get(at).copied().unwrap_or(0);
        let all =
            [who, priority, u64::from(event.id) | core, event.stamp.unwrap_or(0), info(0), info(1), info(2), info(3)];
        self.slots = self.slots.saturating_add(1);
        all.into_iter().try_for_each(|value| self.out.write_all(&word(self.endian, low(value))))
    }

    fn leave_out(&mut self) -> io::Result<()> {
        self.left_out = self.left_out.saturating_add(1);
        Ok(())
    }

    /// Fills what is left of the ring; the number of events that were left out, as nothing says who inserted them.
    ///
    /// # Errors
    /// Where the writer fails.
    pub fn finish(mut self) -> io::Result<u64> {
        let free = [0; SLOT as usize];
        for _ in 0..=self.left_out {
            self.out.write_all(&free)?;
        }
        self.out.flush()?;
        Ok(self.left_out)
    }
}

/// An entry of the registry.
fn entry(object: &Object, endian: Endian, name: usize) -> Vec<u8> {
    let priority = object.priority.unwrap_or(0).to_be_bytes();
    let has = if object.priority.is_some() { 0x80 } else { 0 };
    let [high, low_byte] = priority;
    let kind = u8::try_from(object.type_code).unwrap_or(0);
    let mut bytes = vec![u8::from(object.deleted), kind, high | has, low_byte];
    for value in [object.address, object.param1, object.param2] {
        bytes.extend(word(endian, low(value)));
    }
    let text = object.name.as_bytes().iter().copied().take(name.saturating_sub(1));
    bytes.extend(text.chain(std::iter::repeat(0)).take(name));
    bytes
}

const fn word(endian: Endian, value: u32) -> [u8; 4] {
    match endian {
        Endian::Little => value.to_le_bytes(),
        Endian::Big => value.to_be_bytes(),
    }
}

const fn half(endian: Endian, value: u16) -> [u8; 2] {
    match endian {
        Endian::Little => value.to_le_bytes(),
        Endian::Big => value.to_be_bytes(),
    }
}
