//! Group records as Kafka's own formatters print them: the fields, their order and their spelling.
//!
//! References: `OffsetsMessageFormatter`, `GroupMetadataMessageFormatter` and the generated
//! `CoordinatorRecordJsonConverters` of Apache Kafka 4.3.0, which print with Jackson.

use std::io;

use serde::Serialize;
use serde_json::ser::{CharEscape, CompactFormatter, Formatter};
use serde_json::{Value, json};
use twinlog_mirror::formats::group_log::{
    ClassicGroup, ClassicMember, CommitValue, GroupKey, Subject,
};
use twinlog_types::TopicId;

/// A record's key and value.
#[derive(Serialize)]
pub(crate) struct Printed<K, V> {
    pub(crate) key: K,
    pub(crate) value: V,
}

/// A key under the number of its kind.
#[derive(Serialize)]
pub(crate) struct Typed<D> {
    #[serde(rename = "type")]
    kind: i16,
    data: D,
}

/// A value under its version.
#[derive(Serialize)]
pub(crate) struct Versioned<D> {
    version: i16,
    data: D,
}

#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum KeyData<'a> {
    Partition {
        group: &'a str,
        topic: &'a str,
        partition: i32,
    },
    Group {
        group: &'a str,
    },
    GroupId {
        #[serde(rename = "groupId")]
        group_id: &'a str,
    },
    Member {
        #[serde(rename = "groupId")]
        group_id: &'a str,
        #[serde(rename = "memberId")]
        member_id: &'a str,
    },
    Pattern {
        #[serde(rename = "groupId")]
        group_id: &'a str,
        #[serde(rename = "regularExpression")]
        regular_expression: &'a str,
    },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CommitData<'a> {
    offset: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    leader_epoch: Option<i32>,
    metadata: &'a str,
    commit_timestamp: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    expire_timestamp: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    topic_id: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClassicData<'a> {
    protocol_type: &'a str,
    generation: i32,
    protocol: Option<&'a str>,
    leader: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    current_state_timestamp: Option<i64>,
    members: Vec<MemberData<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MemberData<'a> {
    member_id: &'a str,
    #[serde(skip_serializing_if = "Instance::is_unknown")]
    group_instance_id: Instance<'a>,
    client_id: &'a str,
    client_host: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    rebalance_timeout: Option<i32>,
    session_timeout: i32,
    subscription: String,
    assignment: String,
}

/// `group.instance.id`, which versions before 3 do not speak of.
#[derive(Serialize)]
#[serde(untagged)]
enum Instance<'a> {
    Unknown,
    Known(Option<&'a str>),
}

impl Instance<'_> {
    fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown)
    }
}

pub(crate) fn key(key: &GroupKey) -> Typed<KeyData<'_>> {
    let group = key.group.as_str();
    let data = match &key.subject {
        Subject::Partition(topic, partition) => {
            KeyData::Partition { group, topic: topic.as_str(), partition: *partition }
        }
        Subject::Group if key.kind == 2 => KeyData::Group { group },
        Subject::Group => KeyData::GroupId { group_id: group },
        Subject::Member(member) => KeyData::Member { group_id: group, member_id: member },
        Subject::Pattern(pattern) => {
            KeyData::Pattern { group_id: group, regular_expression: pattern }
        }
    };
    Typed { kind: key.kind, data }
}

pub(crate) fn commit(commit: &CommitValue) -> Versioned<CommitData<'_>> {
    let data = CommitData {
        offset: commit.offset,
        leader_epoch: commit.leader_epoch,
        metadata: &commit.metadata,
        commit_timestamp: commit.committed_ms,
        expire_timestamp: commit.expires_ms,
        topic_id: commit.topic_id.map(topic_id),
    };
    Versioned { version: commit.version, data }
}

pub(crate) fn classic(group: &ClassicGroup) -> Versioned<ClassicData<'_>> {
    let data = ClassicData {
        protocol_type: &group.protocol_type,
        generation: group.generation,
        protocol: group.protocol.as_deref(),
        leader: group.leader.as_deref(),
        current_state_timestamp: group.since_ms,
        members: group.members.iter().map(|one| member(one, group.version)).collect(),
    };
    Versioned { version: group.version, data }
}

