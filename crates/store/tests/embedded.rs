//! The embedded database from outside: what a write does, what survives, what is refused.

use std::{path::Path, sync::Arc, time::Duration};

use serde_json::{Value, json};
use tidegate_model::{Kind, Object};
use tidegate_store::{Changes, Embedded, Operation, Store, StoreError, Write, Written, embedded::Hooks};

fn open(path: &Path) -> Embedded {
    Embedded::open(path, Hooks::default()).unwrap()
}

fn put(id: &str, value: Value, expected: Option<u64>) -> Operation {
    Operation::Put { kind: Kind::Route, id: id.into(), value: Arc::new(value), expected, ttl_seconds: None }
}

fn delete(id: &str, expected: Option<u64>) -> Operation {
    Operation::Delete { kind: Kind::Route, id: id.into(), expected }
}

fn first(written: &Written) -> &Object {
    written.objects[0].as_ref().unwrap()
}

#[test]
fn revisions() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data/tidegate.redb");
    let store = open(&path);
    let created = store.write_blocking(vec![put("1", json!({"uri": "/a"}), None)]).unwrap();
    assert_eq!((created.revision, first(&created).created, first(&created).modified), (1, 1, 1));
    let changed = store.write_blocking(vec![put("1", json!({"uri": "/b"}), Some(1))]).unwrap();
    assert_eq!((changed.revision, first(&changed).created, first(&changed).modified), (2, 1, 2));
    let posted = Operation::Create { kind: Kind::Route, value: json!({"uri": "/c"}), ttl_seconds: None };
    let posted = store.write_blocking(vec![posted.clone(), posted]).unwrap();
    let ids: Vec<&str> = posted.objects.iter().flatten().map(|object| object.id.as_ref()).collect();
    assert_eq!(ids, ["00000000000000000003", "00000000000000000004"]);
    assert_eq!(first(&posted).value()["id"], "00000000000000000003");
    let gone = store.write_blocking(vec![delete("1", None), delete("none", None)]).unwrap();
    assert_eq!(first(&gone).value()["uri"], "/b");
    assert!(gone.objects[1].is_none());
    let nothing = store.write_blocking(vec![delete("none", None)]).unwrap();
    assert_eq!(nothing.revision, gone.revision, "deleting nothing is not a change");

    let Changes::Delta { revision, changes } = store.changes_since(2) else { panic!("expected a delta") };
    assert_eq!((revision, changes.len()), (5, 3));
    drop(store);

    let store = open(&path);
    store.read(&mut |state| {
        assert_eq!(state.revision, 5);
        assert_eq!(state.list(Kind::Route).map(|route| route.created).collect::<Vec<_>>(), [3, 4]);
    });
    assert!(matches!(store.changes_since(2), Changes::Reset));
}

/// Others may hold the store when the process ends.
#[test]
fn a_closed_store_needs_no_repair() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tidegate.redb");
    let store = open(&path);
    store.write_blocking(vec![put("1", json!({"uri": "/a"}), None)]).unwrap();
    store.close();
    let mut builder = redb::Builder::new();
    builder.set_repair_callback(|_| panic!("the file was not closed"));
    drop(builder.open(&path).unwrap());
    let refused = store.write_blocking(vec![delete("1", None)]);
    assert!(matches!(refused, Err(StoreError::HandedOver)), "{refused:?}");
    store.close();
    store.read(&mut |state| assert_eq!(state.revision, 1));
}

#[test]
fn conditions() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("db"));
    let conflict = |operations| matches!(store.write_blocking(operations), Err(StoreError::Conflict));
    assert!(conflict(vec![put("1", json!(1), Some(7))]));
    assert!(!conflict(vec![put("1", json!(1), Some(0))]));
    assert!(conflict(vec![put("1", json!(2), Some(0))]));
    assert!(conflict(vec![delete("1", Some(9))]));
    assert!(conflict(vec![put("2", json!(1), None), delete("1", Some(9))]), "all or nothing");
    assert!(store.get(Kind::Route, "2").is_none());
    assert!(
        !conflict(vec![put("2", json!(1), None), put("2", json!(2), Some(2))]),
        "operations see each other"
    );
    assert_eq!(*store.get(Kind::Route, "2").unwrap().value(), json!(2));
}

