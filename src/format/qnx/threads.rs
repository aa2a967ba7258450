//! Processes and threads: their names, which of them runs on each processor, and what an interrupt interrupted.

use std::collections::{BTreeMap, HashMap};

use super::super::running::{NO_CONTEXT, Running};
use crate::trace::{ContextId, ContextKind, Contexts, Object, ObjectTable};

/// Type of a process among the objects.
const PROCESS: u32 = 1;
/// Type of a thread.
const THREAD: u32 = 2;

#[derive(Debug, Default)]
struct Process {
    name: String,
    parent: Option<u32>,
    deleted: bool,
    threads: BTreeMap<u32, Thread>,
}

#[derive(Debug, Default)]
struct Thread {
    name: String,
    priority: Option<u16>,
    deleted: bool,
}

/// Processes and threads, as far as the events until here show them.
#[derive(Debug, Default)]
pub(super) struct Threads {
    /// Every context of these events.
    pub contexts: Contexts,
    processes: BTreeMap<u32, Process>,
    cpus: BTreeMap<u8, Running>,
    priorities: HashMap<ContextId, u16>,
}

/// The address of a thread among contexts: its two words as one number, that of the process below.
pub(super) const fn address(pid: u32, tid: u32) -> u64 {
    (tid as u64) << 32 | pid as u64
}

/// Process and thread of such a number.
pub(super) const fn numbers(address: u64) -> (u32, u32) {
    (address as u32, (address >> 32) as u32)
}

impl Threads {
    /// A process was named or created.
    pub fn process(&mut self, pid: u32, parent: u32, name: Option<String>) {
        let process = self.processes.entry(pid).or_default();
        process.deleted = false;
        process.parent = Some(parent);
        if let Some(name) = name {
            process.name = name;
        }
    }

    /// A process ended.
    pub fn process_ends(&mut self, pid: u32, parent: u32, name: Option<String>) {
        self.process(pid, parent, name);
        if let Some(process) = self.processes.get_mut(&pid) {
            process.deleted = true;
            process.threads.values_mut().for_each(|t| t.deleted = true);
        }
    }

    /// A thread was named.
    pub fn thread_name(&mut self, pid: u32, tid: u32, name: String) {
        self.thread(pid, tid).name = name;
    }

    fn thread(&mut self, pid: u32, tid: u32) -> &mut Thread {
        self.processes.entry(pid).or_default().threads.entry(tid).or_default()
    }

    /// Something happened to a thread; its priority where that was recorded.
    pub fn thread_state(&mut self, pid: u32, tid: u32, priority: Option<u16>, deleted: bool) -> ContextId {
        let thread = self.thread(pid, tid);
        thread.deleted = deleted;
        thread.priority = priority.or(thread.priority);
        let id = self.contexts.intern(ContextKind::Thread, address(pid, tid));
        if let Some(priority) = priority {
            self.priorities.insert(id, priority);
        }
        id
    }

    fn on(&mut self, cpu: u8) -> &mut Running {
        self.cpus.entry(cpu).or_default()
    }

    /// A thread begins to run.
    pub fn runs(&mut self, cpu: u8, thread: ContextId) {
        self.calls(cpu);
        self.on(cpu).thread = Some(thread);
    }

    /// An interrupt begins.
    pub fn interrupt(&mut self, cpu: u8, number: u32) {
        let id = self.contexts.intern(ContextKind::Isr, u64::from(number));
        self.on(cpu).enter(id);
    }

    /// An interrupt ends: with it those that began inside it and whose end was not recorded.
    pub fn interrupt_ends(&mut self, cpu: u8, number: u32) {
        let id = self.contexts.find(ContextKind::Isr, u64::from(number));
        self.on(cpu).leave_to(id);
    }

    /// Only threads call the kernel: an interrupt whose end was not recorded is over.
    pub fn calls(&mut self, cpu: u8) {
        self.on(cpu).leave_all();
    }

    /// Events are missing: who runs is not known any more.
    pub fn forget(&mut self) {
        self.cpus.clear();
    }

    /// The context that runs on a processor, the one that it interrupted, and the thread's priority.
    pub fn now(&self, cpu: u8) -> (ContextId, Option<ContextId>, Option<u16>) {
        let (runs, interrupted) = self.cpus.get(&cpu).map_or((None, None), Running::now);
        // Only threads have one.
        let priority = runs.and_then(|thread| self.priorities.get(&thread).copied());
        (runs.unwrap_or(NO_CONTEXT), interrupted, priority)
    }

    /// Gives contexts their names, and lists processes and threads.
    pub fn finish(mut self) -> (Contexts, ObjectTable) {
        let mut objects = ObjectTable::default();
        for (pid, process) in &self.processes {
            let short = short(&process.name);
            objects.push(Object {
                address: u64::from(*pid),
                type_code: PROCESS,
                type_name: Some("process"),
                name: short.to_owned(),
                deleted: process.deleted,
                priority: None,
                param1: u64::from(process.parent.unwrap_or(0)),
                param2: 0,
                is_thread: false,
            });
            for (tid, thread) in &process.threads {
                let who = if short.is_empty() { pid.to_string() } else { short.to_owned() };
                let name =
                    if thread.name.is_empty() { format!("{who}:{tid}") } else { format!("{who}:{}", thread.name) };
                objects.push(Object {
                    address: address(*pid, *tid),
                    type_code: THREAD,
                    type_name: Some("thread"),
                    name: name.clone(),
                    deleted: thread.deleted,
                    priority: thread.priority,
                    param1: u64::from(*pid),
                    param2: u64::from(*tid),
                    is_thread: true,
                });
                if let Some(id) = self.contexts.find(ContextKind::Thread, address(*pid, *tid))
                    && let Some(context) = self.contexts.get_mut(id)
                {
                    context.name = Some(name.into());
                    context.has_process = true;
                }
            }
        }
        let isrs: Vec<ContextId> =
            self.contexts.iter().filter(|(_, c)| c.kind == ContextKind::Isr).map(|(id, _)| id).collect();
        for id in isrs {
            if let Some(context) = self.contexts.get_mut(id) {
                context.name = Some(format!("intr {}", context.address).into());
            }
        }
        (self.contexts, objects)
    }
}

/// The name of a process: the last part of its path.
fn short(path: &str) -> &str {
    path.rsplit('/').find(|part| !part.is_empty()).unwrap_or(path)
}
