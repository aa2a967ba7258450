//! What the application calls its events: files that say so, else the enumerations and macros of its ELF.

use std::collections::BTreeSet;
use std::io::Read;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crate::catalogue::Catalogue;
use crate::catalogue::user::header::{Macros, is_reserved};
use crate::catalogue::user::{self, Parsed, UserEvent, UserEvents};
use crate::code::Code;
use crate::elf::Elf;
use crate::error::{Error, reason};
use crate::sym::dwarf::{Dwarf, EnumNames};
use crate::trace::{Issue, Severity, Trace};

/// The file beside an ELF that is read without being named.
const BESIDE: &str = "tx-trace-events.tsv";
/// The largest file of events.
const LARGEST: u64 = 16 << 20;
/// How many of several are named.
const NAMED: usize = 3;

/// One file, read.
struct File {
    name: String,
    parsed: Parsed,
}

/// The names of the application's events, from wherever they come. Clones share what was read.
#[derive(Clone, Default)]
pub struct EventNames {
    /// What an evidence core says: every other source comes before it.
    from_core: Option<Arc<File>>,
    /// The file beside the ELF.
    beside: Option<Arc<File>>,
    /// Files that were named, in that order: a later one wins.
    files: Vec<Arc<File>>,
    /// Enumerations that were chosen by name.
    chosen: Vec<String>,
    /// Names that are asked for.
    asked: Vec<String>,
    /// What the ELF says; walked at most once.
    elf: Arc<OnceLock<FromElf>>,
    issues: Vec<Issue>,
    sources: Vec<String>,
}

/// What the debug information of an ELF holds.
#[derive(Default)]
struct FromElf {
    enums: Vec<EnumNames>,
    /// Macros, by the file that defines them.
    macros: Vec<EnumNames>,
    partial: bool,
    /// Why there is nothing.
    unavailable: Option<String>,
}

impl EventNames {
    /// Reads the files; `ids` are those that applications choose, asked for where there is a file.
    ///
    /// # Errors
    /// [`Error`] where a file that was named cannot be read or understood. One that is beside the ELF is then ignored,
    /// with an issue.
    pub fn open(
        files: &[PathBuf],
        chosen: Vec<String>,
        elf: Option<&Path>,
        ids: impl Fn() -> RangeInclusive<u32>,
    ) -> Result<Self, Error> {
        let mut all = Self { chosen, ..Self::default() };
        let hint = "`tx-trace help events` describes these files";
        for path in files {
            let parsed = read(path, &ids()).map_err(|e| Error::failed(Code::EventsFile, e, hint))?;
            all.files.push(Arc::new(File { name: path.display().to_string(), parsed }));
        }
        if let Some(path) = elf.map(|e| e.with_file_name(BESIDE)).filter(|p| p.is_file()) {
            match read(&path, &ids()) {
                Ok(parsed) => all.beside = Some(Arc::new(File { name: path.display().to_string(), parsed })),
                Err(why) => all.issues.push(passed_over(why)),
            }
        }
        for file in all.beside.iter().chain(&all.files) {
            for (line, note) in &file.parsed.notes {
                let at = if *line > 0 { format!(":{line}") } else { String::new() };
                all.issues
                    .push(Issue::new(Code::EventsFile, format!("{}{at}: {note}", file.name)).severity(Severity::Note));
            }
        }
        Ok(all)
    }

    /// Takes the events in a core's notes, which is hostile text: what is no table is ignored.
    pub(super) fn of_core(&mut self, table: &str) {
        const NAME: &str = "the core's own note";
        if table.is_empty() {
            return;
        }
        // Nothing but our own table is written there; ids matter to headers alone.
        match user::parse(table, &(0..=0)) {
            Ok(parsed) if parsed.kind == Some(user::Kind::Tsv) => {
                self.from_core = Some(Arc::new(File { name: NAME.to_owned(), parsed }));
            }
            Ok(_) => self.issues.push(passed_over(format!("{NAME} of events is no table"))),
            Err(wrong) => self.issues.push(passed_over(format!("{NAME}:{wrong}"))),
        }
    }

    /// Names that are asked for, as in `--event`: patterns too. An enumeration that has them is preferred.
    pub(super) fn ask(&mut self, names: Vec<String>) {
        self.asked = names;
    }

    /// How the application's events got their names, one sentence for each source.
    pub fn sources(&self) -> &[String] {
        &self.sources
    }

