//! What the tail of the target tells, and what the state must say.

use twinlog_offsets::{Durable, OffsetMap};
use twinlog_types::Sequence;

use super::*;
use crate::copy::Producer;

#[test]
fn a_stop_that_comes_due_during_a_look_is_kept() {
    let mut copier = copier(unmerged());
    let mut bytes =
        [dense(0, 3), dense(3, 3)].iter().flat_map(SourceBatch::encode).collect::<Vec<_>>();
    *bytes.last_mut().unwrap() ^= 1;
    let damaged = Fetched { records: bytes.into(), ..fetched(&copier, &[]) };
    copier.fetched(damaged);
    send(&mut copier);
    copier.lost();
    let found = Tail { agreed: TargetOffset(0), batches: vec![ours(0, 0, 3)], ..tail(3, Some(2)) };
    let looked = look(&mut copier, &found);
    assert_eq!((looked.found, looked.resumed), (3, false));
    assert_eq!(stop_of(&copier).0, Code::CorruptBatch);
}

#[test]
fn answers_out_of_order_lead_to_a_look_once_all_are_there() {
    let mut copier = under_way(1);
    copier.answered(4, Answer::Stored { base: TargetOffset(4) });
    assert!(!copier.copying());
    assert_eq!(copier.wants_look(), None, "three answers are due");
    for ticket in [2, 6, 8] {
        copier.answered(ticket, Answer::Stored { base: TargetOffset(ticket as i64) });
    }
    let batches = (1..5).map(|n| ours(2 * n, 2 * n as i32, 2)).collect();
    let found = Tail { agreed: TargetOffset(2), batches, ..tail(10, Some(9)) };
    assert_eq!(look(&mut copier, &found).found, 8);
    assert_eq!(copier.map().acknowledged(), 10);
    assert!(copier.next_send().is_none());
}

#[test]
fn only_what_the_tail_does_not_hold_is_sent_again() {
    let mut copier = under_way(1);
    copier.lost();
    let found = Tail { agreed: TargetOffset(2), batches: vec![ours(2, 2, 2)], ..tail(4, Some(3)) };
    look(&mut copier, &found);
    let tickets: Vec<u64> =
        std::iter::from_fn(|| copier.next_send()).map(|one| one.ticket).collect();
    assert_eq!(tickets, [4, 6, 8]);
}

#[test]
fn what_arrived_behind_a_stop_is_found_when_the_copy_is_tried_again() {
    let mut copier = copier(unmerged());
    // A hole: the run behind it is planned, durable, and used by the batch under way.
    fetch(&mut copier, &[dense(0, 2), dense(9, 2)]);
    let first = send(&mut copier);
    copier.answered(first.ticket, Answer::Stored { base: TargetOffset(0) });
    let second = send(&mut copier);
    copier.stop(Stop {
        code: Code::MissingPermission,
        reason: String::new(),
        range: None,
        passing: true,
    });
    store(&mut copier);
    copier.retry();
    copier.answered(second.ticket, Answer::Unclear);
    let found = Tail { agreed: TargetOffset(2), batches: vec![ours(2, 2, 2)], ..tail(4, Some(3)) };
    assert_eq!(look(&mut copier, &found).found, 2);
    assert_eq!(copier.wants_fetch().unwrap().offset, SourceOffset(11));
    assert_eq!(copier.map().translate(SourceOffset(10)).offset(), Some(TargetOffset(3)));
}

#[test]
fn a_batch_of_ours_that_nobody_here_sent_is_somebody_elses_copy() {
    let mut copier = under_way(5);
    copier.look_first();
    let found = Tail { batches: vec![ours(10, 10, 3)], ..tail(13, Some(12)) };
    let found = Tail { agreed: TargetOffset(10), ..found };
    assert!(!look(&mut copier, &found).resumed);
    assert_eq!(stop_of(&copier).0, Code::OwnedElsewhere);
}

