//! Single facts about the copy of a partition.

use std::sync::Arc;

use bytes::Bytes;
use twinlog_batch::{Codec, Record, batches};
use twinlog_types::{Code, SourceOffset, TargetOffset};

use super::source::{Kind, SourceBatch, record, told_offset};
use super::world::{PRODUCER, setup};
use crate::copy::{Answer, Copier, Fetched, Limits, Looked, Sending, Stop, Tail, TailBatch};

const TIME: i64 = 1_700_000_000_000;

fn records(offsets: impl IntoIterator<Item = i64>) -> Vec<Record> {
    offsets.into_iter().map(|offset| record(offset, TIME + offset)).collect()
}

fn dense(base: i64, count: i64) -> SourceBatch {
    SourceBatch::data(base, records(base..base + count))
}

/// Batches of one record each.
fn singles(offsets: std::ops::Range<i64>) -> Vec<SourceBatch> {
    offsets.map(|offset| dense(offset, 1)).collect()
}

fn offsets(range: std::ops::Range<i64>) -> Vec<i64> {
    range.collect()
}

/// A copier that has looked at an empty log and stored its state.
fn copier(limits: Limits) -> Copier {
    let mut copier = Copier::new(setup(limits), PRODUCER, SourceOffset(0), TargetOffset(0));
    assert!(look(&mut copier, &tail(0, None)).resumed);
    store(&mut copier);
    copier
}

/// Without merging, so that batches come out as they went in.
fn unmerged() -> Limits {
    Limits { merge_below: 0, ..Limits::default() }
}

/// A tail of nothing but what is acknowledged, `end` offsets long.
fn tail(end: i64, last_sequence: Option<i32>) -> Tail {
    let end = TargetOffset(end);
    Tail {
        leader_epoch: 0,
        log_start: TargetOffset(0),
        log_end: end,
        agreed: end,
        last_sequence,
        batches: Vec::new(),
    }
}

/// The batch of ours at `base` that begins with record number `number`.
fn ours(base: i64, number: i32, count: u32) -> TailBatch {
    TailBatch {
        base: TargetOffset(base),
        next: TargetOffset(base + i64::from(count)),
        producer_id: PRODUCER.id,
        producer_epoch: PRODUCER.epoch,
        base_sequence: number,
        count,
    }
}

fn foreign(base: i64, count: u32) -> TailBatch {
    TailBatch { producer_id: 77, ..ours(base, 0, count) }
}

fn look(copier: &mut Copier, tail: &Tail) -> Looked {
    assert!(copier.wants_look().is_some(), "no look is wanted");
    copier.looked(tail)
}

fn store(copier: &mut Copier) {
    while copier.take_state().is_some() {
        copier.state_stored();
    }
}

fn fetched(copier: &Copier, batches: &[SourceBatch]) -> Fetched {
    let bytes: Vec<u8> = batches.iter().flat_map(SourceBatch::encode).collect();
    Fetched {
        from: copier.wants_fetch().expect("it wants to be fetched for").offset,
        records: bytes.into(),
        aborted: Vec::new(),
        keep: Arc::new(()),
    }
}

fn fetch(copier: &mut Copier, batches: &[SourceBatch]) -> u64 {
    let fetched = fetched(copier, batches);
    copier.fetched(fetched)
}

fn send(copier: &mut Copier) -> Sending {
    store(copier);
    copier.next_send().expect("a batch can be sent")
}

fn contents(sending: &Sending) -> Vec<Record> {
    let batch = batches(sending.batch.to_bytes()).next().unwrap().unwrap();
    batch.records(usize::MAX).unwrap()
}

fn told(sending: &Sending) -> Vec<i64> {
    contents(sending).iter().map(|record| told_offset(record).unwrap()).collect()
}

/// Everything that is queued is sent and stored one by one, from `base` on.
fn copy_out(copier: &mut Copier, mut base: i64) -> Vec<Vec<i64>> {
    let mut out = Vec::new();
    while copier.has_unsent() {
        let sending = send(copier);
        out.push(told(&sending));
        copier.answered(sending.ticket, Answer::Stored { base: TargetOffset(base) });
        base += i64::from(sending.batch.cut().count);
    }
    out
}

/// The code and the range of the stop.
fn stop_of(copier: &Copier) -> (Code, Option<(i64, i64)>) {
    let stop = copier.stopped().expect("it has stopped");
    (stop.code, stop.range.map(|(from, to)| (from.0, to.0)))
}

