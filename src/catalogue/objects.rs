//! What a registry's type codes mean.

use std::sync::OnceLock;

use crate::abi::Addr;
use crate::trace::Object;

/// One type of registered object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectType {
    /// Code in the registry.
    pub code: u32,
    /// Its name: JSON's `object_type`.
    pub name: &'static str,
    /// Meaning of the first parameter when the object was created while tracing.
    pub param1: &'static str,
    /// Meaning of the second parameter then.
    pub param2: &'static str,
    /// Meaning of the first parameter when tracing was enabled after the object's creation.
    pub param1_enable: &'static str,
    /// Meaning of the second parameter then.
    pub param2_enable: &'static str,
    /// What a table calls the parameters, and how it shows them; `None` for one that means nothing.
    pub short: [Option<(&'static str, Show)>; 2],
}

/// How a parameter of an object is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Show {
    /// In hexadecimal.
    Hex,
    /// In decimal.
    Dec,
    /// In decimal, and 0 is a value too: in other parameters it means that nothing was recorded.
    Flag,
}

impl ObjectType {
    /// What the parameters of such an object say: names, values, and how to show them. `word` is the size of a stored
    /// word.
    pub fn parameters(&self, values: [u64; 2], word: u64) -> Vec<(&'static str, u64, Show)> {
        let [first, second] = values;
        // A queue that was there before the trace is registered with the words that it holds, and without the size
        // of its messages.
        if self.name == "queue" && second == 0 {
            let words = first.checked_div(word).filter(|_| first.is_multiple_of(word));
            return words.filter(|n| *n > 0).map(|n| ("capacity", n, Show::Dec)).into_iter().collect();
        }
        let each = self.short.iter().zip(values);
        each.filter_map(|(short, value)| short.map(|(name, show)| (name, value, show)))
            .filter(|(_, value, show)| *value != 0 || *show == Show::Flag)
            .collect()
    }
}

fn types() -> &'static [ObjectType] {
    static TYPES: OnceLock<Vec<ObjectType>> = OnceLock::new();
    TYPES.get_or_init(|| read(include_str!("objects.tsv")))
}

/// The type of this code in a ThreadX registry.
pub fn threadx_object(code: u32) -> Option<&'static ObjectType> {
    types().iter().find(|t| t.code == code)
}

/// The type of this name in a ThreadX registry.
pub fn threadx_object_named(name: &str) -> Option<&'static ObjectType> {
    types().iter().find(|t| t.name == name)
}

/// Start and size of a thread's stack, where its registration has them.
pub fn registered_stack(object: &Object) -> Option<(Addr, u64)> {
    // Another system's registry may give the same code to something else.
    let kind = threadx_object(object.type_code).filter(|t| object.is_thread && object.type_name == Some(t.name))?;
    let values = [object.param1, object.param2];
    let of = |name| kind.short.iter().zip(values).find(|(s, _)| s.is_some_and(|(n, _)| n == name)).map(|(_, v)| v);
    Some((of("stack")?, of("size").filter(|size| *size > 0)?))
}

/// What an object can hold, as its registration says: messages, counts, blocks, packets, or bytes of a byte pool. `word` and
/// `pointer` are their sizes on the target in bytes.
pub fn capacity(object: &Object, word: u64, pointer: u64) -> Option<u64> {
    let kind = threadx_object(object.type_code).filter(|t| object.type_name == Some(t.name))?;
    let all = kind.parameters([object.param1, object.param2], word);
    let of = |name: &str| all.iter().find(|(n, ..)| *n == name).map(|(_, value, _)| *value);
    match (of("size"), of("message"), of("block")) {
        (Some(size), Some(message), _) => size.checked_div(message.checked_mul(word)?),
        // Each block has a pointer before it, and is a whole number of words.
        (Some(size), _, Some(block)) => size.checked_div(block.checked_next_multiple_of(word)?.checked_add(pointer)?),
        (size, ..) => of("capacity").or_else(|| of("packets")).or(size.filter(|_| kind.name == "byte_pool")),
    }
}

fn read(text: &'static str) -> Vec<ObjectType> {
    text.lines()
        .filter(|l| !l.starts_with('#'))
        .filter_map(|l| {
            let mut cells = l.split('\t');
            Some(ObjectType {
                code: cells.next()?.parse().ok()?,
                name: cells.next()?,
                param1: cells.next()?,
                param2: cells.next()?,
                param1_enable: cells.next()?,
                param2_enable: cells.next()?,
                short: [short(cells.next()?), short(cells.next()?)],
            })
        })
        .collect()
}

fn short(cell: &'static str) -> Option<(&'static str, Show)> {
    let (name, show) = cell.split_once(':')?;
    let show = match show {
        "addr" | "hex" => Show::Hex,
        "flag" => Show::Flag,
        _ => Show::Dec,
    };
    Some((name, show))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_of_the_table_is_read() {
        let rows = include_str!("objects.tsv").lines().filter(|l| !l.starts_with(['#', 't'])).count();
        assert_eq!(read(include_str!("objects.tsv")).len(), rows);
        assert_eq!(threadx_object(3).unwrap().name, "queue");
        assert_eq!(threadx_object(99), None);
    }

    #[test]
    fn parameters_mean_what_the_time_of_registration_makes_of_them() {
        let of = |code, values| -> Vec<(&str, u64)> {
            let all = threadx_object(code).unwrap().parameters(values, 4);
            all.into_iter().map(|(name, value, _)| (name, value)).collect()
        };
        assert_eq!(of(1, [0x2000_2C60, 768]), [("stack", 0x2000_2C60), ("size", 768)]);
        // Created while tracing; there before.
        assert_eq!(of(2, [10, 50]), [("initial", 10), ("reschedule", 50)]);
        assert_eq!(of(2, [0, 50]), [("reschedule", 50)]);
        assert_eq!(of(3, [400, 4]), [("size", 400), ("message", 4)]);
        assert_eq!(of(3, [400, 0]), [("capacity", 100)]);
        assert_eq!(of(3, [401, 0]), []);
        assert_eq!(of(7, [1024, 64]), [("size", 1024), ("block", 64)]);
        assert_eq!(of(7, [1024, 0]), [("size", 1024)]);
        assert_eq!((of(5, [0, 0]), of(5, [1, 0])), (vec![("inherit", 0)], vec![("inherit", 1)]));
        assert_eq!((of(4, [0, 0]), of(4, [3, 0])), (vec![], vec![("initial", 3)]));
        assert_eq!((of(6, [7, 7]), of(25, [7, 7])), (vec![], vec![]));
    }
}
