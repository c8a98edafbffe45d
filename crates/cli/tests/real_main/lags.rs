//! What a failover costs a group, by how far it lags and by what its topic is like: counted in records,
//! by contents, for twinlog before and after a restart and for MirrorMaker 2 beside it.
//!
//! The small size runs always. `TWINLOG_BENCH=1` takes partitions of 2,000,000 records, half an
//! hour and three gigabytes of disk.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use twinlog_testkit::oracle::compare;
use twinlog_testkit::ring::TestResult;
use twinlog_testkit::{
    CommitAs, Dump, Misplaced, Mm2, Offsets, TopicKind, TopicPlan, Workload, wait_until_some,
};

use crate::setup::{
    self, LIMIT, Mirror, Pair, Place, Result, bench, flows_file, places, prefixed, until_placed,
};

const PLAIN: &str = "lg-plain";
const ABORTED: &str = "lg-aborted";
const COMPACTED: &str = "lg-compacted";
const TOPICS: [&str; 3] = [PLAIN, ABORTED, COMPACTED];

/// How much there is, and how long to wait for it.
#[derive(Clone, Copy)]
struct Size {
    /// Records in the one partition of each topic, before compaction and without aborted ones.
    records: u64,
    lags: &'static [i64],
    /// Until a mirror has all of it.
    copied: Duration,
    /// MM2's groups that have not moved for so long move no more: many times its interval.
    still: Duration,
}

impl Size {
    fn chosen() -> Self {
        if bench() {
            return Self {
                records: 2_000_000,
                lags: &[0, 1, 50, 150, 5_000, 50_000, 1_000_000],
                copied: 30 * LIMIT,
                still: Duration::from_secs(20),
            };
        }
        Self {
            records: 20_000,
            lags: &[0, 1, 50, 150, 5_000, 10_000],
            copied: LIMIT,
            still: Duration::from_secs(4),
        }
    }
}

/// What each group would read again or skip, by topic and lag; nothing where it has no position.
type Costs = BTreeMap<(String, i64), Option<Misplaced>>;

/// The source, filled and read.
struct Source<'a> {
    pair: &'a Pair,
    size: Size,
    original: Dump,
}

impl<'a> Source<'a> {
    fn load(pair: &'a Pair) -> Result<Self> {
        let (shell, hello, size) = (&pair.shell, pair.hello.bootstrap(), Size::chosen());
        let start = Instant::now();
        let mut original = Dump::default();
        for (name, kind) in [
            (PLAIN, TopicKind::Plain),
            (ABORTED, TopicKind::TenthAborted),
            (COMPACTED, TopicKind::CompactedToTheEnd),
        ] {
            let records = size.records;
            let plan = TopicPlan { name: name.to_owned(), kind, partitions: 1, records };
            Workload { topics: vec![plan], replication: 1, value_bytes: 100 }
                .load(shell, &hello)?;
            original.logs.extend(shell.dump(&hello, &[name])?.logs);
        }
        println!("loaded and read in {:.1?}", start.elapsed());
        for ((topic, _), log) in &original.logs {
            println!("  {topic}: {} readable records in {} offsets", log.rows.len(), log.end);
        }
        Ok(Self { pair, size, original })
    }

    /// A group for each lag, called `<prefix><lag>`.
    fn commit(&self, prefix: &str) -> Result<BTreeMap<String, Offsets>> {
        let (shell, hello) = (&self.pair.shell, self.pair.hello.bootstrap());
        let mut commits = BTreeMap::new();
        for lag in self.size.lags {
            let group = format!("{prefix}{lag}");
            let offsets = shell.commit_at_lag(&hello, &group, &TOPICS, *lag, CommitAs::Admin)?;
            commits.insert(group, offsets);
        }
        Ok(commits)
    }

