//! What becomes of writes in targets that run: QEMU, and a process under gdbserver.

use super::*;
use crate::support::schema::Schema;

/// The firmware that runs for ever, in a directory of its own.
fn live(scratch: &tools::Scratch) -> Option<String> {
    if !tools::installed(&["gdb-multiarch", "qemu-system-arm", "arm-none-eabi-gcc"]) {
        return None;
    }
    let build = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/firmware/build.sh");
    let built = Command::new("sh").arg(build).arg(&scratch.0).arg("live").output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    Some(PathBuf::from(scratch.path("cm3-live.elf")).display().to_string())
}

/// A place outside of every insertion, some turns of the ring after the start.
const STOP: [&str; 5] = ["set width 120", "hbreak __wrap_mk_thread_sleep", "continue", "ignore 1 200", "continue"];

#[test]
fn what_is_written_shows_in_the_following_events() {
    let scratch = tools::Scratch::new();
    let Some(elf) = live(&scratch) else { return };
    let (_qemu, port) = tools::qemu(&elf);
    let go = ["ignore 1 30", "continue"];
    let shows = |name: &'static str, command: &'static str| {
        [format!("echo <{name}\\n"), command.to_owned(), format!("echo {name}>\\n")]
    };
    let own = |commands: &[&str]| commands.iter().map(|c| (*c).to_owned()).collect::<Vec<_>>();
    let commands: Vec<String> = [
        own(&["set tcp connect-timeout 20", &tools::connect(port)]),
        own(&STOP),
        own(&["set var fw_ring.id = 5001", "tx-trace control pause"]),
        shows("running", "tx-trace last 1 --format json").to_vec(),
        own(&["tx-trace control pause --yes"]),
        own(&go),
        shows("paused", "tx-trace last 1 --format json").to_vec(),
        own(&["tx-trace control mark 5001 --yes", "tx-trace control resume --yes"]),
        own(&["tx-trace control mark 5001 7 0x8 --yes", "tx-trace control mark 5001 --yes"]),
        shows("mark", "tx-trace show -2 --format json").to_vec(),
        own(&["tx-trace control off user,queue --yes"]),
        own(&go),
        own(&go),
        shows("off", "tx-trace last 60 --format csv").to_vec(),
        own(&["tx-trace control only queue --yes"]),
        own(&go),
        shows("only", "tx-trace last 10 --format csv").to_vec(),
        own(&["tx-trace control on all --yes", "tx-trace control mark 5001 --yes", "continue"]),
        shows("ring", "print fw_ring").to_vec(),
        own(&["tx-trace control disable --yes"]),
        shows("disabled", "tx-trace control show").to_vec(),
        own(&["tx-trace control enable stacks sizeof(stacks) 20 --yes"]),
        own(&["tx-trace control enable trace_buffer sizeof(trace_buffer) 20 --yes"]),
        shows("enabled", "tx-trace control show").to_vec(),
        own(&["tx-trace control disable", "tx-trace control enable nothing_here 5 --yes", "kill"]),
    ]
    .concat();
    let words: Vec<&str> = commands.iter().map(String::as_str).collect();
    let done = tools::batch("gdb-multiarch", &[&elf], &words);
    let event = |name: &str| -> serde_json::Value {
        let line = done
            .part(name)
            .lines()
            .find(|l| l.contains("\"type\":\"event\""))
            .unwrap_or_else(|| panic!("{name}: {}", done.err));
        serde_json::from_str(line).unwrap()
    };
    let all = format!("{}\n{}", done.out, done.err);
    let (running, paused, mark) = (event("running"), event("paused"), event("mark"));
    assert_eq!(running["stamp"], paused["stamp"], "nothing was inserted while it was paused: {all}");
    assert!(done.err.contains("not a terminal") && done.err.contains("nothing is inserted now"), "{all}");
    assert_eq!((mark["id"].as_u64(), &mark["context"]["kind"]), (Some(5001), &"thread".into()), "{mark}");
    assert_eq!(mark["words"], serde_json::json!(["0x00000007", "0x00000008", "0x00000000", "0x00000000"]));
    // 60 sleeps are more than 60 events; none of them is of a class that is off.
    let off = done.part("off");
    assert!(off.lines().count() > 60 && !off.contains("tx_queue_") && !off.contains("user_"), "{off}");
    assert!(done.part("only").lines().skip(1).all(|l| l.contains("tx_queue_")), "{}", done.part("only"));
    // The firmware itself finds nothing wrong with its ring, and the mark in it.
    let ring = done.part("ring");
    assert!(ring.contains("wrong = 0,") && ring.contains("marks = 1,"), "{ring}");
    assert!(done.part("disabled").contains("no: disabled by tx_trace_disable"), "{all}");
    assert!(done.err.contains("the trace's buffer at") && done.err.contains("is in the stack of"), "{all}");
    assert!(done.part("enabled").contains("262 events"), "{all}");
    assert!(done.err.contains("to call: _tx_trace_disable()") && done.err.contains("nothing_here"), "{all}");
}

