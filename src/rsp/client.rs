//! A client of a GDB stub: connects, reads memory, and leaves the target as the options say.
//!
//! The order of requests and their limits are not free: each rule was forced by a stub that exists.
//! * `+` comes first: OpenOCD waits for one byte before it does anything.
//! * A stop reply that comes unasked (QEMU, when connecting stopped the machine) is drained, and remembered.
//! * `qSupported` without `multiprocess+`: with it QEMU and gdbserver want `D;PID` and refuse `D`.
//! * Acknowledgements are switched off where offered. Requests are in flight together in that mode, and where the stub took
//!   acknowledgements ahead of its answers (`handshake_in_one_flight`).
//! * `?` comes before any `m`: gdbserver answers E01 otherwise.
//! * No request above half the packet size: gdbserver 13 dies of it.
//! * While the target runs only 0x03 is sent: QEMU stops on any byte.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use super::endpoint::Endpoint;
use super::error::{RspError, RspErrorKind, excerpt};
use super::tcl::{CoreState, TclPort};
use super::transport::{self, Transport};

mod console;
mod description;
mod leave;
mod link;
mod monitor;
mod query;
mod rate;
mod read;
mod reply;
mod run;
mod stats;
mod stub;
mod threads;
mod write;

pub use description::Described;
pub use leave::{After, Before, LeaveOutcome};
pub use query::{MapKind, MapRegion, Offsets};
pub use read::ReadFailure;
pub use reply::Features;
pub use run::Stop;
pub use stats::Stats;

use link::{Failure, Link, Wait};
use rate::Rate;
use run::{Pending, Run};
use stub::Stub;

/// How long a debugger that serves memory to us may take over one request: its probe may be slow.
const HELD_TIMEOUT: Duration = Duration::from_secs(3600);

/// How the target is to be left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Leave {
    /// What was halted when we came stays halted, what our connecting halted runs on. What cannot be shown to have run
    /// is left halted.
    #[default]
    AsFound,
    /// It runs.
    Running,
    /// It is halted.
    Halted,
}

/// How to connect, and how to leave.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Bounds the connect and each reply.
    pub timeout: Duration,
    /// How to leave the target, also on the way out after an error.
    pub leave: Leave,
    /// The longest that a target that ran may be halted for us. Then reading ends with [`RspErrorKind::HaltedTooLong`].
    pub max_halt: Option<Duration>,
    /// Set from a signal handler: whatever waits for the stub then ends with [`RspErrorKind::Interrupted`], and the
    /// target is still left as `leave` says.
    pub interrupt: Option<&'static AtomicBool>,
}

impl Default for Options {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(2), leave: Leave::AsFound, max_halt: None, interrupt: None }
    }
}

/// A connection to a stub. Dropping it leaves the target as the options say, and does not wait long.
pub struct Client {
    link: Link,
    leave: Leave,
    /// The most bytes of one read.
    max_chunk: usize,
    /// `x` is offered.
    binary: bool,
    /// The stub's answer to `?`: `T05thread:01;`, `S05`. Empty from a stub that does not know `?`.
    stop_reason: Vec<u8>,
    /// A stop reply showed that the target ran before we came.
    found_running: bool,
    /// `?` was sent together with the first question: a stop reply after the answer to that one may be its answer.
    asked_why: bool,
    /// The most bytes of one read that the line allows.
    line_limit: usize,
    /// QEMU's answers to `info status` and `info version`.
    qemu_status: Option<(String, String)>,
    /// How the target was found, once that was asked.
    before: Option<Before>,
    /// The program at the other end, once it is identified.
    stub: Option<Stub>,
    /// OpenOCD's Tcl port, where it serves the same target.
    tcl: Option<TclPort>,
    /// What that port showed before the link was opened.
    tcl_state: Option<CoreState>,
    /// Since when the target is halted for us.
    halted_since: Instant,
    /// How long the target may be halted for us.
    max_halt: Option<Duration>,
    /// How fast memory comes.
    rate: Rate,
    /// The next flight of reads asks for the registers too.
    wants_registers: bool,
    /// Those that came with it.
    registers_seen: Option<Vec<Option<u8>>>,
    /// A debugger at the other end holds the target.
    held: bool,
    left: bool,
    /// Whether we let the target run.
    run: Run,
    /// The packet by which it runs; empty until the stub was asked.
    how_to_run: Vec<u8>,
    /// The signal in the last stop reply, where the program is to receive it.
    pending: Option<Pending>,
    /// How many threads may still stop with the SIGSTOP by which gdbserver attached to them: it reports some of these late.
    attach_stops: usize,
}

