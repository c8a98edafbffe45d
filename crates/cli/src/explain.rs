//! `twinlog explain`: one group or topic, link by link, and what to do at the first that is broken.
//!
//! Does not: judge; that is `twinlog-doctor`.
//!
//! Exit code: 3 when a link could not be looked at, else 1 when one is broken by an error, else 0.

mod document;
mod text;

use std::process::ExitCode;

use twinlog_doctor::{Chain, Facts, LinkState, Outcome, Subject, Trouble, explain as judge};
use twinlog_engine::observe::Observer;
use twinlog_types::Code;

use crate::args::{Common, Explain};
use crate::config;
use crate::looking::{self, Looking};
use crate::output::{Failure, NOT_FOUND_OUT, Output, WRONG};

/// How much of the time is given to one cluster that does not answer.
const CLUSTER_SHARE: f64 = 0.6;

pub(crate) fn explain(args: &Explain, out: Output) -> Result<ExitCode, Failure> {
    let subject = match (&args.group, &args.topic) {
        (Some(group), _) => Subject::Group(group.as_str().into()),
        (None, Some(topic)) => Subject::Topic(topic.as_str().into()),
        (None, None) => {
            return Err(Failure::usage(
                "nothing to explain is given",
                "give --group GROUP or --topic TOPIC",
            ));
        }
    };
    let mut common = args.common.clone();
    // A source that does not answer leaves the target time for its own.
    common.timeout = common.timeout.mul_f64(CLUSTER_SHARE);
    let looking = Looking::open(&common)?;
    looking::block_on(async {
        let all = looking.observers.iter().map(|observer| {
            let bootstrap = |alias: &str| {
                let cluster = looking.configuration.cluster(alias);
                cluster.map(|cluster| cluster.bootstrap.join(",")).unwrap_or_default()
            };
            let name = &observer.config.name;
            let facts = Facts::new(
                observer.config.clone(),
                subject.clone(),
                (bootstrap(name.source.as_str()), bootstrap(name.target.as_str())),
                looking.notes.clone(),
                config::now_ms(),
            );
            (observer.clone(), facts)
        });
        let timeout = args.common.timeout;
        let read = looking::each(all, |(observer, facts)| read(observer, facts, timeout)).await;
        let file = file(&args.common);
        let chains: Vec<Chain> =
            read.iter().map(|facts| judge(facts, args.partition, &file)).collect();
        answer(args, out, &subject, &those_concerned(chains))
    })
}

/// Reads what there is time for.
async fn read(observer: Observer, mut facts: Facts, timeout: std::time::Duration) -> Facts {
    let reading = facts.read(&observer);
    if tokio::time::timeout(looking::look_within(timeout), reading).await.is_err() {
        let mute = looking::mute(&observer, timeout).await;
        let who: Vec<&str> = mute.iter().map(twinlog_types::ClusterAlias::as_str).collect();
        let what = match who.as_slice() {
            [] => format!("not everything was answered {}", looking::within(timeout)),
            who => format!("{} did not answer {}", who.join(" and "), looking::within(timeout)),
        };
        facts.cut_off = Some(Trouble::new(Some(Code::Unreachable), what));
    }
    facts
}

/// Of several flows those whose source the subject is at home on; where it is on none, those in
/// which most of the chain could be walked.
fn those_concerned(mut chains: Vec<Chain>) -> Vec<Chain> {
    if chains.iter().any(|chain| chain.concerned) {
        chains.retain(|chain| chain.concerned);
        return chains;
    }
    let reached =
        |chain: &Chain| chain.links.iter().take_while(|link| link.state == LinkState::Ok).count();
    let furthest = chains.iter().map(reached).max();
    chains.retain(|chain| Some(reached(chain)) == furthest);
    chains
}

fn answer(
    args: &Explain,
    out: Output,
    asked: &Subject,
    chains: &[Chain],
) -> Result<ExitCode, Failure> {
    let outcome = chains.iter().map(Chain::outcome).max().unwrap_or(Outcome::Well);
    if chains.is_empty() {
        return Err(Failure::usage("no flow is enabled", "say SOURCE->TARGET.enabled = true"));
    }
    for (at, chain) in chains.iter().enumerate() {
        if chain.subject != *asked {
            eprintln!("twinlog: {asked} is the mirror of {}", chain.subject);
        }
        if out.json {
            Output::document(&document::document(chain))?;
            continue;
        }
        let gap = if at > 0 { "\n" } else { "" };
        let verbose = args.common.printing.verbose > 0;
        Output::text(&format!("{gap}{}", text::text(chain, verbose)))?;
    }
    Ok(match outcome {
        Outcome::Well => ExitCode::SUCCESS,
        Outcome::Wrong => ExitCode::from(WRONG),
        Outcome::NotFoundOut => ExitCode::from(NOT_FOUND_OUT),
    })
}

/// How the configuration is named in commands.
fn file(common: &Common) -> String {
    match (&common.file, &common.source, &common.target) {
        (Some(file), ..) => file.display().to_string(),
        (None, Some(source), Some(target)) => format!("--source {source} --target {target}"),
        (None, ..) => "FILE".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use twinlog_types::FlowName;

    use super::*;

    #[test]
    fn a_subject_is_explained_in_the_flow_that_it_is_at_home_in() {
        let chain = |source: &str, target: &str, concerned| Chain {
            flow: FlowName::new(source, target),
            subject: Subject::Group("g".into()),
            partition: None,
            mirrored_by: None,
            concerned,
            links: Vec::new(),
        };
        let names = |chains: Vec<Chain>| -> Vec<String> {
            those_concerned(chains).iter().map(|chain| chain.flow.to_string()).collect()
        };
        let there = || chain("hello", "world", true);
        let back = |concerned| chain("world", "hello", concerned);
        assert_eq!(names(vec![there(), back(false)]), ["hello->world"]);
        assert_eq!(names(vec![there(), back(true)]), ["hello->world", "world->hello"]);
        let nowhere = chain("hello", "world", false);
        assert_eq!(names(vec![nowhere, back(false)]), ["hello->world", "world->hello"]);
    }
}
