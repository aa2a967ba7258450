//! What QNX's instrumented kernel records. The meaning of an event depends on its class and number, on the release of the
//! system, and on how much was recorded: `fast` (two words) or `wide`. So several definitions share a name and an id.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use super::table::{read_enumerations, read_field, rows};
use super::{Catalogue, Effects, Enumeration, EventDef, FieldDef, Product, Takes, Ways};
use crate::trace::DefId;

/// Class of kernel calls.
const KERNEL_CALL: u16 = 2;
/// Class of the application's events.
const USER: u16 = 6;
/// Numbers that an application's event can have.
const USER_IDS: u32 = 1024;
/// Number of words that get a name where their meaning is not known.
const UNKNOWN_WORDS: usize = 8;
/// The first word of a kernel call that failed.
const FAILED: u64 = 0xFFFF_FFFF;
/// The fewest characters that are taken for text.
const MIN_TEXT: usize = 3;

/// Names of the classes by their number in memory.
const CLASSES: [&str; 12] =
    ["empty", "control", "ker_call", "int", "pr_th", "system", "user", "comm", "quip", "sec", "qvm", "pmu"];

/// When a definition holds.
#[derive(Debug, Clone)]
struct Rule {
    from: u16,
    to: u16,
    /// The most words of a payload that it describes; `None` for any number.
    most: Option<usize>,
    when: When,
    def: DefId,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    Always,
    /// A kernel call that gave back -1.
    Failed,
    /// Words that hold characters.
    Text,
}

/// Every definition, found by what an event holds.
#[derive(Debug)]
pub struct QnxEvents {
    catalogue: Catalogue,
    rules: HashMap<(u16, u16), Vec<Rule>>,
}

/// The definitions of QNX events. The numbers that [`QnxEvents::find`] gives are those of its catalogue.
pub fn qnx_events() -> &'static QnxEvents {
    static EVENTS: OnceLock<QnxEvents> = OnceLock::new();
    EVENTS.get_or_init(QnxEvents::read)
}

impl QnxEvents {
    /// The catalogue.
    pub fn catalogue(&self) -> Catalogue {
        self.catalogue.clone()
    }

    /// The definition of a number that [`QnxEvents::find`] gave.
    pub fn def(&self, number: DefId) -> Option<&EventDef> {
        self.catalogue.def(number)
    }

    /// The name of a class, by its number in memory.
    pub fn class(&self, number: u16) -> Option<&'static str> {
        CLASSES.get(usize::from(number)).copied()
    }

    /// The definition of an event of this release (64 is 6.4), class, number and payload of 32-bit words; `is_text`
    /// returns whether the payload holds characters, and is called only for an application's event.
    pub fn find(
        &self,
        release: u16,
        class: u16,
        id: u16,
        words: &[u64],
        is_text: impl FnOnce() -> bool,
    ) -> Option<DefId> {
        let rules = self.rules.get(&(class, id))?;
        let failed = class == KERNEL_CALL && (0x80..0x100).contains(&(id & 0x1FF)) && words.first() == Some(&FAILED);
        let text = class == USER && words.len() > 2 && is_text();
        let fits = |r: &&Rule| {
            (r.from..=r.to).contains(&release)
                && r.most.is_none_or(|m| words.len() <= m)
                && match r.when {
                    When::Always => !failed && !text,
                    When::Failed => failed,
                    When::Text => text,
                }
        };
        rules.iter().find(fits).map(|r| r.def)
    }

    fn read() -> Self {
        let enumerations = read_enumerations(include_str!("qnx_codes.tsv"));
        let mut all = Reader { defs: Vec::new(), rules: HashMap::new(), enumerations };
        for row in rows(include_str!("qnx.tsv")) {
            all.row(&row);
        }
        all.user();
        let ways = Ways { larger_is_urgent: true, quiet_locks: true, idle_is_thread: true };
        Self { catalogue: Catalogue::listed(all.defs, all.enumerations).with_ways(ways), rules: all.rules }
    }
}

