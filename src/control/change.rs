//! What is to be written, and writing it.

use super::check::Checked;
use crate::abi::Addr;
use crate::code::Code;
use crate::error::Error;
use crate::mem::store::Store;
use crate::mem::{Memory, Region};

/// What a write changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    /// A variable of the kernel.
    Variable(&'static str),
    /// The slot of the next event.
    Slot,
    /// The header's copy of the current pointer.
    Copy,
}

impl std::fmt::Display for Destination {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Variable(name) => name,
            Self::Slot => "the slot of the next event",
            Self::Copy => "the header's current pointer",
        })
    }
}

/// One write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// What it changes.
    pub destination: Destination,
    /// First address.
    pub address: Addr,
    /// The bytes that go there.
    pub bytes: Vec<u8>,
    /// What is there now.
    pub before: Vec<u8>,
    /// What it is, and from what to what, in words.
    pub what: String,
}

impl Change {
    /// The bytes that it writes.
    pub(super) const fn region(&self) -> Region {
        Region { start: self.address, len: self.bytes.len() as u64 }
    }

    /// False where memory holds these bytes already.
    pub fn is_new(&self) -> bool {
        self.bytes != self.before
    }
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes at {:#x}: {}", self.bytes.len(), self.address, self.what)
    }
}

/// A write that failed.
#[derive(Debug, Clone)]
pub struct Failed {
    /// Why.
    pub why: Error,
    /// True where the target holds what it held before. False where it does not, or where that is not known: then it must not run.
    pub undone: bool,
}

/// Writes checked changes in their order, and reads each back. Nothing is written where the target has changed since it
/// was read. Where a write fails, those before it are taken back.
///
/// # Errors
/// [`Failed`] with the place, and whether the target is as it was.
pub fn apply<M: Memory + Store>(memory: &mut M, checked: &Checked) -> Result<(), Failed> {
    let changes = checked.changes();
    for change in changes {
        unchanged(memory, change).map_err(|why| Failed { why, undone: true })?;
    }
    let mut done: Vec<&Change> = Vec::new();
    for change in changes {
        done.push(change);
        if let Err(why) = write(memory, change.address, &change.bytes) {
            return Err(take_back(memory, &done, true, why));
        }
    }
    // What another has written since is not overwritten.
    let (ours, others): (Vec<&Change>, Vec<&Change>) = changes.iter().partition(|c| holds(memory, c.address, &c.bytes));
    match others.first() {
        Some(change) => {
            let why =
                format!("{} at {:#x} was changed again at once: the target runs", change.destination, change.address);
            Err(take_back(memory, &ours, false, why))
        }
        None => Ok(()),
    }
}

/// Fails where memory does not hold any more what it held when the write was planned.
fn unchanged<M: Memory + Store>(memory: &mut M, change: &Change) -> Result<(), Error> {
    memory.refresh();
    let there = memory.read_bytes(change.address, change.before.len());
    let there = there.map_err(|e| e.explain("nothing is written"))?;
    if *there == *change.before {
        return Ok(());
    }
    let message = format!(
        "nothing is written: {} at {:#x} is not what it was a moment ago: the target runs, or another debugger writes",
        change.destination, change.address
    );
    Err(Error::failed(Code::TargetChanged, message, "halt the target, and try again"))
}

/// Puts back what was there before these changes, the last first. `all`: there are no others.
fn take_back<M: Memory + Store>(memory: &mut M, changes: &[&Change], all: bool, why: String) -> Failed {
    let (mut undone, mut touched) = (all, changes.len() > 1);
    for earlier in changes.iter().rev() {
        // What was refused at once is unchanged: it needs no write, and the target may take none there.
        if !holds(memory, earlier.address, &earlier.before) {
            touched = true;
            undone &= write(memory, earlier.address, &earlier.before).is_ok();
        }
    }
    let why = match (undone, touched) {
        (true, false) => {
            Error::failed(Code::NotWritten, why, "nothing was changed: is this RAM, and does the stub allow writes?")
        }
        (true, true) => Error::failed(
            Code::NotWritten,
            why,
            "the old value was restored; is this RAM, and does the stub allow writes?",
        ),
        (false, _) => Error::failed(
            Code::HalfWritten,
            format!("{why}; the old value could not be restored, so the target is not resumed"),
            "inspect the target before you resume it; a reset is safe",
        ),
    };
    Failed { why, undone }
}

