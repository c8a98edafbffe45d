//! Configs of topics as DescribeConfigs answers them and IncrementalAlterConfigs changes them.

/// `config source` of a value that is set at the topic itself. Others (broker defaults, dynamic or
/// not) are what the brokers were told, not the topic.
const SET_AT_TOPIC: i8 = 1;

/// `config source` of a value that Kafka itself brings.
const KAFKA_DEFAULT: i8 = 5;

/// One config of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigEntry {
    /// Its name.
    pub name: String,
    /// Its value; `None` when it is secret.
    pub value: Option<String>,
    /// Where the value comes from: 1 the topic itself, 2 to 4 a broker, 5 Kafka's default.
    pub source: i8,
    /// Whether it is secret.
    pub sensitive: bool,
    /// Whether it cannot be altered.
    pub read_only: bool,
}

/// One change of a topic's configs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConfigChange {
    /// Sets a config of the topic's own.
    Set(String, String),
    /// Goes back to the default; also fine when nothing was set.
    Delete(String),
}

impl ConfigChange {
    /// The config that it is about.
    pub fn name(&self) -> &str {
        match self {
            Self::Set(name, _) | Self::Delete(name) => name,
        }
    }
}

impl ConfigEntry {
    /// Whether the topic itself sets it.
    pub fn is_set_at_topic(&self) -> bool {
        self.source == SET_AT_TOPIC
    }

    /// Whether nobody sets it.
    pub fn is_kafka_default(&self) -> bool {
        self.source == KAFKA_DEFAULT
    }
}
