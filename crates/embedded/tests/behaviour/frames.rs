//! What all connections together hold of unfinished requests: beyond the limit they are not read.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::{sleep, timeout};
use twinlog_embedded::EmbeddedCluster;
use twinlog_protocol::messages::*;

use crate::support::*;

const MIB: usize = 1 << 20;
/// `socket.request.max.bytes`, which is also the limit for all connections.
const LARGEST: i32 = 104_857_600;
/// Shorter than a connection may let others wait.
const SOON: Duration = Duration::from_secs(1);

/// A connection that announces a frame and has not sent any of it.
async fn announced(cluster: &EmbeddedCluster, size: i32) -> DuplexStream {
    let (host, port) = cluster.addresses()[0].clone();
    let mut stream = cluster.connect(&host, port).unwrap();
    stream.write_i32(size).await.unwrap();
    stream
}

/// Whether the broker reads on: sends more than the connection itself holds.
async fn is_read(stream: &mut DuplexStream) -> bool {
    timeout(SOON, stream.write_all(&vec![0; MIB])).await.is_ok_and(|sent| sent.is_ok())
}

async fn ping(cluster: &EmbeddedCluster) {
    let request = ApiVersionsRequest::default()
        .with_client_software_name(string("test"))
        .with_client_software_version(string("1"));
    let mut client = Client::to(cluster, 1);
    let answer = timeout(SOON, client.call(&request, 4)).await;
    assert_eq!(answer.expect("an answer at once").error_code, 0);
}

#[tokio::test(start_paused = true)]
async fn eight_unfinished_requests_of_99_megabytes_are_read_one_at_a_time() {
    let cluster = cluster();
    let mut streams = Vec::new();
    for _ in 0..8 {
        streams.push(announced(&cluster, 99_000_000).await);
    }
    let mut read = Vec::new();
    for stream in &mut streams {
        read.push(is_read(stream).await);
    }
    assert_eq!(read, [true, false, false, false, false, false, false, false]);
    ping(&cluster).await;

    // Whoever waited longest goes on when one connection is gone.
    streams.remove(0);
    assert!(is_read(&mut streams[0]).await);
    assert!(!is_read(&mut streams[1]).await);
}

#[tokio::test(start_paused = true)]
async fn a_request_gives_its_room_back_when_it_is_served() {
    let cluster = cluster();
    let mut other = announced(&cluster, LARGEST - 200_000).await;
    assert!(is_read(&mut other).await);
    // Each is larger than half of what is left.
    let value = "x".repeat(150_000);
    let batch = batch_of(&[twinlog_embedded::NewRecord::new("k", value)], "none");
    let mut client = Client::to(&cluster, 1);
    for offset in 0..3 {
        let answer = timeout(SOON, client.produce(&batch)).await.expect("room");
        assert_eq!((answer.error_code, answer.base_offset), (0, offset));
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_may_be_slow_until_it_lets_others_wait() {
    let cluster = cluster();
    let mut slow = announced(&cluster, LARGEST).await;
    assert!(is_read(&mut slow).await);
    sleep(Duration::from_mins(5)).await;
    assert!(is_read(&mut slow).await, "nobody waited");

    let mut other = announced(&cluster, LARGEST).await;
    assert!(!is_read(&mut other).await);
    // What arrives fast enough goes on while the other one waits.
    for _ in 0..30 {
        assert!(is_read(&mut slow).await);
        sleep(Duration::from_secs(2)).await;
    }
    assert!(!is_read(&mut other).await);
    let closed = timeout(Duration::from_secs(30), slow.read_u8()).await;
    closed.expect("closed, since it stands still").unwrap_err();
    assert!(is_read(&mut other).await);
}
