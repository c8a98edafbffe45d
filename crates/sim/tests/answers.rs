//! Wrong answers: every request of a flow gets every kind of them. Nothing is lost, doubled or
//! skipped, nobody is asked without a pause, and once the lies are over everything arrives.

use twinlog_embedded::Action;
use twinlog_protocol::ApiKey;
use twinlog_sim::network::Tampering;
use twinlog_sim::scenes::{Disturbance, LASTS, Scene, play};
use twinlog_sim::tamper::Lie;

/// Requests of one kind in a second, on average: a loop with back-off asks far less.
const PER_SECOND: u64 = 60;

fn judge(scene: &Scene, named: &str) {
    assert_eq!(scene.outcome.violations, [], "{named}");
    for (request, count) in &scene.requests {
        let most = PER_SECOND * LASTS.as_secs();
        assert!(*count <= most, "{named}: {request} was sent {count} times in {LASTS:?}");
    }
}

fn requests() -> Vec<String> {
    play(&Disturbance::Nothing).requests.into_keys().collect()
}

#[test]
fn a_wrong_answer_now_and_then_does_no_harm() {
    let mut told = 0;
    for request in requests() {
        for lie in Lie::ALL {
            let tampering = Tampering { request: request.clone(), lie, skip: 1, times: 2 };
            let scene = play(&Disturbance::Lie(tampering));
            judge(&scene, &format!("{lie:?} to {request}"));
            told += scene.happened;
        }
    }
    assert!(told >= 200, "{told} wrong answers");
    println!("{told} wrong answers");
}

#[test]
fn nothing_but_wrong_answers_makes_nobody_ask_without_a_pause() {
    for request in requests() {
        for lie in Lie::ALL {
            let tampering = Tampering { request: request.clone(), lie, skip: 0, times: 2_000 };
            let scene = play(&Disturbance::Lie(tampering));
            judge(&scene, &format!("only {lie:?} to {request}"));
        }
    }
}

#[test]
fn an_answer_that_comes_after_its_timeout_does_no_harm() {
    let apis = [
        (true, ApiKey::Fetch),
        (true, ApiKey::OffsetFetch),
        (true, ApiKey::ListOffsets),
        (false, ApiKey::Produce),
        (false, ApiKey::EndTxn),
        (false, ApiKey::OffsetCommit),
        (false, ApiKey::OffsetForLeaderEpoch),
        (false, ApiKey::Metadata),
    ];
    for (source, api) in apis {
        let action = Action::Delay(std::time::Duration::from_secs(40));
        let act = Disturbance::Act { source, api, action, plain: false, times: Some(2) };
        let scene = play(&act);
        judge(&scene, &format!("late answer to {api}"));
    }
}

#[test]
fn a_quota_slows_the_copy_and_is_no_error() {
    for (source, api) in [(true, ApiKey::Fetch), (false, ApiKey::Produce)] {
        for seconds in [1, 5, 30] {
            let action = Action::Throttle(std::time::Duration::from_secs(seconds));
            let act = Disturbance::Act { source, api, action, plain: false, times: Some(3) };
            let scene = play(&act);
            judge(&scene, &format!("{api} throttled for {seconds} s"));
            assert!(scene.said.is_empty(), "{:?}", scene.said);
        }
    }
}
