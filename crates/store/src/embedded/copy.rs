//! The copy of the last good configuration, beside the store: what a start serves, read-only, when the store is damaged.
//!
//! A text file: a head with the identity of the store, the revision, the number of objects and when they were what the
//! configuration was; a line per object, its secrets encrypted as in the store; a line per user; a last line with the number of objects and
//! the SHA-256 of all lines before. It is written beside the old one and renamed, so there is always a whole one. Backups
//! (`tidegate config backup`) have the same form: [`Kept::write`]. The history and the checkpoints are not in it.

use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader, BufWriter, ErrorKind, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    str,
    sync::Arc,
    time::SystemTime,
};

use aws_lc_rs::digest;
use data_encoding::HEXLOWER;
use serde_json::{Value, json};
use tidegate_model::{Document, Kind, Object};

use super::{files::sync_folder, record::Record};
use crate::replacing;

pub use super::{files::place, steps::InSteps};

const FORMAT: &str = "tidegate-last-good 1";
/// How the line of a user begins; no kind of object is called so.
const USER: &str = "user\t";
/// A head is shorter than this.
const LONGEST_HEAD: u64 = 1024;

/// Which state a copy holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Of the store: see [`super::marker::Progress`].
    pub identity: u128,
    /// Of the state.
    pub revision: u64,
    /// How many the state has.
    pub objects: u64,
    /// When this was the newest state, in milliseconds since 1970.
    pub(crate) taken_ms: u64,
}

/// A whole copy. Secrets in it are still encrypted.
pub struct Kept {
    /// First line of the file.
    pub head: Head,
    /// The objects, kind by kind.
    pub records: Vec<Record>,
    /// The people who sign in.
    pub users: Vec<User>,
}

/// Name and record of one who signs in.
pub type User = (String, Vec<u8>);

impl Kept {
    /// Writes the whole copy.
    pub fn write(self, out: &mut dyn Write) -> io::Result<()> {
        let mut records = self.records.into_iter().map(|record| (record.object, record.expires_at_ms));
        let mut out = BufWriter::new(out);
        lines(&mut out, &self.head, &mut records, &self.users)?;
        out.flush()
    }
}

/// The whole copy in memory.
pub(super) fn in_memory(
    head: &Head,
    records: &mut dyn Iterator<Item = (Object, Option<u64>)>,
    users: &[User],
) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    lines(&mut bytes, head, records, users)?;
    Ok(bytes)
}

/// Writes the copy beside the store whole, durable when it returns, or leaves what there is. How many bytes it has.
pub(super) fn write(
    path: &Path,
    head: &Head,
    records: &mut dyn Iterator<Item = (Object, Option<u64>)>,
    users: &[User],
) -> io::Result<u64> {
    // A crash leaves at most one.
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(".new");
    let unfinished = PathBuf::from(unfinished);
    let written = fill(&unfinished, head, records, users).and_then(|bytes| {
        replacing::rename(&unfinished, path)?;
        sync_folder(path)?;
        Ok(bytes)
    });
    if written.is_err() {
        // It would take space that the store may need.
        let _ = fs::remove_file(&unfinished);
    }
    written
}

fn fill(
    path: &Path,
    head: &Head,
    records: &mut dyn Iterator<Item = (Object, Option<u64>)>,
    users: &[User],
) -> io::Result<u64> {
    // Rebuilt, so that the permissions are these.
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
    let mut out = BufWriter::new(InSteps::new(&file));
    let bytes = lines(&mut out, head, records, users)?;
    out.flush()?;
    file.sync_all()?;
    Ok(bytes)
}

fn lines(
    out: &mut dyn Write,
    head: &Head,
    records: &mut dyn Iterator<Item = (Object, Option<u64>)>,
    users: &[User],
) -> io::Result<u64> {
    let mut lines = Lines { out, digest: digest::Context::new(&digest::SHA256), bytes: 0 };
    let Head { identity, revision, objects, taken_ms } = head;
    let head = json!({"identity": format!("{identity:032x}"), "revision": revision, "objects": objects, "taken_ms": taken_ms});
    lines.add(&[FORMAT, " ", &head.to_string()])?;
    let mut count: u64 = 0;
    for (object, expires_at_ms) in records {
        lines.object(&object, expires_at_ms)?;
        count += 1;
    }
    for (name, record) in users {
        lines.add(&[USER, &Value::from(name.as_str()).to_string(), "\t", &HEXLOWER.encode(record)])?;
    }
    lines.finish(count)
}

