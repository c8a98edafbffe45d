//! The records that Kafka's group coordinators keep in `__consumer_offsets`: keys of every kind,
//! values of commits and of classic groups.
//!
//! Does not: read the values of the other kinds (members and assignments of groups of the newer
//! protocols), write anything, decide which commit counts.
//!
//! A key begins with its kind, a value with its version. Values are flexible (KIP-482) from
//! version 4 on. What lies behind the last field is ignored, as Kafka ignores it.
//!
//! References: `CoordinatorRecordType`, and the schemas below
//! `group-coordinator/src/main/resources/common/message` of Apache Kafka 4.3.0.

use bytes::Buf;
use twinlog_types::{GroupId, Partition, TopicId, TopicName};

use super::{Fields, FormatError, key_fields, value_fields};

/// What errors call these records.
const RECORD: &str = "group log";
const COMMIT: &str = "offset commit";
const CLASSIC: &str = "group metadata";

/// Commits as Kafka before 0.9 wrote their keys.
pub const LEGACY_COMMIT: i16 = 0;
/// Commits.
pub const OFFSET_COMMIT: i16 = 1;
/// Groups of the classic protocol.
pub const CLASSIC_GROUP: i16 = 2;

/// The newest version of commits and of classic groups.
const NEWEST: i16 = 4;
/// The first version with compact strings and tagged fields.
const FIRST_FLEXIBLE: i16 = 4;

/// What names a record beside its group.
#[derive(Clone, Copy)]
enum Shape {
    Partition,
    Group,
    Member,
    Pattern,
}

/// Every kind of key, by its number, with Kafka's name of it.
const KINDS: [(i16, &str, Shape); 22] = [
    (0, "legacy-offset-commit", Shape::Partition),
    (1, "offset-commit", Shape::Partition),
    (2, "group-metadata", Shape::Group),
    (3, "consumer-group-metadata", Shape::Group),
    (4, "consumer-group-partition-metadata", Shape::Group),
    (5, "consumer-group-member-metadata", Shape::Member),
    (6, "consumer-group-target-assignment-metadata", Shape::Group),
    (7, "consumer-group-target-assignment-member", Shape::Member),
    (8, "consumer-group-current-member-assignment", Shape::Member),
    (10, "share-group-member-metadata", Shape::Member),
    (11, "share-group-metadata", Shape::Group),
    (12, "share-group-target-assignment-metadata", Shape::Group),
    (13, "share-group-target-assignment-member", Shape::Member),
    (14, "share-group-current-member-assignment", Shape::Member),
    (15, "share-group-state-partition-metadata", Shape::Group),
    (16, "consumer-group-regular-expression", Shape::Pattern),
    (17, "streams-group-metadata", Shape::Group),
    (19, "streams-group-member-metadata", Shape::Member),
    (20, "streams-group-target-assignment-metadata", Shape::Group),
    (21, "streams-group-target-assignment-member", Shape::Member),
    (22, "streams-group-current-member-assignment", Shape::Member),
    (23, "streams-group-topology", Shape::Group),
];

/// What a record is about, within its group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Subject {
    /// The group as a whole.
    Group,
    /// Its position in a partition.
    Partition(TopicName, Partition),
    /// One of its members.
    Member(String),
    /// A regular expression that a member subscribed to.
    Pattern(String),
}

/// The key of a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupKey {
    /// The number of its kind.
    pub kind: i16,
    /// Kafka's name of the kind.
    pub name: &'static str,
    /// The group.
    pub group: GroupId,
    /// What it is about.
    pub subject: Subject,
}

