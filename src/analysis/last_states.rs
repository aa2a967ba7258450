//! What the last events leave each thread doing: for a trace without memory, and for how long a thread has waited.

use super::tracker::{System, ThreadNo, ThreadState};
use crate::abi::Addr;
use crate::catalogue::ArgKind;

/// A thread or an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Its control block, as the trace stores the address.
    pub address: Addr,
    /// Its name, where the trace has one. Hostile: escape before printing.
    pub name: Option<String>,
}

impl Place {
    /// A thread that events name.
    #[must_use]
    pub fn of(thread: ThreadNo, system: &System<'_>) -> Self {
        let address = system.thread(thread).map_or(0, |thread| thread.address);
        Self { address, name: system.name(thread).map(str::to_owned) }
    }
}

/// A thread as the last events leave it.
#[derive(Debug, Clone)]
pub struct LastState {
    /// Which.
    pub thread: Place,
    /// Its priority in its last event, or in the registry.
    pub priority: Option<u16>,
    /// Its state.
    pub state: ThreadState,
    /// Ticks from the event that put it into this state to the last one, and that event; `None` where no event shows when
    /// the state began.
    pub since: Option<(i64, u64)>,
    /// Where it is blocked: in what.
    pub wait: Option<LastWait>,
}

/// What a thread waits for by the events.
#[derive(Debug, Clone, Default)]
pub struct LastWait {
    /// The call that it blocks in, where one is known.
    pub call: Option<String>,
    /// The object that this call names.
    pub object: Option<Place>,
    /// What the registry calls that object: `mutex`.
    pub object_type: Option<&'static str>,
    /// The word for the system's code of what it waits for: `queue_susp`.
    pub state: Option<String>,
    /// The thread that has the lock.
    pub owner: Option<Place>,
}

/// Every thread that events name: those with a core first, then those that wait (the longest first), those that are
/// ready, and the others. Then those that are registered and in no event. `end`: the ticks up to which states last.
pub(super) fn last_states<'s>(system: &'s System<'_>, end: i64) -> impl Iterator<Item = LastState> + 's {
    let rank = |no: ThreadNo| {
        let thread = system.thread(no);
        let rank = match thread.map(|t| t.state) {
            Some(ThreadState::Running) => 0,
            Some(ThreadState::Blocked(_)) => 1,
            Some(ThreadState::Ready) => 2,
            Some(ThreadState::Ended) => 3,
            Some(ThreadState::Unknown) | None => 4,
        };
        (rank, thread.map_or(i64::MAX, |t| t.since))
    };
    let mut order: Vec<ThreadNo> = system.threads().map(|(no, _)| no).collect();
    order.sort_by_key(|no| rank(*no));
    let silent = system.trace.objects.iter().filter(|o| o.is_thread && !o.deleted);
    let silent = silent.filter(|o| system.find_thread(o.address).is_none()).map(|object| LastState {
        thread: Place { address: object.address, name: Some(object.name.clone()) },
        priority: object.priority,
        state: ThreadState::Unknown,
        since: None,
        wait: None,
    });
    order.into_iter().filter_map(move |no| last_state(no, end, system)).chain(silent)
}

/// One of them.
fn last_state(no: ThreadNo, end: i64, system: &System<'_>) -> Option<LastState> {
    let thread = system.thread(no)?;
    let wait = match thread.state {
        ThreadState::Blocked(code) => Some(last_wait(no, code, system)),
        _ => None,
    };
    Some(LastState {
        thread: Place::of(no, system),
        priority: thread.priority,
        state: thread.state,
        since: thread.since_seq().map(|seq| (end.saturating_sub(thread.since), seq)),
        wait,
    })
}

fn last_wait(no: ThreadNo, code: Option<u64>, system: &System<'_>) -> LastWait {
    let call = system.calls_of(no).blocked_in;
    let object = call.and_then(|call| call.object);
    let registered = object.and_then(|object| system.trace.objects.at(system.address(object)));
    let owner = object.and_then(|object| system.lock(object)).and_then(|lock| lock.owner);
    LastWait {
        call: call.and_then(|call| system.catalogue.def(call.def)).map(|def| def.name.clone()),
        object: object.map(|object| Place {
            address: system.address(object),
            name: registered.map(|o| o.name.clone()).filter(|name| !name.is_empty()),
        }),
        object_type: registered.and_then(|o| o.type_name),
        state: code.and_then(|code| word(code, system)),
        owner: owner.map(|owner| Place::of(owner, system)),
    }
}

/// The word for a code of a thread's state: of the first argument of that kind in the catalogue.
fn word(code: u64, system: &System<'_>) -> Option<String> {
    let fields = system.catalogue.iter().flat_map(|def| def.fields.iter().flatten());
    let mut words = fields.filter(|field| field.kind == ArgKind::State).filter_map(|field| field.words.as_deref());
    words.find_map(|words| words.word(code)).map(str::to_owned)
}
