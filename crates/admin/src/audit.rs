//! Who tried to change what through the Admin or the Control API: a line of JSON for each attempt, refused ones too.
//!
//! Never in it: keys (only their names), queries (which may carry a key) and bodies.

use std::{
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
};

use serde_json::{Map, Value, json};
use tidegate_telemetry::clock::{self, RFC3339};
use tidegate_telemetry::{
    error_log::{Level, log},
    log_writer::LogSink,
};

use crate::{
    caller::Caller,
    message::{Head, REVISION, Response, Signer},
    role::Role,
};

/// Refused requests a second that get a line, for each of: without a known key, with one. Any client can send the
/// first, which must not crowd out the second.
const REFUSED_LIMIT: u32 = 100;
const LONGEST_PATH: usize = 1024;
const LONGEST_METHOD: usize = 32;
/// As nginx logs a client that did not wait for the answer. What it sent may have been done.
const CLIENT_GONE: u16 = 499;

/// The audit log: a line for each attempt to change something.
pub struct Audit {
    sink: LogSink,
    refused: Mutex<[Refused; 2]>,
}

/// Refused requests of one second.
#[derive(Default)]
struct Refused {
    second: i64,
    count: u32,
}

impl Audit {
    /// Writes to this file.
    pub fn new(sink: LogSink) -> Audit {
        Audit { sink, refused: Mutex::default() }
    }

    /// An attempt that has its line when this is dropped: also when the connection goes before the answer is there.
    pub(crate) fn attempt(self: &Arc<Self>, api: &'static str, head: &Head, key: Option<&Caller>) -> Attempt {
        let first = |text: &str, most| text.chars().take(most).collect::<String>();
        Attempt {
            audit: self.clone(),
            api,
            address: head.peer.to_canonical(),
            method: first(&head.method, LONGEST_METHOD),
            path: first(&head.path, LONGEST_PATH),
            key: key.map(|key| (key.name.clone(), key.role)),
            tried: None,
            status: CLIENT_GONE,
            revision: None,
        }
    }

    fn write(&self, attempt: &Attempt) {
        let now = clock::unix_ms();
        let time = clock::utc(now, RFC3339);
        if attempt.status >= 400 {
            let refused = self.count_refused(attempt.key.is_some(), now / 1000);
            if refused == REFUSED_LIMIT + 1 {
                let key = attempt.key.is_some();
                self.send(&json!({"time": time, "suppressed": "more refused requests in this \
                second", "known_key": key}));
            }
            if refused > REFUSED_LIMIT {
                return;
            }
        }
        self.send(&attempt.line(&time));
    }

    /// How many were refused within this second, this one included.
    fn count_refused(&self, known_key: bool, second: i64) -> u32 {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let [unknown, known] = &mut *refused;
        let refused = if known_key { known } else { unknown };
        if refused.second != second {
            *refused = Refused { second, count: 0 };
        }
        refused.count = refused.count.saturating_add(1);
        refused.count
    }

    fn send(&self, line: &Value) {
        let mut line = escaped(&line.to_string());
        line.push('\n');
        if !self.sink.send(line.into_bytes(), 1) {
            log(
                Level::Error,
                format_args!("an audit log line was dropped: the disk or the reader is too slow"),
            );
        }
    }
}

pub(crate) struct Attempt {
    audit: Arc<Audit>,
    api: &'static str,
    address: IpAddr,
    method: String,
    path: String,
    /// Its name and role.
    key: Option<(String, Role)>,
    /// The name that someone tried to sign in as, in vain.
    tried: Option<String>,
    status: u16,
    revision: Option<u64>,
}

impl Attempt {
    pub(crate) fn answered(&mut self, response: &Response) {
        self.status = response.status;
        let revision = response.headers.iter().find(|(name, _)| *name == REVISION);
        self.revision = revision.and_then(|(_, value)| value.parse().ok());
        match &response.signer {
            Some(Signer { name, role: Some(role) }) => self.key = Some((name.clone(), *role)),
            Some(Signer { name, role: None }) => self.tried = Some(name.clone()),
            None => {}
        }
    }