#[test]
fn a_batch_that_comes_in_behind_a_loss_stops_its_partition_and_is_no_other_owner() {
    let mut copier = under_way(2);
    copier.lost();
    // The target kept records 0 and 1; then 4 and 5, which were on their way, came in where 2 belongs.
    let late = Tail { agreed: TargetOffset(2), batches: vec![ours(2, 4, 2)], ..tail(4, Some(5)) };
    let looked = look(&mut copier, &late);
    assert_eq!(looked.lost, Some((TargetOffset(2), TargetOffset(4))));
    assert!(!looked.resumed, "2 and 3 would be copied behind 4 and 5");
    let stop = copier.stopped().expect("it has stopped");
    assert_eq!((stop.code, stop.passing), (Code::TargetTruncated, false), "{}", stop.reason);
}

#[test]
fn a_late_packet_in_the_brokers_memory_of_us_is_told_and_another_producer_goes_on() {
    let looked_at = |last_sequence, batches| {
        let mut copier = under_way(2);
        copier.lost();
        let looked = look(&mut copier, &Tail { batches, ..tail(4, last_sequence) });
        assert!(looked.resumed);
        (copier, looked.estranged)
    };
    for remembered in [Some(3), None] {
        assert!(!looked_at(remembered, Vec::new()).1, "{remembered:?}: the next batch is taken");
    }
    // The broker forgot the producer, and takes records 0 and 1 once more: its newest sequence is 1.
    let (mut copier, estranged) = looked_at(Some(1), vec![ours(4, 0, 2)]);
    assert!(estranged);
    let other = Producer { id: PRODUCER.id + 1, epoch: 0 };
    copier.change_producer(other);
    assert!(copier.next_send().is_none(), "the state names the producer before");
    let state = copier.take_state().expect("the new producer is to be stored");
    assert_eq!((state.position.producer_id, state.position.count), (other.id, 4));
    copier.state_stored();
    let sending = copier.next_send().expect("a batch can be sent");
    let cut = sending.batch.cut();
    assert_eq!((cut.producer_id, cut.base_sequence), (other.id, Sequence::of_count(4)));
    assert_eq!(told(&sending), [4, 5]);
    assert!(copier.next_send().is_none(), "one at a time, until the broker knows this producer");
}

#[test]
fn what_lies_between_our_batches_is_counted_once_and_kept_exact_in_the_map() {
    let mut copier = under_way(1);
    copier.lost();
    let batches = vec![foreign(2, 3), ours(5, 2, 2), ours(7, 0, 2), foreign(9, 1)];
    let found = Tail { agreed: TargetOffset(2), batches: batches.clone(), ..tail(10, Some(3)) };
    look(&mut copier, &found);
    assert_eq!((copier.foreign_records(), copier.doubled_records()), (4, 2));
    // The same tail seen again, and the next answer, tell nothing new.
    copier.look_first();
    let batches = batches[2..].to_vec();
    look(&mut copier, &Tail { agreed: TargetOffset(7), batches, ..tail(10, Some(3)) });
    let next = send(&mut copier);
    copier.answered(next.ticket, Answer::Stored { base: TargetOffset(11) });
    assert_eq!((copier.foreign_records(), copier.doubled_records()), (5, 2));
    let map = copier.map();
    for (source, target) in [(1, 1), (2, 5), (3, 6), (4, 11), (5, 12)] {
        assert_eq!(map.translate(SourceOffset(source)).offset(), Some(TargetOffset(target)));
    }
}

#[test]
fn a_target_that_lost_its_end_is_copied_to_again_from_there() {
    let mut copier = under_way(5);
    copier.look_first();
    assert_eq!(copier.wants_look().unwrap().newest_epoch, 0);
    let lost = Tail { leader_epoch: 1, ..tail(4, Some(3)) };
    let looked = look(&mut copier, &lost);
    assert_eq!(looked.lost, Some((TargetOffset(4), TargetOffset(10))));
    assert_eq!(copier.wants_fetch().unwrap().offset, SourceOffset(4));
    assert_eq!((copier.map().acknowledged(), copier.target_epoch()), (4, 1));
    fetch(&mut copier, &[dense(4, 6)]);
    assert!(copier.next_send().is_none(), "the state still says that more was copied");
    assert_eq!(copy_out(&mut copier, 4), [offsets(4..10)]);
}

