//! Which name was meant by one that does not exist.

use std::collections::BTreeSet;

use twinlog_mirror::closest;

/// More than these are no help.
const NAMES_MAX: usize = 3;
/// A shorter piece of a name is a piece of too many.
const PIECE_CHARS_MIN: usize = 3;

/// The names that `word` was most likely meant to be: the nearest by edits, then those that contain
/// it or are contained in it, without case.
pub fn near<'a>(word: &str, names: impl Iterator<Item = &'a str> + Clone) -> Vec<String> {
    let mut found: Vec<&str> = closest(word, names.clone()).into_iter().collect();
    let lower = word.to_lowercase();
    let is_piece = |piece: &str, whole: &str| {
        piece.chars().count() >= PIECE_CHARS_MIN && whole.contains(piece)
    };
    let mut others: BTreeSet<(usize, &str)> = BTreeSet::new();
    for name in names.filter(|name| *name != word) {
        let other = name.to_lowercase();
        if is_piece(&lower, &other) || is_piece(&other, &lower) {
            others.insert((name.len().abs_diff(word.len()), name));
        }
    }
    found.extend(others.into_iter().map(|(_, name)| name).filter(|name| {
        // The nearest by edits stands first already.
        closest(word, [*name]).is_none()
    }));
    found.into_iter().take(NAMES_MAX).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_and_shortened_names_are_found() {
        let names = ["orders-app", "orders-app-v2", "payments", "a", "ORDERS"];
        for (word, found) in [
            ("order-app", vec!["orders-app"]),
            ("orders-app", vec!["orders-app-v2", "ORDERS"]),
            ("orders", vec!["ORDERS", "orders-app", "orders-app-v2"]),
            ("pay", vec!["payments"]),
            ("invoices", vec![]),
            ("", vec![]),
        ] {
            assert_eq!(near(word, names.into_iter()), found, "{word}");
        }
    }
}
