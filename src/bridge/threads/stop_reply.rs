//! A stop reply, of which the thread is exchanged and the rest kept.

/// `T05thread:01;watch:20000000;`, `S05`.
#[derive(Debug, PartialEq, Eq)]
pub struct StopReply<'a> {
    signal: &'a str,
    /// The thread as the stub writes it.
    pub thread: Option<&'a str>,
    /// All other pairs.
    others: Vec<&'a str>,
}

/// The lists of LLDB's stubs: they are about the stub's own threads.
const OF_THREADS: [&str; 3] = ["threads", "thread-pcs", "jstopinfo"];
/// Why a stop is not the end of a step.
const REASONS: [&str; 7] = ["watch", "rwatch", "awatch", "swbreak", "hwbreak", "library", "replaylog"];

impl<'a> StopReply<'a> {
    /// `None` for a target that has ended, and for anything else.
    pub fn parse(body: &'a str) -> Option<Self> {
        let (kind, rest) = body.split_at_checked(1)?;
        let (signal, rest) = rest.split_at_checked(2)?;
        if !matches!(kind, "T" | "S") || !signal.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        let mut reply = Self { signal, thread: None, others: Vec::new() };
        for pair in rest.split(';').filter(|pair| !pair.is_empty()) {
            match pair.split_once(':').map_or(pair, |(key, _)| key) {
                "thread" => reply.thread = pair.get("thread:".len()..),
                key if OF_THREADS.contains(&key) => {}
                _ => reply.others.push(pair),
            }
        }
        Some(reply)
    }

    /// True where it may be the end of a step.
    pub(super) fn is_step(&self) -> bool {
        let is_reason = |pair: &&str| pair.split_once(':').is_some_and(|(key, _)| REASONS.contains(&key));
        self.signal == "05" && !self.others.iter().any(is_reason)
    }

    /// The same about another thread.
    pub(super) fn with_thread(&self, id: &str) -> String {
        let others: String = self.others.iter().map(|pair| format!("{pair};")).collect();
        format!("T{}thread:{id};{others}", self.signal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_thread_is_exchanged() {
        for (body, thread, step, with) in [
            ("S05", None, true, "T05thread:7;"),
            ("T05thread:p1.1;", Some("p1.1"), true, "T05thread:7;"),
            ("T05watch:20000000;thread:1;", Some("1"), false, "T05thread:7;watch:20000000;"),
            ("T0506:0;thread:1;core:0;threads:1,2;", Some("1"), true, "T05thread:7;06:0;core:0;"),
            ("T02thread:1;", Some("1"), false, "T02thread:7;"),
            ("T05hwbreak:;", None, false, "T05thread:7;hwbreak:;"),
        ] {
            let reply = StopReply::parse(body).unwrap();
            assert_eq!((reply.thread, reply.is_step()), (thread, step), "{body}");
            assert_eq!(reply.with_thread("7"), with);
        }
        for body in ["", "W00", "X09", "OK", "T0", "Tzz", "E01", "O41"] {
            assert_eq!(StopReply::parse(body), None, "{body}");
        }
    }
}