#[test]
fn a_dense_batch_travels_with_the_body_it_was_fetched_with() {
    for codec in Codec::ALL {
        let mut copier = copier(unmerged());
        let batch = SourceBatch { codec, ..dense(0, 9) };
        assert_eq!(fetch(&mut copier, std::slice::from_ref(&batch)), 9);
        let sending = send(&mut copier);
        assert_eq!(sending.batch.body(), &batch.encode().slice(61..));
    }
}

#[test]
fn another_codec_is_used_where_one_is_asked_for() {
    let setup = crate::copy::Setup { recompress: Some(Codec::Zstd), ..setup(unmerged()) };
    let mut copier = Copier::new(setup, PRODUCER, SourceOffset(0), TargetOffset(0));
    look(&mut copier, &tail(0, None));
    fetch(&mut copier, &[dense(0, 9)]);
    let sending = send(&mut copier);
    let batch = batches(sending.batch.to_bytes()).next().unwrap().unwrap();
    assert_eq!(batch.head().codec(), Ok(Codec::Zstd));
    assert_eq!(told(&sending), offsets(0..9));
}

#[test]
fn timestamps_are_those_that_a_consumer_of_the_source_sees() {
    let stamped = records(0..3).into_iter().map(|record| Record { timestamp: TIME, ..record });
    let stamped =
        SourceBatch { append_time: Some(TIME), ..SourceBatch::data(0, stamped.collect()) };
    let horizon = SourceBatch { delete_horizon: Some(TIME + 86_400_000), ..dense(3, 3) };
    let mut copier = copier(unmerged());
    fetch(&mut copier, &[stamped, horizon]);
    for expected in [vec![TIME; 3], vec![TIME + 3, TIME + 4, TIME + 5]] {
        let sending = send(&mut copier);
        let times: Vec<i64> = contents(&sending).iter().map(|record| record.timestamp).collect();
        assert_eq!(times, expected);
        let base = TargetOffset(sending.ticket as i64);
        copier.answered(sending.ticket, Answer::Stored { base });
    }
}

#[test]
fn aborted_records_are_left_out_whatever_the_order_of_the_list() {
    let aborted = Kind::Transaction { aborted: true };
    let data = |base, producer| SourceBatch { producer, kind: aborted, ..dense(base, 2) };
    let marker = |base, producer, abort| SourceBatch {
        producer,
        kind: Kind::Marker { abort },
        ..dense(base, 1)
    };
    let log = [
        data(0, 7),
        data(2, 8),
        marker(4, 7, true),
        // The next transaction of the same producer was committed.
        SourceBatch { kind: Kind::Transaction { aborted: false }, ..data(5, 7) },
        marker(7, 7, false),
        data(8, 8),
        marker(10, 8, true),
        dense(11, 1),
    ];
    for list in [[(7, 0), (8, 2)], [(8, 2), (7, 0)]] {
        let mut copier = copier(unmerged());
        let aborted = list.map(|(producer, first)| (producer, SourceOffset(first))).to_vec();
        let fetched = Fetched { aborted, ..fetched(&copier, &log) };
        assert_eq!(copier.fetched(fetched), 3);
        assert_eq!(copy_out(&mut copier, 0), [vec![5, 6], vec![11]]);
        assert_eq!(copier.map().copied_to(), SourceOffset(12));
    }
}

#[test]
fn aborted_records_are_copied_under_read_uncommitted() {
    let setup = crate::copy::Setup { drop_aborted: false, ..setup(unmerged()) };
    let mut copier = Copier::new(setup, PRODUCER, SourceOffset(0), TargetOffset(0));
    look(&mut copier, &tail(0, None));
    let batch =
        SourceBatch { producer: 7, kind: Kind::Transaction { aborted: true }, ..dense(0, 2) };
    let aborted = vec![(7, SourceOffset(0))];
    let fetched = Fetched { aborted, ..fetched(&copier, &[batch]) };
    assert_eq!(copier.fetched(fetched), 2);
}

