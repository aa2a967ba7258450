//! Rings of a real QNX kernel, where their folder is there: every event, through the program's own JSON.

use crate::support;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn lines(args: &[&str]) -> Vec<Value> {
    let out = Command::new(env!("CARGO_BIN_EXE_tx-trace")).args(args).output().unwrap();
    assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap().lines().map(|l| serde_json::from_str(l).unwrap()).collect()
}

fn events(args: &[&str]) -> Vec<Value> {
    lines(args).into_iter().filter(|l| l["type"] == "event").collect()
}

/// Every case of the folder: the ring, and the options that name it.
fn cases() -> Vec<(String, PathBuf, String)> {
    let Some(dir) = support::real_traces() else { return Vec::new() };
    let mut all = Vec::new();
    for entry in std::fs::read_dir(dir.join("qnx")).unwrap() {
        let path = entry.unwrap().path();
        let Some(name) = path.file_name().and_then(|n| n.to_str()?.strip_suffix(".expected.tsv")) else { continue };
        let source = path.with_file_name(format!("{name}.source"));
        let bin = path.with_file_name(format!("{name}.bin"));
        let from = if source.is_file() { format!("@{}", source.display()) } else { bin.display().to_string() };
        all.push((from, bin, std::fs::read_to_string(&path).unwrap()));
    }
    assert!(!all.is_empty(), "the folder holds no case");
    all
}

fn row(e: &Value) -> String {
    let words: Vec<&str> = e["words"].as_array().unwrap().iter().map(|w| &w.as_str().unwrap()[2..]).collect();
    format!("{}\t{}\t{}\t{}\t{}", e["seq"], e["stamp"].as_str().unwrap(), e["class"]["id"], e["id"], words.join(" "))
}

#[test]
fn every_event_of_the_expected_lists() {
    for (from, _, expected) in cases() {
        let got: Vec<String> = events(&["list", "--format", "json", &from]).iter().map(row).collect();
        let wanted: Vec<&str> = expected.lines().skip(1).collect();
        for (g, w) in got.iter().zip(&wanted) {
            assert_eq!(g, w, "{from}");
        }
        assert_eq!(got.len(), wanted.len(), "{from}");
    }
}

#[test]
fn every_event_of_a_real_kernel_has_a_name_and_a_class() {
    for (from, ..) in cases() {
        for e in events(&["list", "--format", "json", &from]) {
            assert!(e["name"].is_string() && e["class"]["name"].is_string(), "{from}: {e}");
            if e["context"]["kind"] == "thread" {
                assert!(e["context"]["pid"].is_u64() && e["context"]["tid"].is_u64(), "{e}");
            }
        }
    }
}

#[test]
fn the_newest_events_are_the_tail_of_all_of_them() {
    for (from, ..) in cases() {
        let all = events(&["list", "--format", "json", &from]);
        for n in [1usize, 20, 100_000] {
            let tail = events(&["last", &n.to_string(), "--format", "json", &from]);
            assert_eq!(tail, all[all.len().saturating_sub(n)..], "{from}");
        }
        let shown = events(&["show", "-1", "--format", "json", &from]);
        assert_eq!(shown, all[all.len() - 1..]);
    }
}

/// Where the ring in a file says it is, and how many buffers follow it.
fn base_and_buffers(bin: &Path) -> (u64, u64) {
    let bytes = std::fs::read(bin).unwrap();
    (u64::from(u32::from_le_bytes(bytes[..4].try_into().unwrap())), bytes.len() as u64 / 16384)
}

#[test]
fn any_buffer_of_the_ring_names_it_at_any_address() {
    for (_, bin, expected) in cases().into_iter().filter(|(from, ..)| !from.starts_with('@')) {
        let (base, buffers) = base_and_buffers(&bin);
        let wanted: Vec<&str> = expected.lines().skip(1).collect();
        // At its own address, and as a copy in physical memory.
        for place in [base, 0x0080_0000] {
            for buffer in 0..buffers {
                let header = format!("{:#x}", place + buffer * 16384);
                let image = format!("{}@{place:#x}", bin.display());
                let got: Vec<String> = events(&["list", "--format", "json", "--image", &image, "--header", &header])
                    .iter()
                    .map(row)
                    .collect();
                assert_eq!(got, wanted, "{header}");
            }
        }
    }
}
