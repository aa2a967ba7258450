//! What a debugger is told of the target in XML and JSON: its registers, its memory, its threads.

use super::thread::Roster;
use crate::cpu::{Architecture, Group, Kind, Register};
use crate::mem::Region;

/// The most stretches of memory that are listed; of more none is, and trying tells.
const MOST_REGIONS: usize = 4096;

/// The target description; empty where the processor is not known.
pub(super) fn target(roster: &Roster) -> String {
    let Some(architecture) = roster.architecture else { return String::new() };
    let (name, features) = match architecture {
        Architecture::CortexM => {
            ("arm", ["org.gnu.gdb.arm.m-profile", "org.gnu.gdb.arm.vfp", "org.gnu.gdb.arm.m-system"])
        }
        Architecture::Arm => ("arm", ["org.gnu.gdb.arm.core", "org.gnu.gdb.arm.vfp", ""]),
        Architecture::Aarch64 => ("aarch64", ["org.gnu.gdb.aarch64.core", "", ""]),
        Architecture::Riscv32 => ("riscv:rv32", ["org.gnu.gdb.riscv.cpu", "org.gnu.gdb.riscv.fpu", ""]),
        Architecture::Riscv64 => ("riscv:rv64", ["org.gnu.gdb.riscv.cpu", "org.gnu.gdb.riscv.fpu", ""]),
        Architecture::X86 => ("i386", ["org.gnu.gdb.i386.core", "", ""]),
        Architecture::X86_64 => ("i386:x86-64", ["org.gnu.gdb.i386.core", "", "org.gnu.gdb.i386.segments"]),
    };
    let mut xml = String::from("<?xml version=\"1.0\"?>\n<!DOCTYPE target SYSTEM \"gdb-target.dtd\">\n");
    xml.push_str(&format!("<target version=\"1.0\">\n<architecture>{name}</architecture>\n"));
    for (group, feature) in [Group::General, Group::Float, Group::System].into_iter().zip(features) {
        let mut registers = roster.described.iter().filter(|r| r.group == group).peekable();
        if registers.peek().is_none() {
            continue;
        }
        xml.push_str(&format!("<feature name=\"{feature}\">\n"));
        for register in registers {
            xml.push_str(&reg(register));
        }
        xml.push_str("</feature>\n");
    }
    xml.push_str("</target>\n");
    xml
}

fn reg(register: &Register) -> String {
    let Register { name, number, bits, kind, group } = register;
    let kind = match kind {
        Kind::Int => "int",
        Kind::Data => "data_ptr",
        Kind::Code => "code_ptr",
        Kind::Double => match bits {
            32 => "ieee_single",
            64 => "ieee_double",
            _ => "uint128",
        },
        Kind::X87 => "i387_ext",
    };
    let group = if *group == Group::Float || kind == "i387_ext" { " group=\"float\"" } else { "" };
    format!("<reg name=\"{name}\" bitsize=\"{bits}\" regnum=\"{number}\" type=\"{kind}\"{group}/>\n")
}

/// The memory map; empty where the source does not know what it has.
pub(super) fn memory(regions: Option<&[Region]>) -> String {
    let Some(regions) = regions.filter(|r| r.len() <= MOST_REGIONS) else { return String::new() };
    let mut xml = String::from("<?xml version=\"1.0\"?>\n<memory-map>\n");
    for region in regions {
        // Read-only to a debugger, whatever it was on the target.
        xml.push_str(&format!("<memory type=\"rom\" start=\"{:#x}\" length=\"{:#x}\"/>\n", region.start, region.len));
    }
    xml.push_str("</memory-map>\n");
    xml
}

/// `qXfer:threads:read`.
pub(super) fn threads(roster: &Roster) -> String {
    let mut xml = String::from("<?xml version=\"1.0\"?>\n<threads>\n");
    for thread in roster.threads() {
        xml.push_str(&format!("<thread id=\"{:x}\"", thread.id));
        if !thread.name.is_empty() {
            xml.push_str(&format!(" name=\"{}\"", escape(&thread.name)));
        }
        xml.push_str(&format!(">{}</thread>\n", escape(&thread.extra)));
    }
    xml.push_str("</threads>\n");
    xml
}

/// `jThreadsInfo`, LLDB's list of threads: the first is the one that stopped.
pub(super) fn threads_json(roster: &Roster) -> String {
    let mut json = String::from("[");
    for (index, thread) in roster.threads().iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        let name =
            if thread.name.is_empty() { String::new() } else { format!(",\"name\":\"{}\"", quote(&thread.name)) };
        let reason = if index == 0 { ",\"reason\":\"signal\",\"signal\":5" } else { "" };
        json.push_str(&format!("{comma}{{\"tid\":{}{name}{reason}}}", thread.id));
    }
    json.push(']');
    json
}

/// Text inside XML.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            c if c.is_control() => out.push('?'),
            c => out.push(c),
        }
    }
    out
}

/// Text inside a JSON string.
fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.push('?'),
            c => out.push(c),
        }
    }
    out
}

/// The triple that LLDB wants to hear.
pub(super) const fn triple(architecture: Architecture) -> &'static str {
    match architecture {
        Architecture::CortexM => "thumbv7m-none-eabi",
        Architecture::Arm => "armv7-none-eabi",
        Architecture::Aarch64 => "aarch64-none-elf",
        Architecture::Riscv32 => "riscv32-unknown-elf",
        Architecture::Riscv64 => "riscv64-unknown-elf",
        Architecture::X86 => "i386-unknown-unknown",
        Architecture::X86_64 => "x86_64-unknown-unknown",
    }
}
