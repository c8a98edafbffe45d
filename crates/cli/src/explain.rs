//! `twinlog explain`: one group or topic, link by link, and what to do at the first that is broken.
//!
//! Does not: judge; that is `twinlog-doctor`.
//!
//! Exit code: 3 when a link could not be looked at, else 1 when one is broken by an error, else 0.

pub(crate) mod document;
mod text;

use std::process::ExitCode;

use twinlog_doctor::{Chain, Facts, LinkState, Outcome, Subject, explain as judge};
use twinlog_engine::named_file;
use twinlog_engine::observe::Observer;

use crate::args::Explain;
use crate::config;
use crate::discovery::{self, Opened};
use crate::looking;
use crate::output::{Failure, NOT_FOUND_OUT, Output, WRONG};
use crate::threads;

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
    threads::block_on(async {
        let common = looking::with_time_for_both(&args.common);
        let opened = discovery::open_and_tell(&common).await?;
        let Opened { looking, common, keys, .. } = opened;
        let all = looking.observers.iter().map(|observer| {
            let mut facts = Facts::new(
                observer.config.clone(),
                subject.clone(),
                looking.bootstrap(&observer.config.name),
                looking.notes.clone(),
                config::now_ms(),
            );
            facts.assumed.clone_from(&keys);
            (observer.clone(), facts)
        });
        let timeout = args.common.timeout;
        let read = looking::each(all, |(observer, facts)| read(observer, facts, timeout)).await;
        let file = looking::file(&common);
        let mut chains: Vec<Chain> =
            read.iter().map(|facts| judge(facts, args.partition, &file)).collect();
        for link in chains.iter_mut().flat_map(|chain| &mut chain.links) {
            link.summary = named_file(&link.summary, &file);
        }
        answer(args, out, &subject, &those_concerned(chains))
    })
}

/// Reads what there is time for.
async fn read(observer: Observer, mut facts: Facts, timeout: std::time::Duration) -> Facts {
    let reading = facts.read(&observer);
    if tokio::time::timeout(looking::look_within(timeout), reading).await.is_err() {
        facts.cut_off = Some(looking::cut_off(&observer, timeout).await);
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
