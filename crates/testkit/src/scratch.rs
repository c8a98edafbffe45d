//! Temporary folders of one test process.
//!
//! All lie in one folder per process, which the guard of [`crate::process`] removes when the process
//! ends; `TWINLOG_TEST_KEEP=1` keeps it, for a look at logs and broker data.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::{IoContext as _, Result};

/// A folder that is removed when dropped.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// A new, empty folder; `name` makes it recognisable.
    pub fn new(name: &str) -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let root = root()?;
        let path = root.join(format!("{}-{name}", NEXT.fetch_add(1, Ordering::Relaxed)));
        fs::create_dir_all(&path).context(|| format!("create {}", path.display()))?;
        crate::process::guard(&root)?;
        Ok(Self { path })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file into it and answers its path.
    pub fn write(&self, name: &str, contents: &str) -> Result<PathBuf> {
        let path = self.path.join(name);
        fs::write(&path, contents).context(|| format!("write {}", path.display()))?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !keep() {
            // What is left here is removed with the root.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

pub(crate) fn keep() -> bool {
    std::env::var_os("TWINLOG_TEST_KEEP").is_some_and(|value| !value.is_empty())
}

/// The folder of this process.
pub(crate) fn root() -> Result<PathBuf> {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    let root = ROOT
        .get_or_init(|| std::env::temp_dir().join(format!("twinlog-test-{}", std::process::id())));
    fs::create_dir_all(root).context(|| format!("create {}", root.display()))?;
    if keep() {
        static SAID: std::sync::Once = std::sync::Once::new();
        SAID.call_once(|| eprintln!("keeping {}", root.display()));
    }
    Ok(root.clone())
}