fn member(member: &ClassicMember, version: i16) -> MemberData<'_> {
    let instance = member.instance.as_deref();
    MemberData {
        member_id: &member.id,
        group_instance_id: if version < 3 { Instance::Unknown } else { Instance::Known(instance) },
        client_id: &member.client_id,
        client_host: &member.client_host,
        rebalance_timeout: member.rebalance_timeout_ms,
        session_timeout: member.session_timeout_ms,
        subscription: base64(&member.subscription, STANDARD, true),
        assignment: base64(&member.assignment, STANDARD, true),
    }
}

/// A value that Kafka has no formatter for: its version and its bytes.
pub(crate) fn undecoded(value: &[u8]) -> Value {
    match value {
        [high, low, rest @ ..] => json!({
            "version": i16::from_be_bytes([*high, *low]),
            "bytes": base64(rest, STANDARD, true),
        }),
        short => json!({ "bytes": base64(short, STANDARD, true) }),
    }
}

/// A topic id as Kafka's tools print it.
pub(crate) fn topic_id(id: TopicId) -> String {
    base64(&id.0, URL, false)
}

const STANDARD: [u8; 2] = *b"+/";
const URL: [u8; 2] = *b"-_";

/// Base64 (RFC 4648) with these last two digits.
fn base64(bytes: &[u8], last: [u8; 2], padded: bool) -> String {
    let digit = |value: u32| {
        char::from(match value as u8 & 63 {
            value @ 0..26 => b'A' + value,
            value @ 26..52 => b'a' + value - 26,
            value @ 52..62 => b'0' + value - 52,
            value => last[usize::from(value) - 62],
        })
    };
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            if at <= chunk.len() {
                text.push(digit(bits >> (18 - 6 * at)));
            } else if padded {
                text.push('=');
            }
        }
    }
    text
}

/// Prints as Jackson does: control characters in upper-case hexadecimal.
struct Jackson;

impl Formatter for Jackson {
    fn write_char_escape<W>(&mut self, writer: &mut W, escape: CharEscape) -> io::Result<()>
    where
        W: ?Sized + io::Write,
    {
        match escape {
            CharEscape::AsciiControl(byte) => write!(writer, "\\u{byte:04X}"),
            other => CompactFormatter.write_char_escape(writer, other),
        }
    }
}

