//! What gdbstub asks of a target, answered from memory alone.

use std::io;
use std::marker::PhantomData;

use gdbstub::arch::{Arch, RegId, Registers};
use gdbstub::common::Signal;
use gdbstub::conn::ConnectionExt;
use gdbstub::stub::{SingleThreadStopReason, run_blocking};
use gdbstub::target::ext::base::BaseOps;
use gdbstub::target::ext::base::singlethread::SingleThreadBase;
use gdbstub::target::{Target, TargetError, TargetResult};

use super::line::Line;
use crate::mem::Memory;

/// `EFAULT`: no such memory.
const NO_MEMORY: u8 = 14;
/// `EROFS`: nothing is written.
const READ_ONLY: u8 = 30;

/// A target that has died: its memory is all there is.
pub(super) struct DeadTarget<'a> {
    memory: &'a mut dyn Memory,
}

impl<'a> DeadTarget<'a> {
    pub(super) fn new(memory: &'a mut dyn Memory) -> Self {
        Self { memory }
    }
}

/// Registers that nobody knows.
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct NoRegisters;

impl Registers for NoRegisters {
    type ProgramCounter = u64;
    fn pc(&self) -> u64 {
        0
    }
    fn gdb_serialize(&self, mut write_byte: impl FnMut(Option<u8>)) {
        // One register of four bytes, unavailable: an empty answer would read as "not supported".
        for _ in 0..4 {
            write_byte(None);
        }
    }
    // An error here is fatal to the session, and has crashed GDB 13: refuse later, in `write_registers`.
    fn gdb_deserialize(&mut self, _: &[u8]) -> Result<(), ()> {
        Ok(())
    }
}

/// No register has a number.
#[derive(Debug)]
pub(super) enum NoId {}

impl RegId for NoId {
    fn from_raw_id(_: usize) -> Option<(Self, Option<std::num::NonZeroUsize>)> {
        None
    }
}

/// Whatever the target was: addresses of up to 64 bits.
pub(super) enum AnyArch {}

impl Arch for AnyArch {
    type Usize = u64;
    type Registers = NoRegisters;
    type BreakpointKind = usize;
    type RegId = NoId;
}

impl Target for DeadTarget<'_> {
    type Arch = AnyArch;
    type Error = io::Error;

    fn base_ops(&mut self) -> BaseOps<'_, Self::Arch, Self::Error> {
        BaseOps::SingleThread(self)
    }

    fn guard_rail_implicit_sw_breakpoints(&self) -> bool {
        true
    }
}

impl SingleThreadBase for DeadTarget<'_> {
    fn read_registers(&mut self, _: &mut NoRegisters) -> TargetResult<(), Self> {
        Ok(())
    }

    fn write_registers(&mut self, _: &NoRegisters) -> TargetResult<(), Self> {
        Err(TargetError::Errno(READ_ONLY))
    }

    fn read_addrs(&mut self, start: u64, data: &mut [u8]) -> TargetResult<usize, Self> {
        self.memory.read(start, data).map(|()| data.len()).map_err(|_| TargetError::Errno(NO_MEMORY))
    }

    fn write_addrs(&mut self, _: u64, _: &[u8]) -> TargetResult<(), Self> {
        Err(TargetError::Errno(READ_ONLY))
    }
}

/// gdbstub's loop over one connection.
pub(super) struct Loop<'a>(PhantomData<&'a ()>);

impl<'a> run_blocking::BlockingEventLoop for Loop<'a> {
    type Target = DeadTarget<'a>;
    type Connection = Line;
    type StopReason = SingleThreadStopReason<u64>;

    fn wait_for_stop_reason(
        _: &mut Self::Target,
        connection: &mut Self::Connection,
    ) -> Result<run_blocking::Event<Self::StopReason>, run_blocking::WaitForStopReasonError<io::Error, io::Error>> {
        // Reached only if somebody makes it run, which it cannot.
        let byte = ConnectionExt::read(connection).map_err(run_blocking::WaitForStopReasonError::Connection)?;
        Ok(run_blocking::Event::IncomingData(byte))
    }

    fn on_interrupt(_: &mut Self::Target) -> Result<Option<Self::StopReason>, io::Error> {
        Ok(Some(SingleThreadStopReason::Signal(Signal::SIGTRAP)))
    }
}
