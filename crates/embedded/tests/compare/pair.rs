//! Requests to both clusters at once, and what comes back.

use std::time::Duration;

use twinlog_protocol::messages::{
    ApiVersionsRequest, ApiVersionsResponse, InitProducerIdRequest, string,
};
use twinlog_protocol::{ApiKey, Request, decode_response, decode_response_header, encode_request};
use twinlog_testkit::wait_until_some;

use crate::compare::Comparison;
use crate::sides::{Both, Clusters, Link, Outcome, now_ms};
use crate::tally::{About, Tally};
use crate::tree::Tree;

pub(crate) type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

/// For conditions that a loaded machine may be slow to reach.
pub(crate) const LIMIT: Duration = Duration::from_mins(2);
/// What the client calls itself.
const CLIENT: &str = "compare";

/// An answer that is still awaited on a connection of its own.
#[derive(Debug)]
pub(crate) struct Pending<R> {
    link: usize,
    version: i16,
    correlation_id: i32,
    requests: Both<R>,
}

/// Both clusters with their connections.
#[derive(Debug)]
pub(crate) struct Pair {
    clusters: Clusters,
    links: Vec<Both<Link>>,
    correlation_id: i32,
    offered: Both<ApiVersionsResponse>,
    comparison: Comparison,
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
            comparison: Comparison::new(now_ms()),
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
        self.comparison.step = what.into();
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
        Ok(self.judge(version, requests, &outcomes))
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
        let step = self.comparison.step.clone();
        // Whoever is done is not asked again: a request may do something.
        let kafka = wait_until_some(&step, LIMIT, || {
            self.ask_one(&requests.kafka, version, |links| &mut links.kafka, &wanted)
        })?;
        let embedded = wait_until_some(&step, LIMIT, || {
            self.ask_one(&requests.embedded, version, |links| &mut links.embedded, &wanted)
        })?;
        Ok(self.judge(version, requests, &Both { kafka, embedded }))
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
        Ok(self.judge(version, &requests, &outcomes))
    }

    /// A request that has no answer.
    pub(crate) fn send_only<R: Request>(&mut self, version: i16, requests: &Both<R>) -> Result {
        self.send(0, requests, version)?;
        let about = About::of(version, requests);
        self.comparison.tally.count(&about);
        Ok(())
    }

    /// A request that makes brokers close the connection, which is one of its own.
    pub(crate) fn closes<R: Request>(&mut self, version: i16, requests: &Both<R>) -> Result {
        let pending = self.begin(version, requests.clone())?;
        let outcomes = self.receive::<R>(pending.link, version, pending.correlation_id)?;
        let about = About::of(version, requests);
        self.comparison.tally.count(&about);
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
        self.comparison.tally.malformed += 1;
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
                .map_err(|error| format!("{}: {error}", self.comparison.step))
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
        outcomes: &Both<Outcome<R::Response>>,
    ) -> Both<R::Response> {
        let about = About::of(version, requests);
        if let (Outcome::Answer(kafka), Outcome::Answer(embedded)) =
            (&outcomes.kafka, &outcomes.embedded)
        {
            self.compare(&about, &Both { kafka: Tree::of(kafka), embedded: Tree::of(embedded) });
        } else {
            self.comparison.tally.count(&about);
            let words = outcomes.map(|outcome| outcome.word().to_owned());
            self.unexpected(&about, "", &words.kafka, &words.embedded);
        }
        outcomes.map(|outcome| outcome.clone().answer().unwrap_or_default())
    }

    /// Compares two answers that were got by [`exchange`](Self::exchange).
    pub(crate) fn compare(&mut self, about: &About, trees: &Both<Tree>) {
        self.comparison.compare(about, trees);
    }

    /// Notes a difference that nothing allows.
    pub(crate) fn unexpected(&mut self, about: &About, path: &str, kafka: &str, embedded: &str) {
        self.comparison.unexpected(about, path, kafka, embedded);
    }

    /// What was counted so far.
    pub(crate) fn tally(&mut self) -> &mut Tally {
        &mut self.comparison.tally
    }
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