    fn line(&self, time: &str) -> Value {
        let role = self.key.as_ref().map(|(_, role)| role.name());
        let mut line = Map::new();
        line.insert("time".into(), json!(time));
        line.insert("api".into(), json!(self.api));
        line.insert("key".into(), json!(self.key.as_ref().map(|(name, _)| name)));
        line.insert("role".into(), json!(role));
        if let Some(tried) = &self.tried {
            line.insert("tried".into(), json!(tried));
        }
        line.insert("address".into(), json!(self.address.to_string()));
        line.insert("method".into(), json!(self.method));
        line.insert("path".into(), json!(self.path));
        line.insert("status".into(), json!(self.status));
        line.insert("revision".into(), json!(self.revision));
        Value::Object(line)
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.audit.write(self);
    }
}

/// JSON lets most of Unicode pass. What a terminal or an editor would act on, or show in another order, is spelled out.
fn escaped(json: &str) -> String {
    let acts = |letter: char| {
        letter.is_control()
            || matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
    };
    let mut out = String::with_capacity(json.len());
    for letter in json.chars() {
        if acts(letter) {
            out.push_str(&format!("\\u{:04x}", u32::from(letter)));
        } else {
            out.push(letter);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidegate_telemetry::log_writer::LogWriter;

    use super::*;
    use crate::AdminKey;
    use crate::testing::request;

    fn lines(attempts: impl FnOnce(&Arc<Audit>)) -> Vec<Value> {
        let folder = std::env::temp_dir().join(format!(
            "tidegate-audit-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        ));
        let writer = LogWriter::start().expect("a thread");
        let audit = Arc::new(Audit::new(writer.open(&folder).expect("opened")));
        attempts(&audit);
        assert!(writer.drain(Duration::from_secs(10)));
        let text = std::fs::read_to_string(&folder).expect("the log");
        let _ = std::fs::remove_file(&folder);
        assert!(text.chars().all(|letter| letter == '\n' || !letter.is_control()), "{text:?}");
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    #[test]
    fn a_line_holds_no_key_and_starts_no_other() {
        let name = "a\nb\u{202e}c\u{7f}".to_owned();
        let key = AdminKey::new(&name, "the-key", Role::Admin).expect("a key");
        let target = format!("/apisix/admin/routes/1{}?api_key=the-key", "x".repeat(5000));
        let request = request("PUT", &target, "{}");
        let lines = lines(|audit| {
            let response = Response::empty(201).with_header(REVISION, "7");
            audit.attempt("admin", &request, Some(&key.caller())).answered(&response);
            drop(audit.attempt("admin", &request, None));
        });
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert_eq!(
            (&lines[0]["key"], &lines[0]["status"], &lines[0]["revision"]),
            (&json!(name), &json!(201), &json!(7))
        );
        assert_eq!((&lines[1]["key"], &lines[1]["status"]), (&Value::Null, &json!(499)));
        assert!(!lines[0].to_string().contains("the-key"));
        assert_eq!(lines[0]["path"].as_str().map(str::len), Some(LONGEST_PATH));
    }

    #[test]
    fn refusals_are_bounded_and_hide_nothing_else() {
        let key = AdminKey::new("admin", "k", Role::Admin).expect("a key");
        let request = request("PUT", "/apisix/admin/routes/1", "{}");
        let lines = lines(|audit| {
            for _ in 0..1000 {
                audit.attempt("admin", &request, None).answered(&Response::empty(401));
            }
            audit.attempt("admin", &request, Some(&key.caller())).answered(&Response::empty(400));
            audit.attempt("admin", &request, Some(&key.caller())).answered(&Response::empty(200));
        });
        let with = |status: u64| lines.iter().filter(|line| line["status"] == status).count();
        // The second may have changed on the way.
        assert!((100..=300).contains(&with(401)), "{}", with(401));
        assert_eq!((with(400), with(200)), (1, 1));
        assert!(lines.iter().any(|line| line.get("suppressed").is_some()));
    }
}
