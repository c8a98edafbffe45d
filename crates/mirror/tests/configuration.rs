//! What a file means where MM2's own output does not say it: what is refused and how, our own
//! keys, and the deliberate differences.

use std::time::Duration;

use twinlog_mirror::{
    Configuration, Isolation, Problem, Refusal, Verdict, replicates, why_not_replicated,
};

/// Two clusters, nothing enabled.
const CLUSTERS: &str = "clusters = hello, world
hello.bootstrap.servers = hello:9092
world.bootstrap.servers = world:9092
";

fn parse(text: &str) -> Result<Configuration, Vec<Problem>> {
    Configuration::parse("mm2.properties", text.as_bytes(), &[])
}

fn accepted(rest: &str) -> Configuration {
    let text = format!("{CLUSTERS}hello->world.enabled = true\n{rest}");
    parse(&text).unwrap_or_else(|problems| panic!("{problems:#?}"))
}

fn problems(text: &str) -> Vec<Problem> {
    parse(text).expect_err("problems")
}

/// The problems of a file in which `hello->world` is enabled on line 4, as text.
fn refused(rest: &str) -> Vec<String> {
    let text = format!("{CLUSTERS}hello->world.enabled = true\n{rest}");
    problems(&text).iter().map(ToString::to_string).collect()
}

#[test]
fn a_file_with_colons_is_read_in_full() {
    let text = b"# comment
clusters: hello, world
hello.bootstrap.servers: 127.0.0.1:19092
world.bootstrap.servers: 127.0.0.1:29092, [::1]:29092
hello->world.enabled: true
hello->world.topics: orders,payments,audit.*
hello->world.groups: orders-consumer,payments-.*
hello->world.groups.exclude: console-consumer-.*,__.*
world->hello.enabled: true
world->hello.sync.group.offsets.enabled: false
sync.group.offsets.enabled: true
replication.factor: 1
checkpoints.topic.replication.factor: 1
heartbeats.topic.replication.factor: 1
offset-syncs.topic.replication.factor: 1
refresh.topics.interval.seconds: 5
";
    let configuration = Configuration::parse("f", text, &[]).expect("no problems");
    let [there, back] = configuration.flows() else { panic!("two flows") };
    assert_eq!(there.name.to_string(), "hello->world");
    assert_eq!(back.name.to_string(), "world->hello");
    assert!(there.topics.matches("audit.log") && !there.topics.matches("other"));
    assert!(there.groups.matches("payments-1") && !there.groups.matches("__x"));
    assert!(there.sync_group_offsets_enabled && !back.sync_group_offsets_enabled);
    assert_eq!((there.replication_factor, there.checkpoints_topic_replication_factor), (1, 1));
    assert_eq!(there.refresh_topics_interval, Duration::from_secs(5));
    let world = configuration.cluster("world").expect("a cluster");
    assert_eq!(world.bootstrap, ["127.0.0.1:29092", "[::1]:29092"]);
    assert_eq!(configuration.heartbeat_flows().count(), 2);
}

#[test]
fn pairs_that_are_not_enabled_beat_unless_told_otherwise() {
    let beating = |configuration: &Configuration| -> Vec<String> {
        configuration.heartbeat_flows().map(|flow| flow.name.to_string()).collect()
    };
    assert_eq!(beating(&accepted("")), ["hello->world", "world->hello"]);
    assert_eq!(beating(&accepted("emit.heartbeats.enabled=false")), [""; 0]);
    let one = accepted("emit.heartbeats.enabled=false\nworld->hello.emit.heartbeats.enabled=true");
    assert_eq!(beating(&one), ["world->hello"]);
    assert_eq!(one.flows().len(), 1);
}

