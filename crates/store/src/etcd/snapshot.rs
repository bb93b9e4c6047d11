//! The last good configuration on disk, for a start while etcd is away.
//!
//! A text file: a head with the format's version, the cluster and the revision; one line of JSON per object, with its
//! secrets encrypted as they are in etcd; a last line with the number of objects and the SHA-256 of all lines before.
//! It is written beside the old one and renamed, by a separate thread, when changes have settled.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufWriter, Write},
    os::unix::fs::OpenOptionsExt,
    str,
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use aws_lc_rs::digest;
use data_encoding::HEXLOWER;
use serde_json::{Value, json};
use tidegate_model::{Document, Fault, Object};
use tidegate_telemetry::{
    background::{give_way, lower_priority},
    error_log::{Level, log},
};

use super::{
    Options,
    keys::{self, EtcdKey},
    shared::Shared,
    values,
};
use crate::{State, collections::PluginList, error::StoreError, replacing};

/// Changes have settled when there was none for that long.
const SETTLED: Duration = Duration::from_secs(1);
/// While changes keep coming, at least that often.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

const FORMAT: &str = "tidegate-configuration 1";

/// What a snapshot held.
pub(super) struct Kept {
    pub cluster: u64,
    pub state: State,
    pub plugins: Option<PluginList>,
}

/// Starts the thread that writes; it ends, after a last write, when the sender of `changed` is gone.
pub(super) fn start(shared: Arc<Shared>, changed: mpsc::Receiver<()>) -> Result<JoinHandle<()>, StoreError> {
    thread::Builder::new()
        .name("config-snapshot".to_owned())
        .spawn(move || {
            lower_priority();
            while changed.recv().is_ok() {
                let first = Instant::now();
                while first.elapsed() < LONGEST_WAIT && changed.recv_timeout(SETTLED).is_ok() {}
                while changed.try_recv().is_ok() {}
                if let Err(error) = write(&shared) {
                    let file = shared.options.snapshot.display();
                    log(
                        Level::Error,
                        format_args!(
                            "cannot write {file}: {error}; a start without etcd will lack the newest changes"
                        ),
                    );
                }
            }
        })
        .map_err(|error| StoreError::Unavailable(format!("cannot start the snapshot thread: {error}")))
}

