//! Apache Kafka's jars, and the Java that runs them.
//!
//! The jars of one version are fetched once, by Maven, into a cache folder outside the repository:
//! `$TWINLOG_TEST_CACHE`, else `$XDG_CACHE_HOME/twinlog-test`, else `~/.cache/twinlog-test`. Nothing
//! else is installed, and once they are there neither Maven nor the network is needed. This crate's own
//! Java sources are compiled against them, once per version and content, and a broker is run once to
//! leave an archive of its classes, from which later JVMs start faster.
//!
//! # Invariants
//!
//! 1. A folder of the cache is complete or absent: it is filled under another name and renamed.
//! 2. Test binaries that start at once wait for one of them to fill it (a lock file per version).

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::broker::{ClusterOptions, KafkaCluster};
use crate::error::{Error, IoContext as _, Result};
use crate::process::tail;

const POM: &str = include_str!("../java/pom.xml");
const LOG4J2: &str = include_str!("../java/log4j2.properties");
const SOURCES: &[(&str, &str)] = &[
    ("Broker.java", include_str!("../java/Broker.java")),
    ("Json.java", include_str!("../java/Json.java")),
    ("Live.java", include_str!("../java/Live.java")),
    ("MirrorProbe.java", include_str!("../java/MirrorProbe.java")),
    ("Reader.java", include_str!("../java/Reader.java")),
    ("Records.java", include_str!("../java/Records.java")),
    ("Requests.java", include_str!("../java/Requests.java")),
    ("Shell.java", include_str!("../java/Shell.java")),
    ("SyncStoreProbe.java", include_str!("../java/SyncStoreProbe.java")),
    ("Workload.java", include_str!("../java/Workload.java")),
];

/// A version of Apache Kafka that the tests run against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KafkaVersion {
    /// The newest one.
    V4_3_0,
    /// The last of the line that still knows ZooKeeper (run with KRaft here).
    V3_9_1,
    /// Its MirrorMaker 2 alone is run, for the faults that later ones do not have.
    V3_4_0,
}

impl fmt::Display for KafkaVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4_3_0 => "4.3.0",
            Self::V3_9_1 => "3.9.1",
            Self::V3_4_0 => "3.4.0",
        })
    }
}

/// A Java that is new enough, and whether Maven is there to fetch jars.
#[derive(Clone, Debug)]
pub struct Java {
    maven: bool,
}

/// Java 17 or newer with its compiler, and Maven (or jars fetched before): there, or why not.
///
/// # Errors
///
/// [`Error::Unavailable`], whose text is the reason with which tests are listed as ignored.
pub fn availability() -> Result<Java> {
    for program in ["java", "javac", "jar"] {
        let version = version_of(program)
            .ok_or_else(|| Error::Unavailable(format!("no {program} on the PATH")))?;
        if version < 17 {
            let reason = format!("{program} is version {version}, 17 or newer is needed");
            return Err(Error::Unavailable(reason));
        }
    }
    let maven = runs("mvn", "--version").is_some();
    let fetched = cache().is_ok_and(|cache| {
        [KafkaVersion::V4_3_0, KafkaVersion::V3_9_1]
            .iter()
            .all(|version| jars_folder(&cache, *version).is_dir())
    });
    if !maven && !fetched {
        return Err(Error::Unavailable("no mvn on the PATH to fetch Kafka's jars".to_owned()));
    }
    Ok(Java { maven })
}

impl Java {
    /// The jars of one version, fetched where they are missing.
    pub fn jars(&self, version: KafkaVersion) -> Result<Jars> {
        let cache = cache()?;
        fs::create_dir_all(&cache).context(|| format!("create {}", cache.display()))?;
        let lock_path = cache.join(format!("kafka-{version}.lock"));
        let lock =
            File::create(&lock_path).context(|| format!("create {}", lock_path.display()))?;
        lock.lock().context(|| format!("lock {}", lock_path.display()))?;

        let jars = jars_folder(&cache, version);
        if !jars.is_dir() {
            if !self.maven {
                let reason = format!("no mvn on the PATH to fetch Kafka {version}");
                return Err(Error::Unavailable(reason));
            }
            fill(&jars, |folder| fetch(version, folder))?;
        }
        let classes = cache.join(format!("classes-{version}-{}", digest((SOURCES, LOG4J2))));
        if version == KafkaVersion::V3_4_0 {
            // None of this crate's own classes is run beside it.
            if !classes.is_dir() {
                fill(&classes, log_config)?;
            }
            return Ok(Jars {
                version,
                folder: jars,
                classes,
                archive: Archive::None,
                extra: None,
            });
        }
        if !classes.is_dir() {
            fill(&classes, |folder| compile(&jars, folder))?;
        }
        let archive = classes.join("classes.jsa");
        let jars = Jars { version, folder: jars, classes, archive: Archive::None, extra: None };
        if !archive.is_file() {
            let making = Jars { archive: Archive::Make(archive.clone()), ..jars.clone() };
            // Without an archive all is as before, only slower: a JVM may have no support for it.
            if let Err(error) = make_archive(&making) {
                eprintln!("no class data archive for Kafka {version}: {error}");
                return Ok(jars);
            }
        }
        Ok(Jars { archive: Archive::Use(archive), ..jars })
    }
}

