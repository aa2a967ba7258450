//! A catalogue: every event id of one system with its definition, read from tables of tab-separated values.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, OnceLock};

use super::user::{Template, UserEvent};
use super::{ArgKind, Effects, Enumeration, EventDef, FieldDef, ObjectType, Product, Roles, threadx_object};
use crate::trace::DefId;

/// Every definition of one system.
#[derive(Debug, Clone)]
pub struct Catalogue {
    defs: Vec<EventDef>,
    by_id: HashMap<u32, DefId>,
    enumerations: Vec<Arc<Enumeration>>,
    /// The ids that applications choose, and the class that their events have.
    user: Option<(RangeInclusive<u32>, &'static str)>,
    templates: HashMap<u32, Template>,
    object_types: Option<fn(u32) -> Option<&'static ObjectType>>,
    ways: Ways,
    /// Computed at the first use.
    roles: OnceLock<Roles>,
}

/// Conventions of a system that its events do not show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ways {
    /// A larger number is a more urgent priority.
    pub larger_is_urgent: bool,
    /// A lock without waiting threads is taken and given back without an event: its owner is known only while a thread waits.
    pub quiet_locks: bool,
    /// A processor without work runs a thread.
    pub idle_is_thread: bool,
}

/// Which of two products gave the ids that both use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Names {
    /// NetX Duo: what ThreadX projects use today.
    #[default]
    Duo,
    /// NetX classic, which gave 441 to 448 another meaning.
    Classic,
}

/// The definition of an id that no table knows.
pub(super) fn unknown() -> &'static EventDef {
    static UNKNOWN: OnceLock<EventDef> = OnceLock::new();
    UNKNOWN.get_or_init(|| EventDef::new(0, String::new(), Product::User, String::new()))
}

impl Catalogue {
    /// A catalogue of these definitions; a later one of the same id replaces an earlier one.
    pub fn new(defs: Vec<EventDef>, enumerations: Vec<Arc<Enumeration>>) -> Self {
        let mut all = Self::listed(Vec::new(), enumerations);
        defs.into_iter().for_each(|def| all.put(def));
        all
    }

    /// Adds a definition, or replaces the one of the same id.
    pub fn put(&mut self, def: EventDef) {
        self.roles = OnceLock::new();
        if let Some(place) = self.by_id.get(&def.id).and_then(|old| self.defs.get_mut(old.index())) {
            *place = def;
            return;
        }
        let Ok(number) = u32::try_from(self.defs.len()) else { return };
        self.by_id.insert(def.id, DefId::new(number));
        self.defs.push(def);
    }

    /// The same definitions under other ids; those without one are left out.
    #[must_use]
    pub fn with_ids(self, id: impl Fn(u32) -> Option<u32>) -> Self {
        let Self { defs, enumerations, user, templates, object_types, ways, .. } = self;
        let moved = defs.into_iter().filter_map(|def| Some(EventDef { id: id(def.id)?, ..def })).collect();
        Self { user, templates, object_types, ways, ..Self::new(moved, enumerations) }
    }

    /// Gives the definition of this name another id, where there is one: a program has numbered it.
    pub fn renumber(&mut self, name: &str, id: u32) {
        if let Some((number, def)) = (0..).map(DefId::new).zip(&mut self.defs).find(|(_, def)| def.name == name) {
            self.by_id.remove(&def.id);
            def.id = id;
            self.by_id.insert(id, number);
        }
    }

    /// The same, with a range of ids that applications choose, and the class of their events.
    #[must_use]
    pub fn with_user_ids(mut self, ids: RangeInclusive<u32>, class: &'static str) -> Self {
        self.user = Some((ids, class));
        self
    }