struct Lines<'a> {
    out: &'a mut dyn Write,
    digest: digest::Context,
    bytes: u64,
}

impl Lines<'_> {
    /// Fields between tabs: kind, id as JSON, created, modified, expiry (0: never), value.
    fn object(&mut self, object: &Object, expires_at_ms: Option<u64>) -> io::Result<()> {
        let numbers =
            format!("\t{}\t{}\t{}\t", object.created, object.modified, expires_at_ms.unwrap_or_default());
        let id = Value::from(&*object.id).to_string();
        let text = object.document.text();
        // Its writer may have spread it over several lines.
        let compact = text.contains('\n').then(|| object.value().to_string());
        self.add(&[object.kind.noun(), "\t", &id, &numbers, compact.as_deref().unwrap_or(text)])
    }

    fn add(&mut self, parts: &[&str]) -> io::Result<()> {
        for part in parts.iter().chain(&["\n"]) {
            self.digest.update(part.as_bytes());
            self.out.write_all(part.as_bytes())?;
            self.bytes += part.len() as u64;
        }
        Ok(())
    }

    fn finish(self, objects: u64) -> io::Result<u64> {
        let last = format!("end {objects} {}\n", HEXLOWER.encode(self.digest.finish().as_ref()));
        self.out.write_all(last.as_bytes())?;
        Ok(self.bytes + last.len() as u64)
    }
}

/// The head of what lies there, if it looks like one: cheap, and not verified.
pub(crate) fn glance(path: &Path) -> Option<Head> {
    let mut line = String::new();
    let file = BufReader::new(File::open(path).ok()?);
    io::Read::take(file, LONGEST_HEAD).read_line(&mut line).ok()?;
    head(line.trim_end()).ok()
}

/// Since when the copy has been behind the store, if it is: the time of the file, in milliseconds since 1970.
pub(crate) fn newest_until_ms(path: &Path) -> Option<u64> {
    let time = fs::metadata(path).and_then(|found| found.modified()).ok()?;
    u64::try_from(time.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_millis()).ok()
}

/// The store has a newer state from now on.
pub(crate) fn behind_from_now(path: &Path) {
    // Best effort: only messages show this time.
    let _ = File::options().write(true).open(path).and_then(|file| file.set_modified(SystemTime::now()));
}

