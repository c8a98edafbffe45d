//! The verdict: walks the chain over what was read.
//!
//! Does not: read anything. The same facts give the same chain.
//!
//! # Invariants
//!
//! 1. A partition leaves the walk where its link breaks; the others go on. Once none is left, the
//!    links behind are `not-reached`.
//! 2. A link breaks for the whole subject where it is not about partitions.
//! 3. A group that the file leaves out hides nothing that holds for the whole flow.
//! 4. Where only the source does not answer, the links that need the target alone are looked at all
//!    the same: where a group stands is asked most urgently then.

mod commits;
mod connectors;
mod copy;
pub(crate) mod group;
mod mm2_commits;
mod mm2_copy;
mod mm2_syncs;
mod tail;
mod topic;
mod translate;
mod walk;

#[cfg(test)]
mod tests;

use twinlog_types::{Partition, State, TopicName};

use crate::chain::{Chain, LinkName, MirroredBy, Subject};
use crate::facts::Facts;
use walk::Walk;

/// Explains how the subject of `facts` stands, in one partition or in all. `file` is how commands
/// name the configuration (`mm2.properties`).
pub fn explain(facts: &Facts, partition: Option<Partition>, file: &str) -> Chain {
    let mut walk = Walk::new(facts, partition, file);
    match &facts.subject {
        Subject::Group(group) => {
            walk.group_configuration(group);
            // Whoever the file leaves out: what concerns the whole flow is looked at all the same.
            let left_out = walk.set_aside();
            walk.connectivity();
            walk.flow();
            walk.go_on(left_out);
            walk.source_group(group);
            walk.topic();
            walk.copy();
            walk.offsets();
            walk.translation(group);
            walk.checkpoints(group);
            walk.target_group(group);
            walk.consumer_offsets(group);
        }
        Subject::Topic(topic) => {
            walk.topic_configuration();
            walk.connectivity();
            walk.flow();
            walk.source_topic(topic);
            walk.topic();
            walk.copy();
            walk.offsets();
        }
    }
    walk.end()
}

/// Who makes the mirror. A lease of twinlog counts unless it is an old one and MM2 runs.
fn mirrored_by(facts: &Facts) -> Option<MirroredBy> {
    facts.target.id.as_ref().ok()?;
    let (lease, mm2) = (facts.found.lease.as_ref(), &facts.mm2);
    let twinlog_runs = lease.is_some() && facts.found.own.code.is_none();
    let unseen = facts.rights.hides(&facts.target.alias, &state_topic(facts));
    Some(match lease {
        Some(_) if twinlog_runs || !mm2.is_alive() => MirroredBy::Twinlog,
        // What MM2 left tells nothing of who came after it.
        _ if unseen && !mm2.is_alive() => return None,
        _ if mm2.was_here() => MirroredBy::MirrorMaker,
        // That nobody does is known once both have been looked for.
        _ if facts.found.own.state == State::Unknown => return None,
        _ if mm2.worker.is_err() || mm2.trouble.is_some() => return None,
        _ => MirroredBy::Nobody,
    })
}

/// Where twinlog keeps what it knows of the flow.
fn state_topic(facts: &Facts) -> TopicName {
    twinlog_engine::observe::state_topic(&facts.source.alias)
}

/// The link that holds what MM2 knows by pairs and twinlog by a map.
fn offsets_link(by: Option<MirroredBy>) -> LinkName {
    if by == Some(MirroredBy::MirrorMaker) { LinkName::OffsetSyncs } else { LinkName::OffsetMap }
}
