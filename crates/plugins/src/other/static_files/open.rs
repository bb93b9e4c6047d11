//! Opening a name below the root so that no link leads out of it. For the disk threads: everything here may wait.
//!
//! The kernel resolves the name (openat2, Linux 5.6): `..`, absolute links and links that leave the root end in an
//! error, even if directories are moved meanwhile. Deploy tools write links that are absolute and lead back inside: for
//! those, and where the call is missing, the name is resolved first, and what counts is where the opened file itself
//! is. So nothing changes between the look and the use.

use std::{
    fs::File,
    io,
    os::fd::{AsRawFd, OwnedFd},
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use rustix::{
    fs::{Mode, OFlags, ResolveFlags, open, openat, openat2, readlink},
    io::Errno,
};
use tidegate_plugin_api::descriptors;

/// Nonblocking: a FIFO must not hold a thread; it makes no difference for regular files.
const FLAGS: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);
const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

static WITHOUT_OPENAT2: AtomicBool = AtomicBool::new(false);

/// The root directory, looked up again each time: what its path names may be switched while the gateway runs.
pub(super) fn root(path: &Path) -> io::Result<OwnedFd> {
    Ok(open(path, DIRECTORY, Mode::empty())?)
}

/// Opens `path`, which is relative and has passed [`super::path::is_safe`]; empty: the root itself.
pub(super) fn below(root: &OwnedFd, path: &[u8]) -> io::Result<File> {
    let path = path.strip_suffix(b"/").unwrap_or(path);
    let path = if path.is_empty() { b"." } else { path };
    if !WITHOUT_OPENAT2.load(Ordering::Relaxed) {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let mut tries = 0;
        loop {
            match openat2(root, path, FLAGS, Mode::empty(), resolve) {
                // Directories on the way were renamed meanwhile, or a signal came.
                Err(Errno::AGAIN | Errno::INTR) if tries < 8 => tries += 1,
                Err(Errno::NOSYS | Errno::PERM) if !works(root) => break,
                // It leaves the root, at least on its way.
                Err(Errno::XDEV) => return checked(root, path),
                other => return descriptors::spared(other?.into()),
            }
        }
        WITHOUT_OPENAT2.store(true, Ordering::Relaxed);
    }
    checked(root, path)
}

/// Whether openat2 works at all: EPERM may also be about the file.
fn works(root: &OwnedFd) -> bool {
    openat2(root, ".", DIRECTORY, Mode::empty(), ResolveFlags::BENEATH).is_ok()
}

/// Any link is followed; then the descriptor shows where it led to. Only what is there is opened for reading.
fn checked(root: &OwnedFd, path: &[u8]) -> io::Result<File> {
    let found = openat(root, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let (place, own) = (place(&found)?, place(root)?);
    let inside = place
        .as_bytes()
        .strip_prefix(own.as_bytes())
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/") || own.as_bytes().ends_with(b"/"));
    if !inside {
        return Err(Errno::XDEV.into());
    }
    // The same file, whatever its name leads to by now.
    descriptors::spared(open(magic_link(&found), FLAGS, Mode::empty())?.into())
}

fn magic_link(descriptor: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", descriptor.as_raw_fd())
}

/// Where an open file is, as the kernel has it.
fn place(descriptor: &OwnedFd) -> io::Result<std::ffi::CString> {
    Ok(readlink(magic_link(descriptor), Vec::new())?)
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Read, os::unix::fs::symlink};

    use super::*;

    fn read(opened: io::Result<File>) -> io::Result<String> {
        let mut text = String::new();
        opened?.read_to_string(&mut text).map(|_| text)
    }

    /// Both ways refuse what leads out, and follow what stays inside.
    #[test]
    fn no_link_leads_out() {
        let folder = tempfile::tempdir().unwrap();
        let root_path = folder.path().canonicalize().unwrap().join("root");
        fs::create_dir_all(root_path.join("sub")).unwrap();
        fs::create_dir_all(folder.path().join("root-beside")).unwrap();
        fs::write(folder.path().join("secret"), "secret").unwrap();
        fs::write(folder.path().join("root-beside/secret"), "secret").unwrap();
        fs::write(root_path.join("sub/file"), "file").unwrap();
        let links: [(&str, std::path::PathBuf); 9] = [
            ("up", "../secret".into()),
            ("absolute", folder.path().join("secret")),
            ("beside", "../root-beside/secret".into()),
            ("parent", "..".into()),
            ("slash", "/".into()),
            ("inside", "sub".into()),
            ("around", "../root/sub".into()),
            ("whole", root_path.join("sub")),
            ("itself", "itself".into()),
        ];
        for (name, target) in links {
            symlink(target, root_path.join(name)).unwrap();
        }
        let root = root(&root_path).unwrap();
        let ways: [fn(&OwnedFd, &[u8]) -> io::Result<File>; 2] = [below, checked];
        for open in ways {
            for path in [
                "up",
                "absolute",
                "beside",
                "parent/secret",
                "slash/etc/passwd",
                "../secret",
                "sub/../../secret",
                "itself",
                "none",
            ] {
                assert!(read(open(&root, path.as_bytes())).is_err(), "{path}");
            }
            for path in ["sub/file", "inside/file", "around/file", "whole/file", "parent/root/sub/file"] {
                assert_eq!(read(open(&root, path.as_bytes())).unwrap(), "file", "{path}");
            }
        }
        assert!(works(&root));
    }

    /// A link that is switched between inside and outside never shows what is outside.
    #[test]
    fn links_that_change_never_lead_out() {
        let folder = tempfile::tempdir().unwrap();
        let root_path = folder.path().canonicalize().unwrap().join("root");
        fs::create_dir_all(&root_path).unwrap();
        let (secret, file) = (folder.path().join("secret"), root_path.join("file"));
        fs::write(&secret, "secret").unwrap();
        fs::write(&file, "file").unwrap();
        let (link, next) = (root_path.join("link"), root_path.join("next"));
        symlink(&file, &link).unwrap();
        let root = root(&root_path).unwrap();
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for target in [&secret, &file].into_iter().cycle().take(20_000) {
                    symlink(target, &next).and_then(|()| fs::rename(&next, &link)).unwrap();
                }
                done.store(true, Ordering::Relaxed);
            });
            let mut seen = 0;
            while !done.load(Ordering::Relaxed) {
                for open in [below, checked] {
                    if let Ok(text) = read(open(&root, b"link")) {
                        assert_eq!(text, "file");
                        seen += 1;
                    }
                }
            }
            assert!(seen > 0, "it was readable at times");
        });
    }
}
