//! The debug port's registers, and one AHB memory access port behind it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::chip::Shared;

const STICKY_ERROR: u32 = 0x20;
/// CDBGPWRUPREQ and CSYSPWRUPREQ; each is acknowledged one bit above.
const POWER_REQUESTS: u32 = 0x5000_0000;

pub struct Dap {
    shared: Arc<Shared>,
    control: u32,
    select: u32,
    csw: u32,
    address: u32,
    /// When a slow probe has carried all bytes so far.
    carried: Instant,
}

impl Dap {
    pub fn new(shared: Arc<Shared>) -> Self {
        Self { shared, control: 0, select: 0, csw: 0x2300_0042, address: 0, carried: Instant::now() }
    }

    /// True after a bus fault, until it is cleared.
    pub fn failed(&self) -> bool {
        self.control & STICKY_ERROR != 0
    }

    pub fn clear_error(&mut self) {
        self.control &= !STICKY_ERROR;
    }

    pub fn read_dp(&self, register: u32) -> u32 {
        match register {
            4 => self.control | (self.control & POWER_REQUESTS) << 1,
            8 => self.select,
            _ => 0,
        }
    }

    pub fn write_dp(&mut self, register: u32, word: u32) {
        match register {
            // The sticky bits are cleared by ones.
            4 => self.control = (self.control & !word & 0xB2) | (word & (POWER_REQUESTS | 0xF0D)),
            8 => self.select = word,
            _ => {}
        }
    }

    /// An access of the access port's register; a write gives 0.
    pub fn ap(&mut self, register: u32, write: Option<u32>) -> u32 {
        if self.failed() || self.select >> 24 != 0 {
            return 0;
        }
        match (self.select & 0xF0 | register, write) {
            (0x00, Some(word)) => self.csw = (word & 0x7F00_0037) | 0x40,
            (0x00, None) => return self.csw,
            (0x04, Some(word)) => self.address = word,
            (0x04, None) => return self.address,
            (0x0C, _) => return self.transfer(write),
            (banked @ (0x10 | 0x14 | 0x18 | 0x1C), _) => {
                return self.bus((self.address & !0xF) | (banked & 0xC), 4, write);
            }
            (0xF8, None) => return 0xE00F_F003,
            (0xFC, None) => return 0x2477_0011,
            _ => {}
        }
        0
    }

    /// The data register: the address goes on by itself within 4 KB, and a packed transfer fills the word.
    fn transfer(&mut self, write: Option<u32>) -> u32 {
        let size = 1 << (self.csw & 3).min(2);
        let mode = self.csw >> 4 & 3;
        let mut word = 0;
        for _ in 0..if mode == 2 { 4 / size } else { 1 } {
            word |= self.bus(self.address, size, write);
            if self.failed() {
                return 0;
            }
            if mode != 0 {
                self.address = (self.address & !0xFFF) | (self.address.wrapping_add(size) & 0xFFF);
            }
        }
        word
    }

    fn bus(&mut self, at: u32, size: u32, write: Option<u32>) -> u32 {
        let bandwidth = self.shared.lock().pace.bandwidth;
        if bandwidth != 0 {
            // A sleep that took too long is made up for, and none is as short as a word.
            let now = Instant::now();
            self.carried =
                self.carried.max(now - Duration::from_millis(20)) + Duration::from_secs(1) * size / bandwidth;
            let ahead = self.carried.saturating_duration_since(now);
            if ahead > Duration::from_millis(5) {
                self.shared.sleep(ahead);
            }
        }
        let outcome = match write {
            Some(_) => self.shared.change(|chip| chip.access(at, size, write)),
            None => self.shared.lock().access(at, size, None),
        };
        outcome.unwrap_or_else(|_| {
            self.control |= STICKY_ERROR;
            0
        })
    }
}
