//! What the embedded database remembers of its writes, and the way back.

use std::{path::Path, sync::Arc, time::Duration};

use serde_json::{Value, json};
use tidegate_model::Kind;
use tidegate_store::{
    Author, Embedded, History, Operation, Store, StoreError, Write, Written,
    embedded::Hooks,
    history::{Action, HistoryError, Point, Query, Retention},
};

fn put(id: &str, value: Value, ttl_seconds: Option<u64>) -> Operation {
    Operation::Put { kind: Kind::Route, id: id.into(), value: Arc::new(value), expected: None, ttl_seconds }
}

fn delete(id: &str) -> Operation {
    Operation::Delete { kind: Kind::Route, id: id.into(), expected: None }
}

fn write(store: &Embedded, operations: Vec<Operation>) -> Written {
    let author = Author { name: Some("jack".to_owned()), request: "PUT".to_owned(), ..Author::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(store.write(Write { operations, at: None, author })).unwrap()
}

fn history(store: &Embedded) -> &dyn History {
    store.history().unwrap()
}

fn retention(max_entries: u64) -> Retention {
    Retention { max_entries, ..Retention::default() }
}

fn revisions(store: &Embedded, query: Query) -> (Vec<u64>, usize, u64) {
    let page = history(store).entries(&query).unwrap();
    (page.entries.iter().map(|entry| entry.revision).collect(), page.total, page.oldest)
}

const ALL: Query = Query { object: None, since: 0, skip: 0, take: 100 };

fn of(id: &str) -> Query {
    Query { object: Some((Kind::Route, id.into())), ..ALL }
}

/// What differs from a point, by id; `None` where there was nothing.
fn past(store: &Embedded, point: &Point) -> Vec<(String, Option<Value>)> {
    let past = history(store).past(point).unwrap();
    let value = |(_, id, version): (_, Arc<str>, Option<tidegate_store::history::Version>)| {
        (id.to_string(), version.map(|version| version.value.as_ref().clone()))
    };
    past.objects.into_iter().map(value).collect()
}

#[test]
fn writes_are_entries_with_what_was_before_and_after() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let store = Embedded::open(&path, Hooks::default()).unwrap();
    write(&store, vec![put("1", json!("a"), None), put("2", json!("b"), None)]);
    // Twice in one write is one change; a conflict and the deletion of nothing are none.
    write(&store, vec![put("1", json!("between"), None), put("1", json!("c"), None)]);
    write(&store, vec![delete("none")]);
    write(&store, vec![delete("2"), put("11", json!("d"), None)]);
    drop(store);
    let store = Embedded::open(&path, Hooks::default()).unwrap();
    assert_eq!(revisions(&store, ALL), (vec![3, 2, 1], 3, 0));
    assert_eq!(revisions(&store, Query { skip: 1, take: 1, ..ALL }), (vec![2], 3, 0));
    assert_eq!(revisions(&store, Query { since: 2, ..ALL }), (vec![3], 1, 0));
    assert_eq!(revisions(&store, of("1")), (vec![2, 1], 2, 0));
    assert_eq!(revisions(&store, of("11")), (vec![3], 1, 0));
    assert_eq!(revisions(&store, Query { since: 1, ..of("2") }), (vec![3], 1, 0));

    let (entry, differences) = history(&store).entry(2, 0, 10).unwrap().unwrap();
    assert_eq!((entry.author.name.as_deref(), entry.changes), (Some("jack"), 1));
    assert_eq!(entry.first, [(Kind::Route, "1".into(), Action::Update)]);
    let values: Vec<_> = [&differences[0].before, &differences[0].after]
        .map(|version| version.as_ref().unwrap().value.as_ref().clone())
        .into();
    assert_eq!(values, [json!("a"), json!("c")]);
    assert!(history(&store).entry(9, 0, 10).unwrap().is_none());
    assert_eq!(history(&store).entry(3, 1, 10).unwrap().unwrap().1.len(), 1);

    let of = |text: &str| Some(json!(text));
    let [one, two, eleven] = ["1", "2", "11"].map(str::to_owned);
    assert_eq!(past(&store, &Point::Revision(3)), []);
    let second = [(eleven.clone(), None), (two.clone(), of("b"))];
    assert_eq!(past(&store, &Point::Revision(2)), second);
    let first = [(one.clone(), of("a")), (eleven.clone(), None), (two.clone(), of("b"))];
    assert_eq!(past(&store, &Point::Revision(1)), first);
    assert_eq!(past(&store, &Point::Revision(0)), [(one, None), (eleven, None), (two, None)]);
    assert!(matches!(history(&store).past(&Point::Revision(4)), Err(HistoryError::Future { .. })));
}

#[test]
fn the_history_is_bounded_by_number_and_age() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let store = Embedded::open_with(&path, Hooks::default(), retention(5)).unwrap();
    for number in 1..=40 {
        write(&store, vec![put("1", json!(number), None), put("2", json!(number), None)]);
    }
    assert_eq!(revisions(&store, ALL), (vec![40, 39, 38, 37, 36], 5, 35));
    assert_eq!(revisions(&store, of("2")).1, 5);
    assert_eq!(past(&store, &Point::Revision(35))[0].1, Some(json!(35)));
    let refused = history(&store).past(&Point::Revision(34));
    assert!(matches!(refused, Err(HistoryError::Trimmed { wanted: 34, oldest: 35 })));
    drop(store);

    // Without a write, too.
    let none = Retention { max_age: Duration::ZERO, ..Retention::default() };
    let store = Embedded::open_with(&path, Hooks::default(), none).unwrap();
    let begun = std::time::Instant::now();
    while revisions(&store, ALL) != (vec![], 0, 40) {
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", revisions(&store, ALL));
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(store);

    let store = Embedded::open_with(&path, Hooks::default(), retention(0)).unwrap();
    write(&store, vec![put("1", json!("new"), None)]);
    assert_eq!(revisions(&store, ALL), (vec![], 0, 41));
}