    /// Waits for all records in the mirrors of `alias`, and compares them with the originals.
    fn copied(&self, alias: &str) -> Result<Dump> {
        let (shell, world) = (&self.pair.shell, self.pair.world.bootstrap());
        let start = Instant::now();
        let mut copy = Dump::default();
        for topic in TOPICS {
            let wanted = self.original.log(topic, 0).ok_or("not read")?.rows.len() as i64;
            let mirror = prefixed(alias)(topic);
            wait_until_some(&format!("{wanted} records in {mirror}"), self.size.copied, || {
                let ends = shell.end_offsets(&world, &mirror).map_err(|error| error.to_string())?;
                let end = ends.get(&0).copied().unwrap_or_default();
                if end >= wanted { Ok(()) } else { Err(format!("{end}")) }
            })?;
        }
        println!("{alias}: all copied after {:.1?}", start.elapsed());
        for topic in TOPICS {
            copy.logs.extend(shell.dump(&world, &[&prefixed(alias)(topic)])?.logs);
        }
        compare(&self.original, &copy, prefixed(alias)).check()?;
        Ok(copy)
    }

    fn places(
        &self,
        commits: &BTreeMap<String, Offsets>,
        copy: &Dump,
        alias: &str,
    ) -> Result<Vec<Place>> {
        places(commits, (&self.original, copy), prefixed(alias))
    }

    /// Where the groups stand on the target.
    fn stand(&self, places: &[Place]) -> Result<Vec<Option<i64>>> {
        let (shell, world) = (&self.pair.shell, self.pair.world.bootstrap());
        let mut groups = BTreeMap::new();
        let mut all = Vec::new();
        for place in places {
            if !groups.contains_key(&place.group) {
                let committed = setup::offsets(&shell.committed(&world, &place.group)?);
                groups.insert(place.group.clone(), committed);
            }
            let of_topic = groups[&place.group].get(&place.topic);
            all.push(of_topic.and_then(|partitions| partitions.get(&place.partition)).copied());
        }
        Ok(all)
    }

    /// Waits until the groups stand where they must, or one without lag does and none moves any more.
    fn until_still(&self, places: &[Place]) -> Result<Vec<Option<i64>>> {
        let (mut last, mut since) = (Vec::new(), Instant::now());
        Ok(wait_until_some("groups that stand still", self.size.copied, || {
            let now = self.stand(places).map_err(|error| error.to_string())?;
            let exact = |(place, at): (&Place, &Option<i64>)| {
                at.is_some_and(|at| place.expected.is_exactly(at))
            };
            let at_the_end = |place: &Place| place.group.ends_with("-0");
            let ended = places.iter().zip(&now).filter(|(place, _)| at_the_end(place)).all(exact);
            if places.iter().zip(&now).all(exact) {
                return Ok(now);
            }
            if now != last {
                (last, since) = (now.clone(), Instant::now());
            }
            let still = since.elapsed() > self.size.still;
            if still && ended { Ok(now) } else { Err(format!("{now:?}")) }
        })?)
    }
}

/// What each group would read again or skip that stands there.
fn costs(places: &[Place], copy: &Dump, stand: &[Option<i64>]) -> Result<Costs> {
    let mut costs = Costs::new();
    for (place, at) in places.iter().zip(stand) {
        let log = copy.log(&place.topic, place.partition).ok_or("no such mirror")?;
        let cost = at.and_then(|at| place.expected.misplaced(at, log));
        let topic = place.topic.rsplit('.').next().unwrap_or_default();
        let lag = place.group.rsplit('-').next().unwrap_or_default().parse()?;
        costs.insert((topic.to_owned(), lag), cost);
    }
    Ok(costs)
}

fn by_twinlog(source: &Source<'_>) -> Result<[Costs; 2]> {
    let pair = source.pair;
    let (shell, hello, world) = (&pair.shell, pair.hello.bootstrap(), pair.world.bootstrap());
    let clusters = [("hello", hello.as_str()), ("world", world.as_str())];
    let mirror = Mirror::new(&flows_file(&clusters, &[("hello", "world")], "lg-.*", "lgt-"))?;
    let first = source.commit("lgt-before-")?;
    let run = mirror.run()?;
    let copy = setup::or_log(&run, source.copied("hello"))?;
    let places = source.places(&first, &copy, "hello")?;
    setup::or_log(&run, until_placed(shell, &world, &places, LIMIT))?;
    let before = costs(&places, &copy, &source.stand(&places)?)?;
    println!(
        "twinlog: cpu {:.1?}, highest memory {} MiB",
        run.process().cpu().unwrap_or_default(),
        run.process().rss_peak_bytes().unwrap_or_default() >> 20
    );
    setup::stop(&run)?;

    // Groups of which the process before knew nothing.
    let second = source.commit("lgt-after-")?;
    let run = mirror.run()?;
    let start = Instant::now();
    let late = source.places(&second, &copy, "hello")?;
    setup::or_log(&run, until_placed(shell, &world, &late, LIMIT))?;
    println!("twinlog: {} new positions {:.1?} after a restart", late.len(), start.elapsed());
    let after = costs(&late, &copy, &source.stand(&late)?)?;
    let still = costs(&places, &copy, &source.stand(&places)?)?;
    assert_eq!(still, before, "a restart moved groups");
    setup::stop(&run)?;
    let ends = shell.end_offsets(&world, "hello.lg-plain")?;
    assert_eq!(ends[&0] as u64, source.size.records, "a restart copied something twice");
    Ok([before, after])
}

