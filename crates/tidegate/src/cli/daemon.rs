//! What verbs need to find and signal a running gateway: the pid file, and the word that it is ready.

use std::{
    env,
    fs::{self, File, TryLockError},
    io::{self, Read, Seek, Write},
    os::unix::net::UnixDatagram,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use super::Place;

/// systemd's name, so that a unit of `Type=notify` works too.
pub const READY_VARIABLE: &str = "NOTIFY_SOCKET";

const LOCK_ATTEMPTS: u32 = 25;

/// The pid file of this process. It is locked as long as the process lives, so a file left over by a crash, or a
/// pid that now belongs to somebody else, is never mistaken for a running gateway.
pub struct PidFile {
    _file: File,
}

impl PidFile {
    pub fn create(path: &Path) -> anyhow::Result<Self> {
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
            // Verbs that look for a running gateway hold the lock for a moment; there is no pid in the file then.
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
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{}", std::process::id())?;
        Ok(Self { _file: file })
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // The file stays, empty and unlocked: removing it could remove that of a gateway that just started.
        let _ = self._file.set_len(0);
    }
}

/// The process that holds the pid file, if any.
pub fn running(path: &Path) -> anyhow::Result<Option<i32>> {
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
    text.trim().parse().ok().filter(|pid| *pid > 0)
}

/// Sends a signal to the running gateway; returns its process id.
pub fn signal(place: &Place, signal: Signal) -> anyhow::Result<Pid> {
    // A broken config.yaml must not keep anybody from stopping, so only the place of the pid file is asked for.
    let path = place.source()?.prefix.join("logs").join("tidegate.pid");
    let pid = running(&path)?.and_then(Pid::from_raw);
    let Some(pid) = pid else { bail!("not running: no process holds {}", path.display()) };
    kill_process(pid, signal).with_context(|| format!("cannot signal process {}", pid.as_raw_nonzero()))?;
    Ok(pid)
}

/// Waits until a process is gone.
pub fn wait_gone(pid: Pid, timeout: Duration) -> anyhow::Result<()> {
    let deadline = Instant::now() + timeout;
    while test_kill_process(pid).is_ok() {
        if Instant::now() >= deadline {
            bail!("process {} is still there after {} s", pid.as_raw_nonzero(), timeout.as_secs());
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Tells whoever started this process (`tidegate start`, systemd) that connections are accepted.
pub fn announce_ready() {
    let Some(path) = env::var_os(READY_VARIABLE) else { return };
    let sent = UnixDatagram::unbound().and_then(|socket| socket.send_to(b"READY=1\n", Path::new(&path)));
    if let Err(error) = sent {
        eprintln!(
            "tidegate: warning: cannot report that it is ready to {}: {error}",
            Path::new(&path).display()
        );
    }
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
        assert_eq!(running(&path).unwrap(), i32::try_from(std::process::id()).ok());
        let message = PidFile::create(&path).map(|_| ()).unwrap_err().to_string();
        assert!(message.contains("already running as process"), "{message}");
        drop(held);
        assert_eq!(running(&path).unwrap(), None);
        // What a crash leaves behind: a pid, and no lock.
        fs::write(&path, "1\n").unwrap();
        assert_eq!(running(&path).unwrap(), None);
        PidFile::create(&path).unwrap();
    }
}
