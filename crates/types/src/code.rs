//! States and finding codes: what `status`, `explain`, `doctor`, metrics and logs say.

use std::fmt;

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum $name { $($(#[$vdoc])* $variant,)* }

        impl $name {
            /// Every value, in the order of their declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The word that output uses.
            pub fn word(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }

            /// The value whose word this is.
            pub fn from_word(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)* _ => None }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.word())
            }
        }
    };
}

words! {
    /// How something that is mirrored stands.
    State {
        /// Everything that exists on the source is on the target.
        InSync = "in-sync",
        /// Copying, and not there yet.
        CatchingUp = "catching-up",
        /// Something else must happen first; the reason says what.
        Waiting = "waiting",
        /// An operator paused it.
        Paused = "paused",
        /// It will not go on by itself.
        Stopped = "stopped",
        /// The configuration leaves it out.
        Excluded = "excluded",
        /// It could not be found out.
        Unknown = "unknown",
        /// The cluster cannot be reached; connecting goes on.
        Unreachable = "unreachable",
    }
}

words! {
    /// How bad a finding is for a failover.
    Severity {
        /// A failover now would skip, lose, double or needlessly re-read records, or leave a group
        /// without a position.
        Error = "error",
        /// It will or may, later, or the target's own members explain it.
        Warning = "warning",
        /// Worth knowing.
        Info = "info",
    }
}

