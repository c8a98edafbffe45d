//! A cluster on TCP ports, and librdkafka's clients of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::client::ClientContext;
use rdkafka::config::FromClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{Header, Headers, Message, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer, ProducerContext};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use tokio::runtime::Runtime;
use twinlog_embedded::{EmbeddedCluster, EmbeddedOptions, KafkaVersion};

/// Far more than anything here takes.
pub(crate) const LIMIT: Duration = Duration::from_mins(2);

/// A cluster that outside clients reach.
pub(crate) struct Served {
    pub(crate) cluster: EmbeddedCluster,
    pub(crate) bootstrap: String,
    pub(crate) runtime: Runtime,
}

impl Served {
    /// One broker of Kafka 4.3, and a topic `t` with this many partitions.
    pub(crate) fn with_topic(partitions: i32) -> Self {
        let served = Self::start(1, KafkaVersion::V4_3);
        served.runtime.block_on(async {
            served.cluster.create_topic("t", partitions, &[]).expect("a topic");
        });
        served
    }

    /// One broker that makes topics when they are first asked for.
    pub(crate) fn auto_creating() -> Self {
        let mut options = EmbeddedOptions::new("hello");
        options.auto_create_topics = true;
        Self::start_with(options)
    }

    pub(crate) fn start(brokers: i32, version: KafkaVersion) -> Self {
        let mut options = EmbeddedOptions::new("hello").with_brokers(brokers);
        options.version = version;
        Self::start_with(options)
    }

    fn start_with(mut options: EmbeddedOptions) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        options.epoch_ms = now.map_or(0, |now| now.as_millis() as i64);
        let cluster = runtime.block_on(async {
            let cluster = EmbeddedCluster::start(options);
            cluster.listen_tcp("127.0.0.1", 0).await.expect("free ports");
            cluster
        });
        let bootstrap = runtime.block_on(async { cluster.bootstrap() });
        Self { cluster, bootstrap, runtime }
    }

    /// Asks the cluster itself; its timers need the runtime.
    pub(crate) fn cluster<R>(&self, ask: impl FnOnce(&EmbeddedCluster) -> R) -> R {
        self.runtime.block_on(async { ask(&self.cluster) })
    }

    pub(crate) fn config(&self, pairs: &[(&str, &str)]) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.bootstrap);
        // Nothing is far away, so nothing needs to be waited for long.
        config.set("retry.backoff.ms", "20");
        config.set("reconnect.backoff.max.ms", "200");
        for (key, value) in pairs {
            config.set(*key, *value);
        }
        config
    }

    pub(crate) fn client<T: FromClientConfig>(&self, pairs: &[(&str, &str)]) -> T {
        self.config(pairs).create().expect("a client")
    }

    pub(crate) fn consumer(&self, group: &str, pairs: &[(&str, &str)]) -> BaseConsumer {
        let mut all = vec![
            ("group.id", group),
            ("auto.offset.reset", "earliest"),
            ("enable.auto.commit", "false"),
            ("check.crcs", "true"),
        ];
        all.extend(pairs);
        self.client(&all)
    }

    pub(crate) fn sender(&self, pairs: &[(&str, &str)]) -> Sender {
        let acknowledged = Arc::default();
        let context = Acknowledged(Arc::clone(&acknowledged));
        let producer = self.config(pairs).create_with_context(context).expect("a producer");
        Sender { producer, acknowledged }
    }

    /// Reads a topic from its start until `count` records were read, without a group.
    pub(crate) fn read(&self, topic: &str, count: usize, pairs: &[(&str, &str)]) -> Vec<Read> {
        let consumer = self.consumer("reader", pairs);
        let partitions = self.cluster(|cluster| cluster.partitions(topic));
        let mut list = TopicPartitionList::new();
        for partition in 0..partitions {
            list.add_partition_offset(topic, partition as i32, Offset::Beginning).expect("added");
        }
        consumer.assign(&list).expect("assigned");
        poll(&consumer, count)
    }
}

