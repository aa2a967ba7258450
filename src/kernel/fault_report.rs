//! What the fault registers of the CPUs record, as a report.

use super::Kernel;
use super::report::Detail;
use crate::cpu::{Fault, FaultBit, Registers};
use crate::report::{self, Cell, Column, Kind, Report};

/// The faults of all CPUs; `None` where no register records one.
pub(super) fn fault(kernel: &Kernel, detail: Detail) -> Option<Report> {
    let faults: Vec<(u64, Fault)> =
        (0..).zip(&kernel.registers).filter_map(|(n, cpu)| Some((n, cpu.fault()?))).collect();
    if faults.is_empty() {
        return None;
    }
    Some(match detail {
        Detail::Full => for_programs(&faults),
        Detail::Summary { .. } => for_people(&faults),
    })
}

fn for_programs(faults: &[(u64, Fault)]) -> Report {
    const COLUMNS: [Column; 8] = [
        Column::new("core", Kind::Count),
        Column::new("name", Kind::Text),
        Column::new("current", Kind::Flag),
        Column::new("address", Kind::Address),
        Column::new("address_register", Kind::Text),
        Column::new("address_valid", Kind::Flag),
        Column::new("bits", Kind::FaultBits),
        Column::new("registers", Kind::Registers),
    ];
    let flag = |known: Option<bool>| known.map_or(Cell::Empty, Cell::Flag);
    let mut report = Report::new("fault", "Fault", COLUMNS);
    report.rows.extend(faults.iter().map(|(core, fault)| {
        vec![
            Cell::Count(*core),
            fault.name.map_or(Cell::Empty, text),
            flag(fault.current),
            fault.address.map_or(Cell::Empty, |(at, _)| Cell::Address(at)),
            fault.address.map_or(Cell::Empty, |(_, register)| text(register)),
            flag(fault.address_valid),
            Cell::FaultBits(fault.bits.iter().map(bit).collect()),
            Cell::Registers(fault.registers.clone()),
        ]
    }));
    report
}

fn bit(bit: &FaultBit) -> report::FaultBit {
    let FaultBit { register, name, words, current, .. } = bit.clone();
    report::FaultBit { register, name, words, current }
}

fn text(text: impl Into<String>) -> Cell {
    Cell::Text(text.into())
}

/// A row for the state, one for each thing that is recorded, and one for the address.
fn for_people(faults: &[(u64, Fault)]) -> Report {
    const COLUMNS: [Column; 3] =
        [Column::new("fault", Kind::Text), Column::new("value", Kind::Text), Column::new("meaning", Kind::Text)];
    let mut report = Report::new("fault", "Fault", COLUMNS);
    for (core, fault) in faults {
        let name = if faults.len() > 1 { format!("core {core}") } else { "state".to_owned() };
        report.rows.push(vec![text(name), Cell::Empty, text(fault.state())]);
        report.rows.extend(bits(fault));
        let address = match (fault.address, fault.address_valid) {
            (Some((at, register)), _) => Some((format!("{at:#010x}"), register)),
            (None, Some(false)) => Some((String::new(), "not known: the registers hold no valid one")),
            (None, _) => None,
        };
        report.rows.extend(address.map(|(at, how)| vec![text("address"), text(at), text(how)]));
    }
    report
}

/// The rows of the bits: name and value of a register in the first of its own.
fn bits(fault: &Fault) -> Vec<Vec<Cell>> {
    let mut last = "";
    let row = |bit: &FaultBit| {
        let first = std::mem::replace(&mut last, bit.register) != bit.register;
        let value = fault.registers.iter().find(|(name, _)| *name == bit.register).filter(|_| first);
        let earlier = match (fault.current, bit.current) {
            (Some(true), Some(false)) => " (earlier)",
            (Some(true), None) => " (or earlier)",
            _ => "",
        };
        vec![
            if first { text(bit.register) } else { Cell::Empty },
            value.map_or(Cell::Empty, |(_, value)| text(format!("{value:#010x}"))),
            text(format!("{}: {}{earlier}", bit.name, bit.words)),
        ]
    };
    fault.bits.iter().map(row).collect()
}

/// The faults of these CPUs, each in one line.
pub fn fault_lines(cpus: &[Registers]) -> Vec<String> {
    cpus.iter().filter_map(Registers::fault).map(|fault| fault.line()).collect()
}
