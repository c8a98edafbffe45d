//! What must hold of the two logs and of the map between them.

use std::collections::BTreeSet;

use twinlog_types::{SourceOffset, TargetOffset, Translation};

use super::source::told_offset;
use super::world::{PRODUCER, World};

impl World {
    /// Source and target offset of every record of ours in the target's log.
    fn pairs(&self) -> impl Iterator<Item = (i64, i64)> {
        self.broker
            .log
            .iter()
            .filter(|batch| batch.producer == PRODUCER.id)
            .flat_map(|batch| (batch.base..).zip(&batch.records))
            .map(|(target, record)| (told_offset(record).expect("a record of ours"), target))
    }

    /// Every record up to the acknowledged end of a copier is where its map says, once, in order.
    pub(super) fn check_copied(&self, index: usize) {
        let actor = &self.actors[index];
        let (map, log_start) = (actor.copier.map(), actor.log_start);
        let end = map.target_end().0;
        let mut last = -1;
        for (source, target) in self.pairs().take_while(|&(_, target)| target < end) {
            assert!(source > last, "source offset {source} stands behind {last} in the mirror");
            last = source;
            let expected = if target < log_start {
                Translation::BeforeStart { offset: TargetOffset(log_start), missing: 0 }
            } else {
                Translation::Exact(TargetOffset(target))
            };
            let translated = map.translate(SourceOffset(source));
            assert_eq!(translated.offset(), expected.offset(), "of source offset {source}");
            assert_eq!(translated.word(), expected.word(), "of source offset {source}");
        }
    }

    /// The mirror holds what it must, and every offset of either side translates to the truth.
    pub(super) fn check_all(&self) {
        let map = self.actors[0].copier.map();
        let pairs: Vec<(i64, i64)> = self.pairs().collect();
        let end = map.target_end().0;
        // Where the copy ended at a gap, a former owner may have stored what it had read of it.
        let all_known = pairs.last().is_none_or(|&(_, target)| target < end);
        assert!(all_known || self.ended.is_some(), "more than the map knows");
        for record in self.broker.log.iter().flat_map(|batch| &batch.records) {
            let original = &self.source.originals[&told_offset(record).unwrap()];
            assert_eq!(
                (&record.key, &record.value, &record.headers, record.timestamp),
                (&original.key, &original.value, &original.headers, original.timestamp)
            );
        }
        let copied: BTreeSet<i64> = pairs.iter().map(|&(source, _)| source).collect();
        let copied_to = map.copied_to().0;
        for record in self.source.visible() {
            let due = record.offset >= map.start().0 && record.offset < copied_to;
            assert!(!due || copied.contains(&record.offset), "{} is missing", record.offset);
        }
        if self.ended.is_none() {
            self.check_copied(0);
            assert_eq!(copied_to, self.source.end);
            self.check_translation(&pairs);
        }
    }

    fn check_translation(&self, pairs: &[(i64, i64)]) {
        let copier = &self.actors[0].copier;
        assert!(copier.is_settled());
        let map = copier.map();
        let (start, copied_to, log_start) = (map.start().0, map.copied_to().0, self.broker.start);
        let end = map.target_end().0.max(log_start);
        for source in start.max(self.source.begin)..copied_to + 3 {
            let next = pairs.iter().find(|pair| pair.0 >= source);
            let expected = match next {
                Some(&(_, target)) if target < log_start => ("before-start", log_start),
                Some(&(_, target)) => ("exact", target),
                None if source <= copied_to => ("end", end),
                None => ("lower-bound", end),
            };
            let translated = map.translate(SourceOffset(source));
            let found = (translated.word(), translated.offset().unwrap().0);
            assert_eq!(found, expected, "of source offset {source}");
        }
        let first = pairs.first().map_or(end, |first| first.1);
        for target in first..end + 3 {
            let next = pairs.iter().find(|pair| pair.1 >= target);
            let expected = next.map_or(copied_to, |next| next.0);
            let reversed = map.reverse(TargetOffset(target));
            assert_eq!(
                reversed.offset(),
                Some(SourceOffset(expected)),
                "of target offset {target}"
            );
        }
    }
}
