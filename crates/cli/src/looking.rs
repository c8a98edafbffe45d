//! What every command that looks at clusters begins with.
//!
//! # Invariants
//!
//! A client gives up before the look does, and the look before the command: the inner error says
//! more, and what was found by then is printed.

use std::fmt::Write;
use std::time::Duration;

use tokio::task::JoinSet;
use twinlog_doctor::Trouble;
use twinlog_engine::named_file;
use twinlog_engine::observe::{FlowObservation, Observer, shell_word};
use twinlog_flow::Standing;
use twinlog_mirror::{Configuration, Problem, is_secret};
use twinlog_types::{ClusterAlias, Code, FlowName};

use crate::args::Common;
use crate::config;
use crate::output::Failure;

/// How much of the time is given to one cluster that does not answer.
const CLUSTER_SHARE: f64 = 0.6;

/// The configuration, and the flows that are looked at.
pub(crate) struct Looking {
    pub(crate) configuration: Configuration,
    /// Entries of the file that do nothing.
    pub(crate) notes: Vec<Problem>,
    pub(crate) observers: Vec<Observer>,
}

impl Looking {
    pub(crate) fn open(common: &Common) -> Result<Self, Failure> {
        let (configuration, notes) = config::load_with_notes(common)?;
        let deadline = common.timeout.mul_f64(0.8);
        let observers = config::flows(&configuration, common)?
            .into_iter()
            .map(|flow| config::observer(&configuration, flow, deadline))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self { configuration, notes, observers })
    }

    /// Where the source and the target of a flow are.
    pub(crate) fn bootstrap(&self, flow: &FlowName) -> (String, String) {
        let of = |alias: &ClusterAlias| {
            let cluster = self.configuration.cluster(alias.as_str());
            cluster.map(|cluster| cluster.bootstrap.join(",")).unwrap_or_default()
        };
        (of(&flow.source), of(&flow.target))
    }
}

/// A source that does not answer leaves the target time for its own.
pub(crate) fn with_time_for_both(common: &Common) -> Common {
    Common { timeout: common.timeout.mul_f64(CLUSTER_SHARE), ..common.clone() }
}

/// How the configuration is named in commands, so that a shell takes them as they are printed.
pub(crate) fn file(common: &Common) -> String {
    let (source, target) = match (&common.file, &common.source, &common.target) {
        (Some(file), ..) => return shell_word(&file.display().to_string()),
        (None, Some(source), Some(target)) => (source, target),
        (None, ..) => return "FILE".to_owned(),
    };
    let mut text = format!("--source {} --target {}", shell_word(source), shell_word(target));
    for (flag, alias, default) in [
        ("--source-alias", &common.source_alias, "source"),
        ("--target-alias", &common.target_alias, "target"),
    ] {
        if alias != default {
            let _ = write!(text, " {flag} {}", shell_word(alias));
        }
    }
    for (flag, file) in [
        ("--source-command-config", &common.source_command_config),
        ("--target-command-config", &common.target_command_config),
    ] {
        if let Some(file) = file {
            let _ = write!(text, " {flag} {}", shell_word(&file.display().to_string()));
        }
    }
    // Under other names it would be another mirror.
    for (key, value) in common.overrides.iter().filter(|(key, _)| is_of_names(key)) {
        let _ = write!(text, " -X {}", shell_word(&format!("{key}={value}")));
    }
    text
}

/// Whether a property decides how things are called on the target.
pub(crate) fn is_of_names(key: &str) -> bool {
    key.contains(".replication.policy.")
}

/// The same with the properties that were overridden; the value of a secret is left to be filled in.
pub(crate) fn given(common: &Common) -> String {
    let mut text = file(common);
    let named = common.file.is_none();
    for (key, value) in common.overrides.iter().filter(|(key, _)| !named || !is_of_names(key)) {
        let shown = if is_secret(key) { "..." } else { value.as_str() };
        let _ = write!(text, " -X {}", shell_word(&format!("{key}={shown}")));
    }
    text
}

