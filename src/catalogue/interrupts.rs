//! Which events of a catalogue begin and end interrupts.

use super::{ArgKind, Catalogue, Effect};
use crate::trace::{Interrupts, Mark, Number};

impl Catalogue {
    /// The events that begin and end interrupts. `processor`: the target's processor numbers its exceptions, and the
    /// kernel stores that number beside the one that the application chose.
    pub fn interrupts(&self, processor: bool) -> Interrupts {
        self.iter()
            .filter_map(|def| {
                let enters = def.effects.has(Effect::IsrEnter);
                let chosen = def.effects.word(if enters { Effect::IsrEnter } else { Effect::IsrExit })?;
                let system = def.fields.iter().position(|f| f.as_ref().is_some_and(|f| f.kind == ArgKind::System));
                let number = match system.filter(|_| processor) {
                    Some(word) => Number::Processor(word),
                    None => Number::Chosen(chosen),
                };
                Some(Mark { def: self.find(def.id)?, enters, number })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Names;

    #[test]
    fn threadx_has_one_of_each() {
        let all = Catalogue::threadx(Names::Duo);
        let number = |processor| {
            let marks = all.interrupts(processor);
            assert_eq!(marks.iter().map(|m| m.enters).collect::<Vec<_>>(), [true, false]);
            marks[0].number
        };
        assert_eq!(number(false), Number::Chosen(1));
        assert_eq!(number(true), Number::Processor(2));
    }
}
