//! What `twinlog translate` answers: as text for people and as documents for programs.

use std::process::ExitCode;

use serde::Serialize;
use twinlog_engine::observe::MappedPartition;
use twinlog_types::{SourceOffset, TargetOffset, TopicPartition, Translation};

use crate::output::{Failure, Output, WRONG, table, table_text};

/// A place in a partition.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(super) struct Place {
    topic: String,
    partition: i32,
    offset: Option<i64>,
}

impl Place {
    fn new(tp: &TopicPartition, offset: Option<i64>) -> Self {
        Self { topic: tp.topic.to_string(), partition: tp.partition, offset }
    }

    fn text(&self) -> String {
        let offset = self.offset.map_or_else(|| "?".to_owned(), |offset| offset.to_string());
        format!("{}-{} {offset}", self.topic, self.partition)
    }
}

/// A translation.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(super) struct Translated {
    source: Place,
    target: Place,
    translation: &'static str,
    /// Which life of the topic's mirror: 0 until the topic was made again and gone on with.
    #[serde(skip_serializing_if = "is_first")]
    generation: u32,
    /// Of `before-start`: how many offsets of the backlog the other side does not have, at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<u64>,
}

impl Translated {
    /// Of a commit on a partition that has no map.
    pub(super) fn unknown(tp: &TopicPartition, offset: i64) -> Self {
        Self {
            source: Place::new(tp, Some(offset)),
            target: Place::new(tp, None),
            translation: Translation::<TargetOffset>::Unknown.word(),
            generation: 0,
            missing: None,
        }
    }

    pub(super) fn new(mapped: &MappedPartition, offset: i64, reverse: bool) -> Self {
        if reverse {
            let answer = mapped.map.reverse(TargetOffset(offset));
            Self {
                source: Place::new(&mapped.source, answer.offset().map(|offset| offset.0)),
                target: Place::new(&mapped.target, Some(offset)),
                translation: answer.word(),
                generation: mapped.generation,
                missing: missing(answer),
            }
        } else {
            let answer = mapped.map.translate(SourceOffset(offset));
            Self {
                source: Place::new(&mapped.source, Some(offset)),
                target: Place::new(&mapped.target, answer.offset().map(|offset| offset.0)),
                translation: answer.word(),
                generation: mapped.generation,
                missing: missing(answer),
            }
        }
    }

    pub(super) fn is_known(&self) -> bool {
        self.source.offset.is_some() && self.target.offset.is_some()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_first(generation: &u32) -> bool {
    *generation == 0
}

fn missing<Offset: Copy>(answer: Translation<Offset>) -> Option<u64> {
    match answer {
        Translation::BeforeStart { missing, .. } => Some(missing),
        _ => None,
    }
}

/// The answer to one question.
#[derive(Debug, Serialize)]
pub(super) struct Answer {
    pub(super) version: u8,
    pub(super) flow: String,
    #[serde(flatten)]
    pub(super) translated: Translated,
    #[serde(skip)]
    pub(super) reverse: bool,
}

impl Answer {
    pub(super) fn print(&self, out: Output) -> Result<(), Failure> {
        if out.json {
            return Output::document(self);
        }
        let Translated { source, target, translation, missing, generation } = &self.translated;
        let (from, to) = if self.reverse { (target, source) } else { (source, target) };
        let missing = missing.map(|n| format!(", up to {n} records missing")).unwrap_or_default();
        let (from, to) = (from.text(), to.text());
        let life = match generation {
            0 => String::new(),
            n => format!(", generation {n}"),
        };
        Output::text(&format!("{from} -> {to} ({translation}{missing}{life})\n"))
    }

    pub(super) fn exit(&self) -> ExitCode {
        ExitCode::from(if self.translated.is_known() { 0 } else { WRONG })
    }
}

/// The answer for a group.
#[derive(Serialize)]
pub(super) struct GroupAnswer<'a> {
    pub(super) version: u8,
    pub(super) flow: String,
    pub(super) group: &'a str,
    pub(super) offsets: Vec<GroupOffset>,
}

/// One commit of a group.
#[derive(Serialize)]
pub(super) struct GroupOffset {
    #[serde(flatten)]
    pub(super) translated: Translated,
    pub(super) code: Option<&'static str>,
    pub(super) reason: Option<String>,
}

pub(super) fn print_group(offsets: &[GroupOffset]) -> Result<(), Failure> {
    let mut rows = table(&["SOURCE", "P", "OFFSET", "TARGET", "OFFSET", "TRANSLATION"]);
    for offset in offsets {
        let Translated { source, target, translation, missing, .. } = &offset.translated;
        let number =
            |offset: Option<i64>| offset.map_or("-".to_owned(), |offset| offset.to_string());
        let missing = missing.map(|n| format!(", up to {n} records missing")).unwrap_or_default();
        let reason = offset.reason.as_ref().map(|text| format!(": {text}")).unwrap_or_default();
        rows.add_row([
            source.topic.clone(),
            source.partition.to_string(),
            number(source.offset),
            if target.offset.is_some() { target.topic.clone() } else { "-".to_owned() },
            number(target.offset),
            format!("{translation}{missing}{reason}"),
        ]);
    }
    Output::text(&table_text(&rows))
}

#[cfg(test)]
mod tests {
    use twinlog_offsets::{OffsetMap, RunStart};

    use super::*;

    fn mapped() -> MappedPartition {
        let mut map = OffsetMap::new(SourceOffset(13));
        map.set_origin(TargetOffset(0));
        map.plan(RunStart { count: 0, source: SourceOffset(13), target: TargetOffset(0) });
        map.acknowledge(1187, SourceOffset(1200));
        MappedPartition {
            source: TopicPartition::new("orders", 0),
            target: TopicPartition::new("hello.orders", 0),
            map,
            generation: 0,
            written_ms: 0,
            truncated_to: None,
        }
    }

    fn json(offset: i64, reverse: bool) -> serde_json::Value {
        let answer = Answer {
            version: 1,
            flow: "hello->world".into(),
            translated: Translated::new(&mapped(), offset, reverse),
            reverse,
        };
        serde_json::to_value(answer).expect("serialisable")
    }

    #[test]
    fn the_answer_has_the_fields_that_scripts_hold_on_to() {
        let expected = serde_json::json!({
            "version": 1, "flow": "hello->world",
            "source": {"topic": "orders", "partition": 0, "offset": 1100},
            "target": {"topic": "hello.orders", "partition": 0, "offset": 1087},
            "translation": "exact",
        });
        assert_eq!(json(1100, false), expected);
        assert_eq!(json(1087, true), expected);
        assert_eq!(json(1200, false)["translation"], "end");
        assert_eq!(json(1300, false)["translation"], "lower-bound");
        assert_eq!(json(3, false)["missing"], 10);
    }
}
