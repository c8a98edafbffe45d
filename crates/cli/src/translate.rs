//! `twinlog translate`: offsets from one cluster to the other.
//!
//! Does not: need the source for a single offset; the state on the target is enough, as it must be
//! when the source is gone.

mod answer;
mod question;

use std::collections::{BTreeMap, BTreeSet};
use std::io::BufRead;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use tokio::sync::OnceCell;
use twinlog_client::{ClientError, GroupKind};
use twinlog_doctor::near;
use twinlog_engine::named_file;
use twinlog_engine::observe::{MappedPartition, Mirror, Mm2Sight, Observer, shell_option};
use twinlog_flow::Standing;
use twinlog_mirror::{SyncTranslation, replicates};
use twinlog_types::{Code, FlowName, GroupId, SourceOffset, TopicName, TopicPartition};

use self::answer::{Answer, GroupAnswer, GroupOffset, Translated, print_group};
use self::question::{Asked, Question, asked};
use crate::args::Translate;
use crate::discovery;
use crate::looking;
use crate::output::{Failure, Output, USAGE, WRONG};
use crate::threads;

/// A map that was read is good for so long: the copy goes on meanwhile.
const MAP_IS_FRESH: Duration = Duration::from_secs(2);
/// Maps that are kept for further lines.
const MAPS_MAX: usize = 64;

pub(crate) fn translate(args: &Translate, out: Output) -> Result<ExitCode, Failure> {
    let mut args = args.clone_lines();
    let question = args.question()?;
    let timeout = args.common.timeout;
    let (looking, common) = threads::block_on(discovery::open_and_say(&args.common))?;
    let (observers, file) = (looking.observers, looking::given(&common));
    let answered = threads::block_on(async {
        let opening = async {
            let mut flows = Vec::new();
            for observer in &observers {
                let name = observer.config.name.clone();
                let mirror = observer.mirror().await;
                let mut mirror =
                    mirror.map_err(|error| Failure::client(&name.to_string(), &error))?;
                if let Some(generation) = args.generation {
                    mirror = mirror.of_generation(generation);
                }
                let (observer, mm2) = (observer.clone(), OnceCell::new());
                flows.push(Flow { name, observer, mirror, mm2 });
            }
            Ok(flows)
        };
        let flows = within(timeout, "connecting", opening).await?;
        let fresh = BTreeMap::new();
        let mut translator = Translator { flows, fresh, timeout, file: file.clone() };
        match question {
            Question::One(asked) => {
                let answer = translator.one(&asked).await?;
                answer.print(out)?;
                Ok(answer.exit())
            }
            Question::Group(group) => translator.group(&group, out).await,
            Question::Lines { reverse } => translator.lines(reverse, out).await,
        }
    });
    answered.map_err(|failure| failure.naming(&file))
}

async fn within<T>(
    timeout: Duration,
    what: &str,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    match tokio::time::timeout(timeout, work).await {
        Ok(done) => done,
        Err(_) => Err(Failure::timed_out(what, timeout)),
    }
}

struct Flow {
    name: FlowName,
    observer: Observer,
    mirror: Mirror,
    /// What MM2 tells of it, once that was asked for: nothing where a twinlog has run it.
    mm2: OnceCell<Option<Mm2Sight>>,
}

impl Flow {
    /// What MM2 tells of a flow that no twinlog has run.
    async fn mm2(&self) -> Option<&Mm2Sight> {
        // It only explains why there is no map, which is known already.
        let asking = async || self.observer.mm2().await.unwrap_or_default();
        self.mm2.get_or_init(asking).await.as_ref()
    }
}

struct Translator {
    flows: Vec<Flow>,
    /// Maps by flow, direction and partition, and when they were read.
    fresh: BTreeMap<(usize, bool, TopicPartition), (Instant, MappedPartition)>,
    timeout: Duration,
    /// How the configuration is named in commands.
    file: String,
}

