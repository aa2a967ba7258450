//! What an event does, so that no code that interprets events needs to know ids.

use crate::abi::Addr;

/// What an event does to the object or context in one of its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Effect {
    /// A context begins to run.
    Run,
    /// A thread becomes ready.
    Ready,
    /// A thread stops being ready.
    Block,
    /// An interrupt begins.
    IsrEnter,
    /// An interrupt ends.
    IsrExit,
    /// A lock is requested.
    Acquire,
    /// A lock is given back.
    Release,
    /// Something is put into an object: a message, a count, flags, memory.
    Put,
    /// Something is requested from an object.
    Get,
    /// An object is created.
    Create,
    /// An object is deleted.
    Delete,
    /// The application leaves a mark.
    Mark,
    /// A thread has used up its time slice.
    Slice,
    /// The caller may lose its core here; the event does not name the next thread.
    Yield,
    /// A call ends another thread's wait.
    Abort,
    /// A thread ends: it neither runs nor waits any more.
    End,
    /// A call suspends a thread: at once, or when its wait is over.
    Suspend,
}

impl Effect {
    const ALL: [(Self, &'static str); 17] = [
        (Self::Run, "run"),
        (Self::Ready, "ready"),
        (Self::Block, "block"),
        (Self::IsrEnter, "isr_enter"),
        (Self::IsrExit, "isr_exit"),
        (Self::Acquire, "acquire"),
        (Self::Release, "release"),
        (Self::Put, "put"),
        (Self::Get, "get"),
        (Self::Create, "create"),
        (Self::Delete, "delete"),
        (Self::Mark, "mark"),
        (Self::Slice, "slice"),
        (Self::Yield, "yield"),
        (Self::Abort, "abort"),
        (Self::End, "end"),
        (Self::Suspend, "suspend"),
    ];

    /// Its name in a catalogue file.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(e, _)| *e == self).map_or("", |(_, n)| n)
    }

    fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, n)| *n == text).map(|(e, _)| *e)
    }
}

/// The effects of an event, each with the payload word it acts on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Effects {
    list: Vec<(Effect, Option<usize>)>,
    /// The word that holds the high half of a name of two words, for the effects that have one: a thread that is named
    /// by the numbers of its process and of itself.
    high: Option<usize>,
}

impl Effects {
    /// Reads `ready:1 run:4`: effect and number of the field, from 1; field 0, or none, is the running context. `run:1+2`
    /// acts on what words 1 and 2 name together, the low half first.
    pub fn parse(text: &str) -> Option<Self> {
        let (mut list, mut high) = (Vec::new(), None);
        for part in text.split_whitespace() {
            let (name, field) = part.split_once(':').unwrap_or((part, "0"));
            let field = match field.split_once('+') {
                Some((low, more)) => {
                    high = more.parse::<usize>().ok()?.checked_sub(1);
                    low
                }
                None => field,
            };
            list.push((Effect::parse(name)?, field.parse::<usize>().ok()?.checked_sub(1)));
        }
        Some(Self { list, high })
    }

    /// The effects as a catalogue file writes them.
    #[expect(clippy::arithmetic_side_effects, reason = "counts words of an event")]
    pub fn to_text(&self) -> String {
        let number = |word: usize| word + 1;
        let high = self.high.map_or_else(String::new, |h| format!("+{}", number(h)));
        let parts: Vec<String> =
            self.list.iter().map(|(e, f)| format!("{}:{}{high}", e.name(), f.map_or(0, number))).collect();
        parts.join(" ")
    }

    /// A mark and nothing else: what user events do.
    pub fn mark() -> Self {
        Self { list: vec![(Effect::Mark, None)], high: None }
    }

    /// Each effect with the payload word (from 0) it acts on; `None` is the running context.
    pub fn iter(&self) -> impl Iterator<Item = (Effect, Option<usize>)> {
        self.list.iter().copied()
    }

    /// True where the event has this effect.
    pub fn has(&self, effect: Effect) -> bool {
        self.list.iter().any(|(e, _)| *e == effect)
    }

    /// The payload word (from 0) that this effect acts on.
    pub fn word(&self, effect: Effect) -> Option<usize> {
        self.list.iter().find(|(e, _)| *e == effect).and_then(|(_, f)| *f)
    }

    /// The word that holds the high half of a name of two words.
    pub(super) const fn high(&self) -> Option<usize> {
        self.high
    }

    /// The target that this word and another name together.
    pub fn named_with(&self, word: usize, words: &[u64]) -> Option<Addr> {
        let high = self.high?;
        let (effect, _) = *self.list.iter().find(|(_, low)| *low == Some(word) || (low.is_some() && high == word))?;
        self.target(effect, words)
    }

    /// What this effect acts on: the address of an object or a context, as events and contexts name it. `None` where it
    /// has no such effect, or acts on the running context.
    pub(super) fn target(&self, effect: Effect, words: &[u64]) -> Option<Addr> {
        let low = *words.get(self.word(effect)?)?;
        Some(match self.high.and_then(|h| words.get(h)) {
            Some(high) => low & 0xFFFF_FFFF | high << 32,
            None => low,
        })
    }
}
