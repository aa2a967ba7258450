//! Counters: context switches and their like, FileX, NetX.

#![expect(clippy::arithmetic_side_effects, reason = "counts and indices; ticks are added with saturation")]

use super::next::Step;
use super::raw::{INIT, ISR, id};
use crate::report::Term;

/// True for a context word that is a thread and not idle.
const fn is_thread(context: u32) -> bool {
    context != 0 && context != ISR && context != INIT
}

/// What the viewer shows as performance statistics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Performance {
    /// Changes of who runs next, each event before idle time among them.
    pub context_switches: u64,
    /// Resumptions after which another thread runs.
    pub thread_preemptions: u64,
    /// Time slices by a rule that finds none in nearly all traces.
    pub time_slices: u64,
    /// Events with which a thread stops being ready.
    pub thread_suspensions: u64,
    /// Events with which a thread becomes ready.
    pub thread_resumptions: u64,
    /// Interrupts; without events that say that they begin, each event of one.
    pub interrupts: u64,
    /// Interrupts in interrupts.
    pub nested_interrupts: u64,
}

/// Counts them.
#[derive(Debug, Default)]
pub(super) struct Counting {
    sums: Performance,
    /// Who ran last, by the rule of the switches.
    running: u32,
    /// Who ran last, by the rule of the preemptions.
    scheduled: u32,
    /// Resumptions that wait for a thread to run.
    waiting: u64,
    /// Time slices meanwhile, and how many of them lead to whom `scheduled` was.
    slices: u64,
    slices_same: u64,
    /// All time slices, and whether the first event is one.
    every_slice: u64,
    first_is_slice: bool,
    /// The last event: who runs next, and whether it is a resumption.
    last: (u32, bool),
    depth: u64,
}

impl Counting {
    pub fn step(&mut self, step: &Step) {
        let (context, event, next) = (step.raw.context, step.raw.id, step.next);
        if step.index == 0 {
            self.first_is_slice = event == id::TIME_SLICE;
        }
        self.switches(context, next);
        self.preemptions(event, next);
        match event {
            id::SUSPEND => add(&mut self.sums.thread_suspensions, 1),
            id::RESUME => add(&mut self.sums.thread_resumptions, 1),
            _ => {}
        }
        self.interrupts(context, event);
        self.last = (next, event == id::RESUME);
    }

    /// Idle is never who ran last, so that each event before idle time counts.
    fn switches(&mut self, context: u32, next: u32) {
        if self.running == 0 && context != ISR && context != INIT {
            self.running = context;
        }
        if self.running != 0 && next != ISR && next != INIT && next != self.running {
            add(&mut self.sums.context_switches, 1);
        }
        if is_thread(next) {
            self.running = next;
        }
    }

    /// Without events that begin and end interrupts, each event of one counts.
    fn interrupts(&mut self, context: u32, event: u32) {
        match event {
            id::ISR_ENTER => {
                add(&mut self.sums.interrupts, 1);
                add(&mut self.sums.nested_interrupts, u64::from(self.depth > 0));
                self.depth += 1;
            }
            id::ISR_EXIT => self.depth = self.depth.saturating_sub(1),
            _ if context == ISR => add(&mut self.sums.interrupts, u64::from(self.depth == 0)),
            _ => self.depth = 0,
        }
    }

    /// A resumption counts where the first thread that runs after it is not the one that ran last.
    fn preemptions(&mut self, event: u32, next: u32) {
        let to_thread = is_thread(next);
        if to_thread && self.waiting > 0 {
            add(&mut self.sums.thread_preemptions, u64::from(next != self.scheduled));
            // The other resumptions then find it as who ran last; slices to no thread differ from it.
            add(&mut self.sums.thread_preemptions, self.slices);
            self.scheduled = next;
            (self.waiting, self.slices, self.slices_same) = (0, 0, 0);
        }
        match event {
            id::RESUME => {
                self.waiting += 1;
                return;
            }
            id::TIME_SLICE => {
                self.every_slice += 1;
                if self.waiting > 0 {
                    add(&mut self.slices, 1);
                    add(&mut self.slices_same, u64::from(next == self.scheduled));
                } else {
                    add(&mut self.sums.thread_preemptions, u64::from(next != self.scheduled));
                }
            }
            _ => {}
        }
        if to_thread {
            self.scheduled = next;
        }
    }

    pub fn finish(mut self) -> Performance {
        // No thread ran any more after these: each compares with what the last event leads to, the last with no thread.
        let (next, is_resumption) = self.last;
        let last = u64::from(is_resumption && self.waiting > 0);
        let others = if next == self.scheduled { 0 } else { self.waiting.saturating_sub(last) };
        let last = if self.scheduled == 0 { 0 } else { last };
        let sums = &mut self.sums;
        add(&mut sums.thread_preemptions, others.saturating_add(last));
        add(&mut sums.thread_preemptions, self.slices.saturating_sub(self.slices_same));
        // The rule for time slices looks at who the last event of the trace leads to, for all of them.
        let stale = if is_resumption { 0 } else { next };
        sums.time_slices = match stale {
            0 => 0,
            ISR | INIT => self.every_slice,
            _ => u64::from(self.first_is_slice),
        };
        self.sums
    }
}