#[test]
fn a_ttl_ends() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let store = open(&path);
    let with_ttl = |id: &str, seconds| Operation::Put {
        kind: Kind::Route,
        id: id.into(),
        value: Arc::new(json!({})),
        expected: None,
        ttl_seconds: Some(seconds),
    };
    let written = store
        .write_blocking(vec![with_ttl("kept", 1), with_ttl("short", 1), with_ttl("long", 1000)])
        .unwrap();
    assert!(written.lease.is_some());
    store.write_blocking(vec![put("kept", json!({}), None)]).unwrap();
    drop(store);

    let store = open(&path);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let mut watch = store.watch();
    watch.mark_unchanged();
    runtime.block_on(async {
        tokio::time::timeout(Duration::from_secs(10), async {
            while store.get(Kind::Route, "short").is_some() {
                watch.changed().await.unwrap();
            }
        })
        .await
        .unwrap();
    });
    assert!(store.get(Kind::Route, "kept").is_some());
    assert!(store.get(Kind::Route, "long").is_some());
}

#[test]
fn writers_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("db"));
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let store = &store;
            scope.spawn(move || {
                for number in 0..25 {
                    let written =
                        store.write_blocking(vec![put(&format!("{thread}-{number}"), json!({}), Some(0))]);
                    assert_eq!(first(&written.unwrap()).id.as_ref(), format!("{thread}-{number}"));
                }
            });
        }
    });
    store.read(&mut |state| {
        let mut revisions: Vec<u64> = state.list(Kind::Route).map(|route| route.modified).collect();
        revisions.sort_unstable();
        assert_eq!(revisions, (1..=200).collect::<Vec<u64>>());
    });
}

