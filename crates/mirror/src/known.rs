//! The keys that MM2 knows.
//!
//! The tables are those of Kafka 4.3.0: `MirrorClientConfig.CLIENT_CONFIG_DEF` and the union of the
//! configuration definitions of the three MM2 connectors. They decide meaning: of the global keys
//! of a file, only these reach a connector or a client.

use crate::problem::closest;

/// The type of a key's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// `true` or `false`.
    Boolean,
    /// A 32-bit number.
    Int,
    /// A 64-bit number.
    Long,
    /// A 16-bit number.
    Short,
    /// Items between commas.
    List,
    /// Any text.
    Text,
    /// The name of a Java class.
    Class,
}

/// A key of a connector and the type of its value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Known {
    /// The key without level.
    pub(crate) key: &'static str,
    /// The type of its value.
    pub(crate) kind: Kind,
}

const fn known(key: &'static str, kind: Kind) -> Known {
    Known { key, kind }
}

/// What the three connectors define, without the client security names.
pub(crate) const CONNECTOR: &[Known] = &[
    known("admin.timeout.ms", Kind::Long),
    known("checkpoints.topic.replication.factor", Kind::Short),
    known("config.action.reload", Kind::Text),
    known("config.properties.exclude", Kind::List),
    known("config.property.filter.class", Kind::Class),
    known("config.providers", Kind::List),
    known("connector.class", Kind::Text),
    known("connector.plugin.version", Kind::Text),
    known("consumer.poll.timeout.ms", Kind::Long),
    known("emit.checkpoints.enabled", Kind::Boolean),
    known("emit.checkpoints.interval.seconds", Kind::Long),
    known("emit.heartbeats.enabled", Kind::Boolean),
    known("emit.heartbeats.interval.seconds", Kind::Long),
    known("emit.offset-syncs.enabled", Kind::Boolean),
    known("enabled", Kind::Boolean),
    known("errors.log.enable", Kind::Boolean),
    known("errors.log.include.messages", Kind::Boolean),
    known("errors.retry.delay.max.ms", Kind::Long),
    known("errors.retry.timeout", Kind::Long),
    known("errors.tolerance", Kind::Text),
    known("forwarding.admin.class", Kind::Class),
    known("group.filter.class", Kind::Class),
    known("groups", Kind::List),
    known("groups.exclude", Kind::List),
    known("header.converter", Kind::Class),
    known("header.converter.plugin.version", Kind::Text),
    known("heartbeats.replication.enabled", Kind::Boolean),
    known("heartbeats.topic.replication.factor", Kind::Short),
    known("key.converter", Kind::Class),
    known("key.converter.plugin.version", Kind::Text),
    known("metric.names.formats", Kind::List),
    known("metric.reporters", Kind::List),
    known("name", Kind::Text),
    known("offset-syncs.topic.location", Kind::Text),
    known("offset-syncs.topic.replication.factor", Kind::Short),
    known("offset.lag.max", Kind::Long),
    known("predicates", Kind::List),
    known("refresh.groups.enabled", Kind::Boolean),
    known("refresh.groups.interval.seconds", Kind::Long),
    known("refresh.topics.enabled", Kind::Boolean),
    known("refresh.topics.interval.seconds", Kind::Long),
    known("replication.factor", Kind::Int),
    known("replication.policy.class", Kind::Class),
    known("replication.policy.internal.topic.separator.enabled", Kind::Boolean),
    known("replication.policy.separator", Kind::Text),
    known("source.cluster.alias", Kind::Text),
    known("sync.group.offsets.enabled", Kind::Boolean),
    known("sync.group.offsets.interval.seconds", Kind::Long),
    known("sync.topic.acls.enabled", Kind::Boolean),
    known("sync.topic.acls.interval.seconds", Kind::Long),
    known("sync.topic.configs.enabled", Kind::Boolean),
    known("sync.topic.configs.interval.seconds", Kind::Long),
    known("target.cluster.alias", Kind::Text),
    known("tasks.max", Kind::Int),
    known("tasks.max.enforce", Kind::Boolean),
    known("topic.filter.class", Kind::Class),
    known("topics", Kind::List),
    known("topics.exclude", Kind::List),
    known("transforms", Kind::List),
    known("value.converter", Kind::Class),
    known("value.converter.plugin.version", Kind::Text),
];

