//! What the target's memory holds already: control blocks, stacks, flash. Read before something is written to it.

use super::state::Header;
use crate::abi::Addr;
use crate::format::Absence;
use crate::kernel::{Kernel, Kind, Layout, THREAD_ID};
use crate::mem::Region;
use crate::rsp::client::MapKind;
use crate::session::Session;

/// Memory that belongs to something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// What it belongs to, for people.
    pub what: String,
    /// Where it lies.
    pub region: Region,
}

/// True where two stretches share a byte.
pub const fn overlap(a: Region, b: Region) -> bool {
    a.start < b.start.saturating_add(b.len) && b.start < a.start.saturating_add(a.len)
}

/// True where all of `inner` lies in `outer`.
pub const fn within(inner: Region, outer: Region) -> bool {
    outer.start <= inner.start && inner.start.saturating_add(inner.len) <= outer.start.saturating_add(outer.len)
}

/// Control blocks and stacks.
#[derive(Debug, Default)]
pub struct Owners {
    /// Control blocks that the kernel's lists or the trace's registry lead to, and that begin as one.
    pub blocks: Vec<Owner>,
    /// Stacks of threads.
    pub stacks: Vec<Owner>,
}

impl Owners {
    /// Looks: the kernel's lists first, then the registry of the trace, which may have more, or be all there is.
    pub fn read(session: &mut Session<'_>, header: Option<&Header>, registry: &[Addr]) -> Self {
        let mut owners = Self::default();
        // A kernel whose lists cannot be read has its registry still.
        let kernel = session.objects(&|_| None).ok();
        if let Some(kernel) = &kernel {
            owners.add(kernel);
        }
        let guessed = || header.and_then(|h| Layout::measured(Some(h.endian), Some(h.word)).into_iter().next());
        if let Some(layout) = kernel.map(|k| k.layout).or_else(guessed) {
            owners.add_registered(session, registry, &layout);
        }
        owners
    }

    fn add(&mut self, kernel: &Kernel) {
        for thread in &kernel.threads {
            let label = thread.label();
            let block = Region { start: thread.address, len: kernel.layout.head_len() };
            self.blocks.push(Owner { what: format!("the control block of thread {label}"), region: block });
            // A stack that does not hold its own stack pointer is none.
            let sane = thread.stack.pointer.is_none_or(|p| thread.stack.holds(p));
            if let Some((start, len)) = thread.stack.start.zip(thread.stack.size).filter(|_| sane) {
                self.stacks.push(Owner { what: format!("the stack of thread {label}"), region: Region { start, len } });
            }
        }
        for object in &kernel.objects {
            let name = object.name.as_deref().unwrap_or("without a name");
            self.add_block(object.address, object.kind.name(), name, kernel.layout.object(object.kind).map(|s| s.len));
        }
    }

    fn add_block(&mut self, start: Addr, kind: &str, name: &str, len: Option<u64>) {
        let Some(len) = len else { return };
        self.blocks.push(Owner { what: format!("the control block of {kind} {name}"), region: Region { start, len } });
    }

    /// Adds what the registry names and the lists do not, where it begins as a control block does.
    fn add_registered(&mut self, session: &mut Session<'_>, registry: &[Addr], layout: &Layout) {
        let word = layout.shape.word;
        let new = |at: &&Addr| self.blocks.iter().all(|b| b.region.start != **at);
        let wanted: Vec<(Addr, usize)> = registry.iter().filter(new).map(|at| (*at, word.bytes())).collect();
        let read = session.parts().0.read_batch(&wanted);
        for ((at, _), bytes) in wanted.into_iter().zip(read) {
            let id = bytes.ok().and_then(|b| layout.shape.endian.word(word, &b, 0));
            match id.map(|id| (id, Kind::of_id(id))) {
                Some((THREAD_ID, _)) => self.add_block(at, "a", "thread", Some(layout.head_len())),
                Some((_, Some(kind))) => {
                    self.add_block(at, "a", kind.name(), layout.object(kind).map(|s| s.len));
                }
                _ => {}
            }
        }
    }
}

/// What the stub calls flash or ROM. What it calls RAM is no proof: OpenOCD calls everything else so.
///
/// # Errors
/// Of the link.
pub fn read_only(session: &mut Session<'_>) -> Result<Vec<Region>, Absence> {
    let Some(remote) = session.remote_mut() else { return Ok(Vec::new()) };
    let map = remote.client_mut().memory_map().map_err(|e| Absence::broken(e.code(), e.to_string(), ""))?;
    let fixed = map.unwrap_or_default().into_iter().filter(|r| r.kind != MapKind::Ram);
    Ok(fixed.map(|r| Region { start: r.start, len: r.len }).collect())
}
