//! What each definition is for, looked up once: no report searches effects or field names event by event.

use std::rc::Rc;

use crate::catalogue::{ArgKind, Catalogue, Effect, EventDef};
use crate::trace::DefId;

/// What a definition is for.
#[derive(Debug, Clone, Default)]
#[allow(clippy::struct_excessive_bools, reason = "one for each effect")]
pub struct Role {
    /// True where it has any effect: all others need not be looked at.
    pub acts: bool,
    /// True for events of the scheduler itself, which no thread calls.
    pub is_scheduling: bool,
    /// A thread becomes ready.
    pub ready: bool,
    /// A thread stops being ready.
    pub block: bool,
    /// Somebody begins to run: whom a word names, or who inserts it.
    pub runs: bool,
    /// A word names who runs next.
    pub run: bool,
    /// The inserter decides who runs next: it runs already.
    pub decides: bool,
    /// Some word could name who runs next, in this or other events of its kind.
    pub run_named: bool,
    /// A time slice ends.
    pub is_slice: bool,
    /// The caller may lose its core here.
    pub yields: bool,
    /// An interrupt begins.
    pub isr_enter: bool,
    /// An interrupt ends.
    pub isr_exit: bool,
    /// Word that is not 0 where preemption is disabled: the thread below goes on after the interrupt.
    pub preempt_disable: Option<usize>,
    /// Word with the number of the interrupt.
    pub isr_number: Option<usize>,
    /// Word with a thread state.
    pub state: Option<usize>,
    /// Word with the priority of the thread that becomes ready.
    pub priority: Option<usize>,
    /// Word with the object that the call acts on.
    pub object: Option<usize>,
    /// Word with a lock that is asked for.
    pub acquire: Option<usize>,
    /// Word with a lock that is given back.
    pub release: Option<usize>,
    /// Word with the owner of the lock.
    pub owner: Option<usize>,
    /// Word with how often its owner has the lock.
    pub own_count: Option<usize>,
    /// Word with the object that something is put into.
    pub put: Option<usize>,
    /// Word with the object that something is asked of.
    pub get: Option<usize>,
    /// Word with an object that comes to be.
    pub create: Option<usize>,
    /// Word with an object that ceases to be.
    pub delete: Option<usize>,
    /// Word with a stack pointer.
    pub stack: Option<usize>,
    /// Word with how long the caller is ready to wait.
    pub wait: Option<usize>,
    /// The value of that word which means for ever.
    pub forever: Option<u64>,
    /// Word with a thread whose wait is given up.
    pub abort: Option<usize>,
    /// A thread ends.
    pub end: bool,
    /// The application leaves a mark: whoever does is in no call.
    pub is_mark: bool,
    /// Codes of a thread's state that no thread leaves by itself: it has ended.
    pub ended: Vec<u64>,
}

/// Words of an enumeration of thread states for threads that have ended.
const ENDED: [&str; 2] = ["completed", "terminated"];

impl Role {
    fn of(def: &EventDef) -> Self {
        let effects = &def.effects;
        let has = |e| effects.has(e);
        let word = |e| effects.word(e).filter(|_| effects.has(e));
        let named = |name: &str| def.fields.iter().position(|f| f.as_ref().is_some_and(|f| f.name == name));
        let kind = |kind| def.fields.iter().position(|f| f.as_ref().is_some_and(|f| f.kind == kind));
        let run = effects.word(Effect::Run).is_some();
        let (ready, block) = (has(Effect::Ready), has(Effect::Block));
        let isr = has(Effect::IsrEnter) || has(Effect::IsrExit);
        let object = word(Effect::Acquire)
            .or_else(|| word(Effect::Release))
            .or_else(|| word(Effect::Put))
            .or_else(|| word(Effect::Get))
            .or_else(|| word(Effect::Abort))
            .or_else(|| kind(ArgKind::Ptr));
        let wait = named("wait_option");
        let words = |at: Option<usize>| {
            let field = at.and_then(|at| def.fields.get(at)).and_then(Option::as_ref);
            field.and_then(|f| f.words.as_deref()).map_or(&[][..], |e| e.words.as_slice())
        };
        let ended = words(kind(ArgKind::State)).iter().filter(|(_, w)| ENDED.contains(&w.as_str()));
        Self {
            acts: effects.iter().next().is_some() && !(has(Effect::Mark) && effects.iter().count() == 1),
            is_scheduling: ready
                || block
                || isr
                || (run
                    && def.fields.first().is_some_and(|f| f.as_ref().is_some_and(|f| f.kind == ArgKind::ThreadPtr))),
            ready,
            block,
            runs: has(Effect::Run),
            run,
            decides: run && (ready || block || has(Effect::Slice) || has(Effect::Yield)),
            run_named: run,
            is_slice: has(Effect::Slice),
            yields: has(Effect::Yield),
            isr_enter: has(Effect::IsrEnter),
            isr_exit: has(Effect::IsrExit),
            isr_number: word(Effect::IsrEnter).or_else(|| word(Effect::IsrExit)),
            preempt_disable: named("preempt_disable"),
            state: kind(ArgKind::State),
            priority: named("pri").filter(|_| ready),
            object,
            acquire: word(Effect::Acquire),
            release: word(Effect::Release),
            owner: named("owning_thread"),
            own_count: named("own_count"),
            put: word(Effect::Put),
            get: word(Effect::Get),
            create: word(Effect::Create),
            delete: word(Effect::Delete),
            stack: kind(ArgKind::StackPtr),
            wait,
            forever: words(wait).iter().find(|(_, w)| w == "forever").map(|(v, _)| *v),
            abort: word(Effect::Abort),
            end: has(Effect::End),
            is_mark: has(Effect::Mark),
            ended: if block { ended.map(|(v, _)| *v).collect() } else { Vec::new() },
        }
    }
}

/// The roles of a catalogue, by definition. Each is shared: who acts on one holds it while the tracker changes.
#[derive(Debug, Clone)]
pub struct Roles(Vec<Rc<Role>>);

impl Roles {
    /// Looks at every definition once.
    #[must_use]
    pub fn of(catalogue: &Catalogue) -> Self {
        Self(catalogue.iter().map(|def| Rc::new(Role::of(def))).collect())
    }

    /// True where some call tells how long its caller is ready to wait: then one that does not tell waits for nothing.
    #[must_use]
    pub fn tell_patience(&self) -> bool {
        self.0.iter().any(|r| r.wait.is_some())
    }

    /// The role of a definition.
    #[must_use]
    #[inline]
    pub fn get(&self, def: DefId) -> Option<&Role> {
        self.0.get(usize::try_from(def.0).ok()?).map(Rc::as_ref)
    }

    /// The role of a definition, to be held.
    #[must_use]
    #[inline]
    pub fn held(&self, def: DefId) -> Option<Rc<Role>> {
        self.0.get(usize::try_from(def.0).ok()?).map(Rc::clone)
    }
}
