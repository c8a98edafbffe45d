//! One record of an internal topic, decoded as far as it can be.
//!
//! # Invariants
//!
//! 1. Any bytes give an entry: what cannot be read says why, and keeps what could be read.
//! 2. An entry whose key cannot be read passes every filter: it may be about anything.

use bytes::Bytes;
use serde_json::Value;
use twinlog_batch::Record;
use twinlog_mirror::formats::group_log::{
    CLASSIC_GROUP, ClassicGroup, CommitValue, GroupKey, LEGACY_COMMIT, OFFSET_COMMIT, Subject,
};
use twinlog_mirror::formats::{Checkpoint, FormatError, Heartbeat, OffsetSync};
use twinlog_offsets::state::{self, StateKey, StateRecord};
use twinlog_types::{ClusterAlias, GroupId, Partition, TopicName};

use super::names::Names;
use crate::args::{DumpKind, GroupRecords};

/// What the key of a record says.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Key {
    Sync(TopicName, Partition),
    Checkpoint(GroupId, TopicName, Partition),
    Heartbeat(ClusterAlias, ClusterAlias),
    /// Of Connect: `["connector",{partition}]`, and its text.
    Connect(Value, String),
    State(StateKey),
    Group(GroupKey),
}

/// What the value says.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Content {
    Sync(OffsetSync),
    Checkpoint(Checkpoint),
    Heartbeat(Heartbeat),
    /// Of Connect, and its text.
    Connect(Value, String),
    State(StateRecord),
    Commit(CommitValue),
    Classic(ClassicGroup),
    /// Of groups, of a kind whose values are not decoded.
    Undecoded(Bytes),
    Tombstone,
    Unreadable(String),
}

/// A decoded record.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Entry {
    /// `None` when it cannot be read; the content then says why.
    pub(crate) key: Option<Key>,
    pub(crate) content: Content,
}

impl Entry {
    pub(crate) fn decode(kind: DumpKind, record: &Record) -> Self {
        let key = match read_key(kind, record.key.as_deref()) {
            Ok(key) => key,
            Err(why) => return Self { key: None, content: Content::Unreadable(why) },
        };
        let content = if record.value.is_none() {
            Content::Tombstone
        } else {
            read_value(&key, record).unwrap_or_else(Content::Unreadable)
        };
        Self { key: Some(key), content }
    }
}

fn plain(error: &FormatError) -> String {
    error.to_string()
}

fn read_key(kind: DumpKind, key: Option<&[u8]>) -> Result<Key, String> {
    let why = |error: FormatError| plain(&error);
    Ok(match kind {
        DumpKind::OffsetSyncs => {
            let (topic, partition) = OffsetSync::decode_key(key).map_err(why)?;
            Key::Sync(topic, partition)
        }
        DumpKind::Checkpoints => {
            let (group, topic, partition) = Checkpoint::decode_key(key).map_err(why)?;
            Key::Checkpoint(group, topic, partition)
        }
        DumpKind::Heartbeats => {
            let (source, target) = Heartbeat::decode_key(key).map_err(why)?;
            Key::Heartbeat(source, target)
        }
        DumpKind::Positions => {
            let key = key.ok_or("position record has no key")?;
            let (value, text) = json("key", key)?;
            Key::Connect(value, text)
        }
        DumpKind::Map => {
            let key = StateKey::decode(key.unwrap_or_default());
            Key::State(key.map_err(|error| error.to_string())?)
        }
        DumpKind::ConsumerOffsets => Key::Group(GroupKey::decode(key).map_err(why)?),
    })
}

fn read_value(key: &Key, record: &Record) -> Result<Content, String> {
    let why = |error: FormatError| plain(&error);
    let (key_bytes, value) = (record.key.as_deref(), record.value.as_deref());
    Ok(match key {
        Key::Sync(..) => Content::Sync(OffsetSync::decode(key_bytes, value).map_err(why)?),
        Key::Checkpoint(..) => {
            Content::Checkpoint(Checkpoint::decode(key_bytes, value).map_err(why)?)
        }
        Key::Heartbeat(..) => Content::Heartbeat(Heartbeat::decode(key_bytes, value).map_err(why)?),
        Key::Connect(..) => {
            let (value, text) = json("value", value.unwrap_or_default())?;
            Content::Connect(value, text)
        }
        Key::State(_) => match StateRecord::decode(key_bytes.unwrap_or_default(), value) {
            Ok(Some(state)) => Content::State(state),
            Ok(None) => Content::Tombstone,
            Err(error) => return Err(error.to_string()),
        },
        Key::Group(group) => match group.kind {
            LEGACY_COMMIT | OFFSET_COMMIT => {
                Content::Commit(CommitValue::decode(value).map_err(why)?)
            }
            CLASSIC_GROUP => Content::Classic(ClassicGroup::decode(value).map_err(why)?),
            _ => Content::Undecoded(record.value.clone().unwrap_or_default()),
        },
    })
}

