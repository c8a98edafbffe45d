use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use twinlog_client::{ClientError, ErrorCode, Transactional};
use twinlog_protocol::ApiKey;
use twinlog_protocol::messages::{
    AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, BrokerId, EndTxnRequest, EndTxnResponse,
    FindCoordinatorRequest, FindCoordinatorResponse, InitProducerIdRequest, InitProducerIdResponse,
    ProduceRequest, ProducerId, add_partitions_to_txn_response, find_coordinator_response, string,
};
use twinlog_types::TopicPartition;

use crate::broker::{Call, Fake, Reply, metadata};
use crate::produce::{produced, record};

/// Codes to answer, API by API, before all goes well; `LOST` answers with the end of the connection.
type Codes = BTreeMap<ApiKey, Vec<i16>>;
const LOST: i16 = i16::MAX;

/// A coordinator and leader that hands out epochs as Kafka does, after the codes of the script.
fn script(codes: Arc<Mutex<Codes>>) -> impl FnMut(&Call) -> Reply + Send {
    let mut epoch = -1;
    move |call| {
        let mut scripted = codes.lock().unwrap();
        let code = scripted
            .get_mut(&call.api)
            .filter(|codes| !codes.is_empty())
            .map_or(0, |codes| codes.remove(0));
        if code == LOST {
            return Reply::Close;
        }
        match call.api {
            ApiKey::FindCoordinator => {
                let request: FindCoordinatorRequest = call.request();
                assert_eq!((request.key_type, request.coordinator_keys.len()), (1, 1));
                let coordinator = find_coordinator_response::Coordinator::default()
                    .with_key(string("state"))
                    .with_node_id(BrokerId(2))
                    .with_host(string("b"))
                    .with_port(9002)
                    .with_error_code(code)
                    .with_error_message(None);
                call.answer::<FindCoordinatorRequest>(
                    &FindCoordinatorResponse::default().with_coordinators(vec![coordinator]),
                )
            }
            ApiKey::InitProducerId => {
                epoch += i16::from(code == 0);
                call.answer::<InitProducerIdRequest>(
                    &InitProducerIdResponse::default()
                        .with_error_code(code)
                        .with_producer_id(ProducerId(9))
                        .with_producer_epoch(epoch),
                )
            }
            ApiKey::AddPartitionsToTxn => {
                assert_eq!(call.version, 3);
                let request: AddPartitionsToTxnRequest = call.request();
                assert_eq!(request.v3_and_below_producer_epoch, epoch);
                let topics = request.v3_and_below_topics.into_iter().map(|topic| {
                    let results = topic.partitions.into_iter().map(|partition| {
                        add_partitions_to_txn_response::AddPartitionsToTxnPartitionResult::default()
                            .with_partition_index(partition)
                            .with_partition_error_code(code)
                    });
                    add_partitions_to_txn_response::AddPartitionsToTxnTopicResult::default()
                        .with_name(topic.name)
                        .with_results_by_partition(results.collect())
                });
                call.answer::<AddPartitionsToTxnRequest>(
                    &AddPartitionsToTxnResponse::default()
                        .with_results_by_topic_v3_and_below(topics.collect()),
                )
            }
            ApiKey::Produce => {
                let request: ProduceRequest = call.request();
                assert_eq!(request.transactional_id.as_deref().map(|id| &**id), Some("state"));
                produced(call, code, -1)
            }
            ApiKey::EndTxn => {
                let mut response = EndTxnResponse::default().with_error_code(code);
                if call.version >= 5 {
                    epoch += i16::from(code == 0);
                    response = response.with_producer_id(ProducerId(9)).with_producer_epoch(epoch);
                }
                call.answer::<EndTxnRequest>(&response)
            }
            _ => metadata(call, &[(1, 0), (1, 0)]),
        }
    }
}

fn codes(codes: &[(ApiKey, &[i16])]) -> Arc<Mutex<Codes>> {
    Arc::new(Mutex::new(codes.iter().map(|(api, codes)| (*api, codes.to_vec())).collect()))
}

async fn open(fake: &Arc<Fake>) -> Transactional {
    fake.cluster().transactional("state", Duration::from_mins(1)).await.unwrap()
}

