//! Which way a thread waits for a full queue: to put a message, or to take one. The kernel's fields are the same for both. A
//! thread that waits to take one from a queue that is full is a contradiction: the queue's list of waiting threads was damaged.

use super::{Kernel, Kind};
use crate::abi::{Addr, Endian, Width};
use crate::mem::Memory;
use crate::sym::Symbols;

/// The most bytes of a stack that are looked at: the call is near its end.
const LOOKED: u64 = 256;

impl Kernel {
    /// Finds it by the function of the kernel that the thread has called.
    pub fn find_directions(&mut self, memory: &mut dyn Memory, symbols: &dyn Symbols) {
        let shape = self.layout.shape;
        let full = |object: &&super::Object| object.kind == Kind::Queue && object.get("available_storage") == Some(0);
        let full: Vec<Addr> = self.objects.iter().filter(full).map(|queue| queue.address).collect();
        for thread in self.threads.iter_mut().filter(|thread| thread.core.is_none() && thread.pthread.is_none()) {
            let Some(sp) = thread.saved.filter(|sp| thread.holds(*sp)) else { continue };
            let ends = thread.stacks().filter(|stack| stack.contains(sp)).find_map(|s| s.start.checked_add(s.len));
            let Some(wait) = thread.waits.as_mut().filter(|wait| full.contains(&wait.address)) else { continue };
            let len = ends.and_then(|end| end.checked_sub(sp)).unwrap_or(0).min(LOOKED);
            let bytes = usize::try_from(len).ok().and_then(|len| memory.read_bytes(sp, len).ok());
            let words = bytes.map(|bytes| words(&bytes, shape.pointer, shape.endian)).unwrap_or_default();
            let name = |word: &Addr| symbols.function(word & !1).map(|function| function.name);
            wait.sends = words.iter().filter_map(name).find_map(|name| sends(&name));
            if wait.sends == Some(false) {
                wait.more = "full, and it waits for a message".to_owned();
            }
        }
    }
}

fn words(bytes: &[u8], width: Width, endian: Endian) -> Vec<Addr> {
    bytes.chunks_exact(width.bytes()).filter_map(|word| endian.word(width, word, 0)).collect()
}

/// Whether a function of the kernel puts a message; `None` for others.
fn sends(function: &str) -> Option<bool> {
    match function.strip_prefix("_tx_").or_else(|| function.strip_prefix("_txe_"))? {
        "queue_receive" => Some(false),
        "queue_send" | "queue_front_send" => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread in `tx_queue_receive` of a full queue was said to wait for room in it.
    #[test]
    fn a_receiver_of_a_full_queue_waited_for_room() {
        assert_eq!(sends("_tx_queue_receive"), Some(false));
        assert_eq!((sends("_txe_queue_send"), sends("_tx_queue_front_send")), (Some(true), Some(true)));
        assert_eq!((sends("queue_send"), sends("_tx_queue_flush")), (None, None));
    }
}