#[test]
fn a_checkpoint_needs_no_history() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let store = Embedded::open_with(&path, Hooks::default(), retention(2)).unwrap();
    write(&store, vec![put("1", json!("a"), None), put("2", json!("b"), None)]);
    let author = Author { name: Some("jack".to_owned()), ..Author::default() };
    let (checkpoint, replaced) = history(&store).put_checkpoint("good", &author).unwrap();
    assert_eq!((checkpoint.revision, checkpoint.objects, replaced), (1, 2, false));
    for number in 0..10 {
        write(&store, vec![put("1", json!(number), None), put("3", json!(number), None)]);
    }
    write(&store, vec![delete("2")]);
    drop(store);
    let store = Embedded::open_with(&path, Hooks::default(), retention(2)).unwrap();
    assert_eq!(history(&store).checkpoints().unwrap(), [checkpoint]);
    let good = Point::Checkpoint("good".to_owned());
    let [one, two, three] = ["1", "2", "3"].map(str::to_owned);
    let expected = [(one, Some(json!("a"))), (two, Some(json!("b"))), (three, None)];
    assert_eq!(past(&store, &good), expected);
    assert_eq!(history(&store).past(&good).unwrap().revision, 1);
    assert!(history(&store).put_checkpoint("good", &author).unwrap().1);
    assert!(history(&store).delete_checkpoint("good").unwrap());
    assert!(!history(&store).delete_checkpoint("good").unwrap());
    assert!(matches!(history(&store).past(&good), Err(HistoryError::NoCheckpoint(_))));
}

#[test]
fn times_to_live_are_known_of_what_was() {
    let folder = tempfile::tempdir().unwrap();
    let store = Embedded::open(&folder.path().join("db"), Hooks::default()).unwrap();
    let mut bell = store.watch();
    write(&store, vec![put("1", json!("short"), Some(1))]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime
        .block_on(async { tokio::time::timeout(Duration::from_secs(10), bell.wait_for(|at| *at == 2)).await })
        .unwrap()
        .unwrap();
    let (entry, differences) = history(&store).entry(2, 0, 1).unwrap().unwrap();
    assert_eq!((entry.author.request.as_str(), &entry.author.name), ("ttl", &None));
    let before = differences[0].before.as_ref().unwrap();
    assert!(before.expires_at_ms.is_some_and(|at| at <= entry.time_ms), "{before:?} {entry:?}");
}

/// Values are encrypted in the history as in the objects, and come back plain.
#[test]
fn secrets_are_in_the_history_as_at_rest() {
    let swap = |value: &mut Value, from: &str, to: &str| {
        if value == from {
            *value = to.into();
        }
    };
    let hooks = || Hooks {
        encrypt: Some(Box::new(move |_, _, value| {
            swap(value, "plain-words", "sealed-words");
            false
        })),
        decrypt: Some(Box::new(move |_, _, value| {
            swap(value, "sealed-words", "plain-words");
            Ok(())
        })),
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let store = Embedded::open(&path, hooks()).unwrap();
    write(&store, vec![put("1", json!("plain-words"), None)]);
    write(&store, vec![delete("1")]);
    assert_eq!(past(&store, &Point::Revision(1)), [("1".to_owned(), Some(json!("plain-words")))]);
    drop(store);
    let bytes = std::fs::read(&path).unwrap();
    assert!(!bytes.windows(11).any(|window| window == b"plain-words"));
}

/// A program that knows nothing of histories wrote in between: what it changed is unknown.
#[test]
fn a_gap_is_no_history() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let store = Embedded::open(&path, Hooks::default()).unwrap();
    write(&store, vec![put("1", json!("a"), None)]);
    drop(store);
    forget(&path);
    let store = Embedded::open(&path, Hooks::default()).unwrap();
    assert_eq!(revisions(&store, ALL), (vec![1], 1, 7));
    assert!(matches!(history(&store).past(&Point::Revision(6)), Err(HistoryError::Trimmed { .. })));
    write(&store, vec![put("1", json!("b"), None)]);
    assert_eq!(past(&store, &Point::Revision(7)), [("1".to_owned(), Some(json!("a")))]);
}

fn forget(path: &Path) {
    let meta = redb::TableDefinition::<&str, u64>::new("meta");
    let database = redb::Database::open(path).unwrap();
    let transaction = database.begin_write().unwrap();
    transaction.open_table(meta).unwrap().insert("revision", 7).unwrap();
    transaction.commit().unwrap();
}

/// While another process has the file, that process writes the history; after the file is taken back, it
/// continues here.
#[test]
fn a_file_that_is_handed_over_has_no_history_here() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let store = Embedded::open(&path, Hooks::default()).unwrap();
    write(&store, vec![put("1", json!("a"), None)]);
    store.release().unwrap();
    let refused = history(&store).entries(&ALL);
    assert!(matches!(refused, Err(HistoryError::Store(StoreError::HandedOver))));
    assert!(history(&store).put_checkpoint("a", &Author::default()).is_err());
    let other = Embedded::open(&path, Hooks::default()).unwrap();
    write(&other, vec![put("1", json!("b"), None)]);
    drop(other);
    store.resume().unwrap();
    write(&store, vec![put("1", json!("c"), None)]);
    assert_eq!(revisions(&store, ALL), (vec![3, 2, 1], 3, 0));
}
