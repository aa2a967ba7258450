//! Memory of the program that several use, and at least one of them without a lock: what one of them computes another one may change
//! meanwhile. It is said of memory that a failure is about, as what may be behind it, with who was interrupted there.
//!
//! Against it: such uses may never come together, or may not harm each other, as the reading of a counter. So it is never a finding of
//! its own.

use std::collections::BTreeSet;

use super::super::cpus::thread_of;
use super::super::usage::{Access, Lock, Store, User};
use super::super::{Case, Evidence, Finding};
use super::by_code::user_name;
use super::words::{function_at, place_at};
use crate::abi::{Addr, Region};
use crate::kernel::{Kind, State, Thread};
use crate::session::{CpuState, Function, is_of_kernel};
use crate::sym::Symbol;

/// The most users that are named, and the most places in threads.
const MOST: usize = 3;
/// The most users of what a few parts of a program share. What more of them use is a service of its own.
const MANY: usize = 6;
/// What speaks against it.
const AGAINST: &str = "that several use it without a lock is inferred from the program's code, and may be harmless";

/// The most variables of a function that are looked at, and the most bytes of one.
const VARIABLES: usize = 16;
const LARGEST: u64 = 4096;

/// How memory is used.
pub(super) struct Shared {
    /// `cyclic and alarm use it, and hold no lock there`.
    words: String,
    evidence: Vec<Evidence>,
    /// True where another one holds a lock, or a thread that does not run is in the middle of such a use.
    is_telling: bool,
    /// Those who hold none.
    free: BTreeSet<User>,
}

impl Shared {
    /// Of this memory, which is called so.
    pub fn of(memory: Region, name: &str, case: &Case<'_>) -> Option<Self> {
        let variable = case.look.variable(memory.start)?;
        let variable = Region { start: variable.address, len: variable.size.max(memory.len) };
        let all = case.usage()?.accesses(memory, variable);
        let users: BTreeSet<User> = all.iter().map(|access| access.user).collect();
        let free: BTreeSet<User> = all.iter().filter(|a| a.lock == Lock::None).map(|a| a.user).collect();
        if !(2..=MANY).contains(&users.len()) || free.is_empty() {
            return None;
        }
        let locked = locked(&all, &free);
        let words = words(locked, &users, &free, name, case);
        let mut evidence = vec![Evidence::memory(memory.start, by(&all, &free, name, case))];
        let within = within(&all, case);
        let is_telling = locked.is_some() || within.len() > 1;
        evidence.extend(within);
        Some(Self { words, evidence, is_telling, free })
    }

    /// True where one of these holds no lock.
    pub fn is_by(&self, users: &BTreeSet<User>) -> bool {
        !self.free.is_disjoint(users)
    }

    /// Of the variables of the innermost of these functions, in which a thread is that owns a mutex: others change them and hold no lock.
    pub fn without_mutex(functions: &[Function], thread: Addr, case: &Case<'_>) -> Option<Self> {
        let owner = User::Thread(thread);
        let mutexes = case.kernel.into_iter().flat_map(|kernel| &kernel.objects);
        let mut owned = mutexes.filter(|object| object.kind == Kind::Mutex && object.get("owner") == Some(thread));
        let mutex = owned.next().filter(|_| owned.next().is_none())?.address;
        let all = variables(functions.get(..1)?, case).into_iter().take(VARIABLES);
        let all: Vec<(Symbol, Vec<Access>)> = all
            .filter_map(|(variable, _)| {
                let free = changed_without_lock(&variable, owner, case)?;
                Some((variable, free))
            })
            .take(MOST)
            .collect();
        let free: BTreeSet<User> = all.iter().flat_map(|(_, free)| free).map(|access| access.user).collect();
        let names: Vec<&str> = all.iter().map(|(variable, _)| variable.name.as_str()).collect();
        all.first()?;
        let words = words(Some((owner, mutex)), &free, &free, &names.join(" and "), case);
        let shown = all
            .iter()
            .map(|(variable, accesses)| Evidence::memory(variable.address, by(accesses, &free, &variable.name, case)));
        let evidence = shown.collect();
        Some(Self { words, evidence, is_telling: true, free })
    }
}

/// The accesses to a variable by others than one who always holds a lock there: they change it and hold none. `None` where there are none.
fn changed_without_lock(variable: &Symbol, owner: User, case: &Case<'_>) -> Option<Vec<Access>> {
    let usage = case.usage()?;
    let memory = Region { start: variable.address, len: variable.size };
    let (own, others): (Vec<Access>, Vec<Access>) =
        usage.accesses(memory, memory).into_iter().partition(|access| access.user == owner);
    let (stores, _) = usage.all_stores(memory);
    let changes = |access: &Access| stores.iter().any(|(store, _)| store.function == access.function);
    let is_locked = !own.is_empty() && own.iter().all(|access| access.lock != Lock::None);
    let is_few = others.len() < MANY;
    let free: Vec<Access> = others.into_iter().filter(|access| access.lock == Lock::None && changes(access)).collect();
    (is_locked && is_few && !free.is_empty()).then_some(free)
}

