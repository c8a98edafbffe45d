//! Operators' decisions about groups: which positions may be overwritten, and what came of it.

use std::collections::{BTreeMap, BTreeSet};

use twinlog_flow::groups::{GroupTracker, Overwritten};
use twinlog_offsets::state::{Made, Subject};
use twinlog_types::{GroupId, TopicPartition};

use crate::decisions::answer_to;
use crate::flow::Flow;

/// Decisions that are not answered yet, by group.
#[derive(Default)]
pub(super) struct Wished(BTreeMap<GroupId, Open>);

struct Open {
    made: Made,
    partitions: BTreeSet<TopicPartition>,
    done: bool,
    told: Vec<String>,
}

impl Wished {
    /// Takes in what was decided since the last time.
    pub(super) fn take_in(&mut self, flow: &Flow, tracker: &mut GroupTracker) {
        for (group, (made, overwrite)) in flow.wishes.take() {
            let mut open = Open { made, partitions: BTreeSet::new(), done: true, told: Vec::new() };
            for one in overwrite {
                let tp = TopicPartition::new(one.topic, one.partition);
                if flow.cells.get(&tp).is_some() {
                    tracker.overwrite(&group, &tp, one.stands);
                    open.partitions.insert(tp);
                } else {
                    open.done = false;
                    open.told.push(format!("{tp} is not mirrored"));
                }
            }
            if open.partitions.is_empty() && open.told.is_empty() {
                open.told.push("its positions are read and written with every round".to_owned());
            }
            self.0.insert(group, open);
        }
    }

    /// Answers what is settled.
    pub(super) fn answer(&mut self, flow: &Flow, tracker: &mut GroupTracker) {
        for (group, tp, outcome) in tracker.take_overwritten() {
            let Some(open) = self.0.get_mut(&group) else { continue };
            if !open.partitions.remove(&tp) {
                continue;
            }
            open.told.push(match outcome {
                Overwritten::Done(offset) => format!("{tp} is committed at {offset}"),
                Overwritten::Void(stands) => {
                    open.done = false;
                    let now = stands.map_or_else(|| "nowhere".to_owned(), |at| at.to_string());
                    format!("{tp} was left alone: it has moved since, and stands at {now}")
                }
            });
        }
        let settled: Vec<GroupId> = self
            .0
            .iter()
            .filter(|(_, open)| open.partitions.is_empty())
            .map(|(group, _)| group.clone())
            .collect();
        for group in settled {
            let Some(Open { made, done, told, .. }) = self.0.remove(&group) else { continue };
            answer_to(flow, &Subject::Group(group), &made, done, told.join("; "));
        }
    }
}
