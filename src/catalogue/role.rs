//! What each definition does, with the payload words that it acts on: computed once, then found by the number of the
//! definition. Code that interprets events reads roles; it never searches effects or field names for each event.

use super::{ArgKind, Catalogue, Effect, EventDef, Product};
use crate::trace::DefId;

/// A payload word (from 0), or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Word(u8);

impl Word {
    /// No word.
    pub const NONE: Self = Self(u8::MAX);

    /// The word of this index, where there is one.
    pub fn at(word: Option<usize>) -> Self {
        word.and_then(|w| u8::try_from(w).ok()).map_or(Self::NONE, Self)
    }

    /// The index of the word.
    pub fn index(self) -> Option<usize> {
        (self != Self::NONE).then_some(usize::from(self.0))
    }

    /// True where there is such a word.
    pub fn is_some(self) -> bool {
        self != Self::NONE
    }

    /// The value of the word in a payload.
    #[inline]
    pub fn of(self, words: &[u64]) -> Option<u64> {
        if self.is_some() { words.get(usize::from(self.0)).copied() } else { None }
    }
}

/// What an event of one definition does.
#[derive(Debug, Clone, Copy)]
#[allow(clippy::struct_excessive_bools, reason = "one for each effect")]
pub struct Role {
    /// False where it changes nothing of threads, cores and interrupts.
    pub moves: bool,
    /// False where it changes nothing of locks.
    pub locks: bool,
    /// False where it neither takes anything from an object nor gives it anything.
    pub gives_or_takes: bool,
    /// An event of the scheduler itself, which no thread calls.
    pub is_scheduling: bool,
    /// A thread becomes ready.
    pub ready: bool,
    /// A thread stops being ready.
    pub block: bool,
    /// A thread begins to run: the one that [`Role::run`] names, or the one that inserts the event.
    pub runs: bool,
    /// The thread that inserts it decides who runs next, so it runs already.
    pub decides: bool,
    /// A time slice ends.
    pub is_slice: bool,
    /// The caller may lose its core here.
    pub yields: bool,
    /// An interrupt begins.
    pub isr_enter: bool,
    /// An interrupt ends.
    pub isr_exit: bool,
    /// A thread ends.
    pub end: bool,
    /// A mark of the application: the context that inserts it is in no call.
    pub is_mark: bool,
    /// A call of a product above the kernel: it may wait more than once.
    pub is_above_kernel: bool,
    /// The thread that becomes ready; see [`Role::target`].
    pub ready_thread: Word,
    /// The thread that stops being ready; see [`Role::target`].
    pub block_thread: Word,
    /// Who runs next; see [`Role::target`].
    pub run: Word,
    /// The thread that ends; see [`Role::target`].
    pub end_thread: Word,
    /// Not 0 where preemption is disabled: the thread below goes on after the interrupt.
    pub preempt_disable: Word,
    /// The number of the interrupt.
    pub isr_number: Word,
    /// A thread state.
    pub state: Word,
    /// The priority of the thread that becomes ready.
    pub priority: Word,
    /// The object that the call acts on.
    pub object: Word,
    /// A lock that is requested.
    pub acquire: Word,
    /// A lock that is given back.
    pub release: Word,
    /// The owner of that lock.
    pub owner: Word,
    /// How often its owner has the lock.
    pub own_count: Word,
    /// The object that something is put into.
    pub put: Word,
    /// The object that something is requested from.
    pub get: Word,
    /// An object that is created.
    pub create: Word,
    /// An object that is deleted.
    pub delete: Word,
    /// A stack pointer.
    pub stack: Word,
    /// How long the caller is ready to wait.
    pub wait: Word,
    /// A thread that a call suspends.
    pub suspend: Word,
    /// A thread whose wait is given up.
    pub abort: Word,
    /// The high half of a name of two words.
    high: Word,
    /// The value of the wait word that means for ever.
    pub forever: Option<u64>,
    /// Bit n set: a thread in the state of code n has ended.
    ended: u64,
}

/// Words of an enumeration of thread states for threads that have ended.
const ENDED: [&str; 2] = ["completed", "terminated"];

/// The words for the numbers of a field.
fn names(def: &EventDef, word: Word) -> &[(u64, String)] {
    let field = word.index().and_then(|w| def.field(w));
    field.and_then(|f| f.words.as_deref()).map_or(&[], |e| &e.words)
}

