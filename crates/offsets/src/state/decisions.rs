//! What operators decide, and what became of it.
//!
//! A decision is a plain record that a command leaves: the state's transactional ids belong to the
//! process that runs the flow, and a command must not fence it. The answer is a record of the
//! owner's, written in its transactions. The newest decision about a subject counts; one that was
//! overtaken by what happened since is void, and the answer says so.

use twinlog_types::{Code, GroupId, Partition, SourceOffset, TargetOffset, TopicId, TopicName};

use crate::Malformed;
use crate::coding::{Reader, put_signed, put_text, put_unsigned};

const TOPIC: u8 = 0;
const TOPIC_PARTITION: u8 = 1;
const GROUP: u8 = 2;

const PAUSE: u8 = 0;
const RESUME: u8 = 1;
const SYNC: u8 = 2;

/// What is decided about.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Subject {
    /// A topic of the source, or one partition of it.
    Topic(TopicName, Option<Partition>),
    /// A group.
    Group(GroupId),
}

/// A decision of an operator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Made {
    /// Who made it: names the command that did.
    pub by: String,
    /// When, in milliseconds since 1970. With `by` it tells decisions apart.
    pub at_ms: i64,
    /// What was decided.
    pub what: Decided,
}

/// What was decided.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Decided {
    /// Nothing more is copied until it is resumed.
    Pause,
    /// A pause ends; stops that are named are gone on behind.
    Resume {
        /// The stops, as they were when the decision was made.
        accepted: Vec<Accepted>,
    },
    /// A group is put where it belongs.
    Sync {
        /// Positions that may be taken back, or over what the target's own consumers reached.
        overwrite: Vec<Overwrite>,
    },
}

/// A stop that is gone on behind, whatever is lost.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Accepted {
    /// The partition.
    pub partition: Partition,
    /// Why it had stopped.
    pub code: Code,
    /// The next source offset to copy, as it was. Another one by now makes the decision void.
    pub copied_to: SourceOffset,
    /// The source topic that is gone on with.
    pub source_topic: TopicId,
}

/// A position that may be overwritten as long as it stands as it was seen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Overwrite {
    /// The topic on the source.
    pub topic: TopicName,
    /// The partition.
    pub partition: Partition,
    /// Where the target group stood. Another place by now makes the decision void.
    pub stands: TargetOffset,
}

/// What became of a decision.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// Whose decision.
    pub by: String,
    /// Of when.
    pub of_ms: i64,
    /// When it was carried out or found void, in milliseconds since 1970.
    pub at_ms: i64,
    /// Whether it was carried out.
    pub done: bool,
    /// What was done, or why not.
    pub text: String,
}

impl Made {
    /// Whether `answer` is about this decision.
    pub fn is_answered_by(&self, answer: &Answer) -> bool {
        self.by == answer.by && self.at_ms == answer.of_ms
    }

    pub(super) fn put(&self, out: &mut Vec<u8>) {
        put_text(out, &self.by);
        put_signed(out, self.at_ms);
        match &self.what {
            Decided::Pause => out.push(PAUSE),
            Decided::Resume { accepted } => {
                out.push(RESUME);
                put_unsigned(out, accepted.len() as u64);
                for one in accepted {
                    put_signed(out, i64::from(one.partition));
                    put_text(out, one.code.word());
                    put_signed(out, one.copied_to.0);
                    out.extend_from_slice(&one.source_topic.0);
                }
            }
            Decided::Sync { overwrite } => {
                out.push(SYNC);
                put_unsigned(out, overwrite.len() as u64);
                for one in overwrite {
                    put_text(out, one.topic.as_str());
                    put_signed(out, i64::from(one.partition));
                    put_signed(out, one.stands.0);
                }
            }
        }
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (by, at_ms) = (reader.text()?.to_owned(), reader.signed()?);
        let what = match reader.byte()? {
            PAUSE => Decided::Pause,
            RESUME => Decided::Resume { accepted: read_list(reader, read_accepted)? },
            SYNC => Decided::Sync { overwrite: read_list(reader, read_overwrite)? },
            other => return Err(Malformed::Kind(other)),
        };
        Ok(Self { by, at_ms, what })
    }
}

impl Subject {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Topic(topic, None) => {
                out.push(TOPIC);
                put_text(out, topic.as_str());
            }
            Self::Topic(topic, Some(partition)) => {
                out.push(TOPIC_PARTITION);
                put_text(out, topic.as_str());
                put_signed(out, i64::from(*partition));
            }
            Self::Group(group) => {
                out.push(GROUP);
                put_text(out, group.as_str());
            }
        }
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match reader.byte()? {
            TOPIC => Self::Topic(reader.text()?.into(), None),
            TOPIC_PARTITION => Self::Topic(reader.text()?.into(), Some(reader.narrow_signed()?)),
            GROUP => Self::Group(reader.text()?.into()),
            other => return Err(Malformed::Kind(other)),
        })
    }
}

impl Answer {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        put_text(out, &self.by);
        put_signed(out, self.of_ms);
        put_signed(out, self.at_ms);
        out.push(u8::from(self.done));
        put_text(out, &self.text);
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            by: reader.text()?.to_owned(),
            of_ms: reader.signed()?,
            at_ms: reader.signed()?,
            done: reader.flag()?,
            text: reader.text()?.to_owned(),
        })
    }
}

fn read_list<T>(
    reader: &mut Reader<'_>,
    mut one: impl FnMut(&mut Reader<'_>) -> Result<T, Malformed>,
) -> Result<Vec<T>, Malformed> {
    let announced = reader.unsigned()?;
    // An entry takes three bytes at least: what does not fit is not allocated for.
    let length = usize::try_from(announced)
        .ok()
        .filter(|&length| length <= reader.remaining() / 3)
        .ok_or(Malformed::Truncated)?;
    let mut list = Vec::with_capacity(length);
    for _ in 0..length {
        list.push(one(reader)?);
    }
    Ok(list)
}

fn read_accepted(reader: &mut Reader<'_>) -> Result<Accepted, Malformed> {
    let partition = reader.narrow_signed()?;
    let word = reader.text()?;
    let code = Code::from_word(word).ok_or_else(|| Malformed::Code(word.to_owned()))?;
    let copied_to = SourceOffset(reader.signed()?);
    let id = reader.take(16)?;
    let source_topic = TopicId(id.try_into().map_err(|_| Malformed::Truncated)?);
    Ok(Accepted { partition, code, copied_to, source_topic })
}

fn read_overwrite(reader: &mut Reader<'_>) -> Result<Overwrite, Malformed> {
    Ok(Overwrite {
        topic: reader.text()?.into(),
        partition: reader.narrow_signed()?,
        stands: TargetOffset(reader.signed()?),
    })
}
