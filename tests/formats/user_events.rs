//! What an application calls its events: from its ELF, from files, and which of them wins.

#![cfg(feature = "cli")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tx_trace::bytes::Bytes;
use tx_trace::elf::Elf;
use tx_trace::sym::dwarf::Dwarf;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// A directory of its own, gone when the test is over.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("tx-trace-user-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// What a run says: stdout, stderr, exit code.
fn run(words: &[&str]) -> (String, String, i32) {
    let out = Command::new(env!("CARGO_BIN_EXE_tx-trace"))
        .args(words)
        .current_dir(fixtures())
        .env_remove("TX_TRACE_ELF")
        .env_remove("TX_TRACE_REMOTE")
        .env_remove("COLUMNS")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    (String::from_utf8(out.stdout).unwrap(), String::from_utf8(out.stderr).unwrap(), out.status.code().unwrap())
}

const CORE: [&str; 4] = ["--elf", "cm3.elf", "--core", "cm3.core"];

fn of_core(words: &[&str]) -> (String, String, i32) {
    run(&[words, &CORE].concat())
}

/// The first enumerators with their ids, as `tests/firmware/app.c` has them.
const APP: [(u32, &str); 11] = [
    (4096, "APP_BOOT_STEP"),
    (4097, "APP_SAMPLE"),
    (4098, "APP_CONTROL_OUT"),
    (4099, "APP_FRAME_RX"),
    (4100, "APP_FILTER_STEP"),
    (4101, "APP_LOG_LINE"),
    (4102, "APP_FLASH_PAGE"),
    (4103, "APP_HEARTBEAT"),
    (4104, "APP_ALL_WELL"),
    (4105, "APP_LATE"),
    (5000, "APP_FAULT"),
];

#[test]
fn the_enum_of_the_elf_names_events() {
    for (elf, core) in [("cm3.elf", "cm3.core"), ("host.elf", "host.core")] {
        let (out, _, code) = run(&["last", "3", "--format", "json", "--elf", elf, "--core", core]);
        let names: Vec<serde_json::Value> = out
            .lines()
            .map(|l| serde_json::from_str::<serde_json::Value>(l).unwrap())
            .filter(|v| v["type"] == "event")
            .map(|v| serde_json::json!([v["id"], v["name"], v["macro"], v["args"]]))
            .collect();
        let texts = |event: &serde_json::Value| {
            event[3].as_array().unwrap().iter().map(|arg| arg["text"].clone()).collect::<Vec<_>>()
        };
        assert_eq!(
            names[0].as_array().unwrap()[..3],
            [4105.into(), "APP_LATE".into(), serde_json::Value::Null],
            "{elf}"
        );
        // Words that nothing describes are arguments as in the table: `i1=0x2 i2=0x106 i3=0x7`.
        assert_eq!(texts(&names[0]), ["0x2", "0x106", "0x7"]);
        assert_eq!(names[1].as_array().unwrap()[..3], [5000.into(), "APP_FAULT".into(), serde_json::Value::Null]);
        assert_eq!(code, 0);
        let (info, ..) = run(&["info", "--width", "200", "--elf", elf, "--core", core]);
        assert!(info.contains("enum app_event (app.c:7) names 10 of 10 ids"), "{info}");
    }
}

