//! Kafka's error codes: one table of names and of what to do about each.

use std::fmt;

/// An error code of an answer, as it was sent. Unknown codes are kept.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ErrorCode(pub i16);

/// What to do about an error code.
///
/// It says where and whether a request may be repeated, not whether its first attempt took effect.
/// For Produce that is a question of its own: codes 6, 7, 19 and 20 answer batches that may be
/// stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Remedy {
    /// Success: nothing.
    None,
    /// The same request to the same broker, after a pause.
    Retry,
    /// Fresh metadata, then the same request to whoever leads now.
    Refresh,
    /// Find the coordinator again, then the same request to it.
    Reroute,
    /// Report it; this input fails again however often it is sent.
    Refuse,
    /// Stop: somebody else owns what we were writing, or this is not our cluster.
    Fatal,
}

macro_rules! codes {
    ($($code:literal $name:ident $remedy:ident;)*) => {
        impl ErrorCode {
            $(
                #[doc = concat!("Code ", $code, ".")]
                pub const $name: Self = Self($code);
            )*

            /// Every code that Kafka names, ascending.
            pub const NAMED: &'static [Self] = &[$(Self($code)),*];

            /// Kafka's name of the code; `UNNAMED` for a code newer than the table.
            pub const fn name(self) -> &'static str {
                match self.0 {
                    $($code => stringify!($name),)*
                    _ => "UNNAMED",
                }
            }

            /// What to do about the code. A code newer than the table is refused: what is not
            /// understood is not repeated.
            pub const fn remedy(self) -> Remedy {
                match self.0 {
                    $($code => Remedy::$remedy,)*
                    _ => Remedy::Refuse,
                }
            }
        }
    };
}