#[test]
fn all_problems_come_at_once_with_line_and_key() {
    let problems = refused(
        "hello->world.topics = a,*.orders\n\
         hello->world.groups = a,,b\n\
         offset.lag.max = many\n\
         hello->world.sync.group.offsets.enabled = yes\n\
         hello->world.refresh.topics.interval.seconds = 0\n\
         replication.factor = 0\n\
         offset-syncs.topic.location = here\n",
    );
    assert_eq!(
        problems,
        [
            "mm2.properties:5: hello->world.topics: `*.orders` is not a regular expression that \
             Java reads: dangling `*` near character 1",
            "mm2.properties:6: hello->world.groups: an item of the list is empty",
            "mm2.properties:7: offset.lag.max: `many` is not a whole number from \
             -9223372036854775808 to 9223372036854775807",
            "mm2.properties:8: hello->world.sync.group.offsets.enabled: `yes` must be true or \
             false",
            "mm2.properties:9: hello->world.refresh.topics.interval.seconds: must be 1 or more, \
             or the switch beside it off",
            "mm2.properties:10: replication.factor: `0` is not a replication factor",
            "mm2.properties:11: offset-syncs.topic.location: `here` is neither source nor target",
        ]
    );
}

#[test]
fn a_flow_of_an_unknown_cluster_is_a_problem_with_a_suggestion() {
    let problems = problems(&format!(
        "{CLUSTERS}hello->wrld.enabled = true\nhelo->world.topics = a\nmars->world.enabled=true\n\
         hello->hello.enabled = true\n"
    ));
    let found: Vec<_> = problems
        .iter()
        .map(|problem| {
            (problem.line, problem.message.as_str(), problem.suggestion.as_deref().unwrap_or(""))
        })
        .collect();
    assert_eq!(
        found,
        [
            (Some(4), "no cluster is called `wrld`", "did you mean `hello->world.enabled`?"),
            (Some(5), "no cluster is called `helo`", "did you mean `hello->world.topics`?"),
            (Some(6), "no cluster is called `mars`", "the clusters of this file are hello, world"),
            (Some(7), "a flow from `hello` to itself never runs", "remove the line"),
        ]
    );
}

#[test]
fn missing_and_broken_addresses_are_problems() {
    let found = problems(
        "clusters = hello, world\nhello.bootstrap.servers = hello\nwrld.bootstrap.servers = w:1\n\
         hello->world.enabled = true\n",
    );
    let found: Vec<_> = found.iter().map(|p| (p.to_string(), p.suggestion.clone())).collect();
    assert_eq!(
        found,
        [
            (
                "mm2.properties: world.bootstrap.servers: is missing: nothing says where cluster \
                 `world` is"
                    .to_owned(),
                Some(
                    "did you mean `world.bootstrap.servers` by `wrld.bootstrap.servers`?"
                        .to_owned()
                )
            ),
            (
                "mm2.properties:2: hello.bootstrap.servers: `hello` is not a host and a port"
                    .to_owned(),
                None
            ),
        ]
    );
}

#[test]
fn a_file_without_clusters_or_flows_is_a_problem() {
    let one = |text: &str| -> (String, Option<String>) {
        let problems = problems(text);
        assert_eq!(problems.len(), 1, "{problems:?}");
        (problems[0].to_string(), problems[0].suggestion.clone())
    };
    let (message, suggestion) = one("cluster = a, b\n");
    assert_eq!(message, "mm2.properties: clusters: is missing");
    assert_eq!(suggestion.as_deref(), Some("did you mean `clusters` by `cluster`?"));
    one("hello->world.enabled = true\n");
    let (_, suggestion) = one("\u{feff}clusters = a, b\n");
    assert!(suggestion.is_some_and(|text| text.contains("byte order mark")));
    let (message, _) = one("clusters = a\na.bootstrap.servers = a:1\n");
    assert_eq!(message, "mm2.properties:1: clusters: names fewer than two clusters");
    let (message, _) = one(&format!("{CLUSTERS}emit.heartbeats.enabled = false\n"));
    assert_eq!(message, "mm2.properties: clusters: no flow is enabled");
    let (message, _) = one("clusters = a, b\nx = \\u12\n");
    assert_eq!(message, "mm2.properties:2: a `\\u` is not followed by four hexadecimal digits");
}

#[test]
fn a_switch_that_mm2_would_misread_in_silence_is_a_problem() {
    let text = format!("{CLUSTERS}emit.heartbeats.enabled=false\nhello->world.enabled = true \n");
    assert_eq!(
        problems(&text).first().map(ToString::to_string).as_deref(),
        Some("mm2.properties: clusters: no flow is enabled")
    );
    assert_eq!(problems(&text)[1].line, Some(5));
    // With heartbeats on MM2 starts the flow, and its connector trims.
    let text = format!("{CLUSTERS}hello->world.enabled = true \n");
    assert_eq!(parse(&text).expect("no problems").flows().len(), 1);
}

