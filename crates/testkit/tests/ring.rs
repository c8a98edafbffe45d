//! The testkit itself against real Apache Kafka: what the other rings stand on.

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use twinlog_testkit::oracle::{Expected, compare, translate};
use twinlog_testkit::ring::{self, TestResult, test};
use twinlog_testkit::workload::TRIMMED_AT;
use twinlog_testkit::{
    ClusterOptions, CommitAs, Jars, JavaTool, KafkaCluster, KafkaVersion, LiveEvent, Mm2, Process,
    Scratch, Shell, Workload, availability, wait_until, wait_until_some,
};

const LIMIT: Duration = Duration::from_mins(3);

/// Set in the child that abandons a program.
const ABANDON: &str = "TWINLOG_TESTKIT_ABANDON";

fn main() -> ExitCode {
    if std::env::var_os(ABANDON).is_some() {
        abandon();
    }
    ring::main(&[
        test("a_program_and_its_folder_end_with_an_aborted_test_process", abandoned),
        test("a_broker_of_4_3_0_keeps_records_over_stop_and_kill", broker_4_3_0),
        test("a_broker_of_3_9_1_keeps_records_over_stop_and_kill", broker_3_9_1),
        test("three_brokers_go_on_without_one", three_brokers),
        test("a_further_listener_authenticates_its_clients", scram),
        test("tools_answer_alike_in_the_shell_and_on_their_own", tools),
        test("the_workload_is_what_it_says", workload),
        test("a_live_workload_reports_what_is_there", live),
        test("the_oracle_finds_mirror_maker_2_faithful_and_the_probe_reads_its_checkpoints", mm2),
    ])
}

fn jars(version: KafkaVersion) -> Result<Jars, Box<dyn std::error::Error>> {
    Ok(availability()?.jars(version)?)
}

fn abandon() -> ! {
    let scratch = Scratch::new("abandoned").expect("a folder");
    let mut sleep = Command::new("sleep");
    sleep.arg("1000");
    let process = Process::start("sleep", sleep, &scratch.path().join("log")).expect("a program");
    println!("{} {}", process.pid(), scratch.path().display());
    std::process::abort();
}

fn abandoned() -> TestResult {
    let output = Command::new(std::env::current_exe()?).env(ABANDON, "1").output()?;
    assert!(!output.status.success());
    let line = String::from_utf8(output.stdout)?;
    let (pid, folder) = line.trim().split_once(' ').ok_or("no process id and folder")?;
    let process = Path::new("/proc").join(pid).join("cwd");
    // A dead process whose new parent has not looked yet is still listed, but without a folder.
    wait_until("end of the abandoned program", LIMIT, || process.read_link().is_err())?;
    wait_until("end of its folder", LIMIT, || !Path::new(folder).exists())?;
    Ok(())
}

fn broker_4_3_0() -> TestResult {
    broker(KafkaVersion::V4_3_0)
}

fn broker_3_9_1() -> TestResult {
    broker(KafkaVersion::V3_9_1)
}

fn broker(version: KafkaVersion) -> TestResult {
    let jars = jars(version)?;
    let options = ClusterOptions::default().property("num.partitions", "2");
    let mut cluster = KafkaCluster::start(&jars, "hello", &options)?;
    let shell = Shell::start(&jars)?;
    let bootstrap = cluster.bootstrap();
    shell.create_topic(&bootstrap, "orders", 2, 1, &[("cleanup.policy", "compact")])?;
    let offsets = shell.produce(
        &bootstrap,
        "orders",
        &[(0, Some("a"), Some("1")), (0, Some("b"), None), (1, None, Some(""))],
        &[("compression.type", "gzip")],
    );
    // A compacted topic refuses the record without a key.
    assert!(offsets.is_err_and(|error| error.to_string().contains("InvalidRecordException")));
    shell.configure_topic(&bootstrap, "orders", &[("cleanup.policy", "delete")])?;
    assert_eq!(shell.topic_configs(&bootstrap, "orders")?["cleanup.policy"], "delete");
    let records = [(1, Some("a"), Some("1")), (1, Some("b"), None), (1, None, Some(""))];
    let more = shell.produce(&bootstrap, "orders", &records, &[("transactional.id", "t")])?;
    assert_eq!(more, [0, 1, 2]);
    let before = shell.dump(&bootstrap, &["orders"])?;
    assert_eq!(before.log("orders", 1).map(|log| (log.rows.len(), log.end)), Some((3, 4)));

    cluster.stop()?;
    assert!(!cluster.broker(1).is_running());
    cluster.restart()?;
    assert_eq!(shell.dump(&bootstrap, &["orders"])?, before);
    cluster.broker(1).kill()?;
    cluster.broker(1).restart()?;
    assert_eq!(shell.dump(&bootstrap, &["orders"])?, before);
    cluster.broker(1).pause()?;
    assert!(cluster.broker(1).is_running());
    cluster.broker(1).resume()?;
    let process = cluster.brokers()[0].process().ok_or("no process")?;
    assert!(
        process.rss_bytes() > Some(50 << 20) && process.cpu() > Some(Duration::from_millis(500))
    );

    let (pid, data) = (process.pid(), cluster.brokers()[0].data_dir());
    assert!(data.exists());
    drop(cluster);
    assert!(!data.exists() && !Path::new(&format!("/proc/{pid}")).exists());
    Ok(())
}

