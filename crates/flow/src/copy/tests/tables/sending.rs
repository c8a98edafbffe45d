//! Which batch is sent when, with which records in it.

use super::*;

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
fn while_packets_may_be_late_only_young_batches_are_sent() {
    let mut copier = copier(unmerged());
    fetch(&mut copier, &[dense(0, 2), dense(2, 2), dense(4, 2)]);
    assert_eq!(copier.strays(), 0);
    send(&mut copier);
    copier.lost();
    assert_eq!(copier.strays(), 1);
    copier.lost();
    assert_eq!(copier.strays(), 1, "nothing was sent since");
    // The newest record of the first batch is one too old.
    copier.send_only_since(Some(TIME + 2));
    look(&mut copier, &tail(0, None));
    assert!(copier.next_send().is_none() && copier.has_unsent());
    copier.send_only_since(Some(TIME + 1));
    let sending = copier.next_send().expect("it is young enough");
    copier.answered(sending.ticket, Answer::Stored { base: TargetOffset(0) });
    copier.send_only_since(Some(i64::MAX));
    assert!(copier.next_send().is_none());
    copier.send_only_since(None);
    assert_eq!(copier.next_send().map(|sending| sending.ticket), Some(2));
    // What a stop gave up is on its way, too.
    copier.stop(Stop { code: Code::SourceGap, reason: String::new(), range: None, passing: false });
    copier.lost();
    assert_eq!(copier.strays(), 2);
}