/// The variables of the first functions of the application, each with the function.
pub(super) fn variables(functions: &[Function], case: &Case<'_>) -> Vec<(Symbol, Addr)> {
    let Some(usage) = case.usage() else { return Vec::new() };
    let is_own = |function: &&Function| function.name.as_deref().is_some_and(|name| !is_of_kernel(name));
    let starts = functions.iter().filter(is_own).take(MOST).filter_map(|f| case.look.function(f.pc & !1));
    let mut all: Vec<(Symbol, Addr)> = Vec::new();
    for (at, function) in starts.flat_map(|f| usage.addresses_of(f.address).into_iter().map(move |at| (at, f.address)))
    {
        let variable = case.look.variable(at.into()).filter(|variable| is_data(variable, case));
        let is_new = |one: &Symbol| !all.iter().any(|(other, _)| other.address == one.address);
        all.extend(variable.filter(is_new).map(|variable| (variable, function)));
    }
    all
}

/// The one or two of some threads that cannot run that use a variable of functions in which one goes on: that one may wait in a loop
/// for what they change there. In words, and as evidence.
pub(super) fn awaited(functions: &[Function], others: &[Addr], case: &Case<'_>) -> Option<(String, Evidence)> {
    let usage = case.usage()?;
    let users = |variable: &Symbol| usage.users_of(Region { start: variable.address, len: variable.size });
    let is_other = |user: &&User| matches!(user, User::Thread(at) if others.contains(at));
    let find = |(variable, function): (Symbol, Addr)| {
        let users = users(&variable);
        let waited: BTreeSet<User> = users.iter().filter(is_other).copied().collect();
        let uses = match waited.len() {
            1 => "uses",
            2 => "use",
            _ => return None,
        };
        let (name, by) = (names(&waited, case), function_at(function, case));
        let words = format!("{name}, which cannot run, {uses} {}, as {by} does", variable.name);
        let text = format!("by the code, {name} {uses} it, and so does {by}");
        Some((users.len(), (words, Evidence::memory(variable.address, text).named(&variable.name))))
    };
    let all = variables(functions, case).into_iter().take(VARIABLES).filter_map(find);
    all.min_by_key(|(users, _)| *users).map(|(_, said)| said)
}

/// Those of some threads that cannot run whose code sets a word which the loop of a CPU reads. In words, and as evidence.
pub(super) fn set_by_waiting(cpu: &CpuState, others: &[Addr], case: &Case<'_>) -> Option<(String, Evidence)> {
    let usage = case.usage()?;
    // While it is in the loop it does not set it itself.
    let own = thread_of(cpu, case.kernel).map(|thread| User::Thread(thread.address));
    let find = |word: Addr| {
        let variable = case.look.variable(word).filter(|variable| is_data(variable, case))?;
        let stores = usage.stores(word, Region { start: variable.address, len: variable.size }, &|_| false);
        let setters = stores.iter().flat_map(|store| usage.callers_of(store.function));
        let setters: BTreeSet<User> = setters.filter(|user| Some(*user) != own).collect();
        let is_other = |user: &User| matches!(user, User::Thread(at) if others.contains(at));
        // What another one sets as well may change all the same.
        let waiting = Some(setters).filter(|all| !all.is_empty() && all.iter().all(is_other))?;
        let by_them = |store: &&Store| !usage.callers_of(store.function).is_disjoint(&waiting);
        let at = place_at(stores.iter().find(by_them)?.at, case);
        let (name, sets) = (names(&waiting, case), if waiting.len() == 1 { "sets" } else { "set" });
        let place = case.look.place(word)?;
        let text = format!("by the code, {place} is written in {at}");
        Some((format!("{name}, which cannot run, {sets} {place}"), Evidence::memory(word, text).named(&place)))
    };
    let polling = cpu.polling.as_ref().filter(|polling| !polling.writes && !polling.counts)?;
    polling.reads.iter().find_map(|word| find(*word))
}

impl Finding {
    /// The same with what may be behind it.
    pub(super) fn with_shared(self, shared: Option<Shared>) -> Self {
        let Some(Shared { words, evidence, .. }) = shared else { return self };
        let claim = format!("{}; {words}", self.claim);
        Self { claim, ..self }.against([AGAINST]).evidence(evidence)
    }

    /// The same, where it is about a value in that memory: in the claim only where another one holds a lock, or was stopped in such a use,
    /// as most programs have variables that several threads use.
    pub(super) fn with_shared_value(self, shared: Option<Shared>) -> Self {
        match shared {
            Some(Shared { evidence, is_telling: false, .. }) => self.against([AGAINST]).evidence(evidence),
            shared => self.with_shared(shared),
        }
    }
}

pub(super) fn names(users: &BTreeSet<User>, case: &Case<'_>) -> String {
    let mut all: Vec<String> = users.iter().take(MOST).map(|user| user_name(*user, case)).collect();
    let more = users.len().saturating_sub(all.len());
    if more > 0 {
        all.push(format!("{more} more"));
    }
    match all.as_slice() {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        all => all.concat(),
    }
}

