//! What copying costs in processor time, with MirrorMaker 2 beside it.
//!
//! The small size runs always and holds that the figures can be taken. `TWINLOG_BENCH=1` takes
//! millions of records of three kinds, MM2 also tuned by hand, some ten minutes and three gigabytes
//! of disk.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use twinlog_testkit::ring::TestResult;
use twinlog_testkit::{JavaTool, Mm2, Process, Scratch, wait_until_some};

use crate::setup::{self, LIMIT, Mirror, Pair, Result, bench, flows_file};

const PARTITIONS: i32 = 8;
/// Lines from which the producer draws.
const LINES: usize = 20_000;

/// What MM2's users set who want it fast, as far as it takes it: more tasks, larger fetches and
/// batches, batches of the codec that the source has.
const TUNED: &str = "tasks.max = 4
tunedhello.consumer.fetch.max.bytes = 52428800
tunedhello.consumer.max.partition.fetch.bytes = 4194304
tunedhello.consumer.max.poll.records = 5000
tunedhello.consumer.receive.buffer.bytes = 1048576
tunedhello->world.producer.override.batch.size = 1048576
tunedhello->world.producer.override.linger.ms = 20
tunedhello->world.producer.override.compression.type = lz4
tunedhello->world.producer.override.buffer.memory = 134217728
tunedhello->world.producer.override.max.request.size = 4194304
";

/// A topic of lz4 batches as Kafka's own producer makes them.
#[derive(Clone, Copy)]
struct Load {
    topic: &'static str,
    what: &'static str,
    records: u64,
    /// Bytes of a record's value; nothing where values are JSON.
    size: Option<u64>,
}

/// What one mirror needed for one topic.
struct Cost {
    who: &'static str,
    cpu: Duration,
    wall: Duration,
    peak_bytes: u64,
}

/// The three mirrors: twinlog, MM2 as it is, MM2 tuned.
#[derive(Clone, Copy, PartialEq)]
enum Copier {
    Twinlog,
    Mm2,
    Tuned,
}

/// Every record is copied by each, and the processor time of each is told for a gigabyte of values.
pub(crate) fn cost() -> TestResult {
    let pair = setup::pair()?;
    let scratch = Scratch::new("copy-cost")?;
    let kb = |records| Load { topic: "cp-kb", what: "1 KB", records, size: Some(1_000) };
    let (loads, copiers): (Vec<Load>, &[Copier]) = if bench() {
        let hb = Load { topic: "cp-hb", what: "100 B", records: 6_000_000, size: Some(100) };
        let json = Load { topic: "cp-json", what: "JSON", records: 3_000_000, size: None };
        (vec![kb(1_000_000), hb, json], &[Copier::Twinlog, Copier::Mm2, Copier::Tuned])
    } else {
        (vec![kb(20_000)], &[Copier::Twinlog, Copier::Mm2])
    };
    println!("                   MB/s  CPU-s/GB  of twinlog's  peak MiB");
    for load in loads {
        let bytes = produce(pair, &scratch, load)?;
        let costs =
            copiers.iter().map(|copier| copy(pair, *copier, load)).collect::<Result<Vec<_>>>()?;
        print(load, bytes, &costs);
        pair.shell.delete_topic(&pair.hello.bootstrap(), load.topic)?;
    }
    Ok(())
}

/// Fills the topic; answers the bytes of all values, of JSON as their mean has it.
fn produce(pair: &Pair, scratch: &Scratch, load: Load) -> Result<f64> {
    let hello = pair.hello.bootstrap();
    pair.shell.create_topic(&hello, load.topic, PARTITIONS, 1, &[])?;
    let records = load.records.to_string();
    let of_values = if let Some(size) = load.size {
        ["--record-size".to_owned(), size.to_string()]
    } else {
        let file = scratch.write("values.jsonl", &lines())?;
        ["--payload-file".to_owned(), file.to_string_lossy().into_owned()]
    };
    JavaTool::new(&pair.jars, JavaTool::PRODUCER_PERF_TEST)
        .args(["--topic", load.topic, "--num-records", &records, "--throughput", "-1"])
        .args(["--bootstrap-server", &hello])
        .args(&of_values)
        .args(["--command-property", "compression.type=lz4", "batch.size=131072", "linger.ms=20"])
        .run()?;
    let mean =
        load.size.map_or_else(|| lines().len() as f64 / LINES as f64 - 1.0, |size| size as f64);
    Ok(load.records as f64 * mean)
}

