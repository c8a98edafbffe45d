//! Byte rates of clients (`producer_byte_rate`, `consumer_byte_rate`): what is set for whom, and how
//! long a client must be silent that exceeds it.
//!
//! A client has a budget of its own on every broker. The rate is an average over eleven windows of a
//! second, of which the first ten count as past from the start: that many seconds' worth passes at
//! full speed. Counts records, not whole frames.
//!
//! Does not enforce `request_percentage`, `controller_mutation_rate` and `connection_creation_rate`:
//! they are remembered and shown.
//!
//! References: `ClientQuotaManager`, `QuotaUtils.throttleTime`, `Rate`, KIP-546.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

/// `quota.window.size.seconds`.
const WINDOW: Duration = Duration::from_secs(1);
/// `quota.window.num`.
const WINDOWS: usize = 11;
/// How many clients a broker counts: who was silent longest is forgotten first.
const COUNTED_MAX: usize = 10_000;

/// The kinds of entities that quotas are for.
pub(crate) const USER: &str = "user";
pub(crate) const CLIENT: &str = "client-id";

/// Whom a quota is for: by the type of entity a name, or `None` for all that have no own quota.
pub(crate) type Entity = BTreeMap<String, Option<String>>;

/// What is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Limited {
    Produce,
    Fetch,
}

impl Limited {
    fn key(self) -> &'static str {
        match self {
            Self::Produce => "producer_byte_rate",
            Self::Fetch => "consumer_byte_rate",
        }
    }
}

/// Whose bytes are counted together on a broker: user and client id, each where the quota has it.
type Counted = (i32, Limited, Option<String>, Option<String>);

/// The quotas of a cluster and what is used of them.
#[derive(Debug, Default)]
pub(crate) struct Quotas {
    limits: BTreeMap<Entity, BTreeMap<String, f64>>,
    used: BTreeMap<Counted, Used>,
}

/// Bytes by window, the oldest first.
#[derive(Debug, Default)]
struct Used(VecDeque<(Instant, u64)>);

impl Used {
    fn add(&mut self, now: Instant, bytes: u64) {
        while self.0.front().is_some_and(|&(since, _)| now - since >= WINDOW * WINDOWS as u32) {
            self.0.pop_front();
        }
        match self.0.back_mut().filter(|(since, _)| now - *since < WINDOW) {
            Some((_, sum)) => *sum += bytes,
            None => self.0.push_back((now, bytes)),
        }
    }

    fn take_back(&mut self, bytes: u64) {
        if let Some((_, sum)) = self.0.back_mut() {
            *sum = sum.saturating_sub(bytes);
        }
    }

    /// How long to be silent until the average is `limit` bytes per second again.
    fn throttle(&self, now: Instant, limit: f64) -> Option<Duration> {
        let total = self.0.iter().map(|&(_, bytes)| bytes).sum::<u64>() as f64;
        let elapsed = now - self.0.front()?.0;
        let whole = (elapsed.as_secs_f64() / WINDOW.as_secs_f64()).floor();
        let missing = (WINDOWS as f64 - 1.0 - whole).max(0.0);
        let seconds = (elapsed.as_secs_f64() + missing * WINDOW.as_secs_f64()).max(1.0);
        let rate = total / seconds;
        (rate > limit).then(|| Duration::from_secs_f64((rate - limit) / limit * seconds))
    }
}

impl Quotas {
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Entity, &BTreeMap<String, f64>)> {
        self.limits.iter()
    }

    /// Sets or removes values of one entity.
    pub(crate) fn alter(&mut self, entity: &Entity, changes: &[(String, Option<f64>)]) {
        let values = self.limits.entry(entity.clone()).or_default();
        for (key, value) in changes {
            match value {
                Some(value) => values.insert(key.clone(), *value),
                None => values.remove(key),
            };
        }
        self.limits.retain(|_, values| !values.is_empty());
    }

    /// The limit that is for a client, and whose bytes count together under it.
    fn limit(
        &self,
        limited: Limited,
        user: &str,
        client: &str,
    ) -> Option<(f64, Option<String>, Option<String>)> {
        // The strongest first (`DefaultQuotaCallback.quotaMetricTags`).
        let named = |name: &str| Some(Some(name.to_owned()));
        let order = [
            (named(user), named(client)),
            (named(user), Some(None)),
            (named(user), None),
            (Some(None), named(client)),
            (Some(None), Some(None)),
            (Some(None), None),
            (None, named(client)),
            (None, Some(None)),
        ];
        order.into_iter().find_map(|(by_user, by_client)| {
            let mut entity = Entity::new();
            entity.extend(by_user.clone().map(|name| (USER.to_owned(), name)));
            entity.extend(by_client.clone().map(|name| (CLIENT.to_owned(), name)));
            let limit = *self.limits.get(&entity)?.get(limited.key())?;
            let user = by_user.map(|_| user.to_owned());
            let client = by_client.map(|_| client.to_owned());
            Some((limit, user, client))
        })
    }

    /// Counts bytes of a client on a broker; answers how long it must be silent. What is answered
    /// to a throttled Fetch is not sent and so does not count.
    pub(crate) fn charge(
        &mut self,
        broker: i32,
        limited: Limited,
        (user, client): (&str, &str),
        bytes: usize,
    ) -> Option<Duration> {
        let (limit, by_user, by_client) = self.limit(limited, user, client)?;
        let now = Instant::now();
        let counted = (broker, limited, by_user, by_client);
        if self.used.len() >= COUNTED_MAX && !self.used.contains_key(&counted) {
            self.forget_one();
        }
        let used = self.used.entry(counted).or_default();
        used.add(now, bytes as u64);
        let throttle = used.throttle(now, limit)?;
        if limited == Limited::Fetch {
            used.take_back(bytes as u64);
        }
        Some(throttle)
    }

    fn forget_one(&mut self) {
        let last = |used: &Used| used.0.back().map(|&(since, _)| since);
        let silent = self.used.iter().min_by_key(|(_, used)| last(used));
        if let Some(counted) = silent.map(|(counted, _)| counted.clone()) {
            self.used.remove(&counted);
        }
    }
}