impl Translator {
    /// Translates one offset by the one flow that knows its partition.
    async fn one(&mut self, asked: &Asked) -> Result<Answer, Failure> {
        let mut found: Option<(usize, MappedPartition)> = None;
        let mut refused: Option<Standing> = None;
        for at in 0..self.flows.len() {
            match self.map(at, asked).await? {
                Ok(mapped) => {
                    if let Some((other, _)) = &found {
                        let (a, b) = (&self.flows[*other].name, &self.flows[at].name);
                        return Err(Failure::usage(
                            format!("{} is mirrored by {a} and by {b}", asked.partition.topic),
                            format!("say which one: --flow '{a}'"),
                        ));
                    }
                    found = Some((at, mapped));
                }
                Err(standing) => {
                    if refused.as_ref().is_none_or(|before| standing.urgency() > before.urgency()) {
                        refused = Some(standing);
                    }
                }
            }
        }
        let Some((at, mapped)) = found else {
            let next = self.meant(asked).await;
            let failure = match self.of_mm2(asked).await {
                Some(of_mm2) => of_mm2,
                None => no_map(refused),
            };
            return Err(Failure { next: next.unwrap_or(failure.next), ..failure });
        };
        Ok(Answer {
            version: 1,
            flow: self.flows[at].name.to_string(),
            translated: Translated::new(&mapped, asked.offset, asked.reverse),
            reverse: asked.reverse,
        })
    }

    /// What may have been meant by a topic that has no map: the other direction, or another name.
    async fn meant(&mut self, asked: &Asked) -> Option<String> {
        let turned = Asked { reverse: !asked.reverse, ..asked.clone() };
        let topic = asked.partition.topic.as_str();
        for at in 0..self.flows.len() {
            // It is only a hint: what fails here failed before, or says nothing about the question.
            if let Ok(Ok(mapped)) = self.map(at, &turned).await {
                return Some(if asked.reverse {
                    let mirror = &mapped.target.topic;
                    format!("{topic} is mirrored to {mirror}; leave out --reverse")
                } else {
                    let own = &mapped.source.topic;
                    format!("{topic} is the mirror of {own}; give --reverse to translate back")
                });
            }
        }
        let mut names = BTreeSet::new();
        for Flow { observer, mirror, .. } in &self.flows {
            let config = &observer.config;
            let there = mirror.source_topics().map(TopicName::as_str);
            let there = there.filter(|topic| replicates(config, topic));
            if asked.reverse {
                names.extend(there.map(|topic| config.remote_topic(topic).to_string()));
            } else {
                names.extend(there.map(str::to_owned));
            }
        }
        if names.contains(topic) {
            return None;
        }
        let near = near(topic, names.iter().map(String::as_str));
        (!near.is_empty()).then(|| format!("did you mean {}?", near.join(" or ")))
    }

    /// Why there is no map of what MM2 mirrors, and what MM2 makes of the offset.
    async fn of_mm2(&self, asked: &Asked) -> Option<Failure> {
        let timeout = self.timeout;
        for flow in &self.flows {
            let config = flow.observer.config.clone();
            let is_asked = |topic: &&TopicName| {
                let name = if asked.reverse {
                    config.remote_topic(topic.as_str())
                } else {
                    (*topic).clone()
                };
                name == asked.partition.topic && replicates(&config, topic.as_str())
            };
            let Some(topic) = flow.mirror.source_topics().find(is_asked).cloned() else { continue };
            let name = flow.name.clone();
            let Ok(Some(mm2)) = tokio::time::timeout(timeout, flow.mm2()).await else { continue };
            let tp = TopicPartition::new(topic, asked.partition.partition);
            let figure = (!asked.reverse).then(|| said_by_mm2(mm2, &tp, asked.offset));
            return Some(mirrored_by_mm2(&name, mm2, &tp, figure.as_deref()));
        }
        None
    }

    async fn map(
        &mut self,
        at: usize,
        asked: &Asked,
    ) -> Result<Result<MappedPartition, Standing>, Failure> {
        let key = (at, asked.reverse, asked.partition.clone());
        if let Some((read, mapped)) = self.fresh.get(&key)
            && read.elapsed() < MAP_IS_FRESH
        {
            return Ok(Ok(mapped.clone()));
        }
        let Flow { name, mirror, .. } = &self.flows[at];
        let wanted = std::slice::from_ref(&asked.partition);
        let reading = async {
            let maps = if asked.reverse {
                mirror.of_target(wanted).await
            } else {
                mirror.of_source(wanted).await
            };
            maps.map_err(|error| Failure::client(&name.to_string(), &error))
        };
        let mapped = within(self.timeout, "reading the state", reading).await?.pop();
        let Some(mapped) = mapped else { return Err(no_map(None)) };
        if let Ok(mapped) = &mapped {
            if self.fresh.len() >= MAPS_MAX {
                self.fresh.clear();
            }
            self.fresh.insert(key, (Instant::now(), mapped.clone()));
        }
        Ok(mapped)
    }

