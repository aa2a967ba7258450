//! The names of the classes of the event mask.

use crate::catalogue::{classes, short_class};

/// The least id of the application's events.
pub const FIRST_USER_ID: u64 = 4096;

/// The bits of the mask that a name means: `queue`, `tx_queue`, `TX_TRACE_QUEUE_EVENTS`, `tx`, `user`, `all`. A name of
/// more than one (`internal`) means all of them.
///
/// # Errors
/// The names that there are.
pub fn bits_of(name: &str) -> Result<u64, String> {
    let asked = short_class(name);
    if asked == "all" {
        return Ok(classes().fold(0, |all, (bit, _)| all | bit));
    }
    let is_meant = |class: &str| {
        let short = short_class(class);
        let (product, bare) = short.split_once('_').unwrap_or(("", &short));
        let user = short == "tx_user";
        asked == short || asked == bare || asked == product && !user
    };
    let bits = classes().filter(|(_, class)| is_meant(class)).fold(0, |all, (bit, _)| all | bit);
    if bits != 0 {
        return Ok(bits);
    }
    let names: Vec<String> = classes().map(|(_, class)| short_class(class)).collect();
    Err(format!("there is no class '{name}': all, tx, fx, nx, ux, user, or one of {}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_classes() {
        for (name, bits) in [
            ("queue", 0x40),
            ("tx_queue", 0x40),
            ("TX_TRACE_QUEUE_EVENTS", 0x40),
            ("user", 0x8000_0000),
            ("tx", 0x7FF),
            ("fx", 0x7800),
            ("nx", 0x00FF_8000),
            ("ux", 0x7F00_0000),
            ("all", 0xFFFF_FFFF),
            ("internal", 0x8801),
            ("nx_internal", 0x8000),
            ("interrupt_control", 0x10),
            ("ux_errors", 0x0100_0000),
        ] {
            assert_eq!(bits_of(name), Ok(bits), "{name}");
        }
        assert!(bits_of("queues").is_err_and(|e| e.contains("tx_queue")) && bits_of("").is_err());
    }
}
