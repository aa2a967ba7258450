//! The program on the chip: it stores ThreadX trace events, word by word in the kernel's order. A halt may come between
//! any two stores.
//!
//! Event number n is a user event (4096) with n, !n, n * 2654435761 and "STRM"; each eighth is a `tx_queue_send` (69)
//! with n in its last word.

use std::convert::Infallible;
use std::path::Path;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use super::chip::{Chip, Shared, State, Stats};
use crate::machine::symbol;

const NO_THREAD: u32 = u32::MAX;
const OBJECTS: u32 = 8;
const MARK: u32 = 0x5354_524D;

/// Where the kernel keeps its trace.
#[derive(Clone, Copy)]
struct Kernel {
    header: u32,
    registry_start: u32,
    registry_end: u32,
    start: u32,
    end: u32,
    current: u32,
    enabled: u32,
    entries: u32,
    free_entries: u32,
    search: u32,
    thread: u32,
}

impl Kernel {
    fn of(elf: &Path) -> Self {
        let at = |name: &str| symbol(elf, name) as u32;
        Self {
            header: at("_tx_trace_header_ptr"),
            registry_start: at("_tx_trace_registry_start_ptr"),
            registry_end: at("_tx_trace_registry_end_ptr"),
            start: at("_tx_trace_buffer_start_ptr"),
            end: at("_tx_trace_buffer_end_ptr"),
            current: at("_tx_trace_buffer_current_ptr"),
            enabled: at("_tx_trace_event_enable_bits"),
            entries: at("_tx_trace_total_registry_entries"),
            free_entries: at("_tx_trace_available_registry_entries"),
            search: at("_tx_trace_registry_search_start"),
            thread: at("_tx_thread_current_ptr"),
        }
    }
}

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
    kernel: Kernel,
    ring: Option<Ring>,
    boots: u32,
}

impl Firmware {
    /// A program whose trace is enabled.
    pub fn new(shared: Arc<Shared>, elf: &Path, ring: Option<Ring>) -> Self {
        let this = Self { shared, kernel: Kernel::of(elf), ring, boots: 0 };
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

    fn load(&self, at: u32) -> Result<u32, Stop> {
        Ok(self.running()?.peek(at))
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
        let kernel = &self.kernel;
        for at in [kernel.current, kernel.header, kernel.registry_start, kernel.registry_end, kernel.start, kernel.end]
        {
            self.store(at, 0)?;
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
        let kernel = &self.kernel;
        let registry = header + 48;
        let start = registry + OBJECTS * 48;
        let end = start + events * 32;
        let mut stores = vec![(kernel.header, header), (kernel.registry_start, registry), (kernel.registry_end, start)];
        stores.extend([(kernel.entries, OBJECTS), (kernel.free_entries, OBJECTS - 1), (kernel.search, 1)]);
        stores.extend((0..OBJECTS).flat_map(|i| [(registry + i * 48, 1), (registry + i * 48 + 4, 0)]));
        stores.extend([(kernel.start, start), (kernel.end, end)]);
        stores.extend((0..events).map(|i| (start + i * 32, 0)));
        let words = [0x5458_5442, u32::MAX, header, registry, 32 << 16, start, start, end, start];
        let words = words.into_iter().chain([0xAAAA_AAAA, 0xBBBB_BBBB, 0xCCCC_CCCC]);
        stores.extend((0..).map(|i| header + 4 * i).zip(words));
        // The thread's entry: in use, type 1, priority 5; its stack; its name.
        let thread = chip.peek(kernel.thread);
        stores.extend([
            (registry, 0x0580_0100),
            (registry + 4, thread),
            (registry + 8, 0x2000_7000),
            (registry + 12, 1024),
        ]);
        let name = chip.peek(thread + 40);
        stores.extend((0..8).map(|i| (registry + 16 + 4 * i, chip.peek(name + 4 * i))));
        stores.extend([(kernel.enabled, u32::MAX), (kernel.current, start)]);
        stores
    }

    /// What the kernel's `TX_TRACE_IN_LINE_INSERT` does; gives what became of the event.
    fn insert(&self, id: u32, class: u32, words: [u32; 4]) -> Result<Counter, Stop> {
        let (at, enabled) = (self.load(self.kernel.current)?, self.load(self.kernel.enabled)?);
        if at == 0 {
            return Ok(|stats| &mut stats.paused);
        }
        if enabled & class == 0 {
            return Ok(|stats| &mut stats.masked);
        }
        let thread = self.load(self.kernel.thread)?;
        let (context, priority) = if thread == 0 { (NO_THREAD, 0) } else { (thread, 0x8005_0005) };
        let cycles = self.running()?.cycles();
        let words = [context, priority, id, cycles].into_iter().chain(words);
        for (at, word) in (0..).map(|i| at + 4 * i).zip(words) {
            self.store(at, word)?;
        }
        let next = if at + 32 >= self.load(self.kernel.end)? { self.load(self.kernel.start)? } else { at + 32 };
        self.store(self.kernel.current, next)?;
        let header = self.load(self.kernel.header)?;
        self.store(header + 32, next)?;
        Ok(|stats| &mut stats.events)
    }
}
