//! Looks at two embedded clusters.

use std::ops::Deref;

use twinlog_doctor::{Chain, Diagnosis, Facts, Subject, Survey, Wanted, diagnose, explain};
use twinlog_embedded::{AuthorizerOptions, NewRecord};
use twinlog_worlds::{FILE, look_until};

/// Who runs the mirror, where clusters ask for rights; who looks at it is `User:ANONYMOUS`.
const ADMIN: &str = "User:admin";

/// Two clusters, and what the doctor says of them.
pub(crate) struct World(twinlog_worlds::World);

impl Deref for World {
    type Target = twinlog_worlds::World;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl From<twinlog_worlds::World> for World {
    fn from(world: twinlog_worlds::World) -> Self {
        Self(world)
    }
}

impl World {
    /// `orders` with 100 records, and groups in its middle.
    pub(crate) fn new(seed: u64) -> Self {
        Self::with(twinlog_worlds::World::new(seed))
    }

    /// The same on clusters that let nobody do anything but who runs the mirror.
    pub(crate) fn guarded(seed: u64) -> Self {
        let super_users = vec![ADMIN.to_owned()];
        let guard = AuthorizerOptions { super_users, ..AuthorizerOptions::default() };
        let world = twinlog_worlds::World::with(seed, |source, target| {
            source.authorizer = Some(guard.clone());
            target.authorizer = Some(guard);
        });
        Self::with(world.run_by(ADMIN))
    }

    /// The same in a world that is there.
    pub(crate) fn with(world: twinlog_worlds::World) -> Self {
        let lines = "hello->world.groups.exclude = out-.*\nemit.checkpoints.interval.seconds = 1";
        let world = Self(world.saying(lines));
        world.source.create_topic("orders", 1, &[]).expect("made");
        world.append("orders", 100);
        for group in ["app", "live", "back", "out-1"] {
            world.source.commit_offset(group, "orders", 0, 60).expect("committed");
        }
        world
    }

    /// So many records more in partition 0 of a topic of the source.
    pub(crate) fn append(&self, topic: &str, count: usize) {
        self.source.append(topic, 0, &records(count)).expect("appended");
    }

    pub(crate) async fn explain(&self, subject: Subject) -> Chain {
        let observer = self.observer("");
        let now_ms = self.target.now_ms();
        let config = observer.config.clone();
        let mut facts = Facts::new(config, subject, self.bootstrap(), Vec::new(), now_ms);
        facts.read(&observer).await;
        explain(&facts, None, FILE)
    }

    /// Everything, with these lines more in the file.
    pub(crate) async fn doctor(&self, lines: &str, wanted: &Wanted) -> Diagnosis {
        let reading = self.reading(lines);
        let observer = self.observer_of(&reading.configuration);
        let now_ms = self.target.now_ms();
        let mut survey =
            Survey::new(observer.config.clone(), self.bootstrap(), reading.notes, now_ms);
        survey.wanted.clone_from(wanted);
        survey.read(&observer).await;
        diagnose(&mut survey, wanted, FILE)
    }

    pub(crate) async fn group(&self, group: &str) -> Chain {
        self.explain(Subject::Group(group.into())).await
    }

    pub(crate) async fn topic(&self, topic: &str) -> Chain {
        self.explain(Subject::Topic(topic.into())).await
    }

    /// Explains the group until it is as wanted.
    pub(crate) async fn until(&self, group: &str, wanted: impl Fn(&Chain) -> bool) -> Chain {
        look_until(group, || self.group(group), wanted).await
    }
}

/// Records with keys of their own.
pub(crate) fn records(count: usize) -> Vec<NewRecord> {
    (0..count).map(|n| NewRecord::new(format!("k{n}"), "v")).collect()
}