#[test]
fn an_aborted_batch_that_begins_before_the_position_is_left_out_as_a_whole() {
    let mut copier = Copier::new(setup(unmerged()), PRODUCER, SourceOffset(3), TargetOffset(0));
    look(&mut copier, &tail(0, None));
    let batch =
        SourceBatch { producer: 7, kind: Kind::Transaction { aborted: true }, ..dense(0, 6) };
    let aborted = vec![(7, SourceOffset(0))];
    let fetched = Fetched { aborted, ..fetched(&copier, &[batch, dense(6, 1)]) };
    assert_eq!(copier.fetched(fetched), 1);
    assert_eq!(copy_out(&mut copier, 0), [[6]]);
}

#[test]
fn records_before_the_position_are_not_copied_again() {
    let mut copier = Copier::new(setup(unmerged()), PRODUCER, SourceOffset(3), TargetOffset(0));
    look(&mut copier, &tail(0, None));
    assert_eq!(fetch(&mut copier, &[dense(0, 2), dense(2, 4)]), 3);
    assert_eq!(copy_out(&mut copier, 0), [[3, 4, 5]]);
}

#[test]
fn reading_goes_on_behind_a_batch_whatever_the_cleaner_took_out_of_it() {
    let mut copier = copier(unmerged());
    let holes = SourceBatch { next: 10, ..SourceBatch::data(0, records([2, 5])) };
    let empty = SourceBatch { next: 20, ..SourceBatch::data(10, Vec::new()) };
    assert_eq!(fetch(&mut copier, &[holes, empty]), 2);
    assert_eq!(copier.wants_fetch().unwrap().offset, SourceOffset(20));
    assert_eq!(copy_out(&mut copier, 0), [[2, 5]]);
    let map = copier.map();
    for (source, target) in [(0, 0), (2, 0), (3, 1), (5, 1)] {
        assert_eq!(map.translate(SourceOffset(source)).offset(), Some(TargetOffset(target)));
    }
    assert_eq!(map.copied_to(), SourceOffset(20));
}

#[test]
fn a_damaged_batch_stops_the_copy_once_the_sound_ones_before_it_are_copied() {
    let mut copier = copier(unmerged());
    let mut bytes =
        [dense(0, 3), dense(3, 3)].iter().flat_map(SourceBatch::encode).collect::<Vec<_>>();
    *bytes.last_mut().unwrap() ^= 1;
    let records = Bytes::from(bytes);
    let damaged = Fetched { records, ..fetched(&copier, &[]) };
    assert_eq!(copier.fetched(damaged.clone()), 3);
    assert_eq!((copier.stopped(), copier.wants_fetch()), (None, None));
    assert_eq!(copier.fetched(Fetched { from: SourceOffset(3), ..damaged }), 0);
    assert_eq!(copy_out(&mut copier, 0), [[0, 1, 2]]);
    assert_eq!(stop_of(&copier), (Code::CorruptBatch, Some((3, 3))));
    assert_eq!(copier.map().copied_to(), SourceOffset(3));
}

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
fn records_that_the_source_deleted_before_they_were_copied_are_a_gap_with_its_range() {
    let mut copier = copier(unmerged());
    fetch(&mut copier, &[dense(0, 3)]);
    copier.source_out_of_range(SourceOffset(1), SourceOffset(10), SourceOffset(20));
    assert_eq!(copier.stopped(), None, "an answer to another fetch");
    copier.source_out_of_range(SourceOffset(3), SourceOffset(10), SourceOffset(20));
    assert_eq!(copier.stopped(), None, "what was read before is copied first");
    copy_out(&mut copier, 0);
    assert_eq!(stop_of(&copier), (Code::SourceGap, Some((3, 10))));
    assert_eq!(copier.map().acknowledged(), 3);
}

#[test]
fn a_copy_that_has_read_nothing_begins_where_the_source_begins() {
    let mut copier = copier(unmerged());
    copier.source_out_of_range(SourceOffset(0), SourceOffset(10), SourceOffset(20));
    assert_eq!(copier.wants_fetch().unwrap().offset, SourceOffset(10));
    fetch(&mut copier, &[dense(10, 2)]);
    let state = copier.take_state().unwrap();
    assert_eq!(state.position.start, SourceOffset(10));
}

#[test]
fn a_source_that_lost_what_was_read_stops_the_copy_with_the_range() {
    let read = || {
        let mut copier = copier(unmerged());
        fetch(&mut copier, &[SourceBatch { epoch: 4, ..dense(0, 5) }]);
        assert_eq!(copier.wants_fetch().unwrap().last_epoch, 4);
        copy_out(&mut copier, 0);
        copier
    };
    let mut diverged = read();
    diverged.source_diverged(SourceOffset(5), 3, SourceOffset(2));
    let mut shorter = read();
    shorter.source_out_of_range(SourceOffset(5), SourceOffset(0), SourceOffset(2));
    for copier in [diverged, shorter] {
        assert_eq!(stop_of(&copier), (Code::SourceTruncated, Some((2, 5))));
    }
}

