//! Share groups (KIP-932), with Kafka's own tool and consumer as judges.

use std::collections::BTreeMap;

use twinlog_testkit::ring::TestResult;
use twinlog_testkit::{JavaTool, Offsets, Shell, wait_until_some};

use crate::following::mirrored;
use crate::setup::{self, Pair, Result, SOON, entry, hello_world, places, prefixed, until_equal};

const GROUP: &str = "share-group";
const TOPIC: &str = "share-topic";
const MIRROR: &str = "hello.share-topic";

/// What `kafka-share-groups.sh --describe --offsets` says of the group: where it begins, by partition.
fn starts(shell: &Shell, cluster: &str) -> Result<BTreeMap<i32, i64>> {
    let args = ["--bootstrap-server", cluster, "--describe", "--offsets", "--group", GROUP];
    let said = shell.tool(JavaTool::SHARE_GROUPS, &args)?;
    let rows = said.stdout.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let starts = rows.filter_map(|row| match row[..] {
        [GROUP, _, partition, start, ..] => Some((partition.parse().ok()?, start.parse().ok()?)),
        _ => None,
    });
    Ok(starts.collect())
}

/// Moves the group to the end of the topic, as an operator does.
fn to_the_end(shell: &Shell, cluster: &str) -> Result<Offsets> {
    let args = ["--bootstrap-server", cluster, "--reset-offsets", "--to-latest", "--topic", TOPIC]
        .into_iter()
        .chain(["--group", GROUP, "--execute"]);
    let said = shell.tool(JavaTool::SHARE_GROUPS, &args.collect::<Vec<_>>())?;
    let ends = shell.end_offsets(cluster, TOPIC)?;
    assert_eq!(starts(shell, cluster)?, ends, "{said:?}");
    Ok(BTreeMap::from([(TOPIC.to_owned(), ends)]))
}

/// What a member of the group reads until nothing comes any more, and acknowledges.
fn read(pair: &Pair, cluster: &str) -> Result<Vec<String>> {
    let args = ["--bootstrap-server", cluster, "--topic", MIRROR, "--group", GROUP]
        .into_iter()
        .chain(["--max-messages", "21", "--timeout-ms", "3000"]);
    let read = JavaTool::new(&pair.jars, JavaTool::CONSOLE_SHARE_CONSUMER).args(args).output()?;
    Ok(read.stdout.lines().map(str::to_owned).collect())
}

pub(crate) fn begins_on_the_target() -> TestResult {
    let pair = setup::pair()?;
    let (shell, hello, world) = (&pair.shell, pair.hello.bootstrap(), pair.world.bootstrap());
    // Offsets differ: there are markers on the source.
    let (mirror, run) = mirrored(pair, "share-", TOPIC)?;
    for value in ["second", "third"] {
        let offsets = to_the_end(shell, &hello)?;
        let records: Vec<_> = (0..20).map(|i| (i % 2, Some("key"), Some(value))).collect();
        shell.produce(&hello, TOPIC, &records, &[("transactional.id", "share-")])?;
        let equal = until_equal(shell, (&hello, &world), &[TOPIC], prefixed("hello"));
        let (original, copy) = setup::or_log(&run, equal)?;
        let group = GROUP.to_owned();
        let places = places([(&group, &offsets)], (&original, &copy), prefixed("hello"))?;
        let there = wait_until_some("the share group at its place", SOON, || {
            let stands = starts(shell, &world).map_err(|error| error.to_string())?;
            let astray = places.iter().find(|place| {
                !stands.get(&place.partition).is_some_and(|at| place.expected.is_exactly(*at))
            });
            astray.map_or(Ok(()), |place| Err(format!("{place}, but it begins at {stands:?}")))
        });
        setup::or_log(&run, there.map_err(Into::into))?;
    }
    let answer = mirror.ask("status", &["--group", GROUP])?;
    let groups = &hello_world(&answer.document)?["groups"];
    let group = entry(groups, "group", GROUP).ok_or("not in status")?;
    let stands = (&group["kind"], &group["state"], &group["code"]);
    assert_eq!(stands, (&"share".into(), &"in-sync".into(), &serde_json::Value::Null), "{group}");

    // A member on the target reads what the source's members have not read, and nothing else.
    assert_eq!(read(pair, &world)?, ["third"; 20]);

    // What it read there is not taken back. Brokers tell of it with what is acknowledged next.
    let records: Vec<_> = (0..20).map(|i| (i % 2, Some("key"), Some("fourth"))).collect();
    shell.produce(&hello, TOPIC, &records, &[("transactional.id", "share-")])?;
    let equal = until_equal(shell, (&hello, &world), &[TOPIC], prefixed("hello"));
    setup::or_log(&run, equal)?;
    assert_eq!(read(pair, &world)?, ["fourth"; 20]);
    let explained = wait_until_some("target-ahead in status", SOON, || {
        let answer = mirror.ask("status", &["--group", GROUP]).map_err(|e| e.to_string())?;
        let flow = hello_world(&answer.document).map_err(|error| error.to_string())?;
        let group = entry(&flow["groups"], "group", GROUP).ok_or("not there")?;
        if group["code"] == "target-ahead" { Ok(()) } else { Err(group.to_string()) }
    });
    setup::or_log(&run, explained.map_err(Into::into))?;
    let (stands, ends) = (starts(shell, &world)?, shell.end_offsets(&world, MIRROR)?);
    assert!(
        stands.iter().all(|(partition, at)| *at >= ends[partition] - 10),
        "{stands:?} {ends:?}"
    );
    setup::stop(&run)?;
    Ok(())
}