/// JSON, and its text as it stands there.
fn json(part: &str, bytes: &[u8]) -> Result<(Value, String), String> {
    let text = std::str::from_utf8(bytes)
        .map_err(|_| format!("the {part} of the position record is not UTF-8"))?;
    let value = serde_json::from_str(text)
        .map_err(|error| format!("the {part} of the position record is not JSON: {error}"))?;
    Ok((value, text.to_owned()))
}

/// What was asked to be seen.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Filter {
    pub(crate) group: Option<String>,
    /// A topic's name, on the source or on the target.
    pub(crate) topic: Option<String>,
    /// What that topic is called on the target, if it is one of the source.
    pub(crate) mirror: Option<String>,
    pub(crate) partition: Option<Partition>,
    pub(crate) records: GroupRecords,
}

impl Filter {
    pub(crate) fn passes(&self, entry: &Entry, names: &Names) -> bool {
        let Some(key) = &entry.key else { return true };
        match key {
            Key::Sync(topic, partition) => self.about(None, &[topic.as_str()], Some(*partition)),
            Key::Checkpoint(group, topic, partition) => {
                self.about(Some(group.as_str()), &[topic.as_str()], Some(*partition))
            }
            Key::Heartbeat(..) => self.about(None, &[], None),
            Key::Connect(key, _) => {
                let of = &key[1];
                let topic = of["topic"].as_str();
                let partition = of["partition"].as_i64().and_then(|number| number.try_into().ok());
                self.about(of["group"].as_str(), topic.as_slice(), partition)
            }
            Key::State(key) => {
                let partition = match key {
                    StateKey::Position(key)
                    | StateKey::Segment(key, _)
                    | StateKey::Block(key, _)
                    | StateKey::Gap(key, _)
                    | StateKey::Journal(key, _)
                    | StateKey::Inherited(key, _) => key,
                    StateKey::Decision(_, subject) | StateKey::Answer(_, subject) => {
                        return match subject {
                            state::Subject::Topic(topic, partition) => {
                                self.about(None, &[topic.as_str()], *partition)
                            }
                            state::Subject::Group(group) => {
                                self.about(Some(group.as_str()), &[], None)
                            }
                        };
                    }
                    StateKey::Lease { .. } => return self.about(None, &[], None),
                };
                let group = match key {
                    StateKey::Journal(_, group) => Some(group.as_str()),
                    _ => None,
                };
                let known = names.of(partition);
                let topics: Vec<&str> =
                    known.iter().flat_map(|(a, b)| [a.as_str(), b.as_str()]).collect();
                self.about(group, &topics, Some(partition.partition))
            }
            Key::Group(key) => {
                if !self.records.contain(key.kind) {
                    return false;
                }
                let group = Some(key.group.as_str());
                match &key.subject {
                    Subject::Partition(topic, partition) => {
                        self.about(group, &[topic.as_str()], Some(*partition))
                    }
                    _ => self.about(group, &[], None),
                }
            }
        }
    }

    fn about(&self, group: Option<&str>, topics: &[&str], partition: Option<Partition>) -> bool {
        let named = |topic: &String| topics.contains(&topic.as_str());
        let topic = self
            .topic
            .as_ref()
            .is_none_or(|topic| named(topic) || self.mirror.as_ref().is_some_and(named));
        topic
            && self.group.as_deref().is_none_or(|wanted| group == Some(wanted))
            && self.partition.is_none_or(|wanted| partition == Some(wanted))
    }
}

