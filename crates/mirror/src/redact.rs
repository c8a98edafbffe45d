//! Client properties that do not print their secrets.

use std::collections::BTreeMap;
use std::collections::btree_map;
use std::fmt;
use std::ops::{Deref, DerefMut};

/// Whether the value of `key` must not be printed: passwords, JAAS lines, tokens, key material,
/// at whatever level or prefix the key stands.
pub fn is_secret(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    let last = key.rsplit('.').next().unwrap_or_default();
    // `…token.endpoint.url`, `….private.key.file` and their like say where something is.
    if matches!(last, "url" | "file" | "location" | "class" | "type" | "algorithm" | "ms") {
        return false;
    }
    key.contains("password")
        || key.contains("passphrase")
        || key.contains("secret")
        || key.contains("token")
        || key.contains("credential")
        || key.contains("private.key")
        || key.contains("api.key")
        || key.contains("basic.auth")
        || key.ends_with("sasl.jaas.config")
        || key.ends_with("keystore.key")
        || key.ends_with("keystore.certificate.chain")
}

/// What stands for a secret in output.
const HIDDEN: &str = "***";

/// `value` as it may be printed.
pub(crate) fn shown<'a>(key: &str, value: &'a str) -> &'a str {
    if is_secret(key) { HIDDEN } else { value }
}

/// Properties of a Kafka client by name. Values are as they are; `Debug` and `Display` print `***`
/// for secrets.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ClientProperties(BTreeMap<String, String>);

impl Deref for ClientProperties {
    type Target = BTreeMap<String, String>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for ClientProperties {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl From<BTreeMap<String, String>> for ClientProperties {
    fn from(properties: BTreeMap<String, String>) -> Self {
        Self(properties)
    }
}

impl From<ClientProperties> for BTreeMap<String, String> {
    fn from(properties: ClientProperties) -> Self {
        properties.0
    }
}

impl FromIterator<(String, String)> for ClientProperties {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(entries: I) -> Self {
        Self(entries.into_iter().collect())
    }
}

impl<'a> IntoIterator for &'a ClientProperties {
    type Item = (&'a String, &'a String);
    type IntoIter = btree_map::Iter<'a, String, String>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl fmt::Debug for ClientProperties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().map(|(key, value)| (key, shown(key, value)))).finish()
    }
}

impl fmt::Display for ClientProperties {
    /// One `key=value` a line, in the order of the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().try_for_each(|(key, value)| writeln!(f, "{key}={}", shown(key, value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_known_at_every_level() {
        for key in [
            "ssl.key.password",
            "world.producer.ssl.truststore.password",
            "hello.sasl.jaas.config",
            "ssl.keystore.key",
            "a->b.source.consumer.ssl.keystore.key",
            "sasl.oauthbearer.client.credentials.client.secret",
            "sasl.oauthbearer.assertion.private.key.passphrase",
            "twinlog.rest.token",
        ] {
            assert!(is_secret(key), "{key}");
        }
        for key in [
            "bootstrap.servers",
            "key.converter",
            "ssl.keystore.location",
            "sasl.oauthbearer.token.endpoint.url",
            "topics",
        ] {
            assert!(!is_secret(key), "{key}");
        }
    }

    #[test]
    fn printing_hides_secrets_and_nothing_else() {
        let mut properties = ClientProperties::default();
        properties.insert("ssl.key.password".into(), "hunter2".into());
        properties.insert("acks".into(), "all".into());
        assert_eq!(format!("{properties:?}"), r#"{"acks": "all", "ssl.key.password": "***"}"#);
        assert_eq!(properties.to_string(), "acks=all\nssl.key.password=***\n");
        assert_eq!(properties["ssl.key.password"], "hunter2");
    }
}
