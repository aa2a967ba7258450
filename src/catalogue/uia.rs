//! Events that TI's modules declare, for programs whose loggers write them.

use std::sync::OnceLock;

use super::{Effects, EventDef, Product};
use crate::catalogue::table::{read_field, rows};

/// The first of the numbers that are used for declared events until a program has numbered them: above all that a record
/// can hold.
pub const FIRST_DECLARED: u32 = 0x2_0000;

/// An event that a module declares.
#[derive(Debug, Clone)]
pub struct Declared {
    /// The module: `ti.sysbios.knl.Task`.
    pub module: &'static str,
    /// Its name there: `LM_switch`.
    pub event: &'static str,
    /// The arguments as its text has them: label and conversion, `tsk:%x`.
    pub specs: Vec<&'static str>,
    /// What it means. Its id is a number of ours.
    pub def: EventDef,
}

/// Every declared event.
pub fn uia_events() -> &'static [Declared] {
    static ALL: OnceLock<Vec<Declared>> = OnceLock::new();
    ALL.get_or_init(|| {
        (FIRST_DECLARED..).zip(rows(include_str!("uia.tsv"))).filter_map(|(id, row)| read(id, &row)).collect()
    })
}

fn read(id: u32, row: &[&'static str]) -> Option<Declared> {
    let [name, module, event, mask, fields, effects, specs] = row else { return None };
    Some(Declared {
        module,
        event,
        specs: specs.split_whitespace().collect(),
        def: EventDef {
            macro_name: format!("{}_{event}", module.replace('.', "_")),
            fields: fields.split_whitespace().map(|f| read_field(f, &[])).collect(),
            effects: Effects::parse(effects).unwrap_or_default(),
            label: (*mask).to_owned(),
            ..EventDef::new(id, (*name).to_owned(), Product::Kernel, (*module).to_owned())
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Effect;

    #[test]
    fn the_table_is_whole() {
        let text = include_str!("uia.tsv");
        assert_eq!(uia_events().len(), 130);
        assert_eq!(rows(text).count(), 130);
        for row in rows(text) {
            assert!(Effects::parse(row[5]).is_some(), "{row:?}");
            assert!(row[4].split_whitespace().all(|f| read_field(f, &[]).is_some()), "{row:?}");
        }
        let mut names: Vec<_> = uia_events().iter().map(|d| &d.def.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 130, "names are unique");
    }

    #[test]
    fn a_switch_of_tasks_runs_the_new_one() {
        let switch = uia_events().iter().find(|d| d.def.name == "Task.LM_switch").unwrap();
        assert_eq!(switch.def.effects.word(Effect::Run), Some(2));
        assert_eq!(switch.def.fields[2].as_ref().unwrap().name, "newtsk");
        assert_eq!(switch.def.macro_name, "ti_sysbios_knl_Task_LM_switch");
    }
}
