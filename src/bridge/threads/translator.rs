//! The kernel's threads in a conversation between a debugger and a stub that knows only CPUs. No input or output here: what the
//! target shows comes through [`Look`].

mod replies;

use std::collections::BTreeSet;
use std::rc::Rc;

use super::look::{Begun, Forget, Listing, Look};
use super::resume::{self, Resume};
use crate::bytes;
use crate::cpu::{Architecture, Group};
use crate::debugger::{ListedThread, piece, threads_json, threads_xml};
use crate::rsp::packet::to_hex;
use crate::rsp::thread_id::{self, Which};

/// Numbers of threads in one packet: it stays below the smallest packet size that a stub announces.
const IDS: usize = 40;
/// Bytes of a document in one packet, before they are escaped.
const PIECE: usize = 480;
/// Steps of a thread that does not run which are answered as done, one after the other: beside others that run, and alone.
const STEPS: u32 = 1;
const STEPS_ALONE: u32 = 2;
/// The most breakpoints that are remembered.
const MAX_BREAKPOINTS: usize = 4096;
/// The most lines for the debugger's console that wait for a stop.
const MAX_NOTES: usize = 16;
/// Registers that no thread saves: those of the CPU are every thread's.
const SHARED: [&str; 4] = ["msp", "primask", "basepri", "faultmask"];
/// The error for a thread that is not there.
const NO_THREAD: &[u8] = b"E01";

/// What becomes of a debugger's packet.
#[derive(Debug, PartialEq, Eq)]
pub enum Todo {
    /// The stub gets it as it is.
    Pass,
    /// The stub gets this one in its place, and its answer is the answer.
    Instead(Vec<u8>),
    /// These are the answer.
    Answer(Vec<Vec<u8>>),
}

/// Which of its packets a stub has answered, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answered {
    /// `qSupported`.
    Features,
    /// `vCont?`.
    Actions,
    /// What lets the target run, or asks why it stopped.
    Stop,
}

/// Whether threads are shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum State {
    /// The stub has not been asked yet.
    #[default]
    Fresh,
    /// They are; the stub's CPUs.
    On(Vec<String>),
    /// They are not: every packet passes.
    Off,
}

/// One session's translation.
#[derive(Debug, Default)]
pub struct Translator {
    state: State,
    /// Also where the stub shows threads itself.
    forced: bool,
    /// What precedes a number of a thread: `p1.`, or nothing.
    process: String,
    /// The thread that `Hg` chose; else the one that the last stop was reported of.
    selected: Option<usize>,
    /// The thread that `Hc` chose.
    resumed: Option<usize>,
    /// The thread that the last stop was reported of, and its CPU.
    reported: Option<(usize, Option<usize>)>,
    /// The thread that the debugger steps.
    stepped: Option<usize>,
    /// Steps of threads that do not run, which were answered as done since the target ran.
    refused: u32,
    /// Lines for the debugger's console: it takes them only while the target runs.
    notes: Vec<String>,
    /// The same lines for the bridge's own terminal, which takes them at once.
    lines: Vec<String>,
    /// The target was let run: the debugger waits for a stop.
    ran: bool,
    /// The remark that was said last.
    said: Option<String>,
    /// The list in XML, while the debugger fetches it in parts.
    document: String,
    /// Threads that `qsThreadInfo` still lists.
    rest: Vec<usize>,
    breakpoints: BTreeSet<u64>,
    /// The kinds of `vCont` that the stub takes.
    actions: Option<Vec<String>>,
    /// The debugger has given the stub symbols, by which OpenOCD finds an RTOS.
    symbols: bool,
}

impl Translator {
    /// `forced`: also where the stub shows threads itself.
    pub fn new(forced: bool) -> Self {
        Self { forced, ..Self::default() }
    }

    /// False once every packet passes.
    pub(super) fn is_on(&self) -> bool {
        self.state != State::Off
    }

    /// Lines for a terminal that were not taken yet.
    pub(super) fn take_lines(&mut self) -> Vec<String> {
        std::mem::take(&mut self.lines)
    }

    fn note(&mut self, line: String) {
        if self.notes.len() < MAX_NOTES {
            self.notes.push(line.clone());
        }
        if self.lines.len() < MAX_NOTES {
            self.lines.push(line);
        }
    }

    fn turn_off(&mut self, why: &str) {
        self.state = State::Off;
        self.note(format!("threads of ThreadX are not shown: {why}"));
    }

