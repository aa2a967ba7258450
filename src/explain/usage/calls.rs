//! Single calls of a user, with their arguments.

use std::collections::{BTreeMap, BTreeSet};

use super::dropped::may_skip;
use super::walk::{ANY, Follow, Key};
use super::{Leak, Usage, Use, User, returns_to};
use crate::abi::Addr;
use crate::cpu::{Call, Callee, Paths, Value};
use crate::kernel::Kind;
use crate::kernel::api::{self, Act, Forbidden};

/// The bit of an option that clears the event flags that a thread gets.
const CLEAR: u32 = 1;

/// A call of a service of the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// Where it is.
    pub at: Addr,
    /// The function of the kernel.
    pub function: String,
    /// The object; `None` where it is not known.
    pub object: Option<Addr>,
    /// The time to wait; `None` where it is not known, or the service has none.
    pub wait: Option<u32>,
    /// Its handler or callback makes it, and no function that is called; and it calls nothing but the kernel, so that nothing tells
    /// it whether it may wait.
    pub is_own: bool,
}

impl Made {
    /// The service: `tx_mutex_get`.
    pub fn service(&self) -> Option<String> {
        api::service(&self.function)
    }

    /// True where an interrupt must not make it, whatever its time to wait is.
    pub fn is_never_allowed(&self) -> bool {
        self.service().as_deref().and_then(api::in_interrupt) == Some(Forbidden::Always)
    }

    /// True where an interrupt must not make it, as far as its time to wait is known.
    pub fn is_forbidden(&self) -> bool {
        match self.service().as_deref().and_then(api::in_interrupt) {
            Some(Forbidden::Always) => true,
            Some(Forbidden::WithWait) => self.wait != Some(0),
            None => false,
        }
    }
}

/// A function that leaves interrupts disabled on one of its paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeftDisabled {
    /// Where it begins.
    pub function: Addr,
    /// Where it disables them.
    pub at: Addr,
    /// Where it restores them on another path.
    pub restored: Addr,
    /// False where it never returns.
    pub returns: bool,
}

/// The functions of the kernel that disable and enable interrupts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Controls {
    /// Those that set the interrupt posture to their argument, and the argument that disables interrupts.
    pub set: Vec<Addr>,
    pub off: u32,
    /// What disables them, and what restores what was before.
    pub disable: Option<Addr>,
    pub restore: Option<Addr>,
}

impl Controls {
    /// Whether a call or an instruction disables interrupts, or restores or enables them; `None` for others.
    fn disables(&self, call: &Call) -> Option<bool> {
        let to = match call.to {
            Callee::At(to) => to,
            Callee::Interrupts(disables) => return Some(disables),
            _ => return None,
        };
        let [first, ..] = call.arguments;
        match Some(to) {
            _ if self.set.contains(&to) => Some(first.known() == Some(self.off)),
            at if at == self.disable => Some(true),
            at if at == self.restore => Some(false),
            _ => None,
        }
    }

    /// The same, with functions that do so for their callers.
    fn disables_with(&self, call: &Call, alone: &BTreeMap<Addr, bool>) -> Option<bool> {
        let by_function = || if let Callee::At(to) = call.to { alone.get(&to).copied() } else { None };
        self.disables(call).or_else(by_function)
    }

    /// What a function does that disables interrupts for its caller, or restores them, and calls nothing else.
    fn does_alone(&self, paths: &Paths) -> Option<bool> {
        let mut all = paths.calls().map(|call| self.disables(call));
        let first = all.next()??;
        (paths.is_complete && all.all(|other| other == Some(first))).then_some(first)
    }
}

