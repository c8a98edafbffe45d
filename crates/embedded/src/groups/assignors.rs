//! Who gets which partition: the two assignors that a broker of Kafka has by itself (KIP-848).
//!
//! Pure. `uniform` keeps what members have and evens the numbers out; `range` gives every member a
//! stretch of each topic. Members are taken in the order in which they are passed.
//!
//! References: `UniformAssignor` and `RangeAssignor` of Kafka's group coordinator. Kafka walks its
//! hash maps in an order of its own, so which member gets the one partition more may differ.

use std::collections::{BTreeMap, BTreeSet};

use super::reconcile::{Partitions, Slot};

/// The names, the default first.
pub(crate) const ASSIGNORS: [&str; 2] = [UNIFORM, RANGE];
/// The name of the default.
pub(crate) const UNIFORM: &str = "uniform";
const RANGE: &str = "range";

/// A member as an assignor sees it.
#[derive(Clone, Debug)]
pub(crate) struct Subscriber {
    pub id: String,
    pub instance: Option<String>,
    /// Topics that exist and that it subscribes to.
    pub topics: BTreeSet<[u8; 16]>,
    /// What it was to have before.
    pub before: Partitions,
}

/// Shares the partitions of `counts` (topic, number of partitions) out. Every member has an entry
/// in the answer.
pub(crate) fn assign(
    assignor: &str,
    members: &[Subscriber],
    counts: &BTreeMap<[u8; 16], i32>,
) -> BTreeMap<String, Partitions> {
    let shares = if assignor == RANGE {
        range(members, counts)
    } else if members.windows(2).all(|pair| pair[0].topics == pair[1].topics) {
        even(members, counts)
    } else {
        balanced(members, counts)
    };
    members.iter().map(|member| member.id.clone()).zip(shares).collect()
}

/// What a member may keep.
fn kept(member: &Subscriber, counts: &BTreeMap<[u8; 16], i32>) -> Vec<Slot> {
    let valid = |&(topic, partition): &Slot| {
        member.topics.contains(&topic) && counts.get(&topic).is_some_and(|&count| partition < count)
    };
    member.before.iter().copied().filter(valid).collect()
}

/// The partitions of subscribed topics that nobody keeps.
fn free(
    members: &[Subscriber],
    counts: &BTreeMap<[u8; 16], i32>,
    shares: &[Vec<Slot>],
) -> Vec<Slot> {
    let topics: BTreeSet<[u8; 16]> =
        members.iter().flat_map(|member| member.topics.iter().copied()).collect();
    let taken: BTreeSet<Slot> = shares.iter().flatten().copied().collect();
    let all = topics.into_iter().flat_map(|topic| {
        (0..counts.get(&topic).copied().unwrap_or(0)).map(move |partition| (topic, partition))
    });
    all.filter(|slot| !taken.contains(slot)).collect()
}

/// All members subscribe to the same topics: each gets the same number, some one more.
fn even(members: &[Subscriber], counts: &BTreeMap<[u8; 16], i32>) -> Vec<Partitions> {
    let mut shares: Vec<Vec<Slot>> = members.iter().map(|member| kept(member, counts)).collect();
    let mut free = free(members, counts, &shares);
    let total = free.len() + shares.iter().map(Vec::len).sum::<usize>();
    let (quota, mut extra) = (total / members.len().max(1), total % members.len().max(1));
    for share in &mut shares {
        let more = usize::from(share.len() > quota && extra > 0);
        extra -= more;
        if share.len() > quota + more {
            free.extend(share.drain(quota + more..));
        }
    }
    let mut free = free.into_iter();
    for share in &mut shares {
        if share.len() > quota {
            continue;
        }
        let more = usize::from(extra > 0);
        extra -= more;
        let room = quota + more - share.len();
        share.extend(free.by_ref().take(room));
    }
    shares.into_iter().map(|share| share.into_iter().collect()).collect()
}

/// Members subscribe to different topics: what is free goes to whoever has least, then partitions
/// move as long as that evens the numbers out.
fn balanced(members: &[Subscriber], counts: &BTreeMap<[u8; 16], i32>) -> Vec<Partitions> {
    let kept: Vec<Vec<Slot>> = members.iter().map(|member| kept(member, counts)).collect();
    let free = free(members, counts, &kept);
    let mut shares: Vec<Partitions> =
        kept.into_iter().map(|share| share.into_iter().collect()).collect();
    for slot in free {
        let least = (0..members.len())
            .filter(|&index| members[index].topics.contains(&slot.0))
            .min_by_key(|&index| shares[index].len());
        if let Some(index) = least {
            shares[index].insert(slot);
        }
    }
    while let Some((from, to, slot)) = worthwhile(members, &shares) {
        shares[from].remove(&slot);
        shares[to].insert(slot);
    }
    shares
}

/// A move to a member that has at least two partitions less. Each one lowers the sum of the
/// squares, so there is a last one.
fn worthwhile(members: &[Subscriber], shares: &[Partitions]) -> Option<(usize, usize, Slot)> {
    for (from, share) in shares.iter().enumerate() {
        for &slot in share.iter().rev() {
            let to = (0..members.len()).find(|&to| {
                members[to].topics.contains(&slot.0) && shares[to].len() + 2 <= share.len()
            });
            if let Some(to) = to {
                return Some((from, to, slot));
            }
        }
    }
    None
}

/// For each topic, its subscribers in the order of instance ids and member ids get one stretch
/// each, the first ones a longer one.
fn range(members: &[Subscriber], counts: &BTreeMap<[u8; 16], i32>) -> Vec<Partitions> {
    let mut order: Vec<usize> = (0..members.len()).collect();
    order.sort_by_key(|&index| {
        let member = &members[index];
        (member.instance.is_none(), member.instance.as_deref(), member.id.as_str())
    });
    let mut shares = vec![Partitions::new(); members.len()];
    for (&topic, &count) in counts {
        let subscribed: Vec<usize> =
            order.iter().copied().filter(|&index| members[index].topics.contains(&topic)).collect();
        let number = subscribed.len() as i32;
        let mut next = 0;
        for (place, index) in subscribed.into_iter().enumerate() {
            let length = count / number + i32::from((place as i32) < count % number);
            shares[index].extend((next..next + length).map(|partition| (topic, partition)));
            next += length;
        }
    }
    shares
}