#[test]
fn answers_to_other_fetches_are_ignored() {
    let mut copier = copier(unmerged());
    let first = fetched(&copier, &[dense(0, 3)]);
    assert_eq!(copier.fetched(first.clone()), 3);
    assert_eq!(copier.fetched(first.clone()), 0);
    copier.lost();
    assert_eq!(copier.fetched(Fetched { from: SourceOffset(3), ..first }), 0);
    assert_eq!(copier.queue_bytes(), dense(0, 3).encode().len());
}

#[test]
fn a_full_queue_asks_for_nothing() {
    let mut copier = copier(Limits { queue_bytes: 100, ..unmerged() });
    fetch(&mut copier, &[dense(0, 9)]);
    assert!(copier.queue_bytes() >= 100);
    assert_eq!(copier.wants_fetch(), None);
    copy_out(&mut copier, 0);
    assert_eq!(copier.wants_fetch().unwrap().offset, SourceOffset(9));
}

#[test]
fn small_batches_are_merged_once_and_keep_that_cut() {
    let mut copier = copier(Limits::default());
    fetch(&mut copier, &singles(0..6));
    let sending = send(&mut copier);
    assert_eq!(told(&sending), offsets(0..6));
    copier.lost();
    // More has come since; it is not added to what may be stored already.
    look(&mut copier, &tail(0, None));
    fetch(&mut copier, &singles(6..12));
    let again = send(&mut copier);
    assert_eq!(again.batch.cut(), sending.batch.cut());
    assert_eq!(again.batch.to_bytes(), sending.batch.to_bytes());
}

#[test]
fn batches_of_different_codecs_are_not_merged() {
    let mut copier = copier(Limits::default());
    let codec = |n| if n < 5 { Codec::None } else { Codec::Lz4 };
    fetch(
        &mut copier,
        &(0..10).map(|n| SourceBatch { codec: codec(n), ..dense(n, 1) }).collect::<Vec<_>>(),
    );
    let sent = copy_out(&mut copier, 0);
    assert_eq!(sent, [offsets(0..5), offsets(5..10)]);
}

#[test]
fn three_small_batches_are_no_backlog() {
    let mut copier = copier(Limits::default());
    fetch(&mut copier, &singles(0..3));
    assert_eq!(copy_out(&mut copier, 0), [[0], [1], [2]]);
}

#[test]
fn a_batch_that_is_too_large_is_halved_until_one_record_alone_is_too_large() {
    let mut copier = copier(Limits::default());
    fetch(&mut copier, &[dense(0, 6)]);
    let mut refused = Vec::new();
    while copier.stopped().is_none() {
        let sending = send(&mut copier);
        refused.push(told(&sending).len());
        copier.answered(sending.ticket, Answer::TooLarge);
        look(&mut copier, &tail(0, None));
    }
    assert_eq!(refused, [6, 3, 1]);
    assert_eq!(stop_of(&copier), (Code::RecordTooLarge, Some((0, 1))));
    assert_eq!(copier.queue_bytes(), 0);
}

#[test]
fn the_parts_of_a_batch_that_was_too_large_are_not_merged_again() {
    let mut copier = copier(Limits::default());
    fetch(&mut copier, &[dense(0, 16)]);
    let mut stored = 0;
    let mut sent = Vec::new();
    while copier.has_unsent() {
        let sending = send(&mut copier);
        let records = told(&sending);
        if records.len() > 2 {
            copier.answered(sending.ticket, Answer::TooLarge);
            look(&mut copier, &tail(stored, (stored > 0).then_some(stored as i32 - 1)));
        } else {
            let base = TargetOffset(stored);
            stored += records.len() as i64;
            sent.extend(records);
            copier.answered(sending.ticket, Answer::Stored { base });
        }
    }
    assert_eq!(sent, offsets(0..16));
}

#[test]
fn batches_are_split_at_the_limits_of_the_target() {
    let mut copier = copier(Limits { batch_records: 4, ..unmerged() });
    fetch(&mut copier, &[dense(0, 10)]);
    assert_eq!(copy_out(&mut copier, 0), [vec![0, 1, 2, 3], vec![4, 5, 6, 7], vec![8, 9]]);
}

