//! What tests need of the machine that they run on: programs, and ports for them to listen on.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};

/// True where a program is installed; says loudly where it is not.
pub fn installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|dir| dir.join(program).is_file());
    if !found {
        println!("SKIPPED: {program} is not installed");
        eprintln!("SKIPPED: {program} is not installed");
    }
    found
}

/// A port of this machine on which nobody listens. Below those that the system hands out to clients, one of which would
/// take it before the server that it is for has started; and each test process begins somewhere else.
pub fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let n = NEXT.fetch_add(1, Ordering::Relaxed).wrapping_add(std::process::id().wrapping_mul(37));
        let port = 10_000 + u16::try_from(n % 22_000).unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
