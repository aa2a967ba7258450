//! A mapped file that is cut short: reading past its new end raises `SIGBUS`, from which no read can return.
//!
//! The first map installs a handler. Where the fault is in one of our maps it writes one line and ends the
//! process with status 2; any other `SIGBUS` is passed to the handler before ours. The handler touches
//! only static atomics, `write`, `_exit` and `sigaction`: all are allowed in a signal handler.

use std::path::Path;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

/// How many maps are watched at a time; further ones are not.
const SLOTS: usize = 64;
/// How many bytes of a file's name are kept: its end.
const NAME: usize = 256;

/// One watched map. `len` 0: free; `CLAIMED`: being filled.
struct Slot {
    start: AtomicUsize,
    len: AtomicUsize,
    name_len: AtomicUsize,
    name: [AtomicU8; NAME],
}

const CLAIMED: usize = usize::MAX;

static TABLE: [Slot; SLOTS] = [const {
    Slot {
        start: AtomicUsize::new(0),
        len: AtomicUsize::new(0),
        name_len: AtomicUsize::new(0),
        name: [const { AtomicU8::new(0) }; NAME],
    }
}; SLOTS];

/// What handled `SIGBUS` before us.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();
static INSTALLED: OnceLock<bool> = OnceLock::new();

/// Watches one map for as long as it lives.
pub(in crate::sys) struct Guard {
    slot: &'static Slot,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.slot.len.store(0, Ordering::Release);
    }
}

