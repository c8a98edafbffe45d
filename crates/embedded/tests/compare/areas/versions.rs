//! ApiVersions: what is offered, and what only Kafka offers.

use std::collections::BTreeMap;

use twinlog_protocol::messages::{ApiVersionsRequest, ApiVersionsResponse, string};
use twinlog_protocol::{ApiKey, Request};

use crate::pair::{Pair, Result};
use crate::sides::Both;
use crate::tally::About;
use crate::tree::Tree;

/// What Kafka 4.3 offers and the embedded cluster does not, or in fewer versions: key, name,
/// Kafka's range, ours, why.
type Missing = (i16, &'static str, (i16, i16), Option<(i16, i16)>, &'static str);

const OLD: &str = "announced for old clients of librdkafka, and refused when it comes";
const LATER: &str = "the codec does not have the newest version";
const DISKS: &str = "there are no disks";
const TOKENS: &str = "there are no delegation tokens";
const SCRAM: &str = "users are given at the start";
const KRAFT: &str = "there is no quorum of controllers";
const SHARE: &str = "share groups have no members and no records here";
const STREAMS: &str = "streams groups are not served";

const NOT_OFFERED: &[Missing] = &[
    (0, "Produce", (0, 13), Some((3, 13)), OLD),
    (2, "ListOffsets", (1, 11), Some((1, 10)), LATER),
    (8, "OffsetCommit", (2, 10), Some((2, 9)), LATER),
    (9, "OffsetFetch", (1, 10), Some((1, 9)), LATER),
    (27, "WriteTxnMarkers", (1, 2), Some((1, 1)), LATER),
    (34, "AlterReplicaLogDirs", (1, 2), None, DISKS),
    (35, "DescribeLogDirs", (1, 5), Some((1, 4)), LATER),
    (38, "CreateDelegationToken", (1, 3), None, TOKENS),
    (39, "RenewDelegationToken", (1, 2), None, TOKENS),
    (40, "ExpireDelegationToken", (1, 2), None, TOKENS),
    (41, "DescribeDelegationToken", (1, 3), None, TOKENS),
    (50, "DescribeUserScramCredentials", (0, 0), None, SCRAM),
    (51, "AlterUserScramCredentials", (0, 0), None, SCRAM),
    (57, "UpdateFeatures", (0, 2), None, KRAFT),
    (64, "UnregisterBroker", (0, 0), None, KRAFT),
    (76, "ShareGroupHeartbeat", (1, 1), None, SHARE),
    (77, "ShareGroupDescribe", (1, 1), None, SHARE),
    (78, "ShareFetch", (1, 2), None, SHARE),
    (79, "ShareAcknowledge", (1, 2), None, SHARE),
    (80, "AddRaftVoter", (0, 1), None, KRAFT),
    (81, "RemoveRaftVoter", (0, 0), None, KRAFT),
    (83, "InitializeShareGroupState", (0, 0), None, SHARE),
    (84, "ReadShareGroupState", (0, 0), None, SHARE),
    (85, "WriteShareGroupState", (0, 1), None, SHARE),
    (86, "DeleteShareGroupState", (0, 0), None, SHARE),
    (87, "ReadShareGroupStateSummary", (0, 1), None, SHARE),
    (88, "StreamsGroupHeartbeat", (0, 0), None, STREAMS),
    (89, "StreamsGroupDescribe", (0, 0), None, STREAMS),
    (90, "DescribeShareGroupOffsets", (0, 1), Some((0, 0)), LATER),
    (92, "DeleteShareGroupOffsets", (0, 0), None, SHARE),
];

/// Features of Kafka 4.3 that the embedded cluster does not have, with the level each is at.
const FEATURES_NOT_OFFERED: &[(&str, Option<i16>)] = &[
    ("eligible.leader.replicas.version", Some(1)),
    ("kraft.version", None),
    ("share.version", Some(1)),
    ("streams.version", Some(1)),
];

