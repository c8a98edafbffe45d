//! The same jobs where one side, or both, is a cluster of `twinlog embedded`: whoever mirrors, real
//! MirrorMaker 2 included, must not see a difference.

use std::collections::BTreeMap;
use std::time::Instant;

use twinlog_testkit::ring::TestResult;
use twinlog_testkit::{CommitAs, Embedded, Mm2, TopicKind, TopicPlan, Workload};

use crate::setup::{
    self, LIMIT, binary, flows_file, places, prefixed, read_on, until_equal, until_placed,
};
use crate::several::small_copy;

pub(crate) fn from_embedded() -> TestResult {
    let source = Embedded::start(binary(), &[])?;
    small_copy(source.bootstrap(), &setup::pair()?.world.bootstrap(), "tried-")
}

pub(crate) fn to_embedded() -> TestResult {
    let target = Embedded::start(binary(), &["--brokers", "3"])?;
    small_copy(&setup::pair()?.hello.bootstrap(), target.bootstrap(), "trial-")
}

pub(crate) fn mm2_between() -> TestResult {
    let pair = setup::pair()?;
    let shell = &pair.shell;
    let (hello, world) = (Embedded::start(binary(), &[])?, Embedded::start(binary(), &[])?);
    let (hello, world) = (hello.bootstrap(), world.bootstrap());
    let topic = |name: &str, kind| TopicPlan {
        name: format!("mm2-{name}"),
        kind,
        partitions: 3,
        records: 3_000,
    };
    let workload = Workload {
        topics: vec![
            topic("plain", TopicKind::Plain),
            topic("transactional", TopicKind::Transactional),
            topic("compacted", TopicKind::Compacted),
            topic("trimmed", TopicKind::Trimmed),
        ],
        replication: 1,
        value_bytes: 100,
    };
    workload.load(shell, hello)?;
    let names = workload.names();
    let clusters = [("hello", hello), ("world", world)];
    // MM2 knows the place of each record, and aborted records are no data for it either.
    let properties = flows_file(&clusters, &[("hello", "world")], "mm2-.*", "mm2-")
        + "offset.lag.max = 0
emit.checkpoints.interval.seconds = 1
sync.group.offsets.interval.seconds = 1
refresh.topics.interval.seconds = 1
refresh.groups.interval.seconds = 1
hello.consumer.isolation.level = read_committed
hello->world.consumer.auto.offset.reset = earliest
dedicated.mode.enable.internal.rest = false
";
    let start = Instant::now();
    let mm2 = Mm2::start(&pair.jars, &properties)?;
    println!("MM2 runs after {:.1?}", start.elapsed());
    let mirrored = || -> setup::Result<usize> {
        let (original, copy) = until_equal(shell, (hello, world), &names, prefixed("hello"))?;
        // MM2 translates exactly at the end, and coarsely further behind; so only places near the end
        // are judged.
        let mut commits = BTreeMap::new();
        for lag in [0, 1] {
            let group = format!("mm2-lag-{lag}");
            let offsets = shell.commit_at_lag(hello, &group, &names, lag, CommitAs::Member)?;
            commits.insert(group, offsets);
        }
        let places = places(&commits, (&original, &copy), prefixed("hello"))?;
        until_placed(shell, world, &places, LIMIT)?;
        read_on(shell, world, &places)?;
        println!("{} records and {} places by MM2", original.records(), places.len());
        Ok(places.len())
    };
    let count = mirrored().map_err(|error| {
        format!("{error}\nthe log of MM2 ends with\n{}", mm2.process().log_tail(30))
    })?;
    assert_eq!(count, 2 * 4 * 3);
    println!("after {:.1?}", start.elapsed());
    let log = mm2.process().log();
    // A group that reads on has a member for a moment: MM2's commit is refused then, as anywhere.
    let refused = "Unable to sync offsets for consumer group";
    let errors: Vec<&str> =
        log.lines().filter(|line| line.contains(" ERROR ") && !line.contains(refused)).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    mm2.stop()?;
    Ok(())
}
