//! A target description: how GDB is told which registers there are.

use super::{Architecture, Group, Kind};

impl Architecture {
    /// The general registers in GDB's XML, for the note that GDB itself writes into a core; `None` where GDB needs none.
    #[must_use]
    pub fn description(self) -> Option<Vec<u8>> {
        // Only here a core's machine leaves open which registers there are.
        let (name, feature) = match self {
            Self::CortexM => ("arm", "org.gnu.gdb.arm.m-profile"),
            _ => return None,
        };
        let mut xml = format!(
            "<?xml version=\"1.0\"?>\n<!DOCTYPE target SYSTEM \"gdb-target.dtd\">\n<target>\n  \
             <architecture>{name}</architecture>\n  <feature name=\"{feature}\">\n"
        );
        for register in self.registers().iter().filter(|r| r.group == Group::General) {
            let kind = match register.kind {
                Kind::Data => "data_ptr",
                Kind::Code => "code_ptr",
                _ => "int",
            };
            xml.push_str(&format!(
                "    <reg name=\"{}\" bitsize=\"{}\" type=\"{kind}\" regnum=\"{}\"/>\n",
                register.name, register.bits, register.number
            ));
        }
        xml.push_str("  </feature>\n</target>\n\0");
        Some(xml.into_bytes())
    }
}
