//! Leaves an operator's decision, and sees what became of it.

use std::collections::BTreeMap;

use twinlog_client::{ClientError, Topics};
use twinlog_offsets::state::{Answer, Made, Subject};
use twinlog_types::{ClusterId, TopicId, TopicName};

use super::Observer;
use crate::{decisions, state};

impl Observer {
    /// The ids of source and target. A source that cannot be reached is known from the state, where
    /// that is about one alone; `None` where it is not.
    ///
    /// # Errors
    ///
    /// When the target cannot be asked.
    pub async fn pair(&self) -> Result<Option<(ClusterId, ClusterId)>, ClientError> {
        let (source, target) = tokio::join!(self.source.cluster_id(), self.target.cluster_id());
        let target = target?;
        match source {
            Ok(source) => Ok(Some((source, target))),
            Err(_) => self.stored_pair(&target).await,
        }
    }

    /// Leaves decisions for whoever runs the flow, now or later.
    ///
    /// # Errors
    ///
    /// When the target refuses them, or cannot be asked.
    pub async fn decide(
        &self,
        pair: &(ClusterId, ClusterId),
        made: &[(Subject, Made)],
    ) -> Result<(), ClientError> {
        decisions::leave(&self.target, &self.config, pair, made).await
    }

    /// What became of decisions, by subject.
    ///
    /// # Errors
    ///
    /// When the target cannot be read.
    pub async fn answers(
        &self,
        pair: &(ClusterId, ClusterId),
    ) -> Result<BTreeMap<Subject, Answer>, ClientError> {
        Ok(state::read(&self.target, &self.config.name.source, pair).await?.answers)
    }

    /// The id that a topic of the source has now; none where it does not exist.
    ///
    /// # Errors
    ///
    /// When the source cannot be asked.
    pub async fn source_topic_id(&self, topic: &TopicName) -> Result<TopicId, ClientError> {
        let listed = self.source.topics(Topics::Named(std::slice::from_ref(topic))).await?;
        let there = listed.into_iter().find(|info| info.error.is_ok());
        Ok(there.map_or(TopicId::NONE, |info| info.id))
    }

    /// The decisions that count now.
    ///
    /// # Errors
    ///
    /// When the target cannot be read.
    pub async fn decisions(
        &self,
        pair: &(ClusterId, ClusterId),
    ) -> Result<crate::Decisions, ClientError> {
        let mut decisions = crate::Decisions::default();
        decisions.read_on(&self.target, &self.config.name.source, pair).await?;
        Ok(decisions)
    }
}
