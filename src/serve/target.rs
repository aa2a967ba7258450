//! What gdbstub asks of a target, answered from memory and the list of threads.
//!
//! Nothing runs and nothing is written. A debugger resumes, steps and sets breakpoints as on any target, prints one
//! sentence, and is where it was. Where less is implemented GDB prints misleading errors, loses the connection, or hangs.

use std::io;
use std::marker::PhantomData;
use std::rc::Rc;

use gdbstub::arch::{Arch, Registers};
use gdbstub::common::{Signal, Tid};
use gdbstub::conn::Connection;
use gdbstub::stub::{MultiThreadStopReason, run_blocking};
use gdbstub::target::ext::base::BaseOps;
use gdbstub::target::ext::base::multithread::{
    MultiThreadBase, MultiThreadResume, MultiThreadResumeOps, MultiThreadSchedulerLocking,
    MultiThreadSchedulerLockingOps, MultiThreadSingleStep, MultiThreadSingleStepOps,
};
use gdbstub::target::ext::breakpoints::{
    Breakpoints, BreakpointsOps, HwBreakpoint, HwBreakpointOps, SwBreakpoint, SwBreakpointOps,
};
use gdbstub::target::ext::memory_map::{MemoryMap, MemoryMapOps};
use gdbstub::target::ext::monitor_cmd::{ConsoleOutput, MonitorCmd, MonitorCmdOps};
use gdbstub::target::ext::target_description_xml_override::{
    TargetDescriptionXmlOverride, TargetDescriptionXmlOverrideOps,
};
use gdbstub::target::ext::thread_extra_info::{ThreadExtraInfo, ThreadExtraInfoOps};
use gdbstub::target::{Target, TargetError, TargetResult};

use super::link::Link;
use super::monitor::{self, Answer};
use crate::debugger::{ListedThread, ThreadList};
use crate::mem::Memory;
use crate::rsp::packet::{encode, to_hex};

/// `ESRCH`: no such thread.
const NO_THREAD: u8 = 3;
/// `EFAULT`: no such memory.
const NO_MEMORY: u8 = 14;
/// `EROFS`: nothing is written.
const READ_ONLY: u8 = 30;
/// The thread that gdbstub asks about before a client has chosen one.
const NOT_CHOSEN: usize = 1;

/// A post-mortem target: memory and threads.
pub(super) struct DeadTarget<'a> {
    pub(super) memory: &'a mut dyn Memory,
    pub(super) threads: Rc<ThreadList>,
    pub(super) answer: Option<&'a mut Answer<'a>>,
    /// The thread that is to run alone, or to step: it is reported as stopped.
    pub(super) resumed: Option<Tid>,
    /// Target description and memory map, in XML.
    pub(super) description: String,
    pub(super) map: String,
}

/// The bytes of a thread's registers; what is not known is `None`.
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct RegisterBytes(Vec<Option<u8>>);

impl Registers for RegisterBytes {
    type ProgramCounter = u64;
    fn pc(&self) -> u64 {
        0
    }
    fn gdb_serialize(&self, mut write_byte: impl FnMut(Option<u8>)) {
        for byte in &self.0 {
            write_byte(*byte);
        }
    }
    // An error here is fatal to the session, and has crashed GDB 13: refuse later, in `write_registers`.
    fn gdb_deserialize(&mut self, _: &[u8]) -> Result<(), ()> {
        Ok(())
    }
}

/// Any target: addresses of up to 64 bits.
pub(super) enum AnyArch {}

impl Arch for AnyArch {
    type Usize = u64;
    type Registers = RegisterBytes;
    type BreakpointKind = usize;
    type RegId = ();
}

impl Target for DeadTarget<'_> {
    type Arch = AnyArch;
    type Error = io::Error;

    fn base_ops(&mut self) -> BaseOps<'_, Self::Arch, Self::Error> {
        BaseOps::MultiThread(self)
    }

    fn guard_rail_implicit_sw_breakpoints(&self) -> bool {
        true
    }

    fn support_breakpoints(&mut self) -> Option<BreakpointsOps<'_, Self>> {
        Some(self)
    }

    fn support_monitor_cmd(&mut self) -> Option<MonitorCmdOps<'_, Self>> {
        Some(self)
    }

    fn support_target_description_xml_override(&mut self) -> Option<TargetDescriptionXmlOverrideOps<'_, Self>> {
        Some(self)
    }

    fn support_memory_map(&mut self) -> Option<MemoryMapOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadBase for DeadTarget<'_> {
    fn read_registers(&mut self, registers: &mut RegisterBytes, id: Tid) -> TargetResult<(), Self> {
        let id = id.get();
        let chosen = self.threads.thread(id).or_else(|| {
            let first = self.threads.thread(self.threads.selected());
            first.filter(|_| id == NOT_CHOSEN)
        });
        let thread = chosen.ok_or(TargetError::Errno(NO_THREAD))?;
        registers.0 = self.threads.all_bytes(thread);
        Ok(())
    }

    fn write_registers(&mut self, _: &RegisterBytes, _: Tid) -> TargetResult<(), Self> {
        Err(TargetError::Errno(READ_ONLY))
    }

    fn read_addrs(&mut self, start: u64, data: &mut [u8], _: Tid) -> TargetResult<usize, Self> {
        self.memory.read(start, data).map(|()| data.len()).map_err(|_| TargetError::Errno(NO_MEMORY))
    }

    fn write_addrs(&mut self, _: u64, _: &[u8], _: Tid) -> TargetResult<(), Self> {
        Err(TargetError::Errno(READ_ONLY))
    }

    fn list_active_threads(&mut self, each: &mut dyn FnMut(Tid)) -> Result<(), io::Error> {
        self.threads.threads().iter().filter_map(|t| Tid::new(t.id)).for_each(each);
        Ok(())
    }

    fn support_resume(&mut self) -> Option<MultiThreadResumeOps<'_, Self>> {
        Some(self)
    }

    fn support_thread_extra_info(&mut self) -> Option<ThreadExtraInfoOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadResume for DeadTarget<'_> {
    fn resume(&mut self) -> Result<(), io::Error> {
        Ok(())
    }

    fn clear_resume_actions(&mut self) -> Result<(), io::Error> {
        self.resumed = None;
        Ok(())
    }

    fn set_resume_action_continue(&mut self, id: Tid, _: Option<Signal>) -> Result<(), io::Error> {
        self.resumed.get_or_insert(id);
        Ok(())
    }

    fn support_single_step(&mut self) -> Option<MultiThreadSingleStepOps<'_, Self>> {
        Some(self)
    }

    fn support_scheduler_locking(&mut self) -> Option<MultiThreadSchedulerLockingOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadSingleStep for DeadTarget<'_> {
    fn set_resume_action_step(&mut self, id: Tid, _: Option<Signal>) -> Result<(), io::Error> {
        self.resumed = Some(id);
        Ok(())
    }
}

