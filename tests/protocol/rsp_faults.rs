//! Whole commands over a bad line: each session ends with the right events or with a clear error, and none with other
//! events. What every client must get over (delays, parts, doubles, single flipped bits) it gets over. Data that was
//! changed and fits its checksum all the same is for no client to see, and none is sent here.

#![cfg(all(feature = "cli", feature = "serve"))]

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::faults::{Fault, GENTLE, HARSH, Proxy, Script};
use crate::support::machine::{Qemu, Scratch, fixture, gdbserver_at_the_end, installed};
use tx_trace::bytes::Bytes;
use tx_trace::cli::{Outcome, run_captured};
use tx_trace::mem::segments::{Block, Segments};
use tx_trace::serve::Server;

/// What a session runs; they take turns. One line each.
const COMMANDS: &[&str] = &["last 20", "list", "last 200", "list --event isr_enter", FOLLOW];

/// It looks several times, halting the target for each look. Of a target that stands still it shows what `list` shows.
const FOLLOW: &str = "follow --from-start --halt-every 20ms --for 150ms";

/// Sessions that run at the same time: they mostly wait.
const ABREAST: u64 = 12;

/// A session that does not end in this time, on however loaded a machine, hangs.
const TIME_LIMIT: Duration = Duration::from_secs(120);

/// How a session ended.
#[derive(Debug, Clone, PartialEq, Eq)]
enum End {
    Right,
    /// With an error in one sentence.
    Reported(String),
    /// This must not be.
    Wrong(String),
}

fn run(words: &str, more: &[&std::ffi::OsStr], out: &Path) -> (Outcome, String, Vec<String>) {
    let mut all: Vec<OsString> = words.split(' ').map(OsString::from).collect();
    all.extend(["--format", "json", "-o"].map(OsString::from));
    all.push(out.into());
    all.extend(more.iter().map(OsString::from));
    let _ = std::fs::remove_file(out);
    let (outcome, said) = run_captured(all);
    let text = std::fs::read_to_string(out).unwrap_or_default();
    let events = text.lines().filter(|l| l.starts_with(r#"{"type":"event""#)).map(str::to_owned).collect();
    (outcome, said, events)
}

/// What each command shows of the file itself.
fn truths(source: &[&std::ffi::OsStr], scratch: &Scratch) -> Vec<Vec<String>> {
    let truths: Vec<Vec<String>> = COMMANDS
        .iter()
        .map(|command| {
            let command = if *command == FOLLOW { "list" } else { command };
            let (outcome, said, events) = run(command, source, &scratch.path("truth"));
            assert_eq!(outcome, Outcome::Done, "{said}");
            events
        })
        .collect();
    assert!(truths.iter().all(|t| t.len() > 5) && truths[0].len() == 20 && truths[1].len() > 200);
    truths
}

/// One command over the proxy.
fn session(upstream: SocketAddr, elf: &Path, script: &Script, truth: &[Vec<String>], out: &Path) -> End {
    let proxy = Proxy::start(upstream, script);
    let which = (script.seed % COMMANDS.len() as u64) as usize;
    let (remote, timeout) = (proxy.address.to_string(), script.timeout.as_secs_f64().to_string());
    let more = ["--elf".as_ref(), elf.as_os_str(), "--remote".as_ref(), remote.as_ref(), "--timeout".as_ref()];
    // A halted target is followed only where it may be set running.
    let leave = if COMMANDS[which] == FOLLOW { "running" } else { "halted" };
    let more = [&more[..], &[timeout.as_ref(), "--leave".as_ref(), leave.as_ref()]].concat();
    let (outcome, said, events) = run(COMMANDS[which], &more, out);
    let errors: Vec<&str> = said.lines().filter(|l| l.starts_with("error: ")).collect();
    let tell = |what: &str| {
        let log = proxy.log.lock().unwrap();
        format!(
            "seed {} {:?} `{}`: {what}; {outcome:?} {said:?}\n  {}",
            script.seed,
            script.faults,
            COMMANDS[which],
            log.join("\n  ")
        )
    };
    match outcome {
        Outcome::Done if events == truth[which] => End::Right,
        // What it has shown before the line broke was right, and the failure is reported.
        Outcome::Failed if COMMANDS[which] == FOLLOW && truth[which].starts_with(&events) && !errors.is_empty() => {
            End::Reported(tell(errors.last().unwrap()))
        }
        Outcome::Done => {
            let wrong = events.iter().filter(|e| !truth[which].contains(e)).count();
            End::Wrong(tell(&format!("{} events, {wrong} of them wrong", events.len())))
        }
        _ if !events.is_empty() => End::Wrong(tell("events and a failure")),
        _ if errors.iter().all(|e| e.len() < 20) => End::Wrong(tell("no clear error")),
        _ => End::Reported(tell(errors.last().unwrap())),
    }
}

/// Runs the sessions that `each` makes of numbers, several at a time; how each ended.
fn sessions(count: u64, each: impl Fn(u64, u64) -> End + Send + Sync + 'static) -> Vec<End> {
    let (each, next, busy) = (Arc::new(each), Arc::new(AtomicU64::new(0)), Arc::new(Mutex::new(Vec::new())));
    let (send, receive) = channel();
    for worker in 0..ABREAST {
        let (each, next, busy, send) = (Arc::clone(&each), Arc::clone(&next), Arc::clone(&busy), send.clone());
        std::thread::spawn(move || {
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= count {
                    return;
                }
                busy.lock().unwrap().push(seed);
                let end = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| each(seed, worker)))
                    .unwrap_or_else(|_| End::Wrong(format!("seed {seed} panicked")));
                busy.lock().unwrap().retain(|s| *s != seed);
                if send.send(end).is_err() {
                    return;
                }
            }
        });
    }
    drop(send);
    let mut ends = Vec::new();
    for _ in 0..count {
        match receive.recv_timeout(TIME_LIMIT) {
            Ok(end) => ends.push(end),
            Err(RecvTimeoutError::Timeout) => panic!("one of these sessions hangs: {:?}", busy.lock().unwrap()),
            Err(RecvTimeoutError::Disconnected) => panic!("a worker died"),
        }
    }
    ends
}

