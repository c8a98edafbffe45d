//! The offset maps of a flow, for translating.
//!
//! Works while the source cannot be reached: the state on the target is enough.

use std::collections::BTreeMap;

use twinlog_client::{ClientError, Topics};
use twinlog_flow::Standing;
use twinlog_types::{ClusterId, Code, State, TopicId, TopicName, TopicPartition};

use super::Observer;
use super::load::{AllBounds, Known, MappedPartition, differ};
use super::topics::bounds_of;
use crate::state::{self, PartitionState};
use twinlog_offsets::state::PartitionKey;

/// The answer for one partition: its map, or why it has none.
pub type Mapped = Result<MappedPartition, Standing>;

/// The offset maps of a flow. Each question reads the state anew.
#[derive(Debug)]
pub struct Mirror {
    observer: Observer,
    /// `None` when nothing was ever mirrored, as far as the target knows.
    pair: Option<(ClusterId, ClusterId)>,
    /// The topics as the source has them; `None` when it cannot be reached.
    source_topics: Option<BTreeMap<TopicName, TopicId>>,
    source_error: Option<ClientError>,
    generation: Option<u32>,
}

impl Observer {
    /// Finds out what the flow is between, for translating.
    ///
    /// # Errors
    ///
    /// When the target cannot be asked. A source that cannot be is done without.
    pub async fn mirror(&self) -> Result<Mirror, ClientError> {
        let source = async {
            let id = self.source.cluster_id().await?;
            Ok::<_, ClientError>((id, self.source.topics(Topics::All).await?))
        };
        let (source, target_id) = tokio::join!(source, self.target.cluster_id());
        let target_id = target_id?;
        let (pair, source_topics, source_error) = match source {
            Ok((id, topics)) => {
                let topics = topics.into_iter().map(|topic| (topic.name, topic.id)).collect();
                (Some((id, target_id)), Some(topics), None)
            }
            Err(error) => (self.stored_pair(&target_id).await?, None, Some(error)),
        };
        let generation = None;
        Ok(Mirror { observer: self.clone(), pair, source_topics, source_error, generation })
    }
}

impl Mirror {
    /// The same, of one generation of the topics' mirrors, be it an older one.
    #[must_use]
    pub fn of_generation(mut self, generation: u32) -> Self {
        self.generation = Some(generation);
        self
    }

    /// Why the source could not be asked, when it could not.
    pub fn source_error(&self) -> Option<&ClientError> {
        self.source_error.as_ref()
    }

    /// The topics of the source by name; none when it could not be asked.
    pub fn source_topics(&self) -> impl Iterator<Item = &TopicName> + Clone {
        self.source_topics.iter().flat_map(BTreeMap::keys)
    }

    /// The maps of partitions of the source, as of now, in the order asked.
    ///
    /// # Errors
    ///
    /// When the target cannot be read.
    pub async fn of_source(&self, wanted: &[TopicPartition]) -> Result<Vec<Mapped>, ClientError> {
        self.load(wanted, |source, _| Some(source.clone())).await
    }

    /// The maps of partitions of the target, as of now, in the order asked.
    ///
    /// # Errors
    ///
    /// When the target cannot be read.
    pub async fn of_target(&self, wanted: &[TopicPartition]) -> Result<Vec<Mapped>, ClientError> {
        self.load(wanted, |source, state| {
            let topic = state.position.as_ref()?.target_topic.clone();
            Some(TopicPartition::new(topic, source.partition))
        })
        .await
    }

