//! A JSON value kept as text.

use std::{cell::RefCell, sync::Arc};

use serde_json::Value;

use crate::schema::lua;

/// A parsed route takes ten times the memory of its text, and is needed only when it is compiled or asked for. So
/// only the text is kept; callers that need the value parse it.
///
/// Every consumer of the configuration reads numbers here, and gets integers where Lua would not see a difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document(Arc<str>);

/// Compiling or checking an object asks for its value several times in a row.
const REMEMBERED: usize = 4;

thread_local! {
    static PARSED: RefCell<Vec<(Document, Arc<Value>)>> = const { RefCell::new(Vec::new()) };
}

impl Document {
    /// Serializes the value.
    pub fn new(value: &Value) -> Document {
        Document(value.to_string().into())
    }

    /// `None` when it is not JSON.
    pub fn parse(text: &str) -> Option<Document> {
        serde_json::from_str::<serde::de::IgnoredAny>(text).ok()?;
        Some(Document(text.into()))
    }

    /// The JSON text.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Parses the text. Each thread keeps the values of the last few documents.
    pub fn value(&self) -> Arc<Value> {
        PARSED.with_borrow_mut(|parsed| {
            if let Some((_, value)) = parsed.iter().find(|(document, _)| Arc::ptr_eq(&document.0, &self.0)) {
                return value.clone();
            }
            // Written by `Document::new`, so it can be read.
            let mut value = serde_json::from_str(&self.0).unwrap_or_default();
            lua::whole_numbers(&mut value);
            let value = Arc::new(value);
            if parsed.len() == REMEMBERED {
                parsed.remove(0);
            }
            parsed.push((self.clone(), value));
            parsed.last().map(|(_, value)| value.clone()).unwrap_or_default()
        })
    }

    /// Whether an object in it may have this field: cheaper than parsing, and `false` is certain.
    pub fn may_have(&self, field: &str) -> bool {
        let mut rest = self.text();
        while let Some(at) = rest.find(field) {
            let (before, after) = (rest.get(..at).unwrap_or_default(), rest.get(at + field.len()..));
            if before.ends_with('"') && after.is_some_and(|after| after.starts_with('"')) {
                return true;
            }
            rest = after.unwrap_or_default();
        }
        // A name may be written with escapes.
        self.text().contains('\\')
    }

    /// Whether this text may be anywhere in it. Cheaper than reading it.
    pub fn may_hold(&self, text: &str) -> bool {
        let found = |text: &str| self.text().contains(text);
        found(text) || found(&text.to_ascii_uppercase()) || found("\\")
    }
}

/// `null`.
impl Default for Document {
    fn default() -> Document {
        Document::new(&Value::Null)
    }
}

impl From<Value> for Document {
    fn from(value: Value) -> Document {
        Document::new(&value)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_come_back() {
        let values = [
            json!({}),
            json!({"b": [1, -2.5, "x\"\\\u{1}ü"], "a": null}),
            json!(18_446_744_073_709_551_615_u64),
        ];
        for value in values {
            let document = Document::new(&value);
            assert_eq!((&*document.value(), &*document.value()), (&value, &value));
        }
    }

    #[test]
    fn whole_numbers_are_integers() {
        let document = Document::parse(r#"{"code":503.0,"rate":0.5,"list":[1e3,-2.0],"far":1e300}"#);
        let value = document.map(|document| document.value());
        let expected = json!({"code": 503, "rate": 0.5, "list": [1000, -2], "far": 1e300});
        assert_eq!(value.as_deref(), Some(&expected));
    }

    #[test]
    fn the_last_few_are_remembered() {
        let documents: Vec<_> = (0..10).map(|number| Document::new(&json!({"n": number}))).collect();
        let first = documents.first().map(Document::value);
        for (number, document) in documents.iter().enumerate() {
            assert_eq!(document.value().get("n"), Some(&json!(number)));
        }
        assert_eq!(first, documents.first().map(Document::value));
    }

    #[test]
    fn fields() {
        let document = Document::new(&json!({"upstream_id": "1", "plugins": {"x": {"id": 1}}}));
        assert!(document.may_have("upstream_id") && document.may_have("id"));
        assert!(!document.may_have("stream_id") && !document.may_have("service_id"));
    }
}
