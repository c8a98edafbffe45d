//! The owner of a flow follows the decisions, carries them out and answers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;
use tracing::{info, warn};
use twinlog_mirror::replicates;
use twinlog_offsets::state::{
    Accepted, Answer, Decided, Made, Overwrite, Pair, StateRecord, Subject,
};
use twinlog_types::{Code, GroupId, TopicName, TopicPartition};

use crate::cell::Cell;
use crate::flow::Flow;
use crate::losses;

/// How often decisions are looked for.
const INTERVAL: Duration = Duration::from_secs(1);
/// Mirrored topics that an answer names.
const NAMED_MAX: usize = 10;

/// What the loop that follows groups is asked to do.
#[derive(Debug, Default)]
pub(crate) struct Wishes(Mutex<BTreeMap<GroupId, (Made, Vec<Overwrite>)>>);

impl Wishes {
    /// All that was asked since the last time.
    pub(crate) fn take(&self) -> BTreeMap<GroupId, (Made, Vec<Overwrite>)> {
        std::mem::take(&mut *self.0.lock())
    }
}

/// Follows decisions until the flow ends.
pub(crate) async fn run(flow: Arc<Flow>) {
    let ending = flow.ending();
    // What was decided before this process became the owner, and not answered.
    let mut answered = std::mem::take(&mut flow.stored.lock().answers);
    let mut said = false;
    loop {
        // What there is to decide about is known once the topics were looked at.
        if flow.topics_known.load(Ordering::Acquire) {
            carry_out(&flow, &mut answered).await;
        }
        tokio::select! {
            biased;
            () = ending.ended() => return,
            () = tokio::time::sleep(INTERVAL) => {}
        }
        let mut decisions = flow.decisions.lock().clone();
        let read = tokio::select! {
            biased;
            () = ending.ended() => return,
            read = decisions.read_on(&flow.target, &flow.name.source, &flow.pair) => read,
        };
        match read {
            Ok(new) => {
                said = false;
                let any = new || decisions.all().next().is_some();
                *flow.decisions.lock() = decisions;
                // Partitions that were taken up meanwhile, too.
                if any {
                    apply_pauses(&flow);
                }
            }
            Err(error) => {
                if !std::mem::replace(&mut said, true) {
                    warn!(flow = %flow.name, %error, "operators' decisions cannot be read now; those known hold");
                }
                flow.target_unreachable(&error);
            }
        }
    }
}

/// Makes every partition as paused as was decided.
fn apply_pauses(flow: &Flow) {
    let decisions = flow.decisions.lock();
    for cell in flow.cells.all() {
        let pause = decisions.pause_of(&cell.source);
        if cell.paused.swap(pause.is_some(), Ordering::AcqRel) == pause.is_some() {
            continue;
        }
        if let Some(made) = pause {
            info!(flow = %flow.name, partition = %cell.source, by = made.by, "paused");
        } else {
            info!(flow = %flow.name, partition = %cell.source, "resumed");
        }
    }
    flow.room.notify_waiters();
}

/// Carries out what was decided and not answered.
async fn carry_out(flow: &Arc<Flow>, answered: &mut BTreeMap<Subject, Answer>) {
    let open: Vec<(Subject, Made)> = {
        let decisions = flow.decisions.lock();
        let is_open = |(subject, made): &(&Subject, &Made)| {
            !answered.get(*subject).is_some_and(|answer| made.is_answered_by(answer))
        };
        let open = decisions.all().filter(is_open);
        open.map(|(subject, made)| (subject.clone(), made.clone())).collect()
    };
    for (subject, made) in open {
        let answer = match (&subject, &made.what) {
            (Subject::Topic(topic, partition), Decided::Pause) => {
                let cells = cells(flow, topic, *partition);
                Some(match cells.len() {
                    0 => nothing_of(flow, topic),
                    count => (true, format!("{} paused", partitions(count))),
                })
            }
            (Subject::Topic(topic, partition), Decided::Resume { accepted }) => {
                resume(flow, topic, *partition, accepted).await
            }
            (Subject::Group(group), Decided::Sync { overwrite }) => {
                // Answered by the loop that follows groups; asked once.
                let wish = (made.clone(), overwrite.clone());
                flow.wishes.0.lock().insert(group.clone(), wish);
                let asked = Answer {
                    by: made.by.clone(),
                    of_ms: made.at_ms,
                    at_ms: flow.now_ms(),
                    done: false,
                    text: String::new(),
                };
                answered.insert(subject.clone(), asked);
                None
            }
            _ => Some((false, "this twinlog does not know what to do about that".to_owned())),
        };
        if let Some((done, text)) = answer {
            answered.insert(subject.clone(), answer_to(flow, &subject, &made, done, text));
        }
    }
}

