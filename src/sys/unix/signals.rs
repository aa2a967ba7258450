//! SIGINT, SIGTERM and SIGHUP: they set a flag, or end the program and take its unfinished files with it.

use std::ffi::{CString, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use signal_hook::{consts, low_level};

use crate::sys::effect::{self, Effect};

/// The exit code of a program that a second signal ends.
const FAILED: c_int = 2;
/// The most unfinished files at a time that a signal removes: a command writes one.
const MAX_FILES: usize = 16;

/// True where standard output is a terminal that has colours on it.
static COLOURED: AtomicBool = AtomicBool::new(false);
/// Names of unfinished files; null for none.
static FILES: [AtomicPtr<c_char>; MAX_FILES] = [const { AtomicPtr::new(ptr::null_mut()) }; MAX_FILES];

/// Lets SIGINT come through. The GDB plug-in blocks it while it starts the program, and a process inherits that.
pub fn unblock_interrupt() {
    // SAFETY: `sigemptyset` makes the set valid; the other two calls use it, and nothing else is passed.
    #[allow(unsafe_code, reason = "std has no signal masks")]
    unsafe {
        let mut interrupt: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut interrupt);
        libc::sigaddset(&raw mut interrupt, consts::SIGINT);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const interrupt, ptr::null_mut());
    }
}

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
        for signal in [consts::SIGINT, consts::SIGTERM, consts::SIGHUP] {
            let was_ignored = is_ignored(signal);
            // SAFETY: `on_signal` calls only what may be called in a signal handler.
            #[allow(unsafe_code, reason = "a signal handler")]
            let registered = unsafe { low_level::register(signal, move || on_signal(signal, was_ignored)) };
            drop(registered);
        }
        // A file that grows past a limit of the shell is an error of that write, and not the end of the program.
        // SAFETY: the handler does nothing.
        #[allow(unsafe_code, reason = "a signal handler")]
        drop(unsafe { low_level::register(consts::SIGXFSZ, || ()) });
    });
}

/// What is written to standard output has colours, and it is a terminal: a signal that ends the program ends them too.
pub fn end_colours() {
    COLOURED.store(true, Ordering::SeqCst);
}

/// Ends the colours on the terminal, unless it takes nothing.
fn reset_colours() {
    const RESET: &[u8] = b"\x1b[0m";
    /// Milliseconds; a terminal that is stopped must not keep us from ending.
    const FLUSH_TIMEOUT_MS: c_int = 200;
    if !COLOURED.swap(false, Ordering::SeqCst) {
        return;
    }
    let mut stdout = libc::pollfd { fd: libc::STDOUT_FILENO, events: libc::POLLOUT, revents: 0 };
    // SAFETY: both calls may be made in a signal handler, and get pointers to what lives as long as they run.
    #[allow(unsafe_code, reason = "std's standard output is locked by what the signal interrupted")]
    unsafe {
        if libc::poll(&raw mut stdout, 1, FLUSH_TIMEOUT_MS) == 1 && stdout.revents & libc::POLLOUT != 0 {
            libc::write(libc::STDOUT_FILENO, RESET.as_ptr().cast(), RESET.len());
        }
    }
}

/// Runs in a signal handler: only atomics, poll(2), write(2), unlink(2), clock_gettime(2), signal(2) and _exit(2).
fn on_signal(signal: c_int, was_ignored: bool) {
    match effect::of_signal() {
        Effect::Interrupts | Effect::Nothing => {}
        Effect::Ends => {
            remove_files();
            reset_colours();
            low_level::exit(FAILED);
        }
        // As by `nohup`.
        Effect::Default if was_ignored => {}
        Effect::Default => {
            remove_files();
            reset_colours();
            drop(low_level::emulate_default_handler(signal));
        }
    }
}

/// True where the program was started with this signal ignored.
fn is_ignored(signal: c_int) -> bool {
    // SAFETY: an all-zero `sigaction` is valid; the call fills it and changes nothing, as no new action is given.
    #[allow(unsafe_code, reason = "std does not show how a signal is handled")]
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, ptr::null(), &raw mut now) == 0 && now.sa_sigaction == libc::SIG_IGN
    }
}

/// Removes every unfinished file. The program ends after that, so no name is freed.
fn remove_files() {
    for file in &FILES {
        let name = file.swap(ptr::null_mut(), Ordering::SeqCst);
        if !name.is_null() {
            // SAFETY: a name in the list is a string that ends with a zero, and what takes it out owns it.
            #[allow(unsafe_code, reason = "std's remove_file allocates, which a signal handler must not do")]
            unsafe {
                libc::unlink(name);
            }
        }
    }
}

/// A place in the list of unfinished files.
pub struct Listed(&'static AtomicPtr<c_char>);

impl Listed {
    /// Puts a file on the list; `None` where the list is full.
    pub fn new(path: &Path) -> Option<Self> {
        let name = CString::new(path.as_os_str().as_bytes()).ok()?.into_raw();
        let free = |file: &&AtomicPtr<c_char>| {
            file.compare_exchange(ptr::null_mut(), name, Ordering::SeqCst, Ordering::SeqCst).is_ok()
        };
        let place = FILES.iter().find(free);
        if place.is_none() {
            release(name);
        }
        place.map(Self)
    }
}

/// True where the file is on the list.
#[cfg(test)]
pub fn is_listed(path: &Path) -> bool {
    let names = FILES.iter().map(|file| file.load(Ordering::SeqCst)).filter(|name| !name.is_null());
    // SAFETY: a name in the list is a string that ends with a zero, and only the test that reads puts files there.
    #[allow(unsafe_code, reason = "the list holds plain pointers")]
    let mut names = names.map(|name| unsafe { std::ffi::CStr::from_ptr(name) });
    names.any(|name| name.to_bytes() == path.as_os_str().as_bytes())
}

impl Drop for Listed {
    fn drop(&mut self) {
        let name = self.0.swap(ptr::null_mut(), Ordering::SeqCst);
        if !name.is_null() {
            release(name);
        }
    }
}

/// Frees a name that is on no list.
fn release(name: *mut c_char) {
    // SAFETY: it came from `CString::into_raw`, and what takes it out of the list owns it.
    #[allow(unsafe_code, reason = "the list holds plain pointers, which a signal handler can read")]
    drop(unsafe { CString::from_raw(name) });
}
