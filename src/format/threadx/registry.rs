//! The object registry: what its entries mean, and which contexts they name.

use std::collections::HashSet;

use super::capture::Capture;
use super::header::{self, RegistryEntry};
use super::layout;
use super::prescan;
use crate::abi::Addr;
use crate::catalogue::{ArgKind, Catalogue, Product, threadx_object};
use crate::code::Code;
use crate::trace::{ContextKind, Contexts, Issue, Object, ObjectTable, Place, Trace};

/// The registry's entries with their addresses.
fn entries(capture: &Capture) -> impl Iterator<Item = (Addr, RegistryEntry<'_>)> {
    let layout = &capture.layout;
    let size = layout.object_size();
    capture.registry.chunks_exact(size).enumerate().map_while(move |(index, entry)| {
        let (_, entry) = header::entry(entry, layout.endian, layout.word, layout.name_size).ok()?;
        Some((layout.registry.wrapping_add(index.saturating_mul(size) as u64), entry))
    })
}

/// Every object that is or was registered.
pub(super) fn read(capture: &Capture, issues: &mut Vec<Issue>) -> ObjectTable {
    let mut table = ObjectTable::default();
    let mut unterminated: Vec<Addr> = Vec::new();
    for (address, entry) in entries(capture).filter(|(_, entry)| entry.kind != 0) {
        // What follows the terminator is a rest of an older name.
        let name = match entry.name.iter().position(|b| *b == 0) {
            Some(end) => entry.name.get(..end).unwrap_or(&[]),
            None => {
                unterminated.push(address);
                entry.name
            }
        };
        let known = threadx_object(u32::from(entry.kind));
        let is_thread = entry.kind == 1;
        let priority = (is_thread && entry.reserved1 & 0x80 != 0)
            .then(|| (u16::from(entry.reserved1 & 0x7F) << 8) | u16::from(entry.reserved2));
        table.push(Object {
            address: entry.pointer,
            type_code: u32::from(entry.kind),
            type_name: known.map(|t| t.name),
            name: String::from_utf8_lossy(name).into_owned(),
            deleted: entry.available != 0,
            priority,
            param1: entry.param1,
            param2: entry.param2,
            is_thread,
        });
    }
    if let Some(first) = unterminated.first() {
        issues.push(
            Issue::new(Code::NameUnterminated, "object names without an end are shown whole")
                .times(unterminated.len() as u64)
                .at(Place::address(*first)),
        );
    }
    table
}

/// Gives contexts their names: threads those of the registry, the live entry first.
pub(super) fn name_contexts(contexts: &mut Contexts, objects: &ObjectTable) {
    let threads = prescan::threads(objects);
    for context in contexts.iter_mut() {
        context.name = match context.kind {
            ContextKind::Isr => Some("ISR".into()),
            ContextKind::Init => Some("initialize".into()),
            ContextKind::Idle => Some("idle".into()),
            // Inferred, and marked so.
            ContextKind::Unknown => match context.address {
                0 => None,
                layout::CONTEXT_ISR => Some("ISR?".into()),
                address => threads.get(&address).map(|o| format!("{}?", o.name).into()),
            },
            ContextKind::Thread => {
                let name = threads.get(&context.address).map(|o| o.name.as_str());
                name.filter(|name| !name.is_empty()).map(Into::into)
            }
        };
    }
}

/// True where an entry was never used: the kernel takes it before any that was, so every object since the trace was
/// enabled is there.
pub(super) fn has_room(capture: &Capture) -> bool {
    entries(capture).any(|(_, entry)| entry.available == 1 && entry.kind == 0 && entry.pointer == 0)
}

/// The most objects that are counted: a damaged trace makes any number of them.
const COUNTED: usize = 1 << 16;

/// The kernel says nothing when an object finds no place in the registry. Where no entry is free, and events name objects
/// that have none, that is what happened.
pub(super) fn full(capture: &Capture, trace: &Trace, catalogue: &Catalogue) -> Option<Issue> {
    if entries(capture).any(|(_, entry)| entry.available != 0) {
        return None;
    }
    // What could not be read may name them all.
    let all = usize::try_from(capture.layout.objects).ok()?;
    if entries(capture).count() != all {
        return None;
    }
    let mut missing = HashSet::new();
    let mut first = None;
    for event in trace.events() {
        let context = trace.contexts.get(event.context).filter(|c| c.kind == ContextKind::Thread);
        // Of the kernel's own events: other products point to much that is never registered.
        let def = event.def.and_then(|d| catalogue.def(d)).filter(|d| d.product == Product::Tx);
        let pointed = def.into_iter().flat_map(|def| {
            let words = trace.words(&event).iter().enumerate();
            words.filter(|(i, _)| def.field(*i).is_some_and(|f| matches!(f.kind, ArgKind::Ptr | ArgKind::ThreadPtr)))
        });
        let addresses = context.map(|c| c.address).into_iter().chain(pointed.map(|(_, word)| *word));
        for address in addresses.filter(|a| *a != 0 && trace.objects.id_at(*a).is_none()) {
            first = first.or(Some((event.seq, address)));
            if missing.len() < COUNTED {
                missing.insert(address);
            }
        }
    }
    let (seq, address) = first?;
    let message = if all == 0 {
        "the registry was given no entries, so no object has a name in the trace (tx_trace_enable)".to_owned()
    } else {
        format!(
            "the registry is full ({all} entries): objects that events name are not in it (give tx_trace_enable more)"
        )
    };
    let count = missing.len() as u64;
    Some(Issue::new(Code::RegistryFull, message).times(count).at(Place {
        address: Some(address),
        offset: None,
        seq: Some(seq),
    }))
}
