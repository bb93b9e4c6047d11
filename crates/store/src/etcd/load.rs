//! Reading everything below the prefix, and what has to change for the state to equal it.

use std::{
    collections::{BTreeSet, HashSet},
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use tidegate_model::Kind;
use tidegate_telemetry::error_log::{Level, log};

use super::{
    connection,
    keys::{self, EtcdKey},
    rpc::{
        Client,
        messages::{Compare, KeyValue, PutRequest, RangeRequest, TxnRequest},
    },
    shared::Shared,
    values,
};
use crate::{Change, collections::PluginList};

/// Keys of one answer. etcd refuses values above 1.5 MiB by default; usual ones have some hundred bytes.
const PAGE_KEYS: i64 = 500;
/// A page takes milliseconds. What takes that long comes sooner over a new connection.
const PAGE_TIME: Duration = Duration::from_secs(10);

/// What etcd holds, as far as it differs.
#[derive(Default)]
struct Found {
    revision: u64,
    cluster: u64,
    /// Objects whose key is there, whether their value can be used or not.
    present: HashSet<(Kind, Arc<str>)>,
    changes: Vec<Change>,
    plugins: Option<PluginList>,
    placeholders: BTreeSet<&'static str>,
}

/// Brings the state in step with a full read, and returns the directories that lack a placeholder. The error says why
/// there was none; the state is as before then.
pub(super) async fn load(shared: &Shared, client: &Client) -> Result<Vec<&'static str>, String> {
    let mut found = Found::default();
    let (mut from, end) = keys::range(&shared.options.prefix);
    loop {
        // All pages show one moment.
        let revision = i64::try_from(found.revision).unwrap_or(0);
        let request = RangeRequest { key: from, range_end: end.clone(), limit: PAGE_KEYS, revision };
        let patience = shared.options.timeout.min(PAGE_TIME);
        let answer = tokio::time::timeout(patience, client.range(request))
            .await
            .map_err(|_| format!("no response to a read within {} s", patience.as_secs()))?
            .map_err(|error| connection::reason(&error))?;
        let header = answer.header.as_ref().ok_or("response without a header")?;
        if found.revision == 0 {
            found.revision = values::revision(header.revision);
            found.cluster = header.cluster_id;
        }
        found.take(shared, &answer.kvs);
        match answer.kvs.last() {
            Some(last) if answer.more => from = [last.key.as_slice(), b"\0"].concat(),
            _ => break,
        }
    }
    let missing = found.missing_placeholders();
    found.apply(shared)?;
    Ok(if shared.options.placeholders { missing } else { Vec::new() })
}

impl Found {
    fn take(&mut self, shared: &Shared, entries: &[KeyValue]) {
        let options = &shared.options;
        let trusted = self.trusts_revisions(shared);
        for entry in entries {
            let (kind, id) = match keys::place(&options.prefix, &entry.key) {
                EtcdKey::Object(kind, id) => (kind, id),
                EtcdKey::Plugins => {
                    let read = values::plugins(&entry.key, &entry.value);
                    self.plugins = read.or_else(|| shared.plugins.lock().clone());
                    continue;
                }
                EtcdKey::Other => {
                    self.note_placeholder(&options.prefix, &entry.key);
                    continue;
                }
                EtcdKey::Unknown => {
                    values::complain(&entry.key, "unknown kind of resource; it is ignored");
                    continue;
                }
            };
            let revisions = (values::revision(entry.create_revision), values::revision(entry.mod_revision));
            let current = shared.live.read(|state| state.get(kind, id).cloned());
            self.present.insert((kind, id.into()));
            let known = current.as_ref().map(|object| (object.created, object.modified));
            if trusted && known == Some(revisions) {
                continue;
            }
            let object = values::object(options, kind, id, entry, &|| current.clone());
            if current.as_ref() != Some(&object) {
                self.changes.push(Change { kind, id: object.id.clone(), object: Some(object) });
            }
        }
    }