#[test]
fn values_are_encrypted_on_disk_only() {
    let hooks = || {
        let swap = |kind, value: &mut Value, from: &str, to: &str| {
            assert_eq!(kind, Kind::Route);
            assert_eq!(value["key"], from);
            value["key"] = to.into();
        };
        Hooks {
            encrypt: Some(Box::new(move |kind, _, value| {
                swap(kind, value, "plain-words", "sealed-words");
                false
            })),
            decrypt: Some(Box::new(move |kind, _, value| {
                swap(kind, value, "sealed-words", "plain-words");
                Ok(())
            })),
        }
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let store = Embedded::open(&path, hooks()).unwrap();
    let written = store.write_blocking(vec![put("1", json!({"key": "plain-words"}), None)]).unwrap();
    assert_eq!(first(&written).value()["key"], "plain-words");
    drop(store);
    let bytes = std::fs::read(&path).unwrap();
    let has = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(has("sealed-words") && !has("plain-words"));
    let store = Embedded::open(&path, hooks()).unwrap();
    assert_eq!(store.get(Kind::Route, "1").unwrap().value()["key"], "plain-words");
}

#[test]
fn files_that_cannot_be_opened() {
    let folder = tempfile::tempdir().unwrap();
    let check = |path: &Path, words: &[&str]| {
        let Err(error) = Embedded::open(path, Hooks::default()) else { panic!("{} opened", path.display()) };
        let message = error.to_string();
        for word in words.iter().chain(&[path.to_str().unwrap()]) {
            assert!(message.contains(word), "{message:?} lacks {word:?}");
        }
    };
    let locked = folder.path().join("locked");
    let _holder = open(&locked);
    check(&locked, &["in use by another process", "stop the other gateway"]);

    let rubbish = folder.path().join("rubbish");
    std::fs::write(&rubbish, vec![b'x'; 100_000]).unwrap();
    check(&rubbish, &["damaged", "backup"]);

    let truncated = folder.path().join("truncated");
    let store = open(&truncated);
    store.write_blocking(vec![put("1", json!({"a": "b".repeat(100_000)}), None)]).unwrap();
    drop(store);
    let length = std::fs::metadata(&truncated).unwrap().len();
    std::fs::File::options().write(true).open(&truncated).unwrap().set_len(length / 3).unwrap();
    check(&truncated, &["damaged", "backup"]);

    let store = open(&folder.path().join("good"));
    store.write_blocking(vec![put("1", json!({}), None)]).unwrap();
    drop(store);
    let good = std::fs::read(folder.path().join("good")).unwrap();
    for (name, bytes, problem) in [
        ("empty", Vec::new(), "0 bytes"),
        ("zeros", vec![0; good.len()], "magic number"),
        ("cut-off", good[..100].to_vec(), "damaged"),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        check(&path, &[problem, "backup"]);
    }
    std::fs::create_dir(folder.path().join("folder")).unwrap();
    check(&folder.path().join("folder"), &["not a regular file", "backup"]);
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(folder.path().join("nothing"), &link).unwrap();
    check(&link, &["a link to a file that is not there"]);
}

/// What a program that knows redb, or a bug, could leave: a database, but not a whole store.
#[test]
fn a_database_without_its_tables_is_no_new_store() {
    const META: redb::TableDefinition<&str, u64> = redb::TableDefinition::new("meta");
    const OBJECTS: redb::TableDefinition<&[u8], &[u8]> = redb::TableDefinition::new("objects");
    type Break = fn(&redb::WriteTransaction);
    let breaks: [(&str, Break); 6] = [
        ("meta", |change| assert!(change.delete_table(META).unwrap())),
        ("objects", |change| assert!(change.delete_table(OBJECTS).unwrap())),
        ("its revision is missing", |change| {
            change.open_table(META).unwrap().remove("revision").unwrap();
        }),
        ("its format is missing", |change| {
            change.open_table(META).unwrap().remove("format").unwrap();
        }),
        ("0 objects in place of 2", |change| {
            assert!(change.delete_table(OBJECTS).unwrap());
            change.open_table(OBJECTS).unwrap();
        }),
        ("is of revision 1, the whole of revision 0", |change| {
            change.open_table(META).unwrap().insert("revision", 0).unwrap();
        }),
    ];
    let folder = tempfile::tempdir().unwrap();
    for (index, (problem, damage)) in breaks.into_iter().enumerate() {
        let path = folder.path().join(index.to_string());
        let store = open(&path);
        store.write_blocking(vec![put("1", json!({}), None), put("2", json!({}), None)]).unwrap();
        drop(store);
        let database = redb::Database::open(&path).unwrap();
        let change = database.begin_write().unwrap();
        damage(&change);
        change.commit().unwrap();
        drop(database);
        let Err(error) = Embedded::open(&path, Hooks::default()) else { panic!("{problem}: opened") };
        let message = error.to_string();
        assert!(message.contains(problem) && message.contains("backup"), "{problem}: {message}");
    }
}

#[test]
fn a_lost_store_is_not_taken_for_a_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tidegate.redb");
    let marker = folder.path().join("tidegate.created");
    let store = open(&path);
    store.write_blocking(vec![put("1", json!({}), None)]).unwrap();
    std::fs::rename(&path, folder.path().join("backup")).unwrap();
    let lost = store.write_blocking(vec![put("2", json!({}), None)]);
    assert!(lost.is_err_and(|error| error.to_string().contains("No such file")), "would be lost at the end");
    drop(store);
    let Err(error) = Embedded::open(&path, Hooks::default()) else { panic!("it opened empty") };
    let message = error.to_string();
    for word in
        [path.to_str().unwrap(), "is missing", marker.to_str().unwrap(), "backup", "empty configuration"]
    {
        assert!(message.contains(word), "{message:?} lacks {word:?}");
    }
    assert!(!path.exists(), "a refused start makes nothing");
    std::fs::rename(folder.path().join("backup"), &path).unwrap();
    assert!(open(&path).get(Kind::Route, "1").is_some());
    // On purpose.
    std::fs::remove_file(&path).unwrap();
    std::fs::remove_file(&marker).unwrap();
    assert!(open(&path).get(Kind::Route, "1").is_none());
    // Programs of before the marker left none.
    std::fs::remove_file(&marker).unwrap();
    drop(open(&path));
    assert!(marker.exists());
}

/// A crash leaves a store under another name, in any state.
#[test]
fn a_first_start_can_be_repeated() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(&folder.path().join("good")));
    let good = std::fs::read(folder.path().join("good")).unwrap();
    for (index, left) in [&good[..0], &good[..1000], &vec![0; 5000], &good].into_iter().enumerate() {
        let path = folder.path().join(format!("{index}.redb"));
        std::fs::write(folder.path().join(format!("{index}.redb.new")), left).unwrap();
        let store = open(&path);
        store.write_blocking(vec![put("1", json!({}), None)]).unwrap();
        drop(store);
        assert!(open(&path).get(Kind::Route, "1").is_some());
    }
}

