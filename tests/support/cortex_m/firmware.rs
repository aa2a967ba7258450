//! The program on the chip: it stores ThreadX trace events, word by word in the kernel's order. A halt may come between
//! any two stores.
//!
//! Event number n is a user event (4096) with n, !n, n * 2654435761 and "STRM"; each eighth is a `tx_queue_send` (69)
//! with n in its last word.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::Path;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use super::super::machine::symbol;
use super::chip::{Chip, Shared, State, Stats};

const NO_THREAD: u32 = u32::MAX;
const OBJECTS: u32 = 8;
const MARK: u32 = 0x5354_524D;

// The kernel's variables.
const THREAD: &str = "_tx_thread_current_ptr";
const HEADER: &str = "_tx_trace_header_ptr";
const REGISTRY_START: &str = "_tx_trace_registry_start_ptr";
const REGISTRY_END: &str = "_tx_trace_registry_end_ptr";
const START: &str = "_tx_trace_buffer_start_ptr";
const END: &str = "_tx_trace_buffer_end_ptr";
const CURRENT: &str = "_tx_trace_buffer_current_ptr";
const ENABLED: &str = "_tx_trace_event_enable_bits";
const ENTRIES: &str = "_tx_trace_total_registry_entries";
const FREE_ENTRIES: &str = "_tx_trace_available_registry_entries";
const SEARCH: &str = "_tx_trace_registry_search_start";

/// A trace buffer of the simulator's own.
#[derive(Clone, Copy)]
pub struct Ring {
    pub address: u32,
    pub events: u32,
}

/// Why the program goes no further.
enum Stop {
    Reset,
    End,
}

type Counter = fn(&mut Stats) -> &mut u32;

pub struct Firmware {
    shared: Arc<Shared>,
    /// Where the kernel's variables are.
    addresses: BTreeMap<&'static str, u32>,
    ring: Option<Ring>,
    boots: u32,
}

impl Firmware {
    /// A program whose trace is enabled.
    pub fn new(shared: Arc<Shared>, elf: &Path, ring: Option<Ring>) -> Self {
        let pointers = [THREAD, HEADER, REGISTRY_START, REGISTRY_END, START, END, CURRENT];
        let names = pointers.into_iter().chain([ENABLED, ENTRIES, FREE_ENTRIES, SEARCH]);
        let addresses = names.map(|name| (name, symbol(elf, name) as u32)).collect();
        let this = Self { shared, addresses, ring, boots: 0 };
        let stores = this.enable_trace(&mut this.shared.lock());
        for (at, word) in stores {
            this.shared.lock().poke(at, word);
        }
        this
    }

    /// Runs until the test ends.
    pub fn run(mut self) {
        let mut started = true;
        loop {
            let Err(stop) = self.work(started);
            match stop {
                Stop::End => return,
                Stop::Reset => started = false,
            }
            self.boots = self.shared.lock().boots;
        }
    }

