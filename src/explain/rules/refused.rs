//! Calls of the kernel in a function that fail as things are: a message to a full queue, memory of an empty pool. An assertion in that
//! function may check what such a call returned.
//!
//! Against it: the assertion may check something else.

use super::super::graph::Graph;
use super::super::state::Does;
use super::super::usage::User;
use super::super::{Case, Evidence, Finding};
use super::by_code;
use super::words::{function_at, place_at};
use crate::abi::Addr;
use crate::kernel::{Kind, Object};

/// What speaks against it.
const AGAINST: &str = "that the condition is about this call is inferred from the program's code";

/// Such a call.
pub(super) struct Refused {
    words: String,
    evidence: Vec<Evidence>,
}

impl Refused {
    /// The first of a function that a thread is in.
    pub fn of(pc: Addr, thread: Addr, case: &Case<'_>, graph: &Graph) -> Option<Self> {
        let (usage, kernel) = (case.usage()?, case.kernel?);
        let function = case.look.function(pc & !1)?.address & !1;
        let is_there = |at: Addr| case.look.function(at).is_some_and(|of| of.address & !1 == function);
        let calls = usage.calls_of(User::Thread(thread)).into_iter().filter(|call| is_there(call.at));
        calls.into_iter().find_map(|call| {
            let object = kernel.object(call.object?)?;
            let why = why(call.service()?.as_str(), object, case, graph)?;
            let words = format!("{} calls {} there, and {why}", function_at(call.at, case), call.service()?);
            let shown = Evidence::memory(
                object.address,
                format!("{}: {}", case.object(object.address), object.state(&|_| String::new())),
            );
            let site =
                Evidence::symbol(call.at, &place_at(call.at, case), format!("{} is called here", call.service()?));
            Some(Self { words, evidence: vec![site, shown] })
        })
    }
}

/// Why a call fails now.
fn why(service: &str, object: &Object, case: &Case<'_>, graph: &Graph) -> Option<String> {
    let label = case.object(object.address);
    match (service, object.kind) {
        ("tx_queue_send" | "tx_queue_front_send", Kind::Queue) => {
            object.get("available_storage").filter(|room| *room == 0)?;
            Some(format!("{label} is full{}", reader(object.address, case, graph)))
        }
        ("tx_block_allocate", Kind::BlockPool) => {
            object.get("available").filter(|free| *free == 0)?;
            Some(format!("{label} has no free block"))
        }
        _ => None,
    }
}

/// `: journal, which alone reads it, sleeps in nor_wait (flash.c:82)`.
fn reader(queue: Addr, case: &Case<'_>, graph: &Graph) -> String {
    let Some(task) = by_code::only_reader(queue, case).and_then(|reader| graph.tasks.at(reader)) else {
        return String::new();
    };
    let place = case.cpus.and_then(|cpus| cpus.call(task.address)).map(|call| format!(" in {}", call.label()));
    let does = match (task.does, task.wait) {
        (Does::Sleeps, _) => format!("sleeps{}", place.unwrap_or_default()),
        (Does::Waits, Some(wait)) => format!("waits for {}", case.object(wait.object)),
        (Does::Ready, _) => "is ready and has not read it yet".to_owned(),
        (does, _) => match does.gone() {
            Some(gone) => gone.to_owned(),
            None => return String::new(),
        },
    };
    format!(": {}, which alone reads it, {does}", case.label(task.address))
}

impl Finding {
    /// The same with a call that fails in the function where an assertion did.
    pub(super) fn with_refused(self, refused: Option<Refused>) -> Self {
        let Some(Refused { words, evidence }) = refused else { return self };
        let claim = format!("{}; {words}", self.claim);
        Self { claim, ..self }.against([AGAINST]).evidence(evidence)
    }
}
