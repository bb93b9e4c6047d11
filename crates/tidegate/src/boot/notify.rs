//! Words to systemd (`Type=notify`) and to `tidegate start`, which listens in the same way: sd_notify(3).

use std::{
    env,
    os::{
        linux::net::SocketAddrExt,
        unix::{
            ffi::OsStrExt,
            net::{SocketAddr, UnixDatagram},
        },
    },
};

/// systemd's name.
pub(crate) const VARIABLE: &str = "NOTIFY_SOCKET";

/// Connections are accepted.
pub(crate) fn ready() {
    if let Err(error) = send("READY=1\n") {
        crate::say::complain!("tidegate: warning: cannot report that it is ready (NOTIFY_SOCKET): {error}");
    }
}

/// Another process is about to take over.
pub(crate) fn reloading() {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let microseconds = now.tv_sec.saturating_mul(1_000_000).saturating_add(now.tv_nsec / 1000);
    notify(&format!("RELOADING=1\nMONOTONIC_USEC={microseconds}\n"));
}

/// That is over, and it is still this one that serves.
pub(crate) fn still_ready() {
    notify("READY=1\n");
}

/// By default systemd believes the main process alone: the old one has to name the next one.
pub(crate) fn replaced_by(pid: u32) {
    notify(&format!("MAINPID={pid}\nREADY=1\n"));
}

pub(crate) fn stopping() {
    notify("STOPPING=1\n");
}

/// `tidegate start` has stopped listening by then, which is fine.
fn notify(text: &str) {
    let _ = send(text);
}

fn send(text: &str) -> std::io::Result<()> {
    let Some(path) = env::var_os(VARIABLE).filter(|path| !path.is_empty()) else { return Ok(()) };
    let address = match path.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(&path)?,
    };
    UnixDatagram::unbound()?.send_to_addr(text.as_bytes(), &address)?;
    Ok(())
}
