//! Texts that tests produce and documentation shows.
//!
//! A test says what it got; the file must say the same, ages and ids of topics aside. With
//! `TWINLOG_WRITE_DOCS=1` the file is written instead.

use std::path::Path;

/// The variable that has files written.
pub const WRITE: &str = "TWINLOG_WRITE_DOCS";

/// Whether files are written and not compared.
pub fn are_written() -> bool {
    std::env::var_os(WRITE).is_some_and(|value| value == "1")
}

/// Compares `text` with the file, or writes it.
///
/// # Panics
///
/// When the file says something else, with what to do.
pub fn keep(file: &Path, text: &str) {
    let there = std::fs::read_to_string(file).unwrap_or_default();
    let same = without_chance(&there) == without_chance(text);
    if same {
        return;
    }
    let name = file.display();
    assert!(
        are_written(),
        "{name} is not what is produced; write it with {WRITE}=1 if this is meant.\n--- there\n\
         {there}\n--- produced\n{text}"
    );
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    std::fs::write(file, text).unwrap_or_else(|error| panic!("{name}: {error}"));
}

/// How long something takes or is ago may differ, and so may ids that clusters draw; where lines are
/// broken, too.
fn without_chance(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let is_number = |word: &str| word.parse::<f64>().is_ok();
    let is_unit = |word: &str| matches!(word.trim_end_matches([',', ';', ':']), "s" | "ms");
    let is_drawn = |word: &str| {
        let word = word.trim_end_matches([',', ';', ':']);
        word.len() == 32 && word.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let kept = words.iter().enumerate().map(|(at, word)| {
        let age = is_number(word) && words.get(at + 1).is_some_and(|next| is_unit(next));
        if age || is_drawn(word) { "#" } else { word }
    });
    kept.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::without_chance;

    #[test]
    fn ages_and_drawn_ids_are_no_difference_and_everything_else_is() {
        let said = |text| without_chance(text);
        assert_eq!(said("12 s ago, at 7"), said("3 s\n  ago, at 7"));
        assert_eq!(
            said("topic d82aa74a086c443cbe9dd5f15723c5e2, gone"),
            said("topic 9d55a3b8e2a64f11ab67a09b704cec57; gone")
        );
        assert_ne!(said("12 s ago, at 7"), said("12 s ago, at 8"));
        assert_ne!(said("12 records"), said("13 records"));
    }
}
