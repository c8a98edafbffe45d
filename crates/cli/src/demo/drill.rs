//! The drill: the source is killed, and every group resumes on the target.
//!
//! Does not: ask the engine or its maps anything. Positions come from the target's coordinator,
//! records from its logs, and what is due from the ledger of what was written.

use super::document::{Drill, GroupDrill, GroupLine};
use super::ledger::{Ledger, Verdict};
use super::look::{Clients, committed, read_on, record_at};
use super::scene::{GROUPS, Group, Scene, TOPICS, Way};
use crate::output::Failure;
use twinlog_engine::observe::FlowObservation;

/// How the groups stand while both clusters live.
pub(super) async fn before(
    scene: &Scene,
    clients: &Clients,
    found: &(FlowObservation, FlowObservation),
    file: Option<&str>,
) -> Result<Vec<GroupLine>, Failure> {
    let mut lines = Vec::new();
    for group in &GROUPS {
        let seen = clients.seen(group, found).await?;
        let source = twinlog_types::TopicPartition::new(group.place.0, group.place.1);
        let target = clients.mirror(group.way, group.place);
        let source_record = match seen.source_offset {
            Some(offset) => record_at(clients.source(group.way), &source, offset).await?,
            None => None,
        };
        let target_record = match seen.target_offset {
            Some(offset) => record_at(clients.target(group.way), &target, offset).await?,
            None => None,
        };
        let code = seen.standing.code;
        let unsynced = group.unsynced.is_some();
        let mut line = GroupLine {
            group: group.name,
            flow: clients.flow(group.way).to_string(),
            topic: group.place.0,
            partition: group.place.1,
            target_topic: target.topic.to_string(),
            stands: group.what,
            synced: !unsynced,
            source_offset: seen.source_offset,
            target_offset: seen.target_offset,
            source_record,
            target_record,
            translation: seen.translation,
            state: seen.standing.state.word(),
            code: code.map(twinlog_types::Code::word),
            reason: seen.standing.reason,
            next: file
                .filter(|_| unsynced || code.is_some())
                .map(|file| format!("twinlog explain {file} --group {}", group.name)),
            drill: GroupDrill { result: "no-position", outcome: None, consequence: None },
        };
        if unsynced {
            let ledger = scene.writer(group.way).lock().ledger.clone();
            line.drill = GroupDrill {
                result: if code == group.unsynced { "not-synced" } else { "unexpected" },
                outcome: None,
                consequence: Some(consequence(group, &line, &ledger)),
            };
        }
        lines.push(line);
    }
    Ok(lines)
}

/// What it means for a group that it is not synced, should its source be lost now.
fn consequence(group: &Group, line: &GroupLine, ledger: &Ledger) -> String {
    let target = if group.way == Way::There { "world" } else { "hello" };
    if let Some(record) = &line.target_record {
        let stood = line.source_record.as_deref().unwrap_or("the end");
        return format!("Its member on {target} goes on at {record}, not at {stood}.");
    }
    let due = ledger.replay(group.place, line.source_offset.unwrap_or_default()).end().due;
    let again = ledger.count(group.place).saturating_sub(due);
    format!("auto.offset.reset on {target}: earliest repeats {again} records, latest skips {due}.")
}

/// Lets every synced group resume on the target: where its coordinator says, to the end.
pub(super) async fn resume(
    clients: &Clients,
    ledger: &Ledger,
    lines: &mut [GroupLine],
) -> Result<(), Failure> {
    for (group, line) in GROUPS.iter().zip(lines) {
        if !line.synced {
            continue;
        }
        let target = clients.mirror(group.way, group.place);
        let cluster = clients.target(group.way);
        line.target_offset = committed(cluster, group.name, &target).await?;
        let (Some(from), Some(stood)) = (line.target_offset, line.source_offset) else { continue };
        let mut replay = ledger.replay(group.place, stood);
        read_on(cluster, &target, from, &mut replay).await?;
        let outcome = replay.end();
        line.drill.result = outcome.verdict().word();
        line.drill.outcome = Some(outcome);
    }
    Ok(())
}

/// Compares every record on the target with what was written on the source of the flow, from the
/// first one on.
pub(super) async fn compare(
    clients: &Clients,
    way: Way,
    ledger: &Ledger,
    drill: &mut Drill,
) -> Result<(), Failure> {
    for place in
        TOPICS.iter().filter(|topic| topic.way == way).flat_map(super::scene::Topic::places)
    {
        let mut replay = ledger.replay(place, 0);
        read_on(clients.target(way), &clients.mirror(way, place), 0, &mut replay).await?;
        let outcome = replay.end();
        drill.compared_records += outcome.read;
        if outcome.verdict() == Verdict::Exact {
            drill.lost_records += outcome.due - outcome.read;
        } else {
            // An empty copy, too: it was complete once.
            drill.different_partitions += 1;
        }
    }
    Ok(())
}
