//! Answers on disk. All functions here block: they run on the background runtime's blocking threads, never on a worker.
//!
//! One file per key below `disk_path`, in folders by `cache_levels`, named by the key's MD5 as nginx does. A file is
//! written beside and renamed, so readers see all of it or nothing. Its head repeats the key: a file that is not
//! what its name says counts as missing.

use std::{
    fs::{self, Metadata},
    io::{self, Read},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{
        Arc, Once,
        atomic::{AtomicU64, Ordering},
    },
    time::SystemTime,
};

use ahash::AHashMap;
use bytes::Bytes;
use data_encoding::HEXLOWER;
use md5::{Digest, Md5};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tidegate_model::random::random_u64;

use super::entry::{CachedResponse, Stored, Variants};

/// Files of version 1 may hold answers that were for one client only.
const MAGIC: &[u8] = b"tidegate-cache-2\n";

pub(super) struct Disk {
    root: PathBuf,
    levels: Vec<usize>,
    capacity: u64,
    /// What all files take of the disk; counted on the first write.
    bytes: AtomicU64,
    counted: Once,
    /// Held while room is made: each task that does so looks at every file.
    clearing: Mutex<()>,
    /// Answers whose files are being written.
    writing: Mutex<AHashMap<Box<[u8]>, Write>>,
}

/// Files of one key that are being written.
#[derive(Default)]
struct Write {
    answer: Option<Stored>,
    writers: u32,
    invalidated: bool,
}

/// The head of a file; behind its line the body.
#[derive(Serialize, Deserialize)]
struct FileHead {
    key: Vec<u8>,
    status: u16,
    headers: Vec<(Vec<u8>, Vec<u8>)>,
    stored: f64,
    ttl: f64,
    body_bytes: u64,
    /// Not an answer, but the list of variants.
    fields: Option<Vec<String>>,
    signatures: Vec<String>,
}

impl Disk {
    /// `levels`: `1:2` for folders of one and then two hexadecimal digits.
    pub(super) fn new(root: PathBuf, levels: &str, capacity: u64) -> Disk {
        let levels = levels.split(':').filter_map(|level| level.parse().ok()).collect();
        Disk {
            root,
            levels,
            capacity,
            bytes: AtomicU64::new(0),
            counted: Once::new(),
            clearing: Mutex::default(),
            writing: Mutex::default(),
        }
    }

    pub(super) fn path(&self, key: &[u8]) -> PathBuf {
        let name = HEXLOWER.encode(&Md5::digest(key));
        let mut path = self.root.clone();
        let mut end = name.len();
        for level in &self.levels {
            let start = end.saturating_sub(*level);
            path.push(name.get(start..end).unwrap_or_default());
            end = start;
        }
        path.push(name);
        path
    }

    /// A file is about to be written; `answer` is visible until it is there. Does not block, as the others here.
    pub(super) fn begin_write(&self, key: &[u8], answer: Option<Stored>) {
        let mut writing = self.writing.lock();
        let write = writing.entry(key.into()).or_default();
        write.writers += 1;
        if answer.is_some() && !write.invalidated {
            write.answer = answer;
        }
    }

    /// Whether what was written has been removed meanwhile.
    pub(crate) fn is_invalidated(&self, key: &[u8]) -> bool {
        self.writing.lock().get(key).is_some_and(|write| write.invalidated)
    }

    pub(crate) fn end_write(&self, key: &[u8]) {
        let mut writing = self.writing.lock();
        if let Some(write) = writing.get_mut(key) {
            write.writers = write.writers.saturating_sub(1);
            if write.writers == 0 {
                writing.remove(key);
            }
        }
    }

    /// Invalidates what is being written. Returns whether there was such an answer, or `None` if only the file shows
    /// that, which the caller checks. A write that was already invalidated counts as gone, even if its file appears
    /// meanwhile.
    pub(crate) fn invalidate(&self, key: &[u8]) -> Option<bool> {
        let mut writing = self.writing.lock();
        let write = writing.get_mut(key)?;
        let before = std::mem::replace(&mut write.invalidated, true);
        match write.answer.take() {
            Some(_) => Some(true),
            None => before.then_some(false),
        }
    }