#[test]
fn one_batch_is_under_way_until_the_leader_knows_the_producer_and_then_five() {
    let mut copier = copier(unmerged());
    fetch(&mut copier, &singles(0..9));
    let first = send(&mut copier);
    assert!(copier.next_send().is_none());
    copier.answered(first.ticket, Answer::Stored { base: TargetOffset(0) });
    let under_way = std::iter::from_fn(|| copier.next_send()).count();
    assert_eq!((under_way, copier.unacknowledged()), (5, 5));
}

/// A copier with batches of two records under way, the first `acknowledged` of five are stored.
fn under_way(acknowledged: usize) -> Copier {
    let mut copier = copier(unmerged());
    fetch(&mut copier, &(0..5).map(|n| dense(2 * n, 2)).collect::<Vec<_>>());
    for n in 0..acknowledged {
        let sending = send(&mut copier);
        let base = TargetOffset(2 * n as i64);
        copier.answered(sending.ticket, Answer::Stored { base });
    }
    while copier.next_send().is_some() {}
    copier
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
fn a_refused_batch_stops_the_copy_only_when_it_is_the_oldest() {
    let stop =
        Stop { code: Code::TimestampRefused, reason: "refused".into(), range: None, passing: true };
    let mut copier = under_way(1);
    copier.answered(4, Answer::Refused(stop.clone()));
    assert_eq!(copier.stopped(), None);
    let mut copier = under_way(1);
    copier.answered(2, Answer::Refused(stop.clone()));
    assert_eq!(copier.stopped(), Some(&stop));
    // Three batches of the copy are still under way: no look tells before they are answered.
    copier.retry();
    assert_eq!(copier.wants_look(), None);
    for ticket in [4, 6, 8] {
        copier.answered(ticket, Answer::Unclear);
    }
    look(&mut copier, &tail(2, Some(1)));
    assert_eq!(copier.wants_fetch().unwrap().offset, SourceOffset(2));
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
    let map = twinlog_offsets::OffsetMap::restore(&state.position, copier.map().segments_since(0));
    let restored = Copier::restore(setup(unmerged()), &state.position, map.unwrap());
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
    let map = twinlog_offsets::OffsetMap::restore(&state.position, state.segments).unwrap();
    let mut new = Copier::restore(setup(unmerged()), &state.position, map);
    look(&mut new, &tail(0, None));
    let state = new.take_state().unwrap();
    assert_eq!(state.position.runs, 2);
    let map = twinlog_offsets::OffsetMap::restore(&state.position, state.segments).unwrap();
    assert_eq!(map.source_of(2), Some(SourceOffset(9)));
    new.state_stored();
    // The cleaner took the record at 9 meanwhile: the plan no longer holds.
    fetch(&mut new, &[dense(0, 2), dense(10, 1)]);
    assert!(new.next_send().is_none());
    let state = new.take_state().unwrap();
    let map = twinlog_offsets::OffsetMap::restore(&state.position, state.segments).unwrap();
    assert_eq!(map.source_of(2), Some(SourceOffset(10)));
}

#[test]
fn a_batch_behind_a_hole_waits_for_the_state() {
    let mut copier = copier(unmerged());
    fetch(&mut copier, &[dense(0, 2)]);
    let first = send(&mut copier);
    copier.answered(first.ticket, Answer::Stored { base: TargetOffset(0) });
    fetch(&mut copier, &[dense(9, 2)]);
    assert!(copier.has_unsent() && copier.next_send().is_none() && copier.store_urgently());
    copier.take_state().unwrap();
    copier.state_not_stored();
    assert!(copier.next_send().is_none());
    store(&mut copier);
    assert!(copier.next_send().is_some());
}

#[test]
fn segments_that_a_cut_left_behind_do_not_come_back() {
    let mut copier = copier(unmerged());
    let mut stored = std::collections::BTreeMap::new();
    let mut store = |copier: &mut Copier| {
        let state = copier.take_state().expect("there is something to store");
        copier.state_stored();
        stored.extend(state.segments);
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
    assert_eq!((position.runs, segments.len()), (1, 2));
    let map = twinlog_offsets::OffsetMap::restore(&position, segments).unwrap();
    assert_eq!((map.runs(), map.acknowledged()), (1, 1));
}