#[test]
fn exactly_once_is_refused_where_mm2_would_read_it() {
    for key in
        ["world.exactly.once.source.support=ENABLED", "hello->world.exactly.once.support=required"]
    {
        let found = refused(key);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("not supported by this version"), "{found:?}");
    }
    // A worker reads its target's keys only.
    for key in ["exactly.once.source.support", "hello.exactly.once.source.support"] {
        assert!(!accepted(&format!("{key}=enabled")).flows()[0].exactly_once);
    }
    assert!(!accepted("world.exactly.once.source.support=preparing").flows()[0].exactly_once);
}

#[test]
fn what_needs_java_code_is_refused() {
    for (line, word) in [
        ("topic.filter.class = com.example.Mine", "com.example.Mine"),
        ("hello->world.transforms = route", "transformed"),
        ("replication.policy.class = com.example.IdentityReplicationPolicy", "com.example"),
        ("replication.policy.separator =", "empty"),
    ] {
        let found = refused(line);
        assert!(found.len() == 1 && found[0].contains(word), "{found:?}");
    }
}

#[test]
fn grp_3_contradicting_naming_policies_are_refused_with_both_places() {
    let class = |name: &str| {
        format!(
            "replication.policy.class = org.apache.kafka.connect.mirror.{name}ReplicationPolicy"
        )
    };
    let (identity, default) = (class("Identity"), class("Default"));
    let levels = refused(&format!("{identity}\nhello->world.{default}"));
    assert!(
        levels.len() == 1 && levels[0].contains(":6: ") && levels[0].contains("line 5"),
        "{levels:?}"
    );
    let twice = refused(&format!("{identity}\n{default}"));
    assert!(
        twice.len() == 1 && twice[0].contains(":5: ") && twice[0].contains("line 6"),
        "{twice:?}"
    );
    let separators =
        refused("replication.policy.separator = _\nhello->world.replication.policy.separator = -");
    assert!(separators.len() == 1 && separators[0].contains("line 5"), "{separators:?}");
    // One place, or two that agree.
    for sound in [
        identity.clone(),
        format!("hello->world.{default}"),
        format!("{identity}\nhello->world.{identity}"),
    ] {
        accepted(&sound);
    }
}

#[test]
fn aborted_records_are_not_data_unless_the_file_says_so() {
    let isolation = |line: &str| accepted(line).flows()[0].isolation;
    assert_eq!(isolation(""), Isolation::ReadCommitted);
    for level in
        ["hello.consumer.", "hello->world.consumer.", "hello->world.source.consumer.", "consumer."]
    {
        let line = format!("{level}isolation.level = read_uncommitted");
        assert_eq!(isolation(&line), Isolation::ReadUncommitted, "{level}");
    }
    assert_eq!(
        isolation("world.consumer.isolation.level=read_uncommitted"),
        Isolation::ReadCommitted
    );
    // The cluster's beats the flow's, as with every client setting in MM2.
    let both = "hello.consumer.isolation.level=read_committed\n\
                hello->world.consumer.isolation.level=read_uncommitted";
    assert_eq!(isolation(both), Isolation::ReadCommitted);
    assert_eq!(refused("hello.consumer.isolation.level=dirty").len(), 1);
}

#[test]
fn compression_is_that_of_the_producer_of_records() {
    let compression = |line: &str| accepted(line).flows()[0].producer_compression.clone();
    assert_eq!(compression(""), None);
    assert_eq!(compression("world.producer.compression.type=zstd").as_deref(), Some("zstd"));
    assert_eq!(
        compression(
            "world.producer.compression.type=zstd\n\
             hello->world.producer.override.compression.type=lz4"
        )
        .as_deref(),
        Some("lz4")
    );
    // MM2 drops these two, or gives them to another producer.
    assert_eq!(compression("producer.compression.type=zstd"), None);
    assert_eq!(compression("hello->world.producer.compression.type=zstd"), None);
    assert_eq!(refused("world.producer.compression.type=rar").len(), 1);
}

