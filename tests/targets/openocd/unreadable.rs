//! Memory that cannot be read: OpenOCD's Tcl port says so, and its GDB port gives zeros.

use super::*;

/// What keeps memory from being read.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    /// The memory of the trace has no power.
    Trace,
    /// The memory of the kernel's variables has no power.
    Variables,
    /// The whole bus has no power.
    Power,
    /// The probe's cable is off.
    Unplugged,
}

const TROUBLES: [Trouble; 4] = [Trouble::Trace, Trouble::Variables, Trouble::Power, Trouble::Unplugged];

/// A board with 300 events written, whose trouble begins after OpenOCD has examined it.
fn board(trouble: Trouble) -> Option<(CortexM, OpenOcd)> {
    let (chip, openocd) = start(Setup { ring: Some(256), ..Setup::default() })?;
    chip.burst(300);
    wait_for("a full ring", || chip.stats().events == 300);
    match trouble {
        Trouble::Trace => chip.fault(cortex_m::RING..cortex_m::RING + 0x1_0000),
        Trouble::Variables => chip.fault(cortex_m::RAM..cortex_m::RAM + 0x8000),
        Trouble::Power => chip.power_off(),
        Trouble::Unplugged => chip.unplug(),
    }
    Some((chip, openocd))
}

/// Runs `last` and `info` on it, which fail with OpenOCD's own reason. Nothing is written.
fn refused(trouble: Trouble, endpoint: impl Fn(&OpenOcd) -> String) {
    let Some((chip, openocd)) = board(trouble) else { return };
    for command in ["last", "info"] {
        let output = run(&chip, &endpoint(&openocd), &[command]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{trouble:?} {command}: {}{said}", text(&output.stdout));
        assert_eq!(text(&output.stdout), "", "{trouble:?} {command}: {said}");
        assert!(said.to_lowercase().contains("failed to read memory"), "OpenOCD's own reason: {trouble:?} {said}");
    }
    let stats = chip.stats();
    assert_eq!((stats.resets, stats.writes), (0, vec![]), "{trouble:?}");
}

#[test]
fn the_tcl_port_fails_for_memory_that_cannot_be_read() {
    for trouble in TROUBLES {
        refused(trouble, OpenOcd::openocd);
    }
}

#[test]
fn the_tcl_port_reads_again_after_the_trouble() {
    for trouble in TROUBLES {
        let Some((chip, openocd)) = board(trouble) else { return };
        run(&chip, &openocd.openocd(), &["last"]);
        chip.heal();
        // OpenOCD examines the target anew from time to time.
        wait_for("memory that can be read", || {
            let output = run(&chip, &openocd.openocd(), &["last", "4", "--format", "json"]);
            output.status.code() == Some(0) && numbers(&output.stdout) == [296, 297, 298, 299]
        });
        assert_eq!((chip.state(), chip.stats().halts), (State::Running, 0), "{trouble:?}");
    }
}

#[test]
fn zeros_that_are_in_memory_are_no_trouble() {
    let Some((chip, openocd)) = start(Setup { ring: Some(256), ..Setup::default() }) else { return };
    for events in [0, 3] {
        chip.burst(events);
        wait_for("the events", || chip.stats().events == events);
        for (remote, leave) in [(openocd.gdb(), &["--leave", "running"][..]), (openocd.openocd(), &[])] {
            let output = run(&chip, &remote, &[&["list", "--format", "json"], leave].concat());
            let code = if events == 0 { 1 } else { 0 };
            assert_eq!(output.status.code(), Some(code), "{remote}: {}", text(&output.stderr));
            assert_eq!(numbers(&output.stdout), Vec::from_iter(0..events), "{remote}");
        }
    }
}

#[test]
fn the_gdb_port_fails_for_memory_that_cannot_be_read() {
    for trouble in TROUBLES {
        refused(trouble, OpenOcd::gdb);
    }
}

#[test]
fn a_target_that_openocd_could_not_examine_is_an_error_that_says_so() {
    require!(installed("openocd"));
    let chip = CortexM::start(Setup::default());
    chip.power_off();
    let openocd = OpenOcd::start(&chip, Config::default());
    for remote in [openocd.gdb(), openocd.openocd()] {
        let output = run(&chip, &remote, &["last"]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{remote}: {said}");
        assert!(said.contains("examine"), "{remote}: {said}");
    }
}
