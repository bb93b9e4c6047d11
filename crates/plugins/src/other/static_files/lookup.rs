//! From a path to the file that answers it: `try_files`, `index`, the files beside it. For the disk threads.

use std::{
    fs::{File, Metadata},
    io,
    os::fd::OwnedFd,
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

use tidegate_telemetry::error_log;

use super::{
    cache::Cache,
    coding::Coding,
    entry::{Entry, FileLookup, Presentation, Representation, Served, Stamp},
    listing, open, path,
    try_files::Try,
    types::Types,
};

/// Stands for the root where the path is `strip_prefix` without a slash behind it; no relative path begins with one.
pub(super) const ROOT_ITSELF: &[u8] = b"/";

/// What the disk threads need to find a file.
pub(super) struct Files {
    pub(super) root: PathBuf,
    pub(super) index: Vec<String>,
    pub(super) tries: Vec<Try>,
    /// A request without a file is passed to the upstream.
    pub(super) has_upstream: bool,
    pub(super) autoindex: bool,
    pub(super) dotfiles: bool,
    pub(super) precompressed: Vec<Coding>,
    pub(super) types: Types,
    pub(super) small_file_bytes: u64,
    pub(super) cache: Arc<Cache>,
}

/// What a name below the root is.
enum Kind {
    File(File, Metadata),
    Folder(File),
    /// It is there, and may not be read.
    Forbidden,
    Nothing,
}

impl Files {
    /// Looks for what answers `path` (relative, checked) and keeps it. `asked_at`: when the request came.
    pub(super) fn look_up(&self, path: &[u8], title: &str, asked_at: Instant) -> Arc<Entry> {
        if let Some(entry) = self.cache.just_made(path, self.cache.ms(asked_at)) {
            return entry;
        }
        let now_ms = self.cache.ms(Instant::now());
        let outcome = match self.resolve(path, title) {
            Ok(outcome) => outcome,
            Err(error) => {
                error_log::log(
                    error_log::Level::Error,
                    format_args!(
                        "static-files: cannot read {} below {}: {error}",
                        String::from_utf8_lossy(path),
                        self.root.display()
                    ),
                );
                FileLookup::Status(500)
            }
        };
        let kept = matches!(outcome, FileLookup::File(_) | FileLookup::Redirect);
        let entry = Arc::new(Entry::new(outcome, now_ms));
        if kept {
            self.cache.put(path, entry.clone());
        } else {
            self.cache.forget(path);
        }
        entry
    }

    /// Looks again at what the cache holds, in the background.
    pub(super) fn refresh(&self, path: &[u8], title: &str, old: &Entry) {
        let fresh = self.look_up(path, title, Instant::now());
        fresh.used_ms.store(old.used_ms.load(Ordering::Relaxed), Ordering::Relaxed);
        old.refreshing.store(false, Ordering::Relaxed);
    }

    fn resolve(&self, path: &[u8], title: &str) -> io::Result<FileLookup> {
        let root = open::root(&self.root)?;
        let is_root_itself = path == ROOT_ITSELF;
        let path = if is_root_itself { &[][..] } else { path };
        let named_folder = !is_root_itself && (path.is_empty() || path.ends_with(b"/"));
        for attempt in &self.tries {
            let (before, with_path, after, directory) = match attempt {
                Try::Name { before, with_path, after, directory } => (before, with_path, after, directory),
                Try::Status(code) => return Ok(FileLookup::Status(*code)),
                Try::Upstream => return Ok(FileLookup::Upstream),
            };
            let mut name = before.trim_start_matches('/').as_bytes().to_vec();
            if *with_path {
                // As in nginx: of `$uri.html` a path with a slash at the end makes `.html` in that directory.
                let joins = after.starts_with('/');
                let rest = path.strip_suffix(b"/").filter(|_| joins).unwrap_or(path);
                name.extend_from_slice(rest);
            }
            // At the root `$uri/index.html` is `/index.html`.
            let after = if name.is_empty() { after.trim_start_matches('/') } else { after };
            name.extend_from_slice(after.as_bytes());
            if !path::is_safe(&name, self.dotfiles || !*with_path) {
                continue;
            }
            // A slash at the end asks for a directory.
            if !*directory && (name.ends_with(b"/") || name.is_empty()) {
                continue;
            }
            match (kind(&root, &name)?, directory) {
                (Kind::File(file, metadata), false) => {
                    return self.serve(&root, &name, file, &metadata).map(FileLookup::File);
                }
                (Kind::Folder(_), true) if *with_path && !named_folder => return Ok(FileLookup::Redirect),
                (Kind::Forbidden, _) => return Ok(FileLookup::Status(403)),
                (Kind::Folder(folder), true) => return self.folder(&root, &name, &folder, title),
                _ => {}
            }
        }
        Ok(FileLookup::Status(404))
    }

    /// The first index file of a directory, or its list.
    fn folder(&self, root: &OwnedFd, name: &[u8], folder: &File, title: &str) -> io::Result<FileLookup> {
        for index in &self.index {
            let mut inside = name.to_vec();
            if !inside.is_empty() && !inside.ends_with(b"/") {
                inside.push(b'/');
            }
            inside.extend_from_slice(index.as_bytes());
            if let Kind::File(file, metadata) = kind(root, &inside)? {
                return self.serve(root, &inside, file, &metadata).map(FileLookup::File);
            }
        }
        if !self.autoindex {
            return Ok(FileLookup::Status(403));
        }
        Ok(FileLookup::Listing(listing::page(folder, title, self.dotfiles)?.into()))
    }

    /// A file, and what lies beside it in other codings.
    fn serve(&self, root: &OwnedFd, name: &[u8], file: File, metadata: &Metadata) -> io::Result<Served> {
        let content_type = self.types.of(name);
        let mut found = Vec::new();
        for coding in &self.precompressed {
            let mut beside = name.to_vec();
            beside.extend_from_slice(coding.suffix().as_bytes());
            if let Kind::File(file, metadata) = kind(root, &beside)? {
                found.push((*coding, beside, file, metadata));
            }
        }
        let vary = !found.is_empty();
        let how = |coding| Presentation {
            content_type: &content_type,
            coding,
            vary,
            small_file_bytes: self.small_file_bytes,
        };
        let plain = self.representation(name, file, metadata, &how(None))?;
        let mut coded = Vec::new();
        for (coding, name, file, metadata) in found {
            // Not under its own name: asked for by that, it is another thing with other fields.
            let key = [name.as_slice(), b"\0", coding.name().as_bytes()].concat();
            coded.push((coding, self.representation(&key, file, &metadata, &how(Some(coding)))?));
        }
        Ok(Served { plain, coded })
    }

    /// Opened before and unchanged: that one.
    fn representation(
        &self,
        key: &[u8],
        file: File,
        metadata: &Metadata,
        how: &Presentation,
    ) -> io::Result<Arc<Representation>> {
        let stamp = Stamp::of(metadata);
        // A file without fields for its codings is not the one with them.
        let key = if how.vary { [key, b"\0vary"].concat() } else { key.to_vec() };
        if let Some(open) = self.cache.open_file(&key).filter(|open| open.stamp == stamp) {
            return Ok(open);
        }
        let fresh = Arc::new(Representation::load(file, metadata, how)?);
        self.cache.note_file(&key, &fresh);
        Ok(fresh)
    }
}

/// What is not there, or may not be reached, is nothing.
fn kind(root: &OwnedFd, name: &[u8]) -> io::Result<Kind> {
    use rustix::io::Errno;
    let file = match open::below(root, name) {
        Ok(file) => file,
        Err(error) => {
            let refused = [
                Errno::NOENT,
                Errno::NOTDIR,
                Errno::LOOP,
                Errno::XDEV,
                Errno::NAMETOOLONG,
                Errno::INVAL,
                // A socket, or a device without a driver.
                Errno::NXIO,
                Errno::NODEV,
            ];
            let number = Errno::from_io_error(&error);
            if matches!(number, Some(Errno::ACCESS | Errno::PERM)) {
                return Ok(Kind::Forbidden);
            }
            let nothing = number.is_some_and(|number| refused.contains(&number))
                || error.kind() == io::ErrorKind::NotFound;
            return if nothing { Ok(Kind::Nothing) } else { Err(error) };
        }
    };
    let metadata = file.metadata()?;
    Ok(match () {
        () if metadata.is_file() => Kind::File(file, metadata),
        () if metadata.is_dir() => Kind::Folder(file),
        () => Kind::Nothing,
    })
}

/// Where a relative root starts: the installation's directory.
pub(crate) fn absolute_root(root: &str) -> PathBuf {
    tidegate_plugin_api::host().map_or_else(|| PathBuf::from(root), |host| host.prefix.join(root))
}
