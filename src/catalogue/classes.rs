//! The categories of the kernel's enable mask.

/// Each category with its bit, in the order of the bits.
pub fn classes() -> impl Iterator<Item = (u64, &'static str)> {
    include_str!("classes.tsv").lines().filter(|l| l.starts_with("0x")).filter_map(|l| {
        let (mask, name) = l.split_once('\t')?;
        Some((u64::from_str_radix(mask.strip_prefix("0x")?, 16).ok()?, name))
    })
}

/// A category without what all categories share: `TX_TRACE_QUEUE_EVENTS` is `tx_queue`.
pub fn short_class(class: &str) -> String {
    let low = class.to_ascii_lowercase().replace("_trace_", "_");
    low.strip_suffix("_events").or_else(|| low.strip_suffix("_event")).unwrap_or(&low).to_owned()
}

/// The categories whose bits are set.
pub fn mask_names(bits: u64) -> Vec<&'static str> {
    classes().filter(|(mask, _)| bits & mask != 0).map(|(_, name)| name).collect()
}

/// The mask in words: the categories that are on, or those that are off where these are fewer.
pub fn mask_text(bits: u64) -> String {
    let (on, off) = (mask_names(bits), mask_names(!bits));
    match (on.len(), off.len()) {
        (_, 0) => "everything".to_owned(),
        (0, _) => "nothing".to_owned(),
        (n, few) if few < n => format!("all but {}", off.join(", ")),
        _ => on.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thirty_two_bits_have_a_category_each() {
        let all: u64 = classes().map(|(mask, _)| mask).sum();
        assert_eq!((classes().count(), all), (32, 0xFFFF_FFFF));
        assert_eq!(mask_names(0x8000_0001), ["TX_TRACE_INTERNAL_EVENTS", "TX_TRACE_USER_EVENTS"]);
    }
}
