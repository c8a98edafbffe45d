//! The order in which findings are told.

use std::cmp::Reverse;

use twinlog_types::{Code, Severity};

use super::GroupedFinding;

/// What kind of cause a code is; the first explain the last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Rank {
    /// Nothing else can be trusted to be whole.
    NotSeen,
    /// What was written down.
    Configured,
    /// Who does the work.
    Process,
    /// Everything else: what hurts most comes first.
    Effect,
}

fn rank(finding: &GroupedFinding) -> Rank {
    if !finding.found_out {
        return Rank::NotSeen;
    }
    match finding.code {
        Code::Unreachable
        | Code::UnsupportedVersion
        | Code::SameCluster
        | Code::ClusterReplaced => Rank::NotSeen,
        Code::UnknownProperty
        | Code::PolicyMismatch
        | Code::NothingMatches
        | Code::ConverterChangesRecords
        | Code::OffsetSyncsLocationMismatch
        | Code::ReplicationLoop
        | Code::NamesCollide
        | Code::ConfigDrift => Rank::Configured,
        Code::MirrorNotRunning
        | Code::ConnectorFailed
        | Code::MirrorCannotReconfigure
        | Code::OwnedElsewhere
        | Code::Mm2KnownBug => Rank::Process,
        _ => Rank::Effect,
    }
}

/// What may bring a code about, the likeliest first.
fn causes(code: Code) -> &'static [Code] {
    match code {
        Code::SyncDisabled => &[Code::UnknownProperty, Code::ConfigDrift],
        Code::GroupNotIncluded | Code::GroupExcluded | Code::TopicNotMirrored => {
            &[Code::UnknownProperty]
        }
        Code::CheckpointsDisabled => &[Code::UnknownProperty],
        Code::CheckpointConnectorNoTasks => &[Code::GroupNotIncluded, Code::GroupExcluded],
        Code::CheckpointConnectorAbsent => &[Code::CheckpointsDisabled, Code::ConnectorFailed],
        Code::OffsetSyncsUnreadable => {
            &[Code::OffsetSyncsLocationMismatch, Code::MissingPermission, Code::ConnectorFailed]
        }
        Code::RecordTooLarge | Code::Stalled => &[Code::ConnectorFailed, Code::MirrorNotRunning],
        Code::StaleCheckpoint | Code::OffsetsExpired => {
            &[Code::ConnectorFailed, Code::MirrorNotRunning, Code::PolicyMismatch]
        }
        Code::NegativeLag => &[Code::Mm2KnownBug, Code::TargetRecreated, Code::TargetTruncated],
        Code::TranslationFrozen => &[Code::Mm2KnownBug, Code::TopicRecreated],
        Code::GroupNotYetDiscovered | Code::TopicNotYetDiscovered => {
            &[Code::MirrorCannotReconfigure, Code::MirrorNotRunning]
        }
        Code::TopicMissingOnTarget | Code::NothingCopied => &[
            Code::PolicyMismatch,
            Code::ConnectorFailed,
            Code::MirrorNotRunning,
            Code::OffsetSyncsLocationMismatch,
        ],
        Code::TargetNotEmpty => &[Code::ClusterReplaced],
        Code::SourceGap => &[Code::MirrorNotRunning],
        _ => &[],
    }
}

/// Puts findings in order, and says of each what it follows from.
pub(super) fn put(found: &mut [GroupedFinding]) {
    // An entry that only says again what another one says breaks nothing.
    let breaks = |finding: &&GroupedFinding| {
        finding.code != Code::UnknownProperty || finding.severity == Severity::Error
    };
    let there: Vec<Code> = found.iter().filter(breaks).map(|finding| finding.code).collect();
    for finding in found.iter_mut() {
        let cause = causes(finding.code).iter().find(|cause| there.contains(cause));
        let known = finding.follows_from.filter(|code| there.contains(code));
        finding.follows_from = known.or(cause.copied());
    }
    found.sort_by_cached_key(|finding| {
        let impact = &finding.impact;
        let lost = impact.skipped.saturating_add(impact.missing);
        (
            finding.severity,
            rank(finding),
            // Of one rank a cause stands before what follows from it.
            rank(finding) == Rank::Effect && finding.follows_from.is_some_and(is_effect),
            Reverse((lost, impact.unplaced, impact.reread)),
            finding.link,
            Reverse(finding.places.len()),
            finding.code,
            finding.summary.clone(),
        )
    });
}

fn is_effect(code: Code) -> bool {
    matches!(
        code,
        Code::GroupNotIncluded
            | Code::GroupExcluded
            | Code::CheckpointsDisabled
            | Code::MissingPermission
            | Code::TargetRecreated
            | Code::TargetTruncated
            | Code::TopicRecreated
            | Code::TopicMissingOnTarget
    )
}
