//! The pid file. It is locked as long as the gateway lives, so a file left over by a crash, or a pid that now belongs
//! to another process, is never mistaken for a running gateway. The lock belongs to the open file: a successor gets
//! that, so the gateway is running throughout. Its predecessor, which drains, closes it and has a file of its own.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Read, Seek, Write},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use anyhow::{Context, bail};
use rustix::{
    io::Errno,
    process::{Pid, test_kill_process},
};

const LOCK_ATTEMPTS: u32 = 25;

pub(crate) struct PidFile {
    path: PathBuf,
    stage: Stage,
}

enum Stage {
    /// The pid of the process before is in the file, and may stay there.
    Inherited(File),
    Own(File),
    /// A successor has it. The lock is that one's alone, unless this process keeps listening sockets.
    HandedOver {
        _lock: Option<File>,
        _mark: Option<Mark>,
    },
}

impl PidFile {
    pub(crate) fn create(path: &Path) -> anyhow::Result<Self> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        }
        let shown = path.display();
        let mut file =
            File::options().create(true).truncate(false).read(true).write(true).open(path).with_context(
                || format!("cannot write pid file {shown}; check permissions, or give another --prefix"),
            )?;
        if let Some(pid) = lock(&mut file, path)? {
            bail!("already running as process {pid} ({shown}); stop it first, or give another --prefix");
        }
        let mut pid_file = Self::inherited(file, path);
        pid_file.write()?;
        Ok(pid_file)
    }

    /// The file of the process before this one, whose pid stays in it until [`PidFile::write`].
    pub(crate) fn inherited(file: File, path: &Path) -> Self {
        Self { path: path.to_owned(), stage: Stage::Inherited(file) }
    }

    /// In one write over what is there: readers take the first line, and find the old pid or the new one.
    pub(crate) fn write(&mut self) -> io::Result<()> {
        let file = self.file()?.try_clone()?;
        let line = format!("{}\n", std::process::id());
        file.write_all_at(line.as_bytes(), 0)?;
        self.stage = Stage::Own(file);
        self.file()?.set_len(line.len() as u64)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn file(&self) -> io::Result<&File> {
        match &self.stage {
            Stage::Inherited(file) | Stage::Own(file) => Ok(file),
            Stage::HandedOver { .. } => Err(io::Error::other("a successor has the pid file")),
        }
    }

    /// A successor has it, and ends its lock with itself: the next start does not wait for this process, which drains. With
    /// `keeps_sockets` it does: what reaches a listening socket without an acceptor is lost.
    pub(crate) fn hand_over(&mut self, keeps_sockets: bool) -> io::Result<()> {
        let lock = if keeps_sockets { Some(self.file()?.try_clone()?) } else { None };
        let (mark, result) = match Mark::set(&self.path) {
            Ok(mark) => (Some(mark), Ok(())),
            Err(error) => (None, Err(error)),
        };
        self.stage = Stage::HandedOver { _lock: lock, _mark: mark };
        result
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // The file stays, empty and unlocked: removing it could remove that of a gateway that just started.
        if let Stage::Own(file) = &self.stage {
            let _ = file.set_len(0);
        }
    }
}

/// Says that this process drains: in a file of its own, locked as long as it lives, and in the one where nginx's users look,
/// which names the last one to begin.
struct Mark {
    own: PathBuf,
    shared: PathBuf,
    _lock: File,
}

impl Mark {
    fn set(path: &Path) -> io::Result<Mark> {
        let line = format!("{}\n", std::process::id());
        let own = path.with_extension(format!("{DRAINING}{}", std::process::id()));
        let fresh = path.with_extension(format!("pid.new-{}", std::process::id()));
        let mut file = File::create(&fresh)?;
        file.lock()?;
        file.write_all(line.as_bytes())?;
        // It is locked before it has its name: an unlocked one is what a crash left behind.
        fs::rename(fresh, &own)?;
        let mark = Mark { own, shared: path.with_extension(SHARED), _lock: file };
        fs::write(&mark.shared, line)?;
        Ok(mark)
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.own);
        // The next one may drain, too, by now.
        if read_shared(&self.shared) == own_pid() {
            let _ = fs::remove_file(&self.shared);
        }
    }
}

const SHARED: &str = "pid.oldbin";
const DRAINING: &str = "pid.draining-";

fn own_pid() -> Option<i32> {
    i32::try_from(std::process::id()).ok()
}

