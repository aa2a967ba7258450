//! The created lists of the objects beside threads: from their heads, or from what else names their entries.

use super::check::{of_walk, overwritten};
use super::layout_match::{HEAD, Sources};
use super::object::Object;
use super::walk::{List, Walk};
use super::{About, Kernel, Kind, has_id, roots};
use crate::abi::Addr;
use crate::code::Code;
use crate::mem::Memory;
use crate::sym::Symbol;
use crate::trace::{Issue, Place, many};

impl Kernel {
    /// Reads the objects of one kind. True where no symbol points to their list, and they were found without it.
    pub(super) fn read_kind(
        &mut self,
        memory: &mut dyn Memory,
        about: &About<'_>,
        sources: &Sources<'_>,
        kind: Kind,
    ) -> bool {
        let Some(of) = self.layout.object(kind).cloned() else { return false };
        let list = List {
            shape: self.layout.shape,
            of: &of,
            id: kind.id(),
            members: ["id", "created_next", "created_previous"],
            len: [of.len, of.len],
        };
        let plural = format!("{} objects", kind.name());
        let symbol = about.symbols.lookup(&kind.head());
        let named = self.of_kind(memory, about, kind);
        let (walk, count) = match &symbol {
            // An application without such objects has no such list.
            None => (list.walk_from(memory, &named, &roots::of(sources.searched, Some(kind))), None),
            Some(symbol) => match sources.globals.list(memory, self.layout.shape, &kind.created()) {
                Ok((0, count)) if !named.is_empty() => {
                    let walk = list.walk_from(memory, &named, &[]);
                    if count == Some(0) {
                        self.not_created.extend(walk.nodes.iter().map(|node| node.address));
                    }
                    self.issues.push(self.head_is_zero(symbol, count, kind, &named, &walk));
                    (walk, None)
                }
                Ok((head, count)) => {
                    let mut walk = list.walk(memory, head);
                    let (closes, listed) = (count.is_some() && walk.closes(count), walk.nodes.len());
                    let more = list.add_left_out(memory, &mut walk, &named);
                    if closes {
                        self.not_created.extend(walk.nodes.iter().skip(listed).map(|node| node.address));
                    }
                    if more > 0 {
                        self.issues.push(left_out(symbol, &plural, more));
                    }
                    // What was added is not counted.
                    (walk, count.filter(|_| !closes))
                }
                Err(why) => {
                    let message = format!("the list of {plural} cannot be read: {why}");
                    self.issues.push(Issue::new(Code::KernelUnreadable, message));
                    return false;
                }
            },
        };
        let counter = about.symbols.lookup(&format!("{}_count", kind.created())).map(|symbol| symbol.address);
        self.issues.extend(of_walk(&walk, &plural, count, counter));
        self.overwritten.extend(overwritten(&walk, Some(kind), about.names));
        self.created_twice.extend(walk.twice.map(|object| (Some(kind), object)));
        let read = walk.nodes.iter().map(|node| Object::read(memory, &self.layout, kind, node, about.names));
        let read: Vec<Object> = read.collect();
        self.objects.extend(read);
        symbol.is_none() && !walk.nodes.is_empty()
    }

    /// Control blocks of one kind that a waiting thread or the trace's registry names, and that begin as one does.
    fn of_kind(&self, memory: &mut dyn Memory, about: &About<'_>, kind: Kind) -> Vec<Addr> {
        let waits = self.threads.iter().filter_map(|t| t.suspended_on()).filter(|(k, _)| *k == kind).map(|(_, at)| at);
        let mut named: Vec<Addr> = waits.chain(roots::of(about.registered, Some(kind))).collect();
        let mut seen = std::collections::HashSet::new();
        named.retain(|at| *at != 0 && seen.insert(*at) && has_id(memory, &self.layout, *at, kind));
        named
    }

    /// The head of a list is 0 though there is such an object.
    fn head_is_zero(&self, symbol: &Symbol, count: Option<u64>, kind: Kind, named: &[Addr], walk: &Walk) -> Issue {
        // Those that threads wait for come first.
        let at = named.first().copied().unwrap_or_default();
        let why = match self.threads.iter().find(|t| t.suspended_on() == Some((kind, at))) {
            Some(thread) => format!("thread {} waits for the {} at {at:#x}", thread.label(), kind.name()),
            None => format!("the trace's registry names the {} at {at:#x}", kind.name()),
        };
        let message = format!(
            "{} is 0{}, yet {why}: the variable was overwritten, the ELF is of another build, or it is left over from before the last start; {} were found from there",
            symbol.name,
            count.map_or(String::new(), |n| format!(" (the kernel counts {n})")),
            walk.nodes.len()
        );
        Issue::new(Code::KernelDamaged, message).at(Place::address(symbol.address))
    }

    /// Threads that were found though no symbol points to them.
    pub(super) fn found_blind(&self, named: &[Addr]) -> Issue {
        let by_registry = self.threads.iter().any(|t| named.contains(&t.address));
        let message = format!(
            "no symbol {}: {} found {}; there may be more",
            HEAD,
            many(self.threads.len() as u64, "thread was", "threads were"),
            if by_registry { "through the trace's registry" } else { "by a search of memory for their ids" }
        );
        Issue::new(Code::NoKernelSymbol, message)
    }

    /// Other objects that were found in the same way.
    pub(super) fn found_without(&self, kinds: &[Kind], blind: bool) -> Option<Issue> {
        let found = self.objects.iter().filter(|o| kinds.contains(&o.kind)).count();
        let names: Vec<&str> = kinds.iter().map(|k| k.name()).collect();
        (found > 0).then(|| {
            let message = format!(
                "no symbols of the lists of {}: {} found through the trace's registry, the threads that wait for them{}; there may be more",
                names.join(", "),
                many(found as u64, "object was", "objects were"),
                if blind { " or a search of memory for their ids" } else { "" }
            );
            Issue::new(Code::NoKernelSymbol, message)
        })
    }
}

/// A list that closes and leaves out what something names.
fn left_out(symbol: &Symbol, plural: &str, more: usize) -> Issue {
    let message = format!(
        "the list of {plural} at {} leaves out {more} that a waiting thread or the trace's registry names: they were added",
        symbol.name
    );
    Issue::new(Code::KernelDamaged, message).at(Place::address(symbol.address))
}
