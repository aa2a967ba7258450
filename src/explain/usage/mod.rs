//! Who uses which object, by the code of the program: from the functions of threads, callbacks of timers and handlers of
//! interrupts through the functions that they call, to the calls of the kernel. Memory shows what the objects and threads are,
//! the code who can give what a thread waits for.
//!
//! What is not used follows only where all calls of a kind were seen, each with a constant for its object: a search of all code
//! finds those that no path led to, of which it is not known who makes them. A function whose address is in memory, or a
//! constant of the code, may be called through a pointer: by whom is not known.

mod alone;
mod calls;
mod copies;
mod crossed;
mod deepest;
mod dropped;
mod guarded;
mod holds;
mod local_sent;
mod program;
mod shared;
mod stores;
mod stuck;
mod unanswered;
mod unchecked;
mod unsent;
mod walk;

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::Case;
use crate::abi::{Addr, Endian, Region};
use crate::cpu::{Call, Callee, InstructionSet, Paths, Stored, Value};
use crate::kernel::Kind;
use crate::kernel::api::{Act, Action};
pub use calls::{Controls, Made};
pub use crossed::Started;
pub use deepest::Deepest;
pub use dropped::LostWhenFull;
pub use guarded::{Guard, part};
pub use holds::Stack;
use program::Code;
pub use program::global_pointer;
pub use shared::{Access, Lock};
pub use stores::Store;
pub use stuck::{Need, Stuck, need, need_now, time_outs};
use walk::{Acts, Follow, Key, Summary, Walker};

/// The functions that run before the kernel starts: the one that creates the objects, and those behind the reset of a RISC-V.
const STARTS: [&str; 3] = ["tx_application_define", "_start", "main"];
/// The kernel's list of loaded modules: their code is none of the program's.
const MODULES: &str = "_txm_module_manager_loaded_list_ptr";
/// The registers of a device are in pages of so many bytes and one.
const PAGE: u64 = 0xFFF;
/// What clears event flags instead of setting them (`TX_AND`, `TX_AND_CLEAR`).
const AND: u32 = 2;

/// What runs code by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum User {
    /// A thread.
    Thread(Addr),
    /// The callback of this timer.
    Callback(Addr),
    /// The handler of the exception of this number.
    Handler(u32),
    /// What runs before the kernel starts.
    Start,
    /// A function that none of these was seen to call: it may be that of a thread that does not exist yet, or not any more.
    Other(Addr),
}

/// True for the registers of the devices of a chip and of a Cortex-M itself (Armv7-M Architecture Reference Manual, B3.1). Boards may have
/// RAM in the other regions for devices.
const fn is_register(at: Addr) -> bool {
    matches!(at, 0x4000_0000..=0x5FFF_FFFF | 0xE000_0000..=0xE00F_FFFF)
}

/// A call of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Use {
    /// What it does.
    pub action: Action,
    /// With which object; `None` where that is not known.
    pub object: Option<Addr>,
    /// The event flags that it sets; `None` where they are not known.
    pub flags: Option<u32>,
    /// Of a message that holds memory: the pool, or the queue, that it came from.
    pub carries: Option<Addr>,
}

impl Use {
    /// True where the object is not known, as in a pointer that came in a message. What creates a timer starts none that is there.
    const fn is_through_pointer(&self) -> bool {
        self.object.is_none() && !self.action.by_memory && !self.action.creates_timer
    }
}

/// Who uses what.
pub struct Usage<'c> {
    walker: Walker<'c>,
    users: Vec<(User, Rc<Summary>)>,
    pools: BTreeSet<Addr>,
    /// Functions of the C library that write to where others have them write.
    copies: BTreeMap<Addr, copies::Copies>,
    /// What calls do that no path led to.
    unseen: Acts,
    /// The same, and what calls do of which the object is not known.
    unknown: Acts,
    /// Stores at an index that the code computes, once they were looked for.
    indexed: OnceCell<Option<Vec<(Store, Stored)>>>,
}

impl std::fmt::Debug for Usage<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Usage").field("users", &self.users.len()).field("unknown", &self.unknown).finish()
    }
}