/// The share of sessions with the right events; fails where one of them ended as none may.
fn judge(what: &str, ends: &[End]) -> f64 {
    let wrong: Vec<&str> =
        ends.iter().filter_map(|e| if let End::Wrong(why) = e { Some(why.as_str()) } else { None }).collect();
    let right = ends.iter().filter(|e| **e == End::Right).count();
    let share = right as f64 * 100.0 / ends.len() as f64;
    println!(
        "{what}: {right} of {} sessions show the right events ({share:.1} %), {} end with an error, {} wrong",
        ends.len(),
        ends.len() - right - wrong.len(),
        wrong.len()
    );
    let mut reported: std::collections::BTreeMap<String, u32> = std::collections::BTreeMap::new();
    for end in ends {
        if let End::Reported(why) = end {
            let error = why.rsplit("error: ").next().unwrap_or_default();
            let error = error.split("\\n").next().unwrap_or_default();
            // Behind the endpoint, whose port differs.
            let words = error.rsplit("127.0.0.1:").next().and_then(|e| e.split_once(": ")).map_or(error, |(_, e)| e);
            let words: String = words.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
            *reported.entry(words.chars().take(60).collect()).or_default() += 1;
        }
    }
    reported.iter().for_each(|(why, n)| println!("  {n:4} {why}"));
    if std::env::var_os("REPORTED").is_some() {
        ends.iter().filter(|e| matches!(e, End::Reported(_))).for_each(|e| println!("{e:?}"));
    }
    assert!(wrong.is_empty(), "{what}: {} wrong, such as\n{}", wrong.len(), wrong[..wrong.len().min(3)].join("\n"));
    share
}

/// So many sessions; `scripts/test` has 500 of each kind.
fn count(usual: u64) -> u64 {
    std::env::var("SESSIONS").ok().and_then(|n| n.parse().ok()).unwrap_or(usual)
}