/// Names the configuration in the commands of all that was found.
pub(crate) fn name_file(flow: &mut FlowObservation, file: &str) {
    let named = |standing: &mut Standing| {
        if let Some(reason) = &mut standing.reason {
            *reason = named_file(reason, file);
        }
    };
    named(&mut flow.own);
    for topic in &mut flow.topics {
        named(&mut topic.standing);
        topic.partitions.iter_mut().for_each(|one| named(&mut one.standing));
    }
    for group in &mut flow.groups {
        named(&mut group.standing);
        group.partitions.iter_mut().for_each(|one| named(&mut one.standing));
    }
}

/// Why a look was given up when its time was over.
pub(crate) async fn cut_off(observer: &Observer, timeout: Duration) -> Trouble {
    let mute = mute(observer, timeout).await;
    let who: Vec<&str> = mute.iter().map(ClusterAlias::as_str).collect();
    let what = match who.as_slice() {
        [] => format!("not everything was answered {}", within(timeout)),
        who => format!("{} did not answer {}", who.join(" and "), within(timeout)),
    };
    Trouble::new(Some(Code::Unreachable), what)
}

/// How long a look may take, so that time is left to find out what did not answer.
pub(crate) fn look_within(timeout: Duration) -> Duration {
    timeout.mul_f64(0.9)
}

/// `within 1.1s`: for what did not come in time; nobody counts in nanoseconds.
pub(crate) fn within(timeout: Duration) -> String {
    let ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
    let ms = if ms < 1_000 { ms } else { ms / 100 * 100 };
    format!("within {:?}", Duration::from_millis(ms))
}

/// The clusters of a flow that do not even say who they are, in what is left of `timeout`. None
/// where both answer, and the look was too much for the time.
pub(crate) async fn mute(observer: &Observer, timeout: Duration) -> Vec<ClusterAlias> {
    let within = timeout.mul_f64(0.08);
    let name = &observer.config.name;
    let (source, target) = tokio::join!(
        tokio::time::timeout(within, observer.source.brokers()),
        tokio::time::timeout(within, observer.target.brokers()),
    );
    let mut mute = Vec::new();
    for (alias, answers) in
        [(&name.source, matches!(source, Ok(Ok(_)))), (&name.target, matches!(target, Ok(Ok(_))))]
    {
        if !answers {
            mute.push(alias.clone());
        }
    }
    mute
}

/// Does the same with each of `all` at the same time; answers in their order.
pub(crate) async fn each<T, A, F>(all: impl IntoIterator<Item = T>, work: impl Fn(T) -> F) -> Vec<A>
where
    A: Send + 'static,
    F: Future<Output = A> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    for (at, one) in all.into_iter().enumerate() {
        let doing = work(one);
        tasks.spawn(async move { (at, doing.await) });
    }
    let mut done = Vec::new();
    while let Some(finished) = tasks.join_next().await {
        match finished {
            Ok(one) => done.push(one),
            // A panic is a bug: it goes on upwards. Nobody cancels these tasks.
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, answer)| answer).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Args, Command};

    #[test]
    fn the_configuration_is_named_as_it_was_given_and_a_secret_is_not() {
        let given = |args: &[&str]| {
            let args = Args::try_parse_from(["twinlog", "status"].iter().chain(args));
            let Ok(Args { command: Command::Status(status) }) = args else { panic!("{args:?}") };
            given(&status.common)
        };
        assert_eq!(given(&["mm2.properties"]), "mm2.properties");
        assert_eq!(given(&["my mirror's.properties"]), r"'my mirror'\''s.properties'");
        let clusters = ["--source", "h:1", "--target", "w:1"];
        assert_eq!(given(&clusters), "--source h:1 --target w:1");
        let more = ["--source-alias", "hello", "--target-command-config", "w.properties"];
        assert_eq!(
            given(&[clusters, more].concat()),
            "--source h:1 --target w:1 --source-alias hello --target-command-config w.properties"
        );
        assert_eq!(
            given(&["f", "-X", "topics=a.*", "-X", "hello.ssl.key.password=hunter2"]),
            "f -X 'topics=a.*' -X hello.ssl.key.password=..."
        );
    }

    #[test]
    fn a_time_is_told_as_people_give_it() {
        for (nanos, text) in [
            (1_000_000, "within 1ms"),
            (500_000_000, "within 500ms"),
            (1_125_575_864, "within 1.1s"),
            (30_000_000_000, "within 30s"),
        ] {
            assert_eq!(within(Duration::from_nanos(nanos)), text);
        }
    }
}
