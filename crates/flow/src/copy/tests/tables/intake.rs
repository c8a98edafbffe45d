//! What is made of fetched batches, and of a source that lost some.

use super::*;

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
