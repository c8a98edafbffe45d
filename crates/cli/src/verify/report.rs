//! The page of `verify --report`: what was compared and what came of it, for people who decide and
//! for those who keep it. One file, no script, nothing loaded from anywhere; contents of records
//! are not in it, only offsets, sizes and hashes.

use std::fmt::Write as _;

use twinlog_verify::{FlowReport, GroupReport, PartitionReport, Verdict};

use super::Effort;
use super::document::Documents;
use super::sha256::sha256;
use super::text::{finding, how, rpo, size, verdict};
use crate::format::rfc3339;
use crate::output::Failure;

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1b1f24;--soft:#59636e;--paper:#fff;--line:#d6dbe1;--good:#116329;\
--bad:#a40e26;--unsure:#7d4e00;--tint:#f5f7f9}\
@media(prefers-color-scheme:dark){:root{--ink:#e6eaee;--soft:#9aa5b1;--paper:#14171b;--line:#343a42;\
--good:#56d364;--bad:#ff7b72;--unsure:#e3b341;--tint:#1c2126}}\
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:70rem;\
margin:2rem auto;padding:0 1rem}\
h1{font-size:1.5rem}h2{font-size:1.2rem;margin-top:2.5rem}h3{font-size:1rem;margin-top:1.8rem}\
.verdict{font-size:1.1rem;font-weight:600;padding:.6rem 1rem;border-left:.4rem solid;background:var(--tint)}\
.good{color:var(--good)}.bad{color:var(--bad)}.unsure{color:var(--unsure)}.soft{color:var(--soft)}\
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}\
th,td{text-align:left;padding:.3rem .7rem .3rem 0;border-bottom:1px solid var(--line);vertical-align:top}\
th{color:var(--soft);font-weight:500}td.n,th.n{text-align:right}code,pre{font-family:ui-monospace,monospace;\
font-size:.85em;overflow-wrap:anywhere}pre{white-space:pre-wrap;background:var(--tint);padding:1rem}\
@media print{body{margin:0;max-width:none}details{display:none}}";

/// The page, and the digest that stands in it.
pub(super) fn page(
    reports: &[FlowReport],
    effort: &Effort,
    asked: &str,
) -> Result<(String, String), Failure> {
    let results = serde_json::to_string(&Documents::new(reports, effort)).map_err(|error| {
        Failure::usage(format!("--report: the results cannot be written: {error}"), "report this")
    })?;
    let digest = sha256(results.as_bytes());
    let mut page = String::new();
    let _ = write!(
        page,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none';style-src \
         'unsafe-inline'\"><title>twinlog verify</title><style>{STYLE}</style></head><body>\n\
         <h1>Is the mirror what its source is?</h1>\n"
    );
    for report in reports {
        flow(report, &mut page);
    }
    kept(reports, effort, (asked, &results, &digest), &mut page);
    page.push_str("</body></html>\n");
    Ok((page, digest))
}

/// Text as it is, in HTML.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

fn flow(report: &FlowReport, page: &mut String) {
    let class = match report.verdict() {
        Verdict::Equal => "good",
        Verdict::Mismatch => "bad",
        Verdict::NotFoundOut => "unsure",
    };
    let sentence = match report.verdict() {
        Verdict::Equal => {
            "everything that was compared is equal, and every group stands where it should"
        }
        Verdict::Mismatch => "something differs",
        Verdict::NotFoundOut => "not everything could be looked at",
    };
    let _ = write!(
        page,
        "<h2>{}</h2>\n<p class=\"verdict {class}\">{}: {sentence}.</p>\n",
        plain(&report.flow.to_string()),
        plain(verdict(report))
    );
    for against in report.against() {
        let _ = writeln!(page, "<p class=\"{class}\">{}</p>", plain(&against));
    }
    let _ = writeln!(
        page,
        "<p>Compared was {}. If {} were lost now: {}.</p>",
        plain(&how(report)),
        plain(report.source.alias.as_str()),
        plain(&rpo(report))
    );
    for note in &report.notes {
        let _ = writeln!(page, "<p class=\"soft\">{}</p>", plain(note));
    }
    groups(&report.groups, page);
    partitions(&report.partitions, page);
}

/// The head of a table; names that end in `#` are those of numbers.
fn head(names: &[&str], page: &mut String) {
    page.push_str("<div class=\"wide\"><table><tr>");
    for name in names {
        match name.strip_suffix('#') {
            Some(name) => {
                let _ = write!(page, "<th class=\"n\">{name}</th>");
            }
            None => {
                let _ = write!(page, "<th>{name}</th>");
            }
        }
    }
    page.push_str("</tr>\n");
}

fn number(number: impl std::fmt::Display) -> String {
    format!("<td class=\"n\">{number}</td>")
}

fn offset(offset: Option<i64>) -> String {
    offset.map_or_else(|| number("–"), number)
}

fn groups(groups: &[GroupReport], page: &mut String) {
    if groups.is_empty() {
        return;
    }
    page.push_str("<h3>Where consumer groups would go on</h3>\n");
    head(
        &[
            "group",
            "topic",
            "partition#",
            "on the source#",
            "on the target#",
            "proven#",
            "result",
            "read again#",
            "skipped#",
        ],
        page,
    );
    for one in groups {
        let class = if one.result.is_mismatch() { "bad" } else { "good" };
        let reason = one.reason.as_deref().map(|text| format!(": {text}")).unwrap_or_default();
        let _ = writeln!(
            page,
            "<tr><td>{}</td><td>{}</td>{}{}{}{}<td class=\"{class}\">{}{}</td>{}{}</tr>",
            plain(one.group.as_str()),
            plain(one.topic.as_str()),
            number(one.partition),
            number(one.source_offset),
            offset(one.target_offset),
            offset(one.proven),
            one.result.word(),
            plain(&reason),
            number(one.reread),
            number(one.skipped),
        );
    }
    page.push_str("</table></div>\n");
}