/// A record to be sent, or one that was read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Content {
    pub(crate) partition: i32,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) timestamp: i64,
    pub(crate) headers: Vec<(String, Option<Vec<u8>>)>,
}

impl Content {
    /// Without key and headers.
    pub(crate) fn value(partition: i32, value: &str) -> Self {
        Self {
            partition,
            key: None,
            value: Some(value.into()),
            timestamp: 1_700_000_000_000,
            headers: Vec::new(),
        }
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(self.value.as_deref().unwrap_or_default()).into_owned()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Read {
    pub(crate) offset: i64,
    pub(crate) content: Content,
}

fn read_of(message: &impl Message) -> Read {
    let header = |header: Header<'_, &[u8]>| (header.key.to_owned(), header.value.map(Vec::from));
    let headers = message.headers().map(|headers| headers.iter().map(header).collect());
    Read {
        offset: message.offset(),
        content: Content {
            partition: message.partition(),
            key: message.key().map(Vec::from),
            value: message.payload().map(Vec::from),
            timestamp: message.timestamp().to_millis().unwrap_or(-1),
            headers: headers.unwrap_or_default(),
        },
    }
}

/// Polls until `count` records came.
pub(crate) fn poll(consumer: &BaseConsumer, count: usize) -> Vec<Read> {
    let mut read = Vec::new();
    let start = Instant::now();
    while read.len() < count {
        assert!(start.elapsed() < LIMIT, "{} records of {count} came", read.len());
        if let Some(message) = consumer.poll(Duration::from_millis(50)) {
            read.push(read_of(&message.expect("no error")));
        }
    }
    read
}

/// By partition, in the order of the topic.
pub(crate) fn by_partition(read: Vec<Read>) -> BTreeMap<i32, Vec<Read>> {
    let mut all: BTreeMap<i32, Vec<Read>> = BTreeMap::new();
    for read in read {
        all.entry(read.content.partition).or_default().push(read);
    }
    all
}

/// Waits until `holds`.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < LIMIT, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

type Acknowledgements = Arc<Mutex<Vec<Result<(i32, i64), KafkaError>>>>;

/// Notes what became of each record.
pub(crate) struct Acknowledged(Acknowledgements);

impl ClientContext for Acknowledged {}

impl ProducerContext for Acknowledged {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let result = match result {
            Ok(message) => Ok((message.partition(), message.offset())),
            Err((error, _)) => Err(error.clone()),
        };
        self.0.lock().expect("nobody panicked").push(result);
    }
}

/// A producer whose answers are kept.
pub(crate) struct Sender {
    pub(crate) producer: BaseProducer<Acknowledged>,
    acknowledged: Acknowledgements,
}

impl Sender {
    pub(crate) fn queue(&self, topic: &str, records: &[Content]) {
        for record in records {
            let headers = record.headers.iter().fold(OwnedHeaders::new(), |all, (key, value)| {
                all.insert(Header { key, value: value.as_ref() })
            });
            let mut wanted = BaseRecord::<[u8], [u8]>::to(topic)
                .partition(record.partition)
                .timestamp(record.timestamp)
                .headers(headers);
            if let Some(key) = &record.key {
                wanted = wanted.key(key);
            }
            if let Some(value) = &record.value {
                wanted = wanted.payload(value);
            }
            self.producer.send(wanted).map_err(|(error, _)| error).expect("queued");
            self.producer.poll(Duration::ZERO);
        }
    }

    /// Waits until everything has its answer, and takes the answers.
    pub(crate) fn answers(&self) -> Vec<Result<(i32, i64), KafkaError>> {
        self.producer.flush(LIMIT).expect("everything was answered");
        std::mem::take(&mut *self.acknowledged.lock().expect("nobody panicked"))
    }

    /// Sends, and asserts that everything was written; answers partitions and offsets.
    pub(crate) fn send(&self, topic: &str, records: &[Content]) -> Vec<(i32, i64)> {
        self.queue(topic, records);
        self.answers().into_iter().map(|answer| answer.expect("written")).collect()
    }
}
