//! Call frame information: the rules by which a function's caller is found, from `.debug_frame` and `.eh_frame`.

use std::collections::BTreeMap;

use gimli::{
    BaseAddresses, CfaRule, CieOrFde, DebugFrame, EhFrame, Encoding, EndianSlice, EvaluationResult, Location, Register,
    RegisterRule, RunTimeEndian, UnwindContext, UnwindExpression, UnwindSection, Value,
};

use super::Slice;
use crate::abi::{Addr, Endian, Width};
use crate::elf::Elf;

/// The most entries of a program that are kept: a program of 200 MB has some 200,000.
const MAX_ENTRIES: usize = 1 << 21;
/// The most operations of one expression.
const MAX_OPERATIONS: u32 = 1000;

/// Values of registers, by the numbers of DWARF. One that is missing is not known.
pub type Values = BTreeMap<u16, u64>;

/// The frame of a function's caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The canonical frame address: the stack pointer of the caller at the call.
    pub cfa: Addr,
    /// What the tables give of the caller's registers. Registers that are missing have no rule.
    pub registers: BTreeMap<u16, CallerValue>,
    /// The register that holds the return address.
    pub return_register: u16,
    /// The function was entered by a signal or an exception: its caller's address is of an instruction that is to run next.
    pub is_signal: bool,
}

/// What the tables give of one of the caller's registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallerValue {
    /// Its value.
    Known(u64),
    /// The table says that the caller has none. For the return address this means: there is no caller.
    Undefined,
    /// It is a copy of a register that is not known.
    Unknown,
    /// It was saved at this address, which cannot be read.
    Unreadable(Addr),
}

/// Why a caller is not found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CfiError {
    /// No table covers the address.
    #[error("no unwind information for {0:#x}")]
    Missing(Addr),
    /// The table is damaged, or uses what is not read here.
    #[error("the unwind information for {0:#x} cannot be used: {1}")]
    Unusable(Addr, String),
    /// A register that it needs is not known.
    #[error("the unwind information for {0:#x} needs register {1}, which is not known")]
    Register(Addr, u16),
    /// Memory that it needs cannot be read.
    #[error("the stack at {0:#x} cannot be read")]
    Unreadable(Addr),
}

/// Which section an entry is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Table {
    Debug,
    Eh,
}

/// Where the entry of a function is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    start: Addr,
    end: Addr,
    table: Table,
    offset: usize,
}

/// The call frame information of one program, at the addresses it is linked to.
pub struct Cfi<'a> {
    debug: DebugFrame<Slice<'a>>,
    eh: EhFrame<Slice<'a>>,
    bases: BaseAddresses,
    /// The highest address.
    mask: Addr,
    /// By first address.
    entries: Vec<Entry>,
}

impl<'a> Cfi<'a> {
    /// Over the sections of `elf`, whose bytes are `debug_frame` and `eh_frame`. Lists their entries; what is after damage is
    /// not found.
    pub(super) fn new(elf: &Elf, debug_frame: &'a [u8], eh_frame: &'a [u8]) -> Self {
        let endian = match elf.endian() {
            Endian::Little => RunTimeEndian::Little,
            Endian::Big => RunTimeEndian::Big,
        };
        let size = match elf.width() {
            Width::W4 => 4,
            Width::W8 => 8,
        };
        let (mut debug, mut eh) =
            (DebugFrame::from(EndianSlice::new(debug_frame, endian)), EhFrame::new(eh_frame, endian));
        debug.set_address_size(size);
        eh.set_address_size(size);
        let at = |name| elf.section(name).map_or(0, |s| s.addr);
        let bases = BaseAddresses::default().set_eh_frame(at(".eh_frame")).set_text(at(".text")).set_got(at(".got"));
        let mut entries = Vec::new();
        list(&debug, &bases, Table::Debug, &mut entries);
        list(&eh, &bases, Table::Eh, &mut entries);
        entries.sort_unstable();
        Self { debug, eh, bases, mask: elf.width().max(), entries }
    }

    /// The first addresses of the functions that it covers, in order.
    pub fn addresses(&self) -> impl Iterator<Item = Addr> + '_ {
        self.entries.iter().map(|e| e.start)
    }

    /// The caller of the function at `pc`, an address as linked, whose registers are `values`. `read` reads a word of memory of
    /// so many bytes.
    ///
    /// # Errors
    /// Where no table covers `pc`, the table is damaged, or it needs what is not known.
    pub fn caller(
        &self,
        pc: Addr,
        values: &Values,
        read: &mut dyn FnMut(Addr, u8) -> Option<u64>,
    ) -> Result<Caller, CfiError> {
        let entry = self.entry(pc).ok_or(CfiError::Missing(pc))?;
        let mut frame = Frame { pc, values, read, mask: self.mask };
        match entry.table {
            Table::Debug => frame.caller(&self.debug, &self.bases, entry),
            Table::Eh => frame.caller(&self.eh, &self.bases, entry),
        }
    }

    /// The entry that covers an address: of several, the one that begins last.
    fn entry(&self, pc: Addr) -> Option<Entry> {
        let behind = self.entries.partition_point(|e| e.start <= pc);
        // Entries rarely overlap: only damage makes them.
        let before = self.entries.get(..behind)?.iter().rev().take(16);
        before.copied().find(|e| pc < e.end)
    }
}

