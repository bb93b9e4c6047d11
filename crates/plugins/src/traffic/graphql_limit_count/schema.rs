//! What a GraphQL service says of its schema, as far as costs need it.

use std::collections::HashMap;

use serde::Deserialize;

/// What is asked: root types, and of each type its fields with their types and the defaults of their arguments.
pub(super) const QUESTION: &str = "query { __schema { queryType { name } mutationType { name } subscriptionType { name } \
    types { name fields { name args { name defaultValue } type { ...Wrapped } } } } } \
    fragment Wrapped on __Type { name ofType { name ofType { name ofType { name ofType { name ofType { name \
    ofType { name ofType { name ofType { name } } } } } } } } }";

/// By type.
#[derive(Debug, Default)]
pub(super) struct Schema {
    pub query: String,
    pub mutation: String,
    pub subscription: String,
    pub types: HashMap<String, Fields>,
}

/// Of one type, by name.
pub(super) type Fields = HashMap<String, Known>;

#[derive(Debug, Default)]
pub(super) struct Known {
    /// Lists and the like aside.
    pub of: Option<String>,
    /// Of arguments, as they stand in the schema.
    pub defaults: HashMap<String, String>,
}

#[derive(Deserialize)]
struct Answer {
    data: Option<Data>,
}

#[derive(Deserialize)]
struct Data {
    #[serde(rename = "__schema")]
    schema: Option<Said>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Said {
    query_type: Option<Named>,
    mutation_type: Option<Named>,
    subscription_type: Option<Named>,
    types: Vec<Type>,
}

#[derive(Deserialize)]
struct Named {
    name: Option<String>,
}

#[derive(Deserialize)]
struct Type {
    name: Option<String>,
    fields: Option<Vec<Field>>,
}

#[derive(Deserialize)]
struct Field {
    name: String,
    args: Option<Vec<Argument>>,
    #[serde(rename = "type")]
    kind: Option<Wrapped>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Argument {
    name: String,
    default_value: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wrapped {
    name: Option<String>,
    of_type: Option<Box<Wrapped>>,
}

impl Wrapped {
    fn named(self) -> Option<String> {
        match (self.name, self.of_type) {
            (Some(name), _) => Some(name),
            (None, Some(inner)) => inner.named(),
            (None, None) => None,
        }
    }
}

impl Schema {
    pub(super) fn of_answer(body: &[u8]) -> Result<Schema, String> {
        let answer: Answer = serde_json::from_slice(body)
            .map_err(|error| format!("failed to decode the introspection response: {error}"))?;
        let data = answer.data.ok_or("introspection response has no data field")?;
        let said = data.schema.ok_or("introspection response has no __schema.types")?;
        let root = |named: Option<Named>, usual: &str| {
            named.and_then(|named| named.name).unwrap_or_else(|| usual.to_owned())
        };
        Ok(Schema {
            query: root(said.query_type, "Query"),
            mutation: root(said.mutation_type, "Mutation"),
            subscription: root(said.subscription_type, "Subscription"),
            types: said.types.into_iter().filter_map(known_type).collect(),
        })
    }
}

fn known_type(of: Type) -> Option<(String, Fields)> {
    let field = |field: Field| {
        let defaults = field.args.into_iter().flatten();
        let defaults = defaults.filter_map(|argument| Some((argument.name, argument.default_value?)));
        let known = Known { of: field.kind.and_then(Wrapped::named), defaults: defaults.collect() };
        (field.name, known)
    };
    Some((of.name?, of.fields?.into_iter().map(field).collect()))
}

#[cfg(test)]
mod tests {
    use tidegate_plugin_api::graphql::Document;

    use super::*;

    #[test]
    fn what_is_asked_can_be_read() {
        assert!(Document::parse(QUESTION).is_ok());
    }

    #[test]
    fn what_is_answered() {
        let text = r#"{"data": {"__schema": {"queryType": {"name": "Root"}, "mutationType": null, "types": [
            {"name": "Root", "fields": [{"name": "products", "args": [{"name": "first", "defaultValue": "20"}],
                "type": {"name": null, "ofType": {"name": null, "ofType": {"name": "Product"}}}}]},
            {"name": "Int", "fields": null}
        ]}}}"#;
        let schema = Schema::of_answer(text.as_bytes()).expect("a schema");
        assert_eq!((schema.query.as_str(), schema.mutation.as_str()), ("Root", "Mutation"));
        let products = &schema.types["Root"]["products"];
        assert_eq!((products.of.as_deref(), products.defaults["first"].as_str()), (Some("Product"), "20"));
        assert!(!schema.types.contains_key("Int"));
        for text in ["", "{}", r#"{"data": {}}"#, r#"{"data": {"__schema": {}}}"#] {
            assert!(Schema::of_answer(text.as_bytes()).is_err(), "{text}");
        }
    }
}
