use serde_json::json;

use super::*;

/// `Query.products:PC` and the like: fields with their types.
fn schema(fields: &[&str]) -> Schema {
    let mut schema =
        Schema { query: "Query".to_owned(), mutation: "Mutation".to_owned(), ..Schema::default() };
    for field in fields {
        let (path, of) = field.split_once(':').expect("a type");
        let (owner, name) = path.split_once('.').expect("a field");
        let (of, default) = of.split_once('=').map_or((of, None), |(of, default)| (of, Some(default)));
        let defaults = default.map(|default| ("first".to_owned(), default.to_owned())).into_iter().collect();
        let known = Known { of: Some(of.to_owned()), defaults };
        schema.types.entry(owner.to_owned()).or_default().insert(name.to_owned(), known);
    }
    schema
}

fn shop() -> Schema {
    schema(&[
        "Query.products:PC",
        "Query.top:PC=20",
        "Query.node:Node",
        "PC.nodes:Product",
        "Product.id:ID",
        "Product.name:String",
        "Product.reviews:RC",
        "RC.nodes:Review",
        "Review.id:ID",
        "Node.id:ID",
    ])
}

struct Case {
    strategy: Strategy,
    decorations: Json,
    variables: Json,
    operation: Option<&'static str>,
    resolves: bool,
}

impl Default for Case {
    fn default() -> Case {
        Case {
            strategy: Strategy::Complexity,
            decorations: json!([]),
            variables: json!({}),
            operation: None,
            resolves: true,
        }
    }
}

impl Case {
    fn by(decorations: Json) -> Case {
        Case { decorations, ..Case::default() }
    }

    fn quantifiers(decorations: Json) -> Case {
        Case { strategy: Strategy::NodeQuantifier, ..Case::by(decorations) }
    }

    /// Before what is added at the end.
    fn cost_in(&self, schema: Schema, text: &str) -> Result<f64, &'static str> {
        let weights = Weights::new(self.decorations.as_array().expect("a list").iter());
        let basis = Basis {
            strategy: self.strategy,
            weights: Some(Arc::new(weights)),
            schema: Some(Arc::new(schema)),
            resolves: self.resolves,
        };
        let question = Question {
            text: text.to_owned(),
            variables: self.variables.as_object().expect("an object").clone(),
            operation: self.operation.map(str::to_owned),
        };
        basis.cost(&Document::parse(text).expect("parses"), &question).map(|cost| cost - 0.01)
    }

    #[track_caller]
    fn costs(&self, text: &str, expected: f64) {
        let cost = self.cost_in(shop(), text).expect("a cost");
        assert!((cost - expected).abs() < 1e-6, "{text}: {cost} instead of {expected}");
    }
}

fn first(path: &str) -> Json {
    json!([{"field_path": path, "mul_arguments": ["first"]}])
}

#[test]
fn each_field_costs_and_multiplies() {
    Case::default().costs("{ products(first: 4) { nodes { id name } } }", 5.0);
    let products = Case::by(first("Query.products"));
    products.costs("query { products(first: 20) { nodes { ...F } } } fragment F on Product { name }", 42.0);
    products.costs("{ products(first: 20) { nodes { ...F ...F } } } fragment F on Product { name }", 62.0);
    products.costs("{ products(first: 20) { nodes { ... on Product { name } ...Unknown } } }", 42.0);
    products.costs("{ __typename products(first: 4) { nodes { id sku } } }", 15.0);
    products.costs("{ a: products(first: 5) { nodes { id } } b: products(first: 7) { nodes { id } } }", 27.0);
    let added = json!([{"field_path": "Query.products", "add_value": 3, "add_arguments": ["first", "x"], "mul_value": 2}]);
    Case::by(added).costs("{ products(first: 10) { nodes { id } } }", 1.0 + 2.0 * 2.0 + 3.0 + 10.0);
}

#[test]
fn fields_with_quantifiers_alone() {
    let both = json!([
        {"field_path": "Query.products", "mul_arguments": ["first"]},
        {"field_path": "Product.reviews", "mul_arguments": ["first"], "add_value": 42},
    ]);
    let text = "{ products(first: 100) { nodes { id reviews(first: 10) { nodes { id } } } } }";
    Case::quantifiers(both.clone()).costs(text, 1.0 + 100.0 * 42.0);
    Case::quantifiers(both).costs("{ products { nodes { id } } }", 0.0);
    let root = json!([{"field_path": "Query", "mul_value": 10}, {"field_path": "Query.products", "mul_arguments": ["first"]}]);
    Case::quantifiers(root).costs(text, 1.0);
}