/// The copy, `None` where there is none. The error says why it cannot be used.
pub fn read(path: &Path) -> Result<Option<Kept>, String> {
    match fs::read(path) {
        Ok(bytes) => parse(&bytes).map(Some),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

/// Parses a whole copy. The error says what is wrong with it.
pub fn parse(bytes: &[u8]) -> Result<Kept, String> {
    let half = || "it is truncated or damaged".to_owned();
    if !bytes.starts_with(FORMAT.as_bytes()) {
        return Err(
            "it is not a configuration copy, was written by another version of this program, or is damaged"
                .to_owned(),
        );
    }
    let rest = bytes.strip_suffix(b"\n").ok_or_else(half)?;
    let end = rest.iter().rposition(|byte| *byte == b'\n').ok_or_else(half)? + 1;
    let (body, last) = rest.split_at_checked(end).ok_or_else(half)?;
    let told = str::from_utf8(last).ok().and_then(|last| last.strip_prefix("end ")).ok_or_else(half)?;
    let (count, sum) = told.split_once(' ').ok_or_else(half)?;
    if sum != HEXLOWER.encode(digest::digest(&digest::SHA256, body).as_ref()) {
        return Err(half());
    }
    let mut lines = str::from_utf8(body).map_err(|_| half())?.lines();
    let head = head(lines.next().unwrap_or_default())?;
    let (users, objects): (Vec<&str>, Vec<&str>) = lines.partition(|line| line.starts_with(USER));
    let records: Option<Vec<Record>> = objects.into_iter().map(object).collect();
    let records = records.ok_or("an object in it cannot be read")?;
    let users: Option<Vec<User>> = users.into_iter().map(user).collect();
    let users = users.ok_or("a user in it cannot be read")?;
    let found = records.len() as u64;
    if found != head.objects || count.parse() != Ok(found) {
        return Err(format!("it has {found} objects instead of {}", head.objects));
    }
    Ok(Kept { head, records, users })
}

fn head(line: &str) -> Result<Head, String> {
    let told = line.strip_prefix(FORMAT).ok_or("it was written by another version of this program")?;
    let told: Value = serde_json::from_str(told).map_err(|error| error.to_string())?;
    let number = |name: &str| told.get(name).and_then(Value::as_u64);
    let identity = told.get("identity").and_then(Value::as_str);
    let identity = identity.and_then(|digits| u128::from_str_radix(digits, 16).ok());
    let read = || {
        Some(Head {
            identity: identity?,
            revision: number("revision")?,
            objects: number("objects")?,
            taken_ms: number("taken_ms")?,
        })
    };
    read().ok_or_else(|| "its first line cannot be read".to_owned())
}

fn object(line: &str) -> Option<Record> {
    let mut fields = line.splitn(6, '\t');
    let noun = fields.next()?;
    let kind = Kind::ALL.into_iter().find(|kind| kind.noun() == noun)?;
    let id: String = serde_json::from_str(fields.next()?).ok()?;
    let mut number = || fields.next()?.parse::<u64>().ok();
    let (created, modified, expires) = (number()?, number()?, number()?);
    let document = Document::parse(fields.next()?)?;
    let object = Object { kind, id: Arc::from(id), document, created, modified, fault: None, unread: None };
    Some(Record { object, expires_at_ms: (expires != 0).then_some(expires) })
}

fn user(line: &str) -> Option<User> {
    let (name, record) = line.strip_prefix(USER)?.split_once('\t')?;
    Some((serde_json::from_str(name).ok()?, HEXLOWER.decode(record.as_bytes()).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn objects() -> Vec<(Object, Option<u64>)> {
        let object = |kind: Kind, id: &str, text: &str| Object {
            kind,
            id: id.into(),
            document: Document::parse(text).unwrap(),
            created: 3,
            modified: u64::MAX,
            fault: None,
            unread: None,
        };
        let mut objects: Vec<_> = Kind::ALL
            .into_iter()
            .map(|kind| (object(kind, "a/b \t\n\"é", r#"{"a":"x\ty","b":1.0}"#), None))
            .collect();
        objects.push((object(Kind::Route, "lines", "{\n\t\"a\": 1\n}"), Some(7)));
        objects
    }

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.last-good");
        let head = Head { identity: u128::MAX / 3, revision: 9, objects: 15, taken_ms: 5 };
        let users = [("jo\t\"é".to_owned(), vec![0, 255, b'\n'])];
        let bytes = write(&path, &head, &mut objects().into_iter(), &users).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), bytes);
        assert_eq!(glance(&path), Some(head));
        let kept = read(&path).unwrap().unwrap();
        assert_eq!((kept.head, kept.users.as_slice()), (head, users.as_slice()));
        for (record, (object, expires)) in kept.records.iter().zip(objects()) {
            assert_eq!(record.object.value(), object.value());
            assert_eq!((&record.object.id, record.object.kind), (&object.id, object.kind));
            assert_eq!((record.object.created, record.object.modified), (3, u64::MAX));
            assert_eq!(record.expires_at_ms, expires);
        }
    }

    #[test]
    fn no_damage_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.last-good");
        let head = Head { identity: 1, revision: 9, objects: 2, taken_ms: 5 };
        write(&path, &head, &mut objects().into_iter().take(2), &[("jo".to_owned(), vec![7])]).unwrap();
        let good = fs::read(&path).unwrap();
        for bit in 0..good.len() * 8 {
            let mut damaged = good.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(parse(&damaged).is_err(), "bit {bit}");
        }
        for length in 0..good.len() {
            assert!(parse(&good[..length]).is_err(), "{length} bytes");
        }
        // A head with a wrong number of objects and a correct checksum.
        write(&path, &head, &mut objects().into_iter().take(1), &[]).unwrap();
        assert!(read(&path).err().is_some_and(|reason| reason.contains("1 objects instead of 2")));
        assert!(matches!(read(&folder.path().join("none")), Ok(None)));
    }
}
