//! The file providers from outside: what is taken from a file, and what a bad file leaves alone.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::json;
use tidegate_model::Kind;
use tidegate_store::{
    Changes, File, Operation, Store, StoreError,
    file::{Format, Options},
};

struct Subject {
    _folder: tempfile::TempDir,
    path: PathBuf,
    file: File,
    messages: Arc<Mutex<Vec<String>>>,
}

fn options(format: Format, interval: Duration, messages: &Arc<Mutex<Vec<String>>>) -> Options {
    let sink = messages.clone();
    Options {
        format,
        check: Box::new(|kind, id, value| match value.get("bad") {
            Some(_) => Err(format!("{} {id} is bad", kind.noun())),
            None => Ok(()),
        }),
        choose_plugins: None,
        report: Box::new(move |message| sink.lock().unwrap().push(message.to_owned())),
        interval,
    }
}

impl Subject {
    fn new(format: Format, text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("apisix.conf");
        std::fs::write(&path, text).unwrap();
        let messages = Arc::new(Mutex::new(Vec::new()));
        let file = File::open(&path, options(format, Duration::ZERO, &messages)).unwrap();
        Self { _folder: folder, path, file, messages }
    }

    fn rewrite(&self, text: &str) {
        replace(&self.path, text);
        self.file.read_if_changed();
    }

    fn routes(&self) -> Vec<(String, u64)> {
        let mut routes = Vec::new();
        self.file.read(&mut |state| {
            routes = state.list(Kind::Route).map(|route| (route.id.to_string(), route.modified)).collect();
        });
        routes
    }

    fn check(&self, routes: &[(&str, u64)], complaints: &[&str]) {
        let expected: Vec<(String, u64)> = routes.iter().map(|(id, at)| ((*id).to_owned(), *at)).collect();
        assert_eq!(self.routes(), expected);
        let messages = std::mem::take(&mut *self.messages.lock().unwrap());
        assert_eq!(messages.len(), complaints.len(), "{messages:?}");
        for (message, part) in messages.iter().zip(complaints) {
            assert!(message.contains(part), "{message:?} lacks {part:?}");
        }
    }
}

/// As editors do it: a new file takes the name.
fn replace(path: &Path, text: &str) {
    let new = path.with_extension("new");
    std::fs::write(&new, text).unwrap();
    std::fs::rename(&new, path).unwrap();
}

#[test]
fn only_what_changed_gets_a_new_revision() {
    let subject = Subject::new(Format::Yaml, "routes:\n  - uri: /a\n  - {id: 2, uri: /b}\n#END\n");
    subject.check(&[("2", 1), ("arr_1", 1)], &[]);
    subject.rewrite("routes:\n  - uri: /a\n  - {id: 2, uri: /c}\n#END");
    subject.check(&[("2", 2), ("arr_1", 1)], &[]);
    subject.rewrite("routes:\n  - uri: /a\n  - {id: 2, uri: /c}   # only a comment\n#END");
    subject.check(&[("2", 2), ("arr_1", 1)], &[]);
    assert_eq!(*subject.file.watch().borrow(), 2, "a comment is not a change");
    subject.rewrite("routes:\n  - {id: 2, uri: /c}\n#END");
    let Changes::Delta { revision, changes } = subject.file.changes_since(2) else {
        panic!("expected a delta")
    };
    assert_eq!((revision, changes.len(), changes[0].id.as_ref()), (3, 1, "arr_1"));
    assert!(changes[0].object.is_none());
}

/// As `cp -p` and `rsync --inplace --times` do it.
#[test]
fn a_file_with_the_same_size_and_time_is_read() {
    let subject = Subject::new(Format::Yaml, "routes: [{id: 1}]\n#END");
    let before = std::fs::metadata(&subject.path).unwrap().modified().unwrap();
    std::fs::write(&subject.path, "routes: [{id: 2}]\n#END").unwrap();
    std::fs::File::options().write(true).open(&subject.path).unwrap().set_modified(before).unwrap();
    subject.file.read_if_changed();
    subject.check(&[("2", 2)], &[]);
}