fn write(shared: &Shared) -> io::Result<()> {
    let (cluster, options) = (shared.followed.borrow().cluster, &shared.options);
    let (revision, objects) =
        shared.live.read(|state| (state.revision, state.all().cloned().collect::<Vec<Object>>()));
    let plugins = shared.plugins.lock().clone();
    let path = &options.snapshot;
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    // During an upgrade two processes write.
    let fresh = path.with_extension(format!("new-{}", std::process::id()));
    // Secrets may be in it.
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
    let mut lines = Lines { file: BufWriter::new(file), digest: digest::Context::new(&digest::SHA256) };
    let head = json!({"prefix": options.prefix, "cluster": cluster, "revision": revision});
    lines.add(&format!("{FORMAT} {head}"))?;
    if let Some(list) = plugins {
        lines.add(
            &json!({"key": format!("{}/plugins", options.prefix), "value": plugin_value(&list)}).to_string(),
        )?;
    }
    for object in &objects {
        give_way();
        let mut value = Arc::unwrap_or_clone(object.value());
        if let Some(encrypt) = &options.encrypt {
            encrypt(object.kind, &object.id, &mut value);
        }
        let key = keys::of(&options.prefix, object.kind, &object.id);
        let mut line =
            json!({"key": key, "created": object.created, "modified": object.modified, "value": value});
        // What was wrong with the text the value no longer shows.
        if let Some(fault) = object.fault.as_ref().filter(|fault| fault.in_text) {
            let place = fault.place.as_ref().map(|place| Arc::unwrap_or_clone(place.value()));
            line["fault"] = json!({"reason": &*fault.reason, "place": place});
        }
        if let Some(reason) = &object.unread {
            line["unread"] = json!(&**reason);
        }
        lines.add(&line.to_string())?;
    }
    lines.finish(objects.len())?;
    replacing::rename(&fresh, path)?;
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

fn plugin_value(list: &PluginList) -> Value {
    let http = list.http.iter().map(|name| json!({"name": name}));
    http.chain(list.stream.iter().map(|name| json!({"name": name, "stream": true}))).collect()
}

struct Lines {
    file: BufWriter<File>,
    digest: digest::Context,
}

impl Lines {
    fn add(&mut self, line: &str) -> io::Result<()> {
        for part in [line.as_bytes(), b"\n"] {
            self.digest.update(part);
            self.file.write_all(part)?;
        }
        Ok(())
    }

    fn finish(mut self, objects: usize) -> io::Result<()> {
        let sum = HEXLOWER.encode(self.digest.finish().as_ref());
        writeln!(self.file, "end {objects} {sum}")?;
        self.file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
    }
}

/// What there is of an earlier run.
pub(crate) enum Earlier {
    Kept(Kept),
    /// There is a file, and it cannot be used: whatever it held is known to etcd alone.
    Unusable(String),
    Nothing,
}

/// The snapshot, if there is a good one. A file that is there but broken is named and not used.
pub(super) fn read(options: &Options) -> Earlier {
    let path = &options.snapshot;
    let parsed = match fs::read_to_string(path) {
        Ok(text) => parse(options, &text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Earlier::Nothing,
        Err(error) => Err(error.to_string()),
    };
    match parsed {
        Ok(kept) => Earlier::Kept(kept),
        Err(reason) => {
            let file = path.display();
            log(
                Level::Error,
                format_args!("{file} is not used: {reason}; it is replaced by what etcd holds"),
            );
            Earlier::Unusable(reason)
        }
    }
}

/// Why its text in etcd could not be used.
fn fault_of_text(line: &Value) -> Option<Box<Fault>> {
    let fault = line.get("fault")?;
    let place = fault.get("place").filter(|place| !place.is_null()).cloned().map(Document::from);
    let reason = fault.get("reason").and_then(Value::as_str).unwrap_or("it cannot be read");
    Some(Box::new(Fault { reason: reason.into(), in_text: true, place }))
}

fn unreadable(reason: String) -> values::Decoded {
    let fault = Box::new(Fault { reason: reason.into(), in_text: true, place: None });
    values::Decoded { value: json!({}), fault: Some(fault), sealed: Vec::new() }
}

fn parse(options: &Options, text: &str) -> Result<Kept, String> {
    let half = || "it is incomplete or damaged".to_owned();
    let body_end = text.trim_end().rfind('\n').ok_or_else(half)? + 1;
    let (body, last) = text.split_at_checked(body_end).ok_or_else(half)?;
    let sum = HEXLOWER.encode(digest::digest(&digest::SHA256, body.as_bytes()).as_ref());
    let (count, told) =
        last.trim_end().strip_prefix("end ").and_then(|end| end.split_once(' ')).ok_or_else(half)?;
    if told != sum {
        return Err(half());
    }
    let mut lines = body.lines();
    let head = lines.next().and_then(|head| head.strip_prefix(FORMAT));
    let head = head.ok_or("it was written by another version of this program")?;
    let head: Value = serde_json::from_str(head).map_err(|error| error.to_string())?;
    let number = |value: &Value, name: &str| value.get(name).and_then(Value::as_u64).ok_or_else(half);
    if head.get("prefix").and_then(Value::as_str) != Some(options.prefix.as_str()) {
        return Err(format!("it is for another prefix than {}", options.prefix));
    }
    let mut kept = Kept {
        cluster: number(&head, "cluster")?,
        state: State::at(number(&head, "revision")?),
        plugins: None,
    };
    let mut objects = 0;
    for line in lines {
        let line: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
        let key = line.get("key").and_then(Value::as_str).ok_or_else(half)?;
        let bytes = line.get("value").ok_or_else(half)?.to_string().into_bytes();
        match keys::place(&options.prefix, key.as_bytes()) {
            EtcdKey::Plugins => kept.plugins = values::plugins(key.as_bytes(), &bytes),
            EtcdKey::Object(kind, id) => {
                objects += 1;
                let (created, modified) = (number(&line, "created")?, number(&line, "modified")?);
                let values::Decoded { value, fault, sealed } =
                    values::decode(options, kind, id, &bytes, &|| None).unwrap_or_else(unreadable);
                let fault = fault_of_text(&line).or(fault);
                if let Some(fault) = &fault {
                    values::complain_of_use(kind, key.as_bytes(), &fault.reason);
                }
                values::warn_of_sealed(key.as_bytes(), &sealed);
                let unread = line.get("unread").and_then(Value::as_str).map(Arc::from);
                let (id, document) = (id.into(), value.into());
                kept.state.put(Object { kind, id, document, created, modified, fault, unread });
            }
            EtcdKey::Other | EtcdKey::Unknown => {}
        }
    }
    if count.parse() != Ok(objects) { Err(half()) } else { Ok(kept) }
}