    /// True where threads are shown; asks the stub on the first call.
    fn started(&mut self, look: &mut dyn Look) -> bool {
        if self.state == State::Fresh {
            self.begin(look);
        }
        self.is_on()
    }

    fn begin(&mut self, look: &mut dyn Look) {
        match look.begin() {
            Begun::Cpus(cpus) => {
                if let Some(process) =
                    cpus.first().map(|id| thread_id::process(id)).filter(|process| !process.is_empty())
                {
                    process.clone_into(&mut self.process);
                }
                self.state = State::On(cpus);
            }
            Begun::Threads if self.forced => self.state = State::On(Vec::new()),
            Begun::Threads => {
                self.turn_off("the stub shows threads itself (--threads on: show ThreadX's threads as well)")
            }
        }
    }

    fn cpus(&self) -> &[String] {
        match &self.state {
            State::On(cpus) => cpus,
            State::Fresh | State::Off => &[],
        }
    }

    /// A debugger's packet, while the stub owes no answer.
    pub(super) fn request(&mut self, body: &[u8], look: &mut dyn Look) -> Todo {
        if !self.is_on() {
            return Todo::Pass;
        }
        let text = std::str::from_utf8(body).unwrap_or_default();
        match body.first() {
            Some(b'M' | b'X') => {
                self.aim(look);
                look.forget(Forget::All);
                Todo::Pass
            }
            Some(b'm') => self.read_memory(text, look),
            Some(b'x') => {
                self.aim(look);
                Todo::Pass
            }
            Some(b'H') => self.choose(text, look),
            Some(b'T') => self.alive(text, look),
            Some(b'g') if body == b"g" => self.read_all(look),
            Some(b'p') => self.read_one(text, look),
            Some(b'G' | b'P') => self.write(look),
            Some(b'c' | b'C' | b's' | b'S') => self.run_old(text, look),
            Some(b'v') => self.verbose(text, look),
            Some(b'q' | b'j' | b'Q') => self.query(text, look),
            Some(b'Z' | b'z') => {
                look.forget(Forget::Code);
                self.keep_breakpoint(text);
                Todo::Pass
            }
            Some(b'b') => {
                self.runs(look);
                Todo::Pass
            }
            Some(b'R' | b'k' | b'D' | b'!') => {
                look.forget(Forget::All);
                Todo::Pass
            }
            _ => Todo::Pass,
        }
    }

    /// All threads. A CPU keeps the number under which its stop was reported: a debugger whose thread is gone could not even let
    /// the target run.
    fn listing(&self, look: &mut dyn Look) -> Rc<Listing> {
        let list = look.list();
        match self.reported {
            Some((id, Some(cpu))) if list.threads.thread(id).is_none() => {
                Rc::new(Listing { threads: list.threads.renumbered(cpu, id), remark: list.remark.clone() })
            }
            _ => list,
        }
    }

    /// Lets the stub's next packet be about the CPU of the thread that is selected; memory is the same for all others.
    fn aim(&self, look: &mut dyn Look) {
        if self.cpus().len() > 1 {
            let cpu = self.reported.filter(|(id, _)| Some(*id) == self.chosen()).and_then(|(_, cpu)| cpu);
            look.select(cpu.unwrap_or(0));
        }
    }

    /// The thread that packets about registers mean.
    fn chosen(&self) -> Option<usize> {
        self.selected.or(self.reported.map(|(id, _)| id))
    }

    /// A thread's CPU. `Err` for a thread that is not there.
    fn cpu_of(&self, id: usize, look: &mut dyn Look) -> Result<Option<usize>, ()> {
        if let Some((reported, cpu)) = self.reported
            && reported == id
        {
            return Ok(cpu);
        }
        self.listing(look).threads.thread(id).map(|thread| thread.cpu).ok_or(())
    }

    /// Code is answered from what was read at this stop; all other memory passes.
    fn read_memory(&mut self, text: &str, look: &mut dyn Look) -> Todo {
        if matches!(self.state, State::On(_))
            && let Some((at, len)) = range(text.get(1..).unwrap_or_default())
            && let Some(bytes) = look.code(at, len)
        {
            return Todo::Answer(vec![to_hex(&bytes)]);
        }
        self.aim(look);
        Todo::Pass
    }

