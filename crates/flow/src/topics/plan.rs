//! The plan, and what the target refused of earlier ones.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use twinlog_mirror::{replicates, why_not_replicated};
use twinlog_types::{Code, ConfigChange, TopicId, TopicName};

use super::configs::{self, AFTER_MAX, Refused};
use super::{
    Alteration, Creation, ExcludedTopic, Exclusion, Growth, MirroredTopic, Seen, TopicListing,
    TopicPlan, TopicVerdict,
};

/// Makes plans, and remembers what the target refused.
#[derive(Clone, Default, Debug)]
pub struct TopicFollower {
    /// Refused configs by target topic and name.
    configs: HashMap<TopicName, BTreeMap<String, Refused>>,
    /// Why a topic could not be created.
    creations: HashMap<TopicName, String>,
    /// Why a topic could not be given more partitions.
    growths: HashMap<TopicName, String>,
}

impl TopicFollower {
    /// Nothing refused yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The target refused to create a topic. Whether to try again at once: true when it was for one
    /// config, which the next plan leaves out. A topic that could not be created is tried again with
    /// every plan, as MM2 does.
    pub fn creation_refused(&mut self, creation: &Creation, message: &str) -> bool {
        let offered: Vec<_> =
            creation.configs.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        if self.drop_config(&creation.target, &offered, message) {
            return true;
        }
        self.creations.insert(creation.target.clone(), message.to_owned());
        false
    }

    /// The target refused changes of configs. Whether to try again at once without the one that was
    /// refused.
    pub fn alteration_refused(&mut self, alteration: &Alteration, message: &str) -> bool {
        let offered: Vec<_> = alteration
            .changes
            .iter()
            .filter_map(|change| match change {
                ConfigChange::Set(name, value) => Some((name.as_str(), value.as_str())),
                ConfigChange::Delete(_) => None,
            })
            .collect();
        self.drop_config(&alteration.target, &offered, message)
    }

    /// The target refused more partitions. Tried again with every plan.
    pub fn growth_refused(&mut self, growth: &Growth, message: &str) {
        self.growths.insert(growth.target.clone(), message.to_owned());
    }

    /// Leaves out the config that the message is about, where it names one of the offered ones.
    fn drop_config(&mut self, target: &TopicName, offered: &[(&str, &str)], message: &str) -> bool {
        let Some(refused) = configs::refused_config_key(message, offered.iter().map(|(n, _)| *n))
        else {
            return false;
        };
        let configs = self.configs.entry(target.clone()).or_default();
        for (name, value) in offered.iter().filter(|(name, _)| *name == refused) {
            let value = (*value).to_owned();
            configs.insert((*name).to_owned(), Refused { value, message: message.to_owned() });
        }
        true
    }

    /// What is to be done. `sync_configs`: whether configs of existing topics are looked at (they
    /// have an interval of their own).
    pub fn plan(&mut self, seen: &Seen<'_>, sync_configs: bool) -> TopicPlan {
        let mut plan = TopicPlan::default();
        let mut wanted = Vec::new();
        for topic in seen.source {
            match why_not_replicated(seen.flow, topic.name.as_str()) {
                Some(why) => plan
                    .excluded
                    .push(ExcludedTopic { topic: topic.name.clone(), why: Exclusion(why) }),
                None => wanted.push((topic, remote_name(seen, &topic.name))),
            }
        }
        wanted.sort_by(|(a, _), (b, _)| a.name.cmp(&b.name));
        plan.excluded.sort_by(|a, b| a.topic.cmp(&b.topic));
        self.forget_refusals(&wanted);

        let targets: HashMap<&str, &TopicListing> =
            seen.target.iter().map(|topic| (topic.name.as_str(), topic)).collect();
        let known: HashMap<&str, &MirroredTopic> =
            seen.known.iter().map(|topic| (topic.source.as_str(), topic)).collect();
        let mut names = Names::new(seen, &wanted);

        for (source, target_name) in &wanted {
            let known = known.get(source.name.as_str()).copied();
            let stop = looped(seen, &source.name, target_name)
                .or_else(|| names.collision(seen, &source.name, target_name))
                .or_else(|| made_again(known, source, target_name, &targets));
            if let Some((code, reason)) = stop {
                plan.stopped.push(TopicVerdict {
                    topic: source.name.clone(),
                    target: target_name.clone(),
                    partitions: None,
                    code,
                    reason,
                });
                continue;
            }
            if let Some(target) = targets.get(target_name.as_str()) {
                self.follow(&mut plan, seen, source, target, sync_configs);
            } else {
                names.take(target_name);
                self.create(&mut plan, seen, source, target_name);
            }
        }
        deleted(&mut plan, seen);
        plan
    }