fn three_brokers() -> TestResult {
    let jars = jars(KafkaVersion::V4_3_0)?;
    let mut cluster = KafkaCluster::start(&jars, "hello", &ClusterOptions::three())?;
    let shell = Shell::start(&jars)?;
    let bootstrap = cluster.bootstrap();
    shell.create_topic(&bootstrap, "orders", 3, 3, &[])?;
    let records = [(0, None, Some("x")), (1, None, Some("y")), (2, None, Some("z"))];
    assert_eq!(shell.produce(&bootstrap, "orders", &records, &[])?, [0, 0, 0]);
    cluster.broker(2).kill()?;
    assert_eq!(shell.produce(&bootstrap, "orders", &records, &[("acks", "all")])?, [1, 1, 1]);
    cluster.broker(2).restart()?;
    assert_eq!(shell.dump(&bootstrap, &["orders"])?.records(), 6);
    Ok(())
}

fn scram() -> TestResult {
    let jars = jars(KafkaVersion::V4_3_0)?;
    let module = "org.apache.kafka.common.security.scram.ScramLoginModule";
    let options = ClusterOptions::default()
        .listener("SASL_PLAINTEXT")
        .property(
            "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config",
            format!("{module} required;"),
        )
        .property("sasl.enabled.mechanisms", "SCRAM-SHA-512")
        .format_args(&["--add-scram", "SCRAM-SHA-512=[name=alice,password=secret]"]);
    let cluster = KafkaCluster::start(&jars, "hello", &options)?;
    let shell = Shell::start(&jars)?;
    let bootstrap = cluster.bootstrap_of("SASL_PLAINTEXT");
    let login = |password| format!("{module} required username=alice password={password};");
    let (right, wrong) = (login("secret"), login("wrong"));
    let configs = [
        ("security.protocol", "SASL_PLAINTEXT"),
        ("sasl.mechanism", "SCRAM-SHA-512"),
        ("sasl.jaas.config", right.as_str()),
    ];
    shell.client(&bootstrap, &configs)?;
    shell.create_topic(&bootstrap, "orders", 1, 1, &[])?;
    let records = [(0, None, Some("x"))];
    assert_eq!(shell.produce(&bootstrap, "orders", &records, &[])?, [0]);
    let refused = shell.produce(&bootstrap, "orders", &records, &[("sasl.jaas.config", &wrong)]);
    assert!(refused.is_err_and(|error| error.to_string().contains("SaslAuthenticationException")));
    Ok(())
}