/// A JVM's archive of loaded classes: with it, a broker starts with two thirds of the processor time.
#[derive(Clone, Debug)]
enum Archive {
    None,
    Make(PathBuf),
    Use(PathBuf),
}

/// The jars of one version, with this crate's own classes compiled against them.
#[derive(Clone, Debug)]
pub struct Jars {
    version: KafkaVersion,
    folder: PathBuf,
    classes: PathBuf,
    archive: Archive,
    /// Classes of a test's own.
    extra: Option<PathBuf>,
}

impl Jars {
    /// Their version.
    pub fn version(&self) -> KafkaVersion {
        self.version
    }

    /// The folder that holds the jars.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// `java` with the class path, a heap of `heap_mib` MiB, and logs of `level` on standard error.
    pub fn java(&self, heap_mib: u32, level: &str) -> Command {
        let mut command = Command::new("java");
        command
            .arg(format!("-Xmx{heap_mib}m"))
            // Two cores and small heaps: the serial collector and the first compiler tier start fastest.
            .args(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true"])
            .args(self.archive_flags());
        self.reading_classes(command, level)
    }

    /// `java` as `connect-mirror-maker.sh` starts it, all compilers on: for measuring.
    pub fn java_as_shipped(&self, level: &str) -> Command {
        let mut command = Command::new("java");
        command.args(["-Xms256M", "-Xmx2G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"]);
        command.args(["-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent"]);
        command.arg("-Djava.awt.headless=true");
        self.reading_classes(command, level)
    }

    fn reading_classes(&self, mut command: Command, level: &str) -> Command {
        let log4j2 = self.classes.join("log4j2.properties");
        let mut log_config = OsString::from("-Dlog4j2.configurationFile=");
        log_config.push(&log4j2);
        command
            .arg(log_config)
            .arg(format!("-Dtestkit.level={level}"))
            .arg("-cp")
            .arg(self.class_path());
        command
    }

    fn archive_flags(&self) -> Vec<OsString> {
        let (flag, path) = match &self.archive {
            Archive::None => return Vec::new(),
            Archive::Make(path) => ("-XX:ArchiveClassesAtExit=", path),
            Archive::Use(path) => ("-XX:SharedArchiveFile=", path),
        };
        let mut flag = OsString::from(flag);
        flag.push(path);
        // An archive that does not fit (another JVM by now) is left aside, and that needs no words.
        vec![flag, "-Xshare:auto".into(), "-Xlog:cds*=off".into()]
    }

    fn class_path(&self) -> OsString {
        // An archive fits class paths that begin like its own, and its own may have no folders.
        let mut path = self.classes.join("testkit.jar").into_os_string();
        path.push(":");
        path.push(self.folder.join("*"));
        if let Some(extra) = &self.extra {
            path.push(":");
            path.push(extra);
        }
        path
    }

    /// The same jars with one more Java source file, compiled into `folder`.
    pub fn compile(&self, source: &Path, folder: &Path) -> Result<Self> {
        let mut javac = Command::new("javac");
        javac.arg("-cp").arg(self.class_path()).arg("-d").arg(folder).arg(source);
        run("javac", javac)?;
        Ok(Self { extra: Some(folder.to_owned()), ..self.clone() })
    }
}

/// The cache folder.
pub(crate) fn cache() -> Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(cache) = set("TWINLOG_TEST_CACHE") {
        return Ok(cache.into());
    }
    if let Some(cache) = set("XDG_CACHE_HOME") {
        return Ok(Path::new(&cache).join("twinlog-test"));
    }
    let home = set("HOME").ok_or_else(|| {
        Error::Unavailable("none of TWINLOG_TEST_CACHE, XDG_CACHE_HOME and HOME is set".to_owned())
    })?;
    Ok(Path::new(&home).join(".cache/twinlog-test"))
}

