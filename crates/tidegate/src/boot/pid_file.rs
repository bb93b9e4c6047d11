//! The pid file. It is locked as long as the gateway lives, so a file left over by a crash, or a pid that now belongs
//! to another process, is never mistaken for a running gateway. The lock belongs to the open file: a successor gets
//! that, so the gateway is running throughout.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Read, Seek},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use anyhow::{Context, bail};

const LOCK_ATTEMPTS: u32 = 25;

pub(crate) struct PidFile {
    file: File,
    path: PathBuf,
    stage: Stage,
}

#[derive(PartialEq, Eq)]
enum Stage {
    /// The pid of the process before is in the file, and may stay there.
    Inherited,
    Own,
    HandedOver,
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
        let mut attempts = 0;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::Error(error)) => {
                    return Err(error).context(format!("cannot lock pid file {shown}"));
                }
                Err(TryLockError::WouldBlock) => {}
            }
            // Verbs that look for a running gateway hold the lock for a moment; the file has no pid then.
            if let Some(pid) = read_pid(&mut file) {
                bail!("already running as process {pid} ({shown}); stop it first, or give another --prefix");
            }
            attempts += 1;
            if attempts == LOCK_ATTEMPTS {
                bail!(
                    "pid file {shown} is locked by another process; stop that first, or give another --prefix"
                );
            }
            thread::sleep(Duration::from_millis(20));
        }
        let mut pid_file = Self::inherited(file, path);
        pid_file.write()?;
        Ok(pid_file)
    }

    /// The file of the process before this one, whose pid stays in it until [`PidFile::write`].
    pub(crate) fn inherited(file: File, path: &Path) -> Self {
        Self { file, path: path.to_owned(), stage: Stage::Inherited }
    }

    /// In one write over what is there: readers take the first line, and find the old pid or the new one.
    pub(crate) fn write(&mut self) -> io::Result<()> {
        self.stage = Stage::Own;
        let line = format!("{}\n", std::process::id());
        self.file.write_all_at(line.as_bytes(), 0)?;
        self.file.set_len(line.len() as u64)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// A successor has it. Where nginx's users look for the process that drains, they find this one.
    pub(crate) fn hand_over(&mut self) -> io::Result<()> {
        self.stage = Stage::HandedOver;
        fs::write(self.old(), format!("{}\n", std::process::id()))
    }

    fn old(&self) -> PathBuf {
        self.path.with_extension("pid.oldbin")
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        let old = self.old();
        match self.stage {
            Stage::Inherited => {}
            // The file stays, empty and unlocked: removing it could remove that of a gateway that just started.
            Stage::Own => _ = self.file.set_len(0),
            // The next one may drain, too, by now.
            Stage::HandedOver if fs::read_to_string(&old).is_ok_and(|text| parse(&text) == own_pid()) => {
                let _ = fs::remove_file(old);
            }
            Stage::HandedOver => {}
        }
    }
}

fn own_pid() -> Option<i32> {
    i32::try_from(std::process::id()).ok()
}

/// The process that holds the pid file, if any.
pub(crate) fn running(path: &Path) -> anyhow::Result<Option<i32>> {
    let mut file = match File::options().read(true).write(true).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("cannot open pid file {}", path.display())),
    };
    match file.try_lock() {
        Ok(()) => Ok(None),
        Err(TryLockError::WouldBlock) => {
            let pid =
                read_pid(&mut file).with_context(|| format!("pid file {} has no pid", path.display()))?;
            Ok(Some(pid))
        }
        Err(TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("cannot lock {}", path.display()))
        }
    }
}

fn read_pid(file: &mut File) -> Option<i32> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.take(32).read_to_string(&mut text).ok()?;
    parse(&text)
}

fn parse(text: &str) -> Option<i32> {
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
        drop(PidFile::inherited(first.file().try_clone().unwrap(), &path));
        assert_eq!(running(&path).unwrap(), own_pid(), "a successor that failed leaves it alone");
        let mut second = PidFile::inherited(first.file().try_clone().unwrap(), &path);
        // A longer pid than this one's was there: its rest is not read.
        fs::write(&path, format!("{}99\n", std::process::id())).unwrap();
        second.write().unwrap();
        first.hand_over().unwrap();
        assert!(folder.path().join("tidegate.pid.oldbin").exists());
        drop(first);
        assert!(!folder.path().join("tidegate.pid.oldbin").exists());
        assert_eq!(running(&path).unwrap(), own_pid());
        drop(second);
        assert_eq!(running(&path).unwrap(), None);
    }
}