impl Client {
    /// Opens `endpoint` and greets the stub. This halts the target on nearly every stub.
    ///
    /// # Errors
    /// Connection refused, no answer, no target, not this protocol: each has its own [`RspError`]. The target has then been
    /// left as well as possible.
    pub fn connect(endpoint: &Endpoint, options: Options) -> Result<Self, RspError> {
        if !endpoint.is_rsp() {
            return Err(RspErrorKind::NotRsp.at(endpoint.to_string()));
        }
        let tcl = TclPort::beside(endpoint, options.timeout).and_then(|port| Some((port.look()?, port)));
        if let Some((look, port)) = &tcl {
            look.allow(endpoint, &options, port)?;
        }
        let transport = transport::open(endpoint, options.timeout)?;
        let hint = match endpoint {
            Endpoint::Serial { .. } => "check the baud rate and the cable, and that the stub runs",
            Endpoint::Command(_) => "the command does not speak the protocol on its stdin and stdout",
            Endpoint::Stdio => "is there a debugger at the other end of stdin and stdout?",
            _ => {
                "a stub serves one client at a time and another debugger may hold it: end that session, or let both \
                 go through `tx-trace bridge`"
            }
        };
        // A reply at 9600 baud takes its time. Ten bits a byte, two characters a byte, half of the time allowed.
        let line_limit = match endpoint {
            Endpoint::Serial { baud, .. } => {
                // `as` takes the nearest number that fits.
                ((f64::from(*baud) * options.timeout.as_secs_f64() / 40.0) as usize).max(16)
            }
            _ => usize::MAX,
        };
        let mut link = Link::new(transport, endpoint.to_string(), options.timeout, options.interrupt, hint);
        // A stub on a serial line may lose what comes while it answers.
        link.ahead = !matches!(endpoint, Endpoint::Serial { .. } | Endpoint::Stdio);
        Self::greet(link, options, line_limit, *endpoint == Endpoint::Stdio, tcl.map(|(look, port)| (look.state, port)))
    }

    /// Greets the stub at the other end of a link that is open already; `name` is the endpoint in messages.
    ///
    /// # Errors
    /// As [`Client::connect`], once the link is there.
    pub fn over(transport: Box<dyn Transport>, name: &str, options: Options) -> Result<Self, RspError> {
        let mut link = Link::new(transport, name.to_owned(), options.timeout, options.interrupt, "is it a stub?");
        link.ahead = true;
        Self::greet(link, options, usize::MAX, false, None)
    }

    /// A client of a link that a debugger and a stub use: they have agreed on `features` (the stub's answer to
    /// `qSupported`) and on acknowledgements, and no new handshake is made. The target is left to them.
    pub fn shared(transport: Box<dyn Transport>, name: &str, options: Options, features: &[u8], acks: bool) -> Self {
        let mut link = Link::new(transport, name.to_owned(), options.timeout, options.interrupt, "is it a stub?");
        let features = Features::parse(features);
        let (max_chunk, binary) =
            (read::chunk_limit(features.packet_size(), usize::MAX), features.has("binary-upload"));
        link.shared = true;
        link.acks = acks;
        link.features = Some(features);
        let mut client = Self::new(link, options, true);
        client.max_chunk = max_chunk;
        client.binary = binary;
        client
    }

    fn new(link: Link, options: Options, held: bool) -> Self {
        Self {
            link,
            leave: options.leave,
            max_chunk: 0,
            binary: false,
            stop_reason: Vec::new(),
            found_running: false,
            asked_why: false,
            line_limit: usize::MAX,
            qemu_status: None,
            before: None,
            stub: None,
            tcl: None,
            tcl_state: None,
            halted_since: Instant::now(),
            max_halt: options.max_halt,
            rate: Rate::default(),
            wants_registers: false,
            registers_seen: None,
            held,
            left: true,
            run: Run::Halted,
            how_to_run: Vec::new(),
            pending: None,
            attach_stops: 0,
        }
    }