#[test]
fn what_is_no_count() {
    let products = Case::by(first("Query.products"));
    for value in ["\"ten\"", "true", "[1]", "{a: 1}", "-3", "1e999", "null"] {
        products.costs(&format!("{{ products(first: {value}) {{ nodes {{ id }} }} }}"), 4.0);
    }
    products.costs("{ products(first: \"10\") { nodes { id } } }", 22.0);
}

#[test]
fn variables_and_defaults() {
    let text = "query Q($n: Int = 100) { products(first: $n) { nodes { id } } }";
    let with =
        |variables: Json, resolves: bool| Case { variables, resolves, ..Case::by(first("Query.products")) };
    with(json!({"n": 3}), true).costs(text, 8.0);
    with(json!({"n": "3"}), true).costs(text, 8.0);
    with(json!({"n": null}), true).costs(text, 4.0);
    with(json!({}), true).costs(text, 202.0);
    with(json!({"n": 3}), false).costs(text, 4.0);
    with(json!({}), true).costs("query Q($n: Int) { products(first: $n) { nodes { id } } }", 4.0);
    let two = "query A($n: Int = 2) { products(first: $n) { nodes { id } } } query B { products(first: $n) { nodes { id } } }";
    with(json!({}), true).costs(two, 6.0);
    // The schema's own default.
    Case::by(first("Query.top")).costs("{ top { nodes { id } } }", 42.0);
    Case { resolves: false, ..Case::by(first("Query.top")) }.costs("{ top { nodes { id } } }", 4.0);
    Case::by(first("Query.top")).costs("{ top(first: \"ten\") { nodes { id } } }", 4.0);
}

#[test]
fn the_operation_that_runs_or_the_dearest() {
    let text =
        "query A { products(first: 2) { nodes { id } } } query B { products(first: 100) { nodes { id } } }";
    let named = |operation| Case { operation, ..Case::by(first("Query.products")) };
    named(None).costs(text, 202.0);
    named(Some("A")).costs(text, 6.0);
    named(Some("C")).costs(text, 202.0);
}

#[test]
fn paths_and_types() {
    let text = "{ products(first: 4) { nodes { reviews(first: 3) { nodes { id } } } } }";
    Case::by(json!([{"field_path": "Query.products.nodes", "add_value": 9}]))
        .costs("{ products(first: 4) { nodes { id } } }", 12.0);
    let pinned = json!([{"field_path": "Query.products.nodes", "add_value": 9}]);
    Case::by(pinned).costs("{ products { nodes { id } } node { reviews { nodes { id } } } }", 16.0);
    let (shallow, deep) = (
        json!({"field_path": "Product.reviews", "mul_arguments": ["first"], "add_value": 2}),
        json!({"field_path": "Query.products.nodes.reviews", "add_value": 100}),
    );
    Case::by(json!([shallow, deep])).costs(text, 109.0);
    Case::by(json!([deep, shallow])).costs(text, 109.0);
    let cleared =
        json!({"field_path": "Query.products.nodes.reviews", "add_value": 100, "mul_arguments": []});
    Case::by(json!([cleared, shallow])).costs(text, 105.0);
    let text = "{ products(first: 4) { nodes { id name } } }";
    let ten = |path: &str| json!({"field_path": path, "mul_value": 10});
    Case::by(json!([ten("Query")])).costs(text, 41.0);
    Case::by(json!([ten("Product")])).costs(text, 23.0);
    Case::by(json!([{"field_path": "PC.nodes", "mul_value": 2}, ten("Product")])).costs(text, 7.0);
    Case::by(json!([ten("Review")])).costs(text, 5.0);
}

#[test]
fn fragments_are_of_their_type() {
    let dear = Case::by(json!([{"field_path": "Product.name", "add_value": 100}]));
    dear.costs("{ node { ... on Product { name } } }", 102.0);
    dear.costs("{ node { ...F } } fragment F on Product { name }", 102.0);
    dear.costs("{ node { ... on Unknown { id } } }", 3.0);
}

#[test]
fn what_fragments_stand_for_is_bounded() {
    let dag = |n: usize| {
        let parts: String =
            (1..=n).map(|i| format!("fragment f{i} on T {{ ...f{0} ...f{0} }} ", i - 1)).collect();
        format!("{{ t {{ ...f{n} }} }} fragment f0 on T {{ a }} {parts}")
    };
    Case::default().costs(&dag(10), 1026.0);
    assert_eq!(Case::default().cost_in(shop(), &dag(24)), Err("the query expands too many selections"));
    assert_eq!(Case::default().cost_in(shop(), &dag(200)), Err("it is nested too deeply"));
    Case::default().costs("{ t { ...A } } fragment A on T { a ...A }", 3.0);
}
