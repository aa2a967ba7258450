//! From function to function: what each does with objects, for the constants with which it is called.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::program::Code;
use super::{Use, is_through_pointer, used};
use crate::abi::{Addr, Region};
use crate::cpu::{Call, Callee, Function, InstructionSet, Outcome, Paths, Program, Value, Variant};
use crate::kernel::Kind;
use crate::kernel::api::{Act, Action};

/// The deepest chain of calls that is followed.
const DEPTH: usize = 32;
/// The most functions, each as often as it is called with other constants.
const FUNCTIONS: usize = 4000;

/// The most instructions that are followed in all of them.
const STEPS: usize = 3_000_000;

/// A function and its arguments.
pub(super) type Key = (Addr, [Value; 4]);

/// What is done with objects of which kinds.
pub(super) type Acts = BTreeSet<(Act, Option<Kind>)>;

/// Arguments of which nothing is known.
pub(super) const ANY: [Value; 4] = [Value::Unknown; 4];

/// What a function does, with all that it calls.
#[derive(Debug, Clone, Default)]
pub(super) struct Summary {
    pub uses: BTreeSet<Use>,
    /// Those of them that it makes itself.
    pub own: BTreeSet<Use>,
    /// Which one it is.
    pub key: Option<Key>,
    /// The functions that it calls itself.
    pub functions: BTreeSet<Key>,
    /// False where no path comes to its end.
    pub returns: bool,
    /// True where it calls through a pointer.
    pub calls_pointer: bool,
    /// The mark that it returns.
    pub result: Option<u32>,
    /// Marks that it stores in memory, or passes to what is not known.
    pub keeps: BTreeSet<u32>,
    /// The addresses of memory that it accesses itself, or passes to other functions, as far as they are known.
    pub used: Rc<BTreeSet<u32>>,
}

/// Follows calls.
pub(super) struct Walker<'c> {
    code: Code<'c>,
    known: RefCell<BTreeMap<Key, Rc<Summary>>>,
    /// The functions that are being followed.
    under_way: RefCell<Vec<Key>>,
    /// Of functions that call each other in a circle, what was seen of each while the outermost is under way, and which one
    /// that is.
    parts: RefCell<BTreeMap<Key, (Rc<Summary>, usize)>>,
    /// The outermost of those that was met again.
    met: Cell<usize>,
    /// Calls that were seen.
    sites: RefCell<BTreeSet<Addr>>,
    steps: Cell<usize>,
    is_cut: Cell<bool>,
}

impl<'c> Walker<'c> {
    pub fn new(code: Code<'c>) -> Self {
        Self {
            code,
            known: RefCell::default(),
            under_way: RefCell::default(),
            parts: RefCell::default(),
            met: Cell::new(usize::MAX),
            sites: RefCell::default(),
            steps: Cell::new(0),
            is_cut: Cell::new(false),
        }
    }

