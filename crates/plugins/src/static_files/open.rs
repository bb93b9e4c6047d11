//! Opening a name below the root so that no link leads out of it. For the disk threads: everything here may wait.
//!
//! The kernel resolves the name (openat2, Linux 5.6): `..`, absolute links and links that leave the root end in an
//! error, whoever moves directories meanwhile. Where the call is missing, or a sandbox forbids it, the path is walked
//! one directory at a time and no link is followed at all.

use std::{
    fs::File,
    io,
    os::fd::{AsFd, OwnedFd},
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use plugin::descriptors;
use rustix::{
    fs::{Mode, OFlags, ResolveFlags, open, openat, openat2},
    io::Errno,
};

/// Nonblocking: a FIFO must not hold a thread; it makes no difference for regular files.
const FLAGS: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);
const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

static WITHOUT_OPENAT2: AtomicBool = AtomicBool::new(false);

/// The root directory, looked up anew each time: what its path names may be switched while the gateway runs.
pub fn root(path: &Path) -> io::Result<OwnedFd> {
    Ok(open(path, DIRECTORY, Mode::empty())?)
}

/// Opens `path`, which is relative and has passed [`super::path::is_safe`]; empty: the root itself.
pub fn below(root: &OwnedFd, path: &[u8]) -> io::Result<File> {
    let path = path.strip_suffix(b"/").unwrap_or(path);
    let path = if path.is_empty() { b"." } else { path };
    if !WITHOUT_OPENAT2.load(Ordering::Relaxed) {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let mut tries = 0;
        loop {
            match openat2(root, path, FLAGS, Mode::empty(), resolve) {
                // Somebody renames directories on the way; or a signal.
                Err(Errno::AGAIN | Errno::INTR) if tries < 8 => tries += 1,
                Err(Errno::NOSYS | Errno::PERM) if !works(root) => break,
                other => return descriptors::spared(other?.into()),
            }
        }
        WITHOUT_OPENAT2.store(true, Ordering::Relaxed);
    }
    walk(root, path)
}

/// Whether openat2 works at all: EPERM may also be about the file.
fn works(root: &OwnedFd) -> bool {
    openat2(root, ".", DIRECTORY, Mode::empty(), ResolveFlags::BENEATH).is_ok()
}

/// Without openat2: each step of the path by itself, links refused.
fn walk(root: &OwnedFd, path: &[u8]) -> io::Result<File> {
    let mut at: Option<OwnedFd> = None;
    let mut segments = path.split(|&byte| byte == b'/').peekable();
    while let Some(segment) = segments.next() {
        if segment == b".." {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let folder = at.as_ref().unwrap_or(root).as_fd();
        let flags = if segments.peek().is_some() { DIRECTORY } else { FLAGS };
        let opened = openat(folder, segment, flags | OFlags::NOFOLLOW, Mode::empty())?;
        at = Some(opened);
    }
    at.map(File::from).ok_or_else(|| io::ErrorKind::NotFound.into()).and_then(descriptors::spared)
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Read, os::unix::fs::symlink};

    use super::*;

    /// Both ways must refuse what leads out; only the kernel's can tell which links stay inside.
    #[test]
    fn no_link_leads_out() {
        let folder = tempfile::tempdir().unwrap();
        let root_path = folder.path().join("root");
        fs::create_dir_all(root_path.join("sub")).unwrap();
        fs::write(folder.path().join("secret"), "secret").unwrap();
        fs::write(root_path.join("sub/file"), "file").unwrap();
        symlink("../secret", root_path.join("up")).unwrap();
        symlink(folder.path().join("secret"), root_path.join("absolute")).unwrap();
        symlink("..", root_path.join("parent")).unwrap();
        symlink("/", root_path.join("slash")).unwrap();
        symlink("sub", root_path.join("inside")).unwrap();
        let root = root(&root_path).unwrap();
        let read = |opened: io::Result<File>| {
            opened.and_then(|mut file| {
                let mut text = String::new();
                file.read_to_string(&mut text).map(|_| text)
            })
        };
        for path in ["up", "absolute", "parent/secret", "slash/etc/passwd", "../secret", "sub/../../secret"] {
            assert!(read(below(&root, path.as_bytes())).is_err(), "{path}");
            assert!(read(walk(&root, path.as_bytes())).is_err(), "{path}");
        }
        assert_eq!(read(below(&root, b"sub/file")).unwrap(), "file");
        assert_eq!(read(walk(&root, b"sub/file")).unwrap(), "file");
        assert!(walk(&root, b"inside/file").is_err());
        assert!(works(&root));
        assert_eq!(read(below(&root, b"inside/file")).unwrap(), "file");
    }
}
