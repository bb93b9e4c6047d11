//! What a place in the file does with requests: cases, the first that holds counts.

use serde_json::{Map, Value, json};

use super::condition::Condition;

/// The path that an upstream gets.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Sent {
    /// That of the request.
    Whole,
    /// What `proxy_pass` says, and the part of the request's path behind the location's.
    Behind { location: String, base: String },
    /// Another one, whatever the request's is.
    Decided,
}

#[derive(Clone, Debug)]
pub(crate) struct Branch {
    pub condition: Condition,
    pub plugins: Map<String, Value>,
    pub upstream: Option<Value>,
    pub sent: Sent,
    /// `Upgrade` goes to the upstream.
    pub upgrades: bool,
    /// Why it answers 501.
    pub closed: Option<String>,
}

impl Branch {
    pub(crate) fn new(plugins: Map<String, Value>, upstream: Option<Value>) -> Branch {
        let (condition, sent) = (Condition::Always, Sent::Whole);
        Branch { condition, plugins, upstream, sent, upgrades: false, closed: None }
    }

    pub(crate) fn closed(why: impl Into<String>) -> Branch {
        Branch { closed: Some(why.into()), ..Branch::new(Map::new(), None) }
    }

    /// A status, with nginx's meaning of 444: the connection is closed without an answer.
    pub(crate) fn status(status: u16) -> Branch {
        let abort = json!({"abort": {"http_status": status}});
        Branch::new(Map::from_iter([("fault-injection".to_owned(), abort)]), None)
    }

    pub(crate) fn when(mut self, condition: &Condition) -> Branch {
        self.condition = Condition::all([condition.clone(), self.condition]);
        self
    }
}

/// Each of them under another condition too; what never holds is left out.
pub(crate) fn all_when(branches: Vec<Branch>, condition: &Condition) -> Vec<Branch> {
    let all = branches.into_iter().map(|branch| branch.when(condition));
    all.filter(|branch| branch.condition != Condition::Never).collect()
}