    /// What is known of a key whose file is being written: the answer, or `None` when it was removed.
    pub(super) fn written(&self, key: &[u8]) -> Option<Option<Stored>> {
        let writing = self.writing.lock();
        let write = writing.get(key)?;
        (write.invalidated || write.answer.is_some()).then(|| write.answer.clone())
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<Stored> {
        decode(&read(&self.path(key)).ok()?, key)
    }

    pub(super) fn put(&self, key: &[u8], stored: &Stored) -> io::Result<()> {
        let path = self.path(key);
        let data = encode(key, stored)?;
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let beside = path.with_extension(format!("{:016x}.tmp", random_u64()));
        // Counted before the first write, so that concurrent writers are neither counted twice nor missed.
        self.counted.call_once(|| {
            let found = files(&self.root).iter().map(|(_, _, size)| size).sum();
            self.bytes.store(found, Ordering::Relaxed);
        });
        let old = fs::metadata(&path).map_or(0, |metadata| taken(&metadata));
        if let Err(error) = fs::write(&beside, &data).and_then(|()| fs::rename(&beside, &path)) {
            let _ = fs::remove_file(&beside);
            return Err(error);
        }
        let new = fs::metadata(&path).map_or(data.len() as u64, |metadata| taken(&metadata));
        self.bytes.fetch_add(new, Ordering::Relaxed);
        self.subtract(old);
        if self.bytes.load(Ordering::Relaxed) > self.capacity {
            self.make_room(&path);
        }
        Ok(())
    }

    pub(super) fn remove(&self, key: &[u8]) -> bool {
        self.remove_file(&self.path(key))
    }

    fn remove_file(&self, path: &Path) -> bool {
        let size = fs::metadata(path).map_or(0, |metadata| taken(&metadata));
        let removed = fs::remove_file(path).is_ok();
        if removed {
            self.subtract(size);
        }
        removed
    }

    fn subtract(&self, size: u64) {
        let less = |bytes: u64| Some(bytes.saturating_sub(size));
        let _ = self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// Removes the oldest files until an eighth is free. Modification times are coarse, so the file just written goes last.
    /// One at a time; what others write meanwhile is over the capacity until the next time.
    fn make_room(&self, written: &Path) {
        let Some(_clearing) = self.clearing.try_lock() else { return };
        let counted = self.bytes.load(Ordering::Relaxed);
        let mut found = files(&self.root);
        found.sort_by(|(at, path, _), (other_at, other, _)| {
            (path == written, at, path).cmp(&(other == written, other_at, other))
        });
        let total: u64 = found.iter().map(|(_, _, size)| size).sum();
        // What was written or removed by others, such as the operator, is set right; what is written meanwhile counts.
        match total.checked_sub(counted) {
            Some(more) => _ = self.bytes.fetch_add(more, Ordering::Relaxed),
            None => self.subtract(counted - total),
        }
        let goal = self.capacity / 8 * 7;
        for (_, path, _) in found {
            if self.bytes.load(Ordering::Relaxed) <= goal {
                return;
            }
            self.remove_file(&path);
        }
    }
}

/// An inode, and an entry of a folder.
const ENTRY_BYTES: u64 = 512;
/// What file systems give out at the least.
const BLOCK_BYTES: u64 = 4096;

/// What a file takes of the disk: whole blocks, also before the file system has given them out. So small answers are bounded
/// in number as well.
fn taken(metadata: &Metadata) -> u64 {
    let whole = metadata.len().div_ceil(BLOCK_BYTES).saturating_mul(BLOCK_BYTES);
    whole.max(metadata.blocks().saturating_mul(512)).saturating_add(ENTRY_BYTES)
}

/// Moment of writing, path and size on the disk of each file below a folder.
fn files(root: &Path) -> Vec<(SystemTime, PathBuf, u64)> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_dir() {
                folders.push(entry.path());
            } else {
                let written = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                found.push((written, entry.path(), taken(&metadata)));
            }
        }
    }
    found
}

fn encode(key: &[u8], stored: &Stored) -> io::Result<Vec<u8>> {
    let mut head = FileHead {
        key: key.to_vec(),
        status: 0,
        headers: Vec::new(),
        stored: 0.0,
        ttl: 0.0,
        body_bytes: 0,
        fields: None,
        signatures: Vec::new(),
    };
    let mut body = Bytes::new();
    match stored {
        Stored::CachedResponse(answer) => {
            head.status = answer.status;
            head.headers.clone_from(&answer.headers);
            head.stored = answer.stored;
            head.ttl = answer.ttl;
            head.body_bytes = answer.body.len() as u64;
            body = answer.body.clone();
        }
        Stored::Variants(variants) => {
            head.fields = Some(variants.fields.clone());
            head.signatures.clone_from(&variants.signatures);
            head.stored = variants.expires;
        }
    }
    let mut data = MAGIC.to_vec();
    serde_json::to_writer(&mut data, &head)?;
    data.push(b'\n');
    data.extend_from_slice(&body);
    Ok(data)
}

