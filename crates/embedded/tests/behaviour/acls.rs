//! What ACLs mean, and how what they forbid is kept from who asks.

use twinlog_embedded::{
    Acl, AuthorizerOptions, EmbeddedCluster, EmbeddedOptions, Operation, Resource,
};
use twinlog_protocol::messages::*;

use crate::rights::{GROUP, alice, group, guarded};
use crate::support::*;

fn metadata_of_all(operations: bool) -> MetadataRequest {
    MetadataRequest::default()
        .with_topics(None)
        .with_include_cluster_authorized_operations(operations)
        .with_include_topic_authorized_operations(operations)
}

#[tokio::test(start_paused = true)]
async fn what_may_not_be_seen_is_left_out_without_a_word() {
    let cluster = guarded();
    cluster.create_topic("secret", 1, &[]).unwrap();
    cluster.commit_offset("hidden", TOPIC, 0, 1).unwrap();
    cluster.commit_offset(GROUP, "secret", 0, 0).unwrap();
    cluster.add_acl(Acl::allow("User:alice", Operation::Describe, Resource::Topic, TOPIC));
    cluster.add_acl(Acl::allow("User:alice", Operation::Describe, Resource::Group, GROUP));
    let mut client = alice(&cluster);
    let answer = client.call(&metadata_of_all(false), 9).await;
    let names: Vec<_> = answer.topics.iter().map(|topic| topic.name.clone().unwrap()).collect();
    assert_eq!(names, [topic_name(TOPIC)]);
    let groups = client.call(&ListGroupsRequest::default(), 4).await.groups;
    assert_eq!(groups.iter().map(|found| &found.group_id).collect::<Vec<_>>(), [&group()]);
    let wanted = offset_fetch_request::OffsetFetchRequestGroup::default()
        .with_group_id(group())
        .with_member_id(None)
        .with_topics(None);
    let request = OffsetFetchRequest::default().with_groups(vec![wanted]);
    let answer = client.call(&request, 9).await;
    assert_eq!(answer.groups[0].topics.len(), 1);
    assert_eq!(answer.groups[0].topics[0].name, topic_name(TOPIC));
}

#[tokio::test(start_paused = true)]
async fn who_may_not_see_a_topic_is_not_told_whether_it_exists() {
    let cluster = guarded();
    let mut client = alice(&cluster);
    let mut ask = async |name: &str| {
        let topic =
            metadata_request::MetadataRequestTopic::default().with_name(Some(topic_name(name)));
        let request = MetadataRequest::default().with_topics(Some(vec![topic]));
        client.call(&request, 12).await.topics[0].clone()
    };
    for name in [TOPIC, "nowhere"] {
        let answer = ask(name).await;
        assert_eq!((answer.error_code, answer.topic_id), (29, Uuid::nil()), "{name}");
    }
    let id = Uuid::from_bytes(cluster.topic_id(TOPIC).unwrap().0);
    let topic = metadata_request::MetadataRequestTopic::default().with_topic_id(id).with_name(None);
    let answer = client.call(&MetadataRequest::default().with_topics(Some(vec![topic])), 12).await;
    let topic = &answer.topics[0];
    assert_eq!((topic.error_code, topic.topic_id, topic.name.clone()), (29, id, None));
    let by_id = FetchFrom { id, ..FetchFrom::offset(0) };
    assert_eq!(client.fetch(by_id, 13).await.error_code, 29);
    let unknown = FetchFrom { id: Uuid::from_u128(7), ..FetchFrom::offset(0) };
    assert_eq!(client.fetch(unknown, 13).await.error_code, 100, "an id is no secret");
}

#[tokio::test(start_paused = true)]
async fn a_fetch_session_loses_a_topic_whose_right_is_taken_away() {
    let cluster = guarded();
    let right = Acl::allow("User:alice", Operation::Read, Resource::Topic, TOPIC);
    cluster.add_acl(right.clone());
    let mut client = alice(&cluster);
    let first =
        client.call(&FetchFrom { session: (0, 0), ..FetchFrom::offset(3) }.request(12), 12).await;
    assert_eq!((first.error_code, first.responses[0].partitions[0].error_code), (0, 0));
    cluster.remove_acl(&right);
    let mut next = FetchFrom { session: (first.session_id, 1), ..FetchFrom::offset(3) }.request(12);
    next.topics.clear();
    let answer = client.call(&next, 12).await;
    assert_eq!(answer.responses[0].partitions[0].error_code, 29);
}

