//! What fields of a service's schema cost: its `graphql_cost_decorations`, ready to be matched.

use rustc_hash::FxHashMap;
use serde_json::Value;

/// The decorations of one service, by the paths that they name.
///
/// A path begins with a type; each further name is the field that leads on. A lone type stands for every field that has it.
#[derive(Debug, Default)]
pub struct Weights {
    root: Position,
}

/// A place on some paths.
#[derive(Debug, Default)]
pub struct Position {
    next: FxHashMap<Box<str>, Position>,
    weight: Option<Weight>,
    depth: usize,
}

/// What a decoration says. What it leaves unsaid, a shorter path may say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Weight {
    /// `add_value`
    pub add: Option<f64>,
    /// `mul_value`
    pub multiply: Option<f64>,
    /// `add_arguments`
    pub add_arguments: Option<Vec<String>>,
    /// `mul_arguments`
    pub multiply_arguments: Option<Vec<String>>,
}

impl Weights {
    /// Of decorations as they are stored. Of two for one path the last counts.
    pub fn new<'v>(decorations: impl Iterator<Item = &'v Value>) -> Weights {
        let mut weights = Weights::default();
        for decoration in decorations {
            let Some(path) = decoration.get("field_path").and_then(Value::as_str) else { continue };
            let mut at = &mut weights.root;
            for (depth, name) in path.split('.').filter(|name| !name.is_empty()).enumerate() {
                at = at.next.entry(name.into()).or_default();
                at.depth = depth + 1;
            }
            if at.depth > 0 {
                at.weight = Some(Weight::of(decoration));
            }
        }
        weights
    }

    /// Where the paths of a type begin.
    pub fn of_type(&self, name: &str) -> Option<&Position> {
        self.root.next.get(name)
    }
}

impl Position {
    /// Where the paths go on with a field.
    pub fn field(&self, name: &str) -> Option<&Position> {
        self.next.get(name)
    }
}

impl Weight {
    fn of(decoration: &Value) -> Weight {
        let number = |name: &str| decoration.get(name).and_then(Value::as_f64);
        let names = |name: &str| {
            let items = decoration.get(name)?.as_array()?.iter();
            Some(items.filter_map(Value::as_str).map(str::to_owned).collect())
        };
        Weight {
            add: number("add_value"),
            multiply: number("mul_value"),
            add_arguments: names("add_arguments"),
            multiply_arguments: names("mul_arguments"),
        }
    }

    /// What the decorations at these positions say together: where they differ, the longer path counts.
    pub fn at(positions: &[&Position]) -> Option<Weight> {
        let mut found: Vec<&Position> =
            positions.iter().copied().filter(|position| position.weight.is_some()).collect();
        found.sort_by_key(|position| position.depth);
        found.into_iter().filter_map(|position| position.weight.clone()).reduce(|shorter, longer| Weight {
            add: longer.add.or(shorter.add),
            multiply: longer.multiply.or(shorter.multiply),
            add_arguments: longer.add_arguments.or(shorter.add_arguments),
            multiply_arguments: longer.multiply_arguments.or(shorter.multiply_arguments),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn longer_paths_win_key_by_key() {
        let list = [
            json!({"field_path": "Query.products.reviews", "add_value": 100}),
            json!({"field_path": "Product.reviews", "add_value": 2, "mul_arguments": ["first"]}),
            json!({"field_path": "", "add_value": 5}),
        ];
        let weights = Weights::new(list.iter());
        let pinned = weights.of_type("Query").and_then(|at| at.field("products")?.field("reviews"));
        let anywhere = weights.of_type("Product").and_then(|at| at.field("reviews"));
        let positions: Vec<&Position> = [pinned, anywhere].into_iter().flatten().collect();
        let expected = Weight {
            add: Some(100.0),
            multiply_arguments: Some(vec!["first".to_owned()]),
            ..Weight::default()
        };
        assert_eq!(Weight::at(&positions), Some(expected));
        assert_eq!(Weight::at(&[]), None);
        assert!(weights.of_type("Review").is_none());
    }
}
