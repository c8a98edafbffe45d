//! Two tellers of one group, in every order that hurts.

use super::*;

const G: &str = "orders-app";

fn tp(partition: i32) -> TopicPartition {
    TopicPartition::new("orders", partition)
}

fn at(offset: i64) -> SourceCommit {
    SourceCommit { offset: SourceOffset(offset), metadata: String::new(), topic_id: None }
}

fn on(offset: i64, topic: u8) -> SourceCommit {
    SourceCommit { topic_id: Some(TopicId([topic; 16])), ..at(offset) }
}

/// A group that is followed, and the words about its one partition.
struct Scene(SourceCommits, GroupId);

impl Scene {
    fn new() -> Self {
        let (mut commits, group) = (SourceCommits::new(), GroupId::from(G));
        assert!(commits.follow(&group));
        Self(commits, group)
    }

    /// A poll that is asked and answered at `now`.
    fn poll(&mut self, offset: Option<i64>, now: i64) -> Outcome {
        let asked = self.0.ask(now);
        self.answer(offset, asked, now)
    }

    fn answer(&mut self, offset: Option<i64>, asked: Asked, now: i64) -> Outcome {
        let told = offset.map(|offset| (tp(0), Polled::Commit(at(offset))));
        self.0.polled(&self.1, told, asked, now)
    }

    fn log(&mut self, offset: Option<i64>, now: i64) -> bool {
        self.0.logged(&self.1, &tp(0), offset.map(at), now)
    }

    /// What counts: nothing while the group is not complete.
    fn counts(&self) -> Option<Vec<i64>> {
        Some(self.0.commits(&self.1)?.map(|(_, commit)| commit.offset.0).collect())
    }

    fn is_doubted(&self, now: i64) -> bool {
        self.0.doubted(now).count() == 1
    }
}

#[test]
fn nothing_is_concluded_from_the_tail_of_the_log_alone() {
    let mut scene = Scene::new();
    scene.log(Some(7), 0);
    assert_eq!(scene.counts(), None);
    assert_eq!(scene.0.incomplete().count(), 1);
    // Asked after the log had told: both agree.
    assert!(scene.poll(Some(7), 1).changed);
    assert_eq!(scene.counts(), Some(vec![7]));
    assert_eq!(scene.0.incomplete().count(), 0);
}

#[test]
fn each_commit_of_the_log_counts_at_once_and_the_same_again_is_no_change() {
    let mut scene = Scene::new();
    scene.poll(Some(5), 0);
    assert!(scene.log(Some(6), 1));
    assert!(!scene.log(Some(6), 2));
    assert_eq!(scene.counts(), Some(vec![6]));
    assert!(!scene.poll(Some(6), 3).changed);
}

#[test]
fn a_poll_never_takes_back_what_the_log_has_told_since_it_was_asked() {
    let mut scene = Scene::new();
    scene.poll(Some(5), 0);
    let asked = scene.0.ask(10);
    scene.log(Some(9), 11);
    assert!(!scene.answer(Some(5), asked, 12).changed);
    assert_eq!((scene.counts(), scene.is_doubted(5_000)), (Some(vec![9]), false));
    // Nor that there is a commit at all.
    let asked = scene.0.ask(20);
    scene.log(Some(10), 21);
    scene.answer(None, asked, 22);
    assert_eq!((scene.counts(), scene.is_doubted(5_000)), (Some(vec![10]), false));
}

#[test]
fn the_older_answers_of_a_new_coordinator_move_nothing_back() {
    let mut scene = Scene::new();
    scene.poll(Some(965), 0);
    assert!(!scene.poll(Some(964), 1_000).changed);
    assert!(!scene.poll(Some(964), 1_900).changed);
    assert_eq!(scene.counts(), Some(vec![965]));
    assert_eq!(scene.0.next_doubt_ms(), Some(2_000));
    scene.poll(Some(965), 2_000);
    assert_eq!((scene.counts(), scene.0.next_doubt_ms()), (Some(vec![965]), None));
}

#[test]
fn a_step_back_counts_when_a_poll_a_second_later_says_so_too() {
    for by_log in [false, true] {
        let mut scene = Scene::new();
        scene.poll(Some(900), 0);
        let first =
            if by_log { scene.log(Some(10), 100) } else { scene.poll(Some(10), 100).changed };
        assert!(!first);
        assert_eq!(scene.counts(), Some(vec![900]));
        assert!(!scene.is_doubted(1_099) && scene.is_doubted(1_100));
        // The group reads on meanwhile; the log cannot confirm itself.
        assert!(!scene.log(Some(11), 1_500));
        assert!(scene.poll(Some(12), 1_600).changed);
        assert_eq!(scene.counts(), Some(vec![12]));
        assert!(scene.log(Some(13), 1_700));
        assert_eq!(scene.0.next_doubt_ms(), None);
    }
}

