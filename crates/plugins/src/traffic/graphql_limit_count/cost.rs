//! What a query costs by the decorations of its service.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value as Json;
use tidegate_plugin_api::graphql::{
    Document, Field, Kind, MOST_DEPTH, Operation, Selection, Value,
    weights::{Position, Weight, Weights},
};

use super::schema::{Known, Schema};
use crate::common::graphql_request::Question;

/// Selections that one document may stand for, fragments included.
const MOST_SELECTIONS: usize = 100_000;

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(super) enum Strategy {
    Depth,
    /// Every field costs, and multiplies what is below it.
    Complexity,
    /// Only fields with an argument that multiplies cost.
    NodeQuantifier,
}

/// What costs are counted by.
pub(super) struct Basis {
    pub strategy: Strategy,
    pub weights: Option<Arc<Weights>>,
    pub schema: Option<Arc<Schema>>,
    /// Variables and defaults count.
    pub resolves: bool,
}

impl Basis {
    /// Of the operation that runs; of the dearest one where that is not said. What costs nothing still costs something.
    pub(super) fn cost(&self, document: &Document, question: &Question) -> Result<f64, &'static str> {
        let mut dearest = 0.0_f64;
        for operation in document.running(question.operation.as_deref()) {
            dearest = dearest.max(self.of_operation(document, operation, question)?);
        }
        Ok(dearest + 0.01)
    }

    fn of_operation(
        &self,
        document: &Document,
        operation: &Operation,
        question: &Question,
    ) -> Result<f64, &'static str> {
        let mut walk =
            Walk { basis: self, document, operation, question, left: MOST_SELECTIONS, spread: Vec::new() };
        let root = self.schema.as_deref().map(|schema| match operation.kind {
            Kind::Query => schema.query.as_str(),
            Kind::Mutation => schema.mutation.as_str(),
            Kind::Subscription => schema.subscription.as_str(),
        });
        let positions: Vec<&Position> = root.and_then(|root| self.of_type(root)).into_iter().collect();
        let own = Own { add: 1.0, multiply: 1.0, has_quantifier: false };
        let own = Weight::at(&positions).map_or(own, |weight| walk.own(&weight, None, None));
        let place = Place { of: root, positions };
        walk.node(own, &operation.selections, &place, 1.0)
    }

    fn of_type(&self, name: &str) -> Option<&Position> {
        self.weights.as_deref()?.of_type(name)
    }
}

/// Where a selection stands: the type that its fields are of, and the paths that lead here.
struct Place<'b> {
    of: Option<&'b str>,
    positions: Vec<&'b Position>,
}

/// What a field costs itself.
#[derive(Clone, Copy)]
struct Own {
    add: f64,
    multiply: f64,
    has_quantifier: bool,
}

struct Walk<'b, 't> {
    basis: &'b Basis,
    document: &'b Document<'t>,
    operation: &'b Operation<'t>,
    question: &'b Question,
    left: usize,
    /// Fragments around the selection at hand: one that spreads itself ends there.
    spread: Vec<&'t str>,
}

