//! Masking of bodies. What cannot be masked is not shown.

use std::net::IpAddr;

use serde_json::Value;
use tidegate_backtrack::SearchTime;
use tidegate_plugin_api::{
    aside,
    document::{self, Allowance, Unread},
};

use super::{
    action::{Action, Masked, pairs},
    json_path::{Edit, JsonPath},
};

/// For the searches in a body that is read on another thread.
const PATIENCE: std::time::Duration = std::time::Duration::from_millis(200);

pub(super) struct Body {
    pub json: Vec<(JsonPath, Action)>,
    pub form: Vec<(Vec<u8>, Action)>,
    /// Longer bodies are not shown.
    pub bytes: usize,
    /// Further fields of a form are not shown.
    pub fields: usize,
}

impl Body {
    pub(super) fn is_empty(&self) -> bool {
        self.json.is_empty() && self.form.is_empty()
    }

    /// The body with its fields masked: as JSON if there are rules for JSON and it is that, else as a form if it is one.
    /// `is_form`: by its `Content-Type`, if it has one.
    pub(super) fn mask(
        &self,
        text: &[u8],
        is_coded: bool,
        is_form: Option<bool>,
        client: IpAddr,
    ) -> Option<Vec<u8>> {
        if is_coded || text.len() > self.bytes {
            return None;
        }
        let time = if text.len() > aside::SMALL { SearchTime::of(PATIENCE) } else { SearchTime::default() };
        if !self.json.is_empty() {
            match document::parse(text, &Allowance::of_a_body(Some(client))) {
                Ok(document) => return self.mask_json(document, &time),
                Err(Unread::Syntax(_)) if !self.form.is_empty() => {}
                Err(_) => return None,
            }
        }
        let is_form = is_form.unwrap_or_else(|| may_be_form(text));
        is_form.then(|| pairs(text, &self.form, self.fields, &time))
    }

    fn mask_json(&self, mut document: Value, time: &SearchTime) -> Option<Vec<u8>> {
        for (path, action) in &self.json {
            path.edit(&mut document, &mut |value| edit(value, action, time)).ok()?;
        }
        serde_json::to_vec(&document).ok()
    }
}

/// Whether it has no sign that browsers encode in forms, and other formats begin with or have between their parts.
fn may_be_form(text: &[u8]) -> bool {
    !text.trim_ascii_end().iter().any(|byte| byte.is_ascii_control() || b"<>{}[]\"".contains(byte))
}

/// A regular expression changes texts only.
fn edit(value: &mut Value, action: &Action, time: &SearchTime) -> Edit {
    let masked = match (action, &*value) {
        (Action::Regex(..), Value::String(text)) => action.apply(text.as_bytes(), time),
        (Action::Regex(..), _) => Masked::Unchanged,
        _ => action.apply(b"", time),
    };
    match masked {
        Masked::Removed => return Edit::Remove,
        Masked::Unchanged => {}
        Masked::Text(text) => *value = String::from_utf8_lossy(&text).into_owned().into(),
    }
    Edit::Keep
}