    /// The maps of the partitions that `name` calls as wanted.
    async fn load(
        &self,
        wanted: &[TopicPartition],
        name: impl Fn(&TopicPartition, &PartitionState) -> Option<TopicPartition>,
    ) -> Result<Vec<Mapped>, ClientError> {
        let Some(pair) = &self.pair else {
            return Ok(wanted
                .iter()
                .map(|tp| Err(self.not_known(tp, &Known::default())))
                .collect());
        };
        let observer = &self.observer;
        let source = &observer.config.name.source;
        let stored = state::read(&observer.target, source, pair).await?;
        let known = match self.generation {
            Some(number) => Known::of_generation(&stored, number),
            None => Known::new(&stored),
        };
        let mut named = BTreeMap::new();
        let mut targets = Vec::new();
        for (source, (key, partition)) in &known.partitions {
            let called = name(source, partition).filter(|called| wanted.contains(called));
            let (Some(called), Some(position)) = (called, &partition.position) else { continue };
            named.insert(called, source.clone());
            let topic = position.target_topic.clone();
            targets.push((source.clone(), TopicPartition::new(topic, key.partition)));
        }
        let topics = self.target_topics(&targets).await?;
        let on_target: Vec<TopicPartition> =
            targets.iter().map(|(_, target)| target.clone()).collect();
        let listed = bounds_of(&observer.target, &on_target).await?;
        let bounds: AllBounds = targets
            .iter()
            .zip(listed)
            .map(|((source, _), (_, bounds))| (source.clone(), bounds))
            .collect();
        let mut maps = observer.maps(pair, stored, &bounds, self.generation).await?;
        let answers = wanted.iter().map(|wanted| {
            let Some(source) = named.get(wanted) else {
                return Ok(Err(self.not_known(wanted, &known)));
            };
            let known = maps.known.partitions.get(source);
            if let Some(changed) = known.and_then(|known| self.changed(source, known, &topics)) {
                return Ok(Err(changed));
            }
            if let Some(mapped) = maps.mapped.get(source) {
                let failed = maps.failed.iter().find(|(target, _)| *target == mapped.target);
                return match failed {
                    Some((_, error)) => Err(error.clone()),
                    None => Ok(Ok(mapped.clone())),
                };
            }
            let unusable = maps.unusable.remove(source);
            Ok(Err(unusable.unwrap_or_else(|| {
                let code = bounds.get(source).and_then(|bounds| bounds.err());
                let why = code.map_or("unknown".to_owned(), |code| code.to_string());
                let reason = format!("the mirror of {source} could not be read: {why}");
                Standing::because(State::Unknown, reason)
            })))
        });
        answers.collect()
    }

    /// The ids that topics of the target have now.
    async fn target_topics(
        &self,
        targets: &[(TopicPartition, TopicPartition)],
    ) -> Result<BTreeMap<TopicName, TopicId>, ClientError> {
        let mut names: Vec<TopicName> =
            targets.iter().map(|(_, target)| target.topic.clone()).collect();
        names.dedup();
        if names.is_empty() {
            return Ok(BTreeMap::new());
        }
        let listed = self.observer.target.topics(Topics::Named(&names)).await?;
        let there = listed.into_iter().filter(|topic| topic.error.is_ok());
        Ok(there.map(|topic| (topic.name, topic.id)).collect())
    }

    fn not_known(&self, wanted: &TopicPartition, known: &Known) -> Standing {
        let source = &self.observer.config.name.source;
        let nothing = |reason| Standing::found(State::Waiting, Code::NothingCopied, reason);
        let topic = &wanted.topic;
        if known.partitions.keys().any(|known| known.topic == *topic) {
            return nothing(format!("nothing of {wanted} was copied"));
        }
        let exists = self.source_topics.as_ref().map(|topics| topics.contains_key(topic));
        match exists {
            Some(true) if twinlog_mirror::replicates(&self.observer.config, topic.as_str()) => {
                nothing(format!("nothing of {topic} was copied"))
            }
            Some(true) => Standing::found(
                State::Excluded,
                Code::TopicNotMirrored,
                format!("the configuration leaves {topic} out"),
            ),
            Some(false) => Standing::found(
                State::Excluded,
                Code::TopicNotMirrored,
                format!("{topic} was never mirrored, and does not exist on {source}"),
            ),
            None => Standing::found(
                State::Unknown,
                Code::TopicNotMirrored,
                format!("{topic} was never mirrored"),
            ),
        }
    }

    /// A topic that was deleted and made again is not the one that was mirrored.
    fn changed(
        &self,
        source: &TopicPartition,
        (key, partition): &(PartitionKey, PartitionState),
        target_topics: &BTreeMap<TopicName, TopicId>,
    ) -> Option<Standing> {
        let stopped = |code, reason| Some(Standing::found(State::Stopped, code, reason));
        let now = self.source_topics.as_ref().and_then(|topics| topics.get(&source.topic));
        // Who asks for a generation knows that the topic has had another life since.
        let now = now.filter(|_| self.generation.is_none());
        if now.is_some_and(|now| differ(*now, key.source_topic)) {
            let topic = &source.topic;
            let reason =
                format!("{topic} was deleted on the source and made again since it was mirrored");
            return stopped(Code::TopicRecreated, reason);
        }
        let topic = &partition.position.as_ref()?.target_topic;
        match target_topics.get(topic) {
            None => stopped(
                Code::TopicMissingOnTarget,
                format!("{topic} does not exist on the target any more, or may not be seen"),
            ),
            Some(now) if differ(*now, key.target_topic) => stopped(
                Code::TargetRecreated,
                format!("{topic} was deleted on the target and made again since it was filled"),
            ),
            Some(_) => None,
        }
    }
}