#[test]
fn our_own_keys_stand_at_three_levels() {
    let rest = "twinlog.a.interval = 10s\ntwinlog.b = 1\ntwinlog.c = on\n\
                world.twinlog.b = 2\nhello.twinlog.b = 9\nhello->world.twinlog.b = 3\n\
                world.twinlog.d = true\n";
    let configuration = accepted(rest);
    let flow = &configuration.flows()[0];
    assert_eq!(flow.twinlog_number("twinlog.b"), Ok(Some(3)));
    assert_eq!(flow.twinlog_duration("twinlog.a.interval"), Ok(Some(Duration::from_secs(10))));
    assert_eq!(flow.twinlog_switch("twinlog.d"), Ok(Some(true)));
    assert_eq!(flow.twinlog_switch("twinlog.nothing"), Ok(None));
    let problem = flow.twinlog_switch("twinlog.c").expect_err("not a boolean");
    assert_eq!(problem.to_string(), "mm2.properties:7: twinlog.c: `on` must be true or false");
}

#[test]
fn overrides_replace_what_the_file_says() {
    let text = format!("{CLUSTERS}hello->world.enabled=true\nhello->world.topics=a\n");
    let overrides = [
        ("hello->world.topics".to_owned(), "b".to_owned()),
        ("offset.lag.max".to_owned(), "x".to_owned()),
    ];
    let found = Configuration::parse("f", text.as_bytes(), &overrides).expect_err("a problem");
    assert_eq!(found.len(), 1);
    assert!(found[0].to_string().starts_with("-X: offset.lag.max: `x` is not"), "{}", found[0]);
    let flows = Configuration::parse("f", text.as_bytes(), &overrides[..1]).expect("no problems");
    assert!(flows.flows()[0].topics.matches("b") && !flows.flows()[0].topics.matches("a"));
}

const PROVIDERS: &str = "config.providers = vault, env
config.providers.vault.class = org.apache.kafka.common.config.provider.FileConfigProvider
config.providers.vault.param.allowed.paths = /etc/kafka
config.providers.env.class = org.apache.kafka.common.config.provider.EnvVarConfigProvider
config.providers.env.param.allowlist.pattern = KAFKA_.*
";

#[test]
fn variables_are_answered_by_the_caller_within_what_the_file_allows() {
    let resolver = |provider: &str, path: &str, key: &str| match (provider, path, key) {
        ("file", "/etc/kafka/s.properties", "topics") => Ok("a,b".to_owned()),
        ("env", "", "KAFKA_ON") => Ok("true".to_owned()),
        _ => Err("not there".to_owned()),
    };
    let text = |rest: &str| format!("{CLUSTERS}{PROVIDERS}{rest}");
    let good = text(
        "hello->world.enabled = ${env:KAFKA_ON}\n\
         hello->world.topics = ${vault:/etc/kafka/s.properties:topics},c\n",
    );
    let configuration = Configuration::parse_with("f", good.as_bytes(), &[], &resolver);
    let configuration = configuration.unwrap_or_else(|problems| panic!("{problems:?}"));
    assert_eq!(
        configuration.flows()[0].topics.include(),
        Some(&["a", "b", "c"].map(str::to_owned)[..])
    );

    let bad = text(
        "hello->world.enabled = ${env:KAFKA_ON}\n\
         hello->world.topics = ${vault:/etc/kafka/../shadow:topics}\n\
         hello->world.groups = ${vault:/etc/kafka/s.properties:groups}\n\
         hello->world.groups.exclude = ${env:HOME}\n\
         hello->world.topics.exclude = ${nobody:x}\n\
         world->hello.topics = ${env:KAFKA_NOT_LOOKED_AT}\n",
    );
    let found = Configuration::parse_with("f", bad.as_bytes(), &[], &resolver);
    let found = found.expect_err("problems");
    let lines: Vec<_> = found.iter().map(|problem| problem.line).collect();
    assert_eq!(lines, [Some(10), Some(11), Some(12), Some(13)], "{found:#?}");

    // Nobody to ask: that, and nothing that follows from it, is the problem.
    let found = Configuration::parse("f", good.as_bytes(), &[]).expect_err("problems");
    let lines: Vec<_> = found.iter().map(|problem| problem.line).collect();
    assert_eq!(lines, [Some(9), Some(10)], "{found:#?}");
}