fn add(sum: &mut u64, n: u64) {
    *sum = sum.saturating_add(n);
}

/// Names of the FileX counters.
pub const FILEX: [Term; 14] = [
    Term::new("media_opens", "Media opens"),
    Term::new("media_closes", "Media closes"),
    Term::new("media_aborts", "Media aborts"),
    Term::new("media_flushes", "Media flushes"),
    Term::new("directory_reads", "Directory reads"),
    Term::new("directory_writes", "Directory writes"),
    Term::new("directory_cache_misses", "Directory cache misses"),
    Term::new("file_opens", "File opens"),
    Term::new("file_closes", "File closes"),
    Term::new("file_bytes_read", "File bytes read"),
    Term::new("file_bytes_written", "File bytes written"),
    Term::new("logical_sector_reads", "Logical sector reads"),
    Term::new("logical_sector_writes", "Logical sector writes"),
    Term::new("logical_sector_cache_misses", "Logical sector cache misses"),
];

/// Names of the NetX counters.
pub const NETX: [Term; 24] = [
    Term::new("arp_requests_sent", "ARP requests sent"),
    Term::new("arp_responses_sent", "ARP responses sent"),
    Term::new("arp_requests_received", "ARP requests received"),
    Term::new("arp_responses_received", "ARP responses received"),
    Term::new("packet_allocations", "Packet allocations"),
    Term::new("packet_releases", "Packet releases"),
    Term::new("empty_allocations", "Empty allocations"),
    Term::new("invalid_releases", "Invalid releases"),
    Term::new("ip_packets_sent", "IP packets sent"),
    Term::new("ip_bytes_sent", "IP bytes sent"),
    Term::new("ip_packets_received", "IP packets received"),
    Term::new("ip_bytes_received", "IP bytes received"),
    Term::new("pings_sent", "Pings sent"),
    Term::new("ping_responses", "Ping responses"),
    Term::new("tcp_client_connections", "TCP client connections"),
    Term::new("tcp_server_connections", "TCP server connections"),
    Term::new("tcp_packets_sent", "TCP packets sent"),
    Term::new("tcp_bytes_sent", "TCP bytes sent"),
    Term::new("tcp_packets_received", "TCP packets received"),
    Term::new("tcp_bytes_received", "TCP bytes received"),
    Term::new("udp_packets_sent", "UDP packets sent"),
    Term::new("udp_bytes_sent", "UDP bytes sent"),
    Term::new("udp_packets_received", "UDP packets received"),
    Term::new("udp_bytes_received", "UDP bytes received"),
];

/// Counters of 32 bits, as the viewer has them.
#[derive(Debug, Default)]
pub(super) struct Middleware {
    pub filex: [u32; FILEX.len()],
    pub netx: [u32; NETX.len()],
}

impl Middleware {
    pub fn step(&mut self, step: &Step) {
        let [_, second, third, fourth] = step.raw.info;
        let mut file = |counter: usize, n: u32| bump(&mut self.filex, counter, n);
        match step.raw.id {
            ..=200 | 500.. => return,
            261 => file(0, 1),
            258 => file(1, 1),
            255 => file(2, 1),
            203 => file(3, 1),
            204 => file(4, 1),
            205 => file(5, 1),
            202 => file(6, 1),
            247 => file(7, 1),
            243 => file(8, 1),
            248 => file(9, fourth),
            254 => file(10, fourth),
            206 => file(11, third),
            207 => file(12, third),
            201 => file(13, 1),
            _ => {}
        }
        let mut net = |counter: usize, n: u32| bump(&mut self.netx, counter, n);
        match step.raw.id {
            301 => net(0, 1),
            303 => net(1, 1),
            300 => net(2, 1),
            302 => net(3, 1),
            386 => {
                net(4, 1);
                net(6, u32::from(fourth == 0));
            }
            394 => {
                net(5, 1);
                net(7, u32::from(second != 0xAAAA_AAAA));
            }
            309 => {
                net(8, 1);
                net(9, fourth);
            }
            308 => {
                net(10, 1);
                net(11, fourth);
            }
            362 => net(12, 1),
            // An echo reply has type 0.
            304 => net(13, u32::from(fourth & 0xFFFF_0000 == 0)),
            401 => net(14, 1),
            407 => net(15, 1),
            421 => {
                net(16, 1);
                net(17, third);
            }
            419 => {
                net(18, 1);
                net(19, third);
            }
            436 => {
                net(20, 1);
                net(21, third);
            }
            434 => {
                net(22, 1);
                net(23, fourth);
            }
            _ => {}
        }
    }
}

fn bump(counters: &mut [u32], counter: usize, n: u32) {
    if let Some(counter) = counters.get_mut(counter) {
        *counter = counter.wrapping_add(n);
    }
}