// The codes of Kafka 4.3. Remarks say what experiments on brokers 3.9.1 and 4.3.0
// taught about a code, or what the caller has to change before the request can succeed.
codes! {
    // An exception inside the broker, brought about by the request: a second one does no better:
    -1 UNKNOWN_SERVER_ERROR Refuse;
    0 NONE None;
    1 OFFSET_OUT_OF_RANGE Refuse; // never reset on our own: what is lost is accounted for first
    // Damaged on the way, as far as the broker can tell; our own CRC was right when it left:
    2 CORRUPT_MESSAGE Retry;
    // Also the answer just after a topic was created, and during a move:
    3 UNKNOWN_TOPIC_OR_PARTITION Refresh;
    4 INVALID_FETCH_SIZE Refuse;
    5 LEADER_NOT_AVAILABLE Refresh; // an election is going on
    // After a move; with a base offset beside it the batch was appended:
    6 NOT_LEADER_OR_FOLLOWER Refresh;
    7 REQUEST_TIMED_OUT Retry; // not a refusal: the batch may be appended already
    8 BROKER_NOT_AVAILABLE Refresh;
    9 REPLICA_NOT_AVAILABLE Refresh;
    10 MESSAGE_TOO_LARGE Refuse; // split or report
    11 STALE_CONTROLLER_EPOCH Refuse;
    12 OFFSET_METADATA_TOO_LARGE Refuse;
    13 NETWORK_EXCEPTION Refresh;
    14 COORDINATOR_LOAD_IN_PROGRESS Retry; // a coordinator that is loading answers within seconds
    15 COORDINATOR_NOT_AVAILABLE Reroute; // none chosen yet, or it is dead: ask again
    16 NOT_COORDINATOR Reroute; // it moved
    17 INVALID_TOPIC_EXCEPTION Refuse;
    18 RECORD_LIST_TOO_LARGE Refuse;
    19 NOT_ENOUGH_REPLICAS Retry; // a refusal, but it also answers a retransmit of what is stored
    20 NOT_ENOUGH_REPLICAS_AFTER_APPEND Retry; // appended, not replicated enough
    21 INVALID_REQUIRED_ACKS Refuse;
    22 ILLEGAL_GENERATION Refuse; // not a member any more: join first
    23 INCONSISTENT_GROUP_PROTOCOL Refuse;
    24 INVALID_GROUP_ID Refuse;
    25 UNKNOWN_MEMBER_ID Refuse; // the group has live members, or we are none
    26 INVALID_SESSION_TIMEOUT Refuse;
    27 REBALANCE_IN_PROGRESS Refuse; // join first
    28 INVALID_COMMIT_OFFSET_SIZE Refuse;
    29 TOPIC_AUTHORIZATION_FAILED Refuse;
    30 GROUP_AUTHORIZATION_FAILED Refuse;
    31 CLUSTER_AUTHORIZATION_FAILED Refuse;
    32 INVALID_TIMESTAMP Refuse; // message.timestamp.before/after.max.ms of the target
    33 UNSUPPORTED_SASL_MECHANISM Refuse;
    34 ILLEGAL_SASL_STATE Refuse;
    35 UNSUPPORTED_VERSION Refuse;
    36 TOPIC_ALREADY_EXISTS Refuse;
    37 INVALID_PARTITIONS Refuse;
    38 INVALID_REPLICATION_FACTOR Refuse;
    39 INVALID_REPLICA_ASSIGNMENT Refuse;
    40 INVALID_CONFIG Refuse;
    41 NOT_CONTROLLER Refresh; // the controller moved
    42 INVALID_REQUEST Refuse;
    43 UNSUPPORTED_FOR_MESSAGE_FORMAT Refuse;
    44 POLICY_VIOLATION Refuse;
    45 OUT_OF_ORDER_SEQUENCE_NUMBER Refuse; // too old, overlapping, or a gap: look at the tail
    46 DUPLICATE_SEQUENCE_NUMBER Refuse; // stored already: look at the tail
    47 INVALID_PRODUCER_EPOCH Fatal; // fenced: another owner raised the epoch
    48 INVALID_TXN_STATE Refuse; // the transaction is to be aborted
    49 INVALID_PRODUCER_ID_MAPPING Refuse; // the transactional id expired: initialise it again
    50 INVALID_TRANSACTION_TIMEOUT Refuse;
    51 CONCURRENT_TRANSACTIONS Retry; // the transaction before is still being completed
    52 TRANSACTION_COORDINATOR_FENCED Refuse; // a marker with an older coordinator epoch
    53 TRANSACTIONAL_ID_AUTHORIZATION_FAILED Refuse;
    54 SECURITY_DISABLED Refuse;
    55 OPERATION_NOT_ATTEMPTED Retry; // another partition of the request failed first
    56 KAFKA_STORAGE_ERROR Refresh; // a disk failed, the leader will move
    57 LOG_DIR_NOT_FOUND Refuse;
    58 SASL_AUTHENTICATION_FAILED Refuse;
    59 UNKNOWN_PRODUCER_ID Refuse; // the producer state is gone: look at the tail
    60 REASSIGNMENT_IN_PROGRESS Retry; // until the reassignment is done
    61 DELEGATION_TOKEN_AUTH_DISABLED Refuse;
    62 DELEGATION_TOKEN_NOT_FOUND Refuse;
    63 DELEGATION_TOKEN_OWNER_MISMATCH Refuse;
    64 DELEGATION_TOKEN_REQUEST_NOT_ALLOWED Refuse;
    65 DELEGATION_TOKEN_AUTHORIZATION_FAILED Refuse;
    66 DELEGATION_TOKEN_EXPIRED Refuse;
    67 INVALID_PRINCIPAL_TYPE Refuse;
    68 NON_EMPTY_GROUP Refuse;
    69 GROUP_ID_NOT_FOUND Refuse;
    70 FETCH_SESSION_ID_NOT_FOUND Retry; // with a full fetch
    71 INVALID_FETCH_SESSION_EPOCH Retry; // with a full fetch
    72 LISTENER_NOT_FOUND Refresh;
    73 TOPIC_DELETION_DISABLED Refuse;
    74 FENCED_LEADER_EPOCH Refresh; // we know an older leader than the broker
    75 UNKNOWN_LEADER_EPOCH Refresh; // the broker knows an older leader than we
    76 UNSUPPORTED_COMPRESSION_TYPE Refuse;
    77 STALE_BROKER_EPOCH Refuse;
    78 OFFSET_NOT_AVAILABLE Refresh; // a new leader whose high watermark has not caught up
    79 MEMBER_ID_REQUIRED Refuse; // join again with the id of the answer
    80 PREFERRED_LEADER_NOT_AVAILABLE Refresh;
    81 GROUP_MAX_SIZE_REACHED Refuse;
    82 FENCED_INSTANCE_ID Fatal; // fenced: another process has the same group.instance.id
    83 ELIGIBLE_LEADERS_NOT_AVAILABLE Refresh;
    84 ELECTION_NOT_NEEDED Refuse; // nothing to do
    85 NO_REASSIGNMENT_IN_PROGRESS Refuse;
    86 GROUP_SUBSCRIBED_TO_TOPIC Refuse;
    87 INVALID_RECORD Refuse; // the batch breaks a rule of the log; the message says which
    88 UNSTABLE_OFFSET_COMMIT Retry; // an open transaction holds offsets of the group
    89 THROTTLING_QUOTA_EXCEEDED Retry; // a quota on topic changes; the answer says how long
    90 PRODUCER_FENCED Fatal; // fenced: another owner initialised the transactional id
    91 RESOURCE_NOT_FOUND Refuse;
    92 DUPLICATE_RESOURCE Refuse;
    93 UNACCEPTABLE_CREDENTIAL Refuse;
    94 INCONSISTENT_VOTER_SET Refuse;
    95 INVALID_UPDATE_VERSION Refuse;
    96 FEATURE_UPDATE_FAILED Refuse;
    97 PRINCIPAL_DESERIALIZATION_FAILURE Refuse;
    98 SNAPSHOT_NOT_FOUND Refuse;
    99 POSITION_OUT_OF_RANGE Refuse;
    100 UNKNOWN_TOPIC_ID Refresh; // not known yet, or deleted: only metadata can tell
    101 DUPLICATE_BROKER_REGISTRATION Refuse;
    102 BROKER_ID_NOT_REGISTERED Refuse;
    103 INCONSISTENT_TOPIC_ID Refresh; // the topic was made again
    104 INCONSISTENT_CLUSTER_ID Fatal; // this is another cluster
    105 TRANSACTIONAL_ID_NOT_FOUND Refuse;
    106 FETCH_SESSION_TOPIC_ID_ERROR Retry; // with a full fetch
    107 INELIGIBLE_REPLICA Refuse;
    108 NEW_LEADER_ELECTED Refresh;
    109 OFFSET_MOVED_TO_TIERED_STORAGE Refuse;
    110 FENCED_MEMBER_EPOCH Refuse; // join again with epoch 0
    111 UNRELEASED_INSTANCE_ID Refuse;
    112 UNSUPPORTED_ASSIGNOR Refuse;
    113 STALE_MEMBER_EPOCH Refuse;
    114 MISMATCHED_ENDPOINT_TYPE Refuse;
    115 UNSUPPORTED_ENDPOINT_TYPE Refuse;
    116 UNKNOWN_CONTROLLER_ID Refuse;
    117 UNKNOWN_SUBSCRIPTION_ID Refuse;
    118 TELEMETRY_TOO_LARGE Refuse;
    119 INVALID_REGISTRATION Refuse;
    120 TRANSACTION_ABORTABLE Refuse; // the transaction is to be aborted
    121 INVALID_RECORD_STATE Refuse;
    122 SHARE_SESSION_NOT_FOUND Retry; // with a new share session
    123 INVALID_SHARE_SESSION_EPOCH Retry; // with a new share session
    124 FENCED_STATE_EPOCH Refuse;
    125 INVALID_VOTER_KEY Refuse;
    126 DUPLICATE_VOTER Refuse;
    127 VOTER_NOT_FOUND Refuse;
    128 INVALID_REGULAR_EXPRESSION Refuse;
    129 REBOOTSTRAP_REQUIRED Refresh; // from the bootstrap servers
    130 STREAMS_INVALID_TOPOLOGY Refuse;
    131 STREAMS_INVALID_TOPOLOGY_EPOCH Refuse;
    132 STREAMS_TOPOLOGY_FENCED Refuse;
    133 SHARE_SESSION_LIMIT_REACHED Retry;
}