/// What the connectors read without defining it, and what a file may say besides.
const OTHER: &[&str] = &[
    "access.control.allow.methods",
    "access.control.allow.origin",
    "client.dns.lookup",
    "client.id",
    "clusters",
    "config.storage.replication.factor",
    "config.storage.topic",
    "connect.protocol",
    "dedicated.mode.enable.internal.rest",
    "exactly.once.source.support",
    "exactly.once.support",
    "group.id",
    "heartbeat.interval.ms",
    "inter.worker.key.generation.algorithm",
    "inter.worker.key.size",
    "inter.worker.key.ttl.ms",
    "inter.worker.signature.algorithm",
    "inter.worker.verification.algorithms",
    "listeners",
    "metadata.max.age.ms",
    "metrics.num.samples",
    "metrics.recording.level",
    "metrics.sample.window.ms",
    "offset.flush.interval.ms",
    "offset.flush.timeout.ms",
    "offset.storage.partitions",
    "offset.storage.replication.factor",
    "offset.storage.topic",
    "offsets.storage.topic",
    "plugin.discovery",
    "plugin.path",
    "rebalance.timeout.ms",
    "request.timeout.ms",
    "response.http.headers.config",
    "rest.advertised.host.name",
    "rest.advertised.listener",
    "rest.advertised.port",
    "retry.backoff.max.ms",
    "retry.backoff.ms",
    "scheduled.rebalance.max.delay.ms",
    "session.timeout.ms",
    "ssl.client.auth",
    "status.storage.partitions",
    "status.storage.replication.factor",
    "status.storage.topic",
    "task.shutdown.graceful.timeout.ms",
    "topic.creation.enable",
    "topic.tracking.allow.reset",
    "topic.tracking.enable",
    "transaction.boundary",
    "transaction.boundary.interval.ms",
    "use.defaults.from",
    "worker.sync.timeout.ms",
    "worker.unsync.backoff.ms",
];

/// Beginnings of keys whose rest is not ours to judge: settings of Kafka clients, of plugins, of
/// topics, of providers.
const OPEN: &[&str] = &[
    "admin.",
    "config.providers.",
    "config.storage.",
    "consumer.",
    "header.converter.",
    "key.converter.",
    "listeners.https.",
    "metrics.context.",
    "offset.storage.",
    "predicates.",
    "producer.",
    "replication.policy.",
    "source.admin.",
    "source.cluster.",
    "source.consumer.",
    "source.producer.",
    "status.storage.",
    "target.admin.",
    "target.cluster.",
    "target.consumer.",
    "target.producer.",
    "topic.creation.",
    "transforms.",
    "value.converter.",
];

/// Twinlog's own keys.
const OWN: &[&str] =
    &["twinlog.group.offsets.follow", "twinlog.on.source-gap", "twinlog.on.topic-recreated"];

/// Keys of older versions of MM2 that nobody reads any more, and what reads the same now.
const RENAMED: &[(&str, &str)] = &[
    ("config.properties.blacklist", "config.properties.exclude"),
    ("groups.blacklist", "groups.exclude"),
    ("topics.blacklist", "topics.exclude"),
];

