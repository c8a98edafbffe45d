//! MirrorMaker 2 itself, in dedicated mode, as a judge and as the predecessor to take over from.

use std::process::Command;
use std::time::Duration;

use crate::error::Result;
use crate::jars::Jars;
use crate::process::Process;
use crate::scratch::Scratch;

/// A running MirrorMaker 2. Dropping it kills it.
#[derive(Debug)]
pub struct Mm2 {
    process: Process,
    _scratch: Scratch,
}

impl Mm2 {
    /// Starts `connect-mirror-maker` with the text of a properties file, and waits until its herders
    /// run. Conditions of its work (topics, records, checkpoints) are the caller's to wait for.
    pub fn start(jars: &Jars, properties: &str) -> Result<Self> {
        Self::launch(jars.java(512, "INFO"), properties)
    }

    /// The same with the heap, collector and compilers of Kafka's own script: for measuring.
    pub fn start_as_shipped(jars: &Jars, properties: &str) -> Result<Self> {
        Self::launch(jars.java_as_shipped("INFO"), properties)
    }

    fn launch(mut java: Command, properties: &str) -> Result<Self> {
        let scratch = Scratch::new("mm2")?;
        let file = scratch.write("mm2.properties", properties)?;
        java.arg("org.apache.kafka.connect.mirror.MirrorMaker").arg(&file);
        let process = Process::start("mm2", java, &scratch.path().join("mm2.log"))?;
        let mm2 = Self { process, _scratch: scratch };
        mm2.process.wait_for_log("Kafka MirrorMaker started", Duration::from_secs(90))?;
        Ok(mm2)
    }

    /// Its process.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Stops it in good order (SIGTERM).
    pub fn stop(&self) -> Result<()> {
        self.process.stop(Duration::from_mins(1)).map(drop)
    }

    /// Kills it (SIGKILL).
    pub fn kill(&self) -> Result<()> {
        self.process.kill().map(drop)
    }
}
