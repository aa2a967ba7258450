//! What a trace's registry says of the kernel's objects.

use super::{Kind, Root};
use crate::abi::{Addr, Width};
use crate::trace::{Object, Trace};

/// The registry's name of an object. It may hold but the lower half of an address.
pub fn registered(trace: &Trace, address: Addr) -> Option<String> {
    let object = trace.objects.at(address & trace.about.word.max()).filter(|o| !o.deleted && !o.name.is_empty())?;
    Some(object.name.clone())
}

/// The control blocks that it names. Where it holds but the lower halves of addresses, the upper is taken to be that of
/// the trace: a reader of a control block there checks the word that it begins with.
pub fn registered_blocks(trace: &Trace) -> Vec<Root> {
    let upper = if trace.about.word == Width::W4 { trace.about.base.unwrap_or(0) & !Width::W4.max() } else { 0 };
    let root = |o: &Object| {
        let kind = Kind::ALL.into_iter().find(|k| Some(k.name().replace(' ', "_").as_str()) == o.type_name);
        (o.is_thread || kind.is_some()).then_some(Root { kind, address: o.address | upper })
    };
    trace.objects.iter().filter(|o| !o.deleted && o.address != 0).filter_map(root).collect()
}