    /// What a type code of the registry means, where the system's tables say so.
    pub fn object_type(&self, code: u32) -> Option<&'static ObjectType> {
        self.object_types.and_then(|of| of(code))
    }

    /// The same for a system with these conventions.
    #[must_use]
    pub fn with_ways(mut self, ways: Ways) -> Self {
        self.ways = ways;
        self
    }

    /// The system's conventions.
    pub const fn ways(&self) -> Ways {
        self.ways
    }

    /// What each definition does, by its number.
    pub fn roles(&self) -> &Roles {
        self.roles.get_or_init(|| Roles::of(self))
    }

    /// True where some event has this effect: what no event can show is not zero, but unknown.
    pub fn has_effect(&self, effect: super::Effect) -> bool {
        self.defs.iter().any(|d| d.effects.has(effect))
    }

    /// True where priority `a` is more urgent than `b`.
    pub fn is_more_urgent(&self, a: u16, b: u16) -> bool {
        if self.ways.larger_is_urgent { a > b } else { a < b }
    }

    /// The ids that applications choose; `None` where the system gives them no range of their own.
    pub fn user_ids(&self) -> Option<RangeInclusive<u32>> {
        self.user.as_ref().map(|(ids, _)| ids.clone())
    }

    /// True where the id is one that applications choose.
    pub fn is_user_id(&self, id: u32) -> bool {
        self.user.as_ref().is_some_and(|(ids, _)| ids.contains(&id))
    }

    /// What an event without a definition is called, so that the name can be given to `--event`.
    pub fn made_up_name(&self, id: u32) -> String {
        if self.is_user_id(id) { format!("user_{id}") } else { format!("event_{id}") }
    }

    /// Adds what a file or an ELF says about an event of the application.
    ///
    /// # Errors
    /// With the reason, where the id is the system's own.
    pub fn put_user(&mut self, event: &UserEvent) -> Result<(), String> {
        if !self.is_user_id(event.id)
            && let Some(own) = self.find(event.id).and_then(|d| self.def(d)).filter(|d| d.product != Product::User)
        {
            let free = self.user_ids().map_or(String::new(), |r| format!(", as from {} to {}", r.start(), r.end()));
            return Err(format!(
                "id {} is the system's own {}: only ids that it leaves free{free}, can be given a meaning",
                event.id, own.name
            ));
        }
        match Template::parse(&event.template) {
            Some(template) => drop(self.templates.insert(event.id, template)),
            None => drop(self.templates.remove(&event.id)),
        }
        let class = self.user.as_ref().map_or("", |(_, class)| *class);
        self.put(EventDef {
            fields: event.fields.clone(),
            effects: Effects::mark(),
            label: event.alias.clone(),
            ..EventDef::new(event.id, event.name.clone(), Product::User, class.to_owned())
        });
        Ok(())
    }

    /// The sentence with the arguments of an event of the application, where its definition has one.
    pub fn template(&self, id: u32) -> Option<&Template> {
        self.templates.get(&id)
    }

    /// What ThreadX and its components insert.
    pub fn threadx(names: Names) -> Self {
        let enumerations = read_enumerations(include_str!("codes.tsv"));
        let mut all = Self::new(read_events(include_str!("threadx.tsv"), &enumerations), enumerations)
            .with_user_ids(4096..=65535, "TX_TRACE_USER_EVENTS");
        all.object_types = Some(threadx_object);
        if names == Names::Classic {
            for def in read_events(include_str!("netx_classic.tsv"), &all.enumerations) {
                all.put(def);
            }
        }
        all
    }

    /// A catalogue in which several definitions may share an id; [`Catalogue::find`] gives the first of them.
    pub fn listed(defs: Vec<EventDef>, enumerations: Vec<Arc<Enumeration>>) -> Self {
        let mut by_id = HashMap::new();
        for (number, def) in (0..).map(DefId::new).zip(&defs) {
            by_id.entry(def.id).or_insert(number);
        }
        Self {
            defs,
            by_id,
            enumerations,
            user: None,
            templates: HashMap::new(),
            object_types: None,
            ways: Ways::default(),
            roles: OnceLock::new(),
        }
    }

    /// The number of the definition of this id.
    pub fn find(&self, id: u32) -> Option<DefId> {
        self.by_id.get(&id).copied()
    }

    /// The definition of this number.
    pub fn def(&self, id: DefId) -> Option<&EventDef> {
        self.defs.get(id.index())
    }

    /// The definition of this name.
    pub fn named(&self, name: &str) -> Option<&EventDef> {
        self.defs.iter().find(|d| d.name.eq_ignore_ascii_case(name) || d.macro_name.eq_ignore_ascii_case(name))
    }

    /// All definitions, in the order of their table.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &EventDef> {
        self.defs.iter()
    }

    /// All definitions with their numbers.
    pub fn numbered(&self) -> impl Iterator<Item = (DefId, &EventDef)> {
        (0..).map(DefId::new).zip(&self.defs)
    }

    /// The enumeration of this name.
    pub fn enumeration(&self, name: &str) -> Option<&Arc<Enumeration>> {
        self.enumerations.iter().find(|e| e.name == name)
    }
}

/// Splits a table into rows of exactly as many cells as its head has; comments and damaged rows are passed over (a
/// test counts the rows of our own tables).
pub(super) fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    let mut lines = text.lines().filter(|l| !l.is_empty() && !l.starts_with('#'));
    let width = lines.next().map_or(0, |head| head.split('\t').count());
    lines.map(|line| line.split('\t').collect::<Vec<_>>()).filter(move |row| row.len() == width)
}

/// A number as tables write it: decimal, or hexadecimal after `0x`.
pub(super) fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

