//! Traces built by hand: the modules under test see no format and no bytes.

use tx_trace::abi::{Addr, Endian, Width};
use tx_trace::catalogue::{Catalogue, Names};
use tx_trace::output::{NoNames, Resolve, View};
use tx_trace::trace::{
    About, Clock, ContextId, ContextKind, Contexts, Counts, Direction, Event, Events, Issue, Known, Object,
    ObjectTable, Trace, WalkState, Words,
};

struct List(Vec<Event>);

impl Events for List {
    fn count(&self) -> u64 {
        self.0.len() as u64
    }

    fn fill(&self, index: u64, _: &mut WalkState, out: &mut [Event]) -> usize {
        let rest = &self.0[(index as usize).min(self.0.len())..];
        let n = rest.len().min(out.len());
        out[..n].copy_from_slice(&rest[..n]);
        n
    }
}

/// A trace in the making.
pub struct Build {
    pub catalogue: Catalogue,
    pub about: About,
    pub clock: Clock,
    contexts: Contexts,
    objects: ObjectTable,
    events: Vec<Event>,
    ticks: i64,
}

/// A finished trace with what sinks need beside it.
pub struct Made {
    pub trace: Trace,
    pub catalogue: Catalogue,
}

impl Made {
    pub fn view(&self) -> View<'_> {
        self.view_with(&NoNames)
    }

    pub fn view_with<'a>(&'a self, names: &'a dyn Resolve) -> View<'a> {
        View { trace: &self.trace, catalogue: &self.catalogue, names, source: "a trace built by hand" }
    }
}

pub const SENSOR: Addr = 0x2000_0100;
pub const LOGGER: Addr = 0x2000_0200;
pub const NAMELESS: Addr = 0x2000_0300;
pub const QUEUE: Addr = 0x2000_1000;
pub const MUTEX: Addr = 0x2000_1100;

impl Build {
    pub fn new(hz: Option<f64>) -> Self {
        Self {
            catalogue: Catalogue::threadx(Names::Duo),
            about: About {
                format: "threadx",
                endian: Endian::Little,
                word: Width::W4,
                pointer: None,
                base: Some(0x2000_8000),
                capacity: 64,
                held: 0,
                empty: 0,
                wrapped: false,
                origin: 0,
                cores: 1,
                facts: Vec::new(),
            },
            clock: Clock {
                mask: 0xFFFF_FFFF,
                direction: Direction::Up,
                direction_known: Known::Given,
                period: None,
                hz,
                counts: Counts::Time,
                doubts: 0,
                reason: String::new(),
            },
            contexts: Contexts::default(),
            objects: ObjectTable::default(),
            events: Vec::new(),
            ticks: 0,
        }
    }

    pub fn object(&mut self, address: Addr, type_name: &'static str, name: &str, deleted: bool) {
        let is_thread = type_name == "thread";
        let priority = is_thread.then_some(10);
        let (param1, param2) = (0x100, 4);
        let (name, type_name) = (name.to_owned(), Some(type_name));
        self.objects.push(Object {
            address,
            type_code: 1,
            type_name,
            name,
            deleted,
            priority,
            param1,
            param2,
            is_thread,
        });
    }

    pub fn context(&mut self, kind: ContextKind, address: Addr) -> ContextId {
        let id = self.contexts.intern(kind, address);
        let object = self.objects.id_at(address);
        let name = object.and_then(|o| self.objects.get(o)).map(|o| o.name.clone());
        let context = self.contexts.get_mut(id).unwrap();
        context.name = name.map(Into::into);
        id
    }

    /// An event `step` ticks after the one before it.
    pub fn event(&mut self, step: i64, context: ContextId, id: u32, words: [u64; 4]) -> &mut Event {
        let first = self.events.is_empty();
        self.ticks += if first { 0 } else { step };
        let thread = self.contexts.get(context).unwrap().kind == ContextKind::Thread;
        let n = self.events.len() as u64;
        self.events.push(Event {
            seq: n,
            slot: n,
            ticks: self.ticks,
            delta: (!first).then_some(step),
            stamp: Some(0x1000 + self.ticks as u64),
            context,
            priority: thread.then_some(10),
            threshold: thread.then_some(10),
            id,
            def: self.catalogue.find(id),
            words: Words::four(words),
            ..Event::default()
        });
        self.events.last_mut().unwrap()
    }

    pub fn make(mut self, issues: Vec<Issue>) -> Made {
        self.about.held = self.events.len() as u64;
        let list = Box::new(List(self.events));
        let trace = Trace::new(self.about, self.clock, self.contexts, self.objects, issues, list);
        Made { trace, catalogue: self.catalogue }
    }
}

/// A small story: a sensor thread feeds a logger through a queue, an interrupt comes, the logger ends.
pub fn story(hz: Option<f64>) -> Made {
    let mut b = Build::new(hz);
    b.object(SENSOR, "thread", "sensor", false);
    b.object(LOGGER, "thread", "logger task", false);
    b.object(QUEUE, "queue", "samples", false);
    b.object(MUTEX, "mutex", "log lock", true);
    let init = b.context(ContextKind::Init, 0xF0F0_F0F0);
    let sensor = b.context(ContextKind::Thread, SENSOR);
    let logger = b.context(ContextKind::Thread, LOGGER);
    let nameless = b.context(ContextKind::Thread, NAMELESS);
    let isr = b.context(ContextKind::Isr, 0xFFFF_FFFF);
    let idle = b.context(ContextKind::Idle, 0);
    b.event(0, init, 6, [0; 4]);
    b.event(0, init, 100, [SENSOR, 10, 0x2000_4000, 1024]);
    b.event(720, logger, 68, [QUEUE, 0x2000_5010, 0xFFFF_FFFF, 0]);
    b.event(72, logger, 2, [LOGGER, 5, 0x2000_4f80, SENSOR]);
    b.event(144, sensor, 52, [MUTEX, 0, 0, 0]).threshold = Some(3);
    b.event(36_000, sensor, 69, [QUEUE, 0x2000_5020, 50, 1]);
    b.event(12, sensor, 1, [LOGGER, 5, 0x2000_4f00, SENSOR]);
    b.event(7_200, isr, 3, [0x2000_7f00, 15, 1, 0]).interrupted = Some(sensor);
    b.event(80, isr, 88, [0x2000_1200, 4, 1, 0x2000_7f00]).interrupted = Some(sensor);
    b.event(90, isr, 4, [0x2000_7f00, 15, 1, 0]).interrupted = Some(sensor);
    b.event(100, sensor, 112, [100, 0, 0x2000_4f00, 0]);
    b.event(44, sensor, 2, [SENSOR, 4, 0x2000_4f00, 0]).doubtful = 0b1000;
    b.event(720_000, isr, 3, [0x2000_7f00, 15, 1, 0]).interrupted = Some(idle);
    b.event(300, nameless, 4097, [0x2A, QUEUE, 0, 0]);
    b.event(301, nameless, 3000, [0, 0, 0, 0]);
    b.event(302, nameless, 385, [0x2000_1300, 0x0A00_0001, 0xFFFF_FF00, 0x4021]);
    b.make(Vec::new())
}