    /// What was noticed.
    pub fn issues(&self) -> &[Issue] {
        &self.issues
    }

    /// Puts what the files say into a catalogue.
    ///
    /// # Errors
    /// [`Error`] where a file that was named gives the system's own ids another meaning.
    pub fn add_of_files(&mut self, catalogue: &mut Catalogue) -> Result<(), Error> {
        self.sources.clear();
        for file in self.from_core.iter().chain(&self.beside) {
            match put(file, catalogue) {
                Ok(sentence) => self.sources.push(sentence),
                Err(why) if self.issues.iter().any(|i| i.message.starts_with(&why)) => {}
                Err(why) => self.issues.push(passed_over(why)),
            }
        }
        for file in &self.files {
            let sentence = put(file, catalogue).map_err(|why| {
                Error::failed(Code::EventsFile, why, "a kernel's own ids keep their names: remove the line")
            })?;
            self.sources.push(sentence);
        }
        Ok(())
    }

    /// Puts what the ELF calls events into a catalogue, where the trace holds ids without a name, or a name is asked for
    /// that no definition has. True where the catalogue knows more than before.
    ///
    /// # Errors
    /// [`Error`] where an enumeration was chosen that is not there.
    pub(super) fn add_of_elf(
        &mut self,
        elf: Option<&Arc<Elf>>,
        trace: &Trace,
        catalogue: &mut Catalogue,
    ) -> Result<bool, Error> {
        let (Some(elf), Some(ids)) = (elf, catalogue.user_ids()) else { return Ok(false) };
        let seen: BTreeSet<u32> =
            trace.events().filter(|e| e.def.is_none() && ids.contains(&e.id)).map(|e| e.id).collect();
        if seen.is_empty() && self.chosen.is_empty() && !self.asks(catalogue) {
            return Ok(false);
        }
        self.put_elf(elf, &seen, &ids, catalogue)
    }

    /// The same without a trace: whatever the ELF calls events.
    ///
    /// # Errors
    /// [`Error`] where an enumeration was chosen that is not there.
    pub fn add_all_of_elf(&mut self, elf: &Arc<Elf>, catalogue: &mut Catalogue) -> Result<bool, Error> {
        let Some(ids) = catalogue.user_ids() else { return Ok(false) };
        self.put_elf(elf, &BTreeSet::new(), &ids, catalogue)
    }

    /// Every event of the application that the catalogue has, with the enumerations of the files.
    pub fn collect(&self, catalogue: &Catalogue) -> UserEvents {
        let mut all = UserEvents::default();
        let defs = catalogue.iter().filter(|d| d.product == crate::catalogue::Product::User);
        all.events.extend(defs.map(|d| UserEvent {
            id: d.id,
            name: d.name.clone(),
            alias: d.label.clone(),
            fields: d.fields.clone(),
            template: self.template(d.id),
        }));
        all.events.sort_by_key(|e| e.id);
        for words in all.events.iter().flat_map(|e| &e.fields).flatten().filter_map(|f| f.words.as_ref()) {
            if !all.enumerations.iter().any(|e| e.name == words.name) {
                all.enumerations.push(Arc::clone(words));
            }
        }
        all
    }

    /// The sentence of an event, as it was written.
    fn template(&self, id: u32) -> String {
        let all = self.files.iter().rev().chain(&self.beside).chain(&self.from_core);
        let found = all.flat_map(|f| &f.parsed.user.events).find(|e| e.id == id);
        found.map_or(String::new(), |e| e.template.clone())
    }

    /// True where a name is asked for that no definition has.
    fn asks(&self, catalogue: &Catalogue) -> bool {
        self.asked.iter().any(|text| {
            let low = text.to_ascii_lowercase();
            let made_up = ["user_", "event_"].iter().any(|p| low.starts_with(p));
            if made_up || low.starts_with(|c: char| c.is_ascii_digit()) || catalogue.named(text).is_some() {
                return false;
            }
            match low.find(['*', '?', '[']) {
                None => true,
                Some(end) => {
                    let start = low.get(..end).unwrap_or("");
                    !catalogue.iter().any(|d| d.name.to_ascii_lowercase().starts_with(start))
                }
            }
        })
    }

    fn put_elf(
        &mut self,
        elf: &Arc<Elf>,
        seen: &BTreeSet<u32>,
        ids: &RangeInclusive<u32>,
        catalogue: &mut Catalogue,
    ) -> Result<bool, Error> {
        let found = Arc::clone(&self.elf);
        self.put_found(found.get_or_init(|| walk(elf, ids)), seen, catalogue)
    }