fn tools() -> TestResult {
    let jars = jars(KafkaVersion::V4_3_0)?;
    let cluster = KafkaCluster::start(&jars, "hello", &ClusterOptions::default())?;
    let shell = Shell::start(&jars)?;
    let bootstrap = cluster.bootstrap();
    shell.create_topic(&bootstrap, "orders", 1, 1, &[])?;
    let args = ["--bootstrap-server", &bootstrap, "--list"];
    assert_eq!(JavaTool::new(&jars, JavaTool::TOPICS).args(args).run()?, "orders\n");
    let output = shell.tool(JavaTool::TOPICS, &args)?;
    assert_eq!((output.stdout.as_str(), output.success), ("orders\n", true), "{output:?}");
    let output = shell.tool(JavaTool::TOPICS, &["--bootstrap-server", &bootstrap, "--nonsense"])?;
    assert!(!output.success && output.stderr.contains("nonsense"), "{output:?}");
    // A tool in Scala has its own idea of standard output.
    let args = ["--bootstrap-server", &bootstrap, "--describe", "--topic", "orders"];
    let output = shell.tool(JavaTool::CONFIGS, &args)?;
    assert!(output.stdout.contains("configs for topic orders"), "{output:?}");

    let scratch = Scratch::new("source")?;
    let source = scratch.write(
        "Greeting.java",
        "class Greeting { public static void main(String[] a) { System.out.print(a[0] + \
         org.apache.kafka.common.Uuid.ZERO_UUID); } }",
    )?;
    let greeting = JavaTool::from_source(&jars, &source, &scratch)?.args(["hi "]).run()?;
    assert_eq!(greeting, "hi AAAAAAAAAAAAAAAAAAAAAA");
    Ok(())
}

fn workload() -> TestResult {
    let jars = jars(KafkaVersion::V4_3_0)?;
    let cluster = KafkaCluster::start(&jars, "hello", &ClusterOptions::default())?;
    let shell = Shell::start(&jars)?;
    let bootstrap = cluster.bootstrap();
    let workload = Workload::standard(18_000, 2);
    let loaded = workload.load(&shell, &bootstrap)?;
    println!("loaded {loaded:?}");
    assert!(loaded.records >= 18_000 && loaded.aborted > 0);
    let dump = shell.dump(&bootstrap, &workload.names())?;
    for ((topic, partition), log) in &dump.logs {
        let numbers: Vec<i64> = log.rows.iter().map_while(|row| row.number).collect();
        assert_eq!(
            numbers.len(),
            log.rows.len(),
            "{topic}-{partition} has records without a number"
        );
        assert!(numbers.is_sorted_by(|a, b| a < b), "{topic}-{partition} is out of order");
        let whole = numbers.iter().zip(numbers[0]..).all(|(a, b)| *a == b);
        let markers = log.end - log.start > log.rows.len() as i64;
        match topic.as_str() {
            "transactional" => assert!(whole && markers, "{topic}-{partition}"),
            "compacted" => assert!(!whole && markers, "{topic}-{partition}"),
            "trimmed" => assert!(whole && log.start == TRIMMED_AT, "{topic}-{partition}"),
            _ => assert!(whole && !markers && log.start == 0, "{topic}-{partition}"),
        }
        let newest = log.rows.last().map_or(0, |row| row.content.timestamp);
        let old = log.rows.iter().any(|row| row.content.timestamp < newest - 86_400_000);
        assert!(old, "{topic}-{partition} has no old records");
    }
    let all = shell.dump_with(&bootstrap, &workload.names(), "read_uncommitted")?;
    assert_eq!(all.records() as u64, dump.records() as u64 + loaded.aborted);
    assert_eq!(shell.dump(&bootstrap, &workload.names())?, dump, "the cleaner is still at work");

    for (group, lag, commit_as) in [("far", 500, CommitAs::Admin), ("end", 0, CommitAs::Member)] {
        let topics = ["plain", "transactional", "compacted"];
        let offsets = shell.commit_at_lag(&bootstrap, group, &topics, lag, commit_as)?;
        let committed = shell.committed(&bootstrap, group)?;
        for next in shell.next_records(&bootstrap, group)? {
            let committed = committed[&next.topic][&next.partition].offset;
            assert_eq!(committed, offsets[&next.topic][&next.partition]);
            let log = dump.log(&next.topic, next.partition).ok_or("no such partition")?;
            match translate(log, log, committed) {
                Expected::Record { offset, number } => {
                    assert_eq!((next.offset, next.number), (Some(offset), number));
                }
                Expected::End { .. } => assert_eq!(next.offset, None),
                Expected::Missing { source } => return Err(format!("missing {source:?}").into()),
            }
        }
    }
    let groups = shell.groups(&bootstrap)?;
    assert!(groups.contains_key("far") && groups.contains_key("end"), "{groups:?}");
    Ok(())
}

