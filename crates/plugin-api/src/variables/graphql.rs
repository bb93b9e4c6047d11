//! What routes see of a GraphQL request: kind, name and root fields of the operation that a server would run.

use ahash::AHashMap;

use crate::graphql::{Document, Fragment, Selection};

/// Root fields of an operation: a document could name tens of thousands.
const MAX_ROOT_FIELDS: usize = 1000;

#[derive(Debug)]
pub(super) struct Operation {
    /// `query`, `mutation` or `subscription`.
    pub kind: &'static str,
    pub name: String,
    /// Those of fragments included.
    pub(crate) root_fields: Vec<String>,
}

/// The operation that runs: the one with the wanted name, or the only one. `None`: the document cannot be read, or the
/// operation is ambiguous.
pub(super) fn operation(text: &str, wanted: Option<&str>) -> Option<Operation> {
    let mut document = Document::parse(text).ok()?;
    let mut fragments = std::mem::take(&mut document.fragments);
    let chosen = document.operation(wanted)?;
    let mut names = Vec::new();
    collect(&chosen.selections, &mut fragments, &mut names)?;
    Some(Operation { kind: chosen.kind.as_str(), name: chosen.name.to_owned(), root_fields: names })
}

/// Takes each fragment that is spread out of `fragments`, so that one that spreads itself ends there. `None`: there are too
/// many fields.
fn collect<'t>(
    selections: &[Selection<'t>],
    fragments: &mut AHashMap<&'t str, Fragment<'t>>,
    names: &mut Vec<String>,
) -> Option<()> {
    let mut spread = Vec::new();
    in_place(selections, &mut spread, names)?;
    while let Some(name) = spread.pop() {
        if let Some(fragment) = fragments.remove(name) {
            in_place(&fragment.selections, &mut spread, names)?;
        }
    }
    Some(())
}

/// The fields of a selection and of inline fragments in it.
fn in_place<'t>(
    selections: &[Selection<'t>],
    spread: &mut Vec<&'t str>,
    names: &mut Vec<String>,
) -> Option<()> {
    for selection in selections {
        match selection {
            Selection::Field(_) if names.len() == MAX_ROOT_FIELDS => return None,
            Selection::Field(field) => names.push(field.name.to_owned()),
            Selection::Spread(name) => spread.push(name),
            Selection::Inline { selections, .. } => in_place(selections, spread, names)?,
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(document: &str, wanted: Option<&str>) -> Option<(&'static str, String, String)> {
        operation(document, wanted).map(|found| (found.kind, found.name, found.root_fields.join(",")))
    }

    #[test]
    fn operations() {
        let cases = [
            ("{ owner { name } repo(id: {a: 1}) }", Some(("query", "", "owner,repo"))),
            ("query getRepo($x: I = {a: 1}) { owner: who { n } }", Some(("query", "getRepo", "who"))),
            (
                "mutation { add(t: \"}\") @skip(if: true) { ok } ...F ... on X { y } }",
                Some(("mutation", "", "add,y")),
            ),
            ("fragment F on T { a } subscription S { s }", Some(("subscription", "S", "s"))),
            ("# c\n\"\"\"d\"\"\" query Q { a }", Some(("query", "Q", "a"))),
            (
                "{ a ...F } fragment F on T { b ...G ...F } fragment G on T { c { d } }",
                Some(("query", "", "a,b,c")),
            ),
            (
                "{ ... @include(if: true) { a { b } ... on T @x(y: {z: 1}) { c } } d }",
                Some(("query", "", "a,c,d")),
            ),
            (&format!("{{ {} }}", "a ".repeat(MAX_ROOT_FIELDS + 1)), None),
            ("query A { a } query B { b }", None),
            ("{ a } type T { a: Int }", None),
            ("{ a", None),
            ("", None),
            ("type T { a: Int }", None),
        ];
        for (document, expected) in cases {
            let expected = expected.map(|(kind, name, fields)| (kind, name.to_owned(), fields.to_owned()));
            assert_eq!(found(document, None), expected, "{document}");
        }
    }

    #[test]
    fn the_named_operation_runs() {
        let document = "query A { a } mutation B { b } query C { c } query C { d }";
        for (wanted, expected) in [("A", Some("a")), ("B", Some("b")), ("C", None), ("D", None), ("", None)] {
            let fields = found(document, Some(wanted)).map(|(_, _, fields)| fields);
            assert_eq!(fields.as_deref(), expected, "{wanted}");
        }
    }
}
