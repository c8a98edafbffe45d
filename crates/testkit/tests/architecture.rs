//! The arrows between the crates, and that the pure ones stay pure.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// What each crate may use of ours. A crate that is not listed is not allowed.
const ARROWS: &[(&str, &[&str])] = &[
    ("types", &[]),
    ("batch", &["types"]),
    ("offsets", &["types"]),
    ("mirror", &["types"]),
    ("protocol", &["types"]),
    ("wire", &["types", "protocol"]),
    ("client", &["types", "batch", "protocol", "wire"]),
    ("flow", &["types", "batch", "offsets", "mirror"]),
    ("engine", &["types", "batch", "offsets", "mirror", "client", "flow"]),
    ("doctor", &["types", "batch", "offsets", "mirror", "client", "flow", "engine"]),
    ("verify", &["types", "batch", "offsets", "mirror", "client", "flow", "engine"]),
    ("embedded", &["types", "protocol"]),
    ("testkit", &["types"]),
    ("sim", &["types", "mirror", "protocol", "client", "engine", "embedded"]),
    ("worlds", &["types", "mirror", "client", "engine", "embedded"]),
    ("interop", &[]),
    (
        "cli",
        &[
            "types", "batch", "offsets", "mirror", "protocol", "wire", "client", "flow", "engine",
            "doctor", "verify", "embedded",
        ],
    ),
];

/// Crates that reach no socket, clock, random source or runtime.
const PURE: &[&str] = &["types", "batch", "offsets", "mirror", "protocol", "flow"];

/// Foreign crates through which they would.
const IMPURE: &[&str] = &[
    "tokio",
    "mio",
    "socket2",
    "rand",
    "rand_core",
    "getrandom",
    "fastrand",
    "chrono",
    "time",
    "async-std",
    "smol",
    "futures-timer",
];

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn metadata() -> Value {
    // Crates for other platforms are not there where nobody needed them.
    let platform = host();
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--offline", "--locked"])
        .args(["--filter-platform", &platform])
        .current_dir(workspace())
        .output()
        .expect("cargo metadata runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo metadata answers JSON")
}

fn host() -> String {
    let compiler = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let output = Command::new(compiler).arg("-vV").output().expect("the compiler runs");
    let told = String::from_utf8_lossy(&output.stdout);
    let host = told.lines().find_map(|line| line.strip_prefix("host: "));
    host.expect("the compiler names its host").to_owned()
}

fn crate_name(package: &str) -> Option<&str> {
    if package == "twinlog" { Some("cli") } else { package.strip_prefix("twinlog-") }
}

/// The normal dependencies of every crate of the workspace.
fn dependencies(metadata: &Value) -> BTreeMap<String, BTreeSet<String>> {
    let packages = metadata["packages"].as_array().expect("packages");
    packages
        .iter()
        .filter(|package| package["source"].is_null())
        .filter_map(|package| {
            let name = crate_name(package["name"].as_str()?)?.to_owned();
            let dependencies = package["dependencies"]
                .as_array()?
                .iter()
                .filter(|dependency| dependency["kind"].is_null())
                .filter_map(|dependency| Some(dependency["name"].as_str()?.to_owned()))
                .collect();
            Some((name, dependencies))
        })
        .collect()
}

#[test]
fn arrows_between_crates_go_one_way() {
    let allowed: BTreeMap<&str, BTreeSet<&str>> =
        ARROWS.iter().map(|(name, uses)| (*name, uses.iter().copied().collect())).collect();
    for (name, dependencies) in dependencies(&metadata()) {
        let Some(allowed) = allowed.get(name.as_str()) else {
            panic!("the crate {name} has no place in the table of arrows");
        };
        for used in dependencies.iter().filter_map(|dependency| crate_name(dependency)) {
            assert!(allowed.contains(used), "{name} must not use {used}");
        }
    }
}

#[test]
fn pure_crates_reach_no_runtime_clock_or_random_source() {
    let metadata = metadata();
    let nodes = metadata["resolve"]["nodes"].as_array().expect("nodes");
    let names: BTreeMap<&str, &str> = metadata["packages"]
        .as_array()
        .expect("packages")
        .iter()
        .filter_map(|package| Some((package["id"].as_str()?, package["name"].as_str()?)))
        .collect();
    let edges: BTreeMap<&str, Vec<&str>> = nodes
        .iter()
        .filter_map(|node| {
            let normal = node["deps"]
                .as_array()?
                .iter()
                .filter(|dep| {
                    dep["dep_kinds"]
                        .as_array()
                        .is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()))
                })
                .filter_map(|dep| dep["pkg"].as_str())
                .collect();
            Some((node["id"].as_str()?, normal))
        })
        .collect();
    for (id, name) in &names {
        if !crate_name(name).is_some_and(|name| PURE.contains(&name)) {
            continue;
        }
        let mut seen = BTreeSet::new();
        let mut open = vec![*id];
        while let Some(next) = open.pop() {
            if seen.insert(next) {
                open.extend(edges.get(next).into_iter().flatten());
            }
        }
        for reached in seen {
            let reached = names[reached];
            assert!(!IMPURE.contains(&reached), "{name} reaches {reached}");
        }
    }
}

/// What manifests cannot show: the standard library's clock, sockets and threads.
#[test]
fn pure_crates_forbid_the_standard_librarys_clock_and_sockets() {
    for name in PURE {
        let file = workspace().join("crates").join(name).join("clippy.toml");
        let text = std::fs::read_to_string(&file)
            .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        for forbidden in [
            "std::time::Instant::now",
            "std::time::SystemTime::now",
            "std::net::TcpStream::connect",
            "std::thread::spawn",
            "std::fs::read",
            "std::env::var",
        ] {
            assert!(text.contains(forbidden), "{name} does not forbid {forbidden}");
        }
    }
}

#[test]
fn only_the_protocol_crate_names_the_codec_library() {
    for (name, dependencies) in dependencies(&metadata()) {
        assert!(
            name == "protocol" || !dependencies.contains("kafka-protocol"),
            "{name} names the codec library"
        );
    }
}

/// A file beside a test's `main.rs` that no `mod` names is not compiled, and no test in it runs.
#[test]
fn every_file_of_a_test_is_compiled() {
    for entry in std::fs::read_dir(workspace().join("crates")).expect("the crates") {
        let tests = entry.expect("a crate").path().join("tests");
        for folder in std::fs::read_dir(tests).into_iter().flatten() {
            let folder = folder.expect("a test").path();
            let Ok(main) = std::fs::read_to_string(folder.join("main.rs")) else { continue };
            for file in std::fs::read_dir(&folder).expect("a folder") {
                let file = file.expect("a file").path();
                if file.extension().is_none_or(|extension| extension != "rs") {
                    continue;
                }
                let name = file.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
                let is_named = main.lines().any(|line| {
                    line.trim_start_matches("pub ").trim_start_matches("pub(crate) ")
                        == format!("mod {name};")
                });
                assert!(name == "main" || is_named, "{} is not compiled", file.display());
            }
        }
    }
}