    /// Whether an object with the same revisions is the same. Not after a start from the snapshot: what it is in
    /// memory depends on the keys and plugins of the process that read it. Nor when etcd may have used a revision twice.
    fn trusts_revisions(&self, shared: &Shared) -> bool {
        let (cluster, from_etcd) = {
            let followed = shared.followed.borrow();
            (followed.cluster, followed.from_etcd)
        };
        let doubted = shared.revisions_doubted.load(Relaxed);
        from_etcd
            && !doubted
            && cluster == self.cluster
            && self.revision >= shared.live.read(|state| state.revision)
    }

    fn note_placeholder(&mut self, prefix: &str, key: &[u8]) {
        let directory = keys::DIRECTORIES.iter().find(|name| key == format!("{prefix}/{name}/").as_bytes());
        self.placeholders.extend(directory);
    }

    fn missing_placeholders(&self) -> Vec<&'static str> {
        keys::DIRECTORIES.into_iter().filter(|name| !self.placeholders.contains(name)).collect()
    }

    fn apply(mut self, shared: &Shared) -> Result<(), String> {
        let known = shared.followed.borrow().cluster;
        let other_cluster = known != 0 && known != self.cluster;
        let (before, gone) = shared.live.read(|state| {
            let gone = state.all().filter(|object| !self.present.contains(&(object.kind, object.id.clone())));
            let gone = gone.map(|object| Change { kind: object.kind, id: object.id.clone(), object: None });
            (state.revision, gone.collect::<Vec<_>>())
        });
        let restarted = other_cluster || self.revision < before;
        if restarted && self.present.is_empty() && !gone.is_empty() {
            // Deleting everything makes a new revision; a count that starts over is a loss of data.
            return Err(format!(
                "the cluster is new and has nothing below {}; restore its data, or remove {} and restart to \
                 start from its state",
                shared.options.prefix,
                shared.options.snapshot.display()
            ));
        }
        if let Some(reason) = &shared.unusable
            && self.present.is_empty()
            && !shared.followed.borrow().from_etcd
        {
            return Err(format!(
                "it has nothing below {}, while {} shows an earlier configuration and cannot be used ({reason}); restore \
                 etcd's data, correct deployment.etcd.prefix, or remove the file to start with an empty configuration",
                shared.options.prefix,
                shared.options.snapshot.display()
            ));
        }
        self.changes.extend(gone);
        let (revision, changed) = (self.revision, !self.changes.is_empty());
        let other_plugins = {
            let mut plugins = shared.plugins.lock();
            let other = *plugins != self.plugins;
            *plugins = self.plugins;
            other
        };
        let changes: Vec<_> = self.changes.into_iter().map(|change| (revision, change)).collect();
        if changed && (restarted || revision == before) {
            shared.live.restart(revision, changes);
        } else {
            shared.live.publish(revision, changes);
        }
        shared.cluster_revision.store(revision, Relaxed);
        shared.revisions_doubted.store(false, Relaxed);
        shared.followed.send_modify(|followed| {
            followed.cluster = self.cluster;
            followed.loaded = true;
            followed.from_etcd = true;
        });
        if changed || other_plugins || other_cluster || known == 0 {
            shared.mark_changed();
        }
        Ok(())
    }
}

/// Never over something that is there. Not being allowed to is not a problem: a prefix shared with APISIX has them.
pub(crate) async fn write_placeholders(shared: Arc<Shared>, client: Client, missing: Vec<&'static str>) {
    for directory in missing {
        let key = format!("{}/{directory}/", shared.options.prefix);
        let put =
            PutRequest { key: key.clone().into(), value: keys::PLACEHOLDER.into(), ..PutRequest::default() };
        let transaction = TxnRequest { compare: vec![Compare::absent(&key)], success: vec![put.into()] };
        let written = tokio::time::timeout(shared.options.timeout, client.txn(transaction)).await;
        let problem = match written {
            Ok(Ok(_)) => continue,
            Ok(Err(error)) => connection::reason(&error),
            Err(_) => "no answer".to_owned(),
        };
        log(
            Level::Warn,
            format_args!("cannot write {key} ({problem}); APISIX needs it, this gateway does not"),
        );
        return;
    }
}
