//! Files that are read: cut short, of another target, compressed, sparse, or too many of them.

#![cfg(feature = "cli")]

use std::io::Write as _;
use std::process::Command;

use crate::support::machine::{Scratch, fixture, text, tx_trace};

/// Two cores on one command line: the last one was read, and nothing was said.
#[test]
fn of_two_cores_one_was_silently_left_out() {
    let (one, two) = (fixture("cm3.core"), fixture("smp.core"));
    for words in [&["last", "5"][..], &["last", "5", "--core"]] {
        let out = tx_trace(&[words, &[one.to_str().unwrap(), two.to_str().unwrap()][..]].concat());
        assert_eq!(out.status.code(), Some(2));
        assert!(text(&out.stderr).contains("second core"), "{}", text(&out.stderr));
    }
}

/// A core cut short was reported twice, once with `(34816 times)`.
#[test]
fn a_core_cut_short_was_reported_twice() {
    let scratch = Scratch::new("cut-core");
    let whole = std::fs::read(fixture("host.core")).unwrap();
    let cut = scratch.path("cut.core");
    std::fs::write(&cut, &whole[..whole.len() / 2]).unwrap();
    let elf = fixture("host.elf");
    let out = tx_trace(&["info", "--elf", elf.to_str().unwrap(), "--core", cut.to_str().unwrap()]);
    let said = text(&out.stdout) + &text(&out.stderr);
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(said.matches("cut short: ").count(), 1, "{said}");
    assert!(!said.contains(" times"), "{said}");
}

/// A file of zeros as `@FILE` became one word of a megabyte, and a message as long.
#[test]
fn zeros_as_option_file_were_a_word() {
    let scratch = Scratch::new("zero-options");
    let zeros = scratch.path("zeros");
    std::fs::write(&zeros, vec![0; 100_000]).unwrap();
    let out = tx_trace(&["last", &format!("@{}", zeros.display())]);
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("not a text file") && out.stderr.len() < 300, "{} bytes", out.stderr.len());
}

/// A dump whose gzip was damaged, and no trace in what came out: the damage was not reported.
#[test]
fn what_gzip_lost_was_not_reported_where_nothing_was_found() {
    let scratch = Scratch::new("lost-gzip");
    let packed = scratch.path("dump.gz");
    let mut gzip = Command::new("gzip")
        .arg("-c")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let noise: Vec<u8> = (0..50_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let mut stdin = gzip.stdin.take().unwrap();
    let feed = std::thread::spawn(move || stdin.write_all(&noise).unwrap());
    let whole = gzip.wait_with_output().unwrap().stdout;
    feed.join().unwrap();
    std::fs::write(&packed, &whole[..whole.len() / 2]).unwrap();
    let out = tx_trace(&["last", packed.to_str().unwrap()]);
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stderr).contains("cut short"), "{}", text(&out.stderr));
}

/// The ELF of a machine of the other byte order gave its names to the events, and nothing was said.
#[test]
fn an_elf_of_the_other_byte_order_was_believed() {
    let (elf, trace) = (fixture("be.elf"), fixture("cm3.trx"));
    let out = tx_trace(&["last", "2", "--elf", elf.to_str().unwrap(), "--trace", trace.to_str().unwrap()]);
    let said = text(&out.stderr);
    assert!(said.contains("it is 32-bit big-endian PowerPC, and the trace is of a little-endian target"), "{said}");
    assert_eq!(out.status.code(), Some(2));
    let (elf, trace) = (fixture("cm3.elf"), fixture("be.trx"));
    let out = tx_trace(&["info", "--elf", elf.to_str().unwrap(), "--trace", trace.to_str().unwrap()]);
    assert!(text(&out.stderr).contains("the trace is of a big-endian target"), "{}", text(&out.stderr));
}

/// Ports keep a thread's name elsewhere in its control block (at 68 on Linux for 32 bits): without debug information the
/// right ELF was reported to be of another build.
#[test]
fn the_right_elf_of_another_port_was_reported_to_be_of_another_build() {
    let scratch = Scratch::new("port");
    let mut ram = std::fs::read(fixture("cm3.ram.bin")).unwrap();
    let marks: Vec<usize> = (0..ram.len() - 128).step_by(4).filter(|&at| &ram[at..at + 4] == b"DRHT").collect();
    assert!(marks.len() >= 10, "{marks:?}");
    for at in marks {
        for byte in 0..4 {
            ram.swap(at + 40 + byte, at + 68 + byte);
        }
    }
    let path = scratch.path("ram.bin");
    std::fs::write(&path, ram).unwrap();
    for (elf, said) in [("cm3.stripped.elf", "match: 10 of 10"), ("cm3-never.elf", "0 of 10 thread names agree")] {
        let out = tx_trace(&["info", fixture(elf).to_str().unwrap(), path.to_str().unwrap(), "--width", "120"]);
        assert!(text(&out.stdout).contains(said), "{elf}: {}", text(&out.stdout));
    }
}