#[tokio::test(start_paused = true)]
async fn denials_prefixes_wildcards_and_hosts_mean_what_they_mean_to_kafka() {
    let cluster = guarded();
    cluster.create_topic("team-a", 1, &[]).unwrap();
    cluster.create_topic("team-b", 1, &[]).unwrap();
    let read = |name: &str| Acl::allow("User:alice", Operation::Read, Resource::Topic, name);
    let mut client = alice(&cluster);
    let mut sees = async || {
        let answer = client.call(&metadata_of_all(true), 9).await;
        let seen = answer.topics.iter().map(|topic| {
            (topic.name.clone().unwrap().to_string(), topic.topic_authorized_operations)
        });
        seen.collect::<Vec<_>>()
    };
    const READ_DESCRIBE: i32 = (1 << 3) | (1 << 8);
    cluster.add_acl(read("team-").prefixed());
    assert_eq!(
        sees().await,
        [("team-a".to_owned(), READ_DESCRIBE), ("team-b".to_owned(), READ_DESCRIBE)]
    );
    cluster.add_acl(read("team-b").denied());
    let seen = sees().await;
    assert_eq!(seen[1], ("team-b".to_owned(), 1 << 8), "what is denied implies nothing");
    let everything =
        Acl::allow("User:*", Operation::All, Resource::Topic, "*").from_host("10.0.0.1");
    cluster.add_acl(everything.clone().denied());
    assert_eq!(sees().await.len(), 2, "another host");
    cluster.add_acl(everything.denied().from_host("127.0.0.1"));
    assert_eq!(sees().await, []);
}

#[tokio::test(start_paused = true)]
async fn without_an_acl_everybody_may_where_that_is_asked_for() {
    let mut options = EmbeddedOptions::new("hello");
    options.authorizer =
        Some(AuthorizerOptions { super_users: Vec::new(), allow_everyone_if_no_acl_found: true });
    let cluster = EmbeddedCluster::start(options);
    cluster.create_topic(TOPIC, 1, &[]).unwrap();
    let mut client = alice(&cluster);
    assert_eq!(client.fetch(FetchFrom::offset(0), 12).await.error_code, 0);
    cluster.add_acl(Acl::allow("User:bob", Operation::Write, Resource::Topic, TOPIC));
    assert_eq!(client.fetch(FetchFrom::offset(0), 12).await.error_code, 29, "now it has one");
}

#[tokio::test(start_paused = true)]
async fn a_producer_id_needs_a_topic_to_write_to() {
    let cluster = guarded();
    let mut client = alice(&cluster);
    let mut code = async || {
        let request = InitProducerIdRequest::default()
            .with_transactional_id(None)
            .with_producer_id(ProducerId(-1))
            .with_producer_epoch(-1);
        client.call(&request, 4).await.error_code
    };
    let write = |name: &str| Acl::allow("User:alice", Operation::Write, Resource::Topic, name);
    assert_eq!(code().await, 31);
    cluster.add_acl(write("some").prefixed());
    assert_eq!(code().await, 0);
    cluster.add_acl(write("so").prefixed().denied());
    assert_eq!(code().await, 31, "all that is allowed is denied as well");
    cluster.add_acl(write("other"));
    assert_eq!(code().await, 0);
    cluster.add_acl(write("*").denied());
    assert_eq!(code().await, 31);
}

#[tokio::test(start_paused = true)]
async fn a_refused_batch_without_acknowledgement_closes_the_connection() {
    let cluster = guarded();
    let mut client = alice(&cluster);
    client.send(&produce_request(&batch(1), 0, TIMEOUT_MS), 9).await;
    assert!(client.frame().await.is_none());
    assert_eq!(cluster.log_end(TOPIC, 0), 3);
}

