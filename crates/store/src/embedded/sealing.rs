//! Secrets on their way to and from the disk; they are plain in memory.
//!
//! An object with a secret that cannot be decrypted stays in memory as it is on disk, with a fault: its encrypted text
//! must not be taken for the secret, nor be encrypted a second time.

use std::sync::Arc;

use serde_json::Value;
use tidegate_model::{Document, Fault, Kind, Object};

/// Whether the value has a secret that stays in plain and looks encrypted.
pub(super) type Encrypt = Box<dyn Fn(Kind, &str, &mut Value) -> bool + Send + Sync>;
/// The error says which secret cannot be decrypted, and what to do.
pub(crate) type Decrypt = Box<dyn Fn(Kind, &str, &mut Value) -> Result<(), String> + Send + Sync>;

/// Encryption at rest. Both or none: what `encrypt` writes, `decrypt` must read.
#[derive(Default)]
pub struct Hooks {
    /// Before a value goes to the disk.
    pub encrypt: Option<Encrypt>,
    /// After it comes from there.
    pub decrypt: Option<Decrypt>,
}

/// Stands behind the text of an object that was written in plain and looks encrypted. A part of the file format: programs
/// that do not know of it read JSON with a blank behind it.
const PLAIN: char = ' ';

/// A value at rest.
pub(super) struct Sealed {
    pub value: Arc<Value>,
    /// It looks encrypted and is not.
    pub is_plain: bool,
}

impl Hooks {
    /// The value of an object as stored on disk.
    pub(super) fn seal(&self, object: &Object) -> Sealed {
        let value = object.value();
        // Only what could not be decrypted has a fault here.
        let encrypt = self.encrypt.as_ref().filter(|_| object.fault.is_none());
        let Some(encrypt) = encrypt else { return Sealed { value, is_plain: false } };
        let mut value = Arc::unwrap_or_clone(value);
        let is_plain = encrypt(object.kind, &object.id, &mut value);
        Sealed { value: Arc::new(value), is_plain }
    }

    /// The text of an object as stored on disk.
    pub(super) fn text_of(&self, object: &Object) -> String {
        if self.encrypt.is_none() || object.fault.is_some() {
            return object.document.text().to_owned();
        }
        let Sealed { value, is_plain } = self.seal(object);
        let mut text = value.to_string();
        if is_plain {
            text.push(PLAIN);
        }
        text
    }

    /// The object with its secrets in plain, or with its fault.
    pub(super) fn open(&self, mut object: Object) -> Object {
        if let Some(text) = object.document.text().strip_suffix(PLAIN) {
            if let Some(document) = Document::parse(text) {
                object.document = document;
            }
            return object;
        }
        let mut value = object.value();
        match self.open_value(object.kind, &object.id, &mut value) {
            Ok(false) => {}
            Ok(true) => object.document = Document::new(&value),
            Err(reason) => {
                object.fault = Some(Box::new(Fault { reason: reason.into(), in_text: true, place: None }));
            }
        }
        object
    }

    /// Whether it has changed; with an error it has not.
    pub(super) fn open_value(&self, kind: Kind, id: &str, value: &mut Arc<Value>) -> Result<bool, String> {
        let Some(decrypt) = &self.decrypt else { return Ok(false) };
        let mut opened = Value::clone(value);
        decrypt(kind, id, &mut opened)?;
        // Most objects have no secret, and keep their text.
        let has_changed = opened != **value;
        if has_changed {
            *value = Arc::new(opened);
        }
        Ok(has_changed)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(text: &str) -> Object {
        let document = Document::parse(text).expect("JSON");
        Object {
            kind: Kind::Consumer,
            id: "a".into(),
            document,
            created: 1,
            modified: 1,
            fault: None,
            unread: None,
        }
    }

    fn hooks(is_on: bool) -> Hooks {
        let encrypt: Encrypt = Box::new(move |_, _, value| {
            if is_on {
                *value = json!([value]);
            }
            !is_on
        });
        let decrypt: Decrypt = Box::new(|_, _, value| match value.get_mut(0).map(Value::take) {
            Some(opened) if opened != json!("lost") => {
                *value = opened;
                Ok(())
            }
            _ => Err("no key fits".to_owned()),
        });
        Hooks { encrypt: Some(encrypt), decrypt: Some(decrypt) }
    }

    #[test]
    fn what_is_sealed_opens() {
        let text = hooks(true).text_of(&object(r#"{"a":1}"#));
        assert_eq!(text, r#"[{"a":1}]"#);
        let opened = hooks(true).open(object(&text));
        assert_eq!((&*opened.value(), opened.fault), (&json!({"a": 1}), None));
    }

    #[test]
    fn what_was_written_in_plain_stays_plain() {
        let text = hooks(false).text_of(&object(r#"["lost"]"#));
        let opened = hooks(true).open(object(&text));
        assert_eq!((opened.document.text(), opened.fault), (r#"["lost"]"#, None));
    }

    #[test]
    fn what_does_not_open_is_not_sealed_twice() {
        let opened = hooks(true).open(object(r#"["lost"]"#));
        assert!(opened.fault.as_ref().is_some_and(|fault| &*fault.reason == "no key fits"));
        assert_eq!(hooks(true).text_of(&opened), r#"["lost"]"#);
    }
}
