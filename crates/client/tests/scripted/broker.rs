//! Brokers that say what a test tells them to, and remember what they were asked.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use twinlog_client::{Cluster, ClusterOptions, Dial};
use twinlog_protocol::messages::{
    ApiVersionsRequest, ApiVersionsResponse, BrokerId as WireBrokerId, MetadataRequest,
    MetadataResponse, api_versions_response, metadata_response, string, topic_name, topic_uuid,
};
use twinlog_protocol::{ApiKey, Request, RequestFrame, decode_request, encode_response};
use twinlog_types::TopicId;
use twinlog_wire::{Dialing, Stream};

/// One request as a broker saw it.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// Which broker: its node id, or the port of an address that is none.
    pub(crate) broker: i32,
    /// Counts all connections of the test.
    pub(crate) connection: usize,
    pub(crate) api: ApiKey,
    pub(crate) version: i16,
    correlation_id: i32,
    body: Bytes,
}

impl Call {
    pub(crate) fn request<R: Request>(&self) -> R {
        decode_request::<R>(self.body.clone(), self.version).expect("a request of that API")
    }

    pub(crate) fn answer<R: Request>(&self, response: &R::Response) -> Reply {
        assert_eq!(R::KEY, self.api);
        let frame = encode_response::<R>(response, self.version, self.correlation_id);
        Reply::Frame(frame.expect("an answer of that version"))
    }
}

pub(crate) enum Reply {
    Frame(Bytes),
    /// Keeps the answer back until another request of the connection is answered.
    Held(Bytes),
    /// Never answers.
    Silence,
    /// Ends the connection.
    Close,
}

impl Reply {
    pub(crate) fn held(self) -> Self {
        match self {
            Self::Frame(frame) => Self::Held(frame),
            other => other,
        }
    }
}

type Script = Box<dyn FnMut(&Call) -> Reply + Send>;

/// All brokers of a test. Broker `n` listens on port 9000 + n.
pub(crate) struct Fake {
    script: Mutex<Script>,
    calls: Mutex<Vec<Call>>,
    connections: Mutex<usize>,
    down: Mutex<BTreeSet<u16>>,
    newest: BTreeMap<ApiKey, i16>,
    transaction_version: i16,
}

struct FakeDial(Arc<Fake>);

impl Fake {
    /// Brokers of Kafka 4: everything the client knows, transactions whose end raises the epoch.
    pub(crate) fn new(script: impl FnMut(&Call) -> Reply + Send + 'static) -> Arc<Self> {
        Arc::new(Self::with(script, &[], 2))
    }

    /// Brokers of Kafka 3.9, as far as transactions and topic ids go.
    pub(crate) fn old(script: impl FnMut(&Call) -> Reply + Send + 'static) -> Arc<Self> {
        let newest = [(ApiKey::EndTxn, 4), (ApiKey::Produce, 11), (ApiKey::Fetch, 17)];
        Arc::new(Self::with(script, &newest, 0))
    }

    fn with(
        script: impl FnMut(&Call) -> Reply + Send + 'static,
        newest: &[(ApiKey, i16)],
        transaction_version: i16,
    ) -> Self {
        Self {
            script: Mutex::new(Box::new(script)),
            calls: Mutex::default(),
            connections: Mutex::default(),
            down: Mutex::default(),
            newest: newest.iter().copied().collect(),
            transaction_version,
        }
    }

    pub(crate) fn cluster(self: &Arc<Self>) -> Cluster {
        self.cluster_behind("b:9001")
    }

    pub(crate) fn cluster_behind(self: &Arc<Self>, bootstrap: &str) -> Cluster {
        let bootstrap = vec![bootstrap.to_owned()];
        let options = ClusterOptions { bootstrap, seed: 7, ..ClusterOptions::default() };
        Cluster::new(options, Arc::new(FakeDial(Arc::clone(self))))
    }

    pub(crate) fn set_down(&self, port: u16) {
        self.down.lock().unwrap().insert(port);
    }

    /// The requests of one API so far.
    pub(crate) fn calls(&self, api: ApiKey) -> Vec<Call> {
        let calls = self.calls.lock().unwrap();
        calls.iter().filter(|call| call.api == api).cloned().collect()
    }

    /// The names of all requests after the first `skip`, Metadata left out.
    pub(crate) fn trace(&self) -> Vec<String> {
        let calls = self.calls.lock().unwrap();
        let calls = calls.iter().filter(|call| call.api != ApiKey::Metadata);
        calls.map(|call| format!("{} {}", call.api, call.version)).collect()
    }

