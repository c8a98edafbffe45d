//! Every small partition: all patterns of holes and target gaps, every acknowledged count, every
//! cut, each before and after a restart.

use super::model::Twin;

/// A partition of `records` records; bit `i` of `holes` and `gaps` puts a source hole or a target
/// gap before record `i`. Acknowledged in two steps up to `acknowledged`.
fn partition(records: usize, holes: u32, gaps: u32, acknowledged: usize) -> Twin {
    let mut twin = Twin::new(2, (gaps & 1 == holes & 1).then_some(3));
    for record in 0..records {
        twin.plan(i64::from(holes >> record & 1) * 2);
    }
    for record in 0..records {
        // Gaps are found when the target answers, so the records before are acknowledged by then.
        if record == acknowledged / 2 {
            twin.acknowledge(record, 0);
        }
        if gaps >> record & 1 == 1 {
            twin.shift(record, 1);
        }
    }
    twin.acknowledge(acknowledged, i64::from(holes.count_ones() & 1));
    twin
}

fn every_partition(records: usize, mut check: impl FnMut(Twin)) {
    for holes in 0..1 << records {
        for gaps in 0..1 << records {
            for acknowledged in 0..=records {
                check(partition(records, holes, gaps, acknowledged));
            }
        }
    }
}

#[test]
fn every_partition_of_up_to_8_records_answers_as_the_records_do() {
    for records in 0..=8 {
        every_partition(records, |mut twin| {
            twin.check_all();
            twin.saved();
            assert_eq!(twin.restored(), twin.map);
        });
    }
}

#[test]
fn planned_records_never_make_up_an_answer() {
    for records in 0..=6 {
        every_partition(records, |twin| twin.check_without_planned());
    }
}

#[test]
fn every_cut_forgets_exactly_the_records_it_names_and_copying_goes_on() {
    for records in 0..=5 {
        every_partition(records, |whole| {
            for count in 0..=records {
                let mut twin = whole.clone();
                twin.saved();
                twin.cut(count);
                twin.check_all();
                twin.saved();
                assert_eq!(twin.restored(), twin.map);
                twin.plan(1);
                twin.plan(0);
                twin.acknowledge(twin.model.records.len(), 0);
                twin.check_all();
            }
        });
    }
}

#[test]
fn every_prune_and_every_cut_after_it_names_what_is_missing() {
    for records in [6, 7] {
        for gaps in [0, 0b1_0010] {
            for holes in 0..1 << records {
                let whole = partition(records, holes, gaps, records);
                for target_start in 0..=whole.map.target_end().0 + 1 {
                    for count in 0..=records {
                        let mut twin = whole.clone();
                        twin.prune(target_start);
                        twin.check_all();
                        twin.saved();
                        twin.cut(count);
                        twin.check_all();
                        twin.saved();
                        assert_eq!(twin.restored(), twin.map);
                    }
                }
            }
        }
    }
}