impl MultiThreadSchedulerLocking for DeadTarget<'_> {
    fn set_resume_action_scheduler_lock(&mut self) -> Result<(), io::Error> {
        Ok(())
    }
}

impl Breakpoints for DeadTarget<'_> {
    fn support_sw_breakpoint(&mut self) -> Option<SwBreakpointOps<'_, Self>> {
        Some(self)
    }

    fn support_hw_breakpoint(&mut self) -> Option<HwBreakpointOps<'_, Self>> {
        Some(self)
    }
}

/// Accepted and ignored: nothing runs into them.
impl SwBreakpoint for DeadTarget<'_> {
    fn add_sw_breakpoint(&mut self, _: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(true)
    }

    fn remove_sw_breakpoint(&mut self, _: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(true)
    }
}

impl HwBreakpoint for DeadTarget<'_> {
    fn add_hw_breakpoint(&mut self, _: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(true)
    }

    fn remove_hw_breakpoint(&mut self, _: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(true)
    }
}

impl ThreadExtraInfo for DeadTarget<'_> {
    fn thread_extra_info(&self, id: Tid, buf: &mut [u8]) -> Result<usize, io::Error> {
        let text = self.threads.thread(id.get()).map_or_else(String::new, ListedThread::described);
        Ok(copy(text.as_bytes(), 0, usize::MAX, buf))
    }
}

impl MonitorCmd for DeadTarget<'_> {
    fn handle_monitor_cmd(&mut self, line: &[u8], out: ConsoleOutput<'_>) -> Result<(), io::Error> {
        monitor::run(line, self.memory, self.answer.as_deref_mut(), out);
        Ok(())
    }
}

impl TargetDescriptionXmlOverride for DeadTarget<'_> {
    fn target_description_xml(
        &self,
        annex: &[u8],
        offset: u64,
        len: usize,
        buf: &mut [u8],
    ) -> TargetResult<usize, Self> {
        if annex != b"target.xml" || self.description.is_empty() {
            return Err(TargetError::NonFatal);
        }
        Ok(copy(self.description.as_bytes(), offset, len, buf))
    }
}

impl MemoryMap for DeadTarget<'_> {
    fn memory_map_xml(&self, offset: u64, len: usize, buf: &mut [u8]) -> TargetResult<usize, Self> {
        Ok(copy(self.map.as_bytes(), offset, len, buf))
    }
}

/// Copies the part of a document that is asked for; returns its length.
fn copy(document: &[u8], offset: u64, len: usize, buf: &mut [u8]) -> usize {
    let rest = usize::try_from(offset).ok().and_then(|offset| document.get(offset..)).unwrap_or_default();
    let len = rest.len().min(len).min(buf.len());
    buf.iter_mut().zip(rest).take(len).for_each(|(to, from)| *to = *from);
    len
}

/// gdbstub's loop over one connection.
pub(super) struct Loop<'a>(PhantomData<&'a ()>);

impl<'a> run_blocking::BlockingEventLoop for Loop<'a> {
    type Target = DeadTarget<'a>;
    type Connection = Link<'a>;
    type StopReason = MultiThreadStopReason<u64>;

    fn wait_for_stop_reason(
        target: &mut Self::Target,
        link: &mut Self::Connection,
    ) -> Result<run_blocking::Event<Self::StopReason>, run_blocking::WaitForStopReasonError<io::Error, io::Error>> {
        let sentence = encode(&[b"O", to_hex(monitor::CANNOT.as_bytes()).as_slice()].concat());
        let sent = link.write_all(&sentence).and_then(|()| link.flush());
        sent.map_err(run_blocking::WaitForStopReasonError::Connection)?;
        Ok(run_blocking::Event::TargetStopped(stopped(target, link.signal())))
    }

    fn on_interrupt(target: &mut Self::Target) -> Result<Option<Self::StopReason>, io::Error> {
        Ok(Some(stopped(target, 0)))
    }
}

/// Reports the thread that was to step as stopped, else the one that had stopped at first.
fn stopped(target: &DeadTarget<'_>, signal: u8) -> MultiThreadStopReason<u64> {
    let threads = &target.threads;
    let id = target.resumed.map(Tid::get).filter(|id| threads.thread(*id).is_some());
    let id = id.unwrap_or_else(|| threads.stopped());
    // A debugger then selects the thread that stopped.
    threads.select(id);
    MultiThreadStopReason::SignalWithThread { tid: Tid::new(id).unwrap_or(Tid::MIN), signal: Signal(signal) }
}
