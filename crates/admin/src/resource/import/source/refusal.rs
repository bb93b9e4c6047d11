//! Why an import was refused, with the objects that it is about.

use std::collections::HashSet;

use serde_json::json;

use super::outlook::{Changed, Key, named};
use crate::message::Response;

/// So many objects of each sort are named in the message; the lists beside it have all.
pub(super) const MOST_NAMED: usize = 20;

pub(super) fn refuse(source: &str, changed: &[Changed], left: &[Key], touched: &HashSet<Key>) -> Response {
    let mut message = format!("import of {source} refused, nothing was written");
    if !changed.is_empty() {
        let texts: Vec<String> = changed.iter().map(text).collect();
        message.push_str(&format!(
            ". It would overwrite objects that were changed by hand, and with them perhaps a guard: {}",
            some_of(&texts)
        ));
    }
    let names: Vec<String> = left.iter().map(named).collect();
    if !left.is_empty() {
        let remark = |key: &Key| if touched.contains(key) { " (changed by hand since)" } else { "" };
        let texts: Vec<String> = left.iter().map(|key| format!("{}{}", named(key), remark(key))).collect();
        message.push_str(&format!(
            ". An earlier import of {source} wrote objects that this file does not have: {}. They would stay, and may answer \
             requests without the guards of this file",
            some_of(&texts)
        ));
    }
    let changed: Vec<String> = changed.iter().map(|changed| named(&changed.key)).collect();
    let remedy = "earlier=replace overwrites what was changed and removes what the file does not have, earlier=keep leaves both";
    Response::json(409, &json!({"error_msg": message, "remedy": remedy, "changed": changed, "left": names}))
}

/// Of `earlier=keep`, with the reasons.
pub(super) fn cannot_keep(source: &str, reasons: &[(Key, String)]) -> Response {
    let texts: Vec<String> = reasons.iter().map(|(key, why)| format!("{} ({why})", named(key))).collect();
    let message = format!(
        "import of {source} refused, nothing was written. These objects cannot be kept beside what this file has: {}",
        some_of(&texts)
    );
    let names: Vec<String> = reasons.iter().map(|(key, _)| named(key)).collect();
    let remedy = "write into them what the file has, take the change by hand back, delete them, or write them under a name of their \
                  own without the label imported-from; earlier=replace overwrites what was changed and removes what the file does not have";
    Response::json(409, &json!({"error_msg": message, "remedy": remedy, "not_kept": names}))
}

fn some_of(names: &[String]) -> String {
    let more = names.len().saturating_sub(MOST_NAMED);
    let named = names.iter().take(MOST_NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    if more == 0 { named } else { format!("{named} and {more} more") }
}

fn text(changed: &Changed) -> String {
    let by = changed.by.as_ref().map(|by| format!(": {by}")).unwrap_or_default();
    format!("{} ({}{by})", named(&changed.key), changed.why)
}
