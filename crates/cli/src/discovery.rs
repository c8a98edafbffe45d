//! What a command goes by that was given `--source` and `--target` only: the flow that is there.
//!
//! # Invariants
//!
//! 1. All commands conclude the same of the same two clusters, and say what.
//! 2. What was said on the command line is not concluded otherwise.

use std::collections::BTreeSet;
use std::time::Duration;

use twinlog_doctor::{Assumed, Rest, Seen, assume};
use twinlog_types::ClusterAlias;

use crate::args::Common;
use crate::looking::{self, Looking};
use crate::output::Failure;

/// How much of the time finding out may take.
const SHARE: f64 = 0.2;
/// What clusters are called when nobody says so: then nobody said so.
const DEFAULT_SOURCE: &str = "source";
const DEFAULT_TARGET: &str = "target";

/// The configuration that is gone by.
pub(crate) struct Opened {
    pub(crate) looking: Looking,
    /// What a command is given that is to go by the same.
    pub(crate) common: Common,
    /// Each conclusion, and what it was drawn from.
    pub(crate) assumed: Vec<String>,
    /// Somebody mirrors here, or did.
    pub(crate) is_mirror: bool,
    /// Keys that nobody has written anywhere.
    pub(crate) keys: BTreeSet<String>,
}

/// Opens the configuration; without a file, the one that what is there allows to conclude.
pub(crate) async fn open(
    common: &Common,
    rest: Option<&Rest>,
    timeout: Duration,
) -> Result<Opened, Failure> {
    let given = |looking| Opened {
        looking,
        common: common.clone(),
        assumed: Vec::new(),
        is_mirror: false,
        keys: BTreeSet::new(),
    };
    if common.file.is_some() || common.source.is_none() {
        return Ok(given(Looking::open(common)?));
    }
    // A flow that is to be found yet cannot be asked for by name.
    let looking = Looking::open(&Common { flow: None, ..common.clone() })?;
    let Some(observer) = looking.observers.first() else { return Ok(given(looking)) };
    let bootstrap = looking.bootstrap(&observer.config.name);
    let seeing = Seen::read(&observer.source, &observer.target, bootstrap);
    // Whoever does not answer is told about when everything else is read.
    let seen = tokio::time::timeout(timeout.mul_f64(SHARE), seeing).await.unwrap_or_default();
    let named = |alias: &str, default: &str| (alias != default).then(|| ClusterAlias::from(alias));
    let source = named(&common.source_alias, DEFAULT_SOURCE);
    let target = named(&common.target_alias, DEFAULT_TARGET);
    let Assumed { source, target, properties, said, is_mirror } =
        assume(&seen, rest, (source.as_ref(), target.as_ref()));
    let said_otherwise = |key: &String| common.overrides.iter().any(|(given, _)| given == key);
    let mut properties = properties;
    properties.retain(|(key, _)| !said_otherwise(key));
    let keys = properties.iter().map(|(key, _)| key.clone()).collect();
    let names: Vec<_> =
        properties.iter().filter(|(key, _)| looking::is_of_names(key)).cloned().collect();
    let overrides = properties.into_iter().chain(common.overrides.clone()).collect();
    let (source_alias, target_alias) = (source.to_string(), target.to_string());
    let given = names.into_iter().chain(common.overrides.clone()).collect();
    let common = Common { overrides, source_alias, target_alias, ..common.clone() };
    let looking = Looking::open(&common)?;
    let common = Common { overrides: given, ..common };
    if looking.observers.is_empty() && common.flow.is_none() {
        let message = format!("no flow is enabled: {}", said.join("; "));
        return Err(Failure::usage(message, "say which one is meant in a properties file"));
    }
    Ok(Opened { looking, common, assumed: said, is_mirror, keys })
}

/// As [`open`], for commands whose answer has no room for what was concluded: it is said beside.
pub(crate) async fn open_and_tell(common: &Common) -> Result<Opened, Failure> {
    let opened = open(common, None, common.timeout).await?;
    for one in &opened.assumed {
        eprintln!("twinlog: assumed: {one}");
    }
    Ok(opened)
}

/// The same, without the keys that were concluded.
pub(crate) async fn open_and_say(common: &Common) -> Result<(Looking, Common), Failure> {
    let opened = open_and_tell(common).await?;
    Ok((opened.looking, opened.common))
}

/// A command that writes concludes nothing: where another flow is there than was named, that is said
/// instead.
pub(crate) async fn refuse_another(common: &Common) -> Result<(), Failure> {
    let opened = open(common, None, common.timeout).await?;
    let names = |common: &Common| {
        let (source, target) = (common.source_alias.clone(), common.target_alias.clone());
        let policies = common.overrides.iter().filter(|(key, _)| looking::is_of_names(key));
        (source, target, policies.cloned().collect::<BTreeSet<_>>())
    };
    if !opened.is_mirror || names(common) == names(&opened.common) {
        return Ok(());
    }
    let message = format!(
        "there is a mirror of other names on the target, and this would begin a second one beside \
         it: {}",
        opened.assumed.join("; ")
    );
    let file = looking::given(&opened.common);
    Err(Failure::usage(
        message,
        format!(
            "`twinlog run {file}` goes on with it; `--source-alias NAME` begins another one; a \
             properties file says all of it"
        ),
    ))
}