fn partitions(partitions: &[PartitionReport], page: &mut String) {
    if partitions.is_empty() {
        return;
    }
    page.push_str("<h3>What is on both</h3>\n");
    head(
        &[
            "topic",
            "partition#",
            "source",
            "target",
            "compared#",
            "equal#",
            "missing#",
            "extra#",
            "different#",
            "moved#",
            "compacted#",
            "waiting#",
        ],
        page,
    );
    let range = |ends: Option<(i64, i64)>| {
        ends.map_or("–".to_owned(), |(from, to)| format!("{from} to {to}"))
    };
    for one in partitions {
        let tally = &one.tally;
        let class = if one.is_faithful() { "" } else { " class=\"bad\"" };
        let numbers = [
            tally.compared(),
            tally.equal,
            tally.missing,
            tally.extra,
            tally.different,
            tally.out_of_order,
            tally.compacted,
        ];
        let _ = writeln!(
            page,
            "<tr{class}><td>{}</td>{}<td>{}</td><td>{}</td>{}{}</tr>",
            plain(one.topic.as_str()),
            number(one.partition),
            range(one.source),
            range(one.target),
            numbers.map(number).concat(),
            one.waiting.map_or_else(|| number("–"), |waiting| number(waiting.records)),
        );
    }
    page.push_str("</table></div>\n");
    for one in partitions {
        details(one, page);
    }
}

fn details(one: &PartitionReport, page: &mut String) {
    let absent = one.absent.then(|| format!("{} does not have it", one.target_topic));
    let hashes = one.hashes.map(|(source, target)| {
        format!("hash of all records in their order: source {source}, target {target}")
    });
    let lines: Vec<String> = absent
        .into_iter()
        .chain(one.trouble.clone())
        .chain(one.notes.iter().cloned())
        .chain(hashes)
        .chain(one.findings.iter().map(finding))
        .collect();
    if lines.is_empty() {
        return;
    }
    let _ = write!(page, "<h3>{}-{}</h3>\n<ul>", plain(one.topic.as_str()), one.partition);
    for line in lines {
        let _ = write!(page, "<li><code>{}</code></li>", plain(&line));
    }
    page.push_str("</ul>\n");
}

/// What somebody needs who keeps the page.
fn kept(
    reports: &[FlowReport],
    effort: &Effort,
    (asked, results, digest): (&str, &str, &str),
    page: &mut String,
) {
    page.push_str("<h2>For the record</h2>\n");
    head(&["what", ""], page);
    let mut row = |what: &str, value: &str| {
        let _ = writeln!(page, "<tr><td>{}</td><td>{}</td></tr>", plain(what), plain(value));
    };
    row("asked for", asked);
    row("twinlog", env!("CARGO_PKG_VERSION"));
    for report in reports {
        let (from, to) = report.at_ms;
        row(&report.flow.to_string(), &format!("{} to {}", rfc3339(from), rfc3339(to)));
        for side in [&report.source, &report.target] {
            let id = side.id.as_ref().map_or("unknown", twinlog_types::ClusterId::as_str);
            row(&format!("cluster {}", side.alias), &format!("id {id}, at {}", side.bootstrap));
        }
        let (source, target) = report.bytes;
        if source + target > 0 {
            let read = format!("{} of the source, {} of the target", size(source), size(target));
            row("batches read", &read);
        }
    }
    row("took", &format!("{:.1} s", effort.seconds));
    row("records are compared by", "XXH3 (128 bits) of key, value, headers and timestamp");
    row("SHA-256 of the results below", digest);
    let _ = write!(
        page,
        "</table></div>\n<details><summary>the results, as --json prints them</summary><pre>{}</pre>\
         </details>\n",
        plain(results)
    );
}

#[cfg(test)]
mod tests {
    use twinlog_engine::observe::Rights;
    use twinlog_types::FlowName;
    use twinlog_verify::{How, Side};

    use super::*;

    #[test]
    fn the_page_stands_alone_and_names_cannot_break_out_of_it() {
        let side = |alias: &str| Side {
            alias: alias.into(),
            bootstrap: "localhost:9092".into(),
            id: Some("the-id".into()),
        };
        let report = FlowReport {
            flow: FlowName::new("hello", "world"),
            source: side("hello"),
            target: side("world"),
            at_ms: (0, 1_000),
            how: How::Full,
            partitions: vec![PartitionReport::new("<script>&".into(), "t".into(), 0)],
            groups: Vec::new(),
            troubles: vec!["a \"trouble\"".into()],
            notes: Vec::new(),
            rights: Rights::default(),
            grants: Vec::new(),
            bytes: (0, 0),
        };
        let effort = Effort { seconds: 1.0, peak_memory_bytes: None };
        let (page, digest) = page(&[report], &effort, "twinlog verify f").expect("written");
        assert_eq!(digest.len(), 64);
        for wanted in
            ["&lt;script&gt;&amp;", "a &quot;trouble&quot;", "the-id", &digest, "hello-&gt;world"]
        {
            assert!(page.contains(wanted), "{wanted}");
        }
        for refused in ["<script", "http:", "https:", "src=", "@import", "url("] {
            assert!(!page.contains(refused), "{refused}");
        }
    }
}
