//! Logging in.

use bytes::Bytes;
use twinlog_embedded::{
    Acl, AuthorizerOptions, EmbeddedCluster, EmbeddedOptions, Operation, Resource,
};
use twinlog_protocol::messages::*;

use crate::support::*;

fn started() -> EmbeddedCluster {
    let mut options = EmbeddedOptions::new("hello");
    options.authorizer = Some(AuthorizerOptions::default());
    options.sasl_users.insert("alice".to_owned(), twinlog_types::Secret::new("alice-secret"));
    let cluster = EmbeddedCluster::start(options);
    cluster.create_topic(TOPIC, 1, &[]).unwrap();
    cluster.add_acl(Acl::allow("User:alice", Operation::Read, Resource::Topic, TOPIC));
    cluster
}

fn client(cluster: &EmbeddedCluster) -> Client {
    let (host, port) = cluster.addresses()[0].clone();
    Client::over(cluster.connect_sasl(&host, port).unwrap())
}

async fn handshake(client: &mut Client, mechanism: &str, version: i16) -> SaslHandshakeResponse {
    let request = SaslHandshakeRequest::default().with_mechanism(string(mechanism));
    client.call(&request, version).await
}

async fn log_in(client: &mut Client, message: &'static [u8]) -> (i16, String) {
    let request = SaslAuthenticateRequest::default().with_auth_bytes(Bytes::from_static(message));
    let answer = client.call(&request, 2).await;
    (answer.error_code, answer.error_message.map(|text| text.to_string()).unwrap_or_default())
}

#[tokio::test(start_paused = true)]
async fn who_logs_in_is_who_asks() {
    let cluster = started();
    let mut client = client(&cluster);
    // What the broker speaks may be asked before.
    let request = ApiVersionsRequest::default()
        .with_client_software_name(string("test"))
        .with_client_software_version(string("1"));
    assert_eq!(client.call(&request, 3).await.error_code, 0);
    let answer = handshake(&mut client, "PLAIN", 1).await;
    assert_eq!((answer.error_code, answer.mechanisms), (0, vec![string("PLAIN")]));
    assert_eq!(log_in(&mut client, b"\0alice\0alice-secret").await.0, 0);
    assert_eq!(client.fetch(FetchFrom::offset(0), 12).await.error_code, 0);
    assert_eq!(client.produce(&batch(1)).await.error_code, 29);
    // Once is enough.
    assert_eq!(handshake(&mut client, "PLAIN", 1).await.error_code, 34);
    assert_eq!(log_in(&mut client, b"\0alice\0alice-secret").await.0, 34);
}

#[tokio::test(start_paused = true)]
async fn a_handshake_of_version_0_is_followed_by_bare_bytes() {
    let cluster = started();
    let mut client = client(&cluster);
    assert_eq!(handshake(&mut client, "PLAIN", 0).await.error_code, 0);
    client.send_bare(b"\0alice\0alice-secret").await;
    assert_eq!(client.frame().await, Some(Bytes::new()));
    assert_eq!(client.fetch(FetchFrom::offset(0), 12).await.error_code, 0);
}

#[tokio::test(start_paused = true)]
async fn wrong_words_are_answered_late_and_end_the_connection() {
    let cluster = started();
    let rows: [(&[u8], &str); 5] = [
        (b"\0alice\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0bob\0alice-secret", "Authentication failed: Invalid username or password"),
        (b"\0\0alice-secret", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (b"alice", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
    ];
    for (message, text) in rows {
        let mut client = client(&cluster);
        handshake(&mut client, "PLAIN", 1).await;
        let before = tokio::time::Instant::now();
        assert_eq!(log_in(&mut client, message).await, (58, text.to_owned()));
        assert_eq!(before.elapsed().as_millis(), 100);
        assert!(client.frame().await.is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn other_mechanisms_and_other_requests_are_not_served_before() {
    let cluster = started();
    let mut other = client(&cluster);
    let answer = handshake(&mut other, "GSSAPI", 1).await;
    assert_eq!((answer.error_code, answer.mechanisms), (33, vec![string("PLAIN")]));
    assert!(other.frame().await.is_none());
    let mut early = client(&cluster);
    early.send(&MetadataRequest::default().with_topics(None), 9).await;
    assert!(early.frame().await.is_none(), "closed without an answer");
    let mut skipped = client(&cluster);
    let request = SaslAuthenticateRequest::default();
    skipped.send(&request, 2).await;
    assert!(skipped.frame().await.is_none(), "no handshake before");
}

#[tokio::test(start_paused = true)]
async fn a_listener_without_users_knows_everybody_as_anonymous() {
    let mut options = EmbeddedOptions::new("hello");
    options.authorizer = Some(AuthorizerOptions::default());
    let cluster = EmbeddedCluster::start(options);
    cluster.create_topic(TOPIC, 1, &[]).unwrap();
    let mut client = Client::to(&cluster, 1);
    assert_eq!(handshake(&mut client, "PLAIN", 1).await.error_code, 34);
    assert_eq!(client.fetch(FetchFrom::offset(0), 12).await.error_code, 29);
    cluster.add_acl(Acl::allow("User:ANONYMOUS", Operation::Read, Resource::Topic, TOPIC));
    assert_eq!(client.fetch(FetchFrom::offset(0), 12).await.error_code, 0);
}

#[tokio::test]
async fn sockets_of_a_cluster_with_users_want_a_login() {
    let cluster = started();
    let (host, port) = cluster.listen_tcp("127.0.0.1", 0).await.unwrap()[0].clone();
    let connect = async || {
        let mut socket = tokio::net::TcpStream::connect((host.as_str(), port)).await.unwrap();
        let (near, mut far) = tokio::io::duplex(1 << 16);
        tokio::spawn(async move { tokio::io::copy_bidirectional(&mut socket, &mut far).await });
        Client::over(near)
    };
    let mut stranger = connect().await;
    stranger.send(&MetadataRequest::default().with_topics(None), 9).await;
    assert!(stranger.frame().await.is_none());
    let mut alice = connect().await;
    handshake(&mut alice, "PLAIN", 1).await;
    assert_eq!(log_in(&mut alice, b"\0alice\0alice-secret").await.0, 0);
    assert_eq!(alice.fetch(FetchFrom::offset(0), 12).await.error_code, 0);
    assert_eq!(alice.produce(&batch(1)).await.error_code, 29);
}
