//! Groups: all plugins that name one must be configured alike.

use std::sync::Arc;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use serde_json::Value;

struct Group {
    conf: Value,
    members: Arc<()>,
}

/// Held by a built configuration as long as it belongs to its group.
pub(super) struct Member(#[allow(dead_code)] Option<Arc<()>>);

static GROUPS: Mutex<Option<FxHashMap<String, Group>>> = Mutex::new(None);

pub(super) fn check(group: &str, conf: &Value) -> Result<(), String> {
    let mut groups = GROUPS.lock();
    let groups = groups.get_or_insert_default();
    let mut conf = conf.clone();
    if let Some(conf) = conf.as_object_mut() {
        conf.remove("_meta");
    }
    match groups.get_mut(group) {
        // It is no longer in use: the new configuration defines it.
        Some(known) if Arc::strong_count(&known.members) == 1 => {
            known.conf = conf;
            Ok(())
        }
        Some(known) if known.conf != conf => Err("group conf mismatched".to_owned()),
        Some(_) => Ok(()),
        None => {
            groups.retain(|_, group| Arc::strong_count(&group.members) > 1);
            groups.insert(group.to_owned(), Group { conf, members: Arc::default() });
            Ok(())
        }
    }
}

pub(super) fn join(group: &str) -> Member {
    let mut groups = GROUPS.lock();
    Member(groups.get_or_insert_default().get(group).map(|group| group.members.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn members_are_configured_alike() {
        assert_eq!(check("alike", &json!({ "count": 1 })), Ok(()));
        let member = join("alike");
        assert_eq!(check("alike", &json!({ "count": 1, "_meta": {} })), Ok(()));
        assert_eq!(check("alike", &json!({ "count": 2 })), Err("group conf mismatched".to_owned()));
        drop(member);
        assert_eq!(check("alike", &json!({ "count": 2 })), Ok(()));
    }
}