/// Values as applications write them: names that repeat, numbers that do not.
fn lines() -> String {
    const PORTS: [&str; 12] =
        ["AMS", "CDG", "CPH", "DUB", "FRA", "HEL", "LHR", "LIS", "MAD", "OSL", "VIE", "ZRH"];
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut below = move |bound: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % bound
    };
    let mut text = String::new();
    for _ in 0..LINES {
        let (from, to) = (PORTS[below(12) as usize], PORTS[below(12) as usize]);
        let _ = writeln!(
            text,
            "{{\"number\":\"TW{:04}\",\"origin\":\"{from}\",\"destination\":\"{to}\",\
             \"day\":\"2026-{:02}-{:02}\",\"departure_minutes\":{},\"delay_minutes\":{},\
             \"distance_km\":{},\"tail\":\"TW-{:05}\",\"gate\":\"{}{}\",\"cancelled\":{},\
             \"diverted\":false,\"taxi_out_minutes\":{},\"taxi_in_minutes\":{},\"air_minutes\":{}}}",
            below(10_000),
            1 + below(12),
            1 + below(28),
            below(1_440),
            below(90),
            200 + below(9_000),
            below(100_000),
            ["A", "B", "C", "D"][below(4) as usize],
            1 + below(60),
            below(50) == 0,
            5 + below(40),
            2 + below(20),
            30 + below(600),
        );
    }
    text
}

fn copy(pair: &Pair, copier: Copier, load: Load) -> Result<Cost> {
    let (hello, world) = (pair.hello.bootstrap(), pair.world.bootstrap());
    let alias = match copier {
        Copier::Twinlog => "hello",
        Copier::Mm2 => "mm2hello",
        Copier::Tuned => "tunedhello",
    };
    let clusters = [(alias, hello.as_str()), ("world", world.as_str())];
    let file = flows_file(&clusters, &[(alias, "world")], load.topic, "cp-");
    let mirror = format!("{alias}.{}", load.topic);
    let cost = if copier == Copier::Twinlog {
        let twin = Mirror::new(&file)?;
        let run = twin.run()?;
        let cost = setup::or_log(&run, measure(pair, run.process(), "twinlog", &mirror, load))?;
        setup::stop(&run)?;
        cost
    } else {
        let (who, tuning) =
            if copier == Copier::Tuned { ("MM2, tuned", TUNED) } else { ("MM2", "") };
        let file = file + tuning + "dedicated.mode.enable.internal.rest = false\n";
        let mm2 = Mm2::start_as_shipped(&pair.jars, &file)?;
        let cost = measure(pair, mm2.process(), who, &mirror, load)?;
        mm2.kill()?;
        cost
    };
    pair.shell.delete_topic(&world, &mirror)?;
    Ok(cost)
}

/// From the last look at an empty mirror to the first at a full one: the start of a JVM is nobody's
/// copying.
fn measure(
    pair: &Pair,
    process: &Process,
    who: &'static str,
    mirror: &str,
    load: Load,
) -> Result<Cost> {
    let (world, cpu) = (pair.world.bootstrap(), || process.cpu().unwrap_or_default());
    let mut empty = (Instant::now(), cpu());
    wait_until_some(&format!("{} records in {mirror}", load.records), 10 * LIMIT, || {
        let now = (Instant::now(), cpu());
        if !process.is_running() {
            return Ok(Err(process.ended_early()));
        }
        // A topic that is not there yet is as empty as one without records.
        let ends = pair.shell.end_offsets(&world, mirror).unwrap_or_default();
        match ends.values().sum::<i64>() {
            there if there == load.records as i64 => Ok(Ok(())),
            0 => {
                empty = now;
                Err("nothing".to_owned())
            }
            there => Err(format!("{there}")),
        }
    })??;
    let peak_bytes = process.rss_peak_bytes().unwrap_or_default();
    Ok(Cost { who, cpu: cpu().saturating_sub(empty.1), wall: empty.0.elapsed(), peak_bytes })
}

fn print(load: Load, bytes: f64, costs: &[Cost]) {
    println!("{} ({} records, {:.0} MB of values)", load.what, load.records, bytes / 1e6);
    let a_gigabyte = |cost: &Cost| cost.cpu.as_secs_f64() / bytes * 1e9;
    let ours = costs.first().map_or(f64::NAN, a_gigabyte);
    for cost in costs {
        println!(
            "  {:<12} {:>8.1} {:>9.2} {:>10.1} x {:>9.1}",
            cost.who,
            bytes / 1e6 / cost.wall.as_secs_f64(),
            a_gigabyte(cost),
            a_gigabyte(cost) / ours,
            cost.peak_bytes as f64 / f64::from(1 << 20),
        );
    }
}
