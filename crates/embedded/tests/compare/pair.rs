//! Requests to both clusters, and the comparison of what they answer.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::time::Duration;

use twinlog_protocol::messages::{
    ApiVersionsRequest, ApiVersionsResponse, InitProducerIdRequest, string,
};
use twinlog_protocol::{ApiKey, Request, decode_response, decode_response_header, encode_request};
use twinlog_testkit::wait_until_some;

use crate::allowed::{ALLOWED, Rule, entry};
use crate::sides::{Both, Clusters, Link, Outcome, now_ms};
use crate::tree::Tree;

pub(crate) type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

/// For conditions that a loaded machine may be slow to reach.
pub(crate) const LIMIT: Duration = Duration::from_mins(2);
/// What the client calls itself.
const CLIENT: &str = "compare";
/// How far the readings of two clocks may be apart: sides answer one after the other.
const CLOCKS_MS: u64 = 60_000;
/// Characters of a request or a value that a report shows.
const SHOWN: usize = 600;

/// A difference that nothing allows; equal ones of several versions are one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Difference {
    step: String,
    api: ApiKey,
    path: String,
    kafka: String,
    embedded: String,
}

/// An answer that is still awaited on a connection of its own.
#[derive(Debug)]
pub(crate) struct Pending<R> {
    link: usize,
    version: i16,
    correlation_id: i32,
    requests: Both<R>,
}

/// What was compared.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) pairs: BTreeMap<ApiKey, BTreeMap<i16, usize>>,
    pub(crate) malformed: usize,
    /// How often each allowed difference was met.
    pub(crate) allowed: BTreeMap<&'static str, usize>,
    /// Versions and the first request.
    unexpected: BTreeMap<Difference, (BTreeSet<i16>, String)>,
}

impl Tally {
    pub(crate) fn total(&self) -> usize {
        self.pairs.values().flat_map(BTreeMap::values).sum::<usize>() + self.malformed
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let versions: usize = self.pairs.values().map(BTreeMap::len).sum();
        writeln!(
            f,
            "{} pairs of answers, {} APIs in {versions} versions, {} malformed requests, {} \
             unexpected differences",
            self.total(),
            self.pairs.len(),
            self.malformed,
            self.unexpected.len(),
        )?;
        for (api, versions) in &self.pairs {
            let pairs: usize = versions.values().sum();
            let versions: Vec<String> = versions.keys().map(i16::to_string).collect();
            writeln!(f, "  {api}: {pairs} pairs, versions {}", versions.join(" "))?;
        }
        for allowed in ALLOWED {
            let met = self.allowed.get(allowed.name).copied().unwrap_or(0);
            writeln!(f, "  allowed: {} ({}): {met} times", allowed.name, allowed.reason)?;
        }
        Ok(())
    }
}

/// Both clusters with their connections.
#[derive(Debug)]
pub(crate) struct Pair {
    clusters: Clusters,
    links: Vec<Both<Link>>,
    correlation_id: i32,
    offered: Both<ApiVersionsResponse>,
    /// Which value of one side stands for which of the other, by allowed difference.
    names: BTreeMap<(&'static str, String), String>,
    step: String,
    pub(crate) tally: Tally,
    /// When the scripts began.
    pub(crate) begin_ms: i64,
    /// For timestamps of records: so long ago that no clock shows it any more.
    pub(crate) start_ms: i64,
}

impl Pair {
    pub(crate) fn start() -> Result<Self> {
        let clusters = Clusters::start()?;
        let addresses = clusters.addresses;
        let mut pair = Self {
            clusters,
            links: vec![Both {
                kafka: Link::open(addresses.kafka)?,
                embedded: Link::open(addresses.embedded)?,
            }],
            correlation_id: 0,
            offered: Both::same(ApiVersionsResponse::default()),
            names: BTreeMap::new(),
            step: String::new(),
            tally: Tally::default(),
            begin_ms: now_ms(),
            start_ms: now_ms() - 3_600_000,
        };
        let asked = ApiVersionsRequest::default()
            .with_client_software_name(string("compare"))
            .with_client_software_version(string("1"));
        let asked = Both::same(asked);
        pair.offered = pair
            .exchange(0, &asked, 4)?
            .map(|outcome| outcome.clone().answer().unwrap_or_default());
        pair.first_producer()?;
        Ok(pair)
    }

