//! One group or topic: what is read, and the verdict.

use twinlog_doctor::{Chain, LinkName, LinkState, MirroredBy, Outcome, Subject};
use twinlog_embedded::GroupKind;
use twinlog_types::{Code, Severity};

use crate::world::World;

fn well(chain: &Chain) -> bool {
    chain.links.iter().all(|link| link.state == LinkState::Ok)
}

/// All is well, and the group's commit has arrived: one that is about to be written is well too.
pub(crate) fn placed(chain: &Chain) -> bool {
    let last = chain.links.last().expect("links");
    well(chain) && last.evidence.iter().any(|seen| seen.value == "60")
}

fn broken(chain: &Chain) -> Option<(LinkName, Option<Code>)> {
    chain.first_broken().map(|link| (link.name, link.code))
}

fn checkpointed(chain: &Chain) -> bool {
    let mut links = chain.links.iter();
    let link = links.find(|link| link.name == LinkName::Checkpoints).expect("a link");
    link.evidence.iter().any(|seen| seen.value.starts_with("60->60"))
}

#[tokio::test(start_paused = true)]
async fn groups_and_topics_of_a_running_mirror_are_explained() {
    let world = World::new(21);
    let engine = world.start();
    let chain = world.until("app", placed).await;
    assert_eq!((chain.mirrored_by, chain.outcome()), (Some(MirroredBy::Twinlog), Outcome::Well));
    assert!(well(&world.topic("orders").await));
    // A mirror's name means the topic that is mirrored.
    let by_mirror = world.topic("hello.orders").await;
    assert_eq!(by_mirror.subject, Subject::Topic("orders".into()));

    let chain = world.group("out-1").await;
    assert_eq!(broken(&chain), Some((LinkName::Configuration, Some(Code::GroupExcluded))));
    let chain = world.group("ap").await;
    assert_eq!(broken(&chain), Some((LinkName::SourceGroup, Some(Code::GroupWithoutCommits))));
    let chain = world.topic("order").await;
    assert_eq!(broken(&chain), Some((LinkName::SourceTopic, Some(Code::TopicNotMirrored))));

    // A member on the target; the source goes on.
    world.until("live", placed).await;
    world.target.set_group("live", GroupKind::Classic, true);
    world.source.commit_offset("live", "orders", 0, 90).expect("committed");
    let chain = world.group("live").await;
    assert_eq!(broken(&chain), Some((LinkName::TargetGroup, Some(Code::GroupLiveOnTarget))));
    let link = chain.first_broken().expect("broken");
    assert_eq!(link.severity, Some(Severity::Error));
    let consequence = link.consequence.as_deref().unwrap_or_default();
    assert!(consequence.ends_with("a failover now reads 30 records again"), "{consequence}");

    // A checkpoint remembers where the source stood before it was moved back.
    world.until("back", checkpointed).await;
    // Somebody else has put it there again since: it is not ours to take back.
    world.target.commit_offset("back", "hello.orders", 0, 61).expect("committed");
    world.source.commit_offset("back", "orders", 0, 10).expect("committed");
    let ahead = Some((LinkName::ConsumerOffsets, Some(Code::TargetAhead)));
    let chain = world.until("back", |chain| broken(chain) == ahead).await;
    let consequence = chain.first_broken().and_then(|link| link.consequence.as_deref());
    assert!(consequence.is_some_and(|text| text.ends_with("skips 51 records")), "{chain:#?}");
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn what_does_not_run_or_answer_is_told_and_the_rest_is_looked_at() {
    let world = World::new(22);
    let chain = world.group("app").await;
    assert_eq!(broken(&chain), Some((LinkName::Flow, Some(Code::MirrorNotRunning))));
    assert_eq!(chain.mirrored_by, Some(MirroredBy::Nobody));

    let engine = world.start();
    world.until("app", |chain| placed(chain) && checkpointed(chain)).await;
    engine.shutdown().await;
    world.append("orders", 20);
    // The last words of an owner are a transaction, which may become visible a moment later.
    let ended = Some((LinkName::Flow, Some(Code::MirrorNotRunning)));
    let chain = world.until("app", |chain| broken(chain) == ended).await;
    let copy = chain.links.iter().find(|link| link.name == LinkName::Copy).expect("a link");
    let missing = copy.consequence.as_deref().unwrap_or_default();
    assert!(missing.ends_with("finds 20 records missing on the target"), "{missing}");
    let last = chain.links.last().expect("links");
    assert_eq!((last.name, last.state), (LinkName::ConsumerOffsets, LinkState::Ok));

    world.source.kill_broker(1);
    let chain = world.group("app").await;
    assert_eq!(broken(&chain), Some((LinkName::Connectivity, Some(Code::Unreachable))));
    assert_eq!(chain.outcome(), Outcome::NotFoundOut);
    let link = chain.first_broken().expect("unknown");
    assert!(link.summary.starts_with("hello: "), "{}", link.summary);
    // What needs the target alone is looked at: who ran it, the checkpoint, where the group stands.
    assert_eq!(chain.mirrored_by, Some(MirroredBy::Twinlog));
    let link = |name| chain.links.iter().find(|link| link.name == name).expect("a link");
    let flow = link(LinkName::Flow);
    assert_eq!((flow.state, flow.code), (LinkState::Broken, Some(Code::MirrorNotRunning)));
    assert_eq!(link(LinkName::Copy).state, LinkState::NotReached);
    assert_eq!(link(LinkName::TargetGroup).state, LinkState::Ok);
    let checkpoint = &link(LinkName::Checkpoints).evidence;
    assert!(checkpoint.iter().any(|seen| seen.value.starts_with("60->60")), "{checkpoint:?}");
    let stands = link(LinkName::ConsumerOffsets);
    assert_eq!((stands.state, stands.code), (LinkState::Unknown, Some(Code::Unreachable)));
    let seen: Vec<_> = stands.evidence.iter().map(|seen| (&*seen.what, &*seen.value)).collect();
    assert_eq!(seen, [("committed on hello.orders-0", "60")]);
}