    pub const fn code(&self) -> &Code<'c> {
        &self.code
    }

    /// True where not all could be followed.
    pub fn is_cut(&self) -> bool {
        self.is_cut.get()
    }

    /// The paths of a function.
    pub fn paths(&self, follow: &impl Program, (at, arguments): Key) -> Option<Paths> {
        let function = self.code.function(at).filter(|function| !function.is_kernel)?;
        Some(Paths::of(follow, at, function.last, arguments)).filter(|_| function.first <= at)
    }

    /// The same, with what it stores.
    pub fn storing(&self, follow: &impl Program, (at, arguments): Key) -> Option<Paths> {
        let function = self.code.function(at).filter(|function| !function.is_kernel && function.first <= at)?;
        Some(Paths::storing(follow, at, function.last, arguments))
    }

    /// The paths of a function, with the accesses to known addresses in this memory.
    pub fn accessing(&self, follow: &impl Program, (at, arguments): Key, memory: Region) -> Option<Paths> {
        let function = self.code.function(at).filter(|function| !function.is_kernel && function.first <= at)?;
        Some(Paths::accessing(follow, (at, function.last), arguments, memory))
    }

    /// The paths from an instruction of a function on, and whether one leads to another instruction of it.
    pub fn comes_to(&self, follow: &impl Program, from: Addr, at: Addr) -> Option<(Paths, bool)> {
        let function = self.code.function(from).filter(|function| !function.is_kernel)?;
        Some(Paths::from(follow, function.first, function.last, from, at))
    }

    /// The paths of a function, and how far its stack pointer is from where it was at its start, at an instruction.
    pub fn stack_at(&self, first: Addr, at: Addr) -> Option<(Paths, i32)> {
        let function = self.code.function(first).filter(|function| !function.is_kernel && function.first == first)?;
        let follow = Follow { walker: self, succeeds: false };
        let watch = (at, self.code.set.stack_pointer());
        match Paths::watching(&follow, first, function.last, ANY, watch) {
            (paths, Some(Value::Frame(depth))) => Some((paths, depth)),
            _ => None,
        }
    }

    /// True for an instruction between calls of one kind and of another one on the paths of a function; `None` where that is not known.
    pub fn is_between(
        &self,
        follow: &impl Program,
        (at, arguments): Key,
        pc: Addr,
        begins: &dyn Fn(&Call) -> bool,
        ends: &dyn Fn(&Call) -> bool,
        may_end: &dyn Fn(&Call) -> bool,
    ) -> Option<bool> {
        let function = self.code.function(at).filter(|function| !function.is_kernel && function.first <= at)?;
        let code = Function { program: follow, first: at, last: function.last, arguments };
        code.is_between(pc, begins, ends, may_end)
    }

    /// True where the call in front of a return address is in the function that begins at `first`.
    pub fn is_in(&self, pc: Addr, first: Addr) -> bool {
        let function = pc.checked_sub(1).and_then(|at| self.code.function(at));
        function.is_some_and(|function| function.first == first)
    }

    /// What a function does, and all that it calls.
    pub fn of_function(&self, key: Key) -> Rc<Summary> {
        let known = self.known.try_borrow().ok().and_then(|known| known.get(&key).cloned());
        let known = known.or_else(|| {
            let (summary, met) = self.parts.try_borrow().ok()?.get(&key).cloned()?;
            self.met.set(self.met.get().min(met));
            Some(summary)
        });
        let place = self.under_way.try_borrow().ok().map(|all| (all.iter().position(|other| *other == key), all.len()));
        match (known, place) {
            (Some(summary), _) => summary,
            (None, Some((Some(place), _))) => {
                self.met.set(self.met.get().min(place));
                Rc::new(Summary { returns: true, key: Some(key), ..Summary::default() })
            }
            (None, Some((None, depth))) if depth < DEPTH => self.follow(key, depth),
            _ => {
                self.is_cut.set(true);
                Rc::new(Summary { returns: true, ..Summary::default() })
            }
        }
    }

    fn follow(&self, key: Key, depth: usize) -> Rc<Summary> {
        let (Ok(mut under_way), Ok(known)) = (self.under_way.try_borrow_mut(), self.known.try_borrow()) else {
            return Rc::default();
        };
        if known.len() >= FUNCTIONS {
            self.is_cut.set(true);
        }
        under_way.push(key);
        drop((under_way, known));
        let outer = self.met.replace(usize::MAX);
        let summary = Rc::new(self.summary(key));
        // What met a function that is not at its end yet does not have all of it.
        let met = self.met.get();
        self.met.set(if met >= depth { outer } else { met.min(outer) });
        self.keep(key, &summary, met, depth);
        summary
    }

    /// Keeps what a function does: for good where it has all of it.
    fn keep(&self, key: Key, summary: &Rc<Summary>, met: usize, depth: usize) {
        let (Ok(mut under_way), Ok(mut known)) = (self.under_way.try_borrow_mut(), self.known.try_borrow_mut()) else {
            return;
        };
        let Ok(mut parts) = self.parts.try_borrow_mut() else { return };
        under_way.pop();
        if met >= depth {
            known.insert(key, Rc::clone(summary));
            parts.retain(|_, (_, met)| *met < depth);
        } else {
            parts.insert(key, (Rc::clone(summary), met));
        }
    }

    fn summary(&self, key: Key) -> Summary {
        let follow = Follow { walker: self, succeeds: false };
        let paths = if self.is_cut.get() { None } else { self.paths(&follow, key) };
        let Some(paths) = paths else {
            return Summary { returns: true, ..Summary::default() };
        };
        self.steps.set(self.steps.get().saturating_add(paths.steps));
        // Where a jump leads is not known: calls behind it are among those that no path led to.
        let is_whole = paths.is_complete;
        let returns = paths.returns() || !is_whole;
        let used = Rc::new(paths.used.clone());
        let mut all =
            Summary { returns, calls_pointer: !is_whole, result: paths.returned(), used, ..Summary::default() };
        all.key = Some(key);
        if let Ok(mut sites) = self.sites.try_borrow_mut() {
            sites.extend(paths.calls().map(|call| call.at));
        }
        for call in paths.calls().filter(|call| call.to.is_function() || call.to == Callee::Store) {
            let effect = self.effect(call);
            all.uses.extend(effect.uses.iter().copied());
            all.functions.extend(effect.key);
            all.keeps.extend(effect.keeps.iter().copied());
            all.calls_pointer |= effect.calls_pointer || is_through_pointer(call);
            all.own.extend(self.action(call));
        }
        let is_cut = !is_whole && !all.uses.is_empty() || self.steps.get() > STEPS;
        self.is_cut.set(self.is_cut.get() || is_cut);
        all
    }

    /// The use that a call of the kernel is; `None` for other calls.
    pub fn action(&self, call: &Call) -> Option<Use> {
        let Callee::At(to) = call.to else { return None };
        used(self.code.action(to)?, call)
    }

    /// The name of the function of the kernel at an address, or of a part of one that the compiler made.
    pub fn kernel_function(&self, at: Addr) -> Option<String> {
        self.code.kernel_name(at)
    }

    /// The functions that were followed and use this memory.
    pub fn using(&self, memory: Region) -> BTreeSet<Addr> {
        let Ok(known) = self.known.try_borrow() else { return BTreeSet::new() };
        let is_in = |at: &u32| memory.contains(Addr::from(*at));
        known.iter().filter(|(_, summary)| summary.used.iter().any(is_in)).map(|((at, _), _)| *at).collect()
    }

    /// True for a function of the kernel.
    pub fn is_of_kernel(&self, at: Addr) -> bool {
        self.code.function(at).is_some_and(|function| function.is_kernel)
    }

    /// What a call does.
    pub fn effect(&self, call: &Call) -> Rc<Summary> {
        let given = || call.arguments.into_iter().filter_map(Value::mark);
        let pointed = || call.passes.iter().copied();
        let keeps = || Summary { returns: true, keeps: given().chain(pointed()).collect(), ..Summary::default() };
        let Callee::At(to) = call.to else { return Rc::new(keeps()) };
        if let Some(action) = self.code.action(to) {
            self.sites.try_borrow_mut().into_iter().for_each(|mut sites| _ = sites.insert(call.at));
            let passes_on = action.kind == Some(Kind::Queue) && action.act == Act::Gives;
            // Of the registers of arguments only the second leads to the message: others may hold what an older call left.
            let source = call.arguments.get(1).and_then(|value| value.mark());
            let kept = source.into_iter().chain(pointed()).filter(|_| passes_on).collect();
            let uses = used(action, call).into_iter().collect();
            return Rc::new(Summary { returns: true, uses, keeps: kept, ..Summary::default() });
        }
        let is_unknown = |to: Addr| self.code.function(to).is_none();
        if let Some(action) = self.code.part_of_action(to) {
            let one = Use { action, object: None, flags: None, carries: None };
            return Rc::new(Summary { uses: [one].into(), ..keeps() });
        }
        if is_unknown(to) {
            return Rc::new(Summary { calls_pointer: true, ..keeps() });
        }
        let plain = self.of_function((to, ANY));
        let arguments = call.arguments.map(|value| match value {
            Value::Is(_) | Value::Mark(_) => value,
            _ => Value::Unknown,
        });
        let has_marks = arguments.iter().any(|value| matches!(value, Value::Mark(_)));
        let is_function = |value: &Value| {
            let at = value.known().and_then(|value| self.code.pointer(value));
            at.is_some_and(|at| self.code.function(at).is_some_and(|function| function.first == at))
        };
        let calls_argument = plain.calls_pointer && arguments.iter().any(is_function);
        let matters = !plain.uses.is_empty() || has_marks || calls_argument;
        let all = if matters && arguments != ANY { self.of_function((to, arguments)) } else { plain };
        if self.code.keeps_nothing(to) {
            return Rc::new(Summary { keeps: BTreeSet::new(), ..Summary::clone(&all) });
        }
        if call.passes.is_empty() {
            return all;
        }
        // It may keep what it finds on the stack of its caller.
        let mut all = Summary::clone(&all);
        all.keeps.extend(pointed());
        Rc::new(all)
    }

    /// True where a call releases the memory with this mark.
    pub fn releases(&self, call: &Call, mark: u32) -> bool {
        let is = |one: &Use| one.action.by_memory && one.object == Some(Addr::from(mark));
        self.effect(call).uses.iter().any(is)
    }

    /// True where a call releases it, or passes it on; a function may return it, too.
    pub fn gives_memory(&self, call: &Call, mark: u32) -> bool {
        self.releases(call, mark) || self.effect(call).keeps.contains(&mark)
    }

    /// Functions that may be called through a pointer, as their address is in memory: whether a path led to them or not, others may
    /// call them.
    pub fn pointed(&self, roots: &[Addr]) -> BTreeSet<Addr> {
        let pointed = self.code.pointed().iter().copied();
        pointed.filter(|at| self.code.begins(*at) && !roots.contains(at)).collect()
    }

    /// Functions that call the kernel, and to which no path led.
    pub fn unreached(&self, roots: &[Addr]) -> BTreeSet<Addr> {
        let Ok(seen) = self.sites.try_borrow() else { return BTreeSet::new() };
        let sites = self.code.sites().iter().filter(|(at, _)| !seen.contains(at));
        let unreached = sites.filter_map(|(at, _)| self.code.function(*at)).map(|function| function.first);
        self.outermost(unreached.chain(self.called_by_others(&seen, roots)).collect(), &seen)
    }

    /// The first address of the function that has a call, or another instruction.
    pub fn caller(&self, at: Addr) -> Option<Addr> {
        self.code.function(at).map(|function| function.first)
    }

    /// Functions that are called where no path led to: the handler of an interrupt may call one that a thread calls, too. Where
    /// the function that calls was not followed, it stands for them.
    fn called_by_others(&self, seen: &BTreeSet<Addr>, roots: &[Addr]) -> BTreeSet<Addr> {
        let Ok(known) = self.known.try_borrow() else { return BTreeSet::new() };
        let followed: BTreeSet<Addr> = known.keys().map(|(at, _)| *at).collect();
        // The kernel calls the function that creates the objects.
        let is_other = |(at, to): &&(Addr, Addr)| !(seen.contains(at) || roots.contains(to) && self.is_of_kernel(*at));
        let edges = self.code.edges().iter().filter(is_other);
        let is_new = |at: &Addr| self.code.begins(*at) && !followed.contains(at);
        edges.map(|(at, to)| self.caller(*at).filter(is_new).unwrap_or(*to)).collect()
    }

    /// Those of functions that no other of them calls; all where each calls another.
    fn outermost(&self, all: BTreeSet<Addr>, seen: &BTreeSet<Addr>) -> BTreeSet<Addr> {
        let edges = self.code.edges().iter().filter(|(at, _)| !seen.contains(at));
        let calls = edges.filter_map(|(at, to)| Some((self.caller(*at)?, *to)));
        let called: BTreeSet<Addr> =
            calls.filter(|(caller, to)| caller != to && all.contains(caller)).map(|(_, to)| to).collect();
        let outermost: BTreeSet<Addr> = all.difference(&called).copied().collect();
        if outermost.is_empty() { all } else { outermost }
    }

    /// What calls do that no path led to, or that go through a pointer to a function of the kernel.
    pub fn unseen(&self) -> Acts {
        let Ok(seen) = self.sites.try_borrow() else { return Acts::new() };
        let sites = self.code.sites().iter().filter(|(at, _)| !seen.contains(at));
        let sites = sites.map(|(_, action)| *action);
        let pointed = self.code.pointed().iter().filter_map(|at| self.code.action(*at));
        sites.chain(pointed).map(|Action { act, kind, .. }| (act, kind)).collect()
    }
}