/// True for a variable that the program writes, and that is not one of the kernel's objects, a stack or the memory of one.
pub(super) fn is_data(variable: &Symbol, case: &Case<'_>) -> bool {
    let memory = Region { start: variable.address, len: variable.size };
    let is_written = case.cpus.is_some_and(|cpus| cpus.writes(memory));
    let objects = || case.kernel.into_iter().flat_map(|kernel| &kernel.objects);
    let threads = || case.kernel.into_iter().flat_map(|kernel| &kernel.threads);
    let is_object =
        || objects().any(|object| object.address == memory.start || object.get("start") == Some(memory.start));
    let is_thread =
        || threads().any(|thread| thread.address == memory.start || thread.stack.start == Some(memory.start));
    let is_kernel = variable.name.starts_with("_tx");
    (1..=LARGEST).contains(&variable.size) && is_written && !is_kernel && !is_object() && !is_thread()
}

/// One who holds a lock, and which.
fn locked(all: &[Access], free: &BTreeSet<User>) -> Option<(User, Addr)> {
    all.iter().find_map(|access| match access.lock {
        Lock::Object(object) if !free.contains(&access.user) => Some((access.user, object)),
        _ => None,
    })
}

/// `alarm uses tg without mutex line, which cyclic holds there`, `alarm and cyclic use tg, and no lock is held`.
fn words(
    locked: Option<(User, Addr)>,
    users: &BTreeSet<User>,
    free: &BTreeSet<User>,
    name: &str,
    case: &Case<'_>,
) -> String {
    let uses = if free.len() == 1 { "uses" } else { "use" };
    match locked {
        Some((holder, object)) => format!(
            "{} {uses} {name} without {}, which {} holds there{}",
            names(free, case),
            case.object(object),
            user_name(holder, case),
            owned(object, holder, case),
        ),
        None if free.len() == users.len() => format!("{} {uses} {name}, and hold no lock there", names(users, case)),
        None => {
            let others: BTreeSet<User> = users.difference(free).copied().collect();
            format!(
                "{} {uses} {name} without a lock, and may come between the accesses of {}",
                names(free, case),
                names(&others, case)
            )
        }
    }
}

/// `, and keypad owns now`: another thread that owns a mutex at this moment.
fn owned(mutex: Addr, holder: User, case: &Case<'_>) -> String {
    let object = || case.kernel?.object(mutex).filter(|object| object.kind == Kind::Mutex);
    let owner = object().and_then(|mutex| mutex.get("owner")).filter(|owner| User::Thread(*owner) != holder);
    let name = owner.and_then(|owner| case.thread(owner)).map(crate::kernel::Thread::label);
    name.map_or_else(String::new, |name| format!(", and {name} owns now"))
}

/// The functions through which each of the first does.
fn by(all: &[Access], free: &BTreeSet<User>, name: &str, case: &Case<'_>) -> String {
    let of = |user: &User| {
        let is_free = |access: &&Access| access.user == *user && access.lock == Lock::None;
        let own: BTreeSet<Addr> = all.iter().filter(is_free).map(|access| access.function).collect();
        let functions: Vec<String> = own.iter().take(MOST).map(|at| function_at(*at, case)).collect();
        format!("{} in {}", user_name(*user, case), functions.join(", "))
    };
    let named: Vec<String> = free.iter().take(MOST).map(of).collect();
    format!("by the code, these use {name} without a lock: {}", named.join("; "))
}

/// Threads that are in one of the functions now.
fn within(all: &[Access], case: &Case<'_>) -> Vec<Evidence> {
    let Some(cpus) = case.cpus else { return Vec::new() };
    let functions: BTreeSet<Addr> = all.iter().map(|access| access.function).collect();
    let start = |pc: Addr| case.look.function(pc & !1).map(|function| function.address & !1);
    let in_it = |pc: &Addr| start(*pc).is_some_and(|at| functions.contains(&at));
    let threads = case.kernel.into_iter().flat_map(|kernel| kernel.in_order());
    let running = |thread: Addr| {
        let cpu = cpus.all.iter().find(|cpu| thread_of(cpu, case.kernel).is_some_and(|of| of.address == thread))?;
        let found = cpu.interrupted.as_ref();
        let below = found.filter(|found| found.is_certain).and_then(|found| found.all.first());
        let functions =
            if cpu.exception.is_none() { Some(&cpu.functions) } else { below.map(|place| &place.functions) };
        Some(functions?.iter().map(|function| function.pc).collect::<Vec<_>>())
    };
    // A return address is behind its call; the first place of a thread that was interrupted is none.
    let calls = |thread: &Thread| {
        let frames = cpus.frames(thread.address)?.iter().enumerate();
        let is_exact = thread.state == Some(State::READY);
        Some(frames.map(|(n, pc)| if n == 0 && is_exact { *pc } else { pc.saturating_sub(1) }).collect::<Vec<_>>())
    };
    let found = threads.filter_map(|thread| {
        let pc = calls(thread).or_else(|| running(thread.address))?.into_iter().find(in_it)?;
        let place = place_at(pc, case);
        Some(Evidence::symbol(pc, &place, format!("{} is in {place}", thread.label())))
    });
    found.take(MOST).collect()
}
