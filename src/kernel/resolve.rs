//! Threads and objects find each other: who waits for what, who owns what, and who runs.

use std::collections::HashMap;

use super::{Kernel, Kind, Thread, Wait, has_id};
use crate::abi::Addr;
use crate::code::Code;
use crate::mem::Memory;
use crate::trace::{Issue, Place, many};

/// So near to the address of a thread, a value is that address with a few of its bits changed.
const NEAR: u64 = 0x100;

/// The places of control blocks in a list, by address.
type Places = HashMap<Addr, usize>;

impl Kernel {
    /// Objects know their waiting threads, threads what they wait for: each is compared with the other.
    pub(super) fn resolve(&mut self, memory: &mut dyn Memory, names: &dyn Fn(Addr) -> Option<String>) {
        let threads: Places = self.threads.iter().enumerate().map(|(i, t)| (t.address, i)).collect();
        let objects: Places = self.objects.iter().enumerate().map(|(i, o)| (o.address, i)).collect();
        for index in 0..self.objects.len() {
            self.find_waiting(index, &threads);
        }
        self.find_waits(memory, names, &objects);
        self.find_owners(&threads);
        self.find_current(&threads);
    }

    /// Threads that wait for an object by their own control blocks, and are not in its list of those that do.
    pub fn unlisted(&self, object: &super::Object) -> Vec<Addr> {
        let places: Places = self.threads.iter().enumerate().map(|(i, t)| (t.address, i)).collect();
        let listed = object.listed(&self.threads, &places);
        let waiting = self.threads.iter().filter(|thread| thread.waits_on(object)).map(|thread| thread.address);
        waiting.filter(|thread| !listed.contains(thread)).collect()
    }

    fn find_waiting(&mut self, index: usize, places: &Places) {
        let Some(object) = self.objects.get(index) else { return };
        let waiting: Vec<Addr> = self.threads.iter().filter(|t| t.waits_on(object)).map(|t| t.address).collect();
        let listed = object.listed(&self.threads, places);
        let mut sorted = [listed.clone(), waiting.clone()];
        sorted.iter_mut().for_each(|s| s.sort_unstable());
        let [a, b] = sorted;
        let counted = object.get("suspended_count").and_then(|n| usize::try_from(n).ok());
        let agree = a == b && counted.is_none_or(|n| n == listed.len());
        if !agree {
            let message = format!(
                "{} {} at {:#x}: its list of waiting threads has {}, it counts {}, and {} for it",
                object.kind.name(),
                object.name.as_deref().unwrap_or(""),
                object.address,
                listed.len(),
                counted.map_or("nothing that can be read".to_owned(), |n| n.to_string()),
                many(waiting.len() as u64, "thread says that it waits", "threads say that they wait")
            );
            let member = if a == b { "suspended_count" } else { "suspension_list" };
            let at = self.member_at(object, member);
            self.issues.push(Issue::new(Code::KernelDamaged, message).at(Place::address(at)));
        }
        if let Some(object) = self.objects.get_mut(index) {
            // Where they disagree nothing shows which is right: the states of threads are what is shown.
            object.waiting = if agree { listed } else { waiting };
        }
    }

    fn find_waits(&mut self, memory: &mut dyn Memory, names: &dyn Fn(Addr) -> Option<String>, places: &Places) {
        for thread in &mut self.threads {
            let Some((kind, address)) = thread.suspended_on() else { continue };
            let object = places.get(&address).and_then(|i| self.objects.get(*i)).filter(|o| o.kind == kind);
            let mut wait = Wait::of(thread, kind, address, object);
            if object.is_none() {
                wait.name = names(address);
            }
            thread.waits = Some(wait);
            if object.is_none() && !has_id(memory, &self.layout, address, kind) {
                let message = format!(
                    "thread {} waits for {} at {address:#x}, and there is none there",
                    thread.label(),
                    kind.with_article()
                );
                self.issues.push(Issue::new(Code::KernelDamaged, message).at(Place::address(thread.address)));
            }
        }
    }

    fn find_owners(&mut self, places: &Places) {
        for object in self.objects.iter().filter(|o| o.kind == Kind::Mutex) {
            let Some(address) = object.owner() else { continue };
            match places.get(&address).and_then(|i| self.threads.get_mut(*i)) {
                Some(owner) => owner.owns.push(object.address),
                None => {
                    let name = object.name.as_deref().unwrap_or("without a name");
                    // A write that counts up, or one of some bytes, leaves the rest of the owner's address.
                    let near = |thread: &&Thread| (1..NEAR).contains(&address.wrapping_sub(thread.address));
                    let near = self.threads.iter().filter(near).max_by_key(|thread| thread.address);
                    let near = near.map_or_else(String::new, |thread| {
                        format!(
                            ": it is {} more than the address of {}",
                            address.wrapping_sub(thread.address),
                            thread.label()
                        )
                    });
                    let message = format!(
                        "mutex {name} is owned by {address:#x}, which is none of the threads that were found{near}"
                    );
                    self.issues.push(Issue::new(Code::KernelDamaged, message).at(Place::address(object.address)));
                }
            }
        }
    }

    fn find_current(&mut self, places: &Places) {
        for (core, address) in self.current.iter().enumerate().filter(|(_, a)| **a != 0) {
            match places.get(address).and_then(|i| self.threads.get_mut(*i)) {
                Some(thread) => {
                    thread.core = Some(core);
                    // What it saved when it last gave the processor away is stale.
                    thread.set_pointer(None);
                }
                None => {
                    let message = format!(
                        "_tx_thread_current_ptr is {address:#x}, which is none of the threads in the created list"
                    );
                    self.issues.push(Issue::new(Code::KernelDamaged, message));
                }
            }
        }
    }
}
