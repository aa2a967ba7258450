//! The timeline: its slices cover what the reports count, and lost events leave a gap.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use tx_trace::explain::Code;
use tx_trace::query::{Filters, Key, Position, Query};
use tx_trace::timeline::{
    Doubt, Gap, Instant, Level, Mark, Noted, Plan, Pointed, Scene, Sink, Slice, State, TrackId, TrackKind,
};
use tx_trace::{Cell, Loaded, Report, ReportName, Target};

/// All that a writer is shown.
#[derive(Default)]
struct Seen {
    slices: Vec<Slice>,
    instants: Vec<(TrackId, u64, usize)>,
    levels: Vec<Level>,
    gaps: Vec<Gap>,
    begun: usize,
    finished: usize,
}

impl Sink for Seen {
    fn begin(&mut self, _: &Scene<'_>) -> io::Result<()> {
        self.begun += 1;
        Ok(())
    }
    fn slice(&mut self, _: &Scene<'_>, slice: &Slice) -> io::Result<()> {
        self.slices.push(*slice);
        Ok(())
    }
    fn instant(&mut self, _: &Scene<'_>, instant: &Instant<'_>) -> io::Result<()> {
        self.instants.push((instant.track, instant.event.seq, instant.flows.len()));
        Ok(())
    }
    fn level(&mut self, _: &Scene<'_>, level: &Level) -> io::Result<()> {
        self.levels.push(*level);
        Ok(())
    }
    fn gap(&mut self, _: &Scene<'_>, gap: &Gap) -> io::Result<()> {
        self.gaps.push(*gap);
        Ok(())
    }
    fn finish(&mut self, _: &Scene<'_>) -> io::Result<()> {
        self.finished += 1;
        Ok(())
    }
}

fn load(files: &[&str]) -> Loaded {
    let fixtures = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let files: Vec<PathBuf> = files.iter().map(|file| fixtures.join(file)).collect();
    Target::open(files).unwrap().trace().unwrap()
}

