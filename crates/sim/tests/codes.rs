//! Every error code of Kafka, answered to every request of a flow: what it means to the flow, that
//! nobody is asked without a pause, and that everything arrives once it is over.

use twinlog_embedded::Action;
use twinlog_protocol::{ApiKey, ErrorCode};
use twinlog_sim::scenes::{Disturbance, LASTS, Scene, play};

/// Requests of one kind in a second, on average, while every one of them is refused.
const PER_SECOND: u64 = 60;

/// The requests of a flow that are answered with codes.
const REQUESTS: [(bool, ApiKey); 17] = [
    (true, ApiKey::Fetch),
    (true, ApiKey::ListOffsets),
    (true, ApiKey::Metadata),
    (true, ApiKey::OffsetFetch),
    (true, ApiKey::FindCoordinator),
    (true, ApiKey::ListGroups),
    (true, ApiKey::DescribeConfigs),
    (false, ApiKey::Produce),
    (false, ApiKey::InitProducerId),
    (false, ApiKey::AddPartitionsToTxn),
    (false, ApiKey::EndTxn),
    (false, ApiKey::OffsetCommit),
    (false, ApiKey::OffsetFetch),
    (false, ApiKey::OffsetForLeaderEpoch),
    (false, ApiKey::DescribeProducers),
    (false, ApiKey::CreateTopics),
    (false, ApiKey::ListOffsets),
];

fn codes() -> impl Iterator<Item = ErrorCode> {
    let named = ErrorCode::NAMED.iter().copied().filter(|code| *code != ErrorCode::NONE);
    named.chain([ErrorCode(9_999)])
}

fn always(source: bool, api: ApiKey, code: ErrorCode, plain: bool) -> Scene {
    let action = Action::Answer(code.0);
    play(&Disturbance::Act { source, api, action, plain, times: None })
}

fn judge(scene: &Scene, named: &str) {
    assert_eq!(scene.happened, 0, "{named}: asked without a pause");
    assert_eq!(scene.outcome.violations, [], "{named}");
    for (request, count) in &scene.requests {
        let most = PER_SECOND * LASTS.as_secs();
        assert!(*count <= most, "{named}: {request} was sent {count} times in {LASTS:?}");
    }
}

#[test]
fn every_code_to_every_request_is_survived_and_nobody_is_asked_without_a_pause() {
    let pairs: Vec<(bool, ApiKey, ErrorCode)> = REQUESTS
        .iter()
        .flat_map(|&(source, api)| codes().map(move |code| (source, api, code)))
        .collect();
    let half = pairs.len().div_ceil(2);
    std::thread::scope(|scope| {
        for part in pairs.chunks(half) {
            scope.spawn(move || {
                for &(source, api, code) in part {
                    let side = if source { "source" } else { "target" };
                    judge(
                        &always(source, api, code, false),
                        &format!("{code} to {api} of the {side}"),
                    );
                }
            });
        }
    });
    println!("{} pairs of request and code", pairs.len());
}

/// What the product says of a partition whose batches the target refuses with this code; `None`
/// where the code says nothing about the batch, so that the tail is looked at and it is sent again.
fn said_of_produce(code: ErrorCode) -> Option<&'static str> {
    match code.0 {
        32 => Some("timestamp-refused"),
        29 | 31 => Some("missing-permission"),
        // Unknown topics, moved leaders, replicas that lag, timeouts, sequences that do not fit,
        // and what else a client repeats.
        2
        | 3
        | 5..=9
        // Too large: it is cut in halves, look by look, down to one record.
        | 10
        | 18
        | 13..=16
        | 19
        | 20
        | 41
        | 45
        | 46
        | 51
        | 55
        | 56
        | 59
        | 60
        | 70..=72
        | 74
        | 75
        | 78
        | 80
        | 83
        | 88
        | 89
        | 100
        | 103
        | 104
        | 106
        | 108
        | 122
        | 123
        | 129
        | 133
        // Fenced: the flow is another owner's.
        | 47
        | 82
        | 90 => None,
        _ => Some("refused-by-target"),
    }
}

#[test]
fn a_refused_batch_stops_its_partition_with_the_reason_and_no_other() {
    for code in codes() {
        let scene = always(false, ApiKey::Produce, code, true);
        let named = format!("{code} to Produce of one topic");
        judge(&scene, &named);
        let said = scene.said.get("plain-0").map(String::as_str);
        assert_eq!(said, said_of_produce(code), "{named}: {:?} {}", scene.said, scene.flow);
        assert!(scene.others_went_on || matches!(code.0, 47 | 90), "{named}: {:?}", scene.said);
    }
}
