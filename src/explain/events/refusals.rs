//! Messages that a full queue refused, as who sent them did not wait, and what the thread that reads the queue did then.

use super::objects::{Giver, One};
use crate::abi::Addr;
use crate::analysis::tracker::{System, ThreadState};
use crate::catalogue::capacity;

/// The code of a thread that sleeps (`TX_SLEEP`).
const SLEEP: u64 = 4;

/// What the only reader of a queue did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reader {
    /// It, as the trace stores its address.
    pub thread: Addr,
    /// What it waited for; `None` where it slept.
    pub object: Option<Addr>,
    /// Who had that, where it is a lock, and whether that thread slept.
    pub owner: Option<(Addr, bool)>,
}

/// Refused messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusals {
    /// How many.
    pub times: u64,
    /// The sender of the first, and its event.
    pub first: (Giver, u64),
    /// The messages that the queue holds.
    pub capacity: u64,
    /// Its reader at the first of them that found it away; `None` where no event shows that.
    pub reader: Option<Reader>,
}

impl Refusals {
    /// Something is sent without a wait to a queue that holds so many messages.
    pub(super) fn sent(one: &mut One, queue: Addr, (by, held, seq): (Giver, u64, u64), system: &System<'_>) {
        let about = &system.trace.about;
        let pointer = about.pointer.unwrap_or(about.word).size();
        let registered = || system.trace.objects.at(queue).and_then(|it| capacity(it, about.word.size(), pointer));
        let known = one.refusals.map(|so_far| so_far.capacity);
        // Only what holds messages is looked up.
        let Some(capacity) = known.or_else(registered).filter(|capacity| *capacity > 0 && held >= *capacity) else {
            return;
        };
        let so_far = one.refusals.unwrap_or(Self { times: 0, first: (by, seq), capacity, reader: None });
        let reader = so_far.reader.or_else(|| reader(one, queue, system));
        one.refusals = Some(Self { times: so_far.times.saturating_add(1), reader, ..so_far });
    }
}

/// The only thread that has read a queue, where it does something else.
fn reader(one: &One, queue: Addr, system: &System<'_>) -> Option<Reader> {
    let mut takers = one.takers.iter();
    let (Some(taker), None) = (takers.next(), takers.next()) else { return None };
    let no = system.find_thread(*taker).filter(|_| !one.is_taken_elsewhere)?;
    let ThreadState::Blocked(code) = system.thread(no)?.state else { return None };
    let call = system.calls_of(no).blocked_in;
    let object = call.and_then(|call| call.object).map(|object| system.address(object));
    if object == Some(queue) || object.is_none() && code != Some(SLEEP) {
        return None;
    }
    let owner = system.lock_of(call).and_then(|lock| system.lock(lock)?.owner).and_then(|owner| system.thread(owner));
    let owner = owner.map(|owner| (owner.address, owner.state == ThreadState::Blocked(Some(SLEEP))));
    Some(Reader { thread: *taker, object: object.filter(|_| code != Some(SLEEP)), owner })
}