/// True where words hold characters that can be printed, up to a zero byte, and nothing after it.
#[expect(clippy::arithmetic_side_effects, reason = "counts characters")]
pub fn looks_like_text(mut bytes: impl Iterator<Item = u8>) -> bool {
    let printable = |byte| matches!(byte, b'\t' | b'\n' | b'\r' | b' '..=b'~');
    let characters = bytes.by_ref().take_while(|b| *b != 0).try_fold(0usize, |n, b| printable(b).then_some(n + 1));
    characters.is_some_and(|n| n >= MIN_TEXT) && bytes.all(|b| b == 0)
}

struct Reader {
    defs: Vec<EventDef>,
    rules: HashMap<(u16, u16), Vec<Rule>>,
    enumerations: Vec<Arc<Enumeration>>,
}

impl Reader {
    fn put(&mut self, class: u16, def: EventDef, rule: Rule) {
        let Ok(id) = u16::try_from(def.id) else { return };
        self.rules.entry((class, id)).or_default().push(rule);
        self.defs.push(def);
    }

    /// The number of the next definition.
    fn next(&self) -> DefId {
        DefId::new(self.defs.len() as u32)
    }

    fn row(&mut self, row: &[&str]) {
        let [class, id, from, to, mode, name, macro_name, group, fields, effects, label] = row else { return };
        let (Ok(class), Ok(id), Ok(from), Ok(to)) = (class.parse(), id.parse(), from.parse(), to.parse()) else {
            return;
        };
        let fields = self.fields(fields);
        // A payload is of an even number of words, whatever the event has to say.
        let most = (*mode == "fast").then(|| fields.len().max(2).next_multiple_of(2));
        let def = EventDef {
            macro_name: (*macro_name).to_owned(),
            fields,
            effects: Effects::parse(effects).unwrap_or_default(),
            label: (*label).to_owned(),
            ..EventDef::new(id, (*name).to_owned(), Product::Kernel, (*group).to_owned())
        };
        if class == KERNEL_CALL && (0x80..0x100).contains(&(id & 0x1FF)) && *mode != "wide" {
            let failed = EventDef { fields: self.failure(), effects: Effects::default(), ..def.clone() };
            let rule = Rule { from, to, most: None, when: When::Failed, def: self.next() };
            self.put(class, failed, rule);
        }
        let rule = Rule { from, to, most, when: When::Always, def: self.next() };
        self.put(class, def, rule);
    }

    fn fields(&self, text: &str) -> Vec<Option<FieldDef>> {
        if text == "?" {
            return (1..=UNKNOWN_WORDS).map(|n| read_field(&format!("data_{n}:hex"), &[])).collect();
        }
        let mut fields = Vec::new();
        for part in text.split_whitespace() {
            let two = part.contains("*2");
            let mut field = read_field(&part.replace("*2", ""), &self.enumerations);
            if let Some(field) = &mut field {
                field.takes = match field.kind {
                    super::ArgKind::Text => Takes::Rest,
                    _ if two => Takes::Two,
                    _ => Takes::One,
                };
            }
            fields.push(field);
            if two {
                fields.push(None);
            }
        }
        fields
    }

    fn failure(&self) -> Vec<Option<FieldDef>> {
        self.fields("ret_val:hex:failed errno:dec:errno")
    }

