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
    Report::table(
        "fault",
        "Fault",
        faults,
        &[
            (Column::new("core", Kind::Count), &|(core, _)| Cell::Count(*core)),
            (Column::new("name", Kind::Text), &|(_, fault)| Cell::some_text(fault.name)),
            (Column::new("current", Kind::Flag), &|(_, fault)| Cell::flag(fault.current)),
            (Column::new("address", Kind::Address), &|(_, fault)| Cell::address(fault.address.map(|(at, _)| at))),
            (Column::new("address_register", Kind::Text), &|(_, fault)| {
                Cell::some_text(fault.address.map(|(_, register)| register))
            }),
            (Column::new("address_valid", Kind::Flag), &|(_, fault)| Cell::flag(fault.address_valid)),
            (Column::new("bits", Kind::FaultBits), &|(_, fault)| Cell::FaultBits(fault.bits.iter().map(bit).collect())),
            (Column::new("registers", Kind::Registers), &|(_, fault)| {
                Cell::Registers(fault.registers.as_slice().into())
            }),
        ],
    )
}

fn bit(bit: &FaultBit) -> report::FaultBit {
    let FaultBit { register, name, words, current, .. } = bit.clone();
    report::FaultBit { register, name, words, current }
}

/// A row for the state, one for each thing that is recorded, and one for the address.
fn for_people(faults: &[(u64, Fault)]) -> Report {
    const COLUMNS: [Column; 3] =
        [Column::new("fault", Kind::Text), Column::new("value", Kind::Text), Column::new("meaning", Kind::Text)];
    let mut report = Report::new("fault", "Fault", COLUMNS);
    for (core, fault) in faults {
        let name = if faults.len() > 1 { format!("core {core}") } else { "state".to_owned() };
        report.rows.push(vec![Cell::text(name), Cell::Empty, Cell::text(fault.state())]);
        report.rows.extend(bits(fault));
        let address = match (fault.address, fault.address_valid) {
            (Some((at, register)), _) => Some((format!("{at:#010x}"), register)),
            (None, Some(false)) => Some((String::new(), "not known: the registers hold no valid one")),
            (None, _) => None,
        };
        report.rows.extend(address.map(|(at, how)| vec![Cell::text("address"), Cell::text(at), Cell::text(how)]));
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
            if first { Cell::text(bit.register) } else { Cell::Empty },
            value.map_or(Cell::Empty, |(_, value)| Cell::text(format!("{value:#010x}"))),
            Cell::text(format!("{}: {}{earlier}", bit.name, bit.words)),
        ]
    };
    fault.bits.iter().map(row).collect()
}

/// The faults of these CPUs, each in one line.
pub fn fault_lines(cpus: &[Registers]) -> Vec<String> {
    cpus.iter().filter_map(Registers::fault).map(|fault| fault.line()).collect()
}
