//! Files that verbs write, all in one way.
//!
//! A regular file, or a name that nothing has yet, is written beside its place and renamed: half of it never stands there,
//! and what was there stays when writing fails. A symlink stays, and what it names is replaced. A device, a FIFO, a socket
//! and standard output are written through: they stay what they are.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io::{self, ErrorKind, Write},
    os::{
        fd::AsFd,
        unix::{
            fs::{FileTypeExt, OpenOptionsExt, PermissionsExt},
            net::UnixStream,
        },
    },
    path::{Path, PathBuf},
};

use rustix::io::Errno;
use tidegate_store::embedded::copy::InSteps;

/// As many as the kernel follows.
const MOST_LINKS: usize = 40;

/// Who may read the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Its owner alone: it has secrets in it.
    Private,
    /// Those who could before, or whom the umask allows.
    Usual,
}

impl Access {
    const PRIVATE_MODE: u32 = 0o600;

    /// Gives `file` the mode of what it replaces, if there is something.
    fn apply(self, file: &File, before: Option<&fs::Metadata>) -> io::Result<()> {
        let mode = match (self, before) {
            (Access::Private, _) => Self::PRIVATE_MODE,
            (Access::Usual, Some(before)) => before.permissions().mode() & 0o7777,
            (Access::Usual, None) => return Ok(()),
        };
        file.set_permissions(Permissions::from_mode(mode))
    }
}

/// A file that is open for writing. Dropped unwritten, it leaves nothing behind.
pub(super) struct Output(Target);

enum Target {
    Beside(Beside),
    /// The file may be written, and its folder may not.
    InPlace(File),
    Through(Box<dyn Write>),
}

/// A new file, until it is renamed.
struct Beside {
    file: File,
    path: PathBuf,
    place: PathBuf,
}

impl Drop for Beside {
    fn drop(&mut self) {
        // Once it is renamed nothing has this name.
        let _ = fs::remove_file(&self.path);
    }
}