impl GroupKey {
    /// Reads a key.
    ///
    /// # Errors
    ///
    /// [`FormatError::Kind`] for a kind that Kafka 4.3 does not have.
    pub fn decode(key: Option<&[u8]>) -> Result<Self, FormatError> {
        let mut key = key_fields(RECORD, key)?;
        let kind = key.i16("kind")?;
        let known = KINDS.iter().find(|(number, ..)| *number == kind);
        let &(kind, name, shape) = known.ok_or(FormatError::Kind { record: RECORD, kind })?;
        let group = key.string("group")?.into();
        let subject = match shape {
            Shape::Group => Subject::Group,
            Shape::Partition => {
                Subject::Partition(key.string("topic")?.into(), key.i32("partition")?)
            }
            Shape::Member => Subject::Member(key.string("memberId")?),
            Shape::Pattern => Subject::Pattern(key.string("regularExpression")?),
        };
        Ok(Self { kind, name, group, subject })
    }
}

/// A committed position.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CommitValue {
    /// The version it was written in.
    pub version: i16,
    /// The next offset to read.
    pub offset: i64,
    /// The leader epoch of the record before; since version 3, -1 where none was given.
    pub leader_epoch: Option<i32>,
    /// What the application committed with it.
    pub metadata: String,
    /// When it was committed, in milliseconds since 1970.
    pub committed_ms: i64,
    /// When it expires; in version 1 alone.
    pub expires_ms: Option<i64>,
    /// The topic's id; since version 4, where it was known.
    pub topic_id: Option<TopicId>,
}

impl CommitValue {
    /// Reads a value of [`OFFSET_COMMIT`] or [`LEGACY_COMMIT`].
    ///
    /// # Errors
    ///
    /// [`FormatError::NoValue`] for a tombstone.
    pub fn decode(value: Option<&[u8]>) -> Result<Self, FormatError> {
        let mut value = value_fields(COMMIT, value)?;
        let version = value.known_version()?;
        let flexible = version >= FIRST_FLEXIBLE;
        let mut commit = Self {
            version,
            offset: value.i64("offset")?,
            leader_epoch: if version >= 3 { Some(value.i32("leaderEpoch")?) } else { None },
            metadata: value.either(flexible, "metadata")?,
            committed_ms: value.i64("commitTimestamp")?,
            expires_ms: if version == 1 { Some(value.i64("expireTimestamp")?) } else { None },
            topic_id: None,
        };
        if flexible {
            value.tagged(|tag, content| {
                if tag == 0 {
                    commit.topic_id = content.try_into().ok().map(TopicId);
                }
            })?;
        }
        Ok(commit)
    }
}

/// What a record says of a group's position in a partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CommitChange {
    /// The group.
    pub group: GroupId,
    /// The topic.
    pub topic: TopicName,
    /// The partition.
    pub partition: Partition,
    /// What is committed from now on; `None`: nothing any more (it expired or was deleted).
    pub commit: Option<CommitValue>,
}

impl CommitChange {
    /// Reads a record; `None` for one that is about something else, kinds that are not known
    /// included.
    ///
    /// # Errors
    ///
    /// For a commit that cannot be read, of a newer version for one.
    pub fn decode(key: Option<&[u8]>, value: Option<&[u8]>) -> Result<Option<Self>, FormatError> {
        // Most records of a busy cluster are about members: only the kind of those is looked at.
        let kind = key_fields(RECORD, key)?.i16("kind")?;
        if kind != OFFSET_COMMIT && kind != LEGACY_COMMIT {
            return Ok(None);
        }
        let GroupKey { group, subject, .. } = GroupKey::decode(key)?;
        let Subject::Partition(topic, partition) = subject else { return Ok(None) };
        let commit = match value {
            None => None,
            value => Some(CommitValue::decode(value)?),
        };
        Ok(Some(Self { group, topic, partition, commit }))
    }
}

/// Which of the `partitions` of the log holds the records of a group: Java's hash of its name
/// (`GroupMetadataManager.partitionFor`). `None` where there are no partitions.
pub fn partition_of(group: &GroupId, partitions: i32) -> Option<Partition> {
    let units = group.as_str().encode_utf16();
    let hash = units.fold(0_i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(unit.into()));
    // Kafka's Utils.abs: the sign is cut off, as Java's Math.abs(MIN_VALUE) is negative.
    (hash & i32::MAX).checked_rem(partitions)
}