#[test]
fn a_log_that_grew_again_over_what_was_lost_is_not_ours() {
    let mut copier = under_way(5);
    copier.look_first();
    let lost = Tail { agreed: TargetOffset(4), batches: vec![foreign(4, 8)], ..tail(12, Some(3)) };
    assert_eq!(look(&mut copier, &lost).lost, Some((TargetOffset(4), TargetOffset(10))));
    fetch(&mut copier, &[dense(4, 6)]);
    let sending = send(&mut copier);
    copier.answered(sending.ticket, Answer::Stored { base: TargetOffset(12) });
    assert_eq!(copier.map().translate(SourceOffset(4)).offset(), Some(TargetOffset(12)));
}

#[test]
fn an_older_epoch_that_ends_early_is_no_loss_where_our_batches_follow_each_other() {
    let mut copier = under_way(5);
    copier.look_first();
    let batches = vec![ours(4, 4, 2), ours(6, 6, 2), ours(8, 8, 2)];
    let moved = Tail { agreed: TargetOffset(4), batches, ..tail(10, Some(9)) };
    assert_eq!(look(&mut copier, &moved).lost, None);
    assert_eq!(copier.map().acknowledged(), 10);
}

/// The state of [`under_way`], restored: five batches planned, two acknowledged.
fn restored() -> Copier {
    let mut copier = under_way(2);
    let mut last = None;
    copier.look_first();
    while let Some(state) = copier.take_state() {
        copier.state_stored();
        last = Some(state);
    }
    let state = last.expect("there is something to store");
    let map = OffsetMap::restore(&state.position, [], copier.map().segments_since(0)).unwrap();
    let durable = Durable::whole(&map);
    let restored = Copier::restore(setup(unmerged()), &state.position, map, durable);
    assert!(!restored.is_settled());
    restored
}

#[test]
fn records_that_retention_removed_before_a_restart_count_as_copied() {
    // Offsets 4..8 held records 4..8, and are deleted; 8..10 are still there, or not.
    let mut partly = restored();
    let log_start = TargetOffset(8);
    let rest = Tail {
        log_start,
        agreed: TargetOffset(4),
        batches: vec![ours(8, 8, 2)],
        ..tail(10, Some(9))
    };
    assert!(look(&mut partly, &rest).resumed);
    let mut wholly = restored();
    let log_start = TargetOffset(10);
    let nothing = Tail { log_start, agreed: TargetOffset(4), ..tail(10, Some(9)) };
    assert!(look(&mut wholly, &nothing).resumed);
    for copier in [partly, wholly] {
        assert_eq!(copier.map().acknowledged(), 10);
        assert_eq!(copier.wants_fetch().unwrap().offset, SourceOffset(10));
    }
}

#[test]
fn a_deleted_tail_that_nothing_explains_stops_the_copy() {
    for last_sequence in [None, Some(5)] {
        let mut copier = restored();
        let log_start = TargetOffset(10);
        let nothing = Tail { log_start, agreed: TargetOffset(4), ..tail(10, last_sequence) };
        look(&mut copier, &nothing);
        assert_eq!(stop_of(&copier).0, Code::TargetNotEmpty);
    }
}

#[test]
fn a_deleted_tail_of_somebody_else_stands_in_nobodys_way() {
    let mut copier = restored();
    let log_start = TargetOffset(10);
    let nothing = Tail { log_start, agreed: TargetOffset(4), ..tail(10, Some(3)) };
    assert!(look(&mut copier, &nothing).resumed);
    assert_eq!(copier.map().acknowledged(), 4);
}

#[test]
fn batches_under_way_that_retention_removed_count_as_copied() {
    let mut copier = under_way(2);
    copier.lost();
    let log_start = TargetOffset(6);
    let rest = Tail {
        log_start,
        agreed: TargetOffset(4),
        batches: vec![ours(6, 6, 2)],
        ..tail(8, Some(7))
    };
    assert!(look(&mut copier, &rest).resumed);
    assert_eq!(copier.map().acknowledged(), 8);
    assert_eq!(copier.next_send().map(|sending| sending.ticket), Some(8));
}