/// The process that holds the pid file, if any.
pub(crate) fn running(path: &Path) -> anyhow::Result<Option<i32>> {
    match File::options().read(true).write(true).open(path) {
        Ok(mut file) => lock(&mut file, path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot open pid file {}", path.display())),
    }
}

/// The processes that have handed over to a successor and finish what is under way. What a crash left of others is removed.
pub(crate) fn draining(path: &Path) -> Vec<i32> {
    let prefix = path.with_extension(DRAINING);
    let (Some(folder), Some(prefix)) = (path.parent(), prefix.file_name().and_then(|name| name.to_str()))
    else {
        return Vec::new();
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut pids: Vec<i32> = entries
        .filter_map(|entry| {
            let pid = entry
                .file_name()
                .to_str()?
                .strip_prefix(prefix)?
                .parse::<i32>()
                .ok()
                .filter(|pid| *pid > 0)?;
            let file = File::open(entry.path()).ok()?;
            match file.try_lock() {
                Err(TryLockError::WouldBlock) => Some(pid),
                Err(TryLockError::Error(_)) => None,
                Ok(()) => {
                    let _ = fs::remove_file(entry.path());
                    None
                }
            }
        })
        .collect();
    pids.sort_unstable();
    pids
}

/// Locks the file; else the process that has the lock.
fn lock(file: &mut File, path: &Path) -> anyhow::Result<Option<i32>> {
    let shown = path.display();
    for _ in 0..LOCK_ATTEMPTS {
        match file.try_lock() {
            Ok(()) => return Ok(None),
            Err(TryLockError::Error(error)) => {
                return Err(error).context(format!("cannot lock pid file {shown}"));
            }
            Err(TryLockError::WouldBlock) => {}
        }
        if let Some(pid) = read_pid(file).filter(|pid| !is_gone(*pid)) {
            return Ok(Some(pid));
        }
        // Verbs that look for a running gateway hold the lock for a moment; the file has no pid then, or that of a crash.
        thread::sleep(Duration::from_millis(20));
    }
    // The successor has ended, and its predecessor, which drains, has the lock as well: one of an older version, or one that
    // keeps listening sockets.
    if let Some(pid) = read_shared(&path.with_extension(SHARED)).filter(|pid| !is_gone(*pid)) {
        return Ok(Some(pid));
    }
    // Of another pid namespace, most likely.
    if let Some(pid) = read_pid(file) {
        return Ok(Some(pid));
    }
    bail!(
        "pid file {shown} is locked by a process that it does not name; `fuser {shown}` shows which: end that first, or give \
         another --prefix"
    )
}

/// Whether a process has ended; its parent may take its time to read how, or never do: the first process of a container.
pub(crate) fn is_gone(pid: i32) -> bool {
    let state = || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next())
    };
    let signalled = Pid::from_raw(pid).map(test_kill_process);
    !matches!(signalled, Some(Ok(()) | Err(Errno::PERM))) || matches!(state(), Some('Z' | 'X'))
}

fn read_shared(path: &Path) -> Option<i32> {
    read_pid(&mut File::open(path).ok()?)
}

fn read_pid(file: &mut File) -> Option<i32> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.take(32).read_to_string(&mut text).ok()?;
    text.lines().next()?.trim().parse().ok().filter(|pid| *pid > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_gateway_for_each_prefix() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("logs/tidegate.pid");
        assert_eq!(running(&path).unwrap(), None);
        let held = PidFile::create(&path).unwrap();
        assert_eq!(running(&path).unwrap(), own_pid());
        let message = PidFile::create(&path).map(|_| ()).unwrap_err().to_string();
        assert!(message.contains("already running as process"), "{message}");
        drop(held);
        assert_eq!(running(&path).unwrap(), None);
        // What a crash leaves behind: a pid, and no lock.
        fs::write(&path, "1\n").unwrap();
        assert_eq!(running(&path).unwrap(), None);
        PidFile::create(&path).unwrap();
    }

    #[test]
    fn a_handed_over_file_stays_locked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tidegate.pid");
        let mut first = PidFile::create(&path).unwrap();
        drop(PidFile::inherited(first.file().unwrap().try_clone().unwrap(), &path));
        assert_eq!(running(&path).unwrap(), own_pid(), "a successor that failed leaves it alone");
        let mut second = PidFile::inherited(first.file().unwrap().try_clone().unwrap(), &path);
        // A longer pid than this one's was there: its rest is not read.
        fs::write(&path, format!("{}99\n", std::process::id())).unwrap();
        second.write().unwrap();
        first.hand_over(false).unwrap();
        assert!(folder.path().join("tidegate.pid.oldbin").exists());
        assert_eq!(draining(&path), own_pid().into_iter().collect::<Vec<_>>());
        drop(first);
        assert!(!folder.path().join("tidegate.pid.oldbin").exists());
        assert!(draining(&path).is_empty());
        assert_eq!(running(&path).unwrap(), own_pid());
        drop(second);
        assert_eq!(running(&path).unwrap(), None);
    }

    #[test]
    fn one_that_drains_holds_the_file_only_with_its_sockets() {
        for keeps_sockets in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("tidegate.pid");
            let mut first = PidFile::create(&path).unwrap();
            let second = PidFile::inherited(first.file().unwrap().try_clone().unwrap(), &path);
            first.hand_over(keeps_sockets).unwrap();
            // The successor crashes: its pid stays, and another process does not get it.
            fs::write(&path, "2147483647\n").unwrap();
            drop(second);
            assert_eq!(running(&path).unwrap(), own_pid().filter(|_| keeps_sockets));
            drop(first);
            assert_eq!(running(&path).unwrap(), None);
        }
    }

    #[test]
    fn what_a_crash_left_of_one_that_drained_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tidegate.pid");
        let left = folder.path().join("tidegate.pid.draining-1");
        fs::write(&left, "1\n").unwrap();
        assert!(draining(&path).is_empty());
        assert!(!left.exists());
    }
}