impl Usage<'_> {
    /// A function of a user that disables interrupts on each of its paths, and on one of them returns, or comes there again, without
    /// restoring them, while another one does restore them.
    pub fn leaves_disabled(&self, user: User, controls: &Controls) -> Option<LeftDisabled> {
        let follow = Follow { walker: &self.walker, succeeds: false };
        let paths = |key: Key| Some((key, self.walker.paths(&follow, key)?));
        // Those of the kernel have parts that return with interrupts disabled.
        let of_program = |(at, _): &Key| !self.walker.is_of_kernel(*at);
        let all: Vec<(Key, Paths)> = self.reached(user).into_iter().filter(of_program).filter_map(paths).collect();
        let alone = all.iter().filter_map(|((at, _), paths)| Some((*at, controls.does_alone(paths)?)));
        let alone: BTreeMap<Addr, bool> = alone.collect();
        let of = |call: &Call| controls.disables_with(call, &alone);
        let disables = |call: &Call| of(call) == Some(true);
        let restores = |call: &Call| of(call) == Some(false);
        let direct = all.iter().filter(|(_, paths)| paths.calls().any(restores)).map(|((at, _), _)| *at);
        let restoring = self.with_callers(direct.collect(), &all);
        // What it calls may restore them.
        let may = |call: &Call| match call.to {
            Callee::At(to) => restores(call) || restoring.contains(&to),
            Callee::Interrupts(disables) => !disables,
            Callee::Unknown => true,
            Callee::Store | Callee::Result | Callee::Access => false,
        };
        all.iter().find_map(|((function, _), paths)| {
            let at = paths.calls().find(|call| disables(call))?.at;
            let is_so = paths.leads_out(|call| call.at == at, may) && paths.leads_to(disables, restores);
            let restored =
                paths.calls().find(|call| restores(call)).filter(|_| is_so && !may_skip(paths, &disables))?.at;
            Some(LeftDisabled { function: *function, at, restored, returns: paths.returns() })
        })
    }

    /// The call, or the instruction, with which a function of a user disables interrupts, where they are disabled at the call with this
    /// return address: a path leads from there to that call, and none from where they are restored, nor one that does not disable them.
    pub fn disabled_at(&self, user: User, pc: Addr, controls: &Controls) -> Option<Addr> {
        let follow = Follow { walker: &self.walker, succeeds: false };
        let is_there = |call: &Call| returns_to(call, pc);
        let is_caller = |(at, _): &Key| self.walker.is_in(pc, *at) && !self.walker.is_of_kernel(*at);
        self.reached(user).into_iter().filter(is_caller).find_map(|key| {
            let paths = self.walker.paths(&follow, key).filter(|paths| paths.is_complete)?;
            let called = paths.calls().filter_map(|call| if let Callee::At(to) = call.to { Some(to) } else { None });
            let does = |to: Addr| Some((to, controls.does_alone(&self.walker.paths(&follow, (to, ANY))?)?));
            let alone: BTreeMap<Addr, bool> = called.collect::<BTreeSet<_>>().into_iter().filter_map(does).collect();
            let is = |call: &Call, disables| controls.disables_with(call, &alone) == Some(disables);
            let leads =
                |from: &dyn Fn(&Call) -> bool, until| paths.leads_between(from, is_there, |call| is(call, until));
            let by = paths.calls().find(|by| is(by, true) && leads(&|call| call.at == by.at, false))?.at;
            let may_be_enabled =
                leads(&|call| is(call, false), true) || paths.leads_from_start(is_there, |call| is(call, true));
            (!may_be_enabled).then_some(by)
        })
    }

    /// A function of a user that calls one of these functions with a second argument that `changes`, and on one of its paths returns
    /// without another such call whose argument does not, while another path has one behind it: what the first one changes, the
    /// second one changes back.
    pub fn not_undone(&self, user: User, functions: &[Addr], changes: &dyn Fn(u32) -> bool) -> Option<Leak> {
        let follow = Follow { walker: &self.walker, succeeds: false };
        let is = |call: &Call| matches!(call.to, Callee::At(to) if functions.contains(&to));
        self.reached(user).into_iter().filter(|(at, _)| !self.walker.is_of_kernel(*at)).find_map(|key| {
            let paths = self.walker.paths(&follow, key)?;
            let is_change = |call: &Call| {
                let [_, second, ..] = call.arguments;
                is(call) && second.known().is_some_and(changes)
            };
            let sites: BTreeSet<Addr> = paths.calls().filter(|call| is_change(call)).map(|call| call.at).collect();
            let is_left = |at: &Addr| {
                let other = |call: &Call| call.at != *at && is(call) && !is_change(call);
                paths.leads_to(|call| call.at == *at, other) && paths.leads_out(|call| call.at == *at, other)
            };
            let at = sites.iter().find(|at| is_left(at)).copied()?;
            Some(Leak { function: key.0, at })
        })
    }

    /// Where a user calls one of these functions with a third argument that is known, and what that is.
    pub fn third_arguments(&self, user: User, functions: &[Addr]) -> BTreeSet<(Addr, u32)> {
        let follow = Follow { walker: &self.walker, succeeds: false };
        let is = |call: &&Call| matches!(call.to, Callee::At(to) if functions.contains(&to));
        let mut all = BTreeSet::new();
        for key in self.reached(user).into_iter().filter(|(at, _)| !self.walker.is_of_kernel(*at)) {
            let Some(paths) = self.walker.paths(&follow, key) else { continue };
            let third = |call: &Call| {
                let [_, _, third, _] = call.arguments;
                Some((call.at, third.known()?))
            };
            all.extend(paths.calls().filter(is).filter_map(third));
        }
        all
    }

    /// Functions, and all of these that call them.
    fn with_callers(&self, mut functions: BTreeSet<Addr>, all: &[(Key, Paths)]) -> BTreeSet<Addr> {
        loop {
            let calls =
                |key: &Key| self.walker.of_function(*key).functions.iter().any(|(to, _)| functions.contains(to));
            let more = all.iter().map(|(key, _)| key).filter(|key| !functions.contains(&key.0) && calls(key));
            let more: Vec<Addr> = more.map(|(at, _)| *at).collect();
            if more.is_empty() {
                return functions;
            }
            functions.extend(more);
        }
    }

    /// True where the handler of all interrupts, or what it calls, is one of these functions.
    pub fn is_run_by(&self, handler: Addr, functions: &BTreeSet<Addr>) -> bool {
        let mut todo: Vec<Key> = vec![(handler, [Value::Unknown; 4])];
        let mut seen = BTreeSet::new();
        while let Some(key) = todo.pop() {
            if seen.insert(key) {
                todo.extend(self.walker.of_function(key).functions.iter().copied());
            }
        }
        seen.iter().any(|(at, _)| functions.contains(at))
    }

    /// The paths of those functions of a user that do something themselves.
    fn paths_with<'u>(&'u self, user: User, is: impl Fn(&Use) -> bool + 'u) -> impl Iterator<Item = (Key, Paths)> + 'u {
        let does = move |key: &Key| self.walker.of_function(*key).own.iter().any(&is);
        let all = self.reached(user).into_iter().filter(does);
        all.filter_map(|key| {
            let follow = Follow { walker: &self.walker, succeeds: false };
            Some((key, self.walker.paths(&follow, key)?))
        })
    }

    /// The calls of the handlers of interrupts, and of the callbacks of timers, of a known object and with a time to wait other
    /// than 0; and those of handlers that an interrupt must not make at all.
    pub fn refused_calls(&self) -> Vec<(User, Made)> {
        let is_short = |user: &User| matches!(user, User::Handler(_) | User::Callback(_));
        let mut all = Vec::new();
        for (user, summary) in self.users.iter().filter(|(user, _)| is_short(user)) {
            for (key, paths) in self.paths_with(*user, |one| one.object.is_some()) {
                let is_own = summary.key == Some(key) && paths.calls().all(|call| self.walker.action(call).is_some());
                let is_handler = matches!(user, User::Handler(_));
                let is_never = |one: &Made| is_handler && one.is_never_allowed();
                let waits = |one: &Made| one.wait.is_some_and(|wait| wait != 0);
                let is_refused = |one: &Made| one.object.is_some() && (waits(one) || is_never(one));
                let made = paths.calls().filter_map(|call| self.made(call)).filter(is_refused);
                all.extend(made.map(|one| (*user, Made { is_own, ..one })));
            }
        }
        all.dedup();
        all
    }

    /// True where a user gets this event flag of a group, by a constant.
    pub fn gets_flag(&self, user: User, group: Addr, flag: u64) -> bool {
        let is_it = |flags: Option<u32>| flags.is_some_and(|flags| u64::from(flags) & flag != 0);
        self.flags_got(user, group).into_iter().any(is_it)
    }

    /// True where the code does not show all event flags of a group that a user gets.
    pub fn gets_unknown_flags(&self, user: User, group: Addr) -> bool {
        self.flags_got(user, group).contains(&None)
    }

    fn flags_got(&self, user: User, group: Addr) -> BTreeSet<Option<u32>> {
        let is_it = |one: &Use| {
            let gets = one.action.act == Act::Takes && one.action.kind == Some(Kind::EventFlags);
            gets && one.object == Some(group)
        };
        self.uses_of(user).into_iter().filter(is_it).map(|one| one.flags).collect()
    }

    /// Who gets one of these event flags of a group and clears it (`TX_OR_CLEAR`, `TX_AND_CLEAR`), and where.
    pub fn clears_by_get(&self, group: Addr, flags: u64) -> Vec<(User, Addr)> {
        let takes = |one: &Use| {
            let is_it = one.action.act == Act::Takes && one.action.kind == Some(Kind::EventFlags);
            is_it && one.object == Some(group) && one.flags.is_some_and(|wanted| u64::from(wanted) & flags != 0)
        };
        let clears = |call: &&Call| {
            let [_, _, option, _] = call.arguments;
            let is_it = self.walker.action(call).is_some_and(|one| takes(&one));
            is_it && option.known().is_some_and(|option| option & CLEAR != 0)
        };
        let users = self.users.iter().map(|(user, _)| *user).filter(|user| *user != User::Start);
        let of = |user: User| {
            let site =
                self.paths_with(user, takes).find_map(|(_, paths)| paths.calls().find(clears).map(|call| call.at));
            site.map(|at| (user, at))
        };
        users.filter_map(of).collect()
    }

    /// Where a user clears event flags of a group between a request to `asked` and its wait for them, in one function.
    pub fn clears_answer(&self, user: User, (group, wanted): (Addr, u64), asked: Addr) -> Option<Addr> {
        let clears = |one: &Use| {
            let is_it = one.action.act == Act::Clears && one.object == Some(group);
            is_it && one.flags.is_some_and(|kept| u64::from(kept) & wanted == 0)
        };
        self.paths_with(user, clears).find_map(|(_, paths)| {
            let is = |call: &Call, of: &dyn Fn(&Use) -> bool| self.walker.action(call).is_some_and(|one| of(&one));
            let takes = |one: &Use| one.action.act == Act::Takes && one.object == Some(group);
            let asks = |one: &Use| one.action.act == Act::Gives && one.object == Some(asked);
            let at = paths.calls().find(|call| is(call, &clears))?.at;
            let after = paths.leads_between(|call| is(call, &asks), |call| call.at == at, |call| is(call, &takes));
            let before = || paths.leads_between(|call| call.at == at, |call| is(call, &takes), |call| is(call, &asks));
            (after && before()).then_some(at)
        })
    }

    /// The services that this user calls, itself or through functions.
    pub fn calls_of(&self, user: User) -> Vec<Made> {
        self.calls_in(self.reached(user))
    }

    /// The services that may be called in an interrupt: by handlers, and by functions of which it is not known who calls them. `None`
    /// where not all code could be followed. `callbacks`: those of timers run in the interrupt of the tick.
    pub fn calls_in_interrupts(&self, callbacks: bool) -> Option<Vec<Made>> {
        if self.walker.is_cut() {
            return None;
        }
        let may_be = |user: &User| match user {
            User::Handler(_) | User::Other(_) => true,
            User::Callback(_) => callbacks,
            User::Thread(_) | User::Start => false,
        };
        let users = self.users.iter().map(|(user, _)| *user).filter(may_be);
        Some(self.calls_in(users.flat_map(|user| self.reached(user)).collect()))
    }

    fn calls_in(&self, functions: BTreeSet<Key>) -> Vec<Made> {
        let follow = Follow { walker: &self.walker, succeeds: false };
        let all = functions.into_iter().filter_map(|key| self.walker.paths(&follow, key));
        let made = |paths: Paths| paths.calls().filter_map(|call| self.made(call)).collect::<Vec<_>>();
        all.flat_map(made).collect()
    }

    /// The call of a service that a call is.
    fn made(&self, call: &Call) -> Option<Made> {
        let Callee::At(to) = call.to else { return None };
        let function = self.walker.kernel_function(to)?;
        // The arguments of a part of a function may be others.
        let is_whole = !function.contains('.');
        let wait = api::wait_argument(&function).and_then(|at| call.arguments.get(at)?.known());
        let object = self.walker.action(call).and_then(|one| one.object).filter(|_| is_whole);
        Some(Made { at: call.at, function, object, wait: wait.filter(|_| is_whole), is_own: false })
    }

    /// True where a user takes a mutex by a call of this function that may wait.
    pub fn waits_for(&self, user: User, mutex: Addr, get: Addr) -> bool {
        let is_it = move |one: &Use| {
            one.action.act == Act::Takes && one.action.kind == Some(Kind::Mutex) && one.object == Some(mutex)
        };
        let waits = |call: &Call| {
            let [_, wait, ..] = call.arguments;
            let may_wait = call.to == Callee::At(get) && wait.known().is_some_and(|ticks| ticks != 0);
            may_wait && self.walker.action(call).is_some_and(|one| is_it(&one))
        };
        self.paths_with(user, is_it).any(|(_, paths)| paths.calls().any(waits))
    }

    /// Where a user receives a message into its function's stack frame: the call, the queue, and how far from the stack pointer at
    /// the function's start.
    /// `receive`: the functions that receive one.
    pub fn received(&self, user: User, receive: &[Addr]) -> Vec<(Addr, Addr, i32)> {
        let is_it = |one: &Use| one.action.act == Act::Takes && one.action.kind == Some(Kind::Queue);
        let into_frame = |call: &Call| {
            let is_receive = matches!(call.to, Callee::At(to) if receive.contains(&to));
            let queue = self.walker.action(call).filter(|one| is_receive && is_it(one))?.object?;
            match call.arguments {
                [_, Value::Frame(at), ..] => Some((call.at, queue, at)),
                _ => None,
            }
        };
        let all = self.paths_with(user, is_it);
        all.flat_map(|(_, paths)| paths.calls().filter_map(into_frame).collect::<Vec<_>>()).collect()
    }

    /// True where one of a user's functions takes an object between the get and the put of a mutex, by what it calls, too.
    pub fn takes_within(&self, user: User, mutex: Addr, (kind, object): (Kind, Addr)) -> bool {
        let follow = Follow { walker: &self.walker, succeeds: false };
        let does = |call: &Call, act: Act, kind: Kind, object: Addr| {
            let is_it =
                |one: &Use| one.action.act == act && one.action.kind == Some(kind) && one.object == Some(object);
            self.walker.effect(call).uses.iter().any(is_it)
        };
        let gets =
            |call: &Call| does(call, Act::Takes, Kind::Mutex, mutex) && !does(call, Act::Gives, Kind::Mutex, mutex);
        let puts = |call: &Call| does(call, Act::Gives, Kind::Mutex, mutex);
        let takes = |call: &Call| does(call, Act::Takes, kind, object);
        let with = |key: &Key| self.walker.of_function(*key).uses.iter().any(|one| one.object == Some(mutex));
        let paths = self.reached(user).into_iter().filter(with).filter_map(|key| self.walker.paths(&follow, key));
        paths.into_iter().any(|paths| paths.leads_between(gets, takes, puts))
    }

    /// True where a user comes to a call of a function between two calls with which it takes mutexes, in the same function, on each path.
    pub fn calls_between_takes(&self, user: User, callee: Addr) -> bool {
        let follow = Follow { walker: &self.walker, succeeds: false };
        let takes_mutex = |one: &Use| one.action.act == Act::Takes && one.action.kind == Some(Kind::Mutex);
        let takes = |call: &Call| self.walker.effect(call).uses.iter().any(takes_mutex);
        let calls = |call: &Call| call.to == Callee::At(callee & !1);
        let all = self.reached(user).into_iter().filter_map(|key| self.walker.paths(&follow, key));
        let mut with: Vec<Paths> = all.filter(|paths| paths.calls().any(takes) && paths.calls().any(calls)).collect();
        with.retain(|paths| paths.is_complete);
        !with.is_empty() && with.iter().all(|paths| !paths.leads_between(takes, takes, calls))
    }

    /// The queue from which a message came to a word of a stack, and the call that received it. `sp`: the stack pointer at the instruction
    /// `at`; `returns`: the return addresses of the functions above, the innermost first. `receive`: the functions that receive one.
    pub fn received_at(
        &self,
        word: Addr,
        (at, sp): (Addr, Addr),
        returns: &[Addr],
        receive: &[Addr],
        len: &dyn Fn(Addr) -> Option<u64>,
    ) -> Option<(Addr, Addr)> {
        let (mut at, mut sp, mut returns) = (at, sp, returns.iter());
        loop {
            let (paths, depth) = self.walker.stack_at(self.walker.caller(at)?, at)?;
            let start = sp.wrapping_add_signed(i64::from(depth.checked_neg()?));
            let into_word = |call: &Call| {
                let is_receive = matches!(call.to, Callee::At(to) if receive.contains(&to));
                let queue = self.walker.action(call).filter(|_| is_receive)?.object?;
                let [_, Value::Frame(to), ..] = call.arguments else { return None };
                let into = word.checked_sub(start.wrapping_add_signed(to.into()))?;
                (into < len(queue)?).then_some((queue, call.at))
            };
            let mut found = paths.calls().filter_map(into_word);
            if let Some(first) = found.next() {
                // Which of several queues it was is not known.
                return found.all(|(queue, _)| queue == first.0).then_some(first);
            }
            // The call that led here is in front of its return address.
            let back = returns.next()? & !1;
            let first = self.walker.caller(back.checked_sub(1)?)?;
            let calls =
                self.walker.paths(&Follow { walker: &self.walker, succeeds: false }, (first, [Value::Unknown; 4]))?;
            let is_it = |call: &&Call| back.checked_sub(call.at).is_some_and(|behind| matches!(behind, 2 | 4));
            (at, sp) = (calls.calls().find(is_it)?.at, start);
        }
    }

    /// True where a function calls another one on some of its paths, and comes to its end on others: that other one, which does not
    /// return, is for a condition that should not be.
    pub fn calls_on_a_path(&self, caller: Addr, callee: Addr) -> bool {
        let follow = Follow { walker: &self.walker, succeeds: false };
        let (caller, callee) = (caller & !1, callee & !1);
        let calls = |paths: &Paths| paths.calls().any(|call| call.to == Callee::At(callee));
        let paths = self.walker.paths(&follow, (caller, [Value::Unknown; 4]));
        paths.is_some_and(|paths| {
            calls(&paths) && paths.returns() && !self.walker.of_function((callee, [Value::Unknown; 4])).returns
        })
    }

    /// The calls, by what threads and interrupts come to, of functions that do not return, and these: the loops at the end of an assertion.
    pub fn stops(&self) -> Vec<(Addr, Addr)> {
        let follow = Follow { walker: &self.walker, succeeds: false };
        let mut functions: BTreeSet<Addr> =
            self.users.iter().flat_map(|(user, _)| self.reached(*user)).map(|(function, _)| function).collect();
        let calls = |function: &Addr| self.walker.paths(&follow, (*function, [Value::Unknown; 4]));
        let paths: Vec<Paths> = functions.iter().filter_map(calls).collect();
        functions.retain(|function| !self.walker.of_function((*function, [Value::Unknown; 4])).returns);
        let all = paths.iter().flat_map(Paths::calls);
        let stops = all.filter_map(|call| match call.to {
            Callee::At(to) => functions.contains(&to).then_some((call.at, to)),
            _ => None,
        });
        stops.collect()
    }

    /// True where the program calls one of these functions of the kernel directly.
    pub fn calls_kernel(&self, functions: &[Addr]) -> bool {
        self.walker.code().calls_kernel(functions)
    }

    /// How many direct calls of a function that is not of the kernel the code of a RISC-V has.
    pub fn sites_of(&self, function: Addr) -> usize {
        self.walker.code().edges().iter().filter(|(_, to)| *to == function & !1).count()
    }

    /// True where a function may call one of these others again and again.
    pub fn repeats_call(&self, function: Addr, others: &[Addr]) -> bool {
        let follow = Follow { walker: &self.walker, succeeds: false };
        let paths = self.walker.paths(&follow, (function & !1, [Value::Unknown; 4]));
        paths.is_some_and(|paths| paths.repeats(|call| matches!(call.to, Callee::At(to) if others.contains(&to))))
    }

    /// True where a user passes a number as the first argument to one of these functions.
    pub fn passes(&self, user: User, functions: &[Addr], number: u32) -> bool {
        let follow = Follow { walker: &self.walker, succeeds: false };
        let is_it = |call: &Call| {
            let [first, ..] = call.arguments;
            matches!(call.to, Callee::At(to) if functions.contains(&to)) && first.known() == Some(number)
        };
        let all = self.reached(user);
        all.into_iter().filter_map(|key| self.walker.paths(&follow, key)).any(|paths| paths.calls().any(is_it))
    }

    /// Where a user calls one of these functions again and again. `fits`: whether its first argument may be the one that is meant.
    pub fn calls_again(&self, user: User, functions: &[Addr], fits: fn(Value) -> bool) -> Option<Addr> {
        let follow = Follow { walker: &self.walker, succeeds: false };
        let is = |call: &Call| {
            let [first, ..] = call.arguments;
            matches!(call.to, Callee::At(to) if functions.contains(&to)) && fits(first)
        };
        let call = |key: Key| {
            let paths = self.walker.paths(&follow, key)?;
            let at = paths.calls().find(|call| is(call))?.at;
            paths.repeats(is).then_some(at)
        };
        self.reached(user).into_iter().find_map(call)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::{Piece, Value};

    fn is_forbidden(function: &str, wait: Option<u32>) -> bool {
        Made { at: 0x100, function: function.to_owned(), object: None, wait, is_own: false }.is_forbidden()
    }

    /// A function that disables interrupts for its caller was no part of a path on which they stay disabled.
    #[test]
    fn a_function_that_only_disables_interrupts_was_any_other_call() {
        let of = |calls: &[Callee]| {
            let call = |to: &Callee| Call {
                at: 0x100,
                to: *to,
                arguments: [Value::Unknown; 4],
                passes: Vec::new(),
                passes_local: false,
            };
            let piece = Piece { calls: calls.iter().map(call).collect(), next: Vec::new(), returns: true };
            let mut paths = Paths::default();
            paths.is_complete = true;
            paths.pieces.push(piece);
            Controls::default().does_alone(&paths)
        };
        assert_eq!(of(&[Callee::Interrupts(true)]), Some(true));
        assert_eq!(of(&[Callee::Interrupts(false)]), Some(false));
        assert_eq!(of(&[Callee::Interrupts(true), Callee::Interrupts(false)]), None, "it restores them itself");
        assert_eq!(of(&[Callee::Interrupts(true), Callee::At(0x200)]), None, "it does something else, too");
        assert_eq!(of(&[]), None);
    }

    /// An interrupt that sends with `TX_NO_WAIT` was said to wait, for a record that a thread and an interrupt had written.
    #[test]
    fn a_send_without_a_wait_was_a_call_that_an_interrupt_must_not_make() {
        assert!(!is_forbidden("_txe_queue_send", Some(0)));
        assert!(is_forbidden("_tx_queue_send", Some(10)));
        assert!(is_forbidden("_tx_event_flags_get", None), "it is not known");
        assert!(is_forbidden("_tx_mutex_get.part.0", Some(0)));
        assert!(!is_forbidden("_tx_semaphore_put", None));
    }
}