#[test]
fn what_the_cleaner_took_in_front_of_our_batches_counts_as_copied() {
    // Offsets 4 and 5 are gone, and the log goes on behind.
    let holes =
        || Tail { agreed: TargetOffset(4), batches: vec![ours(6, 6, 2)], ..tail(8, Some(7)) };
    let mut found = restored();
    assert!(look(&mut found, &holes()).resumed);
    let mut waiting = under_way(2);
    waiting.lost();
    assert!(look(&mut waiting, &holes()).resumed);
    for copier in [found, waiting] {
        assert_eq!(copier.map().acknowledged(), 8);
        assert_eq!(copier.map().translate(SourceOffset(6)).offset(), Some(TargetOffset(6)));
    }
    // What is acknowledged is no less there for its holes.
    let mut copier = under_way(5);
    copier.look_first();
    let last = Tail { batches: vec![ours(8, 8, 2)], log_end: TargetOffset(10), ..holes() };
    assert_eq!(look(&mut copier, &last).lost, None);
    // Where something lies in the hole, or it is of another length, nothing says that it was ours.
    for batches in [vec![foreign(4, 1), ours(6, 6, 2)], vec![ours(5, 6, 2)]] {
        let mut copier = restored();
        look(&mut copier, &Tail { batches, ..holes() });
        assert_eq!(stop_of(&copier).0, Code::TargetTruncated);
    }
}

#[test]
fn nothing_is_stored_before_the_target_was_looked_at() {
    let mut copier = Copier::new(setup(unmerged()), PRODUCER, SourceOffset(0), TargetOffset(0));
    assert!(copier.take_state().is_none());
    // A partition that may not be taken up leaves no state behind that would say it was.
    copier.stop(Stop {
        code: Code::TargetNotEmpty,
        reason: String::new(),
        range: None,
        passing: false,
    });
    assert!(copier.take_state().is_none());
}

#[test]
fn a_new_owner_stores_its_state_before_it_sends() {
    let mut copier = restored();
    look(&mut copier, &tail(4, Some(3)));
    fetch(&mut copier, &[dense(4, 2)]);
    assert!(copier.store_urgently() && copier.next_send().is_none());
    let state = copier.take_state().unwrap();
    assert_eq!((state.position.count, state.position.copied_to), (4, SourceOffset(4)));
    copier.state_not_stored();
    assert!(copier.next_send().is_none());
    store(&mut copier);
    assert_eq!(copier.next_send().map(|sending| sending.ticket), Some(4));
}

#[test]
fn a_new_owner_keeps_what_its_forerunner_planned_in_the_state() {
    let mut old = copier(unmerged());
    fetch(&mut old, &[dense(0, 2), dense(9, 2)]);
    let state = old.take_state().unwrap();
    let map = OffsetMap::restore(&state.position, [], state.map.segments).unwrap();
    let durable = Durable::whole(&map);
    let mut new = Copier::restore(setup(unmerged()), &state.position, map, durable);
    look(&mut new, &tail(0, None));
    let state = new.take_state().unwrap();
    assert_eq!(state.position.runs, 2);
    let map = OffsetMap::restore(&state.position, [], state.map.segments).unwrap();
    assert_eq!(map.source_of(2), Some(SourceOffset(9)));
    new.state_stored();
    // The cleaner took the record at 9 meanwhile: the plan no longer holds.
    fetch(&mut new, &[dense(0, 2), dense(10, 1)]);
    assert!(new.next_send().is_none());
    let state = new.take_state().unwrap();
    let map = OffsetMap::restore(&state.position, [], state.map.segments).unwrap();
    assert_eq!(map.source_of(2), Some(SourceOffset(10)));
}

