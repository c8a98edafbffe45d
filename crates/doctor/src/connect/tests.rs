//! Judged over what a Connect worker of Kafka 4.3.0 answered.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use serde_json::Value;
use twinlog_types::{FlowName, TopicPartition};

use super::{Rest, Url};
use crate::mm2::{CHECKPOINT_CONNECTOR, Mm2, SOURCE_CONNECTOR};

fn recorded() -> Value {
    serde_json::from_str(include_str!("recorded.json")).expect("JSON")
}

fn rest() -> Rest {
    let answers = recorded();
    let mut rest = Rest { url: "http://connect:8083".into(), ..Rest::default() };
    rest.take_connectors(&answers["/connectors?expand=status&expand=info"]);
    for name in ["hello-source", "hello-checkpoint"] {
        rest.take_tasks(name, &answers[format!("/connectors/{name}/tasks")]);
        rest.take_offsets(name, &answers[format!("/connectors/{name}/offsets")]);
    }
    rest
}

#[test]
fn connectors_of_any_name_stand_where_those_of_dedicated_mm2_do() {
    let rest = rest();
    let flow = FlowName::new("hello", "world");
    assert_eq!(rest.flows(), std::slice::from_ref(&flow));
    let mut mm2 = Mm2::default();
    rest.put_into(&mut mm2, &flow);
    assert!(mm2.is_alive() && mm2.was_here());
    let source = mm2.connector(SOURCE_CONNECTOR).expect("a source connector");
    assert_eq!(
        (source.name.as_str(), source.config["topics"].as_str()),
        ("hello-source", "orders,prices")
    );
    assert!(source.has_partition(&TopicPartition::new("orders", 3)));
    assert!(!source.has_partition(&TopicPartition::new("orders", 4)));
    let checkpoint = mm2.connector(CHECKPOINT_CONNECTOR).expect("a checkpoint connector");
    assert!(checkpoint.has_group("g-orders") && !checkpoint.has_group("g-mid"));
    assert_eq!(checkpoint.tasks, Some(1));
    assert_eq!(mm2.copied.get(&TopicPartition::new("orders", 0)), Some(&279));
    // A connector whose pattern cannot be compiled.
    let failed = mm2.failed.get("bad").expect("failed");
    assert!(failed.trace.starts_with("java.util.regex.PatternSyntaxException: Unclosed group"));

    // Of another flow nothing is known.
    let mut mm2 = Mm2::default();
    rest.put_into(&mut mm2, &FlowName::new("world", "hello"));
    assert!(!mm2.was_here());
}

#[test]
fn what_is_no_connector_of_mm2_is_left_out_and_odd_answers_are_survived() {
    let mut rest = Rest::default();
    for odd in ["null", "[]", "3", "{}", r#"{"a":null}"#, r#"{"a":{"info":{"config":[]}}}"#] {
        rest.take_connectors(&serde_json::from_str(odd).expect("JSON"));
    }
    let sink = r#"{"s":{"info":{"config":{"connector.class":"io.x.S3SinkConnector"}}}}"#;
    rest.take_connectors(&serde_json::from_str(sink).expect("JSON"));
    assert!(rest.connectors.is_empty());
    rest.take_tasks("none", &Value::Null);
    rest.take_offsets("none", &Value::Null);
    assert!(rest.flows().is_empty());
}

/// Answers what was recorded, to any number of requests.
fn serve(answers: Value) -> Url {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut request = [0; 4096];
            let read = stream.read(&mut request).unwrap_or_default();
            let line = String::from_utf8_lossy(&request[..read]).into_owned();
            let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
            let path = match path.as_str() {
                "/connectors?expand=info&expand=status" => "/connectors?expand=status&expand=info",
                other => other,
            };
            let (status, body) = match answers.get(path) {
                Some(body) => ("200 OK", body.to_string()),
                None => ("404 Not Found", r#"{"error_code":404,"message":"none"}"#.to_owned()),
            };
            let length = body.len();
            let text = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n{body}");
            let _ = stream.write_all(text.as_bytes());
        }
    });
    Url::parse(&at.to_string()).expect("an address")
}

#[tokio::test]
async fn a_connect_cluster_is_asked_with_gets_alone_and_what_it_does_not_answer_is_done_without() {
    let url = serve(recorded());
    let read = Rest::read(&url, Duration::from_secs(10)).await.expect("read");
    assert_eq!(read.version.as_deref(), Some("4.3.0"));
    assert_eq!(read.connectors["hello-source"], rest().connectors["hello-source"]);
    // Not everything was recorded.
    assert!(read.connectors["hello-heartbeat"].task_configs.is_empty());

    // Dedicated MM2 answers 404 to everything.
    let url = serve(serde_json::json!({}));
    let trouble = Rest::read(&url, Duration::from_secs(10)).await.expect_err("404");
    assert!(trouble.what.ends_with("answered 404: none"), "{}", trouble.what);
}