/// How calls are followed. `succeeds`: what is taken is there.
pub(super) struct Follow<'w, 'c> {
    pub walker: &'w Walker<'c>,
    pub succeeds: bool,
}

/// The same where one object is there when it is taken, also where a function takes it for its caller: such a function is taken to return
/// what it returns when it got it.
pub(super) struct Succeeding<'w, 'c> {
    follow: Follow<'w, 'c>,
    /// What is taken.
    object: Addr,
    /// What functions return that take it for their caller.
    results: RefCell<BTreeMap<Key, Option<u32>>>,
}

impl<'w, 'c> Succeeding<'w, 'c> {
    pub fn of(walker: &'w Walker<'c>, object: Addr) -> Self {
        Self { follow: Follow { walker, succeeds: true }, object, results: RefCell::default() }
    }

    /// The number that a function returns where what it takes is there.
    fn result(&self, key: Key) -> Option<u32> {
        let mut results = self.results.try_borrow_mut().ok()?;
        let of = || self.follow.walker.paths(&self.follow, key)?.fixed();
        *results.entry(key).or_insert_with(of)
    }
}

impl Variant for Succeeding<'_, '_> {
    fn follow(&self) -> &dyn Program {
        &self.follow
    }

    fn outcome(&self, call: &Call) -> Outcome {
        let walker = self.follow.walker;
        let outcome = self.follow.outcome(call);
        let takes_it = |one: &Use| one.action.act == Act::Takes && one.object == Some(self.object);
        // Whether another one is there is not known.
        if walker.action(call).is_some_and(|one| one.action.act == Act::Takes && !takes_it(&one)) {
            return Outcome { result: Value::Unknown, ..outcome };
        }
        let takes = |key: &Key| walker.of_function(*key).own.iter().any(takes_it);
        let key = walker.effect(call).key.filter(takes);
        match key.and_then(|key| self.result(key)) {
            Some(result) if walker.action(call).is_none() => Outcome { result: Value::Is(result), ..outcome },
            _ => outcome,
        }
    }
}

