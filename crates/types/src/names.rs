//! Names that Kafka and its operators use.

use std::fmt;
use std::sync::Arc;

macro_rules! string_name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(name: &str) -> Self {
                Self(name.into())
            }
        }

        impl From<String> for $name {
            fn from(name: String) -> Self {
                Self(name.into())
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            /// For people to read: characters that a terminal obeys are replaced, see [`is_obeyed`].
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                if self.0.contains(is_obeyed) {
                    f.write_str(&self.0.replace(is_obeyed, "\u{fffd}"))
                } else {
                    f.write_str(&self.0)
                }
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }
    };
}

/// What a terminal does not show but does: controls, line ends, and characters that turn or hide
/// those around them.
pub fn is_obeyed(c: char) -> bool {
    let is_format = matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}');
    c.is_control() || is_format
}

string_name! {
    /// The name of a topic on one cluster.
    TopicName
}
string_name! {
    /// The id of a consumer group (or of a share or streams group).
    GroupId
}
string_name! {
    /// What an MM2 file calls a cluster (`hello` in `hello->world`).
    ClusterAlias
}
string_name! {
    /// The id a cluster gave itself when it was formatted; Kafka's Metadata answers carry it.
    ClusterId
}

/// The number of a partition within its topic.
pub type Partition = i32;

/// The node id of a broker within its cluster.
pub type BrokerId = i32;

/// One partition of one topic of one cluster.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TopicPartition {
    /// The topic's name.
    pub topic: TopicName,
    /// The partition's number.
    pub partition: Partition,
}

impl TopicPartition {
    /// The partition `partition` of `topic`.
    pub fn new(topic: impl Into<TopicName>, partition: Partition) -> Self {
        Self { topic: topic.into(), partition }
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

/// The 16 bytes that tell one life of a topic from the next (KIP-516). All zero where the broker
/// offers none.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TopicId(pub [u8; 16]);

impl TopicId {
    /// What a broker says that knows no topic ids.
    pub const NONE: Self = Self([0; 16]);

    /// Whether the broker offered no id.
    pub fn is_none(self) -> bool {
        self == Self::NONE
    }
}

impl fmt::Display for TopicId {
    /// Lower-case hexadecimal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A replication flow, `source->target` by alias.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FlowName {
    /// The alias of the cluster that is read.
    pub source: ClusterAlias,
    /// The alias of the cluster that is written.
    pub target: ClusterAlias,
}

impl FlowName {
    /// The flow `source->target`.
    pub fn new(source: impl Into<ClusterAlias>, target: impl Into<ClusterAlias>) -> Self {
        Self { source: source.into(), target: target.into() }
    }

    /// Reads `source->target`; `None` when the arrow or an alias is missing.
    pub fn parse(text: &str) -> Option<Self> {
        let (source, target) = text.split_once("->")?;
        (!source.is_empty() && !target.is_empty()).then(|| Self::new(source, target))
    }
}

impl fmt::Display for FlowName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}->{}", self.source, self.target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_a_line_end_is_shown_on_one_line_and_is_the_same_name() {
        let name = GroupId::from("x\n OK: all is well\u{202e}");
        assert_eq!(name.to_string(), "x\u{fffd} OK: all is well\u{fffd}");
        assert_eq!(name.as_str(), "x\n OK: all is well\u{202e}");
        assert_eq!(GroupId::from("größe-1 .*").to_string(), "größe-1 .*");
    }
}