/// The keys of a client that are inherited from the global level and reach every client of a
/// cluster: addresses and security.
pub(crate) const CLIENT_SECURITY: &[&str] = &[
    "bootstrap.servers",
    "sasl.client.callback.handler.class",
    "sasl.jaas.config",
    "sasl.kerberos.kinit.cmd",
    "sasl.kerberos.min.time.before.relogin",
    "sasl.kerberos.service.name",
    "sasl.kerberos.ticket.renew.jitter",
    "sasl.kerberos.ticket.renew.window.factor",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.login.connect.timeout.ms",
    "sasl.login.read.timeout.ms",
    "sasl.login.refresh.buffer.seconds",
    "sasl.login.refresh.min.period.seconds",
    "sasl.login.refresh.window.factor",
    "sasl.login.refresh.window.jitter",
    "sasl.login.retry.backoff.max.ms",
    "sasl.login.retry.backoff.ms",
    "sasl.mechanism",
    "sasl.oauthbearer.assertion.algorithm",
    "sasl.oauthbearer.assertion.claim.aud",
    "sasl.oauthbearer.assertion.claim.exp.seconds",
    "sasl.oauthbearer.assertion.claim.iss",
    "sasl.oauthbearer.assertion.claim.jti.include",
    "sasl.oauthbearer.assertion.claim.nbf.seconds",
    "sasl.oauthbearer.assertion.claim.sub",
    "sasl.oauthbearer.assertion.file",
    "sasl.oauthbearer.assertion.private.key.file",
    "sasl.oauthbearer.assertion.private.key.passphrase",
    "sasl.oauthbearer.assertion.template.file",
    "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.clock.skew.seconds",
    "sasl.oauthbearer.expected.audience",
    "sasl.oauthbearer.expected.issuer",
    "sasl.oauthbearer.header.urlencode",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
    "sasl.oauthbearer.jwks.endpoint.url",
    "sasl.oauthbearer.jwt.retriever.class",
    "sasl.oauthbearer.jwt.validator.class",
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.scope.claim.name",
    "sasl.oauthbearer.sub.claim.name",
    "sasl.oauthbearer.token.endpoint.url",
    "security.protocol",
    "ssl.cipher.suites",
    "ssl.enabled.protocols",
    "ssl.endpoint.identification.algorithm",
    "ssl.engine.factory.class",
    "ssl.key.password",
    "ssl.keymanager.algorithm",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.protocol",
    "ssl.provider",
    "ssl.secure.random.implementation",
    "ssl.trustmanager.algorithm",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
];

/// Beginnings of global keys that reach the worker of every flow, and win there over the same key
/// at cluster level.
pub(crate) const WORKER_PREFIXES: &[&str] = &[
    "offset.storage",
    "config.storage",
    "status.storage",
    "key.converter",
    "value.converter",
    "header.converter",
    "task",
    "worker",
    "replication.policy",
];

/// Whether a global key `key` is defined by any of the connectors.
pub(crate) fn is_connector_key(key: &str) -> bool {
    find(key).is_some() || (key != "bootstrap.servers" && is_client_security(key))
}

/// Whether `key` is one of the client security names.
pub(crate) fn is_client_security(key: &str) -> bool {
    CLIENT_SECURITY.binary_search(&key).is_ok()
}

/// The connector key `key`.
pub(crate) fn find(key: &str) -> Option<&'static Known> {
    CONNECTOR.binary_search_by_key(&key, |known| known.key).ok().map(|index| &CONNECTOR[index])
}

/// Whether MM2, a worker, a client or twinlog may read `key` (without its level).
pub fn known_property(key: &str) -> bool {
    is_connector_key(key)
        || is_client_security(key)
        || OTHER.contains(&key)
        || OWN.contains(&key)
        || OPEN.iter().any(|prefix| key.starts_with(prefix))
}

/// The known key that `key` (without its level) was most likely meant to be.
pub fn closest_known_property(key: &str) -> Option<&'static str> {
    let connector = CONNECTOR.iter().map(|known| known.key);
    let others = OTHER.iter().chain(OWN).chain(CLIENT_SECURITY).copied();
    closest(key, connector.chain(others))
}

/// What is read instead of a key that MM2 read up to Kafka 3.9, and does not read since 4.0.
pub(crate) fn renamed(key: &str) -> Option<&'static str> {
    RENAMED.iter().find(|(old, _)| *old == key).map(|(_, new)| *new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_sorted() {
        assert!(CONNECTOR.is_sorted_by_key(|known| known.key));
        assert!(CLIENT_SECURITY.is_sorted());
    }

    #[test]
    fn a_misspelt_key_has_a_near_one() {
        for key in ["topics", "twinlog.on.source-gap", "consumer.fetch.min.bytes", "ssl.protocol"] {
            assert!(known_property(key), "{key}");
        }
        for (typo, meant) in [
            ("topcis", "topics"),
            ("twinlog.on.sourcegap", "twinlog.on.source-gap"),
            ("sync.group.offset.enabled", "sync.group.offsets.enabled"),
            ("emit.checkpoint.interval.seconds", "emit.checkpoints.interval.seconds"),
        ] {
            assert!(!known_property(typo), "{typo}");
            assert_eq!(closest_known_property(typo), Some(meant));
        }
    }
}
