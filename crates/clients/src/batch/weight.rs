//! The bytes that an entry takes until it is sent: its own, and those of its encoding.

use serde_json::{Map, Value};

/// What an entry takes in memory.
pub trait Weigh {
    /// Bytes, its own size included.
    fn held(&self) -> usize;

    /// The bytes written for a receiver.
    fn encoded(&self) -> usize {
        self.held()
    }

    /// The output grows by doubling, or is joined from parts: twice its size at most.
    fn weight(&self) -> usize {
        self.held() + 2 * self.encoded()
    }
}

impl Weigh for String {
    fn held(&self) -> usize {
        size_of::<String>() + self.capacity()
    }

    /// Control characters take six bytes in JSON, quotes and backslashes two.
    fn encoded(&self) -> usize {
        let escapes = self.bytes().map(|byte| match byte {
            0..0x20 => 5,
            b'"' | b'\\' => 1,
            _ => 0,
        });
        2 + self.len() + escapes.sum::<usize>()
    }
}

/// The bytes of a number, `true`, `null`, or the punctuation around a member.
const SHORT: usize = 16;

impl Weigh for Value {
    fn held(&self) -> usize {
        size_of::<Value>()
            + match self {
                Value::String(text) => text.capacity(),
                Value::Array(items) => items.iter().map(Value::held).sum(),
                Value::Object(members) => members.held(),
                Value::Null | Value::Bool(_) | Value::Number(_) => 0,
            }
    }

    fn encoded(&self) -> usize {
        match self {
            Value::String(text) => text.encoded(),
            Value::Array(items) => SHORT + items.iter().map(|item| 1 + item.encoded()).sum::<usize>(),
            Value::Object(members) => members.encoded(),
            Value::Null | Value::Bool(_) | Value::Number(_) => SHORT,
        }
    }
}

impl Weigh for Map<String, Value> {
    /// Each member has a hash and a place in a table as well.
    fn held(&self) -> usize {
        self.iter().map(|(name, value)| SHORT + size_of::<String>() + name.len() + value.held()).sum()
    }

    fn encoded(&self) -> usize {
        SHORT + self.iter().map(|(name, value)| SHORT + name.len() + value.encoded()).sum::<usize>()
    }
}

impl<T: Weigh> Weigh for (String, T) {
    fn held(&self) -> usize {
        self.0.held() + self.1.held()
    }

    fn encoded(&self) -> usize {
        self.0.encoded() + self.1.encoded()
    }
}

impl<T: Weigh> Weigh for [T] {
    fn held(&self) -> usize {
        self.iter().map(T::held).sum()
    }

    fn encoded(&self) -> usize {
        self.iter().map(T::encoded).sum()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn no_entry_is_longer_than_its_weight_says() {
        for value in [
            json!(null),
            json!(-1.797_693_134_862_315_7e308),
            json!("\u{1}\"\\ä\u{1f600}"),
            json!({"a": {"b": [1, true, "x"]}, "\n": "y".repeat(100)}),
        ] {
            let text = value.to_string();
            assert!(text.len() <= value.encoded() + 16, "{text}: {}", value.encoded());
        }
        let body = Value::from("\u{1}".repeat(1000));
        assert!(body.encoded() >= 6000 && body.held() >= 1000);
    }
}