#[test]
fn segments_that_a_cut_left_behind_do_not_come_back() {
    let mut copier = copier(unmerged());
    let mut stored = std::collections::BTreeMap::new();
    let mut store = |copier: &mut Copier| {
        let state = copier.take_state().expect("there is something to store");
        copier.state_stored();
        stored.extend(state.map.segments);
        stored.retain(|number, _| !state.map.removed_segments.contains(number));
        (state.position, stored.clone())
    };
    // More runs than a segment holds.
    let alone = records((0..600).map(|n| 2 * n));
    fetch(
        &mut copier,
        &[dense(0, 1), SourceBatch { next: 1_200, ..SourceBatch::data(1, alone[1..].to_vec()) }],
    );
    store(&mut copier);
    for _ in 0..2 {
        let sending = copier.next_send().unwrap();
        let base = TargetOffset(sending.ticket as i64);
        copier.answered(sending.ticket, Answer::Stored { base });
    }
    let (position, segments) = store(&mut copier);
    assert_eq!((position.runs, segments.len()), (600, 2));
    // The target keeps nothing but the first batch.
    copier.look_first();
    look(&mut copier, &tail(1, Some(0)));
    let (position, segments) = store(&mut copier);
    assert_eq!((position.runs, segments.len()), (1, 1));
    let map = OffsetMap::restore(&position, [], segments).unwrap();
    assert_eq!((map.runs(), map.acknowledged()), (1, 1));
}

#[test]
fn nothing_is_fetched_behind_records_whose_epoch_nobody_remembers_before_the_source_told_it() {
    let found = Tail { agreed: TargetOffset(4), batches: vec![ours(4, 4, 2)], ..tail(6, Some(5)) };
    let recovered = || {
        let mut copier = restored();
        assert!(copier.looked(&found).resumed);
        assert_eq!(copier.wants_original(), Some(SourceOffset(5)));
        assert_eq!((copier.wants_fetch(), copier.is_full()), (None, false));
        copier
    };
    let mut copier = recovered();
    copier.original_read(SourceOffset(3), 9);
    assert_eq!(copier.wants_fetch(), None, "that is another record");
    copier.original_read(SourceOffset(5), 7);
    let from = copier.wants_fetch().unwrap();
    assert_eq!((from.offset, from.last_epoch), (SourceOffset(6), 7));
    // The source lost what had been copied.
    let mut copier = recovered();
    copier.original_beyond(SourceOffset(5), SourceOffset(3));
    assert_eq!(stop_of(&copier), (Code::SourceTruncated, Some((3, 6))));
    // The target lost what the newest epoch is known of.
    let mut copier = under_way(5);
    copier.look_first();
    copier.looked(&tail(4, Some(3)));
    assert_eq!(copier.wants_original(), Some(SourceOffset(3)));
}

#[test]
fn a_loss_that_reaches_into_a_sealed_block_waits_for_the_block_and_changes_nothing_before() {
    let mut copier = copier(unmerged());
    let alone = records((0..12_000).map(|n| 2 * n));
    fetch(
        &mut copier,
        &[dense(0, 1), SourceBatch { next: 24_000, ..SourceBatch::data(1, alone[1..].to_vec()) }],
    );
    store(&mut copier);
    for _ in 0..2 {
        let sending = copier.next_send().unwrap();
        let base = TargetOffset(sending.ticket as i64);
        copier.answered(sending.ticket, Answer::Stored { base });
    }
    let state = copier.take_state().unwrap();
    assert_eq!(state.map.removed_segments, (0..16).collect::<Vec<_>>());
    let block = state.map.blocks[0].clone();
    copier.state_stored();
    assert_eq!((copier.map().blocks(), copier.map().segments()), (0..1, 16..24));

    copier.look_first();
    let lost = tail(1, Some(0));
    assert_eq!(look(&mut copier, &lost), Looked { needs_block: Some(0), ..Looked::default() });
    assert_eq!(copier.map().acknowledged(), 12_000);
    copier.reopen(&block).unwrap();
    assert_eq!(look(&mut copier, &lost).lost, Some((TargetOffset(1), TargetOffset(12_000))));
    assert_eq!((copier.map().acknowledged(), copier.map().blocks()), (1, 0..0));
    let state = copier.take_state().unwrap();
    assert_eq!((state.map.segments.len(), state.map.removed_blocks), (1, vec![0]));
}