impl ErrorCode {
    /// Whether the code says success.
    pub const fn is_ok(self) -> bool {
        self.0 == 0
    }

    /// `Ok` for code 0, else the code.
    pub const fn ok(self) -> Result<(), Self> {
        if self.is_ok() { Ok(()) } else { Err(self) }
    }
}

impl From<i16> for ErrorCode {
    fn from(code: i16) -> Self {
        Self(code)
    }
}

impl fmt::Display for ErrorCode {
    /// `NOT_LEADER_OR_FOLLOWER(6)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.name(), self.0)
    }
}

impl fmt::Debug for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_from_minus_one_to_the_newest_has_exactly_one_row() {
        let expected: Vec<i16> = (-1..=133).collect();
        let named: Vec<i16> = ErrorCode::NAMED.iter().map(|code| code.0).collect();
        assert_eq!(named, expected);
    }

    #[test]
    fn no_name_stands_for_two_codes() {
        let names: std::collections::BTreeSet<_> =
            ErrorCode::NAMED.iter().map(|code| code.name()).collect();
        assert_eq!(names.len(), ErrorCode::NAMED.len());
    }

    #[test]
    fn only_success_needs_no_remedy() {
        for code in ErrorCode::NAMED {
            assert_eq!(code.remedy() == Remedy::None, code.is_ok(), "{code}");
        }
    }

    #[test]
    fn names_are_kafkas() {
        assert_eq!(ErrorCode(6).to_string(), "NOT_LEADER_OR_FOLLOWER(6)");
        assert_eq!(ErrorCode(-1).to_string(), "UNKNOWN_SERVER_ERROR(-1)");
        assert_eq!(ErrorCode(103).to_string(), "INCONSISTENT_TOPIC_ID(103)");
        assert_eq!(ErrorCode(133).to_string(), "SHARE_SESSION_LIMIT_REACHED(133)");
    }

    #[test]
    fn a_code_newer_than_the_table_is_kept_and_refused() {
        let code = ErrorCode(9999);
        assert_eq!((code.to_string().as_str(), code.remedy()), ("UNNAMED(9999)", Remedy::Refuse));
    }

    #[test]
    fn a_moved_leader_a_moved_coordinator_and_a_fence_differ() {
        for (codes, remedy) in [
            (&[3, 5, 6, 74, 75, 78, 100, 103][..], Remedy::Refresh),
            (&[7, 14, 19, 20, 51, 88], Remedy::Retry),
            (&[15, 16], Remedy::Reroute),
            (&[10, 25, 29, 30, 31, 32, 35, 45, 87], Remedy::Refuse),
            (&[47, 90], Remedy::Fatal),
        ] {
            for code in codes {
                assert_eq!(ErrorCode(*code).remedy(), remedy, "{}", ErrorCode(*code));
            }
        }
    }
}