/// The code of the program of a Cortex-M or a RISC-V whose memory is at hand; `None` where it is not that of the target, or not
/// known.
fn code<'c>(case: &Case<'c>) -> Option<Code<'c>> {
    let kernel = case.kernel?;
    let set = InstructionSet::of(kernel.processor?)?;
    // Constants in code have the byte order of data.
    let is_little = kernel.layout.shape.endian == Endian::Little;
    if !is_little || case.trust.other_build || !case.look.is_stored() || case.look.symbol(MODULES).is_some() {
        return None;
    }
    Code::read(case, set)
}

/// A path of a user that takes something and ends, or takes it again, without giving it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leak {
    /// The function with that path.
    pub function: Addr,
    /// Where it takes it.
    pub at: Addr,
}

impl<'c> Usage<'c> {
    /// Of the program of a Cortex-M or a RISC-V whose memory is at hand; `None` where its code is not that of the target, or not
    /// known.
    pub(super) fn of(case: &Case<'c>) -> Option<Self> {
        let kernel = case.kernel?;
        let code = code(case)?;
        let set = code.set;
        let walker = Walker::new(code);
        let is_pointer = kernel.layout.shape.word == kernel.layout.shape.pointer;
        let only = |value: Option<u64>| {
            // A negative number is another one in a register of 64 bits.
            let is_plain = |value: &u32| set != InstructionSet::Riscv64 || value.cast_signed() >= 0 || is_pointer;
            let value = value.and_then(|value| u32::try_from(value).ok()).filter(is_plain);
            let value = value.map_or(Value::Unknown, Value::Is);
            [value, Value::Unknown, Value::Unknown, Value::Unknown]
        };
        let threads = kernel.threads.iter();
        let threads = threads.filter_map(|t| Some((User::Thread(t.address), (t.entry? & !1, only(t.parameter)))));
        let timers = kernel.objects.iter().filter(|object| object.kind == Kind::Timer);
        let timers = timers.filter_map(|timer| {
            let function = timer.get("tx_timer_internal_timeout_function")? & !1;
            let parameter = timer.get("tx_timer_internal_timeout_param");
            Some((User::Callback(timer.address), (function, only(parameter))))
        });
        let handlers = case.look.handlers().into_iter().map(|(number, at)| {
            let user = if number == 1 { User::Start } else { User::Handler(number) };
            (user, (at, only(None)))
        });
        let starts = STARTS.iter().take(if set == InstructionSet::Thumb { 1 } else { STARTS.len() });
        let starts = starts.filter_map(|name| case.look.symbol(name));
        let starts = starts.map(|symbol| (User::Start, (symbol.address & !1, only(None))));
        let roots: Vec<(User, Key)> = threads.chain(timers).chain(handlers).chain(starts).collect();
        let mut users: Vec<(User, Rc<Summary>)> =
            roots.iter().map(|(user, key)| (*user, walker.of_function(*key))).collect();
        let starts: Vec<Addr> = roots.iter().map(|(_, (at, _))| *at).collect();
        // What these call shows more of them.
        let mut others = BTreeSet::new();
        loop {
            // What those call whose addresses are in memory is not called by others.
            let mut more: Vec<Addr> = walker.pointed(&starts).into_iter().filter(|at| others.insert(*at)).collect();
            if more.is_empty() {
                more = walker.unreached(&starts).into_iter().filter(|at| others.insert(*at)).collect();
            }
            if more.is_empty() {
                break;
            }
            users.extend(more.into_iter().map(|at| (User::Other(at), walker.of_function((at, only(None))))));
        }
        let unseen = walker.unseen();
        let mut unknown = unseen.clone();
        for (_, summary) in users.iter().filter(|(user, _)| *user != User::Start) {
            let all = summary.uses.iter().filter(|one| one.is_through_pointer());
            unknown.extend(all.map(|one| (one.action.act, one.action.kind)));
        }
        let is_pool = |kind| matches!(kind, Kind::BlockPool | Kind::BytePool);
        let pools = kernel.objects.iter().filter(|object| is_pool(object.kind)).map(|pool| pool.address).collect();
        Some(Self { walker, users, pools, copies: copies::of(case), unseen, unknown, indexed: OnceCell::new() })
    }

