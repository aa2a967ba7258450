//! Damaged captures that could have been recorded as they are: nobody could know that they are damaged.

use std::collections::{HashMap, HashSet};

use crate::captures::Kind;
use crate::listing::{Shown, Wrong};
use crate::round::Judged;

/// A QNX processor's clock steps back by less than this in sound captures: events are put behind those that interrupted
/// them.
const LATE: u64 = 1 << 20;

/// Why a damaged capture is sound, where it is.
pub fn reason(judged: &Judged) -> Option<&'static str> {
    shorter(judged).or_else(|| rising(judged)).or_else(|| runs(judged))
}

/// A file of elements has no count of them: one that ends behind an element is a shorter recording.
///
/// Undecidable: neither header nor elements hold a length or a sum of the file, and the logger writes whole elements.
fn shorter(judged: &Judged) -> Option<&'static str> {
    let (task, bytes) = (judged.task, judged.bytes);
    let start = task.places.ring.start;
    let whole = bytes.len() > start && task.whole.starts_with(bytes) && (bytes.len() - start) % task.places.step == 0;
    (task.capture.kind == Kind::QnxFile && whole).then_some("a shorter recording")
}

/// Events of other moments whose stamps, contexts and ids are such as were recorded: nothing beside them is wrong.
///
/// Undecidable: an entry holds no sum, and none of its words but the stamp depends on those around it. Where the stamps
/// rise through it, in threads that are there, the capture is one of a system in which just this happened. A fall
/// counts unless it is as deep as that of a clock that went around in the undamaged capture.
fn rising(judged: &Judged) -> Option<&'static str> {
    if judged.wrong != Wrong::default() {
        return None;
    }
    let falls = |events: &[Shown]| {
        let (mut falls, mut before) = (Vec::new(), HashMap::<&str, u64>::new());
        for event in events {
            let Some(stamp) = event.stamp() else { continue };
            let back = before.insert(event.core.as_str(), stamp).map_or(0, |b| b.saturating_sub(stamp));
            let late = matches!(judged.task.capture.kind, Kind::QnxFile | Kind::QnxRing) && back < LATE;
            falls.extend((back > 0 && !late).then_some(back));
        }
        falls
    };
    let want = &judged.task.want;
    let contexts: HashSet<&Option<String>> = want.iter().map(|w| &w.context).collect();
    let like = judged.shown.iter().all(|s| contexts.contains(&s.context));
    let (now, then) = (falls(judged.shown), falls(want));
    let deep = now.iter().min().is_none_or(|least| then.iter().min().is_some_and(|turn| *least >= turn / 2));
    (judged.shown.len() == want.len() && like && now.len() <= then.len() && deep).then_some("stamps that only rise")
}

/// UIA and QNX record who begins to run, and not who inserted an event: where such an event is changed into another that
/// can be, those up to the next one are another's.
///
/// Undecidable: nothing but that event says who runs until the next one does. Where the next one says from whom it
/// switches and that is another, the program must say so, and then this rule is not asked.
fn runs(judged: &Judged) -> Option<&'static str> {
    let only = Wrong { context: 0, ..judged.wrong } == Wrong::default();
    if !only || matches!(judged.task.capture.kind, Kind::ThreadX | Kind::Program) {
        return None;
    }
    let shown: HashMap<(u64, &str), &Shown> = judged.shown.iter().map(|s| ((s.slot, s.own.as_str()), s)).collect();
    let mut changed = false;
    for (want, place) in judged.task.want.iter().zip(&judged.task.places.events) {
        let elsewhere = shown.get(&(want.slot, want.own.as_str())).is_some_and(|s| want.is_elsewhere(s));
        if judged.damage.hits(&place.bytes) {
            changed = true;
        } else if elsewhere && !changed {
            return None;
        } else if !elsewhere && want.context.is_some() {
            changed = false;
        }
    }
    Some("another event says who runs")
}