async fn write(owner: &mut Transactional, values: &[&'static str]) -> Result<(), ClientError> {
    let records = values.iter().map(|value| record(value)).collect();
    owner.write(vec![(TopicPartition::new("orders", 0), records)]).await
}

/// Epoch and base sequence of every batch that was produced, and whether it is transactional.
fn cuts(fake: &Fake) -> Vec<(i16, i32, bool)> {
    let read = |call: &Call| {
        let request: ProduceRequest = call.request();
        let batch = request.topic_data[0].partition_data[0].records.clone().expect("records");
        let attributes = i16::from_be_bytes(batch[21..23].try_into().expect("two bytes"));
        let epoch = i16::from_be_bytes(batch[51..53].try_into().expect("two bytes"));
        let sequence = i32::from_be_bytes(batch[53..57].try_into().expect("four bytes"));
        (epoch, sequence, attributes & 0x10 != 0)
    };
    fake.calls(ApiKey::Produce).iter().map(read).collect()
}

fn ends(fake: &Fake) -> Vec<bool> {
    let committed = |call: &Call| call.request::<EndTxnRequest>().committed;
    fake.calls(ApiKey::EndTxn).iter().map(committed).collect()
}

#[tokio::test(start_paused = true)]
async fn each_transaction_of_a_new_broker_has_its_own_epoch_and_begins_at_sequence_zero() {
    let fake = Fake::new(script(codes(&[
        (ApiKey::FindCoordinator, &[15]),
        (ApiKey::InitProducerId, &[14, 51]),
        (ApiKey::AddPartitionsToTxn, &[0, 51, 51]),
        (ApiKey::EndTxn, &[0, 51]),
    ])));
    let mut owner = open(&fake).await;
    write(&mut owner, &["a", "b"]).await.unwrap();
    write(&mut owner, &["c"]).await.unwrap();
    assert_eq!(owner.producer(), (9, 2));
    assert_eq!(cuts(&fake), [(0, 0, true), (1, 0, true)]);
    assert_eq!(
        fake.trace(),
        [
            "FindCoordinator 6",
            "FindCoordinator 6",
            "InitProducerId 5",
            "InitProducerId 5",
            "InitProducerId 5",
            "AddPartitionsToTxn 3",
            "Produce 13",
            "EndTxn 5",
            "AddPartitionsToTxn 3",
            "AddPartitionsToTxn 3",
            "AddPartitionsToTxn 3",
            "Produce 13",
            "EndTxn 5",
            "EndTxn 5",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn an_old_broker_keeps_the_epoch_and_sequences_go_on() {
    let fake = Fake::old(script(codes(&[])));
    let mut owner = open(&fake).await;
    write(&mut owner, &["a", "b"]).await.unwrap();
    write(&mut owner, &["c"]).await.unwrap();
    assert_eq!(owner.producer(), (9, 0));
    assert_eq!(cuts(&fake), [(0, 0, true), (0, 2, true)]);
    assert_eq!(fake.trace()[2..5], ["AddPartitionsToTxn 3", "Produce 11", "EndTxn 4"]);
}

#[tokio::test(start_paused = true)]
async fn a_commit_without_an_answer_is_repeated_where_that_is_safe() {
    let fake = Fake::new(script(codes(&[(ApiKey::EndTxn, &[LOST])])));
    let mut owner = open(&fake).await;
    write(&mut owner, &["a"]).await.unwrap();
    assert_eq!(ends(&fake), [true, true]);
}

#[tokio::test(start_paused = true)]
async fn a_commit_without_an_answer_is_unclear_on_an_old_broker() {
    let fake = Fake::old(script(codes(&[(ApiKey::EndTxn, &[LOST])])));
    let mut owner = open(&fake).await;
    let error = write(&mut owner, &["a"]).await.unwrap_err();
    assert!(matches!(error, ClientError::Unclear { .. }), "{error}");
    let asked = fake.trace().len();
    let again = write(&mut owner, &["b"]).await.unwrap_err();
    assert_eq!(again.to_string(), error.to_string());
    assert_eq!(fake.trace().len(), asked, "an owner in doubt asks nothing more");
}

#[tokio::test(start_paused = true)]
async fn every_code_of_a_fence_ends_the_owner_for_good() {
    for (api, code) in [
        (ApiKey::AddPartitionsToTxn, 90),
        (ApiKey::AddPartitionsToTxn, 47),
        (ApiKey::AddPartitionsToTxn, 49),
        (ApiKey::Produce, 47),
        (ApiKey::EndTxn, 90),
    ] {
        let fake = Fake::new(script(codes(&[(api, &[code])])));
        let mut owner = open(&fake).await;
        let error = write(&mut owner, &["a"]).await.unwrap_err();
        let ClientError::Fenced { transactional_id, code: told, .. } = &error else {
            panic!("{api} {code}: {error}")
        };
        assert_eq!((transactional_id.as_str(), told.0), ("state", code));
        assert!(matches!(write(&mut owner, &["b"]).await, Err(ClientError::Fenced { .. })));
        assert!(!ends(&fake).contains(&false), "a fenced owner has nothing to abort");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_batch_aborts_its_transaction_and_the_next_one_succeeds() {
    let fake = Fake::new(script(codes(&[(ApiKey::Produce, &[10])])));
    let mut owner = open(&fake).await;
    let error = write(&mut owner, &["a"]).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::MESSAGE_TOO_LARGE));
    write(&mut owner, &["b"]).await.unwrap();
    assert_eq!(ends(&fake), [false, true]);
    assert_eq!(cuts(&fake), [(0, 0, true), (1, 0, true)]);
}

#[tokio::test(start_paused = true)]
async fn after_an_abort_on_an_old_broker_the_owner_raises_its_own_epoch() {
    let fake = Fake::old(script(codes(&[(ApiKey::Produce, &[10])])));
    let mut owner = open(&fake).await;
    write(&mut owner, &["a"]).await.unwrap_err();
    write(&mut owner, &["b"]).await.unwrap();
    let init: InitProducerIdRequest = fake.calls(ApiKey::InitProducerId)[1].request();
    assert_eq!((init.producer_id, init.producer_epoch), (ProducerId(9), 0));
    assert_eq!(cuts(&fake), [(0, 0, true), (1, 0, true)]);
}

#[tokio::test(start_paused = true)]
async fn a_batch_without_an_answer_is_sent_again_with_the_same_cut() {
    let fake = Fake::new(script(codes(&[(ApiKey::Produce, &[LOST, 6, 0])])));
    let mut owner = open(&fake).await;
    write(&mut owner, &["a"]).await.unwrap();
    assert_eq!(cuts(&fake), [(0, 0, true); 3]);
    assert_eq!(ends(&fake), [true]);
}

#[tokio::test(start_paused = true)]
async fn a_coordinator_that_moved_is_found_again() {
    let fake = Fake::new(script(codes(&[(ApiKey::EndTxn, &[16])])));
    let mut owner = open(&fake).await;
    write(&mut owner, &["a"]).await.unwrap();
    assert_eq!(fake.calls(ApiKey::FindCoordinator).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_transaction_that_never_completes_is_given_up_with_its_code() {
    let fake = Fake::new(script(codes(&[(ApiKey::InitProducerId, &[51; 5000])])));
    let error = fake.cluster().transactional("state", Duration::from_mins(1)).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::CONCURRENT_TRANSACTIONS));
}

#[tokio::test(start_paused = true)]
async fn a_write_that_was_given_up_leaves_an_owner_in_doubt() {
    let mut answers = script(codes(&[]));
    let fake = Fake::new(move |call| match call.api {
        ApiKey::Produce => Reply::Silence,
        _ => answers(call),
    });
    let mut owner = open(&fake).await;
    let write_a = write(&mut owner, &["a"]);
    tokio::time::timeout(Duration::from_secs(1), write_a).await.unwrap_err();
    let error = write(&mut owner, &["b"]).await.unwrap_err();
    assert!(matches!(error, ClientError::Unclear { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_owner_in_doubt_aborts_what_is_open_and_goes_on() {
    let fake = Fake::old(script(codes(&[(ApiKey::EndTxn, &[LOST, 51])])));
    let mut owner = open(&fake).await;
    write(&mut owner, &["a"]).await.unwrap_err();
    owner.reopen().await.unwrap();
    assert_eq!(ends(&fake), [true, false, false]);
    assert_eq!(owner.producer(), (9, 1), "a raised epoch begins at sequence 0 again");
    write(&mut owner, &["b"]).await.unwrap();
    assert_eq!(cuts(&fake), [(0, 0, true), (1, 0, true)]);
}

#[tokio::test(start_paused = true)]
async fn an_owner_in_doubt_whose_commit_was_done_goes_on() {
    let fake = Fake::old(script(codes(&[(ApiKey::EndTxn, &[LOST, 48])])));
    let mut owner = open(&fake).await;
    write(&mut owner, &["a"]).await.unwrap_err();
    owner.reopen().await.unwrap();
    write(&mut owner, &["b"]).await.unwrap();
    assert_eq!(fake.calls(ApiKey::InitProducerId).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_owner_in_doubt_learns_that_it_is_fenced() {
    let fake = Fake::old(script(codes(&[(ApiKey::EndTxn, &[LOST, 90])])));
    let mut owner = open(&fake).await;
    write(&mut owner, &["a"]).await.unwrap_err();
    assert!(matches!(owner.reopen().await, Err(ClientError::Fenced { .. })));
    assert!(matches!(owner.reopen().await, Err(ClientError::Fenced { .. })));
    assert_eq!(fake.calls(ApiKey::InitProducerId).len(), 1, "a fenced owner takes nothing back");
}