fn decode(data: &[u8], key: &[u8]) -> Option<Stored> {
    let rest = data.strip_prefix(MAGIC)?;
    let end = rest.iter().position(|&byte| byte == b'\n')?;
    let (head, body) = (rest.get(..end)?, rest.get(end + 1..)?);
    let head: FileHead = serde_json::from_slice(head).ok()?;
    if head.key != key || head.body_bytes != body.len() as u64 {
        return None;
    }
    if let Some(fields) = head.fields {
        let variants = Variants { fields, signatures: head.signatures, expires: head.stored };
        return Some(Stored::Variants(Arc::new(variants)));
    }
    Some(Stored::CachedResponse(Arc::new(CachedResponse {
        status: head.status,
        headers: head.headers,
        body: Bytes::copy_from_slice(body),
        stored: head.stored,
        ttl: head.ttl,
    })))
}

/// A regular file: a process that may write to the folder could put a pipe there, on which a read would wait
/// without end.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let nonblocking = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or_default();
    let mut file = fs::OpenOptions::new().read(true).custom_flags(nonblocking).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(bytes: usize) -> Stored {
        Stored::CachedResponse(Arc::new(CachedResponse {
            status: 200,
            headers: vec![(b"X-Raw".to_vec(), vec![0xff, b'a'])],
            body: vec![b'\n'; bytes].into(),
            stored: 5.5,
            ttl: 60.0,
        }))
    }

    #[test]
    fn what_is_written_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::new(folder.path().to_owned(), "1:2", 1 << 20);
        let variants =
            Variants { fields: vec!["accept".to_owned()], signatures: vec!["a".to_owned()], expires: 9.0 };
        for stored in [answer(3), answer(0), Stored::Variants(Arc::new(variants))] {
            disk.put(b"key", &stored).unwrap();
            assert_eq!(disk.get(b"key"), Some(stored));
        }
        assert_eq!(disk.get(b"other"), None);
        assert!(disk.remove(b"key"));
        assert!(!disk.remove(b"key"));
        assert_eq!(disk.get(b"key"), None);
    }

    #[test]
    fn what_is_being_written_is_invalidated_once() {
        let disk = Disk::new("/cache".into(), "1:2", 1);
        assert_eq!(disk.invalidate(b"key"), None, "the file is asked");
        disk.begin_write(b"key", Some(answer(3)));
        assert_eq!(disk.invalidate(b"key"), Some(true));
        assert_eq!(disk.invalidate(b"key"), Some(false), "its file may appear meanwhile");
        assert_eq!(disk.written(b"key"), Some(None));
        disk.end_write(b"key");
        assert_eq!(disk.invalidate(b"key"), None);
    }

    #[test]
    fn damaged_and_foreign_files_are_missing() {
        let good = encode(b"key", &answer(3)).unwrap();
        assert!(decode(&good, b"key").is_some());
        assert_eq!(decode(&good, b"yek"), None);
        for cut in 0..good.len() {
            assert_eq!(decode(&good[..cut], b"key"), None, "cut at {cut}");
        }
    }

    #[test]
    fn folders_as_nginx_nests_them() {
        // md5("abc") = 900150983cd24fb0d6963f7d28e17f72
        let disk = Disk::new("/cache".into(), "1:2", 1);
        let expected = "/cache/2/f7/900150983cd24fb0d6963f7d28e17f72";
        assert_eq!(disk.path(b"abc"), PathBuf::from(expected));
    }

    #[test]
    fn the_oldest_files_give_way() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::new(folder.path().to_owned(), "1", 40_000);
        for index in 0..30u8 {
            disk.put(&[index], &answer(1000)).unwrap();
        }
        let total: u64 = files(folder.path()).iter().map(|(_, _, size)| size).sum();
        assert!(total <= 40_000, "{total}");
        assert!(files(folder.path()).len() <= 8, "a block each");
        assert!(disk.get(&[29]).is_some());
    }

    #[test]
    fn a_pipe_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert!(read(&pipe).is_err());
        assert!(read(folder.path()).is_err(), "nor is a folder read");
    }
}
