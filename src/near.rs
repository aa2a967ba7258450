//! Names near to one that is not known, for "did you mean".

use strsim::damerau_levenshtein;

/// The most names that are suggested.
const MOST: usize = 3;

/// The names nearest to `text`, best first: a few, for a hint. Capital and small letters are the same.
pub fn nearest<'a>(text: &str, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let text = text.to_lowercase();
    let bound = text.chars().count().div_euclid(3).clamp(1, 4);
    let mut found: Vec<(usize, &str)> = Vec::new();
    for name in names {
        let low = name.to_lowercase();
        let cost = damerau_levenshtein(&text, &low);
        if cost <= bound {
            found.push((cost, name));
        } else if text.len() >= 3 && low.contains(&text) {
            // No slip of the finger, but a part of the name.
            found.push((bound.saturating_add(low.len()), name));
        }
    }
    found.sort_unstable();
    found.dedup();
    found.into_iter().take(MOST).map(|(_, name)| name).collect()
}

/// `did you mean 'control' or 'comms'?`; empty where there is no name. `quote` goes around each of them.
pub fn did_you_mean(names: &[&str], quote: &str) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("{quote}{name}{quote}")).collect();
    match quoted.split_last() {
        Some((last, [])) => format!("did you mean {last}?"),
        Some((last, others)) => format!("did you mean {} or {last}?", others.join(", ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_come_best_first() {
        let names = ["tx_queue_send", "tx_queue_receive", "tx_mutex_get"];
        assert_eq!(nearest("tx_queue_sned", names.into_iter()), ["tx_queue_send"]);
        assert_eq!(nearest("mutex", names.into_iter()), ["tx_mutex_get"]);
        assert_eq!(nearest("TX_Mutex_Get", names.into_iter()), ["tx_mutex_get"]);
        assert!(nearest("zebra", names.into_iter()).is_empty());
    }

    #[test]
    fn a_question_names_all() {
        assert_eq!(did_you_mean(&["a"], "'"), "did you mean 'a'?");
        assert_eq!(did_you_mean(&["a", "b", "c"], ""), "did you mean a, b or c?");
        assert_eq!(did_you_mean(&[], ""), "");
    }
}