#[test]
fn bad_files_change_nothing() {
    let subject = Subject::new(Format::Yaml, "routes: [{id: 1}]\n#END");
    subject.check(&[("1", 1)], &[]);
    for (text, complaint) in [
        ("routes: [{id: 1}, {id: 2", "missing valid end flag in file"),
        ("routes: [{id: 1}, {id: 2\n#END", "failed to parse the content of file"),
        ("routes: [{id: 1}]\n#END and more", "missing valid end flag"),
        ("routes: ${{STORE_TEST_NO_SUCH}}\n#END", "can't find environment variable STORE_TEST_NO_SUCH"),
        ("- 1\n#END", "expected keys"),
        ("", "0 bytes"),
        ("\0\0\0\0\0\0\0\0", "missing valid end flag"),
        ("# nothing but a comment\n#END\n", "it is empty"),
    ] {
        subject.rewrite(text);
        subject.check(&[("1", 1)], &[complaint]);
        subject.file.read_if_changed();
        subject.check(&[("1", 1)], &[]);
    }
    std::fs::remove_file(&subject.path).unwrap();
    subject.file.read_if_changed();
    subject.check(&[("1", 1)], &["failed to fetch"]);
    subject.rewrite("routes: []\n#END\n");
    subject.check(&[], &[]);
}

#[test]
fn a_start_needs_a_whole_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("apisix.conf");
    let messages = Arc::default();
    let refused = |format, complaint: &str| {
        let Err(error) = File::open(&path, options(format, Duration::ZERO, &messages)) else {
            panic!("{complaint}: it opened")
        };
        let message = error.to_string();
        assert!(message.contains(complaint) && message.contains(path.to_str().unwrap()), "{message}");
    };
    refused(Format::Yaml, "No such file");
    for (format, text, complaint) in [
        (Format::Yaml, "", "0 bytes"),
        (Format::Yaml, "routes: [{id: 1}]", "missing valid end flag"),
        (Format::Yaml, "#END", "it is empty"),
        (Format::Json, "", "0 bytes"),
        (Format::Json, "{\"routes\": [", "failed to parse"),
        (Format::Json, "null", "it is empty"),
    ] {
        std::fs::write(&path, text).unwrap();
        refused(format, complaint);
    }
}

#[test]
fn a_bad_object_is_named_with_its_place() {
    let text = "routes:\n  - id: 1\n  - id: 2\n    bad: 1\nrotes: []\n#END";
    let subject = Subject::new(Format::Yaml, text);
    let file = subject.path.display();
    let bad = format!("{file}:3:5: failed to check item data of [routes] err:route 2 is bad");
    let unknown = format!("{file}:5:1: unknown key [rotes] is ignored; did you mean routes?");
    subject.check(&[("1", 1), ("2", 1)], &[&bad, &unknown]);
}

#[test]
fn one_bad_object_does_not_spoil_the_rest() {
    let subject = Subject::new(
        Format::Yaml,
        "routes: [{id: 1}, {id: 2, bad: 1}, {id: 3}]
#END",
    );
    let complaint = "failed to check item data of [routes] err:route 2 is bad";
    subject.check(&[("1", 1), ("2", 1), ("3", 1)], &[complaint]);
}

#[test]
fn plugins_ring_the_bell() {
    let subject = Subject::new(Format::Yaml, "plugins: [{name: cors}]\n#END");
    assert_eq!(subject.file.plugins().unwrap().http, ["cors"]);
    let before = *subject.file.watch().borrow();
    subject.rewrite("plugins: [{name: cors}, {name: mqtt-proxy, stream: true}]\n#END");
    assert_eq!(subject.file.plugins().unwrap().stream, ["mqtt-proxy"]);
    assert!(*subject.file.watch().borrow() > before);
}

#[test]
fn json() {
    let subject = Subject::new(Format::Json, r#"{"routes": [{"id": "1", "uri": "${{CARGO_PKG_NAME}}"}]}"#);
    subject.check(&[("1", 1)], &[]);
    assert_eq!(subject.file.get(Kind::Route, "1").unwrap().value()["uri"], json!("tidegate-store"));
    subject.rewrite("{\"routes\": [\n}");
    subject.check(&[("1", 1)], &[":2:1: "]);
}

#[test]
fn it_is_read_only() {
    let subject = Subject::new(Format::Json, "{}");
    assert!(!subject.file.is_writable());
    let delete = Operation::Delete { kind: Kind::Route, id: "1".into(), expected: None };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert!(matches!(runtime.block_on(subject.file.write(vec![delete].into())), Err(StoreError::ReadOnly)));
}

#[test]
fn it_looks_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("apisix.yaml");
    let messages = Arc::default();
    replace(&path, "routes: []\n#END");
    let file = File::open(&path, options(Format::Yaml, Duration::from_millis(5), &messages)).unwrap();
    let mut watch = file.watch();
    watch.mark_unchanged();
    replace(&path, "routes: [{id: 1}]\n#END");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime
        .block_on(async { tokio::time::timeout(Duration::from_secs(10), watch.changed()).await })
        .unwrap()
        .unwrap();
    assert!(file.get(Kind::Route, "1").is_some());
}