    fn choose(&mut self, text: &str, look: &mut dyn Look) -> Todo {
        let Some((operation, id)) = text.get(1..).and_then(|rest| rest.split_at_checked(1)) else { return Todo::Pass };
        if !self.started(look) {
            return Todo::Pass;
        }
        let id = match Which::parse(id) {
            Some(Which::One(id)) => {
                if self.cpu_of(id, look).is_err() {
                    // GDB does not look at this answer: what it asks next must fail too.
                    self.selected = Some(id).filter(|_| operation == "g").or(self.selected);
                    return answer(NO_THREAD);
                }
                Some(id)
            }
            Some(_) => None,
            None => return answer(NO_THREAD),
        };
        match operation {
            "g" => self.selected = id,
            "c" => self.resumed = id,
            _ => return Todo::Pass,
        }
        answer(b"OK")
    }

    fn alive(&mut self, text: &str, look: &mut dyn Look) -> Todo {
        if !self.started(look) {
            return Todo::Pass;
        }
        let id = text.get(1..).and_then(thread_id::plain);
        let is_there = id.is_some_and(|id| self.cpu_of(id, look).is_ok());
        answer(if is_there { b"OK" } else { NO_THREAD })
    }

    /// The thread that packets about registers mean, of the listing where it does not run.
    fn subject(&mut self, look: &mut dyn Look) -> Subject {
        if !self.started(look) {
            return Subject::Cpu(None);
        }
        let Some(id) = self.chosen() else { return Subject::Cpu(Some(0)) };
        match self.cpu_of(id, look) {
            Ok(Some(cpu)) => Subject::Cpu(Some(cpu)),
            Ok(None) => Subject::Saved(self.listing(look), id),
            Err(()) => Subject::Gone,
        }
    }

    fn read_all(&mut self, look: &mut dyn Look) -> Todo {
        let bytes = match self.subject(look) {
            Subject::Cpu(None) => return Todo::Pass,
            Subject::Cpu(Some(cpu)) => look.registers(cpu),
            Subject::Gone => return answer(NO_THREAD),
            Subject::Saved(list, id) => list.threads.thread(id).and_then(|thread| look.saved(thread)),
        };
        bytes.map_or(Todo::Pass, |bytes| Todo::Answer(vec![hex(&bytes)]))
    }

    fn read_one(&mut self, text: &str, look: &mut dyn Look) -> Todo {
        let number = text.get(1..).and_then(|rest| u32::from_str_radix(rest.split(';').next()?, 16).ok());
        let (list, id) = match self.subject(look) {
            Subject::Cpu(cpu) => {
                cpu.into_iter().for_each(|cpu| look.select(cpu));
                return Todo::Pass;
            }
            Subject::Gone => return answer(NO_THREAD),
            Subject::Saved(list, id) => (list, id),
        };
        let (Some(number), Some(thread)) = (number, list.threads.thread(id)) else { return answer(NO_THREAD) };
        let architecture = list.threads.architecture();
        let Some((name, len)) = look.described(number).or_else(|| usual(architecture, number)) else {
            return answer(NO_THREAD);
        };
        if architecture == Some(Architecture::CortexM) && SHARED.contains(&name.as_str()) {
            look.select(0);
            return Todo::Pass;
        }
        let name = if name == "psp" { "sp" } else { &name };
        let known = architecture.zip(thread.registers()).and_then(|(architecture, registers)| {
            let register = architecture.registers().iter().find(|r| r.name == name && r.bytes() == len)?;
            Some(registers.encode(register, list.threads.endian()))
        });
        Todo::Answer(vec![hex(&known.unwrap_or_else(|| vec![None; len]))])
    }

    fn write(&mut self, look: &mut dyn Look) -> Todo {
        match self.subject(look) {
            Subject::Cpu(cpu) => {
                cpu.into_iter().for_each(|cpu| look.select(cpu));
                look.forget(Forget::Registers);
                Todo::Pass
            }
            Subject::Gone => answer(NO_THREAD),
            Subject::Saved(list, id) => {
                let name = list.threads.thread(id).map_or("", |thread| thread.name.as_str());
                // GDB shows the text; it must not end the packet.
                let name: String = name.chars().filter(|c| !matches!(c, '#' | '$' | '}' | '*')).collect();
                let why = "does not run: its registers are what it saved on its stack, and are not written";
                Todo::Answer(vec![format!("E.thread {name} {why}").into_bytes()])
            }
        }
    }