    /// The functions of the program that use this memory, or have an address of it: those that may write past its end.
    pub fn functions_with(&self, memory: Region) -> BTreeSet<Addr> {
        let is_in = |at: &u32| memory.contains(Addr::from(*at));
        // The registers of a device are reached from the beginning of its page.
        let page = if is_register(memory.start) { memory.start & !PAGE } else { memory.start };
        let len = memory.len.saturating_add(memory.start.saturating_sub(page));
        let mut all = self.walker.code().functions_with(Region { start: page, len });
        all.retain(|function| self.addresses_of(*function).iter().any(is_in));
        all.extend(self.walker.using(memory));
        // What starts the program writes all variables once. It sets up devices for good.
        let starts = self.users.iter().filter(|(user, _)| *user == User::Start).filter_map(|(_, one)| one.key);
        let starts = starts.filter(|_| !is_register(memory.start));
        starts.for_each(|(start, _)| _ = all.remove(&start));
        all
    }

    /// The addresses of memory that a function uses: those that it accesses or passes on, and constants that may be addresses. GCC
    /// reaches several variables from the address of one of them (`-fsection-anchors`): where what is used near a constant is elsewhere,
    /// the constant is no address of a variable.
    pub fn addresses_of(&self, function: Addr) -> BTreeSet<u32> {
        let first = function & !1;
        let used = Rc::clone(&self.walker.of_function((first, [Value::Unknown; 4])).used);
        let constants = self.walker.code().constants_of(first).into_iter();
        let constants = constants.filter(|constant| !is_anchor(*constant, &used));
        constants.chain(used.iter().copied()).collect()
    }

    /// All who do this with an object, but those who do before the kernel starts; `None` where others may. `wanted`: event
    /// flags of which one has to be set.
    pub fn who(&self, act: Act, kind: Option<Kind>, object: Addr, wanted: Option<u64>) -> Option<Vec<User>> {
        if self.walker.is_cut() || self.unknown.contains(&(act, kind)) {
            return None;
        }
        Some(self.users_that(act, kind, wanted, &|one| {
            one.object == Some(object) || one.action.by_memory && self.may_be_of(one.object, object)
        }))
    }

    /// The same, with those who may do it through a pointer of which it is not known where it leads; `None` where others may.
    pub fn may(&self, act: Act, kind: Option<Kind>, object: Addr, wanted: Option<u64>) -> Option<Vec<User>> {
        if self.walker.is_cut() || self.unseen.contains(&(act, kind)) {
            return None;
        }
        Some(self.users_that(act, kind, wanted, &|one| {
            let may_be_it = one.object == Some(object) || one.is_through_pointer();
            may_be_it || one.action.by_memory && self.may_be_of(one.object, object)
        }))
    }