impl Role {
    fn of(def: &EventDef) -> Self {
        let effects = &def.effects;
        let has = |e| effects.has(e);
        let word = |e| Word::at(effects.word(e));
        let named = |name: &str| Word::at(def.fields.iter().position(|f| f.as_ref().is_some_and(|f| f.name == name)));
        let kind = |kind| Word::at(def.fields.iter().position(|f| f.as_ref().is_some_and(|f| f.kind == kind)));
        let run = word(Effect::Run);
        let (ready, block) = (has(Effect::Ready), has(Effect::Block));
        let isr = has(Effect::IsrEnter) || has(Effect::IsrExit);
        let starts_with_thread = def.field(0).is_some_and(|f| f.kind == ArgKind::ThreadPtr);
        let acted_on = [Effect::Acquire, Effect::Release, Effect::Put, Effect::Get, Effect::Abort];
        let object = acted_on.into_iter().map(word).find(|w| w.is_some()).unwrap_or(kind(ArgKind::Ptr));
        let either = |a: Word, b: Word| if a.is_some() { a } else { b };
        let (state, wait) = (kind(ArgKind::State), named("wait_option"));
        let ended = names(def, state).iter().filter(|(_, w)| block && ENDED.contains(&w.as_str()));
        let bit = |(code, _): &(u64, String)| u32::try_from(*code).ok().and_then(|code| 1u64.checked_shl(code));
        Self {
            moves: ready
                || block
                || isr
                || [Effect::Run, Effect::End, Effect::Slice, Effect::Yield].into_iter().any(has),
            locks: [Effect::Acquire, Effect::Release, Effect::Delete].into_iter().any(has),
            gives_or_takes: [Effect::Acquire, Effect::Release, Effect::Put, Effect::Get].into_iter().any(has),
            is_scheduling: ready || block || isr || (run.is_some() && starts_with_thread),
            ready,
            block,
            runs: has(Effect::Run),
            decides: run.is_some() && (ready || block || has(Effect::Slice) || has(Effect::Yield)),
            is_slice: has(Effect::Slice),
            yields: has(Effect::Yield),
            isr_enter: has(Effect::IsrEnter),
            isr_exit: has(Effect::IsrExit),
            end: has(Effect::End),
            is_mark: has(Effect::Mark),
            is_above_kernel: matches!(def.product, Product::Fx | Product::Nx | Product::Ux),
            ready_thread: word(Effect::Ready),
            block_thread: word(Effect::Block),
            run,
            end_thread: word(Effect::End),
            preempt_disable: named("preempt_disable"),
            isr_number: either(word(Effect::IsrEnter), word(Effect::IsrExit)),
            state,
            priority: if ready { named("pri") } else { Word::NONE },
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
            suspend: word(Effect::Suspend),
            abort: word(Effect::Abort),
            high: Word::at(effects.high()),
            forever: names(def, wait).iter().find(|(_, w)| w == "forever").map(|(v, _)| *v),
            ended: ended.filter_map(bit).fold(0, |all, bit| all | bit),
        }
    }

    /// The thread that a word names, in some systems together with a second word.
    pub fn target(&self, word: Word, words: &[u64]) -> Option<u64> {
        let low = word.of(words)?;
        Some(match self.high.of(words) {
            Some(high) => low & 0xFFFF_FFFF | high << 32,
            None => low,
        })
    }

    /// True where a thread in the state of this code has ended.
    pub fn is_end(&self, code: u64) -> bool {
        u32::try_from(code).is_ok_and(|c| self.ended.checked_shr(c).is_some_and(|bits| bits & 1 == 1))
    }
}

/// The roles of a catalogue by the number of the definition.
#[derive(Debug, Clone, Default)]
pub struct Roles(Vec<Role>);

impl Roles {
    pub(super) fn of(catalogue: &Catalogue) -> Self {
        Self(catalogue.iter().map(Role::of).collect())
    }

    /// The role of a definition.
    pub fn get(&self, def: DefId) -> Option<&Role> {
        self.0.get(def.index())
    }

    /// True where some call states how long its caller is ready to wait: one that does not then waits for nothing.
    pub fn state_waits(&self) -> bool {
        self.0.iter().any(|r| r.wait.is_some())
    }
}
