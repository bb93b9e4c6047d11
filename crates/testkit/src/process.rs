//! A child process in a temporary folder: output captured, stopped with SIGTERM, never left behind.

use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::PATIENCE;

/// A running child. Dropping it kills it.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    output: Arc<Output>,
}

#[derive(Debug, Default)]
struct Output {
    text: Mutex<String>,
    grown: Condvar,
}

impl Process {
    /// Starts a command with its output captured.
    pub fn start(name: &str, command: &mut Command) -> Self {
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.unwrap_or_else(|error| panic!("cannot start {name} ({command:?}): {error}"));
        let output = Arc::new(Output::default());
        capture(child.stdout.take(), &output);
        capture(child.stderr.take(), &output);
        Process { name: name.to_owned(), child, output }
    }

    /// Of the system.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it has printed so far.
    pub fn output(&self) -> String {
        self.output.text.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until it accepts connections; panics with its output when it ends instead.
    pub fn wait_for_port(&mut self, address: SocketAddr) {
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_err() {
            if let Some(status) = self.child.try_wait().unwrap_or_default() {
                panic!("{} ended ({status}) before it listened on {address}:\n{}", self.name, self.output());
            }
            if Instant::now() > deadline {
                panic!("{} does not listen on {address}:\n{}", self.name, self.output());
            }
            // Nothing announces a port; asking again is the event.
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits until it has printed this.
    pub fn wait_for_output(&self, wanted: &str) {
        let text = self.output.text.lock().unwrap_or_else(PoisonError::into_inner);
        let missing = |text: &mut String| !text.contains(wanted);
        let (text, late) = self
            .output
            .grown
            .wait_timeout_while(text, PATIENCE, missing)
            .unwrap_or_else(PoisonError::into_inner);
        assert!(!late.timed_out(), "{} never printed {wanted:?}:\n{text}", self.name);
    }

    /// Sends a signal. Waits for nothing but, at SIGSTOP, for the process to stand still.
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // It may have ended in the meantime.
            let sent = kill_process(pid, signal);
            if signal == Signal::STOP && sent.is_ok() {
                // Its threads go on for a moment. Where it ends instead, its status is left for those who ask for it.
                let until = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
                let _ = waitid(WaitId::Pid(pid), until);
            }
        }
    }

    /// Ends it the hard way, as a power cut would.
    pub fn signal_kill(&self) {
        self.signal(Signal::KILL);
    }

    /// Asks it to stop and waits; panics when it does not.
    pub fn stop(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.wait_for_exit()
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap_or_default()
    }

    /// Waits until it ends by itself.
    pub fn wait_for_exit(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return status,
                Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(2)),
                other => panic!("{} does not end ({other:?}):\n{}", self.name, self.output()),
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- output of {} ---\n{}", self.name, self.output());
        }
    }
}

fn capture(stream: Option<impl Read + Send + 'static>, output: &Arc<Output>) {
    let Some(stream) = stream else { return };
    let output = Arc::clone(output);
    std::thread::spawn(move || {
        for line in BufReader::new(stream).split(b'\n') {
            let Ok(line) = line else { return };
            let mut text = output.text.lock().unwrap_or_else(PoisonError::into_inner);
            text.push_str(&String::from_utf8_lossy(&line));
            text.push('\n');
            output.grown.notify_all();
        }
    });
}
