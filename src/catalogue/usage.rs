//! What an event does to an object that holds something: a queue, a lock, a semaphore, a pool.

use super::{ArgKind, Catalogue, Effect, EventDef};

/// What a number in an event measures of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// So much is in it.
    Filled,
    /// So much is left in it.
    Free,
    /// So much it can hold.
    Holds,
}

impl Level {
    /// Fields are called alike in all systems that have them.
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "enqueued" | "current_count" | "initial_count" | "count" => Self::Filled,
            "remaining_blocks" | "available_packets" | "available_bytes" => Self::Free,
            "total_blocks" | "pool_size" | "ceiling" => Self::Holds,
            _ => return None,
        })
    }
}

/// What an event of one definition does to which object. Words are counted from 0.
#[derive(Debug, Clone)]
pub struct ObjectUse {
    /// Word with the object.
    pub object: usize,
    /// True where the word is the object's address, not a number that counts within a process.
    pub is_object: bool,
    /// True where it puts something into the object, or gives a lock back.
    pub puts: bool,
    /// True where it asks for something, or for a lock.
    pub gets: bool,
    /// True where it asks for a lock, or gives one back.
    pub is_lock: bool,
    /// The other words that measure the object.
    pub levels: Vec<(usize, Level)>,
    /// Words with the size of a queue and of its messages, in words.
    pub queue: Option<(usize, usize)>,
    /// What the object is called in the event: `queue`.
    pub label: String,
}

impl ObjectUse {
    fn of(def: &EventDef) -> Option<Self> {
        let word = |e| def.effects.word(e);
        let puts = word(Effect::Put).or_else(|| word(Effect::Release));
        let gets = word(Effect::Get).or_else(|| word(Effect::Acquire));
        let field = |name: &str| def.fields.iter().position(|f| f.as_ref().is_some_and(|f| f.name == name));
        let mut levels: Vec<(usize, Level)> =
            def.fields.iter().enumerate().filter_map(|(i, f)| Some((i, Level::of(&f.as_ref()?.name)?))).collect();
        let queue = field("queue_size").zip(field("message_size"));
        let made = word(Effect::Create).filter(|_| !levels.is_empty() || queue.is_some());
        let object = puts.or(gets).or(made)?;
        let field = def.field(object)?;
        let is_object = field.kind == ArgKind::Ptr;
        levels.retain(|_| is_object);
        Some(Self {
            object,
            is_object,
            puts: puts.is_some(),
            gets: puts.is_none() && gets.is_some(),
            is_lock: word(Effect::Acquire).or_else(|| word(Effect::Release)).is_some(),
            levels,
            queue,
            label: field.label.clone(),
        })
    }
}

impl Catalogue {
    /// What the events of each definition do to objects, in the order of the definitions.
    pub fn object_uses(&self) -> Vec<Option<ObjectUse>> {
        self.iter().map(ObjectUse::of).collect()
    }
}