#[test]
fn how_long_an_older_answer_was_under_way_confirms_nothing() {
    let mut scene = Scene::new();
    scene.poll(Some(965), 0);
    // Asked long before it was heard, as by a process that stood still.
    let asked = scene.0.ask(1_000);
    scene.answer(Some(964), asked, 21_000);
    assert!(!scene.poll(Some(964), 21_100).changed, "the same moment's answer");
    assert_eq!(scene.counts(), Some(vec![965]));
    assert!(scene.poll(Some(964), 22_000).changed);
}

#[test]
fn whoever_knows_of_a_later_commit_hears_from_a_poll_that_is_asked_later() {
    let mut scene = Scene::new();
    let asked_ms = |scene: &Scene| scene.0.asked_ms(&scene.1, &tp(0), SourceOffset(6));
    scene.poll(Some(5), 0);
    scene.0.want(&scene.1, &tp(0), 10);
    assert_eq!(asked_ms(&scene), None, "another one counts");
    assert!(!scene.is_doubted(1_009) && scene.is_doubted(1_010));
    // The log goes on, and may be old: it is no poll.
    assert!(scene.log(Some(6), 1_100));
    assert_eq!((asked_ms(&scene), scene.is_doubted(1_100)), (Some(0), true));
    scene.poll(Some(6), 1_200);
    assert_eq!((asked_ms(&scene), scene.0.next_doubt_ms()), (Some(1_200), None));
    // What cannot be read is not asked for all the time.
    let group = scene.1.clone();
    scene.0.want(&group, &tp(0), 2_000);
    scene.0.unread(&group, 3_000);
    assert_eq!(scene.0.next_doubt_ms(), Some(4_000));
    let asked = scene.0.ask(4_000);
    scene.0.want(&group, &tp(0), 3_500);
    scene.0.polled(&group, [(tp(0), Polled::Unsettled)], asked, 4_001);
    assert_eq!(scene.0.next_doubt_ms(), None, "the poll was asked: whoever still wants asks again");
}

#[test]
fn a_group_that_commits_all_the_time_behind_its_old_place_is_confirmed_all_the_same() {
    let mut scene = Scene::new();
    scene.poll(Some(900), 0);
    scene.log(Some(1), 10);
    let asked = scene.0.ask(1_100);
    scene.log(Some(2), 1_101);
    assert!(scene.answer(Some(1), asked, 1_102).changed);
    assert_eq!(scene.counts(), Some(vec![1]));
}

#[test]
fn a_commit_that_is_gone_counts_as_gone_after_a_second_look() {
    for by_log in [false, true] {
        let mut scene = Scene::new();
        scene.poll(Some(900), 0);
        if by_log {
            assert!(!scene.log(None, 100));
        } else {
            assert!(!scene.poll(None, 100).changed);
        }
        assert_eq!(scene.counts(), Some(vec![900]));
        assert!(scene.poll(None, 1_200).changed);
        assert_eq!(scene.counts(), Some(vec![]));
        // Made anew, it begins where it begins.
        assert!(scene.log(Some(3), 1_300));
        assert_eq!(scene.counts(), Some(vec![3]));
    }
}

#[test]
fn a_commit_on_a_topic_that_was_made_again_is_no_step_back() {
    let mut scene = Scene::new();
    scene.poll(Some(900), 0);
    let group = scene.1.clone();
    scene.0.logged(&group, &tp(0), Some(on(901, 1)), 1);
    // The topic is deleted, with a tombstone, and made again.
    scene.0.logged(&group, &tp(0), None, 2);
    assert!(scene.0.logged(&group, &tp(0), Some(on(4, 2)), 3));
    assert_eq!((scene.counts(), scene.0.next_doubt_ms()), (Some(vec![4]), None));

    // Where no teller knows ids, whoever knows that the topic was made again says so.
    let mut scene = Scene::new();
    scene.poll(Some(900), 0);
    assert_eq!(scene.0.forget_topic(&"orders".into()), [group]);
    assert_eq!(scene.counts(), None);
    scene.poll(Some(4), 10);
    assert_eq!((scene.counts(), scene.0.next_doubt_ms()), (Some(vec![4]), None));
}