#[test]
fn names_of_the_elf_are_names_for_filters() {
    let rows = |words: &[&str]| {
        let (out, err, code) = of_core(words);
        assert_eq!(code, 0, "{err}");
        out.lines().skip(1).filter(|l| !l.starts_with("now:")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(rows(&["last", "1", "--event", "app_late"])[0].contains("APP_LATE"));
    // None among the newest that are read first: the name is looked for all the same.
    let log = rows(&["last", "2", "--event", "APP_LOG_LINE"]);
    assert!(log.len() == 2 && log.iter().all(|l| l.contains("APP_LOG_LINE")), "{log:?}");
    assert_eq!(rows(&["list", "--event", "APP_*"]), rows(&["list", "--class", "user"]));
    assert_eq!(rows(&["list", "--event", "APP_*"]), rows(&["list", "--event", "user_*"]));
    assert_eq!(rows(&["list", "--event", "APP_LATE"]), rows(&["list", "--event", "user_4105"]));
    // An enumerator that no event of the trace has is known, and met nowhere.
    let (out, _, code) = of_core(&["list", "--event", "APP_BOOT_STEP,APP_ALL_WELL", "--format", "csv"]);
    assert!(code <= 1 && !out.contains("APP_LATE"), "{out}");
    let (_, err, code) = of_core(&["list", "--event", "APP_NOTHING"]);
    assert!(code == 2 && err.contains("no catalogue has an event 'APP_NOTHING'"), "{err}");
}

#[test]
fn events_that_the_elf_names_are_listed_and_written() {
    let scratch = Scratch::new("listed");
    let (out, ..) = run(&["events", "--user", "--elf", "cm3.elf", "--format", "csv"]);
    let rows: Vec<(u32, &str)> = out
        .lines()
        .skip(1)
        .map(|l| l.split(',').collect::<Vec<_>>())
        .map(|cells| (cells[0].parse().unwrap(), cells[1]))
        .collect();
    assert_eq!(rows, APP);
    for format in ["tsv", "trxc"] {
        let file = scratch.0.join("written").display().to_string();
        let (_, err, code) = run(&["events", "--user", "--elf", "cm3.elf", "--format", format, "-o", &file]);
        assert_eq!(code, 0, "{err}");
        let (again, ..) = run(&["events", "--user", "--events", &file, "--format", "csv"]);
        assert_eq!(again, out, "{format}");
        let (text, ..) = run(&["events", "--user", "--events", &file, "--format", format]);
        assert_eq!(text, std::fs::read_to_string(&file).unwrap(), "{format}");
        // Without the ELF the file is as good.
        let (bare, ..) = run(&["last", "5", "--trace", "cm3.trx", "--events", &file]);
        assert!(bare.contains("APP_LATE") && bare.contains("APP_FAULT"), "{bare}");
    }
    let (_, err, code) = run(&["events", "--format", "tsv"]);
    assert!(code == 2 && err.contains("--user"), "{err}");
    let (_, err, code) = run(&["events", "--user", "--format", "tsv"]);
    assert!(code == 1 && err.contains("--elf FILE or --events FILE"), "{err}");
    let (_, err, code) = of_core(&["last", "--format", "tsv"]);
    assert!(code == 2 && err.contains("--format tsv: not one of table, json, csv"), "{err}");
}

#[test]
fn a_table_names_arguments_in_every_format() {
    let scratch = Scratch::new("table");
    let file = scratch.write(
        "app.tsv",
        "id\tname\ti1\ti2\ti3\ti4\tlabel\n\
         4105\tTOO_LATE\tmisses\tseen:flags:alive\texpected:flags:alive\n\
         5000\tFAULT\tpc:addr\tlr:addr\tcfsr:hex\tbfar:addr\tat {pc}, from {i2}\n\
         4100\tSTEP\tdone\n\
         bits\talive\t1\tcontrol\nbits\talive\t2\tsensor\nbits\talive\t4\tcomms\nbits\talive\t0x100\tgo\n",
    );
    let (out, ..) = of_core(&["list", "--from", "246", "--width", "180", "--events", &file]);
    assert!(
        out.contains("TOO_LATE                 misses=2 seen=sensor|comms|go expected=control|sensor|comms\n"),
        "{out}"
    );
    assert!(out.contains("FAULT                    at 0x1d74, from 0x1d93\n"), "{out}");
    assert!(out.contains("STEP                     done=12 i2=0x1fff\n"), "{out}");
    let (out, ..) = of_core(&["last", "3", "--format", "json", "--events", &file]);
    let event: serde_json::Value = serde_json::from_str(out.lines().nth(1).unwrap()).unwrap();
    assert_eq!(event["name"], "TOO_LATE");
    assert_eq!(event["args"][0], serde_json::json!({"name": "misses", "kind": "dec", "value": 2, "text": "2"}));
    assert_eq!(event["args"][1]["text"], "sensor|comms|go");
    let (out, ..) = of_core(&["list", "--format", "csv", "--from", "254", "--events", &file]);
    assert!(out.contains("FAULT,,\"at 0x1d74, from 0x1d93\","), "{out}");
    let (out, ..) = of_core(&["show", "254", "--events", &file]);
    assert!(out.contains("says         at 0x1d74, from 0x1d93\n") && out.contains("bfar:addr"), "{out}");
    let (out, ..) = of_core(&["list", "--arg", "misses=2", "--events", &file]);
    assert_eq!(out.lines().count(), 2, "{out}");
    let (out, ..) = of_core(&["list", "--arg", "seen=go", "--events", &file]);
    assert_eq!(out.lines().count(), 3, "{out}");
}

#[test]
fn what_is_given_wins_over_what_is_found() {
    let scratch = Scratch::new("order");
    for file in ["cm3.elf", "cm3.core"] {
        std::fs::copy(fixtures().join(file), scratch.0.join(file)).unwrap();
    }
    let [elf, core] = ["cm3.elf", "cm3.core"].map(|f| scratch.0.join(f).display().to_string());
    let last = |more: &[&str]| {
        let (out, err, code) = run(&[&["last", "3", "--elf", &elf, "--core", &core], more].concat());
        assert_eq!(code, 0, "{err}");
        let mut names = out.lines().skip(1).take(2).map(|l| l.split_whitespace().nth(3).unwrap().to_owned());
        [names.next().unwrap(), names.next().unwrap()]
    };
    assert_eq!(last(&[]), ["APP_LATE", "APP_FAULT"]);
    scratch.write("tx-trace-events.tsv", "4105\tBESIDE_LATE\n");
    assert_eq!(last(&[]), ["BESIDE_LATE", "APP_FAULT"]);
    let (info, ..) = run(&["info", "--width", "250", "--elf", &elf, "--core", &core]);
    assert!(info.contains("tx-trace-events.tsv names 1 id; enum app_event (app.c:7) names 9 of 9 ids"), "{info}");
    let header = scratch.write("app.h", "#define H_LATE (4096 + 9)\n#define H_STACK 512\n");
    assert_eq!(last(&["--events", &header]), ["H_LATE", "APP_FAULT"]);
    let trxc = scratch.write("app.trxc", "//mine\nStart\n4105,T_LATE,TL,(0,0,0),(0,0,0),misses,,,\nEnd\n");
    assert_eq!(last(&["--events", &header, "--events", &trxc]), ["T_LATE", "APP_FAULT"]);
    assert_eq!(last(&["--events", &trxc, "--events", &header]), ["H_LATE", "APP_FAULT"]);
    // A file that is found, not named, is passed over where it is wrong.
    scratch.write("tx-trace-events.tsv", "4105\tLATE\nnonsense\n");
    assert_eq!(last(&[]), ["APP_LATE", "APP_FAULT"]);
    let (_, err, _) = run(&["last", "3", "--elf", &elf, "--core", &core]);
    assert!(err.contains("tx-trace-events.tsv:2: ") && err.contains("ignored"), "{err}");
    scratch.write("tx-trace-events.tsv", "10\tMINE\n");
    let (_, err, code) = run(&["last", "3", "--elf", &elf, "--core", &core]);
    assert!(code == 0 && err.contains("tx-trace-events.tsv:1: id 10") && err.contains("ignored"), "{err}");
}

#[test]
fn a_wrong_file_is_reported_with_its_line() {
    let scratch = Scratch::new("wrong");
    for (name, text, says) in [
        ("a.tsv", "# x\n4096\tA\n4097 B\n", "a.tsv:3: '4097 B' is one cell"),
        ("b.trxc", "Start\n4096,A\n4096,B\nEnd\n", "b.trxc:3: id 4096 has a name already, in line 2"),
        ("c.h", "#define A 17\n", "c.h: defines no name with a value from 4096 to 65535"),
        ("d.h", "enum { A = 4096 + B };\n", "d.h:1: A has a value that this file does not define"),
        ("e.tsv", "10\tMINE\n", "e.tsv:1: id 10 is the system's own tx_block_allocate"),
        ("f.txt", "hello\n", "f.txt: is neither"),
        ("g.bin", "4096\tA\0\n", "g.bin: not a text file"),
    ] {
        let file = scratch.write(name, text);
        let (out, err, code) = of_core(&["last", "3", "--events", &file]);
        assert!(code == 2 && out.is_empty() && err.contains(says), "{name}: {err}");
        let (_, err, code) = run(&["events", "--user", "--events", &file]);
        assert!(code == 2 && err.contains(says), "{name}: {err}");
    }
    let (_, err, code) = of_core(&["last", "--events", "no/such/file"]);
    assert!(code == 2 && err.contains("no/such/file"), "{err}");
    let (_, err, code) = of_core(&["last", "--event-enum", "alive"]);
    assert!(code == 2 && err.contains("no enum 'alive'") && err.contains("there are: app_event"), "{err}");
}

/// Compiles a program of these sources; `None`, loudly, where there is no compiler.
fn compile(scratch: &Scratch, options: &[&str], files: &[(&str, &str)]) -> Option<String> {
    for (name, text) in files {
        scratch.write(name, text);
    }
    let sources = files.iter().map(|(n, _)| *n).filter(|n| n.ends_with(".c"));
    let out = Command::new("gcc").args(options).args(sources).args(["-o", "app.elf"]).current_dir(&scratch.0).output();
    match out {
        Err(e) => {
            eprintln!("SKIPPED: gcc cannot be run ({e}): names from a compiler's output are not tested");
            None
        }
        Ok(out) => {
            assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
            Some(scratch.0.join("app.elf").display().to_string())
        }
    }
}

const MAIN: &str =
    "#include <limits.h>\n#include <stdio.h>\n#include \"events.h\"\nint main(void) { return EV_LATE & 1; }\n";

#[test]
fn macros_of_g3_name_events() {
    let header = "#define EV_BASE 4096\n#define EV_LATE (EV_BASE + 9)\n#define EV_FAULT 5000u\n#define EV_LOG(x) (x)\n";
    for dwarf in ["-gdwarf-5", "-gdwarf-4", "-gdwarf-2"] {
        let scratch = Scratch::new(&format!("g3{dwarf}"));
        let strict = if dwarf == "-gdwarf-2" { "-gstrict-dwarf" } else { "-g3" };
        let files = [("events.h", header), ("main.c", MAIN)];
        let Some(elf) = compile(&scratch, &["-g3", dwarf, strict], &files) else { return };
        // The memory is another program's: only the names are of interest.
        let (out, err, code) = run(&["last", "3", "--elf", &elf, "--trace", "cm3.trx"]);
        assert_eq!(code, 0, "{err}");
        assert!(out.contains("EV_LATE") && out.contains("EV_FAULT"), "{dwarf}: {out}{err}");
        let (info, ..) = run(&["info", "--width", "250", "--elf", &elf, "--trace", "cm3.trx"]);
        assert!(info.contains("macros of events.h names 2 of 10 ids"), "{dwarf}: {info}");
        assert!(info.contains("8 ids without a name (4097, 4098, 4099, ...)"), "{dwarf}: {info}");
    }
}

#[test]
fn of_several_enums_one_is_taken_and_that_is_said() {
    let scratch = Scratch::new("several");
    let header = "typedef enum { A_SAMPLE = 4097, A_CONTROL, A_FRAME, A_LATE = 4105 } app_ids;\n\
                  enum modes { M_ONE = 1, M_BIG = 4100 };\n\
                  enum { U_FAULT = 5000, U_LOG = 4101 };\n\
                  enum size { S_4K = 8192 };\n\
                  extern app_ids a; extern enum modes m; extern enum size s;\n";
    let main = "#include \"events.h\"\napp_ids a = A_LATE; enum modes m = M_BIG; enum size s = S_4K;\n\
                int main(void) { return U_FAULT == (int)a; }\n";
    let Some(elf) =
        compile(&scratch, &["-g"], &[("events.h", header), ("main.c", main), ("two.c", "#include \"events.h\"\n")])
    else {
        return;
    };
    let last = |more: &[&str]| run(&[&["list", "--from", "246", "--elf", &elf, "--trace", "cm3.trx"], more].concat());
    let (out, err, _) = last(&[]);
    assert!(out.contains("A_LATE") && out.contains("user_5000"), "{out}");
    // An enum without a tag has the name of its typedef, or of its first enumerator.
    assert!(err.contains("named by enum app_ids (events.h:1, 4 ids)"), "{err}");
    assert!(err.contains("U_FAULT (events.h:3, 2 ids), modes (events.h:2, 1 id) could name some too"), "{err}");
    let (json, ..) = last(&["--format", "json"]);
    assert!(json.contains(r#""code":"several-event-enums","severity":"inferred""#), "{json}");
    let (out, err, _) = last(&["--event-enum", "U_FAULT"]);
    assert!(out.contains("U_FAULT") && out.contains("user_4105") && !err.contains("could name"), "{out}{err}");
    let (out, ..) = last(&["--event-enum", "U_FAULT,app_ids"]);
    assert!(out.contains("U_FAULT") && out.contains("A_LATE"), "{out}");
    let (out, err, _) = last(&["--event", "U_FAULT"]);
    assert!(out.contains("U_FAULT"), "an enum whose name is asked for is the one that is meant: {out}");
    assert!(!err.contains("could name"), "{err}");
    // A build with macros too: they name what no enumeration names.
    let Some(elf) = compile(
        &scratch,
        &["-g3"],
        &[
            ("ids.h", "#define D_STEP 4100\n"),
            ("three.c", "#include \"events.h\"\n#include \"ids.h\"\napp_ids a; int main(void) { return 0; }\n"),
        ],
    ) else {
        return;
    };
    let (out, ..) = run(&["list", "--from", "246", "--elf", &elf, "--trace", "cm3.trx"]);
    assert!(out.contains("A_LATE") && out.contains("D_STEP"), "{out}");
}

#[test]
fn debug_information_that_is_not_read_is_reported() {
    let scratch = Scratch::new("compressed");
    let files = [("events.h", "enum e { EV_LATE = 4105 };\n"), ("main.c", MAIN)];
    let Some(elf) = compile(&scratch, &["-g", "-gz"], &files) else { return };
    let (info, ..) = run(&["info", "--width", "250", "--elf", &elf, "--trace", "cm3.trx"]);
    assert!(info.contains("10 ids without a name: the ELF's debug information is compressed"), "{info}");
    let (_, err, code) = run(&["last", "--elf", &elf, "--trace", "cm3.trx", "--event-enum", "e"]);
    assert!(code == 2 && err.contains("compressed"), "{err}");
}

/// A generator that needs no crate: the same bytes every time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(below).unwrap()).unwrap()
    }
}

fn mutate(bytes: &[u8], sections: &[&str], rounds: usize) {
    let whole = Elf::open(Bytes::from(bytes.to_vec())).unwrap();
    let places: Vec<(usize, usize)> = sections
        .iter()
        .filter_map(|name| whole.section(name))
        .map(|s| (usize::try_from(s.offset).unwrap(), usize::try_from(s.size).unwrap()))
        .collect();
    assert!(!places.is_empty());
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    let start = Instant::now();
    for round in 0..rounds {
        let mut bad = bytes.to_vec();
        for _ in 0..=dice.roll(12) {
            let (offset, size) = places[dice.roll(places.len())];
            let value = [0, 1, 0x7F, 0x80, 0xFF, u8::try_from(dice.roll(256)).unwrap()][dice.roll(6)];
            bad[offset + dice.roll(size)] = value;
        }
        let dwarf = Dwarf::new(Arc::new(Elf::open(Bytes::from(bad)).unwrap()));
        let began = Instant::now();
        let (enums, macros) = (dwarf.enums(&(4096..=65535)), dwarf.macros());
        let names: usize = enums.all.iter().map(|e| e.words.len()).sum();
        assert!(names < 100_000 && macros.all.len() < 1_000_000, "round {round}");
        assert!(began.elapsed() < Duration::from_secs(5), "round {round} took {:?}", began.elapsed());
    }
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
}

#[test]
fn hostile_debug_information_is_survived() {
    let cm3 = std::fs::read(fixtures().join("cm3.elf")).unwrap();
    mutate(&cm3, &[".debug_info"], 300);
    mutate(&cm3, &[".debug_abbrev"], 300);
    mutate(&cm3, &[".debug_line", ".debug_str", ".debug_line_str"], 100);
    let scratch = Scratch::new("hostile");
    let files = [("events.h", "#define EV_LATE 4105\n"), ("main.c", MAIN)];
    if let Some(elf) = compile(&scratch, &["-g3"], &files) {
        mutate(&std::fs::read(elf).unwrap(), &[".debug_macro", ".debug_abbrev"], 300);
    }
}

#[test]
fn a_user_event_on_another_core_has_the_same_name() {
    // A SMP kernel stores its core above the low 24 bits of the id: the thread that inserts this event runs on core 1.
    // Slots: thread, priority, id, stamp and four words, from 0x20004f8c + 0x4b0 to the end of the buffer.
    let mut bytes = std::fs::read(fixtures().join("cm3.trx")).unwrap();
    let slots = &mut bytes[0x4b0..0x24b0];
    let id = 4105u32.to_le_bytes();
    let thread: [u8; 4] = slots.chunks(32).find(|s| s[8..12] == id).unwrap()[..4].try_into().unwrap();
    for slot in slots.chunks_mut(32).filter(|s| s[..4] == thread) {
        slot[11] = 1;
    }
    let scratch = Scratch::new("smp");
    let file = scratch.write("smp.trx", &bytes);
    let names = scratch.write("names.tsv", "4105\tLATE\n");
    let (out, err, _) = run(&["list", "--trace", &file, "--events", &names]);
    assert!(out.contains("  LATE"), "{out}{err}");
    let (out, ..) = run(&["list", "--trace", &file, "--elf", "cm3.elf"]);
    assert!(out.contains("  APP_LATE"), "{out}");
}