    /// Waits until the core runs.
    fn running(&self) -> Result<MutexGuard<'_, Chip>, Stop> {
        let mut chip = self.shared.lock();
        loop {
            if chip.ended {
                return Err(Stop::End);
            }
            if chip.boots != self.boots {
                return Err(Stop::Reset);
            }
            if chip.state() == State::Running {
                return Ok(chip);
            }
            chip = self.shared.wait(chip, Duration::from_secs(1));
        }
    }

    fn store(&self, at: u32, word: u32) -> Result<(), Stop> {
        let mut chip = self.running()?;
        chip.poke(at, word);
        let stall = chip.pace.stall;
        drop(chip);
        if !stall.is_zero() {
            self.shared.sleep(stall);
        }
        Ok(())
    }

    fn load(&self, name: &str) -> Result<u32, Stop> {
        Ok(self.running()?.peek(self.addresses[name]))
    }

    fn work(&self, started: bool) -> Result<Infallible, Stop> {
        if !started {
            self.boot()?;
        }
        let mut due = 0.0;
        let mut before = self.running()?.ran();
        loop {
            let mut chip = self.running()?;
            chip.reach_breakpoint();
            let (rate, now) = (f64::from(chip.pace.rate), chip.ran());
            // Never more than a short while to catch up.
            due = (due + (now - before).as_secs_f64() * rate).min(rate / 10.0);
            before = now;
            if chip.pace.burst > 0 {
                chip.pace.burst -= 1;
            } else if due >= 1.0 {
                due -= 1.0;
            } else {
                let pause = ((1.0 - due) / rate.max(1.0)).clamp(50e-6, 10e-3);
                drop(self.shared.wait(chip, Duration::from_secs_f64(pause)));
                continue;
            }
            let n = chip.stats.next;
            drop(chip);
            let counter = if n % 8 == 7 {
                self.insert(69, 0x40, [0x2000_1000, 0x2000_1100, u32::MAX, n])?
            } else {
                self.insert(4096, 0x8000_0000, [n, !n, n.wrapping_mul(2_654_435_761), MARK])?
            };
            let stats = &mut self.running()?.stats;
            *counter(stats) += 1;
            stats.next = n + 1;
        }
    }

    /// What the start-up code and `main` do: the kernel's variables are zero for a while.
    fn boot(&self) -> Result<(), Stop> {
        for name in [CURRENT, HEADER, REGISTRY_START, REGISTRY_END, START, END] {
            self.store(self.addresses[name], 0)?;
        }
        let began = self.running()?.ran();
        while self.running()?.ran() - began < Duration::from_millis(50) {
            drop(self.shared.wait(self.running()?, Duration::from_millis(5)));
        }
        let stores = self.enable_trace(&mut *self.running()?);
        stores.into_iter().try_for_each(|(at, word)| self.store(at, word))
    }

    /// The stores of `tx_trace_enable`, with one thread in the registry.
    fn enable_trace(&self, chip: &mut Chip) -> Vec<(u32, u32)> {
        let Some(Ring { address: header, events }) = self.ring else { return Vec::new() };
        let variables = |pairs: &[(&str, u32)]| pairs.iter().map(|(n, v)| (self.addresses[n], *v)).collect::<Vec<_>>();
        let registry = header + 48;
        let start = registry + OBJECTS * 48;
        let end = start + events * 32;
        let mut stores = variables(&[(HEADER, header), (REGISTRY_START, registry), (REGISTRY_END, start)]);
        stores.extend(variables(&[(ENTRIES, OBJECTS), (FREE_ENTRIES, OBJECTS - 1), (SEARCH, 1)]));
        stores.extend((0..OBJECTS).flat_map(|i| [(registry + i * 48, 1), (registry + i * 48 + 4, 0)]));
        stores.extend(variables(&[(START, start), (END, end)]));
        stores.extend((0..events).map(|i| (start + i * 32, 0)));
        // Two halfwords: nothing, and the size of names.
        let name_size = if chip.big_endian { 32 } else { 32 << 16 };
        let words = [0x5458_5442, u32::MAX, header, registry, name_size, start, start, end, start];
        let words = words.into_iter().chain([0xAAAA_AAAA, 0xBBBB_BBBB, 0xCCCC_CCCC]);
        stores.extend((0..).map(|i| header + 4 * i).zip(words));
        // The thread's entry: in use, type 1, priority 5; its stack; its name.
        let thread = chip.peek(self.addresses[THREAD]);
        stores.extend([
            (registry, 0x0580_0100),
            (registry + 4, thread),
            (registry + 8, 0x2000_7000),
            (registry + 12, 1024),
        ]);
        let name = chip.peek(thread + 40);
        stores.extend((0..8).map(|i| (registry + 16 + 4 * i, chip.peek(name + 4 * i))));
        stores.extend(variables(&[(ENABLED, u32::MAX), (CURRENT, start)]));
        stores
    }

    /// What the kernel's `TX_TRACE_IN_LINE_INSERT` does; returns the counter of what happened to the event.
    fn insert(&self, id: u32, class: u32, words: [u32; 4]) -> Result<Counter, Stop> {
        let (at, enabled) = (self.load(CURRENT)?, self.load(ENABLED)?);
        if at == 0 {
            return Ok(|stats| &mut stats.paused);
        }
        if enabled & class == 0 {
            return Ok(|stats| &mut stats.masked);
        }
        let thread = self.load(THREAD)?;
        let (context, priority) = if thread == 0 { (NO_THREAD, 0) } else { (thread, 0x8005_0005) };
        let cycles = self.running()?.cycles();
        let words = [context, priority, id, cycles].into_iter().chain(words);
        for (at, word) in (0..).map(|i| at + 4 * i).zip(words) {
            self.store(at, word)?;
        }
        let next = if at + 32 >= self.load(END)? { self.load(START)? } else { at + 32 };
        self.store(self.addresses[CURRENT], next)?;
        let header = self.load(HEADER)?;
        self.store(header + 32, next)?;
        Ok(|stats| &mut stats.events)
    }
}