words! {
    /// A diagnosed fact that an operator can look up.
    Code {
        /// Checkpoints are written but group offsets are not (`sync.group.offsets.enabled=false`).
        SyncDisabled = "sync-disabled",
        /// Checkpoints are switched off.
        CheckpointsDisabled = "checkpoints-disabled",
        /// MM2's checkpoint connector does not exist.
        CheckpointConnectorAbsent = "checkpoint-connector-absent",
        /// MM2's checkpoint connector has no tasks.
        CheckpointConnectorNoTasks = "checkpoint-connector-no-tasks",
        /// A connector or task of MM2 has failed.
        ConnectorFailed = "connector-failed",
        /// Nothing copies this flow.
        MirrorNotRunning = "mirror-not-running",
        /// MM2 cannot apply a changed configuration.
        MirrorCannotReconfigure = "mirror-cannot-reconfigure",
        /// A key that nobody reads.
        UnknownProperty = "unknown-property",
        /// What runs is not what the file says.
        ConfigDrift = "config-drift",
        /// Two places state different naming policies.
        PolicyMismatch = "policy-mismatch",
        /// No topic or no group matches the filters.
        NothingMatches = "nothing-matches",
        /// A cluster or broker cannot be reached.
        Unreachable = "unreachable",
        /// A broker is too old or too new.
        UnsupportedVersion = "unsupported-version",
        /// A right is missing.
        MissingPermission = "missing-permission",
        /// A fixed bug of an old MM2 left its trace.
        Mm2KnownBug = "mm2-known-bug",
        /// Both aliases are one cluster.
        SameCluster = "same-cluster",
        /// An alias is another cluster than before.
        ClusterReplaced = "cluster-replaced",
        /// Connect would change the records.
        ConverterChangesRecords = "converter-changes-records",
        /// Another `twinlog run` owns this flow; this one stands by.
        OwnedElsewhere = "owned-elsewhere",
        /// MM2 still copies this flow; nothing is written beside it.
        Mm2StillRuns = "mm2-still-runs",
        /// A record of the durable state cannot be read.
        StateCorrupt = "state-corrupt",

        /// The topic matches no filter.
        TopicNotMirrored = "topic-not-mirrored",
        /// The topic is newer than the last look.
        TopicNotYetDiscovered = "topic-not-yet-discovered",
        /// The target topic does not exist.
        TopicMissingOnTarget = "topic-missing-on-target",
        /// The source topic is gone.
        SourceTopicDeleted = "source-topic-deleted",
        /// The target topic has fewer (or more) partitions.
        PartitionCountDiffers = "partition-count-differs",
        /// Two sources would be copied into one target topic.
        NamesCollide = "names-collide",
        /// Records would come back to where they came from.
        ReplicationLoop = "replication-loop",
        /// The target refuses a config of a mirrored topic; the topic goes without it.
        ConfigRefused = "config-refused",

        /// Records vanished on the source before they were copied.
        SourceGap = "source-gap",
        /// The source topic was deleted and made again.
        TopicRecreated = "topic-recreated",
        /// The target topic was deleted and made again.
        TargetRecreated = "target-recreated",
        /// The target lost records that it had acknowledged.
        TargetTruncated = "target-truncated",
        /// A record is larger than the target allows.
        RecordTooLarge = "record-too-large",
        /// The target refuses a record.
        RefusedByTarget = "refused-by-target",
        /// The target refuses a record's timestamp.
        TimestampRefused = "timestamp-refused",
        /// The source lost records after they were read (unclean election, restored disk).
        SourceTruncated = "source-truncated",
        /// A batch of the source fails its checksum or cannot be decoded.
        CorruptBatch = "corrupt-batch",
        /// An open transaction on the source holds the last stable offset.
        OpenTransaction = "open-transaction",
        /// An operator paused the copy.
        Paused = "paused",
        /// No progress although there is work.
        Stalled = "stalled",
        /// A quota of a cluster slows the copy.
        Throttled = "throttled",
        /// The target has forgotten our producer: only compare-and-append protects.
        NotFenced = "not-fenced",
        /// Somebody else writes into the mirror.
        ForeignWriter = "foreign-writer",
        /// The target topic holds records that no state explains.
        TargetNotEmpty = "target-not-empty",
        /// Records are on the target twice.
        DuplicatesOnTarget = "duplicates-on-target",
        /// Aborted records became ordinary records on the target.
        AbortedRecordsCopied = "aborted-records-copied",
        /// A memory limit holds the copy back.
        MemoryLimited = "memory-limited",
        /// The last copied record and its original differ.
        ContentsDiffer = "contents-differ",

        /// The group has live members on the target.
        GroupLiveOnTarget = "group-live-on-target",
        /// A pattern excludes the group.
        GroupExcluded = "group-excluded",
        /// No pattern includes the group.
        GroupNotIncluded = "group-not-included",
        /// The group is newer than the last look.
        GroupNotYetDiscovered = "group-not-yet-discovered",
        /// The group has not committed here.
        GroupWithoutCommits = "group-without-commits",
        /// Two flows would write one group on one topic name.
        BothDirectionsSync = "both-directions-sync",
        /// A transaction's offsets are there and its output is not.
        TornTransaction = "torn-transaction",
        /// The target expired the group's offsets.
        OffsetsExpired = "offsets-expired",
        /// A commit carries a leader epoch that the target does not have.
        LeaderEpochAhead = "leader-epoch-ahead",
        /// The target refused the commit.
        CommitRefused = "commit-refused",

        /// Nothing of the partition was copied yet.
        NothingCopied = "nothing-copied",
        /// The offset-syncs topic cannot be read.
        OffsetSyncsUnreadable = "offset-syncs-unreadable",
        /// Writer and reader look for offset-syncs on different clusters.
        OffsetSyncsLocationMismatch = "offset-syncs-location-mismatch",
        /// The position is older than any kept sync.
        TranslationFrozen = "translation-frozen",
        /// The translation would re-read records.
        TranslationCoarse = "translation-coarse",
        /// Part of the group's backlog is not on the target.
        BacklogNotOnTarget = "backlog-not-on-target",
        /// The map is being read.
        MapLoading = "map-loading",
        /// Committed past the end of the target.
        NegativeLag = "negative-lag",
        /// The checkpoint is old.
        StaleCheckpoint = "stale-checkpoint",
        /// The target's group stands ahead of the source's.
        TargetAhead = "target-ahead",
        /// The source group was moved back, the target still stands ahead.
        SourceRewound = "source-rewound",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_found_by_its_word() {
        for &code in Code::ALL {
            assert_eq!(Code::from_word(code.word()), Some(code));
        }
        for &state in State::ALL {
            assert_eq!(State::from_word(state.word()), Some(state));
        }
    }
}
