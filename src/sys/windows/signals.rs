//! Ctrl-C, Ctrl-Break and the closing of the console: they set a flag, or end the program and take its unfinished files
//! with it. The system calls the handler in a thread of its own.

use std::io;
use std::os::windows::io::{AsHandle, AsRawHandle};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

use windows_sys::Win32::Storage::FileSystem::WriteFile;
use windows_sys::Win32::System::Console::{CTRL_BREAK_EVENT, CTRL_C_EVENT, SetConsoleCtrlHandler};
use windows_sys::core::BOOL;

use super::links;
use crate::sys::effect::{self, Effect};

/// The exit code of a program that a second signal ends.
const FAILED: i32 = 2;
/// How long a command may take to leave its target when the console is closed: the system ends it after five seconds.
const CLOSING: Duration = Duration::from_millis(4500);

/// True where standard output is a terminal that has colours on it.
static COLOURED: AtomicBool = AtomicBool::new(false);
/// Unfinished files.
static FILES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Nothing: no process inherits a blocked signal here.
pub fn unblock_interrupt() {}

/// Takes the signals over until [`detach`]: they set `flag`, and a second one ends the program.
pub fn attach(flag: &'static AtomicBool) {
    install(flag);
    effect::attach();
}

/// Gives the signals back: they end the program.
pub fn detach() {
    effect::detach();
}

/// Installs the handler, once; `flag` is what it sets. A system that refuses it keeps its own way of ending us.
pub fn install(flag: &'static AtomicBool) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        effect::begin(flag);
        // SAFETY: the handler may be called at any time from here on, in any thread.
        #[allow(unsafe_code, reason = "the standard library has no handlers")]
        unsafe {
            SetConsoleCtrlHandler(Some(on_signal), 1);
        }
    });
}

/// What is written to standard output has colours, and it is a terminal: a signal that ends the program ends them too.
pub fn end_colours() {
    COLOURED.store(true, Ordering::SeqCst);
}

#[allow(unsafe_code, reason = "the system calls it")]
unsafe extern "system" fn on_signal(event: u32) -> BOOL {
    match effect::of_signal() {
        Effect::Interrupts => {
            links::end_waits();
            if !matches!(event, CTRL_C_EVENT | CTRL_BREAK_EVENT) {
                // The program ends when this returns.
                std::thread::sleep(CLOSING);
            }
        }
        Effect::Nothing => {}
        Effect::Ends => {
            remove_files();
            reset_colours();
            std::process::exit(FAILED);
        }
        Effect::Default => {
            remove_files();
            reset_colours();
            return 0;
        }
    }
    1
}

/// Ends the colours on the terminal.
fn reset_colours() {
    const RESET: &[u8] = b"\x1b[0m";
    if COLOURED.swap(false, Ordering::SeqCst) {
        let stdout = io::stdout();
        let len = u32::try_from(RESET.len()).unwrap_or(0);
        // SAFETY: the handle is open, and the bytes and no OVERLAPPED live as long as the call.
        #[allow(unsafe_code, reason = "the standard library's standard output is locked by what was interrupted")]
        unsafe {
            WriteFile(stdout.as_handle().as_raw_handle(), RESET.as_ptr(), len, ptr::null_mut(), ptr::null_mut());
        }
    }
}

fn files() -> MutexGuard<'static, Vec<PathBuf>> {
    FILES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes every unfinished file.
fn remove_files() {
    for file in files().drain(..) {
        // The program ends: nobody is left to hear why it could not be removed.
        drop(std::fs::remove_file(file));
    }
}

/// A place in the list of unfinished files.
pub struct Listed(PathBuf);

impl Listed {
    /// Puts a file on the list; never `None` here.
    pub fn new(path: &Path) -> Option<Self> {
        files().push(path.to_owned());
        Some(Self(path.to_owned()))
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        files().retain(|file| *file != self.0);
    }
}

/// True where the file is on the list.
#[cfg(test)]
pub fn is_listed(path: &Path) -> bool {
    files().iter().any(|file| file == path)
}
