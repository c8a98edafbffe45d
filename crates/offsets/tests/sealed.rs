//! Maps whose past is sealed, at full size.

use twinlog_offsets::{Block, Durable, OffsetMap, RUNS_PER_BLOCK, RunStart};
use twinlog_types::{SourceOffset, TargetOffset, Translation};

/// Records of a run, and offsets from one run's start to the next on the source: a marker behind
/// every 49 records.
const RECORDS: u64 = 49;
const DISTANCE: i64 = 50;

fn run(number: u64) -> RunStart {
    RunStart {
        count: number * RECORDS,
        source: SourceOffset(number as i64 * DISTANCE),
        target: TargetOffset((number * RECORDS) as i64),
    }
}

#[test]
fn a_thousand_million_records_with_a_hole_every_fifty_stay_answerable_in_64_kib() {
    const RUNS: u64 = 1_000_000_000 / RECORDS;
    const WRITTEN_EVERY: u64 = 1_000;
    let mut map = OffsetMap::new(SourceOffset(0));
    map.set_origin(TargetOffset(0));
    let mut durable = Durable::default();
    let mut blocks: Vec<Vec<u8>> = Vec::new();
    let mut memory = 0;
    for number in 0..RUNS {
        map.plan(run(number));
        if number % WRITTEN_EVERY == WRITTEN_EVERY - 1 {
            let end = run(number + 1);
            map.acknowledge(end.count, end.source);
            let changes = durable.changes(&map);
            durable.writing(&changes);
            durable.stored(&changes, true);
            for block in &changes.blocks {
                assert_eq!(block.number() as usize, blocks.len());
                blocks.push(block.encode().to_vec());
                map.seal(block);
            }
            memory = memory.max(map.memory_bytes());
        }
    }
    let on_topic: usize = blocks.iter().map(Vec::len).sum();
    let sealed = blocks.len() * RUNS_PER_BLOCK;
    println!("{RUNS} runs: {on_topic} bytes for {sealed} sealed ones, {memory} in memory at most");
    assert!(on_topic <= 4 * sealed, "{on_topic} bytes on the topic");
    assert!(memory <= 64 << 10, "{memory} bytes in memory");

    for number in [1, 2, 77_777, 5_000_000, 12_345_678, 20_000_000] {
        let run = run(number);
        for position in run.source.0 + 1..run.source.0 + DISTANCE {
            // The last offset is the marker: the next record begins the next run.
            let expected = TargetOffset(run.target.0 + position - run.source.0);
            let wanted = map.block_of_source(SourceOffset(position)).expect("it is sealed");
            let block = Block::decode(wanted, &blocks[wanted as usize]).unwrap();
            let answer = map.with(&block).translate(SourceOffset(position));
            assert_eq!(answer, Translation::Exact(expected), "{position}");
            let Translation::LowerBound(bound) = map.translate(SourceOffset(position)) else {
                panic!("{position} is answered without its block");
            };
            assert!(bound <= expected);
            let back = map.block_of_target(expected).expect("it is sealed");
            let block = Block::decode(back, &blocks[back as usize]).unwrap();
            let record = position + i64::from(position == run.source.0 + DISTANCE - 1);
            let answer = map.with(&block).reverse(expected);
            assert_eq!(answer, Translation::Exact(SourceOffset(record)), "{expected:?}");
        }
    }
}

#[test]
fn a_damaged_block_is_refused_and_a_foreign_one_is_no_use() {
    let mut map = OffsetMap::new(SourceOffset(0));
    map.set_origin(TargetOffset(0));
    let mut durable = Durable::default();
    for number in 0..3 * RUNS_PER_BLOCK as u64 {
        map.plan(run(number));
    }
    map.acknowledge(3 * RUNS_PER_BLOCK as u64 * RECORDS, SourceOffset(0));
    let first = durable.changes(&map);
    durable.stored(&first, true);
    let changes = durable.changes(&map);
    let [one, two] = &changes.blocks[..] else { panic!("{} blocks", changes.blocks.len()) };
    for length in 0..one.encode().len() {
        assert!(Block::decode(0, &one.encode()[..length]).is_err(), "cut to {length} bytes");
    }
    assert!(Block::decode(u32::MAX, &one.encode()).is_err());
    changes.blocks.iter().for_each(|block| map.seal(block));
    let position = SourceOffset(DISTANCE * 9 + 1);
    assert_eq!(map.with(one).translate(position), Translation::Exact(TargetOffset(442)));
    assert_eq!(map.with(two).translate(position), Translation::LowerBound(TargetOffset(0)));
    assert!(map.clone().reopen(one).is_err(), "only the last block can be reopened");
    assert_eq!(map.reopen(two), Ok(()));
}