    /// The target runs on: nothing that was read counts any more.
    fn runs(&mut self, look: &mut dyn Look) {
        look.forget(Forget::Stop);
        (self.stepped, self.refused, self.selected, self.ran) = (None, 0, None, true);
        self.rest.clear();
        self.document.clear();
    }

    fn run_old(&mut self, text: &str, look: &mut dyn Look) -> Todo {
        if !self.started(look) {
            return Todo::Pass;
        }
        let id = self.resumed.or_else(|| self.chosen());
        if let Some(id) = id.filter(|_| text.starts_with(['s', 'S'])) {
            match self.cpu_of(id, look) {
                Ok(Some(cpu)) => look.select(cpu),
                Ok(None) => return self.refuse_step(id, STEPS, look),
                Err(()) => return answer(NO_THREAD),
            }
            self.runs(look);
            self.stepped = Some(id);
            return Todo::Pass;
        }
        self.runs(look);
        Todo::Pass
    }

    fn verbose(&mut self, text: &str, look: &mut dyn Look) -> Todo {
        if let Some(actions) = text.strip_prefix("vCont;") {
            return self.run(actions, look);
        }
        if ["vRun", "vAttach", "vKill", "vFlash"].iter().any(|name| text.starts_with(name)) {
            look.forget(Forget::All);
        }
        Todo::Pass
    }

    fn run(&mut self, actions: &str, look: &mut dyn Look) -> Todo {
        if !self.started(look) {
            return Todo::Pass;
        }
        let cpus = self.cpus().to_vec();
        let mut cpu_of = |id| self.cpu_of(id, look).ok().flatten();
        match resume::translate(actions, &mut cpu_of, &cpus, self.actions.as_deref()) {
            Resume::Packet(packet, stepped) => {
                self.runs(look);
                self.stepped = stepped;
                Todo::Instead(packet.into_bytes())
            }
            Resume::Suspended(id) => {
                let alone = !actions.contains(';');
                self.refuse_step(id, if alone { STEPS_ALONE } else { STEPS }, look)
            }
            Resume::NotUnderstood => {
                self.turn_off("the debugger asks for an action of vCont that is not supported");
                Todo::Pass
            }
        }
    }

    /// A thread that no CPU runs stays where it is. That looks like a step that is done, so that a debugger which wants to get
    /// over a breakpoint (it steps the thread alone) goes on. One that steps again and again towards another line would never
    /// end: after `most` steps no signal says that a step is done.
    fn refuse_step(&mut self, id: usize, most: u32, look: &mut dyn Look) -> Todo {
        let list = self.listing(look);
        let Some(thread) = list.threads.thread(id) else { return answer(NO_THREAD) };
        let (signal, refused) = if self.refused < most { (5, self.refused.saturating_add(1)) } else { (0, 0) };
        let line = format!(
            "{} does not run ({}): it stays where it is until the kernel lets it run",
            thread.name, thread.extra
        );
        (self.reported, self.selected, self.refused) = (Some((id, None)), None, refused);
        let stop = format!("T{signal:02x}thread:{}{id:x};", self.process);
        Todo::Answer(vec![console(&line), stop.into_bytes()])
    }

    fn query(&mut self, text: &str, look: &mut dyn Look) -> Todo {
        if text.starts_with("QNonStop:1") {
            self.turn_off("the debugger asks for non-stop mode");
            return Todo::Pass;
        }
        if text.starts_with("qRcmd,") {
            look.forget(Forget::All);
            return Todo::Pass;
        }
        self.symbols |= text.starts_with("qSymbol:") && text.len() > "qSymbol::".len();
        // LLDB's forms of packets that are translated in the usual form.
        if matches!(text, "QThreadSuffixSupported" | "QListThreadsInStopReply") {
            return answer(b"");
        }
        let about_threads = ["qfThreadInfo", "qsThreadInfo", "qXfer:threads:", "qThread", "qC", "jThread", "qP", "qL"];
        let is_other = text.starts_with("qCRC") || text.starts_with("qPass") || text.starts_with("qProcess");
        if is_other || !about_threads.iter().any(|name| text.starts_with(name)) || !self.started(look) {
            return Todo::Pass;
        }
        if std::mem::take(&mut self.symbols) && !self.forced {
            self.begin(look);
            if !self.is_on() {
                return Todo::Pass;
            }
        }
        Todo::Answer(vec![self.about_threads(text, look)])
    }