#[tokio::test(start_paused = true)]
async fn only_the_refused_part_of_a_request_is_refused() {
    let cluster = guarded();
    cluster.create_topic("other", 1, &[]).unwrap();
    cluster.add_acl(Acl::allow("User:alice", Operation::Write, Resource::Topic, TOPIC));
    let mut client = alice(&cluster);
    let mut request = produce_request(&batch(1), -1, TIMEOUT_MS);
    let mut second = request.topic_data[0].clone();
    second.name = topic_name("other");
    request.topic_data.insert(0, second);
    let answer = client.call(&request, 9).await;
    let codes: Vec<_> = answer
        .responses
        .iter()
        .map(|topic| (topic.name.to_string(), topic.partition_responses[0].error_code))
        .collect();
    assert_eq!(codes, [(TOPIC.to_owned(), 0), ("other".to_owned(), 29)]);
    assert_eq!((cluster.log_end(TOPIC, 0), cluster.log_end("other", 0)), (4, 0));
}

#[tokio::test(start_paused = true)]
async fn acls_are_created_described_and_deleted() {
    use create_acls_request::AclCreation;
    let cluster = guarded();
    let mut client = Client::to(&cluster, 1);
    let creation = |kind: i8, name: &str, pattern: i8, operation: i8| {
        AclCreation::default()
            .with_resource_type(kind)
            .with_resource_name(string(name))
            .with_resource_pattern_type(pattern)
            .with_principal(string("User:alice"))
            .with_host(string("*"))
            .with_operation(operation)
            .with_permission_type(3)
    };
    let creations = vec![
        creation(2, "orders", 3, 3),
        creation(2, "ord", 4, 4),
        creation(2, "*", 3, 8),
        creation(4, "kafka-cluster", 3, 7),
        creation(4, "cluster", 3, 7), // not the cluster's name
        creation(1, "orders", 3, 3),  // ANY
        creation(2, "orders", 2, 3),  // MATCH
        creation(2, "", 3, 3),
    ];
    let answer = client.call(&CreateAclsRequest::default().with_creations(creations), 3).await;
    let codes: Vec<_> = answer.results.iter().map(|result| result.error_code).collect();
    assert_eq!(codes, [0, 0, 0, 0, 42, 42, 42, 42]);
    let describe = |pattern: i8, name: Option<&str>| {
        DescribeAclsRequest::default()
            .with_resource_type_filter(if name.is_some() { 2 } else { 1 })
            .with_resource_name_filter(name.map(string))
            .with_pattern_type_filter(pattern)
            .with_principal_filter(None)
            .with_host_filter(None)
            .with_operation(1)
            .with_permission_type(1)
    };
    for (pattern, name, count) in [
        (1, None, 4),
        (2, Some("orders"), 3),
        (3, Some("orders"), 1),
        (4, Some("ord"), 1),
        (4, Some("orders"), 0),
        (1, Some("ord"), 1),
    ] {
        let answer = client.call(&describe(pattern, name), 3).await;
        let found: usize = answer.resources.iter().map(|resource| resource.acls.len()).sum();
        assert_eq!((answer.error_code, found), (0, count), "{pattern} {name:?}");
    }
    let filter = delete_acls_request::DeleteAclsFilter::default()
        .with_resource_type_filter(2)
        .with_resource_name_filter(Some(string("orders")))
        .with_pattern_type_filter(2)
        .with_principal_filter(None)
        .with_host_filter(None)
        .with_operation(1)
        .with_permission_type(1);
    let answer = client.call(&DeleteAclsRequest::default().with_filters(vec![filter]), 3).await;
    assert_eq!(answer.filter_results[0].matching_acls.len(), 3);
    assert_eq!(cluster.acls().len(), 1);
    // Without an authorizer there are no ACLs.
    let cluster = crate::support::cluster();
    let answer = Client::to(&cluster, 1).call(&describe(1, None), 3).await;
    assert_eq!(answer.error_code, 54);
}