#[test]
fn nothing_prints_a_secret() {
    let secrets = "hello.sasl.jaas.config = x password=\"hunter2\";\n\
                   world.ssl.key.password = hunter2\n\
                   ssl.keystore.key = hunter2\n\
                   hello->world.producer.override.ssl.truststore.password = hunter2\n\
                   twinlog.rest.token = hunter2\n";
    let configuration = accepted(secrets);
    assert!(!format!("{configuration:?} {configuration:#?}").contains("hunter2"));
    assert_eq!(configuration.flows()[0].twinlog["twinlog.rest.token"], "hunter2");
    let problem = configuration.flows()[0].twinlog_number("twinlog.rest.token");
    assert!(!format!("{problem:?}").contains("hunter2"));
}

#[test]
fn topics_are_chosen_as_mm2_chooses_them() {
    let configuration = accepted("topics.exclude = secret.*");
    let flow = &configuration.flows()[0];
    for topic in ["orders", "a.b", "x.internal", "x-internal", "heartbeats", "mars.orders"] {
        assert!(replicates(flow, topic), "{topic}");
    }
    let why = |topic: &str| why_not_replicated(flow, topic);
    for topic in [
        "__consumer_offsets",
        ".x",
        "mm2-offset-syncs.world.internal",
        "world.checkpoints.internal",
        "mm2-twinlog.world.internal",
    ] {
        assert_eq!(why(topic), Some(Refusal::Internal), "{topic}");
    }
    for topic in ["world.orders", "mars.world.orders", "world.heartbeats"] {
        assert_eq!(why(topic), Some(Refusal::Cycle), "{topic}");
    }
    let excluded = Refusal::Filtered(Verdict::Excluded("secret.*".into()));
    assert_eq!(why("secret-1"), Some(excluded));
}

#[test]
fn heartbeats_pass_the_filter_unless_told_otherwise() {
    let only_orders = accepted("topics = orders");
    assert!(replicates(&only_orders.flows()[0], "heartbeats"));
    assert!(replicates(&only_orders.flows()[0], "mars.heartbeats"));
    assert!(!replicates(&only_orders.flows()[0], "world.heartbeats"));
    let without = accepted("topics = orders\nheartbeats.replication.enabled = false");
    assert!(!replicates(&without.flows()[0], "heartbeats"));
}

#[test]
fn the_identity_policy_guards_only_heartbeats_against_circles() {
    let class = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy";
    let configuration = accepted(&format!("replication.policy.class = {class}"));
    let flow = &configuration.flows()[0];
    assert!(replicates(flow, "orders") && replicates(flow, "world.orders"));
    assert!(replicates(flow, "heartbeats") && !replicates(flow, "world.heartbeats"));
    assert_eq!(flow.remote_topic("orders").as_str(), "orders");
}

#[test]
fn our_state_topic_is_never_copied_whatever_the_separator() {
    let configuration = accepted("replication.policy.separator = _\ntopics.exclude = nothing");
    assert!(!replicates(&configuration.flows()[0], "mm2-twinlog.mars.internal"));
}

/// The notes on a file that has no problem, each with its suggestion.
fn notes_of(text: &str) -> Vec<(String, String)> {
    let reading = Configuration::read("f", text.as_bytes(), &[], None);
    assert_eq!(reading.problems, []);
    let notes = reading.notes.iter();
    notes.map(|note| (note.to_string(), note.suggestion.clone().unwrap_or_default())).collect()
}

#[test]
fn what_does_nothing_is_noted_and_not_refused() {
    let text = format!(
        "{CLUSTERS}hello->world.enabled = true\n\
         hello->world.topcis = a\n\
         consumer.fetch.min.bytes = 1\n\
         world.tasks.max = 3\n\
         use.defaults.from = source\n\
         offset.lag.max = 1\n\
         offset.lag.max = 2\n\
         hello.consumer.fetch.min.bytes = 1\n\
         world.key.converter = x\n\
         hello->world.offset.lag.max = 3\n\
         twinlog.on.source-gap = stop\n"
    );
    let notes = notes_of(&text);
    let expected = [
        ("f:5: hello->world.topcis: nobody reads this key", "did you mean `hello->world.topics`?"),
        (
            "f:6: consumer.fetch.min.bytes: does nothing for all clusters at once",
            "say it per cluster: hello.consumer.fetch.min.bytes",
        ),
        (
            "f:7: world.tasks.max: does nothing for a cluster",
            "say it for all flows, tasks.max, or per flow, hello->world.tasks.max",
        ),
        (
            "f:8: use.defaults.from: does nothing for all flows at once",
            "say it per flow: hello->world.use.defaults.from",
        ),
        ("f:9: offset.lag.max: is said again on line 10, which counts", ""),
    ];
    assert_eq!(notes, expected.map(|(note, hint)| (note.to_owned(), hint.to_owned())));
}