/// Lists the entries of a section.
fn list<'a, S>(section: &S, bases: &BaseAddresses, table: Table, entries: &mut Vec<Entry>)
where
    S: UnwindSection<Slice<'a>>,
{
    let mut all = section.entries(bases);
    while let Ok(Some(entry)) = all.next() {
        let CieOrFde::Fde(partial) = entry else { continue };
        let Ok(fde) = partial.parse(S::cie_from_offset) else { continue };
        // The linker leaves the entries of functions that it threw away at address 0.
        if fde.initial_address() != 0 && fde.len() > 0 && entries.len() < MAX_ENTRIES {
            let (start, end) = (fde.initial_address(), fde.end_address());
            entries.push(Entry { start, end, table, offset: fde.offset() });
        }
    }
}

/// The frame of a function whose caller is looked for.
struct Frame<'f> {
    pc: Addr,
    values: &'f Values,
    read: &'f mut dyn FnMut(Addr, u8) -> Option<u64>,
    mask: Addr,
}

impl Frame<'_> {
    /// Applies the rules of an entry.
    fn caller<'a, S>(&mut self, section: &S, bases: &BaseAddresses, entry: Entry) -> Result<Caller, CfiError>
    where
        S: UnwindSection<Slice<'a>>,
    {
        let pc = self.pc;
        let unusable = |error: gimli::Error| CfiError::Unusable(pc, error.to_string());
        let fde =
            section.fde_from_offset(bases, S::Offset::from(entry.offset), S::cie_from_offset).map_err(unusable)?;
        let mut context = UnwindContext::new();
        let row = fde.unwind_info_for_address(section, bases, &mut context, pc).map_err(unusable)?;
        let encoding = fde.cie().encoding();
        let cfa = match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => self.moved(self.register(*register)?, *offset),
            CfaRule::Expression(expression) => self.evaluate(section, *expression, encoding, None)?,
        };
        let mut registers = BTreeMap::new();
        for (register, rule) in row.registers() {
            registers.insert(register.0, self.value(section, *register, rule.clone(), cfa, encoding)?);
        }
        let return_register = fde.cie().return_address_register().0;
        Ok(Caller { cfa, registers, return_register, is_signal: fde.is_signal_trampoline() })
    }

    /// The caller's value of a register.
    fn value<'a, S>(
        &mut self,
        section: &S,
        register: Register,
        rule: RegisterRule<usize>,
        cfa: Addr,
        encoding: Encoding,
    ) -> Result<CallerValue, CfiError>
    where
        S: UnwindSection<Slice<'a>>,
    {
        let copy = |of: Register| self.values.get(&of.0).map_or(CallerValue::Unknown, |v| CallerValue::Known(*v));
        let at = match rule {
            RegisterRule::Undefined => return Ok(CallerValue::Undefined),
            RegisterRule::SameValue => return Ok(copy(register)),
            RegisterRule::Register(other) => return Ok(copy(other)),
            RegisterRule::ValOffset(offset) => return Ok(CallerValue::Known(self.moved(cfa, offset))),
            RegisterRule::Constant(value) => return Ok(CallerValue::Known(value)),
            RegisterRule::ValExpression(expression) => {
                return self.evaluate(section, expression, encoding, Some(cfa)).map(CallerValue::Known);
            }
            RegisterRule::Offset(offset) => self.moved(cfa, offset),
            RegisterRule::Expression(expression) => self.evaluate(section, expression, encoding, Some(cfa))?,
            _ => return Err(CfiError::Unusable(self.pc, "it has a rule of one vendor".to_owned())),
        };
        // Floating-point registers are wider than a word, and no address depends on them.
        Ok(self.word(at, encoding.address_size).map_or(CallerValue::Unreadable(at), CallerValue::Known))
    }

    /// Evaluates an expression.
    fn evaluate<'a, S>(
        &mut self,
        section: &S,
        expression: UnwindExpression<usize>,
        encoding: Encoding,
        initial: Option<u64>,
    ) -> Result<u64, CfiError>
    where
        S: UnwindSection<Slice<'a>>,
    {
        let pc = self.pc;
        let unusable = |error: gimli::Error| CfiError::Unusable(pc, error.to_string());
        let mut evaluation = expression.get(section).map_err(unusable)?.evaluation(encoding);
        evaluation.set_max_iterations(MAX_OPERATIONS);
        if let Some(initial) = initial {
            evaluation.set_initial_value(initial);
        }
        let mut state = evaluation.evaluate().map_err(unusable)?;
        loop {
            state = match state {
                EvaluationResult::Complete => break,
                EvaluationResult::RequiresMemory { address, size, .. } => {
                    evaluation.resume_with_memory(Value::Generic(self.word(address, size)?))
                }
                EvaluationResult::RequiresRegister { register, .. } => {
                    evaluation.resume_with_register(Value::Generic(self.register(register)?))
                }
                _ => {
                    return Err(CfiError::Unusable(
                        pc,
                        "its expression needs more than registers and memory".to_owned(),
                    ));
                }
            }
            .map_err(unusable)?;
        }
        match evaluation.result().first().map(|piece| &piece.location) {
            Some(Location::Address { address }) => Ok(*address & self.mask),
            _ => Err(CfiError::Unusable(pc, "its expression gives no address".to_owned())),
        }
    }

    fn register(&self, register: Register) -> Result<u64, CfiError> {
        self.values.get(&register.0).copied().ok_or(CfiError::Register(self.pc, register.0))
    }

    fn word(&mut self, at: Addr, size: u8) -> Result<u64, CfiError> {
        (self.read)(at, size).ok_or(CfiError::Unreadable(at))
    }

    /// Offsets are relative to an address of any register: they wrap in the address space.
    const fn moved(&self, address: Addr, by: i64) -> Addr {
        address.wrapping_add_signed(by) & self.mask
    }
}
