//! Which threads run, read again after a step: a few bytes, where all other control blocks stay unread.

use super::globals::{Globals, each_core};
use super::{Kernel, THREAD_ID, Thread};
use crate::abi::{Addr, Width};
use crate::mem::{Memory, Region};
use crate::sym::Symbols;

impl Kernel {
    /// Reads again which threads run, and compares their control blocks with what is known of them. False where that does
    /// not agree: then all is to be read again. `memory` is asked for the variables and the control blocks together.
    pub fn refresh_running(&mut self, memory: &mut dyn Memory, symbols: &dyn Symbols) -> bool {
        let shape = self.layout.shape;
        let Ok(len) = usize::try_from(self.layout.thread.len) else { return false };
        let mut wanted: Vec<(Addr, usize)> = self.current.iter().filter(|at| **at != 0).map(|at| (*at, len)).collect();
        wanted.extend(variables(symbols, shape.pointer));
        drop(memory.read_batch(&wanted));
        let globals = Globals::new(symbols);
        let current = globals.each_core(memory, shape, "_tx_thread_current_ptr", shape.pointer);
        let execute = globals.each_core(memory, shape, "_tx_thread_execute_ptr", shape.pointer);
        let system_state = globals.each_core(memory, shape, "_tx_thread_system_state", shape.word);
        if current.len() != self.current.len() || system_state.len() != self.system_state.len() {
            return false;
        }
        if !current.iter().all(|at| *at == 0 || self.is_unchanged(*at, len, memory)) {
            return false;
        }
        (self.current, self.execute, self.system_state) = (current, execute, system_state);
        true
    }

    /// True for a thread that is known, and whose control block still names the same stack.
    fn is_unchanged(&self, address: Addr, len: usize, memory: &mut dyn Memory) -> bool {
        let Some(thread) = self.thread(address) else { return false };
        let Ok(bytes) = memory.read_bytes(address, len) else { return false };
        let get = |name: &str| self.layout.thread.get(&bytes, self.layout.shape.endian, name);
        get("tx_thread_id") == Some(THREAD_ID)
            && get("tx_thread_stack_start") == thread.stack.start
            && get("tx_thread_stack_size") == thread.stack.size
    }
}

impl Thread {
    /// True where the members that name its stack agree with each other.
    pub fn is_sound(&self) -> bool {
        self.stack.region().and_then(Region::last) == self.stack_end && self.stack_end.is_some()
    }
}

/// The variables that show which threads run.
fn variables(symbols: &dyn Symbols, pointer: Width) -> Vec<(Addr, usize)> {
    let names = ["_tx_thread_current_ptr", "_tx_thread_execute_ptr", "_tx_thread_system_state"];
    let found = names.into_iter().filter_map(|name| symbols.lookup(name));
    found.flat_map(|symbol| each_core(&symbol, pointer)).map(|at| (at, pointer.bytes())).collect()
}
