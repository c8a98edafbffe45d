//! Metadata and DescribeCluster.

use twinlog_protocol::messages::metadata_request::MetadataRequestTopic;
use twinlog_protocol::messages::{DescribeClusterRequest, MetadataRequest, Uuid, topic_name};

use crate::pair::{Pair, Result};
use crate::sides::Both;

fn metadata(version: i16, topics: Option<Vec<MetadataRequestTopic>>) -> MetadataRequest {
    let request = MetadataRequest::default().with_topics(topics);
    if version >= 4 { request.with_allow_auto_topic_creation(false) } else { request }
}

fn named(version: i16, names: &[&str]) -> MetadataRequest {
    let topic = |name: &&str| MetadataRequestTopic::default().with_name(Some(topic_name(name)));
    metadata(version, Some(names.iter().map(topic).collect()))
}

pub(crate) fn run(pair: &mut Pair) -> Result {
    let one = pair.topic("metadata-one", 1, &[])?;
    pair.topic("metadata.three_b", 3, &[])?;
    for (what, names) in [
        ("a topic", &["metadata-one"][..]),
        ("topics", &["metadata-one", "metadata.three_b"]),
        ("an absent topic", &["metadata-absent"]),
        ("known and absent topics", &["metadata-absent", "metadata-one", "metadata-absent-2"]),
        ("an empty name", &[""]),
        ("a name that is none", &["what ever"]),
        ("a name that is too long", &["x".repeat(250).as_str()]),
        ("dots alone", &["..", "."]),
    ] {
        pair.step(format!("Metadata of {what}"));
        // Versions below 4 would make what is not there.
        let oldest =
            if names[0].starts_with("metadata") && !names[0].ends_with("absent") { 0 } else { 4 };
        for version in pair.versions::<MetadataRequest>().into_iter().filter(|v| *v >= oldest) {
            pair.ask(version, named(version, names))?;
        }
    }
    pair.step("Metadata of all topics");
    pair.ask_all(|version| metadata(version, if version == 0 { Some(Vec::new()) } else { None }))?;
    pair.step("Metadata of no topics");
    for version in pair.versions::<MetadataRequest>().into_iter().filter(|v| *v >= 1) {
        pair.ask(version, metadata(version, Some(Vec::new())))?;
    }
    pair.step("Metadata with the operations that are allowed");
    for version in pair.versions::<MetadataRequest>().into_iter().filter(|v| *v >= 8) {
        let mut request =
            named(version, &["metadata-one"]).with_include_topic_authorized_operations(true);
        if version <= 10 {
            request = request.with_include_cluster_authorized_operations(true);
        }
        pair.ask(version, request)?;
    }
    for version in pair.versions::<MetadataRequest>().into_iter().filter(|v| *v >= 12) {
        pair.step("Metadata by id");
        let by_id = |id: Uuid| MetadataRequestTopic::default().with_name(None).with_topic_id(id);
        let request = one.id.map(|&id| metadata(version, Some(vec![by_id(id)])));
        pair.ask_each(version, &request)?;
        pair.step("Metadata by an unknown id");
        let unknown = vec![by_id(Uuid::from_bytes([7; 16]))];
        pair.ask(version, metadata(version, Some(unknown)))?;
        pair.step("Metadata by known and unknown ids");
        let request = one
            .id
            .map(|&id| metadata(version, Some(vec![by_id(Uuid::from_bytes([7; 16])), by_id(id)])));
        pair.ask_each(version, &request)?;
        pair.step("Metadata by neither name nor id");
        pair.ask(version, metadata(version, Some(vec![by_id(Uuid::nil())])))?;
        pair.step("Metadata by name and id");
        let both = |id: Uuid| by_id(id).with_name(Some(topic_name("metadata-one")));
        let request = one.id.map(|&id| metadata(version, Some(vec![both(id)])));
        pair.ask_each(version, &request)?;
    }

    for (what, operations, endpoint, fenced) in [
        ("plain", false, 1, false),
        ("with operations", true, 1, false),
        ("of controllers", false, 2, false),
        ("of an unknown kind of endpoint", false, 3, false),
        ("with fenced brokers", false, 1, true),
    ] {
        pair.step(format!("DescribeCluster {what}"));
        for version in pair.versions::<DescribeClusterRequest>() {
            if version == 0 && endpoint != 1 || version < 2 && fenced {
                continue;
            }
            let request = DescribeClusterRequest::default()
                .with_include_cluster_authorized_operations(operations);
            let request = if version >= 1 { request.with_endpoint_type(endpoint) } else { request };
            let request =
                if version >= 2 { request.with_include_fenced_brokers(fenced) } else { request };
            pair.ask_each(version, &Both::same(request))?;
        }
    }
    Ok(())
}
