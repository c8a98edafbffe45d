//! How far the records of each partition are copied.

use twinlog_engine::observe::{Resource, Right, Rights};
use twinlog_flow::Standing;
use twinlog_types::{Code, State, TopicPartition};

use super::topic::{finding, is_about_map, is_about_topic};
use super::walk::{Draft, Finding, Walk, counted, on_topic, or_none};
use crate::chain::{Fix, LinkName};
use crate::facts::Trouble;
use crate::remedy::{Impact, grants};

impl Walk<'_> {
    pub(super) fn copy(&mut self) {
        if !self.reaches(LinkName::Copy) {
            return;
        }
        let mut link = Draft::new(LinkName::Copy);
        let mut waiting = 0u64;
        for tp in self.on_the_way() {
            let lag = self.lag(&tp);
            waiting = waiting.saturating_add(lag.unwrap_or(0));
            self.copy_evidence(&mut link, &tp, lag);
            if self.is_mm2() {
                for finding in self.copy_of_mm2(&tp) {
                    link.found(finding.of(&tp));
                }
            } else {
                self.copy_of_twinlog(&mut link, &tp, lag);
            }
        }
        link.ok(match waiting {
            0 => "everything that may be copied is".to_owned(),
            // Some of them may hold nothing that a consumer reads, and never come.
            n if self.is_mm2() => format!(
                "at most {} of the source left, those of markers of transactions and of what the \
                 cleaner removed among them",
                counted(n, "offset")
            ),
            n => format!("on the way: {} of the source left", counted(n, "offset")),
        });
        self.push(link);
    }

    /// Offsets of the source that are not copied.
    fn lag(&self, tp: &TopicPartition) -> Option<u64> {
        let seen = self.facts.partition(tp);
        if !self.is_mm2() {
            return seen?.lag_records;
        }
        let copied = self.arrived_by_mm2(tp)?;
        let end = seen.and_then(|seen| seen.source_end);
        let end = end.or_else(|| Some(self.facts.source_bounds.get(tp)?.1))?;
        Some(u64::try_from(end - (copied + 1)).unwrap_or(0))
    }

    fn copy_evidence(&self, link: &mut Draft, tp: &TopicPartition, lag: Option<u64>) {
        let facts = self.facts;
        let mirror = facts.mirror_of(tp);
        if let Some(seen) = facts.partition(tp) {
            let place = on_topic(&facts.source, &tp.topic);
            if let (Some(start), Some(end)) = (seen.source_start, seen.source_end) {
                link.saw(format!("{tp} begins and ends at"), format!("{start}..{end}"), place);
            }
            let copied_to = if self.is_mm2() {
                self.arrived_by_mm2(tp).map(|copied| copied + 1)
            } else {
                seen.copied_to
            };
            let alias = &facts.target.alias;
            let place = if self.is_mm2() {
                let topic = facts.config.worker.get("offset.storage.topic");
                format!("{alias}: topic {}", topic.cloned().unwrap_or_default())
            } else {
                format!("{alias}: topic mm2-twinlog.{}.internal", facts.source.alias)
            };
            link.saw(format!("{tp} copied to"), or_none(copied_to), place);
        }
        if let Some((start, end)) = facts.bounds.get(&mirror) {
            let place = on_topic(&facts.target, &mirror.topic);
            link.saw(format!("{mirror} begins and ends at"), format!("{start}..{end}"), place);
        }
        if let Some(lag) = lag {
            link.saw(format!("{tp} lag"), lag, "between the two");
        }
    }

    fn copy_of_twinlog(&self, link: &mut Draft, tp: &TopicPartition, lag: Option<u64>) {
        let Some(seen) = self.facts.partition(tp) else {
            let what = format!("nothing is known of {tp}");
            link.unknown(Trouble::new(None, what), vec![tp.clone()]);
            return;
        };
        for gap in &seen.gaps {
            let range = format!("{}..{}", gap.from, gap.to);
            link.saw(format!("{tp} lost on the source"), range, gap.why.word());
        }
        let Standing { state, code, reason } = &seen.standing;
        let reason = reason.clone().unwrap_or_default();
        let told = format!("{tp}: {reason}");
        let missing = Impact { missing: lag.unwrap_or(0), ..Impact::default() };
        match (state, code) {
            (State::Unknown, code) => {
                link.unknown(Trouble::new(*code, told), vec![tp.clone()]);
            }
            (_, Some(code)) if is_about_topic(*code) || is_about_map(*code) => {}
            // The flow link says so; what is there is looked at all the same.
            (_, Some(Code::MirrorNotRunning)) => {
                let finding = Finding::blocks(Code::MirrorNotRunning, told);
                link.found(finding.of(tp).with(missing));
            }
            // All that is readable is copied, and groups go on from there.
            (_, Some(Code::OpenTransaction | Code::Stalled)) => {
                let code = code.unwrap_or(Code::Stalled);
                link.found(Finding::blocks(code, told).of(tp).with(missing));
            }
            // What came before the place where the copy stopped is exact.
            (State::Stopped, Some(code)) => {
                let mut finding = Finding::blocks(*code, told).of(tp).with(missing);
                if *code == Code::MissingPermission {
                    finding.fix = self.may_copy(tp, seen.is_denied);
                }
                link.found(finding);
            }
            (state, Some(code)) => {
                link.found(finding(*state, *code, told).of(tp).with(missing));
            }
            (_, None) => {}
        }
    }

    /// The command that lets the mirror read a topic of the source, or else, where this look may read
    /// it, write to its mirror.
    fn may_copy(&self, tp: &TopicPartition, is_denied: bool) -> Vec<Fix> {
        let facts = self.facts;
        let (side, operation, topic) = if is_denied {
            (&facts.source, "Read", tp.topic.clone())
        } else {
            (&facts.target, "Write", facts.mirror_of(tp).topic)
        };
        let (on, resource) = (side.alias.clone(), Resource::Topic(topic));
        let right = Right { on: on.clone(), operation, resource };
        grants(facts, &on, &Rights::of(right))
    }
}
