use std::collections::BTreeMap;
use std::sync::Arc;

use twinlog_client::{ErrorCode, NewTopic, Refusal};
use twinlog_protocol::ApiKey;
use twinlog_protocol::messages::{
    CreateTopicsRequest, CreateTopicsResponse, DeleteRecordsRequest, DeleteRecordsResponse,
    IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse, create_topics_response,
    delete_records_response, incremental_alter_configs_response, string, topic_name, topic_uuid,
};
use twinlog_types::{ConfigChange, TopicName, TopicPartition};

use crate::broker::{Call, Fake, ORDERS, Reply, metadata};

/// Creates every topic except `taken`, after the codes for the whole request.
fn created(call: &Call, code: i16) -> Reply {
    let request: CreateTopicsRequest = call.request();
    let topics = request.topics.into_iter().rev().map(|topic| {
        let taken = topic.name.as_str() == "taken" && code == 0;
        create_topics_response::CreatableTopicResult::default()
            .with_name(topic.name)
            .with_topic_id(topic_uuid(ORDERS))
            .with_error_code(if taken { 36 } else { code })
            .with_error_message(taken.then(|| string("it exists")))
    });
    let response = CreateTopicsResponse::default().with_topics(topics.collect());
    call.answer::<CreateTopicsRequest>(&response)
}

fn new_topic(name: &str) -> NewTopic {
    let configs = BTreeMap::from([("retention.ms".to_owned(), "1".to_owned())]);
    NewTopic { name: name.into(), partitions: 1, replication_factor: -1, configs }
}

#[tokio::test(start_paused = true)]
async fn refusals_are_answers_and_another_controller_is_asked_again() {
    let mut codes = [41, 0].into_iter();
    let fake = Fake::new(move |call| match call.api {
        ApiKey::CreateTopics => created(call, codes.next().unwrap_or(0)),
        _ => metadata(call, &[(1, 0)]),
    });
    let new = [new_topic("taken"), new_topic("fresh")];
    let answers = fake.cluster().create_topics(&new).await.unwrap();
    let refusal =
        Refusal { code: ErrorCode::TOPIC_ALREADY_EXISTS, message: Some("it exists".into()) };
    assert_eq!(
        answers,
        [(TopicName::from("taken"), Err(refusal)), (TopicName::from("fresh"), Ok(ORDERS))]
    );
    assert_eq!(fake.calls(ApiKey::CreateTopics).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn configs_are_set_and_deleted_never_set_to_null() {
    let fake = Fake::new(|call| match call.api {
        ApiKey::IncrementalAlterConfigs => {
            let response =
                incremental_alter_configs_response::AlterConfigsResourceResponse::default()
                    .with_resource_type(2)
                    .with_resource_name(string("orders"))
                    .with_error_message(None);
            call.answer::<IncrementalAlterConfigsRequest>(
                &IncrementalAlterConfigsResponse::default().with_responses(vec![response]),
            )
        }
        _ => metadata(call, &[(1, 0)]),
    });
    let changes = [ConfigChange::Set("a".into(), "1".into()), ConfigChange::Delete("b".into())];
    let altered = fake.cluster().alter_topic_configs(&"orders".into(), &changes).await;
    assert_eq!(altered.unwrap(), Ok(()));
    let request: IncrementalAlterConfigsRequest =
        fake.calls(ApiKey::IncrementalAlterConfigs)[0].request();
    let said: Vec<_> = request.resources[0]
        .configs
        .iter()
        .map(|config| (config.name.as_str(), config.config_operation, config.value.as_deref()))
        .collect();
    assert_eq!(said, [("a", 0, Some("1")), ("b", 1, None)]);
}

/// A leader of `orders-0` that answers these codes to DeleteRecords, then success.
fn deleting(codes: &'static [i16]) -> Arc<Fake> {
    let mut codes = codes.iter();
    Fake::new(move |call| match call.api {
        ApiKey::DeleteRecords => {
            let code = *codes.next().unwrap_or(&0);
            let partition = delete_records_response::DeleteRecordsPartitionResult::default()
                .with_low_watermark(10)
                .with_error_code(code);
            let topic = delete_records_response::DeleteRecordsTopicResult::default()
                .with_name(topic_name("orders"))
                .with_partitions(vec![partition]);
            call.answer::<DeleteRecordsRequest>(
                &DeleteRecordsResponse::default().with_topics(vec![topic]),
            )
        }
        _ => metadata(call, &[(1, 0)]),
    })
}

#[tokio::test(start_paused = true)]
async fn deleting_records_follows_the_leader_and_leaves_a_time_out_to_the_caller() {
    let tp = TopicPartition::new("orders", 0);
    let moved = deleting(&[6]);
    let answers = moved.cluster().delete_records(&[(tp.clone(), 10)]).await.unwrap();
    assert_eq!(answers, [(tp.clone(), Ok(10))]);
    let slow = deleting(&[7]);
    let answers = slow.cluster().delete_records(&[(tp.clone(), 10)]).await.unwrap();
    assert_eq!(answers, [(tp, Err(ErrorCode::REQUEST_TIMED_OUT))]);
    assert_eq!(slow.calls(ApiKey::DeleteRecords).len(), 1);
}