fn jars_folder(cache: &Path, version: KafkaVersion) -> PathBuf {
    cache.join(format!("kafka-{version}-{}", digest(POM)))
}

/// Names what a folder was made from, so that a change makes a new one.
fn digest(of: impl Hash) -> String {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    format!("{:08x}", hasher.finish() as u32)
}

/// Fills a new folder of the cache; the caller holds the lock.
fn fill(folder: &Path, work: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let partial = folder.with_extension("partial");
    if partial.exists() {
        // Left by a process that died half way.
        fs::remove_dir_all(&partial).context(|| format!("remove {}", partial.display()))?;
    }
    fs::create_dir_all(&partial).context(|| format!("create {}", partial.display()))?;
    work(&partial)?;
    fs::rename(&partial, folder).context(|| format!("rename to {}", folder.display()))
}

fn fetch(version: KafkaVersion, folder: &Path) -> Result<()> {
    let project = folder.join("project");
    fs::create_dir_all(&project).context(|| format!("create {}", project.display()))?;
    let pom = project.join("pom.xml");
    fs::write(&pom, POM).context(|| format!("write {}", pom.display()))?;
    let mut output = OsString::from("-DoutputDirectory=");
    output.push(folder);
    let mut maven = Command::new("mvn");
    maven
        .args(["-q", "-B", "-f"])
        .arg(&pom)
        .arg(format!("-Dkafka.version={version}"))
        .args(["dependency:copy-dependencies", "-DincludeScope=runtime"])
        .arg(output);
    run("mvn", maven)
}

fn compile(jars: &Path, folder: &Path) -> Result<()> {
    let classes = folder.join("classes");
    let mut javac = Command::new("javac");
    // Kafka deprecates what its older line does not have a successor for yet.
    javac.args(["-nowarn", "-Xlint:none", "-cp"]).arg(jars.join("*")).arg("-d").arg(&classes);
    for (name, text) in SOURCES {
        let source = folder.join(name);
        fs::write(&source, text).context(|| format!("write {}", source.display()))?;
        javac.arg(source);
    }
    run("javac", javac)?;
    let mut jar = Command::new("jar");
    jar.arg("cf").arg(folder.join("testkit.jar")).arg("-C").arg(classes).arg(".");
    run("jar", jar)?;
    log_config(folder)
}

fn log_config(folder: &Path) -> Result<()> {
    let log4j2 = folder.join("log4j2.properties");
    fs::write(&log4j2, LOG4J2).context(|| format!("write {}", log4j2.display()))
}

/// Runs a broker once, so that its JVM leaves an archive of the classes it has loaded.
fn make_archive(jars: &Jars) -> Result<()> {
    let options = ClusterOptions::default();
    KafkaCluster::start(jars, "archive", &options)?.stop()?;
    match &jars.archive {
        Archive::Make(path) if !path.is_file() => {
            Err(Error::Unavailable("the JVM left none".to_owned()))
        }
        _ => Ok(()),
    }
}

fn run(program: &str, mut command: Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).output().context(|| format!("run {program}"))?;
    if output.status.success() {
        return Ok(());
    }
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    Err(Error::Failed {
        program: program.to_owned(),
        status: output.status.to_string(),
        output: tail(&text, 30),
    })
}

fn runs(program: &str, flag: &str) -> Option<String> {
    let output = Command::new(program).arg(flag).stdin(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The major version that `program --version` prints: `openjdk 17.0.15 2025-04-15`, `javac 17.0.15`.
fn version_of(program: &str) -> Option<u32> {
    major(&runs(program, "--version")?)
}

fn major(text: &str) -> Option<u32> {
    let number = text.split_whitespace().nth(1)?;
    number.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_major_version_is_read_from_what_java_and_javac_print() {
        assert_eq!(major("openjdk 17.0.15 2025-04-15\nOpenJDK Runtime"), Some(17));
        assert_eq!(major("javac 21.0.2"), Some(21));
        assert_eq!(major("java 22-ea 2024-03-19"), Some(22));
        assert_eq!(major("nonsense"), None);
    }
}
