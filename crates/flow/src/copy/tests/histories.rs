//! Random histories of faults: whatever happens, every record is copied once, in order, and the
//! map knows where it lies.

use super::world::World;

const HISTORIES: u64 = 20_000;

/// Names the seed of a history that fails.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("history of seed {}", self.0);
        }
    }
}

fn history(seed: u64) {
    let named = Seed(seed);
    let mut world = World::new(seed);
    let wide = world.faults.wide;
    world.source.grow(&mut world.random, wide);
    for _ in 0..40 + world.random.below(120) {
        world.step();
        if world.ended.is_some() {
            break;
        }
    }
    world.settle();
    if world.ended.is_none() {
        world.look_again();
        world.settle();
    }
    world.check_all();
    drop(named);
}

#[test]
fn every_record_is_copied_once_and_in_order_whatever_happens() {
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get() as u64);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || (thread..HISTORIES).step_by(threads as usize).for_each(history));
        }
    });
}