    fn users_that(&self, act: Act, kind: Option<Kind>, wanted: Option<u64>, is_it: &dyn Fn(&Use) -> bool) -> Vec<User> {
        let is = |one: &Use| {
            let is_so = one.flags.zip(wanted).is_none_or(|(flags, wanted)| u64::from(flags) & wanted != 0);
            one.action.act == act && one.action.kind == kind && is_so && is_it(one)
        };
        let of = self.users.iter().filter(|(_, summary)| summary.uses.iter().any(is));
        let mut all: Vec<User> = of.map(|(user, _)| *user).filter(|user| *user != User::Start).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// True where all who put a semaphore take it, too, and the other way round: it is used as a lock.
    pub fn is_lock(&self, semaphore: Addr) -> bool {
        let who = |act| self.who(act, Some(Kind::Semaphore), semaphore, None);
        who(Act::Gives).zip(who(Act::Takes)).is_some_and(|(givers, takers)| givers == takers)
    }

    /// True where memory from here may be that of a pool: out of a queue whose messages are not all known to be of other pools.
    fn may_be_of(&self, from: Option<Addr>, pool: Addr) -> bool {
        let Some(from) = from else { return true };
        !self.pools.contains(&from) && self.origins(from).is_none_or(|all| all.contains(&pool))
    }

    /// The pools that the messages of a queue are memory of, also by way of other queues; `None` where one may be something else.
    fn origins(&self, queue: Addr) -> Option<BTreeSet<Addr>> {
        if self.unknown.contains(&(Act::Gives, Some(Kind::Queue))) {
            return None;
        }
        let sends = |one: &&Use| one.action.act == Act::Gives && one.action.kind == Some(Kind::Queue);
        let all = || self.users.iter().flat_map(|(_, summary)| &summary.uses).filter(sends);
        if all().any(|one| one.object.is_none()) {
            return None;
        }
        let (mut todo, mut seen) = (vec![queue], BTreeSet::from([queue]));
        while let Some(from) = todo.pop() {
            for one in all().filter(|one| one.object == Some(from) && !self.pools.contains(&from)) {
                let carried = one.carries?;
                todo.extend(seen.insert(carried).then_some(carried));
            }
        }
        Some(seen.intersection(&self.pools).copied().collect())
    }

    /// True where it is known which flags of a group a user sets.
    pub fn knows_flags(&self, user: User, group: Addr) -> bool {
        let sets = |one: &&Use| {
            one.action.act == Act::Gives && one.action.kind == Some(Kind::EventFlags) && one.object == Some(group)
        };
        let of = self.users.iter().filter(|(other, _)| *other == user);
        of.flat_map(|(_, summary)| &summary.uses).filter(sets).all(|one| one.flags.is_some())
    }

    /// Who clears flags of a group, and which it keeps; `None` where that is not known of one of them.
    pub fn flags_kept(&self, group: Addr) -> Option<Vec<(User, u64)>> {
        let is = |one: &&Use| one.action.act == Act::Clears && one.object == Some(group);
        let of = |(user, summary): &'_ (User, Rc<Summary>)| {
            let kept = summary.uses.iter().filter(is);
            kept.map(|one| Some((*user, u64::from(one.flags?)))).collect::<Vec<_>>()
        };
        self.users.iter().filter(|(user, _)| *user != User::Start).flat_map(of).collect()
    }

    /// The exceptions that have handlers.
    pub fn handlers(&self) -> BTreeSet<u32> {
        let number = |(user, _): &(User, _)| if let User::Handler(number) = user { Some(*number) } else { None };
        self.users.iter().filter_map(number).collect()
    }

