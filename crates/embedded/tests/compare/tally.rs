//! What was compared, and what was found.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};

use twinlog_protocol::{ApiKey, Request};

use crate::allowed::ALLOWED;
use crate::sides::Both;

/// Characters of a request or a value that a report shows.
const SHOWN: usize = 600;

/// What an answer answers.
#[derive(Clone, Debug)]
pub(crate) struct About {
    pub(crate) api: ApiKey,
    pub(crate) version: i16,
    pub(crate) request: String,
}

impl About {
    pub(crate) fn of<R: Request>(version: i16, requests: &Both<R>) -> Self {
        Self { api: R::KEY, version, request: cut(&format!("{:?}", requests.embedded)) }
    }
}

/// A difference that nothing allows; equal ones of several versions are one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Difference {
    step: String,
    api: ApiKey,
    path: String,
    kafka: String,
    embedded: String,
}

/// What was compared.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pairs: BTreeMap<ApiKey, BTreeMap<i16, usize>>,
    pub(crate) malformed: usize,
    /// How often each allowed difference was met.
    allowed: BTreeMap<&'static str, usize>,
    /// Unexpected differences that were reported.
    found: usize,
    /// With the versions and the first request.
    unexpected: BTreeMap<Difference, (BTreeSet<i16>, String)>,
}

impl Tally {
    pub(crate) fn total(&self) -> usize {
        self.pairs.values().flat_map(BTreeMap::values).sum::<usize>() + self.malformed
    }

    /// Counts a pair of answers.
    pub(crate) fn count(&mut self, about: &About) {
        *self.pairs.entry(about.api).or_default().entry(about.version).or_default() += 1;
    }

    /// The entries of the list of allowed differences that nothing needed.
    pub(crate) fn unused(&self) -> Vec<&'static str> {
        let names = ALLOWED.iter().map(|allowed| allowed.name);
        names.filter(|name| !self.allowed.contains_key(name)).collect()
    }

    /// Counts a difference that is allowed.
    pub(crate) fn allowed(&mut self, name: &'static str) {
        *self.allowed.entry(name).or_default() += 1;
    }

    /// Notes a difference that nothing allows.
    pub(crate) fn unexpected(
        &mut self,
        (step, about): (&str, &About),
        path: &str,
        kafka: &str,
        embedded: &str,
    ) {
        let difference = Difference {
            step: step.to_owned(),
            api: about.api,
            path: path.to_owned(),
            kafka: cut(kafka),
            embedded: cut(embedded),
        };
        let found = self.unexpected.entry(difference);
        let (versions, _) = found.or_insert_with(|| (BTreeSet::new(), about.request.clone()));
        versions.insert(about.version);
    }

    /// What was unexpected since this was asked last.
    pub(crate) fn verdict(&mut self) -> Result<(), String> {
        let found = std::mem::take(&mut self.unexpected);
        if found.is_empty() {
            return Ok(());
        }
        let mut report = format!("{} unexpected differences\n", found.len());
        for (difference, (versions, request)) in &found {
            let Difference { step, api, path, kafka, embedded } = difference;
            let versions: Vec<String> = versions.iter().map(i16::to_string).collect();
            let versions = versions.join(" ");
            let _ = writeln!(
                report,
                "{step}\n  {api} {versions}: {path}\n    kafka:    {kafka}\n    embedded: {embedded}\n    asked:    {request}"
            );
        }
        self.found += found.len();
        Err(report)
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
            self.found,
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

fn cut(text: &str) -> String {
    let text = text.replace(", unknown_tagged_fields: {}", "");
    if text.chars().count() <= SHOWN {
        return text;
    }
    text.chars().take(SHOWN).chain("…".chars()).collect()
}