    /// `tcl`: the state that OpenOCD's Tcl port showed before the link was opened.
    fn greet(
        link: Link,
        options: Options,
        line_limit: usize,
        held: bool,
        tcl: Option<(CoreState, TclPort)>,
    ) -> Result<Self, RspError> {
        let mut client = Self::new(link, options, held);
        (client.tcl_state, client.tcl) = tcl.unzip();
        client.line_limit = line_limit;
        client.link.send_raw(b"+")?;
        if let Err(error) = client.handshake() {
            // Most stubs halt the target for the connection alone. After Ctrl-C the answers are waited for once more: how to
            // leave is not known yet. A stub that does not answer is not waited for again.
            if error.kind == RspErrorKind::Interrupted && client.left && !held {
                client.link.begin_to_leave(leave::SHORT);
                drop(client.handshake());
            }
            return Err(error);
        }
        Ok(client)
    }

    /// Asks what the stub can do, and how the target is.
    fn handshake(&mut self) -> Result<(), RspError> {
        if self.link.ahead && self.handshake_in_one_flight()? {
            return Ok(());
        }
        let answer = self.link.ask(reply::SUPPORTED, &reply::is_supported)?;
        if self.asked_why {
            self.note_stops(&answer);
        }
        self.learn(&answer);
        if self.features().has("QStartNoAckMode") {
            self.link.start_no_ack()?;
        }
        self.find_stop()
    }

    /// All questions of the handshake in one flight. False where they are to be asked one after the other.
    fn handshake_in_one_flight(&mut self) -> Result<bool, RspError> {
        // After Ctrl-C the answers are still to come.
        if !std::mem::replace(&mut self.asked_why, true) {
            self.link.send_flight(&[reply::SUPPORTED, b"?", reply::NO_ACK])?;
        }
        let features = match self.link.answer(reply::SUPPORTED, &reply::is_supported, Wait::Alone) {
            Ok(answer) => answer,
            Err(Failure::Fatal(error)) => return Err(self.link.fail_with(error)),
            Err(_) => {
                self.link.ahead = false;
                self.link.hasty = true;
                return Ok(false);
            }
        };
        self.note_stops(&features);
        self.learn(&features);
        // Whether it acknowledges from here on depends on an answer that is still to come.
        let ack_first = self.link.ack_first.replace(false);
        let stop = self.link.answer(b"?", &reply::is_stop_answer, Wait::InFlight);
        let no_ack = match &stop {
            Ok(_) => self.link.answer(reply::NO_ACK, &reply::is_simple, Wait::InFlight),
            Err(_) => Err(Failure::OutOfStep),
        };
        match (stop, no_ack) {
            (Err(Failure::Fatal(error)), _) | (_, Err(Failure::Fatal(error))) => Err(self.link.fail_with(error)),
            (Ok(stop), Ok(no_ack)) => {
                // All three answers came, so a stop in front of the first was extra: the target ran.
                self.found_running = self.link.unasked_stops > 0;
                if no_ack == b"OK" {
                    self.link.acks = false;
                } else {
                    self.link.ack_first = ack_first;
                }
                self.link.last_answer = no_ack;
                self.take_stop(stop).map(|()| true)
            }
            // It answered before, so it is there: the target runs, and all it listens to is the interrupt.
            (Err(Failure::Late(_)), _) => {
                self.link.ahead = false;
                let stop = self.interrupt_target()?;
                self.take_stop(stop)?;
                self.link.outstanding = true;
                if self.features().has("QStartNoAckMode") {
                    self.link.start_no_ack()?;
                }
                Ok(true)
            }
            _ => {
                self.link.ahead = false;
                Ok(false)
            }
        }
    }

    /// A stop reply in front of the answer to `qSupported` shows that the target ran, unless the line lost a packet: then it
    /// may be the answer to `?`.
    fn note_stops(&mut self, features: &[u8]) {
        let stats = &self.link.stats;
        self.found_running =
            !features.is_empty() && stats.damaged == 0 && stats.strays == 0 && self.link.unasked_stops > 0;
    }