    /// The exceptions whose handlers call the kernel.
    pub fn calling_handlers(&self) -> impl Iterator<Item = u32> + '_ {
        let calls = self.users.iter().filter(|(_, summary)| !summary.uses.is_empty());
        calls.filter_map(|(user, _)| if let User::Handler(number) = user { Some(*number) } else { None })
    }

    /// True where this user does this with the object.
    pub fn does(&self, user: User, act: Act, kind: Kind, object: Addr) -> bool {
        self.who(act, Some(kind), object, None).is_some_and(|all| all.contains(&user))
    }

    /// The queues through which memory of a pool goes, as messages.
    pub fn queues_of(&self, pool: Addr) -> Vec<Addr> {
        let mut all = vec![pool];
        let sends = |one: &&Use| one.action.kind == Some(Kind::Queue) && one.action.act == Act::Gives;
        let uses = || self.users.iter().flat_map(|(_, summary)| &summary.uses).filter(sends);
        loop {
            let carried = |one: &&Use| one.carries.is_some_and(|from| all.contains(&from));
            let next = uses().filter(carried).filter_map(|one| one.object).find(|queue| !all.contains(queue));
            match next {
                Some(queue) => all.push(queue),
                None => return all.split_off(1),
            }
        }
    }

    /// The queues that all messages to a queue come from, but for those that are sent before the kernel starts; `None` where a
    /// message may come from elsewhere.
    pub fn sources(&self, queue: Addr) -> Option<BTreeSet<Addr>> {
        let senders = self.who(Act::Gives, Some(Kind::Queue), queue, None)?;
        let uses = self.users.iter().filter(|(user, _)| senders.contains(user)).flat_map(|(_, summary)| &summary.uses);
        let to = |one: &&Use| {
            one.action.act == Act::Gives && one.action.kind == Some(Kind::Queue) && one.object == Some(queue)
        };
        uses.filter(to).map(|one| one.carries).collect()
    }

    /// The first places in memory that the program writes with the address of a function; `None` where a constant has it, as in a table.
    pub fn pointers_to(&self, function: Addr) -> Option<Vec<Addr>> {
        self.walker.code().pointers_to(function)
    }

    /// The function that begins where a pointer leads; `None` for one of the kernel.
    pub fn begins_at(&self, pointer: u32) -> Option<Addr> {
        let code = self.walker.code();
        code.pointer(pointer).filter(|at| code.begins(*at))
    }

    /// The functions that are called by what is not known, as through pointers.
    pub fn others(&self) -> impl Iterator<Item = Addr> {
        self.users.iter().filter_map(|(user, _)| if let User::Other(at) = user { Some(*at) } else { None })
    }

    /// Where the functions that a user may call begin, with its own.
    pub fn functions_of(&self, user: User) -> BTreeSet<Addr> {
        self.reached(user).into_iter().map(|(at, _)| at).collect()
    }

    /// The functions of a user, with all that they call.
    fn reached(&self, user: User) -> BTreeSet<Key> {
        let of = self.users.iter().filter(|(other, _)| *other == user);
        let mut todo: Vec<Key> = of.filter_map(|(_, summary)| summary.key).collect();
        let mut all = BTreeSet::new();
        while let Some(key) = todo.pop() {
            if all.insert(key) {
                todo.extend(self.walker.of_function(key).functions.iter().copied());
            }
        }
        all
    }

    /// A path of a user on which it takes from an object and does not give back. What a pool gives, and a message, is memory:
    /// it may be passed on, too.
    pub fn leak(&self, user: User, kind: Kind, object: Addr) -> Option<Leak> {
        let memory = u32::try_from(object).ok().filter(|_| kind != Kind::Semaphore && kind != Kind::Mutex);
        let is_it =
            |one: &Use| one.action.act == Act::Takes && one.action.kind == Some(kind) && one.object == Some(object);
        let leak = |key: Key| {
            let follow = Follow { walker: &self.walker, succeeds: true };
            let paths = self.walker.paths(&follow, key)?;
            let takes = |call: &Call| self.walker.action(call).is_some_and(|one| is_it(&one));
            let gives = |call: &Call| match memory {
                Some(memory) => self.walker.gives_memory(call, memory),
                None => self.walker.effect(call).uses.iter().any(|one| {
                    one.action.act == Act::Gives && one.action.kind == Some(kind) && one.object == Some(object)
                }),
            };
            // What is called through a pointer may give it back.
            let may_give = |call: &Call| is_through_pointer(call) || gives(call);
            let at = without_give(&paths, kind, takes, may_give).filter(|_| paths.leads_to(takes, gives))?;
            Some(Leak { function: key.0, at })
        };
        let takes = |key: &Key| self.walker.of_function(*key).own.iter().any(is_it);
        self.reached(user).into_iter().filter(takes).find_map(leak)
    }

    /// Of each function of a user that takes an object or gives it: whether it does the one and the other.
    pub fn takes_and_gives(&self, user: User, kind: Kind, object: Addr) -> Vec<(bool, bool)> {
        let is = |one: &Use, act| one.action.act == act && one.action.kind == Some(kind) && one.object == Some(object);
        let of = |key: Key| {
            let all = self.walker.of_function(key);
            let does = |act| all.own.iter().any(|one| is(one, act));
            (does(Act::Takes), does(Act::Gives))
        };
        self.reached(user).into_iter().map(of).filter(|(takes, gives)| *takes || *gives).collect()
    }

    /// The calls of the kernel that a user makes.
    pub fn uses_of(&self, user: User) -> BTreeSet<Use> {
        let of = self.users.iter().filter(|(other, _)| *other == user);
        of.flat_map(|(_, summary)| summary.uses.iter().copied()).collect()
    }

    /// Where a user makes a call that is such a use.
    pub fn site(&self, user: User, is: impl Fn(&Use) -> bool) -> Option<Addr> {
        let follow = Follow { walker: &self.walker, succeeds: false };
        let makes = |key: &Key| self.walker.of_function(*key).own.iter().any(&is);
        self.reached(user).into_iter().filter(makes).find_map(|key| {
            let paths = self.walker.paths(&follow, key)?;
            let site = paths.calls().find(|call| self.walker.action(call).is_some_and(|one| is(&one)));
            site.map(|call| call.at)
        })
    }

    /// The same, and where a function of several users makes it, with what it is passed by this one: where that is passed.
    pub fn site_with(&self, user: User, is: impl Fn(&Use) -> bool) -> Option<Addr> {
        let follow = Follow { walker: &self.walker, succeeds: false };
        let all = self.reached(user);
        let makes = |key: &&Key| self.walker.of_function(**key).own.iter().any(&is);
        let key = all.iter().find(makes)?;
        let passes = |call: &&Call| {
            let is_known = key.1.iter().any(|value| *value != Value::Unknown);
            let is_same =
                key.1.iter().zip(call.arguments).all(|(own, passed)| *own == Value::Unknown || *own == passed);
            is_known && is_same && call.to == Callee::At(key.0)
        };
        let caller = |caller: &Key| self.walker.paths(&follow, *caller)?.calls().find(passes).map(|call| call.at);
        all.iter().find_map(caller).or_else(|| self.site(user, &is))
    }

    /// True where a user may do this with an object again and again.
    pub fn repeats(&self, user: User, act: Act, kind: Kind, object: Addr) -> bool {
        let follow = Follow { walker: &self.walker, succeeds: false };
        let is = |one: &Use| one.action.act == act && one.action.kind == Some(kind) && one.object == Some(object);
        let does = |key: &Key| self.walker.of_function(*key).uses.iter().any(is);
        self.reached(user).into_iter().filter(does).any(|key| {
            let paths = self.walker.paths(&follow, key);
            paths.is_some_and(|paths| paths.repeats(|call| self.walker.effect(call).uses.iter().any(is)))
        })
    }
}

