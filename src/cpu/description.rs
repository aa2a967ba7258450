//! Target descriptions: the XML in which GDB reads which registers there are.

use super::{Architecture, Group, Kind, Register};

impl Architecture {
    /// The description of these registers; those of a group that GDB has no feature for are left out.
    pub fn target_xml(self, registers: &[Register]) -> String {
        let model = self.model();
        let mut xml = String::from("<?xml version=\"1.0\"?>\n<!DOCTYPE target SYSTEM \"gdb-target.dtd\">\n");
        xml.push_str(&format!("<target version=\"1.0\">\n<architecture>{}</architecture>\n", model.gdb));
        for (group, feature) in [Group::General, Group::Float, Group::System].into_iter().zip(model.features) {
            let lines: String = registers.iter().filter(|r| r.group == group).filter_map(line).collect();
            if !lines.is_empty() && !feature.is_empty() {
                xml.push_str(&format!("<feature name=\"{feature}\">\n{lines}</feature>\n"));
            }
        }
        xml.push_str("</target>\n");
        xml
    }

    /// The general registers in XML, for the note that GDB itself writes into a core; `None` where GDB needs none.
    pub fn description(self) -> Option<Vec<u8>> {
        // Only here a core's machine leaves open which registers there are.
        (self == Self::CortexM).then(|| {
            let general = self.registers().iter().filter(|r| r.group == Group::General).copied();
            let xml = self.target_xml(&general.collect::<Vec<_>>());
            [xml.as_bytes(), b"\0"].concat()
        })
    }
}

fn line(register: &Register) -> Option<String> {
    let Register { name, bits, kind, group, .. } = register;
    let number = register.number()?;
    let kind = match kind {
        Kind::Int => "int",
        Kind::Data => "data_ptr",
        Kind::Code => "code_ptr",
        Kind::Double if *bits == 32 => "ieee_single",
        Kind::Double if *bits == 64 => "ieee_double",
        Kind::Double => "uint128",
        Kind::X87 => "i387_ext",
    };
    let group = if *group == Group::Float || kind == "i387_ext" { " group=\"float\"" } else { "" };
    Some(format!("<reg name=\"{name}\" bitsize=\"{bits}\" regnum=\"{number}\" type=\"{kind}\"{group}/>\n"))
}