/// MirrorMaker 2 at its best: a sync for every record, intervals of a second, and no aborted records.
/// It is restarted at full size only, for the sake of time.
fn by_mm2(source: &Source<'_>) -> Result<[Costs; 2]> {
    let pair = source.pair;
    let (hello, world) = (pair.hello.bootstrap(), pair.world.bootstrap());
    let clusters = [("lghello", hello.as_str()), ("lgworld", world.as_str())];
    let file = flows_file(&clusters, &[("lghello", "lgworld")], "lg-.*", "lgm-")
        + "dedicated.mode.enable.internal.rest = false\n\
           offset.lag.max = 0\n\
           tasks.max = 3\n\
           emit.checkpoints.interval.seconds = 1\nsync.group.offsets.interval.seconds = 1\n\
           refresh.topics.interval.seconds = 1\nrefresh.groups.interval.seconds = 1\n\
           lghello->lgworld.offset.flush.interval.ms = 1000\n\
           lgworld.offset.flush.interval.ms = 1000\n\
           lghello.consumer.isolation.level = read_committed\n";
    let first = source.commit("lgm-before-")?;
    let mm2 = Mm2::start(&pair.jars, &file)?;
    let copy = source.copied("lghello")?;
    let places = source.places(&first, &copy, "lghello")?;
    let before = costs(&places, &copy, &source.until_still(&places)?)?;
    mm2.stop()?;
    if !bench() {
        return Ok([before, Costs::new()]);
    }
    let mm2 = Mm2::start(&pair.jars, &file)?;
    let second = source.commit("lgm-after-")?;
    let late = source.places(&second, &copy, "lghello")?;
    let after = costs(&late, &copy, &source.until_still(&late)?)?;
    mm2.kill()?;
    Ok([before, after])
}

fn print(source: &Source<'_>, columns: &[Costs; 4]) {
    println!("  records read again / skipped after a failover");
    println!(
        "  {:<13} {:>9} {:>15} {:>18} {:>18} {:>18}",
        "topic", "lag", "twinlog", "twinlog, restarted", "MirrorMaker 2", "MM2, restarted"
    );
    for topic in TOPICS {
        for lag in source.size.lags {
            let key = (topic.to_owned(), *lag);
            let cell = |costs: &Costs| match costs.get(&key) {
                Some(Some(Misplaced { reread, skipped })) => format!("{reread} / {skipped}"),
                Some(None) => "no position".to_owned(),
                None => "-".to_owned(),
            };
            let [a, b, c, d] = columns.each_ref().map(cell);
            println!("  {topic:<13} {lag:>9} {a:>15} {b:>18} {c:>18} {d:>18}");
        }
    }
}

pub(crate) fn table() -> TestResult {
    let source = Source::load(setup::pair()?)?;
    let [before, after] = by_twinlog(&source)?;
    let [mm2_before, mm2_after] = by_mm2(&source)?;
    let columns = [before, after, mm2_before, mm2_after];
    print(&source, &columns);
    let groups = source.size.lags.len() * TOPICS.len();
    for costs in &columns[..2] {
        assert_eq!(costs.len(), groups);
        for (place, cost) in costs {
            assert_eq!(*cost, Some(Misplaced::default()), "{place:?}");
        }
    }
    // Nothing that MM2 does is promised here, but that it reads again what twinlog does not.
    let again =
        |costs: &Costs| costs.values().filter(|cost| **cost != Some(Misplaced::default())).count();
    assert!(again(&columns[2]) + again(&columns[3]) > 0, "MM2 was exact everywhere");
    Ok(())
}
