//! When each group has its turn to be looked at and written.
//!
//! Does not: know what changed, or read a clock.
//!
//! # Invariants
//!
//! 1. A group whose commit changed has its turn at once, unless it had one less than
//!    [`Pace::GAP_MS`] ago: however often it commits, it has at most so many turns a second, and the
//!    last commit always has one.
//! 2. Nobody starves: turns are given in the order in which they were due.
//! 3. Memory is one entry for each group.

use std::collections::{BTreeMap, BTreeSet};

use twinlog_types::GroupId;

#[derive(Clone, Copy, Debug)]
struct Turn {
    /// `None` while it has its turn.
    due_ms: Option<i64>,
    last_ms: Option<i64>,
    /// When it is looked at although nothing is new; `None`: it was never.
    check_ms: Option<i64>,
    /// Since when its commit is ahead of the copy, and how often that was looked at.
    ahead: Option<(i64, u32)>,
}

/// The turns of all groups.
#[derive(Clone, Default, Debug)]
pub struct Pace {
    groups: BTreeMap<GroupId, Turn>,
    queue: BTreeSet<(i64, GroupId)>,
}

impl Pace {
    /// The least time between two turns of a group that commits all the time.
    pub const GAP_MS: i64 = 200;
    /// How long a commit that is ahead of the copy waits for it before a lower bound is written.
    pub const PATIENCE_MS: i64 = 150;
    /// The first wait before it is looked at again whether the copy has come; it doubles.
    const FIRST_WAIT_MS: i64 = 10;
    /// The longest.
    const LONGEST_WAIT_MS: i64 = 1_000;

    /// No group.
    pub fn new() -> Self {
        Self::default()
    }

    /// A group's commit changed: its turn comes as soon as it may.
    pub fn changed(&mut self, group: &GroupId, now_ms: i64) {
        let last = self.groups.get(group).and_then(|turn| turn.last_ms);
        let due = match last {
            // After a clock that stepped back: now.
            Some(last) if last <= now_ms => now_ms.max(last + Self::GAP_MS),
            _ => now_ms,
        };
        self.sooner(group, due);
    }

    /// A group has another turn at `at_ms`, or before.
    pub fn again(&mut self, group: &GroupId, at_ms: i64) {
        self.sooner(group, at_ms);
    }

    /// A group was looked at on both sides; it is again at `next_ms` at the latest.
    pub fn checked(&mut self, group: &GroupId, next_ms: i64) {
        if let Some(turn) = self.groups.get_mut(group) {
            turn.check_ms = Some(next_ms);
            self.sooner(group, next_ms);
        }
    }

    /// Whether a group is to be looked at although nothing is new.
    pub fn is_check_due(&self, group: &GroupId, now_ms: i64) -> bool {
        let check_ms = self.groups.get(group).and_then(|turn| turn.check_ms);
        check_ms.is_none_or(|at_ms| at_ms <= now_ms)
    }

    /// A group's commit is ahead of the copy. Answers whether it is worth waiting for the copy
    /// before anything is written; in either case another turn follows.
    pub fn ahead_of_copy(&mut self, group: &GroupId, now_ms: i64) -> bool {
        let Some(turn) = self.groups.get_mut(group) else { return false };
        let (since, looks) = turn.ahead.get_or_insert((now_ms, 0));
        let wait = Self::FIRST_WAIT_MS << (*looks).min(16);
        *looks += 1;
        let patient = (0..Self::PATIENCE_MS).contains(&(now_ms - *since));
        let due = now_ms + wait.min(Self::LONGEST_WAIT_MS);
        self.sooner(group, due);
        patient
    }

    /// The copy has come.
    pub fn copied(&mut self, group: &GroupId) {
        if let Some(turn) = self.groups.get_mut(group) {
            turn.ahead = None;
        }
    }

    /// Something was written for a group: the next change waits for a gap.
    pub fn wrote(&mut self, group: &GroupId, now_ms: i64) {
        if let Some(turn) = self.groups.get_mut(group) {
            turn.last_ms = Some(now_ms);
        }
    }

    /// The groups whose turn it is, at most `most`, those first that have waited longest.
    pub fn take(&mut self, now_ms: i64, most: usize) -> Vec<GroupId> {
        let mut taken = Vec::new();
        while taken.len() < most {
            let Some((due, _)) = self.queue.first() else { break };
            if *due > now_ms {
                break;
            }
            let Some((_, group)) = self.queue.pop_first() else { break };
            if let Some(turn) = self.groups.get_mut(&group) {
                turn.due_ms = None;
                taken.push(group);
            }
        }
        for group in &taken {
            // A turn that nothing comes of does not cost the group its next check.
            let check_ms = self.groups.get(group).and_then(|turn| turn.check_ms);
            if let Some(at_ms) = check_ms.filter(|at_ms| *at_ms > now_ms) {
                self.sooner(group, at_ms);
            }
        }
        taken
    }

    /// When the next turn is due.
    pub fn next_ms(&self) -> Option<i64> {
        self.queue.first().map(|(due, _)| *due)
    }

