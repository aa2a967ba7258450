//! What is to be written, and writing it.

use crate::abi::Addr;
use crate::format::Absence;
use crate::mem::Memory;
use crate::mem::store::Store;

/// One write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// First address.
    pub address: Addr,
    /// The bytes that go there.
    pub bytes: Vec<u8>,
    /// What is there now.
    pub before: Vec<u8>,
    /// What it is, and from what to what, for people.
    pub what: String,
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes at {:#x}: {}", self.bytes.len(), self.address, self.what)
    }
}

/// Writes changes in their order, and reads each back. Where one fails, those before it are taken back.
///
/// # Errors
/// [`Absence`] with the place, and with what has become of the others.
pub fn apply<M: Memory + Store>(memory: &mut M, changes: &[Change]) -> Result<(), Absence> {
    for (done, change) in changes.iter().enumerate() {
        if let Err(why) = write(memory, change.address, &change.bytes) {
            let (mut whole, mut touched) = (true, done > 0);
            for earlier in changes.get(..=done).unwrap_or_default().iter().rev() {
                // What was refused at once is as it was: no write of ours is needed there, and none may be taken.
                if !holds(memory, earlier.address, &earlier.before) {
                    touched = true;
                    whole &= write(memory, earlier.address, &earlier.before).is_ok();
                }
            }
            let hint = match (whole, touched) {
                (true, false) => "nothing was changed: is this RAM, and does the stub allow writes?",
                (true, true) => "what was there before is there again; is this RAM, and does the stub allow writes?",
                (false, _) => "what was there before could not be put back: look at it before the target runs on",
            };
            return Err(Absence::broken("not-written", why, hint));
        }
    }
    Ok(())
}

/// True where these bytes are there, read anew.
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
            if at >= self.refuses {
                return Err(StoreError { addr, len: bytes.len(), why: "E14".into() });
            }
            if at < self.forgets {
                self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
            }
            Ok(())
        }
    }

    fn changes() -> [Change; 2] {
        [0, 8].map(|address| Change { address, bytes: vec![1; 4], before: vec![9; 4], what: "word".into() })
    }

    #[test]
    fn all_or_nothing() {
        let mut ram = Ram { bytes: [9; 16], refuses: 16, forgets: 16 };
        apply(&mut ram, &changes()).unwrap();
        assert_eq!((ram.bytes[0], ram.bytes[8]), (1, 1));
        for (refuses, forgets, said) in [(8, 16, "E14"), (16, 8, "do not read back")] {
            let mut ram = Ram { bytes: [9; 16], refuses, forgets };
            let absence = apply(&mut ram, &changes()).unwrap_err();
            assert!(absence.code == "not-written" && absence.message.contains(said), "{absence}");
            assert!(absence.hint.contains("is there again"), "{}", absence.hint);
            assert_eq!(ram.bytes, [9; 16], "{said}");
        }
    }

    #[test]
    fn a_first_write_that_is_refused_changed_nothing() {
        for (refuses, forgets) in [(0, 16), (16, 0)] {
            let mut ram = Ram { bytes: [9; 16], refuses, forgets };
            let absence = apply(&mut ram, &changes()).unwrap_err();
            assert!(absence.hint.starts_with("nothing was changed"), "{}", absence.hint);
            assert_eq!(ram.bytes, [9; 16]);
        }
        // What is there is not what was: then the refusal did not leave it alone, and it is not called so.
        let mut ram = Ram { bytes: [7; 16], refuses: 0, forgets: 16 };
        let absence = apply(&mut ram, &changes()).unwrap_err();
        assert!(absence.hint.contains("could not be put back"), "{}", absence.hint);
    }
}