/// Plays a trace, and checks what is true of every picture.
fn play<T>(loaded: &Loaded, filters: &Filters, noted: &[Noted], look: impl FnOnce(&Scene<'_>, &Seen) -> T) -> T {
    let query = Query::compile(filters, &loaded.trace, &loaded.catalogue).unwrap();
    let plan = Plan::of(&loaded.trace, &loaded.catalogue, &query, noted, &mut |_| {}).unwrap();
    let mut seen = Seen::default();
    plan.play(&mut seen, &mut |_| {}).unwrap();
    let scene = plan.scene();
    assert_eq!((seen.begun, seen.finished), (1, 1));
    assert_eq!(seen.instants.len() as u64, scene.kept);
    let mut ends: BTreeMap<TrackId, i64> = BTreeMap::new();
    for slice in &seen.slices {
        assert!(slice.from <= slice.to && slice.from >= scene.window.0 && slice.to <= scene.window.1, "{slice:?}");
        let end = ends.entry(slice.track).or_insert(i64::MIN);
        assert!(slice.from >= *end, "slices of one track overlap: {slice:?}");
        *end = slice.to;
    }
    look(&scene, &seen)
}

fn cell_ticks(report: &Report, row: &[Cell], name: &str) -> i64 {
    let at = report.columns.iter().position(|c| c.name == name).unwrap();
    match &row[at] {
        Cell::Ticks(ticks) => *ticks,
        Cell::Count(n) => i64::try_from(*n).unwrap(),
        Cell::Empty => 0,
        other => panic!("{name}: {other:?}"),
    }
}

/// `profile` by name of who: ticks on all cores.
fn profile(loaded: &Loaded) -> BTreeMap<String, i64> {
    let report = loaded.report(ReportName::Profile).unwrap().remove(0);
    let who = report.columns.iter().position(|c| c.name == "who").unwrap();
    let mut all = BTreeMap::new();
    for row in &report.rows {
        let name = match &row[who] {
            Cell::Named(address, name) => {
                name.as_ref().map(|name| name.0.clone()).unwrap_or_else(|| format!("{address:#x}"))
            }
            Cell::Word(word) => (*word).to_owned(),
            other => panic!("{other:?}"),
        };
        *all.entry(name).or_insert(0) += cell_ticks(&report, row, "ticks");
    }
    all.retain(|_, ticks| *ticks != 0);
    all
}

fn drawn(scene: &Scene<'_>, seen: &Seen) -> BTreeMap<String, i64> {
    let mut all = BTreeMap::new();
    for slice in &seen.slices {
        let track = scene.track(slice.track).unwrap();
        let counts = matches!(slice.state, State::Running(_) | State::Interrupt(_) | State::Other);
        let name = match track.kind {
            TrackKind::Thread => track.name.clone().unwrap_or_else(|| format!("{:#x}", track.address)),
            TrackKind::Interrupts => "isr".to_owned(),
            TrackKind::Idle => "idle".to_owned(),
            TrackKind::Init => "init".to_owned(),
            TrackKind::Unknown => "unknown".to_owned(),
        };
        if counts {
            *all.entry(name).or_insert(0) += slice.to - slice.from;
        }
    }
    all.retain(|_, ticks| *ticks != 0);
    all
}

const CAPTURES: [&[&str]; 12] = [
    &["cm3.elf", "cm3.core"],
    &["be.elf", "be.core"],
    &["host.elf", "host.core"],
    &["smp.elf", "smp.core"],
    &["host-ulong64.trx"],
    &["failure.elf", "failure-healthy.core.gz"],
    &["failure.elf", "failure-inversion.core.gz"],
    &["failure.elf", "failure-deadlock.core.gz"],
    &["failure.elf", "failure-storm.core.gz"],
    &["failure.elf", "failure-starvation.core.gz"],
    &["qnx.kev"],
    &["qnx-ring.bin"],
];

#[test]
fn the_slices_of_each_track_add_up_to_its_profile() {
    for files in CAPTURES {
        let loaded = load(files);
        play(&loaded, &Filters::default(), &[], |scene, seen| {
            assert_eq!(drawn(scene, seen), profile(&loaded), "{files:?}");
        });
    }
}

#[test]
fn waits_and_flows_are_those_of_the_report() {
    for files in CAPTURES {
        let loaded = load(files);
        let report = loaded.report(ReportName::Blocked).unwrap().remove(0);
        let sum = |name| report.rows.iter().map(|row| cell_ticks(&report, row, name)).sum::<i64>();
        play(&loaded, &Filters::default(), &[], |scene, seen| {
            let woken: Vec<_> = seen.slices.iter().filter_map(|s| s.woken).collect();
            let waited: i64 = woken.iter().map(|w| w.waited).sum();
            assert_eq!((woken.len() as i64, waited), (sum("count"), sum("total")), "{files:?}");
            let open: i64 = seen
                .slices
                .iter()
                .filter(|s| !s.is_over)
                .filter_map(|s| match s.state {
                    State::Blocked(waiting) => Some(scene.window.1 - waiting.since),
                    _ => None,
                })
                .sum();
            assert_eq!(open, sum("open"), "{files:?}");
            let begun: usize = seen.instants.iter().map(|(.., flows)| flows).sum();
            let ended = seen.slices.iter().filter(|s| s.flow.is_some()).count();
            assert_eq!(begun, ended, "{files:?}");
            assert!(seen.slices.iter().all(|s| s.flow.is_none() || s.state == State::Ready));
        });
    }
}

#[test]
fn inversions_and_circles_are_marked_and_findings_at_their_events() {
    let loaded = load(&["failure.elf", "failure-inversion.core.gz"]);
    let rows = loaded.report(ReportName::Inversions).unwrap().remove(0).rows.len();
    let noted = [Noted { code: Code::PriorityInversion, claim: "x".to_owned(), events: vec![3, 7], threads: vec![] }];
    play(&loaded, &Filters::default(), &noted, |scene, _| {
        let count = |is: fn(&Mark) -> bool| scene.marks.iter().filter(|m| is(m)).count();
        assert_eq!(count(|m| matches!(m.what, Pointed::Inversion { .. })), rows);
        assert_eq!(count(|m| matches!(m.what, Pointed::Finding(..))), 2);
        assert!(rows > 0);
    });
    let loaded = load(&["failure.elf", "failure-deadlock.core.gz"]);
    play(&loaded, &Filters::default(), &[], |scene, _| {
        assert!(scene.marks.iter().any(|m| matches!(&m.what, Pointed::Circle(links) if links.len() == 2)));
    });
}

#[test]
fn the_window_cuts_slices_and_other_filters_choose_instants() {
    let loaded = load(&["cm3.elf", "cm3.core"]);
    let mut filters = Filters { from: Some(Position::Seq(100)), to: Some(Position::Seq(200)), ..Filters::default() };
    let all = play(&loaded, &filters, &[], |scene, seen| {
        assert_eq!(scene.events, Some((100, 200)));
        assert!(seen.slices.iter().any(|s| !s.is_over));
        (drawn(scene, seen), seen.instants.len())
    });
    filters.add(Key::Class, "queue").unwrap();
    let queue = play(&loaded, &filters, &[], |scene, seen| (drawn(scene, seen), seen.instants.len()));
    assert_eq!(all.0, queue.0);
    assert!(queue.1 < all.1 && queue.1 > 0);
}

#[test]
fn a_wait_names_its_object_and_owner() {
    let loaded = load(&["failure.elf", "failure-deadlock.core.gz"]);
    play(&loaded, &Filters::default(), &[], |scene, seen| {
        let waits: Vec<(&str, &str)> = seen
            .slices
            .iter()
            .filter(|s| !s.is_over)
            .filter_map(|s| match s.state {
                State::Blocked(w) => Some((s.track, w.owner?)),
                _ => None,
            })
            .map(|(a, b)| {
                (scene.track(a).unwrap().name.as_deref().unwrap(), scene.track(b).unwrap().name.as_deref().unwrap())
            })
            .collect();
        assert!(waits.iter().any(|(a, b)| waits.contains(&(*b, *a))), "{waits:?}");
    });
}

#[test]
fn tracks_are_interrupts_threads_by_priority_and_idle() {
    let loaded = load(&["cm3.elf", "cm3.core"]);
    play(&loaded, &Filters::default(), &[], |scene, _| {
        assert!(scene.tracks.is_sorted_by_key(|t| t.kind));
        let priorities: Vec<u16> = scene.tracks.iter().filter_map(|t| t.priority).collect();
        assert!(priorities.len() > 4 && priorities.is_sorted(), "{priorities:?}");
    });
}

#[test]
fn nothing_is_drawn_across_lost_events() {
    let mut loaded = load(&["cm3.elf", "cm3.core"]);
    loaded.trace.gaps = vec![120];
    play(&loaded, &Filters::default(), &[], |scene, seen| {
        let [gap] = seen.gaps[..] else { panic!("{:?}", seen.gaps) };
        assert_eq!((gap.doubt, gap.seq), (Doubt::Lost, 120));
        assert!(gap.from < gap.to);
        // What is not known may be drawn, as that.
        let is_shown = |s: &&Slice| scene.track(s.track).unwrap().kind != TrackKind::Unknown;
        assert!(seen.slices.iter().filter(is_shown).all(|s| s.to <= gap.from || s.from >= gap.to), "{gap:?}");
        assert!(seen.slices.iter().filter(|s| s.to == gap.from).any(|s| !s.is_over));
        assert!(seen.levels.iter().any(|l| l.value.is_none()));
    });
}

/// What is open behind a last event that wakes a thread was not shown: it waited for an event that never came.
#[test]
fn what_is_open_behind_a_wake_at_the_end_is_shown() {
    let loaded = load(&["cm3.elf", "cm3.core"]);
    // Event 250 makes the watchdog ready.
    let filters = Filters { to: Some(Position::Seq(250)), ..Filters::default() };
    play(&loaded, &filters, &[], |scene, seen| {
        let open = seen.slices.iter().filter(|s| !s.is_over && s.to == scene.window.1);
        assert!(open.count() > 5, "{:?}", seen.slices);
    });
}
