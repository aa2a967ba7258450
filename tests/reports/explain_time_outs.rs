//! `explain` over times to wait that nobody means, from a trace made by hand.
#![cfg(all(unix, feature = "cli"))]

use serde_json::Value;

use super::explain_circles::{
    BEAT, FOREVER, LINES, PRINT, QUEUE, QUEUE_RECEIVE, QUEUE_SEND, REPLIES, SCAN, SLEEP, SLEEPS, Story,
};
use super::support::builder::Entry;

/// A receive until a time that was over got a message each time, as others came all the time: it never waited for so long, and nothing was
/// said of it.
#[test]
fn a_negative_time_out_of_calls_that_need_not_wait_was_not_seen() {
    let asks = |name: &str, time_outs: [u64; 4]| {
        let mut story = Story::default();
        story.blocks(PRINT, SLEEPS, BEAT);
        for time_out in time_outs {
            story.goes_on(5);
            story.by(BEAT, QUEUE_SEND, [REPLIES, 0, 0, 0]);
            story.wakes(PRINT, SLEEPS);
            story.by(PRINT, QUEUE_RECEIVE, [REPLIES, 0, time_out, 1]);
            story.by(PRINT, SLEEP, [4, 0, 0, 0]);
            story.blocks(PRINT, SLEEPS, BEAT);
        }
        let found = story.findings(name);
        let claim = |finding: &Value| finding["claim"].as_str().unwrap().to_owned();
        let all: Vec<String> = found.iter().map(claim).filter(|claim| claim.contains("negative")).collect();
        assert!(found.iter().all(|finding| finding["confidence"] == "hint"), "{found:?}");
        all
    };
    let claim = "the time-out of Print for queue replies was 4294965767 ticks (0xfffffa07), 3 times: \
                 a negative number of ticks, -1529, which is taken for a large one";
    assert_eq!(asks("negative", [5, 0xFFFF_FB00, 0xFFFF_FA80, 0xFFFF_FA07]), [claim]);
    assert!(asks("in-time", [0xFFFF_FB00, 5, 4, 3]).is_empty());
    assert!(asks("for-ever", [FOREVER; 4]).is_empty());
}

/// `wrong-event-mask: 0x8 has not come for long`: a wait whose time was computed in another unit ended one tick before each answer.
#[test]
fn an_answer_that_came_soon_after_each_time_out_was_not_seen() {
    let found = |name: &str, after: i64| {
        let mut story = Story::default();
        for _ in 0..5 {
            story.wakes(PRINT, SLEEPS);
            story.by(PRINT, QUEUE_RECEIVE, [REPLIES, 0, 5, 0]);
            story.blocks(PRINT, QUEUE, BEAT);
            story.goes_on(3);
            let send = |story: &mut Story| {
                story.at += 100;
                story.events.push(Entry::isr(0, QUEUE_SEND, story.at, [REPLIES, 0, 0, 0]));
            };
            match after {
                0 => send(&mut story),
                _ => story.wakes(PRINT, QUEUE),
            }
            if after == 0 {
                story.wakes(PRINT, QUEUE);
            }
            story.by(PRINT, SLEEP, [4, 0, 0, 0]);
            story.blocks(PRINT, SLEEPS, BEAT);
            story.goes_on(u64::try_from(after).unwrap());
            if after > 0 {
                send(&mut story);
            }
        }
        let all = story.findings(name);
        assert!(all.iter().all(|finding| finding["confidence"] == "hint"), "{all:?}");
        let claims = all.into_iter().map(|finding| finding["claim"].as_str().unwrap().to_owned());
        claims.filter(|claim| claim.contains("for too short a time")).collect::<Vec<_>>()
    };
    let late = found("late", 1);
    assert!(
        late.len() == 1 && late[0].starts_with("Print waits for queue replies for too short a time: 5 times"),
        "{late:?}"
    );
    assert!(found("in-time-answers", 0).is_empty());
    assert!(found("long-after", 20).is_empty());
}

/// A time-out that was shorter than the answer took: the thread asked again each time, and the answer to the question before came then.
#[test]
fn a_request_that_was_repeated_before_its_answer_came_was_not_seen() {
    let found = |name: &str, is_taken_first: bool| {
        let mut story = Story::default();
        let answer = |story: &mut Story| {
            story.at += 100;
            story.events.push(Entry::isr(0, QUEUE_SEND, story.at, [REPLIES, 0, 0, 0]));
            story.wakes(PRINT, QUEUE);
        };
        let takes = |story: &mut Story| story.by(SCAN, QUEUE_RECEIVE, [LINES, 0, FOREVER, 1]);
        for _ in 0..8 {
            story.by(PRINT, QUEUE_RECEIVE, [REPLIES, 0, 5, 0]);
            story.blocks(PRINT, QUEUE, BEAT);
            story.goes_on(4);
            story.wakes(PRINT, QUEUE);
            story.by(PRINT, QUEUE_SEND, [LINES, 0, 0, 0]);
            if is_taken_first {
                takes(&mut story);
            }
            story.by(PRINT, QUEUE_RECEIVE, [REPLIES, 0, 5, 0]);
            story.blocks(PRINT, QUEUE, BEAT);
            story.goes_on(1);
            answer(&mut story);
            if !is_taken_first {
                takes(&mut story);
            }
        }
        let all = story.findings(name);
        assert!(all.iter().all(|finding| finding["confidence"] == "hint"), "{all:?}");
        let livelocks = all.into_iter().filter(|finding| finding["code"] == "livelock");
        livelocks.map(|finding| finding["claim"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let repeated = found("repeated", false);
    let claim = "Print waits for queue replies for too short a time, and asks again before anything comes: 8 times something came to queue \
                 replies only after Print had given something to queue lines again, and before anybody took that; the waits lasted";
    assert!(repeated.len() == 1 && repeated[0].starts_with(claim), "{repeated:?}");
    assert!(found("answered", true).is_empty(), "a sign of life in each pause");
}