/// In a core of 275 GB on which a few KiB were ever written, 4 GiB of holes were searched for half a minute, and a trace
/// behind them was not found.
#[test]
fn the_holes_of_a_sparse_core_were_searched() {
    use std::os::unix::fs::FileExt as _;
    const HOLE: u64 = 200 << 30;
    let scratch = Scratch::new("sparse");
    let path = scratch.path("huge.core");
    let file = std::fs::File::create(&path).unwrap();
    let mut head = Vec::new();
    // An ELF64 core of x86-64 with one segment, at 0x7f00_0000_0000.
    head.extend_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x04\0\x3e\0\x01\0\0\0");
    head.extend([0u64, 64, 0].iter().flat_map(|w| w.to_le_bytes()));
    head.extend([0u32].iter().flat_map(|w| w.to_le_bytes()));
    head.extend([64u16, 56, 1, 0, 0, 0].iter().flat_map(|w| w.to_le_bytes()));
    head.extend([1u32, 6].iter().flat_map(|w| w.to_le_bytes()));
    head.extend([4096u64, 0x7f00_0000_0000, 0, 270 << 30, 270 << 30, 1].iter().flat_map(|w| w.to_le_bytes()));
    file.write_all_at(&head, 0).unwrap();
    if file.set_len(275 << 30).is_err() {
        eprintln!("SKIPPED: the temporary directory takes no file of 275 GB");
        return;
    }
    file.write_all_at(&std::fs::read(fixture("cm3.trx")).unwrap(), HOLE).unwrap();
    file.sync_all().unwrap();
    let allocated = std::os::unix::fs::MetadataExt::blocks(&file.metadata().unwrap()) * 512;
    if allocated > 1 << 24 {
        eprintln!("SKIPPED: the temporary directory has no sparse files");
        return;
    }
    let out = tx_trace(&["last", "1", path.to_str().unwrap()]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    assert!(text(&out.stdout).contains("tx_thread_identify"), "{}", text(&out.stdout));
}

/// A core given as a dump was read as raw memory, and `explain` said nothing of it.
#[test]
fn a_core_given_as_a_dump_was_read_as_raw_memory() {
    let core = fixture("cm3.core").display().to_string();
    let at = format!("{core}@0x20000000");
    for words in [&["explain", "--image", &at][..], &["last", &at], &["info", "--image", &core]] {
        let out = tx_trace(words);
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{words:?}: {said}");
        assert!(said.contains("is an ELF core, not a dump of memory") && said.contains("--core "), "{words:?}: {said}");
    }
}

/// A wrong `--load-offset` was blamed on the ELF: "this ELF is of another build".
#[test]
fn a_wrong_load_offset_was_an_elf_of_another_build() {
    let (elf, core) = (fixture("cm3.elf").display().to_string(), fixture("cm3.core").display().to_string());
    let ram = fixture("cm3.ram.bin").display().to_string();
    for command in ["last", "explain", "threads", "info", "report"] {
        for source in [&core, &ram] {
            let out = tx_trace(&[command, "--load-offset", "0x100", &elf, source]);
            let said = text(&out.stdout) + &text(&out.stderr);
            assert!(
                said.contains("--load-offset 0x100 is wrong, or this ELF is of another build"),
                "{command}: {said}"
            );
            let sure = said.lines().filter(|line| line.contains("another build") && !line.contains("--load-offset"));
            assert_eq!(sure.collect::<Vec<_>>(), Vec::<&str>::new(), "{command}");
        }
        let right = tx_trace(&[command, "--load-offset", "0", &elf, &core]);
        assert!(!(text(&right.stdout) + &text(&right.stderr)).contains("build;"), "{command}");
    }
}

/// Only `info` said that the trace of a dump without an ELF claims another address than the dump was given.
#[test]
fn a_dump_at_a_wrong_address_was_only_said_by_info() {
    let ram = fixture("cm3.ram.bin").display().to_string();
    let (wrong, right) = (format!("{ram}@0x30000000"), format!("{ram}@0x20000000"));
    for command in ["last", "explain", "report", "timeline", "info"] {
        let out = tx_trace(&[command, &wrong]);
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(0), "{command}: {said}");
        let lines = said
            .lines()
            .filter(|line| line.contains("the address of the dump is 0x10000000 too high, or this is a copy"));
        assert_eq!(lines.count(), usize::from(command != "report"), "{command}: {said}");
        assert!((text(&out.stdout) + &said).contains("its own header says that it is at 0x200"), "{command}: {said}");
        let out = tx_trace(&[command, &right]);
        assert!(!(text(&out.stdout) + &text(&out.stderr)).contains("this is a copy"), "{command}");
    }
}

/// `--period 1` was accepted with stamps of hundreds of ticks.
#[test]
fn a_period_below_the_stamps_was_accepted() {
    let trx = fixture("cm3.trx").display().to_string();
    let out = tx_trace(&["last", "--period", "1", &trx]);
    let said = text(&out.stderr);
    assert!(out.status.code() == Some(2) && said.contains("a clock with this period never shows"), "{said}");
    assert_eq!(tx_trace(&["last", "--period", "0xffffffff", &trx]).status.code(), Some(0));
}

/// `man -o FILE` was refused, though every other command that prints takes it.
#[test]
fn man_took_no_output() {
    let scratch = Scratch::new("man-output");
    let file = scratch.path("last.1").display().to_string();
    assert!(tx_trace(&["man", "last", "-o", &file]).status.success());
    assert_eq!(std::fs::read(&file).unwrap(), tx_trace(&["man", "last"]).stdout);
    let dir = file.strip_suffix("/last.1").unwrap();
    let refused = tx_trace(&["man", "-o", dir]);
    let said = text(&refused.stderr);
    assert!(refused.status.code() == Some(2) && said.contains("man --dir "), "{said}");
}