#[test]
fn a_partition_that_is_not_settled_keeps_what_was_known() {
    let mut scene = Scene::new();
    scene.poll(Some(5), 0);
    let asked = scene.0.ask(10);
    let outcome = scene.0.polled(&scene.1, [(tp(0), Polled::Unsettled)], asked, 10);
    assert_eq!((outcome.changed, scene.0.next_doubt_ms()), (false, None));
    assert_eq!(scene.counts(), Some(vec![5]));
}

#[test]
fn a_gap_of_the_log_asks_for_the_whole_group_again() {
    let mut scene = Scene::new();
    scene.poll(Some(5), 0);
    scene.0.gap(|group| group.as_str() != G);
    assert_eq!(scene.counts(), Some(vec![5]));
    scene.0.gap(|group| group.as_str() == G);
    assert_eq!((scene.counts(), scene.0.incomplete().count()), (None, 1));
    scene.poll(Some(8), 10);
    assert_eq!(scene.counts(), Some(vec![8]));
}

#[test]
fn a_log_that_never_tells_what_a_poll_knew_is_found_out() {
    let mut scene = Scene::new();
    scene.poll(Some(5), 0);
    // The log is a moment late: nothing is wrong.
    assert_eq!(scene.poll(Some(6), 1_000).missed_by_log, 0);
    scene.log(Some(6), 1_010);
    assert_eq!(scene.poll(Some(6), 31_000).missed_by_log, 0);
    // Here it never tells it.
    assert_eq!(scene.poll(Some(7), 61_000).missed_by_log, 0);
    assert_eq!(scene.poll(Some(7), 91_000).missed_by_log, 1);
    assert_eq!(scene.poll(Some(7), 121_000).missed_by_log, 0, "said once");
}

#[test]
fn groups_that_nobody_follows_cost_nothing() {
    let mut commits = SourceCommits::new();
    let other = GroupId::from("other");
    assert!(!commits.logged(&other, &tp(0), Some(at(1)), 0));
    let asked = commits.ask(0);
    let told = [(tp(0), Polled::Commit(at(1)))];
    assert_eq!(commits.polled(&other, told, asked, 0), Outcome::default());
    assert!(commits.is_empty());
    // A group that is not followed any more has no doubts either.
    let mut scene = Scene::new();
    scene.poll(Some(5), 0);
    scene.log(Some(1), 1);
    scene.0.retain(|_| false);
    assert_eq!((scene.0.len(), scene.0.next_doubt_ms()), (0, None));
}

/// Any interleaving of commits, late logs and old polls ends at the truth once both tellers are up
/// to date, and on the way a group that only goes forward never goes back.
#[test]
fn whatever_the_order_of_the_words_a_group_that_goes_forward_never_goes_back() {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut below = move |limit: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % limit
    };
    for _ in 0..2_000 {
        let mut scene = Scene::new();
        let truth: Vec<i64> = (0..20)
            .scan(0, |offset, _| {
                *offset += 1 + below(5) as i64;
                Some(*offset)
            })
            .collect();
        scene.poll(Some(truth[0]), 0);
        // How much the coordinator has, and how much of it the log has told.
        let (mut made, mut told, mut seen, mut now) = (0, 0, truth[0], 1);
        let mut flying: Option<(Asked, i64)> = None;
        while told + 1 < truth.len() {
            now += 1 + below(400) as i64;
            match below(4) {
                0 if made + 1 < truth.len() => made += 1,
                1 if told < made => {
                    told += 1;
                    scene.log(Some(truth[told]), now);
                }
                2 => {
                    // A coordinator may answer one commit too old, for less than a second.
                    let stale = made.saturating_sub(usize::from(below(8) == 0));
                    flying = Some((scene.0.ask(now), truth[stale]));
                }
                _ => {
                    if let Some((asked, offset)) = flying.take() {
                        // Answers within the second: what it was is older by then at most.
                        scene.answer(Some(offset), asked, now);
                    }
                }
            }
            let counts = scene.counts().expect("complete")[0];
            assert!(counts >= seen, "went back from {seen} to {counts}");
            seen = counts;
            if scene.is_doubted(now) {
                scene.poll(Some(truth[made]), now);
            }
        }
        scene.poll(Some(truth[made]), now + 10);
        assert_eq!(scene.counts(), Some(vec![truth[made]]));
    }
}
