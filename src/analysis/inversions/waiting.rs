//! Who waits for which lock of whom, found by thread, by lock and by owner.

#![expect(clippy::arithmetic_side_effects, reason = "counts and indices; ticks are added with saturation")]

use std::collections::BTreeMap;

use super::window::Window;
use crate::analysis::tracker::{ObjectNo, ThreadNo};

/// A thread that waits for a lock.
#[derive(Debug)]
pub(super) struct Waiting {
    pub lock: ObjectNo,
    /// False where the filters keep neither the call nor the event that blocks.
    pub kept: bool,
    /// Who has the lock, or had it last: giving back is its owner's work still.
    pub owner: Option<ThreadNo>,
    /// What it waits through now; a new one each time that the lock gets another owner.
    pub window: Option<Window>,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Waits {
    by_thread: BTreeMap<ThreadNo, Waiting>,
    by_lock: BTreeMap<ObjectNo, Vec<ThreadNo>>,
    by_owner: BTreeMap<ThreadNo, Vec<ThreadNo>>,
}

impl Waits {
    pub fn len(&self) -> usize {
        self.by_thread.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_thread.is_empty()
    }

    pub fn get(&self, thread: ThreadNo) -> Option<&Waiting> {
        self.by_thread.get(&thread)
    }

    pub fn threads(&self) -> impl Iterator<Item = ThreadNo> {
        self.by_thread.keys().copied()
    }

    pub fn insert(&mut self, thread: ThreadNo, waiting: Waiting) {
        self.by_lock.entry(waiting.lock).or_default().push(thread);
        if let Some(owner) = waiting.owner {
            self.by_owner.entry(owner).or_default().push(thread);
        }
        self.by_thread.insert(thread, waiting);
    }

    pub fn remove(&mut self, thread: ThreadNo) -> Option<Waiting> {
        let waiting = self.by_thread.remove(&thread)?;
        unlist(&mut self.by_lock, waiting.lock, thread);
        if let Some(owner) = waiting.owner {
            unlist(&mut self.by_owner, owner, thread);
        }
        Some(waiting)
    }

    /// The lock that a thread waits for has another owner.
    pub fn set_owner(&mut self, thread: ThreadNo, owner: ThreadNo, window: Option<Window>) {
        let Some(waiting) = self.by_thread.get_mut(&thread) else { return };
        waiting.window = window;
        if let Some(before) = waiting.owner.replace(owner) {
            unlist(&mut self.by_owner, before, thread);
        }
        self.by_owner.entry(owner).or_default().push(thread);
    }

    /// Those that wait for a lock.
    pub fn of_lock(&self, lock: ObjectNo) -> Vec<ThreadNo> {
        self.by_lock.get(&lock).cloned().unwrap_or_default()
    }

    pub fn window_mut(&mut self, thread: ThreadNo) -> Option<&mut Window> {
        self.by_thread.get_mut(&thread)?.window.as_mut()
    }

    pub fn take_window(&mut self, thread: ThreadNo) -> Option<Window> {
        self.by_thread.get_mut(&thread)?.window.take()
    }

    pub fn put_window(&mut self, thread: ThreadNo, window: Window) {
        if let Some(waiting) = self.by_thread.get_mut(&thread) {
            waiting.window = Some(window);
        }
    }

    /// Shows each window, beside the waits that it may look at.
    pub fn each_window(&mut self, mut each: impl FnMut(&mut Window, &Self)) {
        let threads: Vec<ThreadNo> =
            self.by_thread.iter().filter(|(_, w)| w.window.is_some()).map(|(t, _)| *t).collect();
        for thread in threads {
            let Some(mut window) = self.take_window(thread) else { continue };
            each(&mut window, self);
            self.put_window(thread, window);
        }
    }

    /// Shows the windows of those that wait for an owner.
    pub fn each_behind(&mut self, owner: ThreadNo, mut each: impl FnMut(&mut Window)) {
        for waiter in self.by_owner.get(&owner).into_iter().flatten() {
            if let Some(window) = self.by_thread.get_mut(waiter).and_then(|w| w.window.as_mut()) {
                each(window);
            }
        }
    }

    /// Those that wait for a thread, directly or through others.
    pub fn behind(&self, thread: ThreadNo) -> Vec<ThreadNo> {
        let mut all: Vec<ThreadNo> = self.by_owner.get(&thread).cloned().unwrap_or_default();
        let mut at = 0;
        while let Some(next) = all.get(at).copied() {
            // In a cycle the way leads back to where it began.
            if next != thread {
                all.extend(self.by_owner.get(&next).into_iter().flatten().filter(|t| **t != thread));
            }
            at += 1;
            if at > self.len() {
                break;
            }
        }
        all
    }

    /// The owner, whom it waits for, and so on: all of these work for who waits for the owner.
    pub fn path(&self, owner: ThreadNo) -> Vec<ThreadNo> {
        let mut path = vec![owner];
        let mut at = owner;
        // No more than wait; in a cycle the way never ends.
        while let Some(next) = self.get(at).and_then(|w| w.owner).filter(|_| path.len() <= self.len()) {
            path.push(next);
            at = next;
        }
        path
    }

    /// True where a thread works for the owner: it is the owner, or has what the owner waits for, and so on.
    pub fn is_on_behalf(&self, owner: ThreadNo, thread: ThreadNo) -> bool {
        owner == thread || self.path(owner).contains(&thread)
    }
}

/// Takes a thread out of a list, and the list out of the map where it is empty.
fn unlist<K: Ord>(map: &mut BTreeMap<K, Vec<ThreadNo>>, key: K, thread: ThreadNo) {
    if let Some(list) = map.get_mut(&key) {
        list.retain(|t| *t != thread);
        if list.is_empty() {
            map.remove(&key);
        }
    }
}
