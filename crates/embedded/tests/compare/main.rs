//! The same requests to a real broker and to the embedded cluster, and their answers compared.
//!
//! Every area is a script: requests of one family, each at many API versions, sent over plain
//! connections to both sides. Answers are decoded and compared field by field. What must differ is
//! listed in [`allowed`], each entry with its reason; ids are not erased but matched, so that a
//! value of one side always stands for the same value of the other. Any other difference fails,
//! and so does an entry of a list that nothing needs.
//!
//! Does not: judge whether Kafka is right, or compare clusters of several brokers.

mod allowed;
mod areas;
mod batches;
mod compare;
mod pair;
mod requests;
mod sides;
mod tally;
mod tree;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use twinlog_testkit::ring::{self, TestResult, test};

use crate::pair::{Pair, Result};

/// A script.
type Area = fn(&mut Pair) -> Result;

const AREAS: &[Area] = &[
    areas::versions::run,
    areas::cluster::run,
    areas::topics::run,
    areas::configs::run,
    areas::produce::run,
    areas::idempotence::run,
    areas::fetch::run,
    areas::offsets::run,
    areas::commits::run,
    areas::groups::run,
    areas::consumer_groups::run,
    areas::transactions::run,
    areas::admin::run,
    areas::malformed::run,
];

/// The clusters and the verdicts so far. Areas run once each, whoever asks first.
static DONE: Mutex<Option<(Pair, Verdicts)>> = Mutex::new(None);

/// By the index of the area.
type Verdicts = BTreeMap<usize, std::result::Result<(), String>>;

fn area(index: usize) -> TestResult {
    let mut done = DONE.lock().unwrap_or_else(PoisonError::into_inner);
    if done.is_none() {
        *done = Some((Pair::start()?, BTreeMap::new()));
    }
    let Some((pair, verdicts)) = done.as_mut() else { return Err("no clusters".into()) };
    let verdict = verdicts.entry(index).or_insert_with(|| {
        let ended = AREAS[index](pair).map_err(|error| format!("the script ended early: {error}"));
        match (pair.tally().verdict(), ended) {
            (verdict, Ok(())) => verdict,
            (Ok(()), Err(error)) => Err(error),
            (Err(differences), Err(error)) => Err(format!("{differences}\n{error}")),
        }
    });
    verdict.clone().map_err(Into::into)
}

/// The areas must all have run for this: it runs those that have not.
fn nothing_needless() -> TestResult {
    for index in 0..AREAS.len() {
        // Its own test tells what is wrong with it.
        let _ = area(index);
    }
    let mut done = DONE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some((pair, _)) = done.as_mut() else { return Err("no clusters".into()) };
    println!("\n{}", pair.tally());
    let unused = pair.tally().unused();
    if unused.is_empty() { Ok(()) } else { Err(format!("nothing needs {unused:?}").into()) }
}

fn main() -> ExitCode {
    ring::main(&[
        test("the_same_apis_are_offered_but_for_a_list", || area(0)),
        test("metadata_is_answered_alike", || area(1)),
        test("topics_are_made_and_refused_alike", || area(2)),
        test("configs_are_answered_alike", || area(3)),
        test("batches_are_judged_alike", || area(4)),
        test("sequences_are_judged_alike", || area(5)),
        test("records_are_fetched_alike", || area(6)),
        test("offsets_are_listed_and_deleted_alike", || area(7)),
        test("commits_are_kept_alike", || area(8)),
        test("classic_groups_live_alike", || area(9)),
        test("consumer_groups_live_alike", || area(10)),
        test("transactions_go_alike", || area(11)),
        test("administrators_are_answered_alike", || area(12)),
        test("what_is_no_request_is_refused_alike", || area(13)),
        test("every_allowed_difference_is_needed", nothing_needless),
    ])
}