    fn api_versions(&self) -> ApiVersionsResponse {
        let keys = ApiKey::ALL.iter().map(|api| {
            let max = self.newest.get(api).copied().unwrap_or(api.versions().max);
            api_versions_response::ApiVersion::default()
                .with_api_key(api.key())
                .with_min_version(api.versions().min)
                .with_max_version(max)
        });
        let feature = api_versions_response::FinalizedFeatureKey::default()
            .with_name(string("transaction.version"))
            .with_max_version_level(self.transaction_version);
        ApiVersionsResponse::default()
            .with_api_keys(keys.collect())
            .with_finalized_features(vec![feature])
    }

    async fn serve(self: Arc<Self>, mut stream: DuplexStream, broker: i32, connection: usize) {
        let mut held: Vec<Bytes> = Vec::new();
        loop {
            let Ok(length) = stream.read_u32().await else { return };
            let mut frame = vec![0; length as usize];
            if stream.read_exact(&mut frame).await.is_err() {
                return;
            }
            let frame = RequestFrame::parse(frame.into()).expect("a request");
            let RequestFrame { api, version, correlation_id, body, .. } = frame;
            let call = Call { broker, connection, api, version, correlation_id, body };
            let reply = if api == ApiKey::ApiVersions {
                call.answer::<ApiVersionsRequest>(&self.api_versions())
            } else {
                self.calls.lock().unwrap().push(call.clone());
                (self.script.lock().unwrap())(&call)
            };
            match reply {
                Reply::Held(frame) => held.push(frame),
                Reply::Silence => {}
                Reply::Close => return,
                Reply::Frame(frame) => {
                    held.push(frame);
                    for frame in held.drain(..) {
                        if stream.write_all(&frame).await.is_err() {
                            return;
                        }
                    }
                }
            }
        }
    }
}

impl Dial for FakeDial {
    fn dial<'a>(&'a self, _host: &'a str, port: u16) -> Dialing<'a> {
        let fake = Arc::clone(&self.0);
        Box::pin(async move {
            if fake.down.lock().unwrap().contains(&port) {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            let connection = {
                let mut connections = fake.connections.lock().unwrap();
                *connections += 1;
                *connections
            };
            let (ours, theirs) = tokio::io::duplex(1 << 20);
            tokio::spawn(fake.serve(theirs, i32::from(port) - 9000, connection));
            Ok(Box::new(ours) as Box<dyn Stream>)
        })
    }
}

/// The id of the one topic in these tests.
pub(crate) const ORDERS: TopicId = TopicId([7; 16]);

/// A Metadata answer: brokers 1 and 2, and topic `orders` with these (leader, epoch), partition by
/// partition. Every other topic is unknown.
pub(crate) fn metadata(call: &Call, leaders: &[(i32, i32)]) -> Reply {
    metadata_with(call, &[1, 2], ORDERS, leaders)
}

pub(crate) fn metadata_with(
    call: &Call,
    brokers: &[i32],
    id: TopicId,
    leaders: &[(i32, i32)],
) -> Reply {
    let request: MetadataRequest = call.request();
    assert!(!request.allow_auto_topic_creation, "asking must not create topics");
    let partitions = leaders.iter().enumerate().map(|(partition, (leader, epoch))| {
        metadata_response::MetadataResponsePartition::default()
            .with_partition_index(i32::try_from(partition).expect("few partitions"))
            .with_leader_id(WireBrokerId(*leader))
            .with_leader_epoch(*epoch)
    });
    let known = metadata_response::MetadataResponseTopic::default()
        .with_name(Some(topic_name("orders")))
        .with_topic_id(topic_uuid(id))
        .with_partitions(partitions.collect());
    let topics = match request.topics {
        None => vec![known],
        Some(names) => names
            .into_iter()
            .map(|asked| match asked.name {
                Some(name) if name.as_str() == "orders" => known.clone(),
                name => metadata_response::MetadataResponseTopic::default()
                    .with_name(name)
                    .with_error_code(3),
            })
            .collect(),
    };
    let brokers = brokers.iter().map(|id| {
        metadata_response::MetadataResponseBroker::default()
            .with_node_id(WireBrokerId(*id))
            .with_host(string("b"))
            .with_port(9000 + id)
            .with_rack(None)
    });
    call.answer::<MetadataRequest>(
        &MetadataResponse::default()
            .with_brokers(brokers.collect())
            .with_cluster_id(Some(string("cluster")))
            .with_controller_id(WireBrokerId(1))
            .with_topics(topics),
    )
}