    fn put_found(&mut self, found: &FromElf, seen: &BTreeSet<u32>, catalogue: &mut Catalogue) -> Result<bool, Error> {
        self.issues.retain(|i| i.code != Code::SeveralEventEnums);
        if let Some(why) = &found.unavailable {
            if !self.chosen.is_empty() {
                return Err(Error::failed(Code::NoSuchEnum, format!("--event-enum: {why}"), ""));
            }
            if !seen.is_empty() {
                self.sources.push(format!("{} without a name: {why}", ids(seen.len())));
            }
            return Ok(false);
        }
        let mut left = seen.clone();
        let mut any = false;
        if self.chosen.is_empty() {
            // Enumerations first; macros name what is left.
            for (what, groups) in [("enum", &found.enums), ("macros of", &found.macros)] {
                if let Some(group) = self.choose(what, groups, &left, seen.is_empty()) {
                    any |= self.put(what, group, &mut left, seen, catalogue);
                }
            }
        } else {
            for name in self.chosen.clone() {
                let all = found.enums.iter().map(|e| ("enum", e)).chain(found.macros.iter().map(|e| ("macros of", e)));
                let own: Vec<_> = all.filter(|(_, e)| e.name == name).collect();
                if own.is_empty() {
                    return Err(no_enum(&name, found));
                }
                for (what, group) in own {
                    any |= self.put(what, group, &mut left, seen, catalogue);
                }
            }
        }
        if !left.is_empty() {
            let some: Vec<String> = left.iter().take(NAMED).map(ToString::to_string).collect();
            let more = if left.len() > NAMED { ", ..." } else { "" };
            self.sources.push(format!("{} without a name ({}{more})", ids(left.len()), some.join(", ")));
        }
        if found.partial {
            self.sources.push("the debug information is damaged or too large: not all of it was searched".to_owned());
        }
        Ok(any)
    }

    /// The group that names most of the ids, or has the names that are asked for.
    fn choose<'a>(
        &mut self,
        what: &str,
        groups: &'a [EnumNames],
        left: &BTreeSet<u32>,
        all: bool,
    ) -> Option<&'a EnumNames> {
        let covers = |g: &EnumNames| {
            g.words.iter().map(|(id, _)| id).filter(|id| left.contains(id)).collect::<BTreeSet<_>>().len()
        };
        let asked = |g: &EnumNames| {
            g.words.iter().filter(|(_, n)| self.asked.iter().any(|a| a.eq_ignore_ascii_case(n))).count()
        };
        // The values of bit flags may be in the range by coincidence.
        let odd = |g: &EnumNames| g.words.iter().filter(|(id, _)| !id.is_power_of_two()).count();
        let open = left.is_empty() && all;
        let mut ranked: Vec<_> = groups
            .iter()
            .map(|g| ((asked(g), covers(g), odd(g), g.words.len()), g))
            .filter(|((asked, covers, ..), _)| *asked > 0 || *covers > 0 || open)
            .collect();
        ranked.sort_by(|(a, _), (b, _)| b.cmp(a));
        let ((wanted, best, ..), group) = ranked.first()?;
        let rivals: Vec<_> = ranked
            .iter()
            .filter(|((asked, covers, ..), _)| if *wanted > 0 { *asked > 0 } else { left.is_empty() || *covers > 0 })
            .collect();
        if let [_, others @ ..] = rivals.as_slice()
            && !others.is_empty()
        {
            let described = |n: usize, g: &EnumNames| {
                let n = if left.is_empty() { g.words.len() } else { n };
                format!("{} ({}, {})", g.name, g.place, ids(n))
            };
            let named: Vec<String> = others.iter().take(NAMED).map(|((_, c, ..), g)| described(*c, g)).collect();
            let more = others.iter().skip(NAMED).count();
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            self.issues.push(Issue::new(
                Code::SeveralEventEnums,
                format!(
                    "events of the application are named by {what} {}; {}{more} could name some too: --event-enum NAME chooses",
                    described(*best, group),
                    named.join(", ")
                ),
            ));
        }
        Some(group)
    }

    /// Puts a group into the catalogue, where no better source has named an id.
    #[allow(clippy::arithmetic_side_effects, reason = "counts names that are held in memory")]
    fn put(
        &mut self,
        what: &str,
        group: &EnumNames,
        left: &mut BTreeSet<u32>,
        seen: &BTreeSet<u32>,
        catalogue: &mut Catalogue,
    ) -> bool {
        let (mut named, mut count) = (0_usize, 0_usize);
        for event in user::named(group.words.iter().cloned()) {
            if catalogue.find(event.id).is_none() && catalogue.put_user(&event).is_ok() {
                named += usize::from(left.remove(&event.id));
                count += 1;
            }
        }
        let place = if group.place == group.name { String::new() } else { format!(" ({})", group.place) };
        self.sources.push(if seen.is_empty() {
            format!("{what} {}{place} names {}", group.name, ids(count))
        } else {
            format!("{what} {}{place} names {named} of {} that were read without a name", group.name, ids(seen.len()))
        });
        count > 0
    }
}

