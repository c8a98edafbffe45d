//! Incremental fetch sessions (KIP-227) of one broker.
//!
//! A session remembers the partitions a client fetches and what it was last told about each, so
//! that requests and answers carry changes only. Does not read logs.

use std::collections::BTreeMap;

use crate::code::{
    FETCH_SESSION_ID_NOT_FOUND, FETCH_SESSION_TOPIC_ID_ERROR, INVALID_FETCH_SESSION_EPOCH, NONE,
};

/// A partition as a client names it: by id from version 13 on, by name before.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Named {
    pub topic: String,
    pub id: [u8; 16],
    pub partition: i32,
}

/// What a client wants of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub offset: i64,
    pub bytes_max: i32,
    pub current_leader_epoch: i32,
    pub last_fetched_epoch: i32,
}

/// What a client was last told of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub high_watermark: i64,
    pub last_stable_offset: i64,
    pub log_start_offset: i64,
}

/// A partition of a session.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub named: Named,
    pub wanted: Wanted,
    pub told: Option<Told>,
}

#[derive(Debug)]
struct Session {
    next_epoch: i32,
    by_id: bool,
    /// In the order in which they are served: who got records goes to the end.
    entries: Vec<Entry>,
    used: u64,
}

/// The sessions of one broker.
#[derive(Debug)]
pub(crate) struct Sessions {
    by_id: BTreeMap<i32, Session>,
    most: usize,
    uses: u64,
}

/// What a request asks for, after its session was looked up.
#[derive(Debug)]
pub(crate) struct Plan {
    pub session: i32,
    /// Answers leave out what has not changed.
    pub incremental: bool,
    pub entries: Vec<Entry>,
}

/// The parts of a Fetch request that concern its session.
#[derive(Debug)]
pub(crate) struct Opening {
    pub session: i32,
    pub epoch: i32,
    pub by_id: bool,
    pub wanted: Vec<(Named, Wanted)>,
    pub forgotten: Vec<Named>,
}

impl Sessions {
    pub(crate) fn new(most: usize) -> Self {
        Self { by_id: BTreeMap::new(), most, uses: 0 }
    }

    pub(crate) fn clear(&mut self) {
        self.by_id.clear();
    }

    /// Looks up or opens the session of a request. `new_id` is used for a new one.
    pub(crate) fn open(&mut self, opening: Opening, new_id: i32) -> Result<Plan, i16> {
        self.uses += 1;
        if opening.epoch > 0 {
            return self.continued(opening);
        }
        if opening.session != 0 {
            self.by_id.remove(&opening.session);
        }
        let entries: Vec<Entry> = opening
            .wanted
            .into_iter()
            .map(|(named, wanted)| Entry { named, wanted, told: None })
            .collect();
        if opening.epoch < 0 || entries.is_empty() || self.most == 0 {
            return Ok(Plan { session: 0, incremental: false, entries });
        }
        if self.by_id.len() >= self.most {
            let oldest =
                self.by_id.iter().min_by_key(|(_, session)| session.used).map(|(&id, _)| id);
            oldest.and_then(|id| self.by_id.remove(&id));
        }
        let session = Session {
            next_epoch: 1,
            by_id: opening.by_id,
            entries: entries.clone(),
            used: self.uses,
        };
        self.by_id.insert(new_id, session);
        Ok(Plan { session: new_id, incremental: false, entries })
    }

    fn continued(&mut self, opening: Opening) -> Result<Plan, i16> {
        let session = self.by_id.get_mut(&opening.session).ok_or(FETCH_SESSION_ID_NOT_FOUND)?;
        if session.next_epoch != opening.epoch {
            return Err(INVALID_FETCH_SESSION_EPOCH);
        }
        if session.by_id != opening.by_id {
            return Err(FETCH_SESSION_TOPIC_ID_ERROR);
        }
        session.next_epoch = if opening.epoch == i32::MAX { 1 } else { opening.epoch + 1 };
        session.used = self.uses;
        let by_id = session.by_id;
        let same = |a: &Named, b: &Named| {
            a.partition == b.partition && if by_id { a.id == b.id } else { a.topic == b.topic }
        };
        for (named, wanted) in opening.wanted {
            match session.entries.iter_mut().find(|entry| same(&entry.named, &named)) {
                Some(entry) => entry.wanted = wanted,
                None => session.entries.push(Entry { named, wanted, told: None }),
            }
        }
        session
            .entries
            .retain(|entry| !opening.forgotten.iter().any(|named| same(&entry.named, named)));
        if session.entries.is_empty() {
            self.by_id.remove(&opening.session);
            return Ok(Plan { session: 0, incremental: false, entries: Vec::new() });
        }
        Ok(Plan { session: opening.session, incremental: true, entries: session.entries.clone() })
    }

