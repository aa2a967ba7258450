//! What a registry's type codes mean.

use std::sync::OnceLock;

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
}

/// The type of this code in a ThreadX registry.
#[must_use]
pub fn threadx_object(code: u32) -> Option<&'static ObjectType> {
    static TYPES: OnceLock<Vec<ObjectType>> = OnceLock::new();
    TYPES.get_or_init(|| read(include_str!("objects.tsv"))).iter().find(|t| t.code == code)
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
            })
        })
        .collect()
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
}