    /// Refusals of topics that are not wanted any more mean nothing.
    fn forget_refusals(&mut self, wanted: &[(&TopicListing, TopicName)]) {
        let names: BTreeSet<&TopicName> = wanted.iter().map(|(_, target)| target).collect();
        self.configs.retain(|target, _| names.contains(target));
        self.creations.retain(|target, _| names.contains(target));
        self.growths.retain(|target, _| names.contains(target));
    }

    /// A topic that is not on the target.
    fn create(
        &self,
        plan: &mut TopicPlan,
        seen: &Seen<'_>,
        source: &TopicListing,
        target: &TopicName,
    ) {
        let verdict = |code, reason| TopicVerdict {
            topic: source.name.clone(),
            target: target.clone(),
            partitions: None,
            code,
            reason,
        };
        let Some(entries) = &source.configs else {
            // Created without them it would have the wrong retention for as long as that lasts.
            plan.stopped.push(verdict(
                Code::TopicMissingOnTarget,
                "not created yet: the configs of the source topic could not be read".to_owned(),
            ));
            return;
        };
        if let Some(message) = self.creations.get(target) {
            plan.stopped.push(verdict(
                Code::TopicMissingOnTarget,
                format!("the target refused to create {target}: {message}; it is tried again"),
            ));
        }
        self.report_refused(plan, source, target);
        plan.create.push(Creation {
            source: source.name.clone(),
            target: target.clone(),
            partitions: source.partitions,
            replication_factor: seen.flow.replication_factor,
            configs: configs::wanted(seen.flow, entries, self.refused_of(target)),
        });
    }

    /// A topic that both sides have.
    fn follow(
        &mut self,
        plan: &mut TopicPlan,
        seen: &Seen<'_>,
        source: &TopicListing,
        target: &TopicListing,
        sync_configs: bool,
    ) {
        self.creations.remove(&target.name);
        let verdict = |partitions, reason| TopicVerdict {
            topic: source.name.clone(),
            target: target.name.clone(),
            partitions: Some(partitions),
            code: Code::PartitionCountDiffers,
            reason,
        };
        let (from, to) = (target.partitions, source.partitions);
        if from < to {
            let why = self.growths.get(&target.name);
            let reason = match why {
                Some(message) => format!(
                    "the target has {from} partitions, the source {to}, and the target refused more: \
                     {message}; it is tried again"
                ),
                None => format!("the target has {from} partitions yet, the source {to}"),
            };
            // Unless refused, the partitions come with the next plan: no finding.
            if why.is_some() {
                plan.stopped.push(verdict(from..to, reason));
            }
            plan.grow.push(Growth { target: target.name.clone(), count: to });
        } else {
            self.growths.remove(&target.name);
            if from > to {
                plan.findings.push(verdict(
                    to..from,
                    format!(
                        "the target has {from} partitions, the source {to}: nothing is copied to the \
                         others, and consumers that rely on keys' partitions will not find them there"
                    ),
                ));
            }
        }
        plan.mirror.push(MirroredTopic {
            source: source.name.clone(),
            source_id: source.id,
            target: target.name.clone(),
            target_id: target.id,
            partitions: from.min(to),
        });
        self.report_refused(plan, source, &target.name);
        if let (true, Some(wanted), Some(present)) =
            (sync_configs, &source.configs, &target.configs)
        {
            let refused = self.refused_of(&target.name);
            let changes = configs::changes(seen.flow, wanted, present, refused);
            if !changes.is_empty() {
                plan.alter.push(Alteration { target: target.name.clone(), changes });
            }
        }
    }

    fn refused_of(&self, target: &TopicName) -> &BTreeMap<String, Refused> {
        static NONE: BTreeMap<String, Refused> = BTreeMap::new();
        self.configs.get(target).unwrap_or(&NONE)
    }

    fn report_refused(&self, plan: &mut TopicPlan, source: &TopicListing, target: &TopicName) {
        let entries = source.configs.as_deref().unwrap_or_default();
        for (name, refused) in self.refused_of(target) {
            // Clusters before 3.6 know no limit on future timestamps, so lifting it is not missed.
            if name == AFTER_MAX.0 && !configs::sets(entries, name, &refused.value) {
                continue;
            }
            plan.findings.push(TopicVerdict {
                topic: source.name.clone(),
                target: target.clone(),
                partitions: None,
                code: Code::ConfigRefused,
                reason: format!(
                    "{name}={} is left out, the target refuses it: {}",
                    refused.value, refused.message
                ),
            });
        }
    }
}

fn remote_name(seen: &Seen<'_>, topic: &TopicName) -> TopicName {
    seen.flow.policy.format_remote_topic(seen.flow.name.source.as_str(), topic.as_str())
}