/// The use that a call of the kernel is.
fn used(action: Action, call: &Call) -> Option<Use> {
    let [first, second, third, _] = call.arguments;
    let is_set = action.kind == Some(Kind::EventFlags) && action.act == Act::Gives;
    let clears = is_set && third.known().is_some_and(|option| option & AND != 0);
    let action = if clears { Action { act: Act::Clears, ..action } } else { action };
    let object = match first {
        Value::Mark(mark) if action.by_memory => Some(mark),
        _ if action.by_memory => None,
        first => first.known(),
    };
    let is_of_flags = action.kind == Some(Kind::EventFlags);
    let flags = if is_of_flags { second.known() } else { None };
    let is_sent = action.kind == Some(Kind::Queue) && action.act == Act::Gives;
    let carries = call.passes.first().copied().filter(|_| is_sent);
    Some(Use { action, object: object.map(Addr::from), flags, carries: carries.map(Addr::from) })
}

/// A call that takes something, from where a path leads out of the function, or takes it again, and does not give it back. Who
/// has a mutex may take it once more, and who has memory of a pool may need more of it, to pass on both: of these, only the same call
/// again shows that something is missing.
fn without_give(
    paths: &Paths,
    kind: Kind,
    takes: impl Fn(&Call) -> bool,
    may_give: impl Fn(&Call) -> bool,
) -> Option<Addr> {
    let mut all = paths.calls().filter(|call| takes(call)).map(|call| call.at);
    match kind {
        Kind::Mutex | Kind::BlockPool | Kind::BytePool => {
            all.find(|at| paths.leads_out(|call| takes(call) && call.at == *at, &may_give))
        }
        _ => all.next().filter(|_| paths.leads_out(&takes, &may_give)),
    }
}

/// The largest distance of what a load or a store accesses from its register: 12 bits.
const REACH: u32 = 4096;

/// True for an address from which others are used, and not itself.
fn is_anchor(constant: u32, used: &BTreeSet<u32>) -> bool {
    let near = used.range(constant.saturating_add(1)..constant.saturating_add(REACH)).next();
    near.is_some() && !used.contains(&constant)
}

/// The most bytes of the instruction of a call.
const LONGEST: Addr = 4;