/// In front of our own stub, over the RAM of the fixture.
fn over_our_stub(name: &str, from: &'static [Fault], usual: u64, timeout: Duration) -> Vec<End> {
    let scratch = Arc::new(Scratch::new(name));
    let (elf, ram) = (fixture("cm3.elf"), fixture("cm3.ram.bin"));
    let image = format!("{}@0x20000000", ram.display());
    let truth = Arc::new(truths(&["--elf".as_ref(), elf.as_os_str(), image.as_ref()], &scratch));
    let bytes = std::fs::read(ram).unwrap();
    let one = std::env::var("SEED").ok().and_then(|s| s.parse::<u64>().ok());
    sessions(one.map_or_else(|| count(usual), |s| s + 1), move |seed, worker| {
        if one.is_some_and(|s| s != seed) {
            return End::Right;
        }
        let server = Server::on_loopback().unwrap();
        let upstream = server.address().unwrap();
        let bytes = bytes.clone();
        std::thread::spawn(move || {
            let mut memory = Segments::new(vec![Block::whole(0x2000_0000, Bytes::from(bytes))]);
            let _ = server.serve_one(&mut memory);
        });
        let script = Script::of(seed, from, timeout);
        session(upstream, &elf, &script, &truth, &scratch.path(&worker.to_string()))
    })
}

#[test]
fn what_every_line_does_now_and_then_is_got_over() {
    let ends = over_our_stub("gentle", &GENTLE, 100, Duration::from_secs(1));
    assert!(judge("delays, parts, doubles, flipped bits", &ends) >= 95.0);
}

#[test]
fn what_breaks_a_session_is_reported_and_never_shows_other_events() {
    let ends = over_our_stub("harsh", &HARSH, 100, Duration::from_millis(300));
    assert!(judge("all faults", &ends) >= 30.0, "a fault here and there is got over");
}

/// A stub of the real world: one session at a time.
fn over(
    upstream: SocketAddr,
    elf: &Path,
    source: &[&std::ffi::OsStr],
    name: &str,
    from: &[Fault],
    trusting: bool,
) -> Vec<End> {
    let scratch = Scratch::new(name);
    let truth = truths(source, &scratch);
    (0..count(24))
        .map(|seed| {
            // These run when they are let run: they are not followed.
            let seed = seed / 4 * COMMANDS.len() as u64 + seed % 4;
            let script = Script { trusting_stub: trusting, ..Script::of(seed, from, Duration::from_secs(1)) };
            session(upstream, elf, &script, &truth, &scratch.path("out"))
        })
        .collect()
}

#[test]
fn a_bad_line_to_qemu() {
    require!(installed("qemu-system-arm"));
    let elf = fixture("cm3.elf");
    let qemu = Qemu::dead(&elf);
    let image = format!("{}@0x20000000", fixture("cm3.ram.bin").display());
    let source: [&std::ffi::OsStr; 3] = ["--elf".as_ref(), elf.as_os_str(), image.as_ref()];
    let upstream = qemu.remote().parse().unwrap();
    assert!(judge("QEMU", &over(upstream, &elf, &source, "qemu-line", &GENTLE, false)) >= 90.0);
}

#[test]
fn a_bad_line_from_gdbserver() {
    require!(installed("gdbserver") && cfg!(target_pointer_width = "64") && cfg!(target_endian = "little"));
    let elf = fixture("host.elf");
    // Without acknowledgements it takes damaged requests as they are: nobody can see that, so none is damaged.
    let server = gdbserver_at_the_end(&elf);
    let remote = server.remote();
    let upstream = remote.parse().unwrap();
    let ends = over_live(upstream, &elf, &remote, "gdbserver-line");
    assert!(judge("gdbserver", &ends) >= 90.0);
}

/// What a live target shows over a good line is what it shows over a bad one.
fn over_live(upstream: SocketAddr, elf: &Path, remote: &str, name: &str) -> Vec<End> {
    over(
        upstream,
        elf,
        &[
            "--elf".as_ref(),
            elf.as_os_str(),
            "--remote".as_ref(),
            remote.as_ref(),
            "--leave".as_ref(),
            "halted".as_ref(),
        ],
        name,
        &GENTLE,
        true,
    )
}