    /// Notes what an answer tells of a partition; whether the answer must name it.
    pub(crate) fn tell(
        &mut self,
        session: i32,
        named: &Named,
        told: Told,
        error: i16,
        has_records: bool,
    ) -> bool {
        let Some(session) = self.by_id.get_mut(&session) else { return true };
        let Some(at) = session.entries.iter().position(|entry| entry.named == *named) else {
            return true;
        };
        let changed = session.entries[at].told != Some(told);
        session.entries[at].told = if error == NONE { Some(told) } else { None };
        if has_records {
            let entry = session.entries.remove(at);
            session.entries.push(entry);
        }
        changed || has_records || error != NONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WANTED: Wanted =
        Wanted { offset: 0, bytes_max: 1000, current_leader_epoch: -1, last_fetched_epoch: -1 };

    fn named(partition: i32) -> Named {
        Named { topic: "t".to_owned(), id: [0; 16], partition }
    }

    fn opening(session: i32, epoch: i32, partitions: &[i32]) -> Opening {
        let wanted = partitions.iter().map(|&partition| (named(partition), WANTED)).collect();
        Opening { session, epoch, by_id: false, wanted, forgotten: Vec::new() }
    }

    #[test]
    fn a_session_remembers_its_partitions() {
        let mut sessions = Sessions::new(2);
        assert_eq!(sessions.open(opening(0, 0, &[0, 1]), 7).unwrap().session, 7);
        let plan = sessions.open(opening(7, 1, &[]), 8).unwrap();
        assert!(plan.incremental);
        assert_eq!(plan.entries.len(), 2);
    }

    #[test]
    fn a_wrong_epoch_and_an_unknown_session_are_refused() {
        let mut sessions = Sessions::new(2);
        sessions.open(opening(0, 0, &[0]), 7).unwrap();
        assert_eq!(sessions.open(opening(7, 2, &[]), 8).unwrap_err(), INVALID_FETCH_SESSION_EPOCH);
        assert_eq!(sessions.open(opening(9, 1, &[]), 8).unwrap_err(), FETCH_SESSION_ID_NOT_FOUND);
    }

    #[test]
    fn a_forgotten_partition_is_gone_and_the_last_one_closes_the_session() {
        let mut sessions = Sessions::new(2);
        sessions.open(opening(0, 0, &[0, 1]), 7).unwrap();
        let mut forget = opening(7, 1, &[]);
        forget.forgotten = vec![named(0)];
        assert_eq!(sessions.open(forget, 8).unwrap().entries.len(), 1);
        let mut forget = opening(7, 2, &[]);
        forget.forgotten = vec![named(1)];
        assert_eq!(sessions.open(forget, 8).unwrap().session, 0);
        assert_eq!(sessions.open(opening(7, 3, &[]), 8).unwrap_err(), FETCH_SESSION_ID_NOT_FOUND);
    }

    #[test]
    fn nothing_new_is_not_told_twice() {
        let mut sessions = Sessions::new(2);
        sessions.open(opening(0, 0, &[0]), 7).unwrap();
        let told = Told { high_watermark: 5, last_stable_offset: 5, log_start_offset: 0 };
        assert!(sessions.tell(7, &named(0), told, NONE, false));
        assert!(!sessions.tell(7, &named(0), told, NONE, false));
        assert!(sessions.tell(7, &named(0), told, NONE, true));
        assert!(sessions.tell(7, &named(0), told, 6, false));
    }

    #[test]
    fn the_session_that_was_used_longest_ago_makes_room() {
        let mut sessions = Sessions::new(1);
        sessions.open(opening(0, 0, &[0]), 7).unwrap();
        sessions.open(opening(0, 0, &[0]), 8).unwrap();
        assert_eq!(sessions.open(opening(7, 1, &[]), 9).unwrap_err(), FETCH_SESSION_ID_NOT_FOUND);
    }
}