/// Answers a decision: in the log, and durably.
pub(crate) fn answer_to(
    flow: &Flow,
    subject: &Subject,
    made: &Made,
    done: bool,
    text: String,
) -> Answer {
    let about = match subject {
        Subject::Topic(topic, None) => format!("topic {topic}"),
        Subject::Topic(topic, Some(partition)) => format!("{topic}-{partition}"),
        Subject::Group(group) => format!("group {group}"),
    };
    info!(flow = %flow.name, by = made.by, done, "decision about {about}: {text}");
    let answer =
        Answer { by: made.by.clone(), of_ms: made.at_ms, at_ms: flow.now_ms(), done, text };
    let pair = Pair { source_cluster: flow.pair.0.clone(), target_cluster: flow.pair.1.clone() };
    flow.notes.leave(0, &StateRecord::Answer(pair, subject.clone(), answer.clone()));
    flow.dirty(0).urgent();
    answer
}

fn cells(flow: &Flow, topic: &TopicName, partition: Option<i32>) -> Vec<Arc<Cell>> {
    let all = flow.cells.all().into_iter();
    all.filter(|cell| {
        cell.source.topic == *topic && partition.is_none_or(|only| only == cell.source.partition)
    })
    .collect()
}

/// The answer to a decision that matched no partition: that nothing came of it, and what this process
/// does mirror; or that it waits, where the file takes the topic.
fn nothing_of(flow: &Flow, topic: &TopicName) -> (bool, String) {
    if replicates(&flow.config, topic.as_str()) {
        return (true, format!("nothing of {topic} is taken up yet; it holds for what comes"));
    }
    let mirrored: BTreeSet<TopicName> =
        flow.cells.all().into_iter().map(|cell| cell.source.topic.clone()).collect();
    let named: Vec<&str> = mirrored.iter().take(NAMED_MAX).map(TopicName::as_str).collect();
    let mirrors = match mirrored.len() - named.len() {
        _ if mirrored.is_empty() => "no topic now".to_owned(),
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    };
    let include = flow.config.topics.include();
    let include = include.map_or_else(|| ".*".to_owned(), |include| include.join(","));
    let text = format!(
        "nothing matched: {} runs this flow with a file that leaves {topic} out (topics = {include}; \
         it mirrors {mirrors}); the decision stays recorded, for a process whose file takes the topic",
        flow.options.instance
    );
    (false, text)
}

fn partitions(count: usize) -> String {
    if count == 1 { "1 partition".to_owned() } else { format!("{count} partitions") }
}

/// Ends a pause, and goes on behind what was accepted. Nothing as long as a partition has not come to
/// its stop.
async fn resume(
    flow: &Arc<Flow>,
    topic: &TopicName,
    partition: Option<i32>,
    accepted: &[Accepted],
) -> Option<(bool, String)> {
    if accepted.is_empty() {
        return Some(match cells(flow, topic, partition).len() {
            0 => nothing_of(flow, topic),
            count => (true, format!("{} copied again", partitions(count))),
        });
    }
    let mut texts = Vec::new();
    let (mut done, mut waits) = (true, false);
    for one in accepted {
        let tp = TopicPartition::new(topic.clone(), one.partition);
        let gone_on = match flow.cells.get(&tp) {
            _ if one.code == Code::TopicRecreated => {
                // The next look at the topics begins it, if it is still the one that was meant.
                flow.generations.accept(topic, one.source_topic);
                flow.discover_soon();
                let text = "the new topic is copied behind what was copied of the old one";
                Ok(Some(text.to_owned()))
            }
            Some(cell) => losses::go_on(flow, &cell, one).await,
            None => Err("it is not mirrored by this process".to_owned()),
        };
        done &= gone_on.is_ok();
        match gone_on {
            Ok(Some(text)) | Err(text) => texts.push(format!("{tp}: {text}")),
            Ok(None) => waits = true,
        }
    }
    (!waits).then(|| (done, texts.join("; ")))
}
