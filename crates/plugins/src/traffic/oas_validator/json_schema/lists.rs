//! What schemas say of lists.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::{At, Check, Checked, Failed, Seen, compare};

impl Check<'_> {
    pub(super) fn list(
        &self,
        rules: &Map<String, Value>,
        items: &[Value],
        at: &At,
        depth: usize,
        seen: &mut Seen,
    ) -> Checked {
        let limit = |name: &str| rules.get(name).and_then(Value::as_f64);
        if limit("minItems").is_some_and(|least| (items.len() as f64) < least) {
            return at.fails("it has too few items");
        }
        if limit("maxItems").is_some_and(|most| items.len() as f64 > most) {
            return at.fails("it has too many items");
        }
        if rules.get("uniqueItems").and_then(Value::as_bool) == Some(true) {
            self.unique(items, at)?;
        }
        let first = rules.get("prefixItems").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        for (place, (schema, item)) in first.iter().zip(items).enumerate() {
            self.visit(schema, item, &at.place(place), depth + 1, &mut Seen::default())?;
            seen.places.insert(place);
        }
        if let Some(schema) = rules.get("items") {
            for (place, item) in items.iter().enumerate().skip(first.len()) {
                self.visit(schema, item, &at.place(place), depth + 1, &mut Seen::default())?;
            }
            if self.schemas.has_unevaluated {
                seen.places.extend(0..items.len());
            }
        }
        self.contains(rules, items, at, depth, seen)
    }

    fn unique(&self, items: &[Value], at: &At) -> Checked {
        let mut known = HashSet::with_capacity(items.len());
        for item in items {
            let mut text = String::new();
            compare::write(item, &mut text);
            // Long texts take their time.
            self.count(1 + text.len() / 64)?;
            if !known.insert(text) {
                return at.fails("two of its items are equal");
            }
        }
        Ok(())
    }

    fn contains(
        &self,
        rules: &Map<String, Value>,
        items: &[Value],
        at: &At,
        depth: usize,
        seen: &mut Seen,
    ) -> Checked {
        let Some(schema) = rules.get("contains") else { return Ok(()) };
        let limit = |name: &str| rules.get(name).and_then(Value::as_f64);
        let mut found = 0;
        for (place, item) in items.iter().enumerate() {
            match self.visit(schema, item, &at.place(place), depth + 1, &mut Seen::default()) {
                Ok(()) => {
                    found += 1;
                    seen.places.insert(place);
                }
                Err(Failed::Invalid(_)) => {}
                Err(Failed::Unjudged) => return Err(Failed::Unjudged),
            }
        }
        let found = f64::from(found);
        if found < limit("minContains").unwrap_or(1.0) {
            return at.fails("too few of its items are what contains asks for");
        }
        if limit("maxContains").is_some_and(|most| found > most) {
            return at.fails("too many of its items are what contains asks for");
        }
        Ok(())
    }
}