impl<'b, 't> Walk<'b, 't> {
    /// `times`: how often the field is resolved.
    fn node(
        &mut self,
        own: Own,
        selections: &'b [Selection<'t>],
        place: &Place<'b>,
        times: f64,
    ) -> Result<f64, &'static str> {
        match self.basis.strategy {
            Strategy::NodeQuantifier if own.has_quantifier => {
                Ok(times * own.add + self.selections(selections, place, times * own.multiply, 0)?)
            }
            Strategy::NodeQuantifier => self.selections(selections, place, times, 0),
            _ => Ok(self.selections(selections, place, 1.0, 0)? * own.multiply + own.add),
        }
    }

    /// The sum of these selections. `levels`: fragments around them, up to the field that they are of.
    fn selections(
        &mut self,
        selections: &'b [Selection<'t>],
        place: &Place<'b>,
        times: f64,
        levels: usize,
    ) -> Result<f64, &'static str> {
        if levels > MOST_DEPTH || self.spread.len() > MOST_DEPTH {
            return Err("it is nested too deeply");
        }
        let mut sum = 0.0;
        for selection in selections {
            self.left = self.left.checked_sub(1).ok_or("the query expands too many selections")?;
            sum += match selection {
                Selection::Field(field) => self.field(field, place, times)?,
                Selection::Inline { on, selections } => {
                    self.selections(selections, &self.narrowed(place, *on), times, levels + 1)?
                }
                Selection::Spread(name) => match self.document.fragments.get(name) {
                    Some(fragment) if !self.spread.contains(name) => {
                        self.spread.push(name);
                        let place = self.narrowed(place, Some(fragment.on));
                        let cost = self.selections(&fragment.selections, &place, times, levels + 1)?;
                        self.spread.pop();
                        cost
                    }
                    _ => 0.0,
                },
            };
        }
        Ok(sum)
    }

    fn field(&mut self, field: &'b Field<'t>, place: &Place<'b>, times: f64) -> Result<f64, &'static str> {
        let basis = self.basis;
        let fields = place.of.and_then(|of| basis.schema.as_deref()?.types.get(of));
        let known = fields.and_then(|fields| fields.get(field.name));
        let of = known.and_then(|known| known.of.as_deref());
        let mut positions: Vec<&Position> =
            place.positions.iter().filter_map(|position| position.field(field.name)).collect();
        positions.extend(of.and_then(|of| basis.of_type(of)));
        let own = Own { add: 1.0, multiply: 1.0, has_quantifier: false };
        let own = Weight::at(&positions).map_or(own, |weight| self.own(&weight, Some(field), known));
        self.node(own, &field.selections, &Place { of, positions }, times)
    }

    /// Of a fragment for a type. One that the schema does not know changes nothing.
    fn narrowed(&self, place: &Place<'b>, on: Option<&str>) -> Place<'b> {
        let basis = self.basis;
        let known = on.and_then(|on| basis.schema.as_deref()?.types.get_key_value(on));
        let mut positions = place.positions.clone();
        let Some((of, _)) = known.filter(|(of, _)| Some(of.as_str()) != place.of) else {
            return Place { of: place.of, positions };
        };
        positions.extend(basis.of_type(of));
        Place { of: Some(of), positions }
    }

    fn own(&self, weight: &Weight, field: Option<&Field>, known: Option<&Known>) -> Own {
        let mut own = Own {
            add: weight.add.unwrap_or(1.0),
            multiply: weight.multiply.unwrap_or(1.0),
            has_quantifier: false,
        };
        let count = |name: &String| self.count(field?, name, known);
        own.add += weight.add_arguments.iter().flatten().filter_map(count).sum::<f64>();
        for count in weight.multiply_arguments.iter().flatten().filter_map(count) {
            own.multiply *= count;
            own.has_quantifier = true;
        }
        own
    }

    /// The number that an argument has. What does not count (a text, a negative number) would be an error there, or a discount.
    fn count(&self, field: &Field, name: &str, known: Option<&Known>) -> Option<f64> {
        let argument = field.arguments.iter().find(|(other, _)| *other == name).map(|(_, value)| value);
        let value = match argument {
            Some(Value::Variable(variable)) => self.variable(variable),
            Some(value) => Some(literal(value)),
            None => None,
        };
        let schema_default = || {
            let default = known.filter(|_| self.basis.resolves)?.defaults.get(name)?;
            Some(number(default.trim_matches('"')))
        };
        value.or_else(schema_default).flatten()
    }

    /// `None`: it has no value. `Some(None)`: not one that counts.
    fn variable(&self, name: &str) -> Option<Option<f64>> {
        if !self.basis.resolves {
            return None;
        }
        if let Some(value) = self.question.variables.get(name) {
            return Some(match value {
                Json::Number(value) => value.as_f64().filter(|value| *value >= 0.0),
                Json::String(text) => number(text),
                _ => None,
            });
        }
        let declared = self.operation.variables.iter().find(|(other, _)| *other == name);
        declared.and_then(|(_, default)| default.as_ref()).map(literal)
    }
}

fn literal(value: &Value) -> Option<f64> {
    match value {
        Value::Number(text) | Value::Text(text) => number(text),
        _ => None,
    }
}

/// As Lua reads it, but for its own forms.
fn number(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0)
}

#[cfg(test)]
mod tests;
