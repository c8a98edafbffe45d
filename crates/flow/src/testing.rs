//! Flows for this crate's tests.

use twinlog_mirror::{Configuration, FlowConfig};

/// The flow `hello->world` of a file with these lines on top of the least that is needed.
pub(crate) fn flow(lines: &str) -> FlowConfig {
    flows(lines).into_iter().find(|flow| flow.name.source.as_str() == "hello").unwrap()
}

/// Every enabled flow of such a file.
pub(crate) fn flows(lines: &str) -> Vec<FlowConfig> {
    let text = format!(
        "clusters = hello, world\nhello.bootstrap.servers = h:9092\n\
         world.bootstrap.servers = w:9092\nhello->world.enabled = true\n{lines}\n"
    );
    let parsed = Configuration::parse("test.properties", text.as_bytes(), &[]);
    parsed.unwrap().flows().to_vec()
}
