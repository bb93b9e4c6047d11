//! What schemas say of objects.

use serde_json::{Map, Value};

use super::{At, Check, Checked, Dialect, Seen};

impl Check<'_> {
    pub(super) fn object(
        &self,
        rules: &Map<String, Value>,
        members: &Map<String, Value>,
        at: &At,
        depth: usize,
        seen: &mut Seen,
    ) -> Checked {
        let limit = |name: &str| rules.get(name).and_then(Value::as_f64);
        if limit("minProperties").is_some_and(|least| (members.len() as f64) < least) {
            return at.fails("it has too few properties");
        }
        if limit("maxProperties").is_some_and(|most| members.len() as f64 > most) {
            return at.fails("it has too many properties");
        }
        let table = |name: &str| rules.get(name).and_then(Value::as_object);
        let properties = table("properties");
        self.required(rules, properties, members, at)?;
        self.dependent(rules, members, at, depth, seen)?;
        let patterns = table("patternProperties");
        let others = rules.get("additionalProperties");
        for (name, member) in members {
            let here = at.name(name);
            let mut is_known = false;
            if let Some(schema) = properties.and_then(|properties| properties.get(name)) {
                is_known = true;
                self.visit(schema, member, &here, depth + 1, &mut Seen::default())?;
            }
            for (pattern, schema) in patterns.into_iter().flatten() {
                if self.matches(pattern, name)? {
                    is_known = true;
                    self.visit(schema, member, &here, depth + 1, &mut Seen::default())?;
                }
            }
            match others.filter(|_| !is_known) {
                Some(Value::Bool(false)) => return here.fails("there is no such property"),
                Some(schema) => {
                    is_known = true;
                    self.visit(schema, member, &here, depth + 1, &mut Seen::default())?;
                }
                None => {}
            }
            if is_known && self.schemas.has_unevaluated {
                seen.names.insert(name.clone());
            }
            if let Some(schema) = rules.get("propertyNames") {
                let name = Value::from(name.as_str());
                self.visit(schema, &name, &here, depth + 1, &mut Seen::default())?;
            }
        }
        Ok(())
    }

    fn required(
        &self,
        rules: &Map<String, Value>,
        properties: Option<&Map<String, Value>>,
        members: &Map<String, Value>,
        at: &At,
    ) -> Checked {
        let names = rules.get("required").and_then(Value::as_array).into_iter().flatten();
        for name in names.filter_map(Value::as_str).filter(|name| !members.contains_key(*name)) {
            // OpenAPI 3.0: what only answers have is required of answers only.
            let schema = properties.and_then(|properties| properties.get(name));
            let is_of_answers = self.schemas.dialect == Dialect::V30
                && schema.is_some_and(|schema| {
                    self.schemas.followed(schema).get("readOnly").and_then(Value::as_bool) == Some(true)
                });
            if !is_of_answers {
                return at.fails(format!("property \"{name}\" is required"));
            }
        }
        Ok(())
    }

    fn dependent(
        &self,
        rules: &Map<String, Value>,
        members: &Map<String, Value>,
        at: &At,
        depth: usize,
        seen: &mut Seen,
    ) -> Checked {
        let table = |name: &str| rules.get(name).and_then(Value::as_object).into_iter().flatten();
        for (name, needed) in table("dependentRequired").filter(|(name, _)| members.contains_key(*name)) {
            let mut needed = needed.as_array().into_iter().flatten().filter_map(Value::as_str);
            if let Some(missing) = needed.find(|needed| !members.contains_key(*needed)) {
                return at.fails(format!("property \"{missing}\" is required beside \"{name}\""));
            }
        }
        for (_, schema) in table("dependentSchemas").filter(|(name, _)| members.contains_key(*name)) {
            self.visit(schema, &Value::Object(members.clone()), at, depth + 1, seen)?;
        }
        Ok(())
    }
}