    /// Translates all committed offsets of a group, flow by flow.
    async fn group(&mut self, group: &GroupId, out: Output) -> Result<ExitCode, Failure> {
        let timeout = self.timeout;
        let mut answers = Vec::new();
        for flow in &self.flows {
            let offsets = within(timeout, "translating", group_offsets(flow, group)).await?;
            answers.push((flow.name.to_string(), offsets));
        }
        // Of several flows only those that have the group say something.
        if answers.len() > 1 {
            answers.retain(|(_, offsets)| !offsets.is_empty());
        }
        // A group that was carried over has commits on the target, too, on topics that the opposite
        // flow does not mirror back.
        let mirrored = |(_, offsets): &(String, Vec<GroupOffset>)| {
            offsets.iter().any(|offset| offset.code != Some(Code::TopicNotMirrored.word()))
        };
        if answers.len() > 1 && answers.iter().any(mirrored) {
            answers.retain(mirrored);
        }
        if answers.iter().all(|(_, offsets)| offsets.is_empty()) {
            let next = match self.near_groups(group).await.as_slice() {
                [] => "check the group's name, and the right to describe it".into(),
                near => format!("did you mean {}?", near.join(" or ")),
            };
            return Err(Failure {
                exit: WRONG,
                code: Code::GroupWithoutCommits.word().into(),
                message: format!("no commit of group {group} is visible on the source"),
                next,
                problems: Vec::new(),
            });
        }
        if answers.len() > 1 {
            let flows: Vec<&str> = answers.iter().map(|(flow, _)| flow.as_str()).collect();
            return Err(Failure::usage(
                format!("group {group} has commits in {}", flows.join(" and ")),
                format!("say which one: --flow '{}'", flows[0]),
            ));
        }
        let Some((flow, offsets)) = answers.pop() else { return Err(no_map(None)) };
        let by_mm2 = self.flows.iter().any(|flow| matches!(flow.mm2.get(), Some(Some(_))));
        if by_mm2 {
            let next = format!(
                "no twinlog has ever run {flow}, and MM2 makes the mirror: `twinlog doctor FILE {0}` \
                 says how exact its places are, `twinlog rehearse FILE {0}` tries them",
                shell_option("--group", group.as_str())
            );
            eprintln!("twinlog: {}", named_file(&next, &self.file));
        }
        let known = offsets.iter().all(|offset| offset.translated.is_known());
        if out.json {
            Output::document(&GroupAnswer { version: 1, flow, group: group.as_str(), offsets })?;
        } else {
            print_group(&offsets)?;
        }
        Ok(ExitCode::from(if known { 0 } else { WRONG }))
    }

    /// Groups of the sources that may have been meant, where there is none of that name.
    async fn near_groups(&self, group: &GroupId) -> Vec<String> {
        let mut names = BTreeSet::new();
        for flow in &self.flows {
            // It is only a hint.
            let listed =
                tokio::time::timeout(self.timeout, flow.observer.source.list_groups()).await;
            let listed = listed.into_iter().flatten().flatten();
            names.extend(listed.map(|listing| listing.group.as_str().to_owned()));
        }
        if names.contains(group.as_str()) {
            return Vec::new();
        }
        near(group.as_str(), names.iter().map(String::as_str))
    }

