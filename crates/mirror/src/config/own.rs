//! What twinlog's own keys say about losses.

use super::flow::FlowConfig;
use crate::problem::Problem;

/// What becomes of a partition whose source deleted records before they were copied.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum OnSourceGap {
    /// It stops until somebody decides.
    #[default]
    Stop,
    /// It goes on with the earliest record there is; the range is recorded as lost.
    Continue,
}

/// What becomes of a topic that was deleted on the source and made again.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum OnTopicRecreated {
    /// It stops until somebody decides.
    #[default]
    Stop,
    /// The new topic is copied behind what was copied of the old one.
    NewGeneration,
}

impl FlowConfig {
    /// `twinlog.on.source-gap`: `stop` (default) or `continue`.
    pub fn on_source_gap(&self) -> Result<OnSourceGap, Problem> {
        let read = self.twinlog_value("twinlog.on.source-gap", |text| match text {
            "stop" => Ok(OnSourceGap::Stop),
            "continue" => Ok(OnSourceGap::Continue),
            other => Err(format!("`{other}` is neither stop nor continue")),
        })?;
        Ok(read.unwrap_or_default())
    }

    /// `twinlog.on.topic-recreated`: `stop` (default) or `new-generation`.
    pub fn on_topic_recreated(&self) -> Result<OnTopicRecreated, Problem> {
        let read = self.twinlog_value("twinlog.on.topic-recreated", |text| match text {
            "stop" => Ok(OnTopicRecreated::Stop),
            "new-generation" => Ok(OnTopicRecreated::NewGeneration),
            other => Err(format!("`{other}` is neither stop nor new-generation")),
        })?;
        Ok(read.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Configuration;

    fn flow(key: &str, value: &str) -> FlowConfig {
        let text = format!(
            "clusters = a, b\na.bootstrap.servers = a:1\nb.bootstrap.servers = b:1\n\
             a->b.enabled = true\n{key} = {value}\n"
        );
        let parsed = Configuration::parse("f", text.as_bytes(), &[]).unwrap();
        parsed.flows()[0].clone()
    }

    #[test]
    fn losses_stop_unless_the_file_says_otherwise() {
        let plain = flow("topics", ".*");
        assert_eq!(plain.on_source_gap(), Ok(OnSourceGap::Stop));
        assert_eq!(plain.on_topic_recreated(), Ok(OnTopicRecreated::Stop));
        let going_on = flow("a->b.twinlog.on.source-gap", "continue");
        assert_eq!(going_on.on_source_gap(), Ok(OnSourceGap::Continue));
        let renewing = flow("twinlog.on.topic-recreated", "new-generation");
        assert_eq!(renewing.on_topic_recreated(), Ok(OnTopicRecreated::NewGeneration));
        let bad = flow("twinlog.on.source-gap", "skip").on_source_gap().unwrap_err();
        assert_eq!(bad.line, Some(5));
        assert!(bad.message.contains("neither stop nor continue"));
    }
}