    /// Takes the answer to `qSupported`.
    fn learn(&mut self, answer: &[u8]) {
        // From here on a stub is there, which may have halted the target for us.
        self.left = false;
        let features = Features::parse(answer);
        self.max_chunk = read::chunk_limit(features.packet_size(), self.line_limit);
        self.binary = features.has("binary-upload");
        self.link.features = Some(features);
        if self.held {
            // The debugger has its own time-outs for its target, and its user can interrupt.
            self.link.timeout = self.link.timeout.max(HELD_TIMEOUT);
        }
    }

    /// Asks why the target is halted, and halts it where it is not.
    fn find_stop(&mut self) -> Result<(), RspError> {
        self.link.prepare()?;
        self.found_running |= !self.asked_why && self.link.unasked_stops > 0;
        self.link.send(&[b"?"])?;
        let answer = match self.link.answer(b"?", &reply::is_stop_answer, Wait::Alone) {
            Ok(answer) => answer,
            Err(Failure::Fatal(error)) => return Err(self.link.fail_with(error)),
            Err(Failure::Damaged | Failure::OutOfStep) => self.link.ask(b"?", &reply::is_stop_answer)?,
            // It answered before, so it is there: the target runs, and all it listens to is the interrupt.
            Err(Failure::Late(_)) => self.interrupt_target()?,
        };
        self.take_stop(answer)
    }

    /// Halts a target that runs and whose stub does not answer meanwhile; its stop reply.
    fn interrupt_target(&mut self) -> Result<Vec<u8>, RspError> {
        self.link.acked_ahead = false;
        self.link.last_error = None;
        self.link.send_raw(&[3])?;
        match self.link.answer(b"", &reply::is_stop, Wait::Unacknowledged) {
            Ok(answer) => {
                self.found_running = true;
                Ok(answer)
            }
            Err(Failure::Fatal(error)) => Err(self.link.fail_with(error)),
            // Unless it was halted all the time, and it was our question that was lost.
            Err(_) if self.link.resync() => self.link.ask(b"?", &reply::is_stop_answer),
            Err(_) => {
                // `D` would be a byte too many for it.
                self.left = true;
                let kind = match &self.link.last_error {
                    // A target that runs is silent.
                    Some(reply) => RspErrorKind::Refusal { packet: "?".to_owned(), reply: excerpt(reply) },
                    None => RspErrorKind::Runs { timeout: self.link.timeout },
                };
                Err(self.link.fail(kind))
            }
        }
    }

    /// Takes the answer to `?`.
    fn take_stop(&mut self, answer: Vec<u8>) -> Result<(), RspError> {
        self.link.outstanding = false;
        if reply::is_gone(&answer) {
            self.left = true;
            return Err(self.link.error(RspErrorKind::NoTarget { reply: excerpt(&answer) }));
        }
        // Each stub with a target knows why that is halted.
        if reply::is_error(&answer) {
            self.left = true;
            let (packet, reply) = ("?".to_owned(), excerpt(&answer));
            return Err(self.link.error(RspErrorKind::Refusal { packet, reply }));
        }
        self.pending = Pending::of(&answer);
        self.stop_reason = answer;
        Ok(())
    }

    /// True where it is known that the target ran until we came.
    pub const fn found_running(&self) -> bool {
        self.found_running
    }

    /// What broke the link for good, if anything did.
    pub const fn broken(&self) -> Option<&RspError> {
        self.link.broken()
    }

    /// What the stub said it can do.
    fn features(&self) -> &Features {
        static NONE: std::sync::LazyLock<Features> = std::sync::LazyLock::new(Features::default);
        self.link.features.as_ref().unwrap_or(&NONE)
    }

    /// What went over the link so far.
    pub const fn stats(&self) -> &Stats {
        &self.link.stats
    }

    /// The most bytes of memory that one request asks for.
    pub const fn max_chunk(&self) -> usize {
        self.max_chunk
    }

    /// The endpoint, as messages name it.
    pub fn name(&self) -> &str {
        &self.link.name
    }
}
