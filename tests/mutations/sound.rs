//! Damaged captures that could have been recorded as they are: nobody could know that they are damaged.

use crate::captures::Kind;
use crate::damage::Damage;
use crate::round::Task;

/// Why a damaged capture is sound, where it is.
pub fn reason(task: &Task, damage: &Damage, bytes: &[u8]) -> Option<&'static str> {
    match task.capture.kind {
        Kind::QnxFile => shorter(task, damage, bytes),
        _ => None,
    }
}

/// A file of elements has no count of them: one that ends behind an element is a shorter recording.
fn shorter(task: &Task, damage: &Damage, bytes: &[u8]) -> Option<&'static str> {
    let start = task.places.ring.start;
    let cut = bytes.len() > start && task.whole.starts_with(bytes) && (bytes.len() - start) % task.places.step == 0;
    (cut && damage.touched.iter().all(|t| t.start >= bytes.len())).then_some("a shorter recording")
}
