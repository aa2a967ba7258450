//! Control blocks and lists that contradict themselves: the kernel's reader has found them.

use super::super::graph::Graph;
use super::super::{Case, Confidence, Evidence, Finding};
use crate::code::Code;
use crate::explain;
use crate::trace::{Issue, Severity};

pub(super) fn find(case: &Case<'_>, _: &Graph) -> Vec<Finding> {
    let Some(kernel) = case.kernel else { return Vec::new() };
    let damaged = kernel.issues.iter().filter(|issue| issue.code == Code::KernelDamaged);
    damaged.map(|issue| finding(issue, case)).collect()
}

fn finding(issue: &Issue, case: &Case<'_>) -> Finding {
    let claimed = if issue.severity == Severity::Lost { Confidence::Likely } else { Confidence::Hint };
    let (confidence, detractors) = case.cap(claimed);
    let evidence = issue.place.address.map(|at| Evidence::memory(at, issue.message.clone()));
    Finding {
        code: explain::Code::CorruptControlBlock,
        claim: issue.message.clone(),
        confidence,
        detractors,
        evidence: evidence.into_iter().collect(),
        explains: Vec::new(),
        next: "look at what lies in front of it in memory: it was probably written over its end".to_owned(),
        threads: Vec::new(),
        behind: Vec::new(),
    }
}