#[test]
fn keys_that_look_as_if_they_did_something_are_told_with_what_does() {
    let text = format!(
        "\u{feff}{CLUSTERS}hello->world.enabled = true\n\
         clusters = hello, world\n\
         topics.blacklist = secret-.*\n\
         hello->world.groups.blacklist = a, b\n\
         hello -> world.topics = orders\n\
         twinlog.on.sourcegap = continue\n\
         world.twinlog.existing = match\n\
         exactly.once.source.support = enabled\n\
         hello->world.exactly.once.source.support = enabled\n\
         exactly.once.support = required\n\
         hello.sasl.jaas.config = ${{env:JAAS}}\n\
         world.sasl.jaas.config = ${{mine:x:y}}\n"
    );
    let notes = notes_of(&text);
    let blacklist = "nothing is left out because of it: MirrorMaker 2 reads this key up to 3.9 and \
                     not since 4.0, and twinlog does not";
    let transactions = "does nothing here: MirrorMaker 2 copies in transactions where it is said per \
                        cluster, and this version refuses that";
    let expected = [
        (
            1,
            "\u{ef}\u{bb}\u{bf}clusters",
            "nobody reads this key: the file begins with a byte order mark, which belongs to the \
             first key, for MirrorMaker 2 too",
            "save the file without it; the key is `clusters` then",
        ),
        (6, "topics.blacklist", blacklist, "say topics.exclude with the same value"),
        (
            7,
            "hello->world.groups.blacklist",
            blacklist,
            "say hello->world.groups.exclude with the same value",
        ),
        (
            8,
            "hello",
            "nobody reads this key: it ends at the blank, for MirrorMaker 2 too",
            "write it without blanks: hello->world.topics",
        ),
        (
            9,
            "twinlog.on.sourcegap",
            "nobody reads this key",
            "did you mean `twinlog.on.source-gap`?",
        ),
        (10, "world.twinlog.existing", "nobody reads this key", ""),
        (
            11,
            "exactly.once.source.support",
            transactions,
            "remove the line; it would be world.exactly.once.source.support",
        ),
        (
            12,
            "hello->world.exactly.once.source.support",
            transactions,
            "remove the line; it would be world.exactly.once.source.support",
        ),
        (
            13,
            "exactly.once.support",
            "does nothing for all flows at once",
            "remove the line; it would be hello->world.exactly.once.support",
        ),
        (
            14,
            "hello.sasl.jaas.config",
            "the text `${env:...}` itself is the value, for MirrorMaker 2 too: config.providers does \
             not list env",
            "say config.providers = env and config.providers.env.class = \
             org.apache.kafka.common.config.provider.EnvVarConfigProvider",
        ),
    ];
    let expected = expected
        .map(|(line, key, said, hint)| (format!("f:{line}: {key}: {said}"), hint.to_owned()));
    assert_eq!(notes, expected);
}

#[test]
fn no_note_repeats_a_secret() {
    let text = format!(
        "{CLUSTERS}hello->world.enabled = true\n\
         hello -> world.producer.override.sasl.jaas.config = password=\"hunter2\"\n\
         hello ->world.source.cluster.ssl.key.password:hunter2\n"
    );
    let reading = Configuration::read("f", text.as_bytes(), &[], None);
    let notes = format!("{:?}", reading.notes);
    assert!(notes.contains("hello->world.source.cluster.ssl.key.password"), "{notes}");
    assert!(!notes.contains("hunter2"), "{notes}");
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>) {
        let reading = Configuration::read("f", &bytes, &[], None);
        proptest::prop_assert!(!reading.problems.is_empty());
    }

    #[test]
    fn any_value_of_any_key_is_read_without_a_panic(
        key in "(hello->world|world->hello|hello|world|world->wrld)?[.]?[a-z.-]{0,12}",
        known in 0..KEYS.len(),
        value in "\\PC{0,16}",
    ) {
        let text = format!(
            "{CLUSTERS}hello->world.enabled=true\n{key}={value}\nhello->world.{}={value}\n",
            KEYS[known]
        );
        let reading = Configuration::read("f", text.as_bytes(), &[], None);
        for problem in reading.problems.iter().chain(&reading.notes) {
            proptest::prop_assert!(problem.to_string().starts_with("f:"));
        }
    }
}

