//! Objects into a running gateway: all of them in one step, or none.
//!
//! The gateway tells what an earlier import of the same kind has left, and what was changed by hand since: what becomes of that is
//! for the caller to decide.

use anyhow::{Context, bail};
use serde_json::{Map, Value};
use tidegate_import::Output;

use crate::cli::{
    admin_api::{Answer, Question, ask_for},
    count::objects,
    printable::printable,
    stdout,
};

/// What becomes of the objects of an earlier import that this one does not write, and of what was changed since.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Earlier {
    Refuse,
    Replace,
    Keep,
}

impl Earlier {
    fn name(self) -> &'static str {
        match self {
            Earlier::Refuse => "refuse",
            Earlier::Replace => "replace",
            Earlier::Keep => "keep",
        }
    }
}

/// What is asked, and what to do where settings describe no Admin API that can be asked.
pub(super) const QUESTION: Question<'static> = Question {
    method: "PUT",
    path: "import",
    content_type: "application/json",
    body: "",
    instead: "give --admin, or --to, which writes a file",
};

/// The Admin API of the gateway.
pub(super) struct Gateway<'a> {
    pub admin: &'a str,
    /// Empty where it asks for none.
    pub key: &'a str,
}

/// Merges the objects into the configuration of the gateway.
pub(super) fn apply(
    output: &Output,
    kind: &str,
    gateway: &Gateway<'_>,
    earlier: Earlier,
) -> anyhow::Result<()> {
    let mut document = Map::new();
    for (collection, objects) in output.lists() {
        if !objects.iter().all(has_id) {
            bail!("an object of {collection} has no id; --apply needs one for each, and nothing was written");
        }
        document.insert(collection.to_owned(), objects.into());
    }
    let question = Question {
        path: &format!("import?mode=merge&source={kind}&earlier={}", earlier.name()),
        body: &Value::Object(document).to_string(),
        instead: "start it, or give --admin",
        ..QUESTION
    };
    let answer = ask_for(gateway.admin, Some(gateway.key).filter(|key| !key.is_empty()), &question)?;
    if answer.status == 409
        && let Some(refusal) = refusal(&answer)
    {
        bail!("{refusal}");
    }
    let answer: Value =
        serde_json::from_str(&answer.success()?).context("the Admin API answered without JSON")?;
    for (list, why) in [("kept", "kept as it was changed by hand"), ("left", "kept, and not in the file")] {
        for name in answer[list].as_array().into_iter().flatten().filter_map(Value::as_str) {
            stdout::line(&format!("{why}: {}", printable(name)));
        }
    }
    let changed = objects(answer["changes"].as_array().map_or(0, Vec::len) as u64);
    let revision = &answer["revision"];
    stdout::line(&format!("{changed} changed; the configuration is at revision {revision}"));
    Ok(())
}

const INSTEAD_OF_KEEPING: &str = "Write into them what the file has, take the change by hand back, delete them, or write them under \
                                  a name of their own without the label imported-from; --replace overwrites what was changed and \
                                  removes what the file does not have";

/// With the options of this command in place of arguments of the Admin API.
fn refusal(answer: &Answer) -> Option<String> {
    let body: Value = serde_json::from_str(&answer.body).ok()?;
    let any = |name: &str| body.get(name).and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    let message = body.get("error_msg")?.as_str()?;
    if any("not_kept") {
        return Some(format!("{message}. {INSTEAD_OF_KEEPING}"));
    }
    let (changed, left) = (any("changed"), any("left"));
    let (replace, keep) = match (changed, left) {
        (true, true) => ("overwrites the former and removes the latter", "leaves both as they are"),
        (true, false) => ("overwrites them", "leaves them as they are"),
        (false, true) => ("removes them in the same step", "leaves them"),
        (false, false) => return None,
    };
    Some(format!("{message}. --replace {replace}, --keep {keep}"))
}

/// Without one it would have another id with each import.
fn has_id(object: &Value) -> bool {
    ["id", "username"].iter().any(|name| object.get(name).is_some_and(|id| !id.is_null()))
}
