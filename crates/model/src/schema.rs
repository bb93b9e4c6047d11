//! JSON schema as APISIX uses it: the draft 4 to 7 subset of the Lua library `jsonschema`, with its wording.
//!
//! A schema is compiled once into a flat list of nodes and then checked often. Checking also fills in the
//! `default`s of absent properties, which is why it takes the value mutably.
//!
//! Two habits of Lua are kept on purpose, since answers and defaults depend on them: an empty array and an
//! empty object are the same thing, and `1.0` is an integer. Properties are checked in the order in which the
//! schema lists them, so the same input always gives the same message.
//!
//! Not here: remote references, `id`-based scopes, `format`s that the library does not know (they pass).

mod annotations;
mod budget;
mod check;
mod compile;
mod equality;
pub mod lua;
mod meta;
mod pattern;
pub(super) mod rules;

use std::time::Duration;

use serde_json::Value;
use tidegate_backtrack::SearchTime;

use self::rules::References;

pub use self::{
    budget::Failure,
    rules::{Schema, is_secret_reference},
};

/// The default limit for the steps of one check. A visit of a node is one.
pub const MOST_STEPS: u32 = 2_000_000;

/// The time that patterns may take for a value of a configuration: many on short texts are many searches.
const SEARCHES_OF_A_CONFIGURATION: Duration = Duration::from_millis(100);

impl Schema {
    /// Compiles `schema`; the error names what cannot be compiled (an unknown type, a broken pattern).
    pub fn compile(schema: &Value) -> Result<Schema, String> {
        compile::compile(schema, References::Everywhere)
    }

    /// As [`Schema::compile`] for an object of which only properties with these names may be references to secrets.
    pub(crate) fn with_references_in(
        schema: &Value,
        names: &'static [&'static str],
    ) -> Result<Schema, String> {
        compile::compile(schema, References::In(names))
    }

    /// Compiles a schema that a user wrote, for data that clients send: the schema itself is checked first, and texts
    /// that look like references to secrets are texts. The error starts with the JSON pointer of the fault.
    pub fn from_user(schema: &Value) -> Result<Schema, String> {
        meta::check(schema)?;
        Ok(Schema { is_of_configuration: false, ..compile::compile(schema, References::In(&[]))? })
    }

    /// Parts of a schema that [`Schema::from_user`] takes but that have no effect: each text begins with the
    /// JSON pointer.
    pub fn remarks(schema: &Value) -> Vec<String> {
        meta::remarks(schema)
    }

    /// Checks `value` and fills defaults into it. The error is the library's message, without any prefix.
    pub fn check(&self, value: &mut Value) -> Result<(), String> {
        let searches = SearchTime::of(SEARCHES_OF_A_CONFIGURATION);
        self.check_within(value, MOST_STEPS, &searches).map_err(Failure::into_message)
    }

    /// As [`Schema::check`], with a limit of steps, for data of a client: its patterns have the time of the request.
    pub fn check_within(&self, value: &mut Value, steps: u32, searches: &SearchTime) -> Result<(), Failure> {
        check::check_root(self, value, steps, searches)
    }
}

#[cfg(test)]
mod tests;