#[test]
fn over_a_link_of_its_own_and_left_as_found() {
    let scratch = tools::Scratch::new();
    let Some(elf) = live(&scratch) else { return };
    let (_qemu, port) = tools::qemu(&elf);
    let connect = ["set tcp connect-timeout 20".to_owned(), tools::connect(port)];
    let connect = connect.each_ref().map(String::as_str);
    // GDB goes, and QEMU stands where it stood.
    let stood = tools::batch("gdb-multiarch", &[&elf], &[&connect[..], &STOP, &["disconnect"]].concat());
    assert!(stood.out.contains("__wrap_mk_thread_sleep"), "{}{}", stood.out, stood.err);
    let remote = format!(":{port}");
    let run = |words: &[&str]| {
        let done = tools::shell(&[&["control"], words, &["--elf", &elf, "--remote", &remote]].concat());
        Schema::new().check_all("control", &done.out);
        (done.status, format!("{}{}", done.out, done.err))
    };
    let (status, text) = run(&["pause", "--format", "json"]);
    assert!(status == Some(2) && text.contains(&format!("\"code\":\"{}\"", "not-confirmed")), "{text}");
    for (typed, said, code) in [("n", "nothing is written", 1), ("y", "read back", 0)] {
        // A terminal of its own.
        if !tools::installed(&["script"]) {
            break;
        }
        let ask = format!("{} control off queue --elf {elf} --remote {remote}; echo exit $?", tools::binary());
        let line = format!("echo {typed} | env -u TX_TRACE_REMOTE script -qec '{ask}' /dev/null");
        let done = tools::run(Command::new("sh").args(["-c", &line]));
        assert!(done.out.contains("(y or n)") && done.out.contains(said), "{typed}: {}", done.out);
        assert!(done.out.contains(&format!("exit {code}")), "{typed}: {}", done.out);
    }
    for (words, said) in [
        (&["pause", "--yes", "--format", "json"][..], "\"report\":\"control\",\"address\""),
        (&["pause", "--yes"], "nothing is inserted already"),
        (&["show"], "paused         yes"),
        (&["resume", "--yes"], "read back"),
        (&["mark", "5001", "9", "--yes"], "read back"),
        (&["only", "user", "--yes"], "read back"),
        (&["show"], "(TX_TRACE_USER_EVENTS)"),
    ] {
        let (status, text) = run(words);
        assert_eq!(status, Some(0), "{words:?}: {text}");
        assert!(text.contains(said), "{words:?}: {text}");
    }
    let last = tools::shell(&["last", "1", "--elf", &elf, "--remote", &remote]);
    assert!(last.out.contains("user_5001"), "{}{}", last.out, last.err);
    let after = tools::batch("gdb-multiarch", &[&elf], &[&connect[..], &["p $pc", "p fw_ring.wrong", "kill"]].concat());
    assert!(after.out.contains("__wrap_mk_thread_sleep") && after.out.contains("$2 = 0"), "{}", after.out);
}

#[test]
fn a_process_under_gdbserver() {
    require!(tools::installed(&["gdbserver"]) && tools::runs_host_fixture());
    let elf = fixture("host.elf");
    let server = machine::gdbserver_at_the_end(&elf);
    let (elf, remote) = (elf.display().to_string(), server.remote());
    for (words, said) in [
        (&["pause", "--yes"][..], "8 bytes at"),
        (&["show"], "paused         yes"),
        (&["resume", "--yes"], "8 bytes at"),
        (&["mark", "4096", "1", "--yes"], "4 bytes at"),
        (&["off", "tx", "--yes"], "0xfffff800"),
    ] {
        let done =
            tools::shell(&[&["control"], words, &["--leave", "halted", "--elf", &elf, "--remote", &remote]].concat());
        assert_eq!(done.status, Some(0), "{words:?}: {}", done.err);
        let text = format!("{}{}", done.out, done.err);
        assert!(text.contains(said), "{words:?}: {text}");
    }
    let last = tools::shell(&["last", "1", "--leave", "halted", "--elf", &elf, "--remote", &remote]);
    assert!(last.out.contains("APP_BOOT_STEP"), "{}{}", last.out, last.err);
}

/// A machine that runs is halted by our connecting, maybe within an insertion: the pointer was cleared without a word.
#[test]
fn a_target_that_ran_was_paused_without_a_word() {
    require!(tools::installed(&["qemu-system-arm"]));
    let elf = fixture("cm3-stream.elf").display().to_string();
    let port = tools::free_port();
    let mut command = Command::new("qemu-system-arm");
    command.args(["-M", "mps2-an385", "-display", "none", "-monitor", "none", "-serial", "none", "-gdb"]);
    let _qemu = tools::Server::start(command.arg(format!("tcp:127.0.0.1:{port}")).arg("-kernel").arg(&elf));
    let remote = format!(":{port}");
    let run = |words: &[&str]| tools::shell(&[&["control"], words, &["--elf", &elf, "--remote", &remote]].concat());
    let began = Instant::now();
    // It takes a moment until it listens and has enabled its trace.
    while run(&["show"]).status != Some(0) {
        assert!(began.elapsed() < tools::TIME_LIMIT, "{}", run(&["show"]).err);
        std::thread::sleep(Duration::from_millis(50));
    }
    let done = run(&["pause"]);
    assert!(done.err.contains("was halted at an arbitrary place"), "{}", done.err);
    assert!(!run(&["off", "queue"]).err.contains("arbitrary place"), "the mask may be written at any time");
}
