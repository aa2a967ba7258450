//! What an event does, so that nothing to the right of the catalogue needs to know ids.

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
    /// A lock is asked for.
    Acquire,
    /// A lock is given back.
    Release,
    /// Something is put into an object: a message, a count, flags, memory.
    Put,
    /// Something is asked of an object.
    Get,
    /// An object comes to be.
    Create,
    /// An object ceases to be.
    Delete,
    /// The application leaves a mark.
    Mark,
}

impl Effect {
    const ALL: [(Self, &'static str); 12] = [
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
    ];

    /// Its name in a catalogue file.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(e, _)| *e == self).map_or("", |(_, n)| n)
    }

    fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, n)| *n == text).map(|(e, _)| *e)
    }
}

/// The effects of an event, each with the payload word it acts on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Effects(Vec<(Effect, Option<usize>)>);

impl Effects {
    /// Reads `ready:1 run:4`: effect and number of the field, from 1; field 0, or none, is the running context.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut list = Vec::new();
        for part in text.split_whitespace() {
            let (name, field) = part.split_once(':').unwrap_or((part, "0"));
            list.push((Effect::parse(name)?, field.parse::<usize>().ok()?.checked_sub(1)));
        }
        Some(Self(list))
    }

    /// The effects as a catalogue file writes them.
    #[must_use]
    pub fn to_text(&self) -> String {
        let parts: Vec<String> =
            self.0.iter().map(|(e, f)| format!("{}:{}", e.name(), f.map_or(0, |f| f.saturating_add(1)))).collect();
        parts.join(" ")
    }

    /// A mark and nothing else: what user events do.
    #[must_use]
    pub fn mark() -> Self {
        Self(vec![(Effect::Mark, None)])
    }

    /// Each effect with the payload word (from 0) it acts on; `None` is the running context.
    pub fn iter(&self) -> impl Iterator<Item = (Effect, Option<usize>)> {
        self.0.iter().copied()
    }

    /// True where the event has this effect.
    #[must_use]
    pub fn has(&self, effect: Effect) -> bool {
        self.0.iter().any(|(e, _)| *e == effect)
    }

    /// The payload word (from 0) that this effect acts on.
    #[must_use]
    pub fn word(&self, effect: Effect) -> Option<usize> {
        self.0.iter().find(|(e, _)| *e == effect).and_then(|(_, f)| *f)
    }
}