impl Program for Follow<'_, '_> {
    fn instructions(&self) -> InstructionSet {
        self.walker.code.set
    }

    fn global_pointer(&self) -> Option<u32> {
        self.walker.code.global_pointer
    }

    fn code(&self, at: Addr) -> Option<u16> {
        self.walker.code.half(at)
    }

    fn constant(&self, at: Addr) -> Option<u32> {
        self.walker.code.constant(at)
    }

    /// Of a call that sends a message: what is above the message on the stack is not sent.
    fn reads(&self, to: Callee, [queue, ..]: [Value; 4]) -> Option<u32> {
        let Callee::At(to) = to else { return None };
        let action = self.walker.code.action(to)?;
        let sends = action.kind == Some(Kind::Queue) && action.act == Act::Gives;
        self.walker.code.message_bytes(queue.known().filter(|_| sends)?)
    }

    fn returns_nothing(&self, function: Addr) -> bool {
        self.walker.code.returns_nothing(function)
    }

    fn marks_are_set(&self) -> bool {
        self.succeeds
    }

    fn outcome(&self, call: &Call) -> Outcome {
        let effect = self.walker.effect(call);
        let (returns, result) = (effect.returns, effect.result.map_or(Value::Unknown, Value::Mark));
        let Some(one) = self.walker.action(call).filter(|one| one.action.act == Act::Takes) else {
            return Outcome { returns, result, ..Outcome::UNKNOWN };
        };
        let gives_memory = matches!(one.action.kind, Some(Kind::BlockPool | Kind::BytePool | Kind::Queue));
        let mark = one.object.and_then(|object| u32::try_from(object).ok()).filter(|_| gives_memory);
        let result = if self.succeeds { Value::Is(0) } else { Value::Unknown };
        Outcome { returns, result, writes: Some(mark.map_or(Value::Unknown, Value::Mark)) }
    }
}