    /// Takes the first producer id of each side: 0 of a broker, which has to ask for a block of ids
    /// first and which means "none" in some answers.
    fn first_producer(&mut self) -> Result {
        let request = Both::same(InitProducerIdRequest::default().with_transactional_id(None));
        wait_until_some("a first producer id", LIMIT, || {
            let outcomes = self.exchange(0, &request, 4).map_err(|error| error.to_string())?;
            match outcomes.kafka {
                Outcome::Answer(answer) if answer.error_code == 0 => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })?;
        Ok(())
    }

    /// The versions of an API that the codec and both sides speak.
    pub(crate) fn versions<R: Request>(&self) -> Vec<i16> {
        let offers = |answer: &ApiVersionsResponse, version: i16| {
            answer.api_keys.iter().any(|api| {
                api.api_key == R::KEY.key()
                    && (api.min_version..=api.max_version).contains(&version)
            })
        };
        (R::MIN..=R::MAX)
            .filter(|&version| {
                offers(&self.offered.kafka, version) && offers(&self.offered.embedded, version)
            })
            .collect()
    }

    /// The newest version of an API that both sides speak.
    pub(crate) fn newest<R: Request>(&self) -> i16 {
        self.versions::<R>().pop().unwrap_or(R::MAX)
    }

    /// Says what the next requests are about, for the report.
    pub(crate) fn step(&mut self, what: impl Into<String>) {
        self.step = what.into();
    }

    /// The same request to both; their answers, compared.
    pub(crate) fn ask<R: Request>(
        &mut self,
        version: i16,
        request: R,
    ) -> Result<Both<R::Response>> {
        self.ask_each(version, &Both::same(request))
    }

    /// The same request in terms of each side's ids.
    pub(crate) fn ask_each<R: Request>(
        &mut self,
        version: i16,
        requests: &Both<R>,
    ) -> Result<Both<R::Response>> {
        let outcomes = self.exchange(0, requests, version)?;
        Ok(self.judge(version, requests, outcomes))
    }

    /// The same request to both at every version.
    pub(crate) fn ask_all<R: Request>(&mut self, build: impl Fn(i16) -> R) -> Result {
        for version in self.versions::<R>() {
            self.ask(version, build(version))?;
        }
        Ok(())
    }

    /// Asks each side until its answer is as wanted; then the answers are compared.
    pub(crate) fn ask_until<R: Request>(
        &mut self,
        version: i16,
        requests: &Both<R>,
        wanted: impl Fn(&R::Response) -> bool,
    ) -> Result<Both<R::Response>> {
        let step = self.step.clone();
        // Whoever is done is not asked again: a request may do something.
        let kafka = wait_until_some(&step, LIMIT, || {
            self.ask_one(&requests.kafka, version, |links| &mut links.kafka, &wanted)
        })?;
        let embedded = wait_until_some(&step, LIMIT, || {
            self.ask_one(&requests.embedded, version, |links| &mut links.embedded, &wanted)
        })?;
        Ok(self.judge(version, requests, Both { kafka, embedded }))
    }

    /// Asks one side once; the error tells how it is not as wanted.
    fn ask_one<R: Request>(
        &mut self,
        request: &R,
        version: i16,
        side: impl Fn(&mut Both<Link>) -> &mut Link,
        wanted: impl Fn(&R::Response) -> bool,
    ) -> std::result::Result<Outcome<R::Response>, String> {
        let id = self.next_id();
        let bytes = encode_request(request, version, id, CLIENT).map_err(|e| e.to_string())?;
        let link = side(&mut self.links[0]);
        link.send(&bytes);
        let outcome = link.receive(None).map_err(|error| error.to_string())?;
        match decode::<R>(outcome, version, id) {
            Outcome::Answer(answer) if wanted(&answer) => Ok(Outcome::Answer(answer)),
            other => Err(format!("{other:?}")),
        }
    }

    fn next_id(&mut self) -> i32 {
        self.correlation_id += 1;
        self.correlation_id
    }

    /// Sends a request on a new connection, to be answered later.
    pub(crate) fn begin<R: Request>(
        &mut self,
        version: i16,
        requests: Both<R>,
    ) -> Result<Pending<R>> {
        let link = self.connect()?;
        let correlation_id = self.send(link, &requests, version)?;
        Ok(Pending { link, version, correlation_id, requests })
    }

    /// The answers to a request that was sent before, compared.
    pub(crate) fn finish<R: Request>(&mut self, pending: Pending<R>) -> Result<Both<R::Response>> {
        let Pending { link, version, correlation_id, requests } = pending;
        let outcomes = self.receive::<R>(link, version, correlation_id)?;
        Ok(self.judge(version, &requests, outcomes))
    }

    /// A request that has no answer.
    pub(crate) fn send_only<R: Request>(&mut self, version: i16, requests: &Both<R>) -> Result {
        self.send(0, requests, version)?;
        let about = About::of(version, requests);
        self.count(&about);
        Ok(())
    }

    /// A request that makes brokers close the connection, which is one of its own.
    pub(crate) fn closes<R: Request>(&mut self, version: i16, requests: &Both<R>) -> Result {
        let pending = self.begin(version, requests.clone())?;
        let outcomes = self.receive::<R>(pending.link, version, pending.correlation_id)?;
        let about = About::of(version, requests);
        self.count(&about);
        let words = outcomes.map(|outcome| outcome.word().to_owned());
        if words.kafka != words.embedded {
            self.unexpected(&about, "", &words.kafka, &words.embedded);
        }
        Ok(())
    }

    /// Sends bytes that may be no request on a new connection and compares what comes of them:
    /// answers are compared byte for byte where `exact` says so. `differs` is what each side makes
    /// of bytes that they read differently.
    pub(crate) fn raw(
        &mut self,
        api: ApiKey,
        bytes: &[u8],
        exact: bool,
        differs: Option<(&str, &str)>,
        limit: Duration,
    ) -> Result {
        let link = self.connect()?;
        let Both { kafka, embedded } = &mut self.links[link];
        kafka.send(bytes);
        embedded.send(bytes);
        let outcomes =
            Both { kafka: kafka.receive(Some(limit))?, embedded: embedded.receive(Some(limit))? };
        self.tally.malformed += 1;
        let about = About { api, version: -1, request: format!("{}", bytes.escape_ascii()) };
        let words = outcomes.map(|outcome| match outcome {
            Outcome::Answer(frame) if exact => format!("{}", frame.escape_ascii()),
            other => other.word().to_owned(),
        });
        let fits = match differs {
            Some(differs) => differs == (words.kafka.as_str(), words.embedded.as_str()),
            None => words.kafka == words.embedded,
        };
        if !fits {
            self.unexpected(&about, "", &words.kafka, &words.embedded);
        }
        Ok(())
    }

    fn connect(&mut self) -> Result<usize> {
        let addresses = self.clusters.addresses;
        self.links.push(Both {
            kafka: Link::open(addresses.kafka)?,
            embedded: Link::open(addresses.embedded)?,
        });
        Ok(self.links.len() - 1)
    }

    fn send<R: Request>(&mut self, link: usize, requests: &Both<R>, version: i16) -> Result<i32> {
        let id = self.next_id();
        let encode = |request| {
            encode_request(request, version, id, CLIENT)
                .map_err(|error| format!("{}: {error}", self.step))
        };
        let (kafka, embedded) = (encode(&requests.kafka)?, encode(&requests.embedded)?);
        let links = &mut self.links[link];
        links.kafka.send(&kafka);
        links.embedded.send(&embedded);
        Ok(id)
    }

    fn receive<R: Request>(
        &mut self,
        link: usize,
        version: i16,
        correlation_id: i32,
    ) -> Result<Both<Outcome<R::Response>>> {
        let links = &mut self.links[link];
        Ok(Both {
            kafka: decode::<R>(links.kafka.receive(None)?, version, correlation_id),
            embedded: decode::<R>(links.embedded.receive(None)?, version, correlation_id),
        })
    }

    /// One request and its answers, which are not compared.
    pub(crate) fn exchange<R: Request>(
        &mut self,
        link: usize,
        requests: &Both<R>,
        version: i16,
    ) -> Result<Both<Outcome<R::Response>>> {
        let id = self.send(link, requests, version)?;
        self.receive::<R>(link, version, id)
    }

    fn judge<R: Request>(
        &mut self,
        version: i16,
        requests: &Both<R>,
        outcomes: Both<Outcome<R::Response>>,
    ) -> Both<R::Response> {
        let about = About::of(version, requests);
        if let (Outcome::Answer(kafka), Outcome::Answer(embedded)) =
            (&outcomes.kafka, &outcomes.embedded)
        {
            self.compare(&about, &Both { kafka: Tree::of(kafka), embedded: Tree::of(embedded) });
        } else {
            self.count(&about);
            let words = outcomes.map(|outcome| outcome.word().to_owned());
            self.unexpected(&about, "", &words.kafka, &words.embedded);
        }
        outcomes.map(|outcome| outcome.clone().answer().unwrap_or_default())
    }

    /// Compares two answers.
    pub(crate) fn compare(&mut self, about: &About, trees: &Both<Tree>) {
        self.count(about);
        self.walk(about, "", &trees.kafka, &trees.embedded);
    }

    fn count(&mut self, about: &About) {
        *self.tally.pairs.entry(about.api).or_default().entry(about.version).or_default() += 1;
    }

    /// Notes a difference that nothing allows.
    pub(crate) fn unexpected(&mut self, about: &About, path: &str, kafka: &str, embedded: &str) {
        let difference = Difference {
            step: self.step.clone(),
            api: about.api,
            path: path.to_owned(),
            kafka: cut(kafka),
            embedded: cut(embedded),
        };
        let found = self.tally.unexpected.entry(difference);
        let (versions, _) = found.or_insert_with(|| (BTreeSet::new(), about.request.clone()));
        versions.insert(about.version);
    }

    /// What was unexpected since this was asked last.
    pub(crate) fn verdict(&mut self) -> std::result::Result<(), String> {
        let mut report = String::new();
        for (difference, (versions, request)) in &self.tally.unexpected {
            let Difference { step, api, path, kafka, embedded } = difference;
            let versions: Vec<String> = versions.iter().map(i16::to_string).collect();
            let versions = versions.join(" ");
            let _ = writeln!(
                report,
                "{step}\n  {api} {versions}: {path}\n    kafka:    {kafka}\n    embedded: {embedded}\n    asked:    {request}"
            );
        }
        let count = self.tally.unexpected.len();
        self.tally.unexpected.clear();
        if count == 0 { Ok(()) } else { Err(format!("{count} unexpected differences\n{report}")) }
    }

    fn walk(&mut self, about: &About, path: &str, kafka: &Tree, embedded: &Tree) {
        let allowed = entry(about.api.name(), &without_indexes(path));
        match (kafka, embedded) {
            (Tree::Fields(a), Tree::Fields(b)) if same_names(a, b) => {
                for ((name, a), (_, b)) in a.iter().zip(b) {
                    let path =
                        if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                    self.walk(about, &path, a, b);
                }
            }
            (Tree::List(a), Tree::List(b)) => {
                let (mut a, mut b) = (a.clone(), b.clone());
                if let Some((name, Rule::Unordered(key))) = allowed.map(|a| (a.name, a.rule)) {
                    let by = |tree: &Tree| tree.field(key).unwrap_or(tree).to_string();
                    let keys = |list: &[Tree]| list.iter().map(by).collect::<Vec<_>>();
                    if keys(&a) != keys(&b) {
                        *self.tally.allowed.entry(name).or_default() += 1;
                    }
                    a.sort_by_key(by);
                    b.sort_by_key(by);
                }
                if a.len() == b.len() {
                    for (index, (a, b)) in a.iter().zip(&b).enumerate() {
                        self.walk(about, &format!("{path}[{index}]"), a, b);
                    }
                } else {
                    let (a, b) = (Tree::List(a), Tree::List(b));
                    self.unexpected(about, path, &a.to_string(), &b.to_string());
                }
            }
            _ => self.leaf(about, path, &kafka.to_string(), &embedded.to_string()),
        }
    }

    fn leaf(&mut self, about: &About, path: &str, kafka: &str, embedded: &str) {
        let Some(allowed) = entry(about.api.name(), &without_indexes(path)) else {
            if kafka != embedded {
                self.unexpected(about, path, kafka, embedded);
            }
            return;
        };
        let fits = match allowed.rule {
            Rule::Named(none) if none.contains(&kafka) || none.contains(&embedded) => {
                kafka == embedded
            }
            Rule::Named(_) => self.same_name(allowed.name, kafka, embedded),
            Rule::Clock => kafka == embedded || self.same_but_for_clocks(kafka, embedded),
            Rule::Any => {
                kafka == embedded || [kafka, embedded].iter().all(|v| v.parse::<u64>().is_ok())
            }
            Rule::Unordered(_) => kafka == embedded,
        };
        if !fits {
            self.unexpected(about, path, kafka, embedded);
        } else if kafka != embedded {
            *self.tally.allowed.entry(allowed.name).or_default() += 1;
        }
    }

    /// Whether two texts differ in readings of the clock only: times after the scripts began, alone
    /// or plus and minus a setting of the topic.
    fn same_but_for_clocks(&self, kafka: &str, embedded: &str) -> bool {
        let (a, b) = (pieces(kafka), pieces(embedded));
        a.len() == b.len()
            && a.iter().zip(&b).all(|(a, b)| {
                let times = (a.parse::<i64>(), b.parse::<i64>());
                let read = |time: i64| time >= self.begin_ms - 1000 || time < -self.begin_ms;
                a == b
                    || matches!(times, (Ok(a), Ok(b))
                        if read(a) && read(b) && a.abs_diff(b) < CLOCKS_MS)
            })
    }

    /// Whether these two values stand for each other: from the first time on, always.
    fn same_name(&mut self, kind: &'static str, kafka: &str, embedded: &str) -> bool {
        // Each direction has its own entry, so that no two values become one.
        let (there, back) = (format!("> {kafka}"), format!("< {embedded}"));
        match (self.names.get(&(kind, there.clone())), self.names.get(&(kind, back.clone()))) {
            (Some(known), Some(knower)) => known == embedded && knower == kafka,
            (None, None) => {
                self.names.insert((kind, there), embedded.to_owned());
                self.names.insert((kind, back), kafka.to_owned());
                true
            }
            _ => false,
        }
    }
}

/// What an answer answers.
#[derive(Clone, Debug)]
pub(crate) struct About {
    pub(crate) api: ApiKey,
    pub(crate) version: i16,
    pub(crate) request: String,
}

/// Reads an answer to the request `R`.
fn decode<R: Request>(
    outcome: Outcome<bytes::Bytes>,
    version: i16,
    correlation_id: i32,
) -> Outcome<R::Response> {
    let frame = match outcome {
        Outcome::Answer(frame) => frame,
        Outcome::Closed => return Outcome::Closed,
        Outcome::Silence => return Outcome::Silence,
        Outcome::Nonsense(what) => return Outcome::Nonsense(what),
    };
    let answer = decode_response_header(R::KEY, version, frame)
        .and_then(|(id, body)| decode_response::<R>(body, version).map(|answer| (id, answer)));
    match answer {
        Ok((id, answer)) if id == correlation_id => Outcome::Answer(answer),
        Ok((id, _)) => Outcome::Nonsense(format!("the correlation id {id}")),
        Err(error) => Outcome::Nonsense(error.to_string()),
    }
}

impl About {
    fn of<R: Request>(version: i16, requests: &Both<R>) -> Self {
        Self { api: R::KEY, version, request: cut(&format!("{:?}", requests.embedded)) }
    }
}

fn same_names(a: &[(String, Tree)], b: &[(String, Tree)]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|((a, _), (b, _))| a == b)
}

fn without_indexes(path: &str) -> String {
    let mut plain = String::new();
    let mut inside = false;
    for letter in path.chars() {
        match letter {
            '[' => inside = true,
            ']' => inside = false,
            _ if !inside => plain.push(letter),
            _ => {}
        }
    }
    plain
}

/// Numbers, and what stands between them.
fn pieces(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut start = 0;
    let mut digits = false;
    for (at, letter) in text.char_indices() {
        let digit = letter.is_ascii_digit() || letter == '-';
        if digit != digits && at > start {
            pieces.push(&text[start..at]);
            start = at;
        }
        digits = digit;
    }
    pieces.push(&text[start..]);
    pieces
}

fn cut(text: &str) -> String {
    let text = text.replace(", unknown_tagged_fields: {}", "");
    if text.chars().count() <= SHOWN {
        return text;
    }
    text.chars().take(SHOWN).chain("…".chars()).collect()
}
