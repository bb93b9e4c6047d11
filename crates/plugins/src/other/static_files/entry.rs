//! What the cache knows of a path: open files with their finished heads, or where the client has to go instead.

use std::{
    fs::{File, Metadata},
    io,
    os::unix::fs::{FileExt, MetadataExt},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use tidegate_plugin_api::file_body::Residence;
use tidegate_protocol::Head;

use super::coding::Coding;

/// The answer to a path. What does not exist is not kept: any client could fill the cache with it.
pub(super) enum FileLookup {
    File(Served),
    /// A directory that was asked for without the slash at its end.
    Redirect,
    /// A list of a directory. Not kept.
    Listing(Bytes),
    /// The upstream answers. Not kept.
    Upstream,
    /// 403, 404, or what `try_files` ends with. Not kept.
    Status(u16),
}

/// A file and the same content in other codings.
pub(super) struct Served {
    pub plain: Arc<Representation>,
    pub coded: Vec<(Coding, Arc<Representation>)>,
}

/// One open file.
pub(crate) struct Representation {
    pub file: Arc<File>,
    pub residence: Residence,
    pub length: u64,
    pub modified: SystemTime,
    pub etag: Box<str>,
    pub content_type: Box<str>,
    /// The fields of a whole answer but for its length.
    pub head: Head,
    /// The content, if it is small.
    pub bytes: Option<Bytes>,
    pub stamp: Stamp,
}

/// What distinguishes one version of a file from the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    pub(super) fn of(metadata: &Metadata) -> Stamp {
        Stamp {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// An outcome in the cache. Times are milliseconds since the cache was made.
pub(super) struct Entry {
    pub outcome: FileLookup,
    pub(crate) checked_ms: AtomicU64,
    pub used_ms: AtomicU64,
    /// A revalidation is under way.
    pub(crate) refreshing: AtomicBool,
}

impl Entry {
    pub(super) fn new(outcome: FileLookup, now_ms: u64) -> Entry {
        Entry {
            outcome,
            checked_ms: AtomicU64::new(now_ms),
            used_ms: AtomicU64::new(now_ms),
            refreshing: AtomicBool::new(false),
        }
    }
}

/// How a file is presented.
pub(crate) struct Presentation<'a> {
    pub content_type: &'a str,
    pub coding: Option<Coding>,
    /// The answer depends on `Accept-Encoding`.
    pub vary: bool,
    pub small_file_bytes: u64,
}

impl Representation {
    /// Reads a small file whole. Waits for the disk.
    pub(super) fn load(file: File, metadata: &Metadata, how: &Presentation) -> io::Result<Representation> {
        let (length, stamp) = (metadata.len(), Stamp::of(metadata));
        let seconds = u64::try_from(metadata.mtime()).unwrap_or(0);
        let modified = UNIX_EPOCH + Duration::from_secs(seconds);
        let suffix = how.coding.map_or("", Coding::name);
        let dash = if suffix.is_empty() { "" } else { "-" };
        let etag = format!("\"{seconds:x}.{:x}-{length:x}{dash}{suffix}\"", metadata.mtime_nsec());
        let mut head = Head::new();
        head.add("Content-Type", how.content_type);
        head.add("Last-Modified", httpdate::fmt_http_date(modified));
        head.add("ETag", &etag);
        if let Some(coding) = how.coding {
            head.add("Content-Encoding", coding.name());
        }
        if how.vary {
            head.add("Vary", "Accept-Encoding");
        }
        head.add("Accept-Ranges", "bytes");
        let bytes = if length <= how.small_file_bytes { read_whole(&file, length, stamp)? } else { None };
        Ok(Representation {
            residence: Residence::of(&file),
            file: Arc::new(file),
            length,
            modified,
            etag: etag.into(),
            content_type: how.content_type.into(),
            head,
            bytes,
            stamp,
        })
    }
}

/// `None`: the file is being written; what was read is not a version of it.
fn read_whole(file: &File, length: u64, stamp: Stamp) -> io::Result<Option<Bytes>> {
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
    match file.read_exact_at(&mut bytes, 0) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let unchanged = Stamp::of(&file.metadata()?) == stamp;
    Ok(unchanged.then(|| bytes.into()))
}