    /// Translates JSON lines: an answer or an error for each, in order.
    async fn lines(&mut self, reverse: bool, out: Output) -> Result<ExitCode, Failure> {
        let mut exit = 0;
        for (number, line) in (1..).zip(std::io::stdin().lock().lines()) {
            let line = line.map_err(|error| {
                Failure::usage(format!("standard input: {error}"), "give JSON lines in UTF-8")
            })?;
            if line.trim().is_empty() {
                continue;
            }
            let answer = match asked(&line, number, reverse) {
                Ok(asked) => self.one(&asked).await,
                Err(failure) => Err(failure),
            };
            match answer {
                Ok(answer) => {
                    answer.print(out)?;
                    if !answer.translated.is_known() {
                        exit = exit.max(WRONG);
                    }
                }
                Err(failure) if failure.exit <= USAGE => {
                    exit = exit.max(failure.exit);
                    if out.json {
                        failure.naming(&self.file).print_document()?;
                    } else {
                        eprint!("line {number}: {}", failure.naming(&self.file).lines());
                    }
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(ExitCode::from(exit))
    }
}

async fn group_offsets(flow: &Flow, group: &GroupId) -> Result<Vec<GroupOffset>, Failure> {
    let (name, source) = (flow.name.to_string(), flow.observer.source.clone());
    let failed = |error: &ClientError| Failure::client(&name, error);
    if let Some(error) = flow.mirror.source_error() {
        return Err(failed(error));
    }
    let listed = source.list_groups().await.map_err(|error| failed(&error))?;
    let share = listed.into_iter().filter(|listing| listing.kind == GroupKind::Share);
    let share: BTreeSet<GroupId> = share.map(|listing| listing.group).collect();
    let mut answers = source
        .fetch_positions(std::slice::from_ref(group), &share)
        .await
        .map_err(|error| failed(&error))?;
    let commits = match answers.remove(group) {
        Some(Ok(commits)) => commits,
        Some(Err(code)) => {
            return Err(failed(&ClientError::Code {
                api: "OffsetFetch",
                code,
                message: None,
                about: group.to_string(),
            }));
        }
        None => Vec::new(),
    };
    let commits: Vec<_> = commits.into_iter().filter(|commit| commit.offset >= 0).collect();
    let wanted: Vec<TopicPartition> = commits.iter().map(|commit| commit.tp.clone()).collect();
    let maps = flow.mirror.of_source(&wanted).await.map_err(|error| failed(&error))?;
    let mut offsets = Vec::new();
    for (commit, mapped) in commits.iter().zip(maps) {
        offsets.push(match mapped {
            Ok(mapped) => GroupOffset {
                translated: Translated::new(&mapped, commit.offset, false),
                code: None,
                reason: None,
            },
            Err(standing) => {
                let nothing = standing.code == Some(Code::NothingCopied);
                let mm2 = if nothing { flow.mm2().await } else { None };
                let said = mm2.map(|mm2| said_by_mm2(mm2, &commit.tp, commit.offset));
                GroupOffset {
                    translated: Translated::unknown(&commit.tp, commit.offset),
                    code: standing.code.map(Code::word),
                    reason: said.or(standing.reason),
                }
            }
        });
    }
    Ok(offsets)
}

/// What MM2 makes of an offset.
fn said_by_mm2(mm2: &Mm2Sight, tp: &TopicPartition, offset: i64) -> String {
    let answer = mm2.answer(tp, SourceOffset(offset));
    match (answer.translation, answer.sync) {
        (SyncTranslation::To(place), Some((source, target))) => {
            let again = match answer.again(SourceOffset(offset)) {
                0 => String::new(),
                again => format!(", up to {again} records before it are read again"),
            };
            format!(
                "MM2 translates {offset} to {place}, by its offset-sync {source} -> {target}{again}"
            )
        }
        (SyncTranslation::To(place), None) => format!("MM2 translates {offset} to {place}"),
        (SyncTranslation::BeforeOldest, _) => {
            format!("MM2 gives {offset} no place: it lies before every offset-sync that MM2 keeps")
        }
        (SyncTranslation::NoSync, _) => {
            format!(
                "MM2 gives {offset} no place: it has no offset-sync of {tp}, or it cannot be read"
            )
        }
    }
}

/// Why there is no map of a mirror that MM2 makes, and who knows more of it.
fn mirrored_by_mm2(
    flow: &FlowName,
    mm2: &Mm2Sight,
    tp: &TopicPartition,
    figure: Option<&str>,
) -> Failure {
    let by = mm2.by();
    let (code, who) = match &by.runs {
        Some(who) => (Code::Mm2StillRuns, format!("MM2 makes it ({who})")),
        None => (Code::MirrorNotRunning, "MM2 made it, and does not run now".to_owned()),
    };
    let figure = figure.map(|figure| format!("; {figure}")).unwrap_or_default();
    Failure {
        exit: WRONG,
        code: code.word().into(),
        message: format!("there is no map of {tp}: no twinlog has ever run {flow}, {who}{figure}"),
        next: format!(
            "`twinlog doctor FILE {}` says how exact MM2's places are, `twinlog verify FILE` and \
             `twinlog rehearse FILE` prove them; exact ones come with `twinlog run FILE`, which takes the \
             mirror over once MM2 is stopped",
            shell_option("--topic", tp.topic.as_str())
        ),
        problems: Vec::new(),
    }
}

/// Why there is no translation.
fn no_map(refused: Option<Standing>) -> Failure {
    let standing = refused.unwrap_or_else(|| {
        let reason = "no flow is enabled";
        Standing::found(twinlog_types::State::Excluded, Code::TopicNotMirrored, reason)
    });
    let code = standing.code.unwrap_or(Code::NothingCopied);
    let next = match code {
        Code::NothingCopied => "see `twinlog status FILE`: the partition may be waiting or stopped",
        Code::TopicNotMirrored => "check the topic's name and the `topics` of the flow",
        _ => "see `twinlog status FILE`",
    };
    Failure {
        exit: WRONG,
        code: code.word().into(),
        message: standing.reason.unwrap_or_else(|| "it is not mirrored".into()),
        next: next.into(),
        problems: Vec::new(),
    }
}
