//! A compiled schema, as the check uses it.

use serde_json::Value;

use super::pattern::Pattern;

/// How deep values and schemas may nest before a check gives up with a message.
pub(crate) const DEPTH_LIMIT: usize = 96;

/// A compiled schema.
#[derive(Debug)]
pub struct Schema {
    pub(crate) nodes: Vec<Node>,
    pub(crate) root: usize,
    /// For what users configure, as opposed to data of clients.
    pub(super) is_of_configuration: bool,
}

/// Where a schema takes references to secrets for texts: where they are replaced.
#[derive(Clone, Copy, Debug)]
pub(crate) enum References {
    Everywhere,
    /// In properties with these names.
    In(&'static [&'static str]),
}

/// Whether `text` is a reference to a secret, which is resolved later and therefore not checked now.
pub fn is_secret_reference(text: &str) -> bool {
    text.starts_with("$secret://") || text.get(..7).is_some_and(|head| head.eq_ignore_ascii_case("$env://"))
}

/// Position of a sub-schema in `Schema::nodes`.
pub(crate) type Index = usize;

#[derive(Debug, Default)]
pub(crate) struct Node {
    /// `true` and `false` are schemas, too.
    pub always: Option<bool>,
    /// References to secrets pass in place of the secrets.
    pub(crate) takes_references: bool,
    /// A `$ref`: that node has all the rules.
    pub(crate) same_as: Option<Index>,
    pub types: Option<Types>,
    pub object: Option<Box<ObjectRules>>,
    pub array: Option<Box<ArrayRules>>,
    pub string: Option<Box<StringRules>>,
    pub number: Option<Box<NumberRules>>,
    pub allowed: Option<Vec<Value>>,
    pub(crate) all_of: Vec<Index>,
    pub any_of: Option<AnyOf>,
    pub(crate) one_of: Option<Vec<Index>>,
    pub condition: Option<Condition>,
    pub not: Option<Index>,
    pub(crate) property_names: Option<Index>,
    pub format: Option<Format>,
    pub constant: Option<Value>,
    pub contains: Option<Contains>,
}

#[derive(Debug)]
pub(crate) enum Types {
    One(Type),
    Several(Vec<Type>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Object,
    Array,
    Table,
    Integer,
    Number,
    String,
    Boolean,
    Null,
    Function,
}

impl Type {
    pub(crate) const ALL: [Type; 9] = [
        Type::Object,
        Type::Array,
        Type::Table,
        Type::Integer,
        Type::Number,
        Type::String,
        Type::Boolean,
        Type::Null,
        Type::Function,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Type::Object => "object",
            Type::Array => "array",
            Type::Table => "table",
            Type::Integer => "integer",
            Type::Number => "number",
            Type::String => "string",
            Type::Boolean => "boolean",
            Type::Null => "null",
            Type::Function => "function",
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct ObjectRules {
    pub properties: Vec<Property>,
    /// Required names without a schema for them.
    pub required: Vec<String>,
    /// `required: []`: the library then wants an empty table.
    pub(crate) must_be_empty: bool,
    /// Dependencies of names without a schema for them.
    pub dependencies: Vec<(String, Dependency)>,
    pub patterns: Vec<(Pattern, Index)>,
    pub additional: Additional,
    pub minimum: Option<u64>,
    pub maximum: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct Property {
    pub name: String,
    pub schema: Index,
    pub required: bool,
    pub default: Option<Value>,
    /// The cost of filling in the default, in steps.
    pub default_weight: usize,
    pub(crate) dependency: Option<Dependency>,
}

#[derive(Debug)]
pub(crate) enum Dependency {
    Names(Vec<String>),
    Schema(Index),
}

#[derive(Debug, Default)]
pub(crate) enum Additional {
    #[default]
    Allowed,
    Forbidden,
    Checked(Index),
}

#[derive(Debug, Default)]
pub(crate) struct ArrayRules {
    pub minimum: Option<u64>,
    pub maximum: Option<u64>,
    pub items: Items,
    pub unique: bool,
}

#[derive(Debug, Default)]
pub(crate) enum Items {
    #[default]
    Any,
    Never,
    Each(Index),
    Tuple(Vec<Index>, Additional),
}

#[derive(Debug, Default)]
pub(crate) struct StringRules {
    pub minimum: Option<u64>,
    pub maximum: Option<u64>,
    pub pattern: Option<Pattern>,
}

#[derive(Debug, Default)]
pub(crate) struct NumberRules {
    pub minimum: Option<f64>,
    pub(crate) exclusive_minimum: Option<f64>,
    pub maximum: Option<f64>,
    pub(crate) exclusive_maximum: Option<f64>,
    pub(crate) multiple_of: Option<f64>,
}

#[derive(Debug)]
pub(crate) struct AnyOf {
    pub schemas: Vec<Index>,
    /// `: ["a"] or ["b"]` when some of the alternatives list required names.
    pub hint: String,
}

#[derive(Debug)]
pub(crate) struct Condition {
    pub condition: Index,
    pub matched: Option<Index>,
    pub unmatched: Option<Index>,
}

#[derive(Debug)]
pub(crate) enum Format {
    Ipv4,
    Ipv6,
    Pattern(&'static str, Pattern),
}

#[derive(Debug)]
pub(crate) enum Contains {
    Always,
    Never,
    Schema(Index),
}
