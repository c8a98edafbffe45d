//! Starting, killing, stopping and freezing instances.

use tokio::time::{Duration, Instant};

use crate::checks::{Invariant, i6_restart, state_bytes};
use crate::faults::Kind;
use crate::run::Simulation;
use crate::world::{Instance, mirror};

/// The durable state, as a topic.
pub(crate) const STATE: &str = "mm2-twinlog.hello.internal";
/// Instances at once.
const INSTANCES_MAX: usize = 2;

impl Simulation {
    /// One more instance.
    pub(crate) fn start_instance(&mut self) {
        let instance = self.world.start(self.started);
        self.started += 1;
        self.instances.push(instance);
    }

    pub(crate) fn start_second(&mut self) {
        if self.instances.len() < INSTANCES_MAX {
            self.start_instance();
            self.counts.note(Kind::Second.word());
        }
    }

    /// Kills an instance at a random moment, and starts another one at once or some time later.
    pub(crate) fn kill_one(&mut self) {
        if self.instances.is_empty() {
            self.start_instance();
            return;
        }
        let at = self.random.below(self.instances.len() as u64) as usize;
        let instance = self.instances.remove(at);
        self.kill(instance);
        self.counts.note(Kind::Killed.word());
        if self.random.one_in(2) {
            self.start_instance();
        }
    }

    fn kill(&mut self, instance: Instance) {
        instance.link.cut();
        self.hear(&instance);
        // Its tasks go without a word.
        drop(instance.engine);
        self.check_resume_points();
    }

    /// Instances whose trap has sprung are dead already; others take their place.
    pub(crate) fn bury(&mut self) {
        while let Some(at) = self.instances.iter().position(|one| one.link.sprung()) {
            let instance = self.instances.remove(at);
            self.kill(instance);
            self.counts.note(Kind::KilledAtRequest.word());
            self.start_instance();
        }
    }

    pub(crate) async fn stop_one(&mut self) {
        if self.instances.is_empty() {
            return;
        }
        let at = self.random.below(self.instances.len() as u64) as usize;
        let instance = self.instances.remove(at);
        instance.link.thaw();
        self.hear(&instance);
        instance.engine.shutdown().await;
        self.counts.note(Kind::Stopped.word());
        if self.instances.is_empty() {
            self.start_instance();
        }
    }

    pub(crate) fn freeze_one(&mut self) {
        let seconds = 1 + self.random.below(20);
        let at = self.random.below(self.instances.len().max(1) as u64) as usize;
        let Some(instance) = self.instances.get_mut(at) else { return };
        if instance.frozen_until.is_none() {
            instance.link.freeze();
            instance.frozen_until = Some(Instant::now() + Duration::from_secs(seconds));
            self.counts.note(Kind::Frozen.word());
        }
    }

    /// Lets instances go on whose time has come, or all of them.
    pub(crate) fn thaw(&mut self, all: bool) {
        let now = Instant::now();
        for instance in &mut self.instances {
            if instance.frozen_until.is_some_and(|until| all || now >= until) {
                instance.link.thaw();
                instance.frozen_until = None;
            }
        }
    }

    /// I6, at a kill: what is stored is covered by what the target holds.
    fn check_resume_points(&mut self) {
        self.look();
        for position in self.stored_positions() {
            let topics: Vec<String> = self.logs.keys().map(|(topic, _)| topic.clone()).collect();
            let about = topics.into_iter().find(|topic| {
                let id = |id: Option<twinlog_types::TopicId>| id.map(|id| id.0);
                id(self.world.source.topic_id(topic)) == Some(position.source_topic)
                    && id(self.world.target.topic_id(&mirror(topic))) == Some(position.target_topic)
            });
            let Some(topic) = about else { continue };
            let place = (topic, position.partition);
            // What the target lost after it was stored as copied is found at the next look.
            if self.target_lost.contains(&place) || self.target_compacted {
                continue;
            }
            // A new leader shows what it holds only once its followers have it.
            let (target, name) = (&self.world.target, mirror(&place.0));
            if target.high_watermark(&name, place.1) < target.log_end(&name, place.1) {
                continue;
            }
            let (Some(log), Some(mirror)) = (self.logs.get(&place), self.mirrors.get(&place))
            else {
                continue;
            };
            // Offsets that the source gave away twice say nothing about a position.
            if log.life > 0 || log.records.iter().any(|record| record.lost) {
                continue;
            }
            let found = i6_restart::ahead(&position, log, mirror);
            self.verdicts
                .note(Invariant::I6, found.map(|what| format!("{}-{}: {what}", place.0, place.1)));
        }
    }

    /// The newest stored position of every partition.
    pub(crate) fn stored_positions(&self) -> Vec<state_bytes::Position> {
        let target = &self.world.target;
        let mut newest = std::collections::BTreeMap::new();
        for shard in 0..target.partitions(STATE) {
            let records =
                target.records(STATE, shard as i32, twinlog_embedded::Isolation::ReadCommitted);
            for position in state_bytes::positions(&records) {
                let key = (position.source_topic, position.target_topic, position.partition);
                newest.insert(key, position);
            }
        }
        newest.into_values().collect()
    }
}