fn ids(n: usize) -> String {
    if n == 1 { "1 id".to_owned() } else { format!("{n} ids") }
}

fn passed_over(why: String) -> Issue {
    Issue::new(Code::EventsFile, format!("{why}: the file is ignored"))
}

fn no_enum(name: &str, found: &FromElf) -> Error {
    let all: Vec<&str> = found.enums.iter().chain(&found.macros).map(|e| e.name.as_str()).take(12).collect();
    let hint = if all.is_empty() { "it has none at all".to_owned() } else { format!("there are: {}", all.join(", ")) };
    Error::failed(Code::NoSuchEnum, format!("the ELF has no enum '{name}' with values of user events"), hint)
}

/// Reads a file of events.
fn read(path: &Path, ids: &RangeInclusive<u32>) -> Result<Parsed, String> {
    let shown = path.display();
    let file = std::fs::File::open(path).map_err(|e| format!("{shown}: {}", reason(&e)))?;
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(|e| format!("{shown}: {}", reason(&e)))?;
    if bytes.len() as u64 > LARGEST {
        return Err(format!("{shown}: larger than {} MiB", LARGEST >> 20));
    }
    // Comments in old headers may be in any encoding.
    let text = String::from_utf8_lossy(&bytes);
    if text.contains('\0') {
        return Err(format!("{shown}: not a text file"));
    }
    user::parse(&text, ids).map_err(|wrong| format!("{shown}:{wrong}"))
}

fn put(file: &File, catalogue: &mut Catalogue) -> Result<String, String> {
    // All or nothing: half a file is harder to understand than none.
    let mut next = catalogue.clone();
    for (event, line) in file.parsed.user.events.iter().zip(&file.parsed.lines) {
        next.put_user(event).map_err(|why| format!("{}:{line}: {why}", file.name))?;
    }
    *catalogue = next;
    Ok(format!("{} names {}", file.name, ids(file.parsed.user.events.len())))
}

/// Searches the debug information of an ELF.
fn walk(elf: &Arc<Elf>, ids: &RangeInclusive<u32>) -> FromElf {
    let dwarf = Dwarf::new(Arc::clone(elf));
    if let Some(why) = dwarf.unavailable() {
        return FromElf { unavailable: Some(why), ..FromElf::default() };
    }
    let enums = dwarf.enums(ids);
    let macros = dwarf.macros();
    let mut values = Macros::default();
    for m in &macros.all {
        values.define(&m.name, &m.body);
    }
    let mut groups: Vec<EnumNames> = Vec::new();
    for m in &macros.all {
        let Some(file) = m.file.as_deref().filter(|f| !is_system(f)) else { continue };
        if is_reserved(&m.name) {
            continue;
        }
        let Some(id) = values.value(&m.name).and_then(|v| u32::try_from(v).ok()).filter(|v| ids.contains(v)) else {
            continue;
        };
        match groups.iter_mut().find(|g| g.place == file) {
            Some(group) => group.words.push((id, m.name.clone())),
            None => groups.push(EnumNames {
                name: file.rsplit('/').next().unwrap_or(file).to_owned(),
                place: file.to_owned(),
                words: vec![(id, m.name.clone())],
            }),
        }
    }
    FromElf { enums: enums.all, macros: groups, partial: enums.partial || macros.partial, unavailable: None }
}

/// True for headers of a compiler and its library, which define sizes and limits in the range of user events.
fn is_system(file: &str) -> bool {
    file.is_empty()
        || ["/usr/", "usr/include", "usr/lib"].iter().any(|p| file.starts_with(p))
        || ["/lib/gcc/", "-eabi/include/", "-elf/include/", "/lib/clang/", "/sys-include/"]
            .iter()
            .any(|p| file.contains(p))
}
