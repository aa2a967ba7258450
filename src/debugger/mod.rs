//! What a debugger sees of a stopped target: the kernel's threads with their registers, and the documents that describe
//! both. Knows no packets.

mod describe;
mod from_kernel;
mod live;
mod thread_list;

pub use describe::{memory_map_xml, piece, threads_json, threads_xml};
pub use from_kernel::Stopped;
pub use live::{runs_on, while_it_stops, without_kernel};
pub use thread_list::{ListedThread, MAX_THREADS, Thread, ThreadList};
