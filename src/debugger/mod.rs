//! What a debugger sees of a stopped target: the kernel's threads with their registers, and the documents that describe
//! both. Knows no packets.

mod describe;
mod from_kernel;
mod thread_list;

pub use describe::{memory_map_xml, threads_json, threads_xml};
pub use from_kernel::Stopped;
pub use thread_list::{ListedThread, MAX_THREADS, Thread, ThreadList};