pub(crate) fn run(pair: &mut Pair) -> Result {
    pair.step("ApiVersions");
    for version in ApiVersionsRequest::MIN..=ApiVersionsRequest::MAX {
        let mut request = ApiVersionsRequest::default();
        if version >= 3 {
            request = request
                .with_client_software_name(string("compare"))
                .with_client_software_version(string("1"));
        }
        let outcomes = pair.exchange(0, &Both::same(request.clone()), version)?;
        let answers = outcomes.map(|outcome| outcome.clone().answer().unwrap_or_default());
        let about = About { api: ApiKey::ApiVersions, version, request: format!("{request:?}") };
        ranges(pair, &about, &answers);
        // The ranges are compared above, by key.
        let mut answers = answers.map(|answer| answer.clone().with_api_keys(Vec::new()));
        without_features(pair, &about, &mut answers.kafka);
        let rest = answers.map(Tree::of);
        pair.compare(&about, &rest);
    }
    pair.step("ApiVersions with a name that is none");
    for name in ["", "-", "with space"] {
        let request = ApiVersionsRequest::default()
            .with_client_software_name(string(name))
            .with_client_software_version(string("1"));
        let outcomes = pair.exchange(0, &Both::same(request.clone()), 4)?;
        let answers = outcomes.map(|outcome| outcome.clone().answer().unwrap_or_default());
        let about = About { api: ApiKey::ApiVersions, version: 4, request: format!("{request:?}") };
        let refused = answers.map(|answer| {
            let keys = usize::from(!answer.api_keys.is_empty());
            Tree::List(vec![Tree::number(answer.error_code), Tree::number(keys as i64)])
        });
        pair.compare(&about, &refused);
    }
    Ok(())
}

/// Takes the features out of Kafka's answer that the embedded cluster does not have. All must be there.
fn without_features(pair: &mut Pair, about: &About, answer: &mut ApiVersionsResponse) {
    for &(name, finalized) in FEATURES_NOT_OFFERED {
        let supported = answer.supported_features.iter().any(|f| f.name.as_str() == name);
        let found = answer.finalized_features.iter().find(|f| f.name.as_str() == name);
        let found = found.map(|feature| feature.max_version_level);
        // Version 3 hides those that can be off.
        if about.version >= 3 && (found != finalized || supported != (about.version >= 4)) {
            pair.unexpected(about, &format!("features[{name}]"), &format!("{found:?}"), "listed");
        }
    }
    let listed = |name: &str| FEATURES_NOT_OFFERED.iter().any(|(known, _)| *known == name);
    answer.supported_features.retain(|feature| !listed(&feature.name));
    answer.finalized_features.retain(|feature| !listed(&feature.name));
}

/// The offered ranges differ exactly as listed.
fn ranges(pair: &mut Pair, about: &About, answers: &Both<ApiVersionsResponse>) {
    let offered = answers.map(|answer| {
        let range = |api: &twinlog_protocol::messages::api_versions_response::ApiVersion| {
            (api.api_key, (api.min_version, api.max_version))
        };
        answer.api_keys.iter().map(range).collect::<BTreeMap<_, _>>()
    });
    let word = |range: Option<&(i16, i16)>| {
        range.map_or("not offered".to_owned(), |(min, max)| format!("{min}-{max}"))
    };
    let mut expected = offered.kafka.clone();
    for (key, name, kafka, ours, _) in NOT_OFFERED {
        if offered.kafka.get(key) != Some(kafka) {
            let found = word(offered.kafka.get(key));
            pair.unexpected(about, &format!("list[{name}]"), &found, &word(Some(kafka)));
        }
        match ours {
            Some(range) => expected.insert(*key, *range),
            None => expected.remove(key),
        };
    }
    let keys: std::collections::BTreeSet<i16> =
        expected.keys().chain(offered.embedded.keys()).copied().collect();
    for key in keys {
        let (wanted, found) = (expected.get(&key), offered.embedded.get(&key));
        if wanted != found {
            let name = ApiKey::from_key(key).map_or("?", ApiKey::name);
            pair.unexpected(about, &format!("api_keys[{key} {name}]"), &word(wanted), &word(found));
        }
    }
}