    /// Forgets the groups that `keep` does not want.
    pub fn retain(&mut self, mut keep: impl FnMut(&GroupId) -> bool) {
        self.groups.retain(|group, _| keep(group));
        let groups = &self.groups;
        self.queue.retain(|(_, group)| groups.contains_key(group));
    }

    fn sooner(&mut self, group: &GroupId, due_ms: i64) {
        let new = Turn { due_ms: None, last_ms: None, check_ms: None, ahead: None };
        let turn = self.groups.entry(group.clone()).or_insert(new);
        match turn.due_ms {
            // The first of both.
            Some(before) if before <= due_ms => return,
            Some(before) => drop(self.queue.remove(&(before, group.clone()))),
            None => {}
        }
        turn.due_ms = Some(due_ms);
        self.queue.insert((due_ms, group.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(name: &str) -> GroupId {
        GroupId::from(name)
    }

    /// Turns of a group that commits every `every` milliseconds for ten seconds, each taken as soon
    /// as it is due and written at once.
    fn turns_of_a_committer(every: i64) -> Vec<i64> {
        let (mut pace, g) = (Pace::new(), group("g"));
        let mut turns = Vec::new();
        for now in 0..10_000 {
            if now % every == 0 {
                pace.changed(&g, now);
            }
            for taken in pace.take(now, 10) {
                pace.wrote(&taken, now);
                turns.push(now);
            }
        }
        turns
    }

    #[test]
    fn however_often_a_group_commits_it_has_five_turns_a_second_and_the_last_commit_has_one() {
        let turns = turns_of_a_committer(10);
        assert_eq!(turns.len() as i64, 10_000 / Pace::GAP_MS);
        assert!(turns.windows(2).all(|pair| pair[1] - pair[0] >= Pace::GAP_MS));
        // Who commits once a second is never made to wait.
        let seldom = turns_of_a_committer(1_000);
        assert_eq!(seldom, (0..10).map(|second| second * 1_000).collect::<Vec<_>>());

        let (mut pace, g) = (Pace::new(), group("g"));
        pace.changed(&g, 0);
        assert_eq!(pace.take(0, 1), std::slice::from_ref(&g));
        pace.wrote(&g, 0);
        pace.changed(&g, 1);
        assert_eq!((pace.take(100, 1), pace.next_ms()), (vec![], Some(Pace::GAP_MS)));
        assert_eq!(pace.take(Pace::GAP_MS, 1), [g]);
    }

    #[test]
    fn turns_are_given_in_the_order_in_which_they_were_due() {
        let mut pace = Pace::new();
        for (name, at) in [("late", 30), ("soon", 10), ("next", 20)] {
            pace.again(&group(name), at);
        }
        pace.again(&group("late"), 40);
        let names = |taken: Vec<GroupId>| -> Vec<String> {
            taken.iter().map(ToString::to_string).collect()
        };
        assert_eq!(names(pace.take(100, 2)), ["soon", "next"]);
        assert_eq!(names(pace.take(100, 2)), ["late"]);
        assert_eq!(pace.next_ms(), None);
    }

    #[test]
    fn a_turn_that_nothing_comes_of_does_not_cost_the_next_check() {
        let (mut pace, g) = (Pace::new(), group("g"));
        pace.changed(&g, 0);
        assert!(pace.is_check_due(&g, 0));
        pace.take(0, 1);
        pace.checked(&g, 2_000);
        pace.changed(&g, 500);
        assert_eq!(pace.take(500, 1), std::slice::from_ref(&g));
        assert!(!pace.is_check_due(&g, 500));
        assert_eq!(pace.take(1_999, 1), []);
        assert_eq!(pace.take(2_000, 1), std::slice::from_ref(&g));
        assert!(pace.is_check_due(&g, 2_000));
    }

    #[test]
    fn a_commit_ahead_of_the_copy_waits_a_moment_and_is_looked_at_less_and_less() {
        let (mut pace, g) = (Pace::new(), group("g"));
        pace.changed(&g, 0);
        let (mut looks, mut written) = (Vec::new(), None);
        for now in 0..20_000 {
            for taken in pace.take(now, 1) {
                looks.push(now);
                if !pace.ahead_of_copy(&taken, now) {
                    written.get_or_insert(now);
                }
            }
        }
        assert_eq!(looks[..6], [0, 10, 30, 70, 150, 310]);
        assert_eq!(written, Some(150));
        assert!(looks.len() < 30, "{}", looks.len());
        // Once it has come, the next time is a first time again.
        pace.copied(&g);
        assert!(pace.ahead_of_copy(&g, 30_000));
    }

    #[test]
    fn forgotten_groups_have_no_turn() {
        let mut pace = Pace::new();
        pace.changed(&group("a"), 0);
        pace.changed(&group("b"), 0);
        pace.retain(|name| name.as_str() == "b");
        assert_eq!(pace.take(10, 10), [group("b")]);
    }
}