pub(super) fn read_enumerations(text: &str) -> Vec<Arc<Enumeration>> {
    let mut list: Vec<Enumeration> = Vec::new();
    for row in rows(text) {
        let [group, value, word] = row.as_slice() else { continue };
        let Some(value) = number(value) else { continue };
        if !list.iter().any(|e| e.name == *group) {
            // The only enumeration of ours whose values are bits.
            list.push(Enumeration { name: (*group).to_owned(), words: Vec::new(), bits: *group == "nx_ip_status" });
        }
        if let Some(e) = list.iter_mut().find(|e| e.name == *group) {
            e.words.push((value, (*word).to_owned()));
        }
    }
    list.into_iter().map(Arc::new).collect()
}

pub(super) fn read_field(text: &str, enumerations: &[Arc<Enumeration>]) -> Option<FieldDef> {
    let mut parts = text.split(':');
    let name = parts.next().filter(|n| !n.is_empty())?;
    let kind = ArgKind::parse(parts.next()?)?;
    let words = parts.next().and_then(|n| enumerations.iter().find(|e| e.name == n).cloned());
    Some(FieldDef::new(name, kind, words))
}

/// The set of words (bit n for word n from 0) that a cell such as `34` names from 1.
fn word_set(text: &str) -> u8 {
    text.chars()
        .filter_map(|c| c.to_digit(10)?.checked_sub(1))
        .filter_map(|n| 1u8.checked_shl(n))
        .fold(0, |all, bit| all | bit)
}

fn read_events(text: &str, enumerations: &[Arc<Enumeration>]) -> Vec<EventDef> {
    let mut list = Vec::new();
    for row in rows(text) {
        let [id, name, macro_name, product, class, i1, i2, i3, i4, effects, late, unused, label] = row.as_slice()
        else {
            continue;
        };
        let (Ok(id), Some(product)) = (id.parse(), Product::parse(product)) else { continue };
        list.push(EventDef {
            macro_name: (*macro_name).to_owned(),
            fields: [i1, i2, i3, i4].iter().map(|f| read_field(f, enumerations)).collect(),
            effects: Effects::parse(effects).unwrap_or_default(),
            late: word_set(late),
            unused: *unused == "unused",
            label: (*label).to_owned(),
            ..EventDef::new(id, (*name).to_owned(), product, (*class).to_owned())
        });
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Effect;

    #[test]
    fn the_table_is_whole() {
        let all = Catalogue::threadx(Names::Duo);
        // Each row begins with its id.
        let table = include_str!("threadx.tsv").lines().filter(|l| l.starts_with(|c: char| c.is_ascii_digit()));
        let count = table.count();
        assert_eq!(all.iter().count(), count, "ids are unique, and each row is read");
        let mut names: Vec<&str> = all.iter().map(|d| d.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "names are unique");
        for product in [Product::Tx, Product::Fx, Product::Nx, Product::Ux] {
            assert!(all.iter().any(|d| d.product == product));
        }
    }

    #[test]
    fn every_cell_of_the_table_is_understood() {
        for row in rows(include_str!("threadx.tsv")).chain(rows(include_str!("netx_classic.tsv"))) {
            for cell in &row[5..9] {
                let parts: Vec<&str> = cell.split(':').collect();
                assert!(cell.is_empty() || ArgKind::parse(parts[1]).is_some(), "{cell}");
                let words = read_enumerations(include_str!("codes.tsv"));
                assert!(parts.len() < 3 || words.iter().any(|e| e.name == parts[2]), "{cell}");
            }
            assert!(Effects::parse(row[9]).is_some(), "{}", row[9]);
        }
    }

    #[test]
    fn definitions_carry_words_effects_and_late_fields() {
        let all = Catalogue::threadx(Names::Duo);
        let suspend = all.named("internal_thread_suspend").unwrap();
        assert_eq!(suspend.fields[1].as_ref().unwrap().words.as_ref().unwrap().word(5), Some("queue_susp"));
        assert_eq!(suspend.effects.word(Effect::Block), Some(0));
        assert_eq!(suspend.effects.word(Effect::Run), Some(3));
        assert_eq!(suspend.late, 0b1000);
        let receive = all.named("tx_queue_receive").unwrap();
        assert_eq!(receive.fields[2].as_ref().unwrap().label, "wait");
    }

    #[test]
    fn classic_netx_gives_eight_ids_another_meaning() {
        let (duo, classic) = (Catalogue::threadx(Names::Duo), Catalogue::threadx(Names::Classic));
        let differ: Vec<u32> =
            duo.iter().filter(|d| classic[classic.find(d.id).unwrap()].name != d.name).map(|d| d.id).collect();
        assert_eq!(differ, (441..=448).collect::<Vec<_>>());
    }
}