/// The line, without its end.
pub(crate) fn line(printed: &impl Serialize, out: &mut Vec<u8>) -> serde_json::Result<()> {
    printed.serialize(&mut serde_json::Serializer::with_formatter(out, Jackson))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex");
        (0..hex.len()).step_by(2).map(digit).collect()
    }

    fn text(printed: &impl Serialize) -> String {
        let mut out = Vec::new();
        line(printed, &mut out).expect("serialisable");
        String::from_utf8(out).expect("text")
    }

    const KEY: &str = "0001000f672d6f7264225c0a01c3a9e280a82f00066f726465727300000003";

    // Bytes and lines are those of the generated classes and of OffsetsMessageFormatter and
    // GroupMetadataMessageFormatter of Apache Kafka 4.3.0.

    #[test]
    fn commits_print_as_kafkas_formatter_prints_them() {
        for (value, printed) in [
            (
                "000000000000000000fa00066d6574612d31000001a2284090d9",
                r#"{"version":0,"data":{"offset":250,"metadata":"meta-1","commitTimestamp":1795971649753}}"#,
            ),
            (
                "000100000000000000fa00066d6574612d31000001a2284090d9000001a2284091cf",
                r#"{"version":1,"data":{"offset":250,"metadata":"meta-1","commitTimestamp":1795971649753,"expireTimestamp":1795971649999}}"#,
            ),
            (
                "000300000000000000fa0000000500066d6574612d31000001a2284090d9",
                r#"{"version":3,"data":{"offset":250,"leaderEpoch":5,"metadata":"meta-1","commitTimestamp":1795971649753}}"#,
            ),
            (
                "000400000000000000fa00000005076d6574612d31000001a2284090d9010010000102030405060708090a0b0c0d0e0f",
                r#"{"version":4,"data":{"offset":250,"leaderEpoch":5,"metadata":"meta-1","commitTimestamp":1795971649753,"topicId":"AAECAwQFBgcICQoLDA0ODw"}}"#,
            ),
            (
                "000400000000000000faffffffff01000001a2284090d900",
                r#"{"version":4,"data":{"offset":250,"leaderEpoch":-1,"metadata":"","commitTimestamp":1795971649753}}"#,
            ),
        ] {
            let group_key = GroupKey::decode(Some(&bytes(KEY))).expect("a key");
            let value = CommitValue::decode(Some(&bytes(value))).expect("a commit");
            let expected = format!(
                "{{\"key\":{{\"type\":1,\"data\":{{\"group\":\"g-ord\\\"\\\\\\n\\u0001\u{e9}\u{2028}/\",\
                 \"topic\":\"orders\",\"partition\":3}}}},\"value\":{printed}}}"
            );
            assert_eq!(text(&Printed { key: key(&group_key), value: commit(&value) }), expected);
        }
    }

    #[test]
    fn groups_print_as_kafkas_formatter_prints_them() {
        let member = r#""clientId":"c","clientHost":"/127.0.0.1""#;
        let rest = r#""sessionTimeout":45000,"subscription":"AAEC/w==","assignment":"""#;
        for (value, printed) in [
            (
                "00000008636f6e73756d657200000004000572616e676500036d2d310000000100036d2d31000163000a2f3132372e302e302e310000afc800000004000102ff00000000",
                format!(
                    r#"{{"version":0,"data":{{"protocolType":"consumer","generation":4,"protocol":"range","leader":"m-1","members":[{{"memberId":"m-1",{member},{rest}}}]}}}}"#
                ),
            ),
            (
                "00030008636f6e73756d657200000004ffffffff000001a2284090d90000000100036d2d31ffff000163000a2f3132372e302e302e31000493e00000afc800000004000102ff00000000",
                format!(
                    r#"{{"version":3,"data":{{"protocolType":"consumer","generation":4,"protocol":null,"leader":null,"currentStateTimestamp":1795971649753,"members":[{{"memberId":"m-1","groupInstanceId":null,{member},"rebalanceTimeout":300000,{rest}}}]}}}}"#
                ),
            ),
            (
                "000409636f6e73756d6572000000040672616e6765046d2d31000001a2284090d902046d2d3104692d3102630b2f3132372e302e302e31000493e00000afc805000102ff010000",
                format!(
                    r#"{{"version":4,"data":{{"protocolType":"consumer","generation":4,"protocol":"range","leader":"m-1","currentStateTimestamp":1795971649753,"members":[{{"memberId":"m-1","groupInstanceId":"i-1",{member},"rebalanceTimeout":300000,{rest}}}]}}}}"#
                ),
            ),
        ] {
            let group_key = GroupKey::decode(Some(&bytes("0002000167"))).expect("a key");
            let value = ClassicGroup::decode(Some(&bytes(value))).expect("a group");
            let expected =
                format!(r#"{{"key":{{"type":2,"data":{{"group":"g"}}}},"value":{printed}}}"#);
            assert_eq!(text(&Printed { key: key(&group_key), value: classic(&value) }), expected);
        }
    }

    #[test]
    fn tombstones_and_legacy_keys_print_as_kafkas_formatter_prints_them() {
        let legacy = GroupKey::decode(Some(&bytes("000000016700017400000002"))).expect("a key");
        assert_eq!(
            text(&Printed { key: key(&legacy), value: Value::Null }),
            r#"{"key":{"type":0,"data":{"group":"g","topic":"t","partition":2}},"value":null}"#
        );
    }

    #[test]
    fn control_characters_are_escaped_as_jackson_escapes_them() {
        assert_eq!(
            text(&"\u{1f}\u{0}\u{7f}\t\u{8}\u{c}\r/"),
            "\"\\u001F\\u0000\u{7f}\\t\\b\\f\\r/\""
        );
    }

    #[test]
    fn base64_is_that_of_the_rfc() {
        // RFC 4648, section 10.
        for (plain, encoded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(plain.as_bytes(), STANDARD, true), encoded);
        }
        assert_eq!(base64(&[0xfb, 0xff], STANDARD, true), "+/8=");
        assert_eq!(base64(&[0xfb, 0xff], URL, false), "-_8");
    }
}
