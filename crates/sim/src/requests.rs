//! Names of requests as they pass: the side, the API, and which of our own topics they are about.
//!
//! The names are those of the kill points and of the lies; a request that no test knows is found by
//! its name.

use twinlog_embedded::EmbeddedCluster;
use twinlog_protocol::ApiKey;

/// How far into a frame names are looked for: they stand before the records.
const SEARCHED: usize = 600;

/// Topics of our own on either cluster and what they are called in labels.
const OWN: [(&str, &str); 4] = [
    ("mm2-twinlog.hello.internal", "state"),
    ("hello.checkpoints.internal", "checkpoints"),
    ("mm2-offset-syncs.world.internal", "syncs"),
    ("heartbeats", "heartbeats"),
];

/// How our own topics are found in a frame: by name, or by id once they have one.
#[derive(Clone, Debug)]
pub struct Names(Vec<(Vec<u8>, &'static str)>);

impl Names {
    /// As both clusters have them now.
    pub fn of(clusters: [&EmbeddedCluster; 2]) -> Self {
        let mut names: Vec<_> =
            OWN.iter().map(|(name, short)| (name.as_bytes().to_vec(), *short)).collect();
        for cluster in clusters {
            let id = |name: &str| Some(cluster.topic_id(name)?.0.to_vec());
            names.extend(OWN.iter().filter_map(|(name, short)| Some((id(name)?, *short))));
        }
        Self(names)
    }

    /// Whether every topic has its id.
    pub fn complete(&self) -> bool {
        self.0.len() > 2 * OWN.len()
    }

    fn about(&self, frame: &[u8]) -> Option<&'static str> {
        let frame = &frame[..frame.len().min(SEARCHED)];
        let found = self
            .0
            .iter()
            .find(|(name, _)| frame.windows(name.len()).any(|window| window == name.as_slice()));
        found.map(|(_, short)| *short)
    }
}

/// API key, version and correlation id of a request frame.
pub fn head(frame: &[u8]) -> Option<(i16, i16, i32)> {
    let head = frame.first_chunk::<8>()?;
    let api = i16::from_be_bytes([head[0], head[1]]);
    let version = i16::from_be_bytes([head[2], head[3]]);
    let correlation = i32::from_be_bytes([head[4], head[5], head[6], head[7]]);
    Some((api, version, correlation))
}

/// `target Produce state`, say.
pub fn label(source: bool, frame: &[u8], names: &Names) -> String {
    let side = if source { "source" } else { "target" };
    let api = head(frame).and_then(|(key, _, _)| ApiKey::from_key(key));
    let name = api.map_or_else(|| "unknown".to_owned(), |api| format!("{api:?}"));
    match names.about(frame) {
        Some(about) => format!("{side} {name} {about}"),
        None => format!("{side} {name}"),
    }
}