/// Bytes changed anywhere: the file opens, or the error says so; it never takes the process down.
#[test]
fn damaged_files_are_survived() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let store = open(&path);
    for number in 0..50 {
        store.write_blocking(vec![put(&number.to_string(), json!({"uri": "/x".repeat(200)}), None)]).unwrap();
    }
    drop(store);
    let good = std::fs::read(&path).unwrap();
    let mut refused = 0;
    let mut seed: usize = 12_345;
    for _ in 0..300 {
        let mut bad = good.clone();
        for _ in 0..8 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let place = (seed >> 20) % bad.len();
            bad[place] ^= 1 << (seed >> 60 & 7);
            bad[(seed >> 33) % 4096] ^= 1;
        }
        std::fs::write(&path, &bad).unwrap();
        match Embedded::open(&path, Hooks::default()) {
            Ok(store) => {
                // May fail, must answer.
                let _ = store.write_blocking(vec![put("new", json!({}), None)]);
            }
            Err(error) => {
                refused += 1;
                assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
            }
        }
    }
    assert!(refused > 0);
}

fn write_at(revision: u64, operations: Vec<Operation>) -> Write {
    Write { at: Some(revision), ..operations.into() }
}

#[test]
fn a_write_at_a_revision_holds_only_there() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("tidegate.redb"));
    let at = |revision: u64, id: &str| {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(
            store.write(write_at(revision, vec![put(id, json!({}), None), put("both", json!({}), None)])),
        )
    };
    assert_eq!(at(0, "a").unwrap().revision, 1);
    assert!(matches!(at(0, "b"), Err(StoreError::Conflict)));
    assert!(matches!(at(2, "b"), Err(StoreError::Conflict)));
    assert!(store.get(Kind::Route, "b").is_none(), "nothing of it was written");
    // Of many at the same revision one holds, also when they are committed together.
    let writers: Vec<_> =
        (0..8).map(|id| store.write(write_at(1, vec![put(&id.to_string(), json!({}), None)]))).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let good = writers.into_iter().map(|writer| runtime.block_on(writer).is_ok());
    assert_eq!(good.filter(|good| *good).count(), 1);
}

#[test]
fn another_process_has_the_file_for_a_while() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tidegate.redb");
    let store = open(&path);
    store.write_blocking(vec![put("1", json!({"uri": "/a"}), None), put("2", json!({}), None)]).unwrap();
    assert!(Embedded::open(&path, Hooks::default()).is_err(), "one process at a time");
    store.release().unwrap();
    let refused = store.write_blocking(vec![put("1", json!({"uri": "/lost"}), None)]);
    assert!(matches!(refused, Err(StoreError::HandedOver)));
    assert_eq!(store.get(Kind::Route, "1").unwrap().value()["uri"], "/a", "reads go on");

    let other = open(&path);
    other.write_blocking(vec![put("1", json!({"uri": "/b"}), None), delete("2", None)]).unwrap();
    other.write_blocking(vec![put("3", json!({}), None)]).unwrap();
    assert!(store.resume().is_err(), "the other one still has it");
    assert!(matches!(store.write_blocking(vec![delete("1", None)]), Err(StoreError::HandedOver)));
    drop(other);

    let bell = store.watch();
    store.resume().unwrap();
    assert!(bell.has_changed().unwrap());
    let Changes::Delta { revision, changes } = store.changes_since(1) else { panic!("expected a delta") };
    let changed: Vec<_> =
        changes.iter().map(|change| (change.id.as_ref(), change.object.is_some())).collect();
    assert_eq!((revision, changed), (3, vec![("2", false), ("1", true), ("3", true)]));
    assert_eq!(store.get(Kind::Route, "1").unwrap().value()["uri"], "/b");
    let written = store.write_blocking(vec![put("4", json!({}), None)]).unwrap();
    assert_eq!(written.revision, 4);
    // Again, without anything done in between.
    store.release().unwrap();
    store.resume().unwrap();
    assert!(!matches!(store.changes_since(4), Changes::Reset));
}
