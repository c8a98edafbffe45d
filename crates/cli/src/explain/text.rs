//! `explain` for people: the verdict first, then the links, then what to do.

use std::fmt::Write;

use twinlog_doctor::{Chain, Link, LinkState, MirroredBy, Outcome, more, one_line, seen, wrapped};

use crate::output::text_width;

/// Evidence that is shown of one link; `--json` has all.
const EVIDENCE_MAX: usize = 12;
/// How wide text is where there is no terminal.
const WIDTH: usize = 100;
/// Where summaries begin.
const INDENT: usize = 33;

/// `verbose`: with the evidence of links that are well.
pub(crate) fn text(chain: &Chain, verbose: bool) -> String {
    let mut text = headline(chain);
    text.push('\n');
    let width = text_width(WIDTH);
    // Of an answer that is not whole everything that was seen is of use.
    let whole = chain.outcome() != Outcome::NotFoundOut;
    let mut not_reached: Vec<&str> = Vec::new();
    for link in &chain.links {
        let (state, name) = (link.state.word(), link.name.word());
        if link.state == LinkState::NotReached {
            not_reached.push(name);
            continue;
        }
        let summary = wrapped(&link.summary, INDENT, width);
        let _ = writeln!(text, "  {state:<11}  {name:<16}  {summary}");
        let bad = matches!(link.state, LinkState::Broken | LinkState::Unknown);
        if bad || verbose || !whole {
            evidence(link, &mut text);
        }
    }
    // They are the last ones, unless the source alone does not answer.
    if !not_reached.is_empty() {
        let names = wrapped(&not_reached.join(", "), 15, width);
        let _ = writeln!(text, "  {:<11}  {names}", LinkState::NotReached.word());
        for link in &chain.links {
            if link.state == LinkState::NotReached {
                evidence(link, &mut text);
            }
        }
    }
    if let Some(link) = chain.first_broken() {
        remedy(link, width, &mut text);
    }
    text
}

fn headline(chain: &Chain) -> String {
    let mut text = one_line(&format!("{}  {}", chain.flow, chain.subject));
    if let Some(partition) = chain.partition {
        let _ = write!(text, ", partition {partition}");
    }
    match chain.mirrored_by {
        Some(MirroredBy::Nobody) => text.push_str(", not mirrored by anybody yet"),
        Some(MirroredBy::MirrorMaker) => text.push_str(", mirrored by MirrorMaker 2"),
        Some(MirroredBy::Twinlog) | None => {}
    }
    let code = |link: &Link| link.code.map(|code| format!(" ({code})")).unwrap_or_default();
    match (chain.outcome(), chain.first_broken()) {
        (_, None) => text.push_str(": all well"),
        (Outcome::NotFoundOut, Some(link)) => {
            let _ = write!(text, ": could not be found out, {}{}", link.name.word(), code(link));
        }
        (_, Some(link)) => {
            let severity = link.severity.map_or("", twinlog_types::Severity::word);
            let _ = write!(text, ": {severity} at {}{}", link.name.word(), code(link));
        }
    }
    text.push('\n');
    text
}

fn evidence(link: &Link, text: &mut String) {
    let shown = link.evidence.len().min(EVIDENCE_MAX);
    text.push_str(&seen(&link.evidence[..shown], 6, text_width(WIDTH)));
    let rest = link.evidence.len() - shown;
    if rest > 0 {
        let _ = writeln!(text, "      and {rest} more (--json has all)");
    }
}

fn remedy(link: &Link, width: usize, text: &mut String) {
    text.push('\n');
    if let Some(consequence) = &link.consequence {
        let _ = writeln!(text, "  means  {}", wrapped(consequence, 9, width));
    }
    for fix in &link.fix {
        // One line each, however long: they are there to be pasted.
        let _ = writeln!(text, "  {}", twinlog_doctor::remedy(fix));
    }
    if let Some(code) = link.code {
        let _ = writeln!(text, "  more   {}", more(code));
    }
}