/// True where these bytes are there, read again.
fn holds<M: Memory + Store>(memory: &mut M, address: Addr, bytes: &[u8]) -> bool {
    memory.refresh();
    memory.read_bytes(address, bytes.len()).is_ok_and(|read| *read == *bytes)
}

fn write<M: Memory + Store>(memory: &mut M, address: Addr, bytes: &[u8]) -> Result<(), String> {
    memory.store(address, bytes).map_err(|e| e.to_string())?;
    memory.refresh();
    match memory.read_bytes(address, bytes.len()) {
        Ok(read) if *read == *bytes => Ok(()),
        Ok(_) => Err(format!("{} bytes at {address:#x} were written and do not read back", bytes.len())),
        Err(e) => Err(format!("written, and cannot be read back: {e}")),
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "tests say what they expect by failing")]
mod tests {
    use super::*;
    use crate::mem::ReadError;
    use crate::mem::store::StoreError;

    /// RAM of 16 bytes of which the last ones may refuse or forget.
    struct Ram {
        bytes: [u8; 16],
        refuses: usize,
        forgets: usize,
        /// Writes that it takes; it refuses those after them.
        writes: usize,
    }

    impl Ram {
        fn new(bytes: u8, refuses: usize, forgets: usize) -> Self {
            Self { bytes: [bytes; 16], refuses, forgets, writes: usize::MAX }
        }
    }

    impl Memory for Ram {
        fn read(&mut self, addr: Addr, buf: &mut [u8]) -> Result<(), ReadError> {
            buf.copy_from_slice(&self.bytes[addr as usize..][..buf.len()]);
            Ok(())
        }
    }

    impl Store for Ram {
        fn store(&mut self, addr: Addr, bytes: &[u8]) -> Result<(), StoreError> {
            let at = addr as usize;
            if at >= self.refuses || self.writes == 0 {
                return Err(StoreError { addr, len: bytes.len(), why: "E14".into() });
            }
            self.writes -= 1;
            if at < self.forgets {
                self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
            }
            Ok(())
        }
    }

    fn changes() -> Checked {
        let change = |address| Change {
            destination: Destination::Slot,
            address,
            bytes: vec![1; 4],
            before: vec![9; 4],
            what: "word".into(),
        };
        Checked([0, 8].map(change).to_vec())
    }

    #[test]
    fn all_or_nothing() {
        let mut ram = Ram::new(9, 16, 16);
        apply(&mut ram, &changes()).unwrap();
        assert_eq!((ram.bytes[0], ram.bytes[8]), (1, 1));
        for (refuses, forgets, said) in [(8, 16, "E14"), (16, 8, "do not read back")] {
            let mut ram = Ram::new(9, refuses, forgets);
            let failed = apply(&mut ram, &changes()).unwrap_err();
            let error = failed.why;
            assert!(error.code == Code::NotWritten && error.message.contains(said), "{error}");
            assert!(error.hint.contains("was restored"), "{}", error.hint);
            assert_eq!(ram.bytes, [9; 16], "{said}");
        }
    }

    #[test]
    fn a_first_write_that_is_refused_changed_nothing() {
        for (refuses, forgets) in [(0, 16), (16, 0)] {
            let mut ram = Ram::new(9, refuses, forgets);
            let failed = apply(&mut ram, &changes()).unwrap_err();
            let error = failed.why;
            assert!(error.hint.starts_with("nothing was changed"), "{}", error.hint);
            assert_eq!(ram.bytes, [9; 16]);
        }
    }

    /// The target ran while the user was asked.
    #[test]
    fn a_target_that_had_changed_since_was_written_to() {
        let mut ram = Ram::new(7, 16, 16);
        let failed = apply(&mut ram, &changes()).unwrap_err();
        assert_eq!((failed.why.code.name(), failed.undone), ("target-changed", true));
        assert_eq!(ram.bytes, [7; 16]);
    }

    #[test]
    fn what_could_not_be_taken_back_ran_on() {
        let mut ram = Ram { writes: 1, ..Ram::new(9, 16, 16) };
        let failed = apply(&mut ram, &changes()).unwrap_err();
        assert_eq!((failed.why.code.name(), failed.undone), ("half-written", false));
        assert!(failed.why.message.contains("could not be restored"), "{}", failed.why);
    }
}
