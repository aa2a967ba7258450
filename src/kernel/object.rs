//! One object beside threads: its control block, by members.

use std::collections::HashMap;

use super::layout::{Kind, Layout};
use super::thread::Thread;
use super::walk::{self, Node};
use crate::abi::Addr;
use crate::mem::Memory;

/// The longest name that is read.
const MAX_NAME: usize = 64;

/// A mutex, queue, semaphore, event flags group, pool or timer.
#[derive(Debug, Clone)]
pub struct Object {
    /// What it is.
    pub kind: Kind,
    /// Its control block.
    pub address: Addr,
    /// Its name, where one is known. Hostile text: escape before printing.
    pub name: Option<String>,
    /// Where its name is.
    pub name_at: Option<Addr>,
    /// Threads that wait for it, in the order in which they will get it.
    pub waiting: Vec<Addr>,
    members: Vec<(&'static str, u64)>,
}

/// What is read of the members, whatever the kind.
const MEMBERS: [&str; 28] = [
    "ownership_count",
    "owner",
    "inherit",
    "original_priority",
    "highest_priority_waiting",
    "message_size",
    "capacity",
    "enqueued",
    "available_storage",
    "start",
    "count",
    "current",
    "available",
    "total",
    "size",
    "block_size",
    "fragments",
    "suspension_list",
    "suspended_count",
    "tx_timer_internal_remaining_ticks",
    "tx_timer_internal_re_initialize_ticks",
    "tx_timer_internal_timeout_function",
    "tx_timer_internal_timeout_param",
    "tx_timer_internal_list_head",
    "end",
    "available_list",
    "read",
    "write",
];

impl Object {
    pub(super) fn read(
        memory: &mut dyn Memory,
        layout: &Layout,
        kind: Kind,
        node: &Node,
        names: &dyn Fn(Addr) -> Option<String>,
    ) -> Self {
        let get = |name| layout.object(kind)?.get(&node.bytes, layout.shape.endian, name);
        let members = MEMBERS.into_iter().filter_map(|name| Some((name, get(name)?))).collect();
        let name = name_of(memory, get("name"), node.address, names);
        Self {
            kind,
            address: node.address,
            name,
            name_at: get("name").filter(|p| *p != 0),
            waiting: Vec::new(),
            members,
        }
    }

    /// One with these members.
    #[cfg(test)]
    pub fn of_members(kind: Kind, address: Addr, members: &[(&'static str, u64)]) -> Self {
        Self { kind, address, name: None, name_at: None, waiting: Vec::new(), members: members.to_vec() }
    }

    /// The value of a member, by its name without the stem.
    pub fn get(&self, member: &str) -> Option<u64> {
        self.members.iter().find(|(name, _)| *name == member).map(|(_, value)| *value)
    }

    /// The thread that owns a mutex; `None` where none does.
    pub fn owner(&self) -> Option<Addr> {
        let owner = self.get("owner").filter(|o| *o != 0 && self.kind == Kind::Mutex)?;
        self.get("ownership_count").is_none_or(|n| n > 0).then_some(owner)
    }

    /// Its name, or its address.
    pub fn label(&self) -> String {
        self.name.clone().unwrap_or_else(|| format!("{:#x}", self.address))
    }

    /// The threads in its list of waiting ones, as far as it can be followed.
    pub(super) fn listed(&self, threads: &[Thread], by_address: &HashMap<Addr, usize>) -> Vec<Addr> {
        let mut list = Vec::new();
        let Some(head) = self.get("suspension_list").filter(|h| *h != 0) else { return list };
        let mut at = head;
        while list.len() < walk::MAX && !list.contains(&at) {
            let Some(thread) = by_address.get(&at).and_then(|i| threads.get(*i)) else { break };
            list.push(at);
            match thread.suspended_next {
                Some(next) if next != head => at = next,
                _ => break,
            }
        }
        list
    }

    /// Its state in words: `owned by low_task`, `2 of 4 messages`.
    pub fn state(&self, label: &dyn Fn(Addr) -> String) -> String {
        let get = |name| self.get(name);
        let text = match self.kind {
            Kind::Mutex => match self.owner() {
                Some(owner) => {
                    let owner = label(owner);
                    match get("ownership_count") {
                        Some(n) if n > 1 => Some(format!("owned by {owner}, {n} times")),
                        _ => Some(format!("owned by {owner}")),
                    }
                }
                None => Some("free".to_owned()),
            },
            Kind::Queue => get("enqueued").zip(get("capacity")).map(|(n, all)| format!("{n} of {all} messages")),
            Kind::Semaphore => get("count").map(|n| format!("count {n}")),
            Kind::EventFlags => get("current").map(|n| format!("flags {n:#x}")),
            Kind::BlockPool => get("available").zip(get("total")).map(|(n, all)| format!("{n} of {all} blocks free")),
            Kind::BytePool => get("available").zip(get("size")).map(|(n, all)| format!("{n} of {all} bytes free")),
            Kind::Timer => self.active().map(|on| if on { "active" } else { "off" }.to_owned()),
        };
        text.unwrap_or_else(|| "unknown".to_owned())
    }

    /// Whether a timer runs.
    pub fn active(&self) -> Option<bool> {
        self.get("tx_timer_internal_list_head").filter(|_| self.kind == Kind::Timer).map(|list| list != 0)
    }

    /// True for what a thread holds or waits for, and for what is full, used up, or near it.
    pub fn matters(&self) -> bool {
        self.owner().is_some() || !self.waiting.is_empty() || self.is_short()
    }

    /// True where the next call may have to wait, or soon will: a queue that is at least half full, a semaphore at 0, a
    /// pool of which a quarter or less is free.
    fn is_short(&self) -> bool {
        let quarter_free = |free: u64, all: u64| free <= all / 4;
        match self.kind {
            Kind::Queue => {
                self.get("enqueued").zip(self.get("capacity")).is_some_and(|(n, all)| all > 0 && n >= all.div_ceil(2))
            }
            Kind::Semaphore => self.get("count") == Some(0),
            Kind::BlockPool => {
                self.get("available").zip(self.get("total")).is_some_and(|(n, all)| quarter_free(n, all))
            }
            Kind::BytePool => self.get("available").zip(self.get("size")).is_some_and(|(n, all)| quarter_free(n, all)),
            Kind::Mutex | Kind::EventFlags | Kind::Timer => false,
        }
    }
}

/// A name: what memory has where the control block points to, else what `names` gives.
pub(super) fn name_of(
    memory: &mut dyn Memory,
    pointer: Option<Addr>,
    object: Addr,
    names: &dyn Fn(Addr) -> Option<String>,
) -> Option<String> {
    pointer.filter(|p| *p != 0).and_then(|p| text(memory, p)).or_else(|| names(object)).filter(|n| !n.is_empty())
}

/// The string at an address; `None` where there is nothing that can be a name.
fn text(memory: &mut dyn Memory, address: Addr) -> Option<String> {
    let mut all = Vec::new();
    let mut at = address;
    while all.len() < MAX_NAME {
        let piece = memory.read_bytes(at, 16).or_else(|_| memory.read_bytes(at, 1)).ok()?;
        if let Some(end) = piece.iter().position(|b| *b == 0) {
            all.extend_from_slice(piece.get(..end)?);
            let text = String::from_utf8(all).ok()?;
            return (!text.is_empty() && !text.chars().any(char::is_control)).then_some(text);
        }
        all.extend_from_slice(&piece);
        at = at.checked_add(piece.len() as u64)?;
    }
    None
}