/// True for the call with this return address.
fn returns_to(call: &Call, pc: Addr) -> bool {
    pc.checked_sub(call.at).is_some_and(|len| (1..=LONGEST).contains(&len))
}

/// True for a call through a pointer.
fn is_through_pointer(call: &Call) -> bool {
    call.to == Callee::Unknown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::Piece;

    const PUT: Callee = Callee::At(0x300);

    fn call(at: Addr, to: Callee) -> Call {
        Call { at, to, arguments: [Value::Unknown; 4], passes: Vec::new(), passes_local: false }
    }

    /// Gets at these addresses, each in a piece of its own, of which the last is followed by a put where `puts`, and by itself
    /// again.
    fn rounds(gets: &[Addr], puts: bool) -> Paths {
        let get = |at: &Addr| call(*at, Callee::At(0x200));
        let mut paths = Paths::default();
        paths.pieces = gets.iter().map(|at| Piece { calls: vec![get(at)], ..Piece::default() }).collect();
        let last = gets.len().saturating_sub(1);
        for (n, piece) in paths.pieces.iter_mut().enumerate() {
            piece.next = vec![last.min(n.saturating_add(1))];
            piece.calls.extend((n == last && puts).then(|| call(0x180, PUT)));
        }
        paths
    }

    /// A thread that keeps a mutex, and takes and puts it once more in each round, was said to lack a put.
    #[test]
    fn a_second_get_of_an_owner_was_one_without_a_put() {
        let of = |paths: &Paths, kind| without_give(paths, kind, |call| call.to != PUT, |call| call.to == PUT);
        let nested = rounds(&[0x100, 0x110], true);
        assert_eq!(of(&nested, Kind::Mutex), None);
        assert_eq!(of(&nested, Kind::Semaphore), Some(0x100));
        // A letter and its sheet, which are sent together.
        assert_eq!(of(&nested, Kind::BytePool), None);
        assert_eq!(of(&rounds(&[0x100], false), Kind::BlockPool), Some(0x100));
        assert_eq!(of(&rounds(&[0x100], false), Kind::Mutex), Some(0x100));
        assert_eq!(of(&rounds(&[0x100], true), Kind::Mutex), None);
    }

    fn use_of(name: &str, arguments: [Value; 4]) -> Use {
        let call = Call { at: 0x100, to: Callee::At(0x200), arguments, passes: Vec::new(), passes_local: false };
        used(crate::kernel::api::action(name).unwrap(), &call).unwrap()
    }

    /// A thread that gets four flags was taken for one that gets any flag: none could be a flag that nobody wants.
    #[test]
    fn a_get_of_known_flags_was_one_of_all_flags() {
        let group = Value::Is(0x2000_0000);
        let get = use_of("_tx_event_flags_get", [group, Value::Is(0xF), Value::Is(3), Value::Unknown]);
        assert_eq!((get.action.act, get.flags), (Act::Takes, Some(0xF)));
        let get = use_of("_tx_event_flags_get", [group, Value::Unknown, Value::Is(3), Value::Unknown]);
        assert_eq!(get.flags, None);
    }

    #[test]
    fn a_set_with_tx_and_clears_flags() {
        let of = |option| use_of("_tx_event_flags_set", [Value::Is(0x2000_0000), Value::Is(2), option, Value::Unknown]);
        assert_eq!((of(Value::Is(2)).action.act, of(Value::Is(2)).flags), (Act::Clears, Some(2)));
        assert_eq!((of(Value::Is(0)).action.act, of(Value::Is(0)).flags), (Act::Gives, Some(2)));
        assert_eq!(of(Value::Unknown).action.act, Act::Gives, "it may set them");
    }

    /// `s_pwm` was the variable of a loop that reads what is 16 bytes behind it.
    #[test]
    fn the_address_from_which_others_are_reached_was_a_variable() {
        let used = BTreeSet::from([0x2000_0050]);
        assert!(is_anchor(0x2000_0040, &used));
        assert!(!is_anchor(0x2000_0050, &used), "it is used itself");
        assert!(!is_anchor(0x2000_0060, &used), "an array whose index is not known");
        assert!(!is_anchor(0x2001_0000, &used), "nothing is near");
    }
}