/// A group of the classic protocol.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClassicGroup {
    /// The version it was written in.
    pub version: i16,
    /// `consumer`, `connect`, …; empty for a group that only ever committed.
    pub protocol_type: String,
    /// How often it was rebalanced.
    pub generation: i32,
    /// The assignor; none while there are no members.
    pub protocol: Option<String>,
    /// The member that assigns.
    pub leader: Option<String>,
    /// When it came into its state, in milliseconds since 1970; since version 2.
    pub since_ms: Option<i64>,
    /// Its members.
    pub members: Vec<ClassicMember>,
}

/// A member of a group of the classic protocol.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClassicMember {
    /// Its id.
    pub id: String,
    /// `group.instance.id`, where it has one; not said before version 3.
    pub instance: Option<String>,
    /// `client.id`.
    pub client_id: String,
    /// Where it connects from.
    pub client_host: String,
    /// How long it may take to rejoin, in milliseconds; since version 1.
    pub rebalance_timeout_ms: Option<i32>,
    /// How long it may be silent, in milliseconds.
    pub session_timeout_ms: i32,
    /// What it subscribed to, in the assignor's form.
    pub subscription: Vec<u8>,
    /// What it was assigned, in the assignor's form.
    pub assignment: Vec<u8>,
}

impl ClassicGroup {
    /// Reads a value of [`CLASSIC_GROUP`].
    ///
    /// # Errors
    ///
    /// [`FormatError::NoValue`] for a tombstone.
    pub fn decode(value: Option<&[u8]>) -> Result<Self, FormatError> {
        let mut value = value_fields(CLASSIC, value)?;
        let version = value.known_version()?;
        let flexible = version >= FIRST_FLEXIBLE;
        let mut group = Self {
            version,
            protocol_type: value.either(flexible, "protocolType")?,
            generation: value.i32("generation")?,
            protocol: value.nullable(flexible, "protocol")?,
            leader: value.nullable(flexible, "leader")?,
            since_ms: if version >= 2 { Some(value.i64("currentStateTimestamp")?) } else { None },
            members: Vec::new(),
        };
        // Grows as members are read: a count that lies costs nothing.
        for _ in 0..value.count(flexible, "members")? {
            group.members.push(ClassicMember::read(&mut value, version)?);
        }
        if flexible {
            value.tagged(|_, _| {})?;
        }
        Ok(group)
    }
}

impl ClassicMember {
    fn read(value: &mut Fields<'_>, version: i16) -> Result<Self, FormatError> {
        let flexible = version >= FIRST_FLEXIBLE;
        let member = Self {
            id: value.either(flexible, "memberId")?,
            instance: if version >= 3 {
                value.nullable(flexible, "groupInstanceId")?
            } else {
                None
            },
            client_id: value.either(flexible, "clientId")?,
            client_host: value.either(flexible, "clientHost")?,
            rebalance_timeout_ms: if version >= 1 {
                Some(value.i32("rebalanceTimeout")?)
            } else {
                None
            },
            session_timeout_ms: value.i32("sessionTimeout")?,
            subscription: value.bytes(flexible, "subscription")?,
            assignment: value.bytes(flexible, "assignment")?,
        };
        if flexible {
            value.tagged(|_, _| {})?;
        }
        Ok(member)
    }
}