    /// The application's events: words, or characters.
    fn user(&mut self) {
        let words: String = (0..UNKNOWN_WORDS).map(|n| format!("d{n}:hex ")).collect();
        for (fields, when) in [(words.as_str(), When::Always), ("text:text", When::Text)] {
            let fields = self.fields(fields);
            for id in 0..USER_IDS {
                let def = EventDef {
                    fields: fields.clone(),
                    effects: Effects::mark(),
                    ..EventDef::new(id, format!("user_{id}"), Product::User, "user".to_owned())
                };
                let rule = Rule { from: 0, to: u16::MAX, most: None, when, def: self.next() };
                self.put(USER, def, rule);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::{ArgKind, Effect};

    fn def(release: u16, class: u16, id: u16, words: &[u64]) -> EventDef {
        let found = qnx_events().find(release, class, id, words, || false).unwrap();
        qnx_events().catalogue.def(found).unwrap().clone()
    }

    fn names(def: &EventDef) -> Vec<&str> {
        def.fields.iter().flatten().map(|f| f.name.as_str()).collect()
    }

    #[test]
    fn every_row_is_read_and_every_cell_understood() {
        let rows: Vec<Vec<&str>> = rows(include_str!("qnx.tsv")).collect();
        let lines = include_str!("qnx.tsv").lines().filter(|l| !l.starts_with(['#', 'c'])).count();
        assert_eq!(rows.len(), lines);
        for row in &rows {
            for cell in row[8].split_whitespace().filter(|c| !["?", "-"].contains(c)) {
                let parts: Vec<&str> = cell.split(':').collect();
                assert!(ArgKind::parse(parts[1].trim_end_matches("*2")).is_some(), "{cell}");
                let words = read_enumerations(include_str!("qnx_codes.tsv"));
                assert!(parts.len() < 3 || words.iter().any(|e| e.name == parts[2]), "{cell}");
            }
            assert!(Effects::parse(row[9]).is_some(), "{}", row[9]);
            assert!(["fast", "wide", "both"].contains(&row[4]), "{}", row[4]);
        }
    }

    #[test]
    fn the_length_of_the_payload_distinguishes_fast_from_wide() {
        assert_eq!(names(&def(64, 2, 11, &[0; 2])), ["coid", "msg"]);
        assert_eq!(names(&def(64, 2, 11, &[0; 6])), ["coid", "sparts", "rparts", "msg_0", "msg_1", "msg_2"]);
        // Fast, and still six words.
        assert_eq!(names(&def(64, 5, 6, &[0; 6])), ["pid", "vaddr", "len", "flags"]);
        assert_eq!(names(&def(64, 5, 6, &[0; 14])).len(), 9);
    }

    #[test]
    fn the_release_gives_a_number_its_meaning() {
        let name = |release, id| def(release, 2, id, &[0; 2]).name;
        assert_eq!(
            [name(64, 3), name(71, 3), name(80, 3)],
            ["spare1_enter", "cache_flush_enter", "cache_control_enter"]
        );
        let state = |release, id| def(release, 4, id, &[1, 1]).name;
        assert_eq!([state(64, 7), state(80, 7)], ["thread_stack", "thread_mq_send"]);
        assert_eq!([state(71, 26), state(80, 26)], ["vthread_dead", "thread_muon_mutex"]);
        assert_eq!(state(80, 5), "thread_receive");
        assert_eq!(names(&def(71, 2, 11 | 0x200, &[0; 8]))[..3], ["coid", "sparts", "rparts"]);
    }

    #[test]
    fn a_failed_call_has_an_error_number() {
        let failed = def(64, 2, 148, &[0xFFFF_FFFF, 3]);
        assert_eq!(names(&failed), ["ret_val", "errno"]);
        assert_eq!(failed.fields[1].as_ref().unwrap().words.as_ref().unwrap().word(3), Some("ESRCH"));
        assert_ne!(names(&def(64, 2, 148, &[0, 3])), ["ret_val", "errno"]);
    }

    #[test]
    fn threads_are_named_by_two_words() {
        let run = def(64, 4, 1, &[7, 2]);
        assert_eq!(run.effects.target(Effect::Run, &[7, 2]), Some(2 << 32 | 7));
        assert_eq!(run.effects.to_text(), "run:1+2");
        assert!(def(64, 4, 5, &[7, 2]).effects.has(Effect::Block));
        assert!(def(64, 3, 1, &[0, 0]).effects.has(Effect::IsrEnter));
    }

    #[test]
    fn the_application_says_words_or_text() {
        assert_eq!(names(&def(64, 6, 5, &[1, 2])), ["d0", "d1", "d2", "d3", "d4", "d5", "d6", "d7"]);
        let text = qnx_events().find(64, 6, 1023, &[0; 4], || true).unwrap();
        assert_eq!(names(qnx_events().catalogue.def(text).unwrap()), ["text"]);
        assert!(looks_like_text(b"hello\0\0\0".iter().copied()));
        assert!(!looks_like_text(b"he\0lo\0\0\0".iter().copied()));
        assert!(!looks_like_text([1u8, 0, 0, 0].into_iter()));
    }
}