/// Watches `len` bytes from `start`, a map of the file at `path`. `None` where that is not possible: too many
/// maps, or the handler could not be installed. Reads work all the same.
pub(in crate::sys) fn guard(start: usize, len: usize, path: &Path) -> Option<Guard> {
    if len == 0 || len == CLAIMED || !*INSTALLED.get_or_init(install) {
        return None;
    }
    let free = |s: &&Slot| s.len.compare_exchange(0, CLAIMED, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    let slot = TABLE.iter().find(free)?;
    let name = path.to_string_lossy();
    let tail = name.len().saturating_sub(NAME);
    let mut kept: usize = 0;
    for (cell, byte) in slot.name.iter().zip(name.bytes().skip(tail)) {
        // A terminal shall not be driven by a file's name.
        cell.store(if byte.is_ascii_control() { b'?' } else { byte }, Ordering::Relaxed);
        kept = kept.saturating_add(1);
    }
    slot.name_len.store(kept, Ordering::Relaxed);
    slot.start.store(start, Ordering::Relaxed);
    slot.len.store(len, Ordering::Release);
    Some(Guard { slot })
}

#[allow(unsafe_code, reason = "std has no signal handlers")]
fn install() -> bool {
    // SAFETY: an all-zero `sigaction` is valid (no handler, empty mask); `sigaction` reads the one and writes
    // the other struct, both of which live on this stack. The handler keeps to async-signal-safe calls. It
    // runs on the alternate stack where the thread has one, as Rust's own handler does.
    unsafe {
        let mut ours: libc::sigaction = std::mem::zeroed();
        let mut before: libc::sigaction = std::mem::zeroed();
        let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = on_sigbus;
        ours.sa_sigaction = handler as libc::sighandler_t;
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        if libc::sigaction(libc::SIGBUS, ptr::null(), &raw mut before) != 0 {
            return false;
        }
        let _ = BEFORE.set(before);
        libc::sigaction(libc::SIGBUS, &raw const ours, ptr::null_mut()) == 0
    }
}

#[allow(unsafe_code, reason = "a signal handler")]
extern "C" fn on_sigbus(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel hands a valid `siginfo_t` to a handler installed with SA_SIGINFO.
    let (code, fault) = unsafe { ((*info).si_code, (*info).si_addr().addr()) };
    let holds = |s: &&Slot| {
        // Only the kernel's own codes are positive and carry an address; a signal that was sent does not.
        if code <= 0 {
            return false;
        }
        let len = s.len.load(Ordering::Acquire);
        len != CLAIMED && fault.checked_sub(s.start.load(Ordering::Relaxed)).is_some_and(|into| into < len)
    };
    let Some(slot) = TABLE.iter().find(holds) else {
        give_back();
        return;
    };
    let mut line = [0u8; NAME + 128];
    let named = slot.name.iter().take(slot.name_len.load(Ordering::Relaxed)).map(|b| b.load(Ordering::Relaxed));
    let text = b"error: ".iter().copied().chain(named).chain(TAIL.iter().copied());
    let mut len: usize = 0;
    for (to, from) in line.iter_mut().zip(text) {
        *to = from;
        len = len.saturating_add(1);
    }
    // SAFETY: `line` is valid for `len` bytes; `write` and `_exit` are async-signal-safe. Nothing is left to
    // do with the result of `write`.
    unsafe {
        libc::write(2, line.as_ptr().cast(), len);
        libc::_exit(2);
    }
}

const TAIL: &[u8] = b" was cut short while it was being read; copy it first, then read the copy\n";

/// Another fault: the handler before ours gets it again when the read is repeated.
#[allow(unsafe_code, reason = "a signal handler")]
fn give_back() {
    // SAFETY: `BEFORE` was filled by `sigaction` before our handler was installed, and is only read; a zeroed
    // struct means the default action. `sigaction` is async-signal-safe.
    unsafe {
        let default: libc::sigaction = std::mem::zeroed();
        let before = BEFORE.get().unwrap_or(&default);
        if libc::sigaction(libc::SIGBUS, before, ptr::null_mut()) != 0 {
            libc::_exit(2);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use crate::sys::Map;

    fn map(path: &std::path::Path) -> Map {
        Map::new(&std::fs::File::open(path).unwrap(), path).unwrap()
    }

    const CHILD: &str = "TX_TRACE_TEST_SIGBUS";

    /// Runs this test again in a process of its own, which will not survive.
    fn child(test: &str, how: &str) -> (Option<i32>, String) {
        let me = std::env::current_exe().unwrap();
        let name = format!("sys::unix::sigbus::tests::{test}");
        let out = Command::new(me).args([&name, "--exact", "--nocapture"]).env(CHILD, how).output().unwrap();
        (out.status.code(), String::from_utf8_lossy(&out.stderr).into_owned())
    }

    #[test]
    fn a_file_cut_short_ends_in_one_sentence() {
        let path = std::env::temp_dir().join("tx-trace-cut\nshort");
        if std::env::var_os(CHILD).is_some() {
            std::fs::write(&path, vec![7; 64 << 10]).unwrap();
            let map = map(&path);
            assert_eq!(map.as_ref()[0x8000], 7);
            std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(4096).unwrap();
            std::hint::black_box(map.as_ref()[0x8000]);
            std::process::exit(0);
        }
        let (code, text) = child("a_file_cut_short_ends_in_one_sentence", "cut");
        let _ = std::fs::remove_file(&path);
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains("tx-trace-cut?short was cut short while it was being read; copy it first"), "{text}");
        assert_eq!(text.lines().filter(|l| l.starts_with("error: ")).count(), 1, "{text}");
    }

    #[test]
    #[allow(unsafe_code, reason = "the test sends itself a signal")]
    fn a_fault_elsewhere_keeps_its_default() {
        if std::env::var_os(CHILD).is_some() {
            let path = std::env::temp_dir().join(format!("tx-trace-bus-{}", std::process::id()));
            std::fs::write(&path, [7; 16]).unwrap();
            let map = map(&path);
            std::fs::remove_file(&path).unwrap();
            // SAFETY: raise has no preconditions. Twice: the first returns from the handler that was
            // there before Rust's own, the second meets the default action.
            unsafe {
                for _ in 0..3 {
                    libc::raise(libc::SIGBUS);
                }
            }
            drop(map);
            std::process::exit(0);
        }
        let (code, text) = child("a_fault_elsewhere_keeps_its_default", "raise");
        assert_eq!(code, None, "ended by the signal: {text}");
        assert!(!text.contains("cut short"), "{text}");
    }

    #[test]
    fn more_maps_than_slots_still_read() {
        let path = std::env::temp_dir().join(format!("tx-trace-many-{}", std::process::id()));
        std::fs::write(&path, [7; 16]).unwrap();
        let maps: Vec<_> = (0..100).map(|_| map(&path)).collect();
        assert!(maps.iter().all(|m| m.as_ref()[15] == 7));
        drop(maps);
        std::fs::remove_file(&path).unwrap();
    }
}