impl Output {
    /// Opens `path`. What is there stays as it is until there is something to write.
    pub(super) fn open(path: &Path, access: Access) -> io::Result<Output> {
        let place = match resolve(path)? {
            Resolved::Descriptor(number) => return descriptor(path, &number).map(Output::through),
            Resolved::Name(place) => place,
        };
        // Of the name as it was given: the kernel does not follow every link.
        let found = match fs::metadata(path) {
            Ok(found) => Some(found),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        match &found {
            Some(found) if found.file_type().is_socket() => {
                UnixStream::connect(path).map(|stream| Output::through(Box::new(stream)))
            }
            Some(found) if !found.is_file() => {
                OpenOptions::new().write(true).open(path).map(|file| Output::through(Box::new(file)))
            }
            found => Output::file(place, found.as_ref(), access),
        }
    }

    fn through(stream: Box<dyn Write>) -> Output {
        Output(Target::Through(stream))
    }

    fn file(place: PathBuf, found: Option<&fs::Metadata>, access: Access) -> io::Result<Output> {
        let mut path = place.clone().into_os_string();
        path.push(format!(".{}.new", std::process::id()));
        let path = PathBuf::from(path);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        if access == Access::Private {
            options.mode(Access::PRIVATE_MODE);
        }
        match options.open(&path) {
            Ok(file) => {
                let beside = Beside { file, path, place };
                access.apply(&beside.file, found)?;
                Ok(Output(Target::Beside(beside)))
            }
            Err(error)
                if found.is_some()
                    && matches!(
                        error.kind(),
                        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem
                    ) =>
            {
                let file = OpenOptions::new().write(true).open(&place)?;
                access.apply(&file, found)?;
                Ok(Output(Target::InPlace(file)))
            }
            Err(error) => Err(error),
        }
    }

    /// Writes the whole content, durable when this returns where it is a file.
    pub(super) fn write(self, content: &[u8]) -> io::Result<()> {
        self.fill(|out| out.write_all(content))
    }

    /// As [`Output::write`], with what `content` writes.
    pub(super) fn fill<T>(self, content: impl FnOnce(&mut dyn Write) -> io::Result<T>) -> io::Result<T> {
        match self.0 {
            Target::Through(mut stream) => {
                let written = content(&mut *stream)?;
                stream.flush()?;
                Ok(written)
            }
            Target::InPlace(mut file) => {
                file.set_len(0)?;
                let written = content(&mut file)?;
                file.sync_all()?;
                Ok(written)
            }
            Target::Beside(beside) => {
                let written = content(&mut InSteps::new(&beside.file))?;
                beside.file.sync_all()?;
                beside.rename()?;
                Ok(written)
            }
        }
    }
}

impl Beside {
    fn rename(&self) -> io::Result<()> {
        match fs::rename(&self.path, &self.place) {
            // A file that is mounted, as into a container, cannot be replaced.
            Err(error) if error.kind() == ErrorKind::ResourceBusy => {
                let mut place = OpenOptions::new().write(true).truncate(true).open(&self.place)?;
                io::copy(&mut File::open(&self.path)?, &mut place)?;
                place.sync_all()
            }
            Err(error) => Err(error),
            Ok(()) => File::open(folder(&self.place))?.sync_all(),
        }
    }
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Where links lead.
enum Resolved {
    Name(PathBuf),
    /// One that a process has open, by its number.
    Descriptor(String),
}

fn resolve(path: &Path) -> io::Result<Resolved> {
    let mut place = path.to_owned();
    for _ in 0..MOST_LINKS {
        match fs::read_link(&place) {
            Ok(to) => {
                if let Some(number) = descriptor_number(&place) {
                    return Ok(Resolved::Descriptor(number));
                }
                place = folder(&place).join(to);
            }
            Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::NotFound) => {
                return Ok(Resolved::Name(place));
            }
            Err(error) => return Err(error),
        }
    }
    Err(Errno::LOOP.into())
}

/// Of `/proc/self/fd/1`, to which `/dev/stdout` leads.
fn descriptor_number(link: &Path) -> Option<String> {
    let folder = folder(link).canonicalize().ok()?;
    let is_one = folder.starts_with("/proc") && folder.ends_with("fd");
    is_one.then(|| link.file_name()?.to_str().map(str::to_owned)).flatten()
}

/// A file that is open already goes on where its writer stopped.
fn descriptor(path: &Path, number: &str) -> io::Result<Box<dyn Write>> {
    let file = match number {
        "1" => File::from(io::stdout().as_fd().try_clone_to_owned()?),
        "2" => File::from(io::stderr().as_fd().try_clone_to_owned()?),
        _ => OpenOptions::new().append(true).open(path)?,
    };
    Ok(Box::new(file))
}

#[cfg(test)]
mod tests {
    use std::os::unix::{fs::symlink, net::UnixListener};

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn files_are_replaced_when_they_are_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "before").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        let failed = Output::open(&path, Access::Private).unwrap().fill(|out| {
            out.write_all(b"half")?;
            Err::<(), _>(io::Error::other("no more"))
        });
        assert!(failed.is_err());
        drop(Output::open(&path, Access::Usual).unwrap());
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), mode(&path)), ("before", 0o640));
        Output::open(&path, Access::Usual).unwrap().write(b"usual").unwrap();
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), mode(&path)), ("usual", 0o640));
        Output::open(&path, Access::Private).unwrap().write(b"private").unwrap();
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), mode(&path)), ("private", 0o600));
        drop(Output::open(&folder.path().join("b"), Access::Usual).unwrap());
        assert_eq!(names(folder.path()), ["a"]);
        assert!(Output::open(folder.path(), Access::Usual).is_err());
        assert!(Output::open(&folder.path().join("none/a"), Access::Usual).is_err());
    }

    #[test]
    fn links_stay_and_lead() {
        let folder = tempfile::tempdir().unwrap();
        let below = |name: &str| folder.path().join(name);
        fs::create_dir(below("other")).unwrap();
        fs::write(below("other/a"), "before").unwrap();
        symlink("other/a", below("one")).unwrap();
        symlink("one", below("two")).unwrap();
        symlink("other/new", below("dangling")).unwrap();
        symlink("round", below("round")).unwrap();
        for (name, target) in [("two", "other/a"), ("dangling", "other/new")] {
            Output::open(&below(name), Access::Private).unwrap().write(b"text").unwrap();
            assert!(fs::symlink_metadata(below(name)).unwrap().is_symlink());
            assert_eq!(
                (fs::read_to_string(below(target)).unwrap().as_str(), mode(&below(target))),
                ("text", 0o600)
            );
        }
        assert!(Output::open(&below("round"), Access::Private).is_err());
        assert_eq!(names(&below("other")), ["a", "new"]);
    }

    #[test]
    fn what_is_not_a_file_is_written_through() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let listener = UnixListener::bind(&socket).unwrap();
        Output::open(&socket, Access::Private).unwrap().write(b"text").unwrap();
        let mut text = String::new();
        io::Read::read_to_string(&mut listener.accept().unwrap().0, &mut text).unwrap();
        assert_eq!(text, "text");
        assert!(fs::symlink_metadata(&socket).unwrap().file_type().is_socket());
        // An open file goes on.
        let path = folder.path().join("file");
        fs::write(&path, "one ").unwrap();
        let open = File::options().append(true).open(&path).unwrap();
        let by_number = format!("/dev/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&open));
        Output::open(Path::new(&by_number), Access::Private).unwrap().write(b"two").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "one two");
        let full = Output::open(Path::new("/dev/full"), Access::Private).unwrap().write(b"text");
        assert_eq!(full.unwrap_err().kind(), ErrorKind::StorageFull);
    }
}
