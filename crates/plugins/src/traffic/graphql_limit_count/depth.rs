//! The depth of a document: levels of fields in each other. Fragments stand where they are spread.

use std::collections::HashMap;

use tidegate_plugin_api::graphql::{Document, MOST_DEPTH, Selection};

/// Of the operation that runs; of the deepest one where that is not said.
pub(super) fn of(document: &Document, wanted: Option<&str>) -> Result<f64, &'static str> {
    let mut walk = Walk { document, known: HashMap::new(), levels: 0 };
    let mut deepest = 1;
    for operation in document.running(wanted) {
        deepest = deepest.max(walk.selections(&operation.selections)?);
    }
    Ok(deepest as f64)
}

struct Walk<'d, 't> {
    document: &'d Document<'t>,
    /// Each fragment is measured once. `None`: it is being measured.
    known: HashMap<&'t str, Option<usize>>,
    levels: usize,
}

impl<'t> Walk<'_, 't> {
    fn selections(&mut self, selections: &[Selection<'t>]) -> Result<usize, &'static str> {
        Ok(1 + self.below(selections)?)
    }

    /// Levels below these selections.
    fn below(&mut self, selections: &[Selection<'t>]) -> Result<usize, &'static str> {
        // Fragments can lead deeper than braces do.
        if self.levels > 2 * MOST_DEPTH {
            return Err("it is nested too deeply");
        }
        self.levels += 1;
        let mut deepest = 0;
        for selection in selections {
            let depth = match selection {
                Selection::Field(field) if field.selections.is_empty() => 0,
                Selection::Field(field) => self.selections(&field.selections)?,
                Selection::Inline { selections, .. } => self.below(selections)?,
                Selection::Spread(name) => self.fragment(name)?,
            };
            deepest = deepest.max(depth);
        }
        self.levels -= 1;
        Ok(deepest)
    }

    fn fragment(&mut self, name: &'t str) -> Result<usize, &'static str> {
        match self.known.get(name) {
            Some(Some(depth)) => return Ok(*depth),
            Some(None) => return Err("fragment spreads must not form cycles"),
            None => {}
        }
        let document = self.document;
        let Some(fragment) = document.fragments.get(name) else { return Ok(0) };
        self.known.insert(name, None);
        let depth = self.below(&fragment.selections)?;
        self.known.insert(name, Some(depth));
        Ok(depth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn depth(text: &str) -> Result<f64, &'static str> {
        of(&Document::parse(text).expect("parses"), None)
    }

    #[test]
    fn the_operation_that_runs() {
        let document = Document::parse("query A { a } query B { b { c } }").expect("parses");
        for (wanted, depth) in [(None, 2.0), (Some("A"), 1.0), (Some("B"), 2.0), (Some("C"), 2.0)] {
            assert_eq!(of(&document, wanted), Ok(depth), "{wanted:?}");
        }
    }

    #[test]
    fn depths() {
        let cases = [
            ("{ a }", 1.0),
            ("query Q { foo { bar, baz { boo, bee, baa { bar_id, lol } } } }", 4.0),
            ("{ foo { ...F } } fragment F on T { bar, baz { boo, baa { lol } } }", 4.0),
            ("{ foo { ... on T { bar, baz { boo, baa { lol } } } } }", 4.0),
            ("{ u { ...A } } fragment A on U { p { ...B } } fragment B on P { c { a { id } } }", 5.0),
            ("{ ...Unknown a }", 1.0),
            ("query A { a } query B { a { b } }", 2.0),
            ("{ a(x: {y: {z: 1}}) }", 1.0),
        ];
        for (text, expected) in cases {
            assert_eq!(depth(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn fragments_in_a_row_and_in_circles() {
        let dag: String =
            (1..60).map(|n| format!("fragment f{n} on T {{ ...f{0} ...f{0} }} ", n - 1)).collect();
        assert_eq!(
            depth(&format!("{{ t {{ ...f59 }} }} fragment f0 on T {{ a {{ b {{ c }} }} }} {dag}")),
            Ok(4.0)
        );
        let circle = "{ u { ...A } } fragment A on U { id { ...B } } fragment B on U { ...A }";
        assert_eq!(depth(circle), Err("fragment spreads must not form cycles"));
        let row: String = (1..2000).map(|n| format!("fragment f{n} on T {{ ...f{} }} ", n - 1)).collect();
        let long = format!("{{ ...f1999 }} fragment f0 on T {{ a }} {row}");
        assert_eq!(depth(&long), Err("it is nested too deeply"));
    }
}
