//! The temporary folder, and the programs: built, found, or said to be missing.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{self, Command};

use crate::Result;
use crate::idem::{Idem, text};

/// The folder of one bench and what runs in it.
pub(crate) struct Place {
    folder: Folder,
    pub(crate) idem: Idem,
    pub(crate) tools: Tools,
    /// What is not here, one line each: a figure that is left out is said, not skipped in silence.
    pub(crate) missing: Vec<String>,
}

/// Programs beside idem. Absolute paths throughout, so that nobody pays for a search that another doesn't.
pub(crate) struct Tools {
    pub(crate) nothing: PathBuf,
    pub(crate) floor: PathBuf,
    pub(crate) floor_replay: PathBuf,
    pub(crate) floor_wait: PathBuf,
    pub(crate) rss: PathBuf,
    pub(crate) naive: PathBuf,
    pub(crate) bkt: Option<PathBuf>,
    pub(crate) flock: Option<PathBuf>,
    pub(crate) sqlite3: Option<PathBuf>,
    pub(crate) strace: Option<PathBuf>,
}

impl Place {
    /// Makes the folder beside cargo's output, since the system's own temporary folder is often in memory, where a sync
    /// costs nothing; builds the yardsticks in it; looks for the peers.
    pub(crate) fn build() -> Result<Self> {
        let beside = Path::new(env!("CARGO_TARGET_TMPDIR"));
        fs::create_dir_all(beside)?;
        let folder = beside.join(format!("compare-{}", process::id()));
        private_folder(&folder)?;
        let folder = Folder(folder);
        let mut missing = Vec::new();
        let mut peer = |name: &str, works: &[&str]| {
            let set = env::var_os(format!("{}_BIN", name.to_uppercase()));
            let found = set.map(PathBuf::from).or_else(|| find(name));
            let found = found.filter(|program| text(program, works).is_ok());
            if found.is_none() {
                missing.push(format!("{name} is not installed or does not work here: its figures are left out"));
            }
            found
        };
        let tools = Tools {
            bkt: peer("bkt", &["--version"]),
            flock: peer("flock", &["--version"]),
            sqlite3: peer("sqlite3", &["--version"]),
            // Containers often forbid tracing, so that it is there says little.
            strace: peer("strace", &["-qq", "-o", "/dev/null", "true"]),
            nothing: find("true").ok_or("`true` is not on PATH")?,
            floor: compile(&folder.0, "floor", include_str!("../floor.c"))?,
            floor_replay: compile(&folder.0, "floor-replay", include_str!("../floor-replay.c"))?,
            floor_wait: compile(&folder.0, "floor-wait", include_str!("../floor-wait.c"))?,
            rss: compile(&folder.0, "rss", include_str!("../rss.c"))?,
            naive: folder.0.join("naive.sh"),
        };
        fs::write(&tools.naive, include_str!("../naive.sh"))?;
        let idem = env::var_os("IDEM_BIN").map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_idem")), PathBuf::from);
        let idem = Idem { program: copy(&idem, &folder.0.join("idem"))? };
        idem.version()?;
        Ok(Self { folder, idem, tools, missing })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder.0
    }

    /// Returns a path in the folder; nothing is there yet.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.0.join(name)
    }

    /// Returns the path of a new store in a private folder of its own.
    pub(crate) fn store(&self, name: &str) -> Result<PathBuf> {
        let folder = self.path(name);
        private_folder(&folder)?;
        Ok(folder.join("idem.db"))
    }
}

/// A folder that goes with its owner, on errors too.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        // Nothing to be done about a folder that can't be removed, and the figures are taken.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn private_folder(folder: &Path) -> Result<()> {
    DirBuilder::new().mode(0o700).create(folder).map_err(|error| format!("{}: {error}", folder.display()).into())
}

/// Starts a command line with an environment of only `PATH`: cargo's own variables (a library path among them) would
/// slow down every dynamic program, and `IDEM_*` would change what is measured.
pub(crate) fn clean(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env_clear().envs(env::var_os("PATH").map(|path| ("PATH", path)));
    command
}

pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// Copies a program, as an installation does. As a linker leaves it, in many small writes, the page cache can hold a file in
/// such a way that each start is up to a fifth slower.
fn copy(program: &Path, to: &Path) -> Result<PathBuf> {
    fs::copy(program, to).map_err(|error| format!("{}: {error}", program.display()))?;
    Ok(to.to_owned())
}

/// Compiles one C file, statically: what a dynamic loader costs is no part of the least that must be done.
fn compile(folder: &Path, name: &str, source: &str) -> Result<PathBuf> {
    let program = folder.join(name);
    let (file, linked) = (program.with_extension("c"), program.with_extension("linked"));
    fs::write(&file, source)?;
    let status = Command::new("cc").args(["-O2", "-static", "-o"]).arg(&linked).arg(&file).status();
    match status {
        Ok(status) if status.success() => copy(&linked, &program),
        Ok(status) => Err(format!("cc could not build {name} ({status})").into()),
        Err(error) => Err(format!("cc, which builds {name}, could not be started: {error}").into()),
    }
}
