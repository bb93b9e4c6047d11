//! Just enough of the GraphQL language (October 2021 edition, section 2) to route by: kind, name and root fields of the
//! operation that a server would run. Lexes tokens and counts brackets; never evaluates.

use ahash::AHashMap;

/// Root fields of an operation: a megabyte could name half a million.
const MAX_ROOT_FIELDS: usize = 1000;

#[derive(Debug)]
pub(super) struct Operation {
    /// `query`, `mutation` or `subscription`.
    pub kind: &'static str,
    pub name: String,
    /// Those of fragments included.
    pub(crate) root_fields: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Token<'a> {
    Name(&'a str),
    Punctuation(u8),
    Other,
}

struct Definition<'a> {
    kind: &'static str,
    name: &'a str,
    /// Where its selection set begins.
    open: usize,
}

/// The operation that runs (section 6.1): the one with the wanted name, or the only one. `None`: the document cannot be
/// read, or the operation is ambiguous.
pub(super) fn operation(document: &str, wanted: Option<&str>) -> Option<Operation> {
    let tokens = tokens(document)?;
    let (mut operations, mut fragments) = (Vec::new(), AHashMap::default());
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        let kind = match token {
            Token::Punctuation(b'{') | Token::Name("query") => "query",
            Token::Name("mutation") => "mutation",
            Token::Name("subscription") => "subscription",
            Token::Name("fragment") => "fragment",
            _ => return None,
        };
        let name = match (token, tokens.get(at + 1)) {
            (Token::Name(_), Some(Token::Name(name))) => name,
            _ => "",
        };
        let open = selection_start(&tokens, at)?;
        match kind {
            "fragment" => _ = fragments.insert(name, open),
            kind => operations.push(Definition { kind, name, open }),
        }
        at = closing(&tokens, open)? + 1;
    }
    let chosen = match (wanted, operations.as_slice()) {
        (_, [only]) => only,
        (Some(wanted), several) => {
            let mut named = several.iter().filter(|operation| operation.name == wanted);
            named.next().filter(|_| named.next().is_none())?
        }
        (None, _) => return None,
    };
    let root_fields = root_fields(&tokens, chosen.open, &mut fragments)?;
    Some(Operation { kind: chosen.kind, name: chosen.name.to_owned(), root_fields })
}

/// Removes each fragment that is spread at the first level from `fragments`, so that one that spreads itself
/// ends there.
fn root_fields<'a>(
    tokens: &[Token<'a>],
    open: usize,
    fragments: &mut AHashMap<&'a str, usize>,
) -> Option<Vec<String>> {
    let (mut names, mut sets) = (Vec::new(), vec![open]);
    while let Some(open) = sets.pop() {
        for spread in fields(tokens, open, &mut names)? {
            sets.extend(fragments.remove(spread));
        }
    }
    Some(names)
}

/// The `{` of a definition's selection set: the first one outside of parentheses (default values hold braces too).
fn selection_start(tokens: &[Token], from: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (at, token) in tokens.iter().enumerate().skip(from) {
        match token {
            Token::Punctuation(b'(') => depth += 1,
            Token::Punctuation(b')') => depth = depth.checked_sub(1)?,
            Token::Punctuation(b'{') if depth == 0 => return Some(at),
            _ => {}
        }
    }
    None
}

fn closing(tokens: &[Token], open: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token {
            Token::Punctuation(b'{' | b'(' | b'[') => depth += 1,
            Token::Punctuation(b'}' | b')' | b']') => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

/// Adds the field names at the first level of a selection set, of an aliased field its real name, and returns the
/// fragments that it spreads. The fields of an inline fragment count at the level around it.
fn fields<'a>(tokens: &[Token<'a>], open: usize, names: &mut Vec<String>) -> Option<Vec<&'a str>> {
    let end = closing(tokens, open)?;
    let (mut spread, mut at, mut is_inline) = (Vec::new(), open + 1, false);
    while at < end {
        match *tokens.get(at)? {
            Token::Name(name) => {
                at += 1;
                match tokens.get(at) {
                    Some(Token::Punctuation(b':')) => at += 1,
                    _ if names.len() == MAX_ROOT_FIELDS => return None,
                    _ => names.push(name.to_owned()),
                }
            }
            Token::Punctuation(b'{') if is_inline => {
                is_inline = false;
                at += 1;
            }
            Token::Punctuation(b'{' | b'(' | b'[') => at = closing(tokens, at)? + 1,
            Token::Punctuation(b'.') => match tokens.get(at + 1) {
                Some(Token::Name("on")) => (at, is_inline) = (at + 3, true),
                Some(Token::Name(name)) => {
                    spread.push(*name);
                    at += 2;
                }
                _ => (at, is_inline) = (at + 1, true),
            },
            // The name of a directive is not a field.
            Token::Punctuation(b'@') => at += 2,
            _ => at += 1,
        }
    }
    Some(spread)
}

fn tokens(document: &str) -> Option<Vec<Token<'_>>> {
    let bytes = document.as_bytes();
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' | b',' | 0xef | 0xbb | 0xbf => at += 1,
            b'#' => at += bytes[at..].iter().position(|&b| b == b'\n').unwrap_or(bytes.len() - at),
            b'"' => {
                at = string_end(bytes, at)?;
                out.push(Token::Other);
            }
            b'.' => {
                // `...` is one token.
                at += bytes[at..].iter().take_while(|&&b| b == b'.').count();
                out.push(Token::Punctuation(b'.'));
            }
            b'{' | b'}' | b'(' | b')' | b'[' | b']' | b':' | b'=' | b'!' | b'|' | b'@' | b'&' | b'$' => {
                out.push(Token::Punctuation(byte));
                at += 1;
            }
            b'_' | b'a'..=b'z' | b'A'..=b'Z' => {
                let length =
                    bytes[at..].iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count();
                out.push(Token::Name(document.get(at..at + length)?));
                at += length;
            }
            b'-' | b'+' | b'0'..=b'9' => {
                at += 1;
                out.push(Token::Other);
            }
            _ => return None,
        }
    }
    Some(out)
}

fn string_end(bytes: &[u8], start: usize) -> Option<usize> {
    if bytes.get(start..start + 3) == Some(b"\"\"\"") {
        let body = bytes.get(start + 3..)?;
        return memchr::memmem::find(body, b"\"\"\"").map(|at| start + 3 + at + 3);
    }
    let mut at = start + 1;
    loop {
        match bytes.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            b'\n' => return None,
            _ => at += 1,
        }
    }
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
            ("# c\nquery Q { \"\"\"d\"\"\" a }", Some(("query", "Q", "a"))),
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