impl GroupRecords {
    fn contain(self, kind: i16) -> bool {
        match self {
            Self::All => true,
            Self::Commits => matches!(kind, LEGACY_COMMIT | OFFSET_COMMIT),
            Self::Groups => kind == CLASSIC_GROUP,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dump::testing::{bytes, record};

    fn decode(kind: DumpKind, key: &str, value: Option<&str>) -> Entry {
        Entry::decode(kind, &record(7, Some(bytes(key)), value.map(bytes)))
    }

    /// Bytes that MirrorMaker 2 4.3.0 wrote.
    const SYNC: (&str, &str) = ("00066f726465727300000000", "00000000000000650000000000000065");

    #[test]
    fn what_cannot_be_read_says_why_and_keeps_its_key() {
        let kind = DumpKind::OffsetSyncs;
        let whole = decode(kind, SYNC.0, Some(SYNC.1));
        assert!(matches!(whole.content, Content::Sync(_)));
        let key = Some(Key::Sync("orders".into(), 0));
        let deleted = decode(kind, SYNC.0, None);
        assert_eq!(deleted, Entry { key: key.clone(), content: Content::Tombstone });
        let cut = decode(kind, SYNC.0, Some("00"));
        let why = "offset-sync record ends within its field upstreamOffset";
        assert_eq!(cut, Entry { key, content: Content::Unreadable(why.into()) });
        let foreign = decode(kind, "00", Some(SYNC.1));
        assert_eq!(foreign.key, None);
        let newer = decode(DumpKind::Heartbeats, "000141000142", Some("0001"));
        let why = "heartbeat record has version 1, the newest known is 0";
        assert_eq!(newer.content, Content::Unreadable(why.into()));
        let foreign = decode(DumpKind::Map, "ff", Some("00"));
        assert!(matches!(foreign.content, Content::Unreadable(why) if why.contains("version 255")));
        let foreign = decode(DumpKind::Positions, "ff", Some("00"));
        assert!(matches!(foreign.content, Content::Unreadable(why) if why.contains("UTF-8")));
    }

    #[test]
    fn filters_take_a_topic_by_its_name_on_either_side() {
        let checkpoint = decode(
            DumpKind::Checkpoints,
            "0008672d6f7264657273000c68656c6c6f2e6f726465727300000000",
            Some("000000000000000000fa00000000000000fa00066d6574612d31"),
        );
        let names = Names::default();
        let by = |topic: &str, mirror: &str| Filter {
            topic: Some(topic.into()),
            mirror: Some(mirror.into()),
            ..Filter::default()
        };
        assert!(by("orders", "hello.orders").passes(&checkpoint, &names));
        assert!(by("hello.orders", "hello.hello.orders").passes(&checkpoint, &names));
        assert!(!by("order", "hello.order").passes(&checkpoint, &names));
        let group = |group: &str, partition| Filter {
            group: Some(group.into()),
            partition: Some(partition),
            ..Filter::default()
        };
        assert!(group("g-orders", 0).passes(&checkpoint, &names));
        assert!(!group("g-orders", 1).passes(&checkpoint, &names));
        assert!(!group("g", 0).passes(&checkpoint, &names));
        // What cannot be read may be about anything.
        let foreign = decode(DumpKind::Checkpoints, "00", None);
        assert!(group("g", 1).passes(&foreign, &names));
    }

    #[test]
    fn positions_are_filtered_by_what_their_keys_name() {
        let json = |text: &str| Bytes::copy_from_slice(text.as_bytes());
        let of = |key: &str| {
            Entry::decode(
                DumpKind::Positions,
                &record(0, Some(json(key)), Some(json(r#"{"offset":249}"#))),
            )
        };
        let source =
            of(r#"["MirrorSourceConnector",{"cluster":"hello","partition":2,"topic":"t"}]"#);
        let beat = of(r#"["MirrorHeartbeatConnector",{"sourceClusterAlias":"hello"}]"#);
        let names = Names::default();
        let filter = Filter { topic: Some("t".into()), partition: Some(2), ..Filter::default() };
        assert!(filter.passes(&source, &names));
        assert!(!filter.passes(&beat, &names));
        assert!(Filter::default().passes(&beat, &names));
    }

    #[test]
    fn records_of_groups_are_chosen_by_kind() {
        let commit = decode(DumpKind::ConsumerOffsets, "000100016700017400000002", None);
        let group = decode(DumpKind::ConsumerOffsets, "0002000167", None);
        let member = decode(
            DumpKind::ConsumerOffsets,
            "00050001670003 6d2d31".replace(' ', "").as_str(),
            Some("0000"),
        );
        assert!(matches!(member.content, Content::Undecoded(_)));
        let names = Names::default();
        for (records, passing) in [
            (GroupRecords::All, [true, true, true]),
            (GroupRecords::Commits, [true, false, false]),
            (GroupRecords::Groups, [false, true, false]),
        ] {
            let filter = Filter { records, ..Filter::default() };
            assert_eq!([&commit, &group, &member].map(|one| filter.passes(one, &names)), passing);
        }
    }
}