/// Whether records of the topic would come back: the other direction copies the mirrored topic, and
/// what it makes of it is copied here again.
fn looped(seen: &Seen<'_>, topic: &TopicName, target: &TopicName) -> Option<(Code, String)> {
    let opposite = seen.opposite.filter(|flow| replicates(flow, target.as_str()))?;
    let back = opposite.policy.format_remote_topic(opposite.name.source.as_str(), target.as_str());
    (back == *topic || replicates(seen.flow, back.as_str())).then(|| {
        let reason = format!(
            "{} copies it to {target} and {} copies that to {back}: records would go round for ever; \
             leave the topic out of one of the two",
            seen.flow.name, opposite.name
        );
        (Code::ReplicationLoop, reason)
    })
}

/// Whether one of the two topics is another one than what was mirrored before.
fn made_again(
    known: Option<&MirroredTopic>,
    source: &TopicListing,
    target: &TopicName,
    targets: &HashMap<&str, &TopicListing>,
) -> Option<(Code, String)> {
    // Another name on the target (a changed policy) is another mirror.
    let known = known.filter(|known| known.target == *target)?;
    if differ(known.source_id, source.id) {
        let reason = format!(
            "{} was deleted on the source and made again: what was copied is of the topic {}, this \
             one is {}; to copy it behind the old one: twinlog resume FILE --topic '{}' --accept-gap",
            source.name, known.source_id, source.id, source.name
        );
        return Some((Code::TopicRecreated, reason));
    }
    match targets.get(target.as_str()) {
        None => Some((
            Code::TopicMissingOnTarget,
            format!("{target} was deleted on the target, with all that was copied to it"),
        )),
        Some(found) if differ(known.target_id, found.id) => Some((
            Code::TargetRecreated,
            format!(
                "{target} was deleted on the target and made again: records were copied to the topic \
                 {}, this one is {}",
                known.target_id, found.id
            ),
        )),
        Some(_) => None,
    }
}

/// Clusters without topic ids cannot tell.
fn differ(a: TopicId, b: TopicId) -> bool {
    !a.is_none() && !b.is_none() && a != b
}

/// Topics that were mirrored and are gone from the source. Nothing happens on the target.
fn deleted(plan: &mut TopicPlan, seen: &Seen<'_>) {
    let present: BTreeSet<&str> = seen.source.iter().map(|topic| topic.name.as_str()).collect();
    for known in seen.known {
        if !present.contains(known.source.as_str()) && replicates(seen.flow, known.source.as_str())
        {
            plan.stopped.push(TopicVerdict {
                topic: known.source.clone(),
                target: known.target.clone(),
                partitions: None,
                code: Code::SourceTopicDeleted,
                reason: format!(
                    "{} is gone from the source; {} keeps what was copied",
                    known.source, known.target
                ),
            });
        }
    }
}

/// Whose the names on the target are.
struct Names {
    /// Which topics of the source want a name.
    wanted_by: HashMap<TopicName, Vec<TopicName>>,
    /// Names that exist there, as brokers compare them: `.` and `_` are one character in metrics.
    folded: HashMap<String, TopicName>,
}

impl Names {
    fn new(seen: &Seen<'_>, wanted: &[(&TopicListing, TopicName)]) -> Self {
        let mut wanted_by: HashMap<TopicName, Vec<TopicName>> = HashMap::new();
        for (source, target) in wanted {
            wanted_by.entry(target.clone()).or_default().push(source.name.clone());
        }
        let folded =
            seen.target.iter().map(|topic| (fold(&topic.name), topic.name.clone())).collect();
        Self { wanted_by, folded }
    }

    /// Whether `target` cannot be this topic's. Of several sources none is chosen, except one that
    /// was mirrored before.
    fn collision(
        &self,
        seen: &Seen<'_>,
        source: &TopicName,
        target: &TopicName,
    ) -> Option<(Code, String)> {
        if let Some(flow) = seen.claimed.get(target) {
            let reason = format!("{flow} copies into {target} already");
            return Some((Code::NamesCollide, reason));
        }
        let others: Vec<&str> = self.wanted_by[target]
            .iter()
            .filter(|other| *other != source)
            .map(TopicName::as_str)
            .collect();
        let mirrored = |topic: &str| {
            seen.known.iter().any(|k| k.source.as_str() == topic && k.target == *target)
        };
        if !others.is_empty()
            && (!mirrored(source.as_str()) || others.iter().any(|other| mirrored(other)))
        {
            let reason = format!("{target} would be the mirror of {} as well", others.join(", "));
            return Some((Code::NamesCollide, reason));
        }
        let other = self.folded.get(&fold(target)).filter(|other| *other != target)?;
        let exists = seen.target.iter().any(|topic| topic.name == *target);
        (!exists).then(|| {
            let reason = format!(
                "{other} exists, and brokers refuse {target} beside it: the two names differ only in \
                 . and _"
            );
            (Code::NamesCollide, reason)
        })
    }

    /// A topic of this name is about to exist.
    fn take(&mut self, target: &TopicName) {
        self.folded.entry(fold(target)).or_insert_with(|| target.clone());
    }
}

fn fold(name: &TopicName) -> String {
    name.as_str().replace('.', "_")
}