const KEYS: &[&str] = &[
    "consumer.isolation.level",
    "enabled",
    "groups",
    "offset.lag.max",
    "producer.override.compression.type",
    "refresh.topics.interval.seconds",
    "replication.factor",
    "replication.policy.class",
    "replication.policy.separator",
    "source.cluster.alias",
    "sync.group.offsets.enabled",
    "topics",
    "topics.exclude",
];

#[test]
fn an_address_is_one_host_and_one_port() {
    let file = |server: &str| {
        parse(
            &CLUSTERS
                .replace("hello:9092", server)
                .replace("world.bootstrap", "hello->world.enabled = true\nworld.bootstrap"),
        )
    };
    for good in [
        "hello:9092",
        "10.0.0.1:9092",
        "[::1]:9092",
        "[fe80::1%eth0]:9092",
        "::1:9092",
        "h_1.x-y:1",
        "PLAINTEXT://hello:9092",
        "b\u{fc}ro:9092",
    ] {
        assert!(file(good).is_ok(), "{good}: {:?}", file(good).err());
    }
    for bad in [
        "hello",
        "hello:",
        ":9092",
        "hello:1:2",
        "hel lo:1",
        "hello:+1",
        "hello:0",
        "hello:70000",
        "[hello]:1",
        "[::1:9092",
        "a/b:1",
    ] {
        let problems = file(bad).err().map(|all| all[0].to_string()).unwrap_or_default();
        let expected =
            format!("mm2.properties:2: hello.bootstrap.servers: `{bad}` is not a host and a port");
        assert_eq!(problems, expected);
    }
}

#[test]
fn what_becomes_part_of_topic_names_must_be_legal_there() {
    for alias in ["he llo", "he/llo", "he:llo"] {
        let text = format!(
            "clusters = {alias}, world\nworld.bootstrap.servers = w:1\n\
             world->{alias}.enabled = true\n"
        );
        let first = problems(&text)[0].to_string();
        assert!(
            first.starts_with(&format!("mm2.properties:1: clusters: `{alias}` contains")),
            "{first}"
        );
    }
    let long = "a".repeat(224);
    let first = problems(&format!("clusters = {long}, world\n"))[0].to_string();
    assert!(first.ends_with("is longer than 223 characters"), "{first}");
    assert_eq!(
        refused("replication.policy.separator = /\n"),
        [
            "mm2.properties:5: replication.policy.separator: `/` contains '/', which no topic name may \
          contain"
        ]
    );
}

#[test]
fn every_value_knows_where_it_stands() {
    let text =
        format!("{CLUSTERS}hello->world.enabled = true\ntopics = a\nhello->world.groups = b\n");
    let overrides = [("hello->world.groups.exclude".to_owned(), "c".to_owned())];
    let read = |text: &str| {
        let parsed = Configuration::parse("mm2.properties", text.as_bytes(), &overrides);
        parsed.expect("no problems").flows()[0].clone()
    };
    let flow = read(&text);
    let at = |key: &str| flow.origin(key).map(ToString::to_string);
    assert_eq!(at("topics").as_deref(), Some("mm2.properties:5: topics"));
    assert_eq!(at("groups").as_deref(), Some("mm2.properties:6: hello->world.groups"));
    assert_eq!(at("groups.exclude").as_deref(), Some("-X: hello->world.groups.exclude"));
    assert_eq!(at("topics.exclude"), None);
    assert_eq!(at("name"), None, "filled in by MM2, not written in the file");
    // A line more above them changes nothing.
    assert_eq!(flow, read(&format!("# a comment\n{text}")));
}