impl Fields<'_> {
    pub(super) fn i16(&mut self, field: &'static str) -> Result<i16, FormatError> {
        self.bytes.try_get_i16().map_err(|_| self.short(field))
    }

    fn known_version(&mut self) -> Result<i16, FormatError> {
        let version = self.i16("version")?;
        if (0..=NEWEST).contains(&version) {
            return Ok(version);
        }
        Err(FormatError::Version { record: self.record, version, newest: NEWEST })
    }

    /// A varint of at most 32 bits.
    fn unsigned(&mut self, field: &'static str) -> Result<u32, FormatError> {
        let mut value = 0;
        for shift in (0..35).step_by(7) {
            let byte = self.bytes.try_get_u8().map_err(|_| self.short(field))?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return u32::try_from(value).map_err(|_| self.short(field));
            }
        }
        Err(self.short(field))
    }

    /// A length: compact ones count from 1, and 0 is null.
    fn length(
        &mut self,
        flexible: bool,
        field: &'static str,
        plain: impl FnOnce(&mut Self) -> Result<i32, FormatError>,
    ) -> Result<Option<usize>, FormatError> {
        if flexible {
            return Ok(self.unsigned(field)?.checked_sub(1).map(|length| length as usize));
        }
        Ok(usize::try_from(plain(self)?).ok())
    }

    fn nullable(
        &mut self,
        flexible: bool,
        field: &'static str,
    ) -> Result<Option<String>, FormatError> {
        let length = self.length(flexible, field, |it| it.i16(field).map(i32::from))?;
        length.map(|length| self.text(length, field)).transpose()
    }

    fn either(&mut self, flexible: bool, field: &'static str) -> Result<String, FormatError> {
        self.nullable(flexible, field)?.ok_or_else(|| self.not_a_string(field))
    }

    fn bytes(&mut self, flexible: bool, field: &'static str) -> Result<Vec<u8>, FormatError> {
        let length = self.length(flexible, field, |it| it.i32(field))?;
        let length = length.ok_or_else(|| self.short(field))?;
        self.take(length, field).map(<[u8]>::to_vec)
    }

    fn count(&mut self, flexible: bool, field: &'static str) -> Result<usize, FormatError> {
        self.length(flexible, field, |it| it.i32(field))?.ok_or_else(|| self.short(field))
    }

    fn tagged(&mut self, mut each: impl FnMut(u32, &[u8])) -> Result<(), FormatError> {
        let field = "tagged fields";
        for _ in 0..self.unsigned(field)? {
            let tag = self.unsigned(field)?;
            let length = self.unsigned(field)? as usize;
            each(tag, self.take(length, field)?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex");
        (0..hex.len()).step_by(2).map(digit).collect()
    }

    fn commit(hex: &str) -> CommitValue {
        CommitValue::decode(Some(&bytes(hex))).expect("readable")
    }

    fn group(hex: &str) -> ClassicGroup {
        ClassicGroup::decode(Some(&bytes(hex))).expect("readable")
    }

    // The bytes are what the generated classes of Apache Kafka 4.3.0 write in each version.

    const COMMITS: [&str; 6] = [
        "000000000000000000fa00066d6574612d31000001a2284090d9",
        "000100000000000000fa00066d6574612d31000001a2284090d9000001a2284091cf",
        "000200000000000000fa00066d6574612d31000001a2284090d9",
        "000300000000000000fa0000000500066d6574612d31000001a2284090d9",
        "000400000000000000fa00000005076d6574612d31000001a2284090d9010010000102030405060708090a0b0c0d0e0f",
        "000400000000000000faffffffff01000001a2284090d900",
    ];

    const GROUPS: [&str; 7] = [
        "00000008636f6e73756d657200000004000572616e676500036d2d310000000100036d2d31000163000a2f3132372e302e302e310000afc800000004000102ff00000000",
        "00010008636f6e73756d657200000004000572616e676500036d2d310000000100036d2d31000163000a2f3132372e302e302e31000493e00000afc800000004000102ff00000000",
        "00020008636f6e73756d657200000004000572616e676500036d2d31000001a2284090d90000000100036d2d31000163000a2f3132372e302e302e31000493e00000afc800000004000102ff00000000",
        "00030008636f6e73756d657200000004000572616e676500036d2d31000001a2284090d90000000100036d2d310003692d31000163000a2f3132372e302e302e31000493e00000afc800000004000102ff00000000",
        "00030008636f6e73756d657200000004ffffffff000001a2284090d90000000100036d2d31ffff000163000a2f3132372e302e302e31000493e00000afc800000004000102ff00000000",
        "000409636f6e73756d6572000000040672616e6765046d2d31000001a2284090d902046d2d3104692d3102630b2f3132372e302e302e31000493e00000afc805000102ff010000",
        "000409636f6e73756d6572000000040000000001a2284090d902046d2d310002630b2f3132372e302e302e31000493e00000afc805000102ff010000",
    ];

    #[test]
    fn a_change_is_a_commit_or_its_end_and_other_records_are_none() {
        // Kind 1 (and 0), group "g", topic "t", partition 3.
        for kind in ["0001", "0000"] {
            let key = bytes(&format!("{kind}0001670001740000000 3").replace(' ', ""));
            let change = CommitChange::decode(Some(&key), Some(&bytes(COMMITS[4]))).unwrap();
            let change = change.expect("a commit");
            assert_eq!((change.group.as_str(), change.topic.as_str()), ("g", "t"));
            assert_eq!(change.partition, 3);
            assert_eq!(change.commit.map(|commit| commit.offset), Some(250));
            let end = CommitChange::decode(Some(&key), None).unwrap().expect("its end");
            assert_eq!(end.commit, None);
            // A value of a version that is not known is no end.
            assert!(CommitChange::decode(Some(&key), Some(&bytes("0005"))).is_err());
        }
        for kind in 2..30_u16 {
            let key = [&kind.to_be_bytes()[..], b"whatever"].concat();
            assert_eq!(CommitChange::decode(Some(&key), Some(&[])), Ok(None), "{kind}");
        }
        assert!(CommitChange::decode(None, None).is_err());
    }

    #[test]
    fn a_group_lives_in_the_partition_that_java_computes() {
        // "orders-app".hashCode() and so on, as jshell prints them; the last is MIN_VALUE.
        let of = |group: &str| partition_of(&group.into(), 50);
        assert_eq!(of(""), Some(0));
        assert_eq!(of("a"), Some(97 % 50));
        assert_eq!(of("hello"), Some(99_162_322 % 50));
        assert_eq!(of("polygenelubricants"), Some(0));
        assert_eq!(partition_of(&"a".into(), 0), None);
    }

    #[test]
    fn commits_of_every_version_are_read() {
        let newest = CommitValue {
            version: 4,
            offset: 250,
            leader_epoch: Some(5),
            metadata: "meta-1".into(),
            committed_ms: 1_795_971_649_753,
            expires_ms: None,
            topic_id: Some(TopicId(std::array::from_fn(|at| at as u8))),
        };
        assert_eq!(commit(COMMITS[4]), newest);
        let third = CommitValue { version: 3, topic_id: None, ..newest };
        assert_eq!(commit(COMMITS[3]), third);
        for version in [0, 2] {
            let older = CommitValue { version, leader_epoch: None, ..third.clone() };
            assert_eq!(commit(COMMITS[version as usize]), older);
        }
        let expires_ms = Some(1_795_971_649_999);
        let first = CommitValue { version: 1, leader_epoch: None, expires_ms, ..third.clone() };
        assert_eq!(commit(COMMITS[1]), first);
        let bare =
            CommitValue { version: 4, leader_epoch: Some(-1), metadata: String::new(), ..third };
        assert_eq!(commit(COMMITS[5]), bare);
    }

    #[test]
    fn classic_groups_of_every_version_are_read() {
        let member = ClassicMember {
            id: "m-1".into(),
            instance: Some("i-1".into()),
            client_id: "c".into(),
            client_host: "/127.0.0.1".into(),
            rebalance_timeout_ms: Some(300_000),
            session_timeout_ms: 45_000,
            subscription: vec![0, 1, 2, 255],
            assignment: Vec::new(),
        };
        let newest = ClassicGroup {
            version: 4,
            protocol_type: "consumer".into(),
            generation: 4,
            protocol: Some("range".into()),
            leader: Some("m-1".into()),
            since_ms: Some(1_795_971_649_753),
            members: vec![member.clone()],
        };
        assert_eq!(group(GROUPS[5]), newest);
        let third = ClassicGroup { version: 3, ..newest.clone() };
        assert_eq!(group(GROUPS[3]), third);
        for (at, version) in [(4, 3), (6, 4)] {
            let members = vec![ClassicMember { instance: None, ..member.clone() }];
            let (protocol, leader) = (None, None);
            let bare = ClassicGroup { version, protocol, leader, members, ..newest.clone() };
            assert_eq!(group(GROUPS[at]), bare);
        }
        let members = vec![ClassicMember { instance: None, ..member.clone() }];
        let second = ClassicGroup { version: 2, members, ..third };
        assert_eq!(group(GROUPS[2]), second);
        let first = ClassicGroup { version: 1, since_ms: None, ..second };
        assert_eq!(group(GROUPS[1]), first);
        let members = vec![ClassicMember { instance: None, rebalance_timeout_ms: None, ..member }];
        assert_eq!(group(GROUPS[0]), ClassicGroup { version: 0, members, ..first });
    }

    #[test]
    fn keys_name_their_kind_group_and_subject() {
        let key = |hex: &str| GroupKey::decode(Some(&bytes(hex)));
        let commit =
            key("0001000f672d6f7264225c0a01c3a9e280a82f00066f726465727300000003").expect("a key");
        assert_eq!((commit.kind, commit.name), (OFFSET_COMMIT, "offset-commit"));
        assert_eq!(commit.group.as_str(), "g-ord\"\\\n\u{1}\u{e9}\u{2028}/");
        assert_eq!(commit.subject, Subject::Partition("orders".into(), 3));
        let group = key("0002000167").expect("a key");
        assert_eq!((group.kind, group.subject), (CLASSIC_GROUP, Subject::Group));
        let member = key("000500016700036d2d31").expect("a key");
        assert_eq!(member.subject, Subject::Member("m-1".into()));
        let pattern = key("001000016700036f2e2a").expect("a key");
        assert_eq!(pattern.subject, Subject::Pattern("o.*".into()));
        assert_eq!(key("006301"), Err(FormatError::Kind { record: RECORD, kind: 99 }));
        assert_eq!(GroupKey::decode(None), Err(FormatError::NoKey { record: RECORD }));
    }

    #[test]
    fn versions_that_are_not_known_are_named() {
        let version = |record, version| FormatError::Version { record, version, newest: 4 };
        assert_eq!(CommitValue::decode(Some(&[0, 5, 1])), Err(version(COMMIT, 5)));
        assert_eq!(ClassicGroup::decode(Some(&[255, 255])), Err(version(CLASSIC, -1)));
        assert_eq!(CommitValue::decode(None), Err(FormatError::NoValue { record: COMMIT }));
    }

    #[test]
    fn every_cut_of_a_value_is_an_error() {
        for hex in COMMITS {
            let whole = bytes(hex);
            for end in 0..whole.len() {
                assert!(CommitValue::decode(Some(&whole[..end])).is_err(), "{hex} to {end}");
            }
        }
        for hex in GROUPS {
            let whole = bytes(hex);
            for end in 0..whole.len() {
                assert!(ClassicGroup::decode(Some(&whole[..end])).is_err(), "{hex} to {end}");
            }
        }
    }

    #[test]
    fn counts_that_lie_are_refused_without_memory_for_them() {
        // Two billion members in a value of a few bytes.
        let hostile = bytes("00000008636f6e73756d657200000004ffffffff7fffffff");
        assert!(ClassicGroup::decode(Some(&hostile)).is_err());
        let compact = bytes("000409636f6e73756d65720000000400000000000000000000ffffffff0f");
        assert!(ClassicGroup::decode(Some(&compact)).is_err());
    }
}
