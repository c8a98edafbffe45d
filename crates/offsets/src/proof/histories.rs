//! Random lives of a partition: plan, acknowledge, shift, cut, prune, save, crash and restart in
//! any order.

use super::model::Twin;

/// SplitMix64: one seed, one history.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }

    /// A number that is mostly 0, sometimes small, seldom large.
    fn hole(&mut self) -> i64 {
        match self.below(8) {
            0..=4 => 0,
            5 | 6 => 1 + self.below(2) as i64,
            _ => self.below(300) as i64,
        }
    }
}

fn live(seed: u64) -> Twin {
    let mut dice = Dice(seed);
    let origin = (dice.below(4) > 0).then(|| dice.below(50) as i64);
    let mut twin = Twin::new(dice.below(5) as i64, origin);
    let mut saved = twin.clone();
    for _ in 0..8 + dice.below(40) {
        let planned = twin.model.records.len();
        let acknowledged = twin.model.acknowledged;
        match dice.below(17) {
            0..=4 => (0..=dice.below(4)).for_each(|_| twin.plan(dice.hole())),
            5..=9 => {
                let count = acknowledged + dice.below(planned - acknowledged + 1);
                // Only the end of what is planned can have looked further than the next record.
                twin.acknowledge(count, dice.hole());
            }
            10 | 11 if planned > acknowledged => {
                let count = acknowledged + dice.below(planned - acknowledged);
                twin.shift(count, 1 + dice.hole());
            }
            12 => twin.cut(dice.below(planned + 1)),
            13 => twin.prune(dice.below(twin.map.target_end().0 as usize + 3) as i64),
            14 => {
                twin.saved();
                assert_eq!(twin.restored(), twin.map);
                saved = twin.clone();
            }
            15 => {
                twin = saved.clone();
                twin.restart();
            }
            // A write whose answer is lost, or that never arrived.
            16 => {
                let arrived = dice.below(2) == 0;
                twin.save(arrived, false);
                if arrived {
                    saved = twin.clone();
                }
            }
            _ => {}
        }
        let near = twin.model.copied_to + 3 - dice.below(12) as i64;
        twin.check_translate(near.max(0));
        twin.check_reverse((twin.map.target_end().0 + 3 - dice.below(12) as i64).max(0));
    }
    twin
}

#[test]
fn answers_hold_through_1_000_000_random_histories() {
    for seed in 0..1_000_000 {
        let outcome = std::panic::catch_unwind(|| {
            let twin = live(seed);
            if seed % 16 == 0 {
                twin.check_all();
                twin.check_without_planned();
            }
        });
        assert!(outcome.is_ok(), "history of seed {seed} fails, see the panic above");
    }
}
