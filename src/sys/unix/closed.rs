//! Whether standard output was closed when the program began.

use std::sync::atomic::{AtomicBool, Ordering};

static CLOSED: AtomicBool = AtomicBool::new(false);

/// True where the program was started without a standard output, as by `>&-` in a shell. The standard library opens
/// `/dev/null` in its place before `main`, so that what is written there is lost without an error.
pub fn stdout_was_closed() -> bool {
    CLOSED.load(Ordering::Relaxed)
}

#[cfg(target_os = "linux")]
mod before_main {
    use super::{CLOSED, Ordering};

    /// The C library calls what this section lists before `main`.
    #[used]
    #[allow(unsafe_code, reason = "nothing that runs later can tell a closed standard output from /dev/null")]
    #[unsafe(link_section = ".init_array")]
    static LOOK: extern "C" fn() = look;

    extern "C" fn look() {
        // SAFETY: it reads the flags of a descriptor, and changes nothing.
        #[allow(unsafe_code, reason = "std opens what is closed before it can be asked")]
        let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
        CLOSED.store(flags == -1, Ordering::Relaxed);
    }
}
