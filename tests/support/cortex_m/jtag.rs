//! The JTAG test access port, at the far end of OpenOCD's `remote_bitbang`.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;

use super::chip::Shared;
use super::dap::Dap;

/// The register that is scanned.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Register {
    Data,
    Instruction,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Reset,
    Idle,
    Select(Register),
    Capture(Register),
    Shift(Register),
    Exit1(Register),
    Pause(Register),
    Exit2(Register),
    Update(Register),
}

impl State {
    fn next(self, tms: bool) -> Self {
        use State::*;
        let (zero, one) = match self {
            Reset => (Idle, Reset),
            Idle | Update(_) => (Idle, Select(Register::Data)),
            Select(Register::Data) => (Capture(Register::Data), Select(Register::Instruction)),
            Select(Register::Instruction) => (Capture(Register::Instruction), Reset),
            Capture(register) | Shift(register) => (Shift(register), Exit1(register)),
            Exit1(register) => (Pause(register), Update(register)),
            Pause(register) => (Pause(register), Exit2(register)),
            Exit2(register) => (Shift(register), Update(register)),
        };
        if tms { one } else { zero }
    }
}

// Instructions, four bits.
const ABORT: u64 = 0x8;
const DPACC: u64 = 0xA;
const APACC: u64 = 0xB;
const IDCODE: u64 = 0xE;

struct Tap {
    shared: Arc<Shared>,
    dap: Dap,
    state: State,
    clock: bool,
    instruction: u64,
    /// The register that is shifted, and its length.
    shifted: u64,
    bits: u32,
    /// What the last read gave: the next scan carries it out.
    result: u32,
    in_reset: bool,
}

/// Serves one connection of OpenOCD.
pub fn serve(shared: &Arc<Shared>, mut stream: TcpStream) -> std::io::Result<()> {
    let mut tap = Tap {
        shared: Arc::clone(shared),
        dap: Dap::new(Arc::clone(shared)),
        state: State::Reset,
        clock: false,
        instruction: IDCODE,
        shifted: 0,
        bits: 1,
        result: 0,
        in_reset: false,
    };
    let mut input = vec![0; 0x1_0000];
    loop {
        let len = stream.read(&mut input)?;
        if len == 0 {
            return Ok(());
        }
        let plugged_in = !shared.lock().unplugged;
        let mut output = Vec::new();
        for command in &input[..len] {
            match command {
                b'0'..=b'7' if plugged_in => tap.pins(command - b'0'),
                b'R' => output.push(if plugged_in && !tap.output() { b'0' } else { b'1' }),
                b'r'..=b'u' if plugged_in => tap.resets(command - b'r'),
                b'Q' => return Ok(()),
                _ => {}
            }
        }
        if !output.is_empty() {
            let latency = shared.lock().pace.latency;
            shared.sleep(latency);
            stream.write_all(&output)?;
        }
    }
}

impl Tap {
    /// TCK, TMS and TDI.
    fn pins(&mut self, pins: u8) {
        let clock = pins & 4 != 0;
        if clock && !self.clock {
            self.rise(pins & 2 != 0, pins & 1 != 0);
        }
        self.clock = clock;
    }

    /// TRST and SRST.
    fn resets(&mut self, lines: u8) {
        if lines & 2 != 0 {
            (self.state, self.instruction) = (State::Reset, IDCODE);
        }
        let in_reset = lines & 1 != 0;
        if in_reset != self.in_reset {
            self.shared.change(|chip| if in_reset { chip.reset(true) } else { chip.release_reset() });
        }
        self.in_reset = in_reset;
    }

    /// TDO.
    fn output(&self) -> bool {
        !matches!(self.state, State::Shift(_)) || self.shifted & 1 != 0
    }

    fn rise(&mut self, tms: bool, tdi: bool) {
        match self.state {
            State::Capture(register) => {
                (self.bits, self.shifted) = match (register, self.instruction) {
                    (Register::Instruction, _) => (4, 1),
                    (Register::Data, DPACC | APACC) => (35, u64::from(self.result) << 3 | 2),
                    (Register::Data, ABORT) => (35, 0),
                    (Register::Data, IDCODE) => (32, 0x4BA0_0477),
                    (Register::Data, _) => (1, 0),
                }
            }
            State::Shift(_) => self.shifted = self.shifted >> 1 | u64::from(tdi) << (self.bits - 1),
            _ => {}
        }
        self.state = self.state.next(tms);
        match self.state {
            State::Update(Register::Instruction) => self.instruction = self.shifted,
            State::Update(Register::Data) => self.update(),
            State::Reset => self.instruction = IDCODE,
            _ => {}
        }
    }

    fn update(&mut self) {
        let read = self.shifted & 1 != 0;
        let register = (self.shifted >> 1 & 3) as u32 * 4;
        let word = (self.shifted >> 3) as u32;
        match (self.instruction, read) {
            (DPACC, true) => self.result = self.dap.read_dp(register),
            (DPACC, false) => self.dap.write_dp(register, word),
            (APACC, true) => self.result = self.dap.ap(register, None),
            (APACC, false) => drop(self.dap.ap(register, Some(word))),
            (ABORT, _) if word & 1 != 0 => self.dap.clear_error(),
            _ => {}
        }
    }
}
