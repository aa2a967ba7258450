//! Which function of a backtrace is the application's: the first that is neither of the kernel nor of the C library.

use std::collections::HashSet;

use super::Function;
use crate::abi::Addr;
use crate::kernel::{Kernel, PREFIX, Thread};
use crate::report::StateKind;
use crate::sym::Symbols;
use crate::sym::dwarf::{Lines, SourceUnit};
use crate::unwind::{Frame, Origin};

/// What names of ThreadX's functions begin with.
const KERNEL: [&str; 6] = ["_tx_", "_txe_", "_txr_", "_txm_", "_txme_", "__tx_"];
/// The control block of the thread that runs the kernel's timers.
const TIMER_THREAD: &str = "_tx_timer_thread";
/// Parts of the paths from which C libraries, and the libraries of compilers, are built.
const LIBRARIES: [&str; 11] =
    ["newlib", "libc", "libgcc", "libm", "libgloss", "picolibc", "glibc", "musl", "uclibc", "compiler-rt", "libc++"];
/// Functions of C that a thread may be interrupted in, and that come without debug information or from the application.
const FUNCTIONS: [&str; 24] = [
    "memcpy",
    "memmove",
    "memset",
    "memcmp",
    "memchr",
    "strlen",
    "strnlen",
    "strcmp",
    "strncmp",
    "strcpy",
    "strncpy",
    "strcat",
    "strchr",
    "strstr",
    "printf",
    "sprintf",
    "snprintf",
    "vprintf",
    "vsnprintf",
    "malloc",
    "calloc",
    "realloc",
    "free",
    "abort",
];
/// What the names of functions begin with that the Arm ABI asks of a library.
const ABI: &str = "__aeabi_";

/// True for the name of a function of ThreadX.
pub fn is_of_kernel(name: &str) -> bool {
    KERNEL.iter().any(|prefix| name.starts_with(prefix))
}

/// A frame with its functions: several where the compiler put one into the other.
pub(super) struct Place<'a> {
    pub origin: Origin,
    pub functions: &'a [Function],
    pub unit: Option<SourceUnit>,
}

/// What is the kernel's code, beyond what its names show.
pub(super) struct KernelCode {
    units: HashSet<usize>,
    /// True where a thread that waits is in it: the names of another kernel are not known, and units only where there is debug
    /// information.
    is_known: bool,
}

impl KernelCode {
    /// The kernel's units are those that define its variables, and those in which threads wait: a thread that waits was
    /// switched away from in the kernel. A unit with the entry of one of the application's threads is none of them.
    pub(super) fn find(
        kernel: &Kernel,
        symbols: &dyn Symbols,
        lines: &Lines<'_>,
        load: &dyn Fn(Addr) -> Addr,
        all: &[(Option<&Thread>, Vec<Place<'_>>)],
    ) -> Self {
        let timer = symbols.lookup(TIMER_THREAD).map(|symbol| symbol.address);
        let entries: Vec<Addr> = kernel
            .threads
            .iter()
            .filter(|thread| Some(thread.address) != timer)
            .filter_map(|thread| thread.entry.map(|entry| load(entry & !1)))
            .collect();
        let applications: HashSet<usize> = lines.units(&entries, PREFIX).into_iter().flatten().map(|u| u.id).collect();
        let mut units = HashSet::new();
        let waits = |thread: &Option<&Thread>| thread.is_some_and(|thread| thread.state_kind() == StateKind::Blocked);
        for (thread, places) in all {
            let own = places.first().filter(|_| waits(thread)).and_then(|place| place.unit.as_ref());
            units.extend(own.map(|unit| unit.id));
            units.extend(places.iter().filter_map(|place| place.unit.as_ref()).filter(|u| u.defines).map(|u| u.id));
        }
        units.retain(|unit| !applications.contains(unit));
        let code = Self { units, is_known: true };
        let is_within = |place: &Place<'_>| place.functions.iter().any(|function| code.holds(function, place));
        let mut waiting = all.iter().filter(|(thread, _)| waits(thread)).filter_map(|(_, places)| places.first());
        // One of them may wait where an interrupt has called the kernel in its place.
        let is_known = waiting.clone().next().is_none() || waiting.any(is_within);
        Self { is_known, ..code }
    }

    fn holds(&self, function: &Function, place: &Place<'_>) -> bool {
        let named = function.name.as_deref().is_some_and(is_of_kernel);
        named || place.unit.as_ref().is_some_and(|unit| self.units.contains(&unit.id))
    }

    /// The application's function that called the kernel or the C library, or that was stopped itself. `None` where it is not
    /// known for certain.
    pub(super) fn called_from(&self, thread: &Thread, places: &[Place<'_>]) -> Option<Function> {
        if !self.is_known || thread.position.never_ran || thread.position.registers.is_none() {
            return None;
        }
        // What is before the last exception is that of its handler.
        let first = places.iter().rposition(|place| place.origin == Origin::Exception).unwrap_or_default();
        let own = places.get(first..)?;
        for place in own {
            if place.origin == Origin::Found {
                return None;
            }
            let outside = |function: &&Function| !self.holds(function, place) && !is_library(function, place);
            if let Some(function) = place.functions.iter().find(outside) {
                // A frame of which nothing is known may be of either.
                return function.name.is_some().then(|| function.clone());
            }
        }
        None
    }
}

fn is_library(function: &Function, place: &Place<'_>) -> bool {
    let name = function.name.as_deref().unwrap_or_default();
    if name.starts_with(ABI) || FUNCTIONS.contains(&name) {
        return true;
    }
    let of_library = |part: &str| LIBRARIES.iter().any(|l| part == *l || part.strip_prefix(l).is_some_and(is_version));
    place.unit.as_ref().is_some_and(|unit| unit.path.split(['/', '\\']).any(of_library))
}

/// `-4.3.0`.
fn is_version(text: &str) -> bool {
    text.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// A frame, its functions, and the unit that it was compiled in.
pub(super) fn place<'a>(frame: &Frame, functions: &'a [Function], unit: Option<SourceUnit>) -> Place<'a> {
    Place { origin: frame.origin, functions, unit }
}
