//! What `twinlog translate` is asked: by arguments, or by JSON lines.

use serde::Deserialize;
use twinlog_types::{GroupId, TopicPartition};

use crate::args::Translate;
use crate::output::Failure;

/// What is asked.
pub(super) enum Question {
    One(Asked),
    Group(GroupId),
    Lines { reverse: bool },
}

/// One offset to translate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Asked {
    pub(super) partition: TopicPartition,
    pub(super) offset: i64,
    pub(super) reverse: bool,
}

/// One line of standard input.
#[derive(Deserialize)]
struct Line {
    topic: String,
    partition: i32,
    offset: i64,
}

impl Translate {
    /// `--source A --target B -`: without a file the dash is the only positional.
    pub(super) fn clone_lines(&self) -> Self {
        let mut args = self.clone();
        let dash = args.common.file.as_ref().is_some_and(|file| file.as_os_str() == "-");
        if dash && args.common.source.is_some() && args.lines.is_none() {
            args.common.file = None;
            args.lines = Some("-".into());
        }
        args
    }

    pub(super) fn question(&mut self) -> Result<Question, Failure> {
        if self.lines.is_some() {
            return Ok(Question::Lines { reverse: self.reverse });
        }
        if let Some(group) = self.group.take() {
            return Ok(Question::Group(group.into()));
        }
        let (Some(topic), Some(partition), Some(offset)) =
            (self.topic.take(), self.partition, self.offset)
        else {
            return Err(Failure::usage(
                "nothing to translate is given",
                "give --topic, --partition and --offset, or --group, or - for JSON lines",
            ));
        };
        let partition = TopicPartition::new(topic, partition);
        Ok(Question::One(Asked { partition, offset, reverse: self.reverse }))
    }
}

/// Reads one line of standard input.
pub(super) fn asked(line: &str, number: usize, reverse: bool) -> Result<Asked, Failure> {
    let example = r#"write {"topic":"orders","partition":0,"offset":1100}"#;
    let line: Line = serde_json::from_str(line).map_err(|error| {
        Failure::usage(format!("line {number} of standard input: {error}"), example)
    })?;
    if line.partition < 0 || line.offset < 0 {
        let message = format!("line {number} of standard input: a number is negative");
        return Err(Failure::usage(message, example));
    }
    let partition = TopicPartition::new(line.topic, line.partition);
    Ok(Asked { partition, offset: line.offset, reverse })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::USAGE;

    #[test]
    fn a_line_that_cannot_be_read_names_itself() {
        let good = asked(r#"{"topic":"a","partition":1,"offset":2}"#, 1, true).expect("good");
        assert_eq!(
            good,
            Asked { partition: TopicPartition::new("a", 1), offset: 2, reverse: true }
        );
        for bad in ["{", r#"{"topic":"a"}"#, r#"{"topic":"a","partition":-1,"offset":2}"#] {
            let failure = asked(bad, 7, false).expect_err("bad");
            assert_eq!(failure.exit, USAGE);
            assert!(failure.message.contains("line 7"), "{}", failure.message);
        }
    }
}