fn live() -> TestResult {
    let jars = jars(KafkaVersion::V4_3_0)?;
    let cluster = KafkaCluster::start(&jars, "hello", &ClusterOptions::default())?;
    let shell = Shell::start(&jars)?;
    let bootstrap = cluster.bootstrap();
    let workload = Workload::standard(1_000, 0);
    workload.load(&shell, &bootstrap)?;
    let live = workload.live(&shell, &bootstrap, 500, Some("follower"))?;
    wait_until_some("500 acknowledged records", LIMIT, || {
        let totals = live.totals().map_err(|error| error.to_string())?;
        if totals.acknowledged > 500 && totals.committed > 0 {
            Ok(())
        } else {
            Err(format!("{totals:?}"))
        }
    })?;
    let (totals, events) = live.stop()?;
    assert_eq!(totals.failed, 0);
    let dump = shell.dump(&bootstrap, &workload.names())?;
    let mut committed = 0;
    for event in events {
        match event {
            LiveEvent::Acknowledged { topic, partition, number, offset, .. } => {
                let log = dump.log(&topic, partition).ok_or("no such partition")?;
                let row = log.rows.iter().find(|row| row.offset == offset);
                assert_eq!(row.and_then(|row| row.number), Some(number), "{topic}-{partition}");
            }
            LiveEvent::Committed { .. } => committed += 1,
            LiveEvent::Failed { error } => return Err(error.into()),
        }
    }
    assert_eq!(committed, totals.committed);
    // The follower goes on until nothing is left.
    let left = shell.next_records(&bootstrap, "follower")?;
    assert!(left.iter().all(|next| next.offset.is_none()), "{left:?}");
    Ok(())
}

fn mm2() -> TestResult {
    let jars = jars(KafkaVersion::V4_3_0)?;
    let options = ClusterOptions::default();
    let (source, target) =
        KafkaCluster::start_two((&jars, "hello", &options), (&jars, "world", &options))?;
    let shell = Shell::start(&jars)?;
    let workload = Workload::standard(6_000, 0);
    workload.load(&shell, &source.bootstrap())?;
    let topics = ["plain", "transactional"];
    shell.commit_at_lag(&source.bootstrap(), "readers", &topics, 0, CommitAs::Member)?;
    let mm2 = Mm2::start(
        &jars,
        &format!(
            "clusters=hello,world\nhello.bootstrap.servers={}\nworld.bootstrap.servers={}\n\
             hello->world.enabled=true\nworld->hello.enabled=false\nhello->world.topics=plain,transactional\n\
             replication.factor=1\ncheckpoints.topic.replication.factor=1\n\
             heartbeats.topic.replication.factor=1\noffset-syncs.topic.replication.factor=1\n\
             config.storage.replication.factor=1\noffset.storage.replication.factor=1\n\
             status.storage.replication.factor=1\ndedicated.mode.enable.internal.rest=false\n\
             hello.consumer.isolation.level=read_committed\nemit.checkpoints.interval.seconds=1\n\
             refresh.topics.interval.seconds=1\n\
             hello->world.consumer.auto.offset.reset=earliest\n",
            source.bootstrap(),
            target.bootstrap()
        ),
    )?;
    let wanted = shell.dump(&source.bootstrap(), &topics)?;
    let mirrors = ["hello.plain", "hello.transactional"];
    let report = wait_until_some("a whole copy by MM2", LIMIT, || {
        let dump = shell.dump(&target.bootstrap(), &mirrors).map_err(|error| error.to_string())?;
        let report = compare(&wanted, &dump, |topic| format!("hello.{topic}"));
        if report.is_faithful() { Ok(report) } else { Err(report.to_string()) }
    })?;
    assert_eq!(report.compared, wanted.records());
    // The source's heartbeats are a topic that MM2 may have listed before it existed.
    wait_until_some("checkpoints and mirrored heartbeats", LIMIT, || {
        let probe = shell.mirror_probe(&target.bootstrap(), "hello", &["readers"], &[]);
        let probe = probe.map_err(|error| error.to_string())?;
        let offsets = &probe["translateOffsets/readers"]["value"];
        match offsets.as_object() {
            Some(offsets) if !offsets.is_empty() && probe["replicationHops"]["value"] == 1 => {
                Ok(())
            }
            _ => Err(probe.to_string()),
        }
    })?;
    mm2.stop()?;
    Ok(())
}
