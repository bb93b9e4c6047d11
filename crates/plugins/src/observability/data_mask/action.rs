//! What is done to a value, and to the pairs of a query or form.

use serde::Deserialize;
use tidegate_backtrack::SearchTime;
use tidegate_protocol::uri::percent_decode;

use crate::common::regexes::{Regex, Replacement};

#[derive(Deserialize)]
pub(super) struct Conf {
    action: Kind,
    regex: Option<String>,
    value: Option<String>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Remove,
    Replace,
    Regex,
}

pub(super) enum Action {
    Remove,
    Replace(String),
    /// The first match.
    Regex(Box<Regex>, Replacement),
}

pub(super) enum Masked {
    Unchanged,
    Removed,
    Text(Vec<u8>),
}

impl Action {
    pub(super) fn new(conf: Conf) -> Result<Action, String> {
        let value = conf.value.unwrap_or_default();
        Ok(match conf.action {
            Kind::Remove => Action::Remove,
            Kind::Replace => Action::Replace(value),
            Kind::Regex => {
                Replacement::check(&value)?;
                let regex = Regex::new(&conf.regex.unwrap_or_default(), false)?;
                Action::Regex(Box::new(regex), Replacement::new(&value))
            }
        })
    }

    /// A text in which the search gives up is removed: what should be hidden in it is not known.
    pub(super) fn apply(&self, text: &[u8], time: &SearchTime) -> Masked {
        let (regex, with) = match self {
            Action::Remove => return Masked::Removed,
            Action::Replace(value) => return Masked::Text(value.as_bytes().to_vec()),
            Action::Regex(regex, with) => (regex, with),
        };
        let groups = match regex.within(time).captures(text) {
            Ok(Some(groups)) => groups,
            Ok(None) => return Masked::Unchanged,
            Err(_) => return Masked::Removed,
        };
        let whole = groups.first().cloned().flatten().unwrap_or_default();
        let mut out = text.get(..whole.start).unwrap_or_default().to_vec();
        with.parts(text, &groups).for_each(|part| out.extend_from_slice(part));
        out.extend_from_slice(text.get(whole.end..).unwrap_or_default());
        Masked::Text(out)
    }
}

/// A query or form, as far as its first pairs go, with those masked that have a rule; the others stay as they were sent.
pub(super) fn pairs(text: &[u8], rules: &[(Vec<u8>, Action)], most: usize, time: &SearchTime) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let pairs = text.split(|&byte| byte == b'&').filter(|pair| !pair.is_empty());
    for pair in pairs.take(most) {
        let start = out.len();
        if start > 0 {
            out.push(b'&');
        }
        if !push_pair(&mut out, pair, rules, time) {
            out.truncate(start);
        }
    }
    out
}

/// `false`: the pair is left out.
fn push_pair(out: &mut Vec<u8>, pair: &[u8], rules: &[(Vec<u8>, Action)], time: &SearchTime) -> bool {
    let at = pair.iter().position(|&byte| byte == b'=');
    let (name, value) = pair.split_at(at.unwrap_or(pair.len()));
    let decoded = percent_decode(name, true);
    let mut masked = None;
    for (_, action) in rules.iter().filter(|(wanted, _)| *wanted == decoded) {
        let value = masked.take().unwrap_or_else(|| percent_decode(value.get(1..).unwrap_or_default(), true));
        match action.apply(&value, time) {
            Masked::Removed => return false,
            Masked::Unchanged => {}
            Masked::Text(text) => masked = Some(text),
        }
    }
    let Some(masked) = masked else {
        out.extend_from_slice(pair);
        return true;
    };
    out.extend_from_slice(name);
    out.push(b'=');
    push_encoded(out, &masked);
    true
}

/// As JavaScript's `encodeURIComponent`: asterisks stay readable.
fn push_encoded(out: &mut Vec<u8>, text: &[u8]) {
    for &byte in text {
        if byte.is_ascii_alphanumeric() || b"-_.!~*'()".contains(&byte) {
            out.push(byte);
        } else {
            out.extend_from_slice(format!("%{byte:02X}").as_bytes());
        }
    }
}
