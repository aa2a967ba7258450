//! Ctrl-C at every look at the link.

use super::*;

/// A machine as QEMU 7 serves it: whatever byte comes while it runs halts it, but for the acknowledgement of its last
/// packet.
#[derive(Default)]
struct Machine {
    runs: bool,
    unacked: bool,
    request: Vec<u8>,
    answers: Vec<u8>,
    /// Sent in front of the answer to `D`: what answers a question of before.
    late: &'static str,
    /// Ctrl-C comes with so many looks at the link.
    interrupt: Option<(usize, &'static AtomicBool)>,
    looks: usize,
}

impl Machine {
    /// Connecting to it halts it where it ran, which it tells.
    fn connected(runs: bool) -> Self {
        let mut this = Self::default();
        if runs {
            this.say("T02thread:01;");
        }
        this
    }

    fn say(&mut self, body: &str) {
        let sum = body.bytes().fold(0_u8, u8::wrapping_add);
        self.answers.extend(format!("${body}#{sum:02x}").bytes());
        self.unacked = true;
    }

    fn console(&mut self, text: &str) {
        self.say(&text.bytes().fold("O".to_owned(), |all, b| format!("{all}{b:02x}")));
        self.say("OK");
    }

    fn hear(&mut self, byte: u8) {
        if std::mem::take(&mut self.unacked) && byte != b'$' {
            self.unacked = byte != b'+';
            return;
        }
        if std::mem::take(&mut self.runs) {
            self.say("T02thread:01;");
            return;
        }
        if self.request.is_empty() && byte != b'$' {
            return;
        }
        self.request.push(byte);
        if self.request.iter().rev().nth(2) == Some(&b'#') {
            let request = String::from_utf8(std::mem::take(&mut self.request)).unwrap();
            self.answers.push(b'+');
            self.answer(&request[1..request.len() - 3]);
        }
    }

    fn answer(&mut self, body: &str) {
        let status: String = "info status".bytes().map(|b| format!("{b:02x}")).collect();
        match body.split([':', ',']).next().unwrap() {
            "qSupported" => self.say("PacketSize=1000;vContSupported+;multiprocess+"),
            "?" => self.say("T05thread:01;"),
            "vCont?" => self.say("vCont;c;C;s;S"),
            "vCont;c" => self.runs = true,
            "qqemu.sstepbits" => self.say("ENABLE=1,NOIRQ=2,NOTIMER=4"),
            "qRcmd" if body.ends_with(&status) => self.console("VM status: paused (prelaunch)"),
            "qRcmd" => self.console("7.2.22"),
            "D" => {
                if !self.late.is_empty() {
                    self.say(self.late);
                }
                self.runs = true;
                self.say("OK");
            }
            read if read.starts_with('m') => self.say("00112233"),
            _ => self.say(""),
        }
    }
}

struct Wire(Arc<Mutex<Machine>>);

impl Transport for Wire {
    fn send(&mut self, bytes: &[u8], _: Instant) -> Result<(), TransportError> {
        let mut machine = self.0.lock().unwrap();
        bytes.iter().for_each(|b| machine.hear(*b));
        Ok(())
    }

    fn receive(&mut self, buf: &mut [u8], _: Instant) -> Result<usize, TransportError> {
        let mut machine = self.0.lock().unwrap();
        machine.looks += 1;
        if let Some((at, flag)) = machine.interrupt
            && machine.looks > at
        {
            flag.store(true, Ordering::Relaxed);
        }
        // A byte at a time: Ctrl-C may come within a packet.
        if machine.answers.is_empty() {
            drop(machine);
            std::thread::sleep(Duration::from_micros(100));
            return Err(TransportError::Timeout);
        }
        buf[0] = machine.answers.remove(0);
        Ok(1)
    }
}

/// A late answer was acknowledged behind `D`; that made one byte too many, and the machine stood.
#[test]
fn an_acknowledgement_too_many_halted_qemu_again() {
    let mut machine = Machine::connected(true);
    machine.late = "PacketSize=1000;vContSupported+;multiprocess+";
    let machine = Arc::new(Mutex::new(machine));
    let client = Client::over(Box::new(Wire(Arc::clone(&machine))), "machine", options()).unwrap();
    assert_eq!(client.leave().after, After::Running);
    assert!(machine.lock().unwrap().runs);
}

/// Ctrl-C before the first answer, or in the middle of getting into step, left a machine that ran standing.
#[test]
fn ctrl_c_while_halting_left_qemu_paused() {
    for runs in [true, false] {
        for at in 0.. {
            let flag: &'static AtomicBool = Box::leak(Box::default());
            let machine = Machine { interrupt: Some((at, flag)), ..Machine::connected(runs) };
            let machine = Arc::new(Mutex::new(machine));
            let wire = Box::new(Wire(Arc::clone(&machine)));
            let options = Options { interrupt: Some(flag), ..options() };
            let work = || -> Result<(), RspError> {
                let mut client = Client::over(wire, "machine", options)?;
                for _ in 0..2 {
                    drop(client.read_memory(RAM, &mut [0; 4]));
                    client.resume()?;
                    client.watch(Instant::now() + Duration::from_millis(1))?;
                    client.halt()?;
                }
                Ok(())
            };
            // On every way out the client is dropped.
            let done = work();
            assert_eq!(machine.lock().unwrap().runs, runs, "after {at} looks: {done:?}");
            if !flag.load(Ordering::Relaxed) {
                assert!(at > 100 && done.is_ok(), "{at}: {done:?}");
                break;
            }
        }
    }
}

/// A link that brings what it is asked to, cut as it is asked to, and takes everything.
struct Script(Vec<Vec<u8>>);

impl Transport for Script {
    fn send(&mut self, _: &[u8], _: Instant) -> Result<(), TransportError> {
        Ok(())
    }

    fn receive(&mut self, buf: &mut [u8], _: Instant) -> Result<usize, TransportError> {
        let Some(next) = self.0.pop().filter(|n| !n.is_empty()) else {
            std::thread::sleep(Duration::from_micros(200));
            return Err(TransportError::Timeout);
        };
        buf[..next.len()].copy_from_slice(&next);
        Ok(next.len())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn whatever_comes_it_ends_in_time_and_makes_nothing_up(
        pieces in prop::collection::vec(
            prop_oneof![
                prop::collection::vec(any::<u8>(), 1..40),
                Just(b"+".to_vec()),
                Just(b"$OK#9a".to_vec()),
                Just(b"$E01#a6".to_vec()),
                Just(b"$#00".to_vec()),
                Just(b"$S05#b8".to_vec()),
                Just(b"$0011#c2".to_vec()),
                Just(b"$QStartNoAckMode+;binary-upload+#78".to_vec()),
                Just(b"+$QStartNoAckMode+#db".to_vec()),
                Just(b"$O41#b4".to_vec()),
            ],
            0..60,
        ),
    ) {
        let quick = Options { timeout: Duration::from_millis(4), ..Options::default() };
        let began = Instant::now();
        if let Ok(mut client) = Client::over(Box::new(Script(pieces)), "script", quick) {
            // No piece holds eight bytes of memory; four pieces of two would be fair.
            if let Ok(bytes) = client.read_batch(&[(0x1000, 8)]).pop().unwrap() {
                prop_assert!(client.stats().memory_bytes >= 8 && bytes.len() == 8);
            }
            client.leave();
        }
        prop_assert!(began.elapsed() < Duration::from_secs(4));
    }
}