    fn about_threads(&mut self, text: &str, look: &mut dyn Look) -> Vec<u8> {
        if let Some(window) = text.strip_prefix("qXfer:threads:read::") {
            if window.starts_with("0,") || self.document.is_empty() {
                self.document = threads_xml(&self.listing(look).threads, &self.process);
            }
            return piece(&self.document, window, PIECE);
        }
        if let Some(id) = text.strip_prefix("qThreadExtraInfo,") {
            let list = self.listing(look);
            let thread = thread_id::plain(id).and_then(|id| list.threads.thread(id));
            return thread.map_or_else(|| NO_THREAD.to_vec(), |thread| to_hex(thread.described().as_bytes()));
        }
        if let Some(id) = text.strip_prefix("qThreadStopInfo") {
            let list = self.listing(look);
            let thread = thread_id::plain(id).and_then(|id| list.threads.thread(id));
            return thread.map_or_else(|| NO_THREAD.to_vec(), |thread| self.stop_info(thread));
        }
        match text {
            "qfThreadInfo" => {
                self.rest = self.listing(look).threads.threads().iter().map(|thread| thread.id).rev().collect();
                self.more_ids()
            }
            "qsThreadInfo" => self.more_ids(),
            "qC" => match self.reported {
                Some((id, _)) => format!("QC{}{id:x}", self.process).into_bytes(),
                None => format!("QC{}{:x}", self.process, look.stopped(0).id).into_bytes(),
            },
            "jThreadsInfo" => threads_json(&self.listing(look).threads).into_bytes(),
            _ => Vec::new(),
        }
    }

    fn stop_info(&self, thread: &ListedThread) -> Vec<u8> {
        let signal = if self.reported.is_some_and(|(id, _)| id == thread.id) { 5 } else { 0 };
        let name = bytes::hex(thread.name.as_bytes());
        format!("T{signal:02x}thread:{}{:x};hexname:{name};", self.process, thread.id).into_bytes()
    }

    /// The next numbers of a list.
    fn more_ids(&mut self) -> Vec<u8> {
        let from = self.rest.len().saturating_sub(IDS);
        let part: Vec<String> = self.rest.drain(from..).rev().map(|id| format!("{}{id:x}", self.process)).collect();
        if part.is_empty() { b"l".to_vec() } else { format!("m{}", part.join(",")).into_bytes() }
    }

    /// `Z0,addr,kind`: a stop there is at a breakpoint, whatever was stepped.
    fn keep_breakpoint(&mut self, text: &str) {
        let (Some(set), Some(kind)) = (text.chars().next().map(|c| c == 'Z'), text.get(1..2)) else { return };
        let at = text.split(',').nth(1).and_then(|at| u64::from_str_radix(at, 16).ok());
        let Some(at) = at.filter(|_| matches!(kind, "0" | "1")) else { return };
        if !set {
            self.breakpoints.remove(&at);
        } else if self.breakpoints.len() < MAX_BREAKPOINTS {
            self.breakpoints.insert(at);
        }
    }
}

/// Whose registers a packet means.
enum Subject {
    /// Those of a CPU: `None` where threads are not shown.
    Cpu(Option<usize>),
    /// Those that a thread saved.
    Saved(Rc<Listing>, usize),
    /// Those of a thread that is not there.
    Gone,
}

/// `ADDRESS,LENGTH`.
fn range(text: &str) -> Option<(u64, usize)> {
    let (at, len) = text.split_once(',')?;
    Some((u64::from_str_radix(at, 16).ok()?, usize::from_str_radix(len, 16).ok()?))
}

fn answer(body: &[u8]) -> Todo {
    Todo::Answer(vec![body.to_vec()])
}

/// Bytes of registers; `xx` for one that is not known.
fn hex(bytes: &[Option<u8>]) -> Vec<u8> {
    bytes.iter().flat_map(|byte| byte.map_or_else(|| b"xx".to_vec(), |byte| to_hex(&[byte]))).collect()
}

/// A packet with a line for the debugger's console.
fn console(line: &str) -> Vec<u8> {
    [b"O", to_hex(format!("tx-trace: {line}\n").as_bytes()).as_slice()].concat()
}

/// The register that has this number by GDB's own count, for a stub that describes none.
fn usual(architecture: Option<Architecture>, number: u32) -> Option<(String, usize)> {
    let all = architecture?.registers().iter().filter(|r| r.group == Group::General);
    let register = all.into_iter().find(|r| r.number().map(u32::from) == Some(number))?;
    Some((register.name.to_owned(), register.bytes()))
}
