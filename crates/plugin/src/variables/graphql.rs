//! Just enough of the GraphQL language (October 2021 edition, section 2) to route by: the first operation's kind,
//! name and root fields. Lexes tokens and counts brackets; never evaluates.

pub struct Operation {
    /// `query`, `mutation` or `subscription`.
    pub kind: &'static str,
    pub name: String,
    pub root_fields: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Token<'a> {
    Name(&'a str),
    Punctuation(u8),
    Other,
}

pub fn first_operation(document: &str) -> Option<Operation> {
    let tokens = tokens(document)?;
    let mut at = 0;
    loop {
        match *tokens.get(at)? {
            Token::Punctuation(b'{') => {
                return Some(Operation {
                    kind: "query",
                    name: String::new(),
                    root_fields: fields(&tokens, at)?,
                });
            }
            Token::Name(word @ ("query" | "mutation" | "subscription")) => {
                let name = match tokens.get(at + 1) {
                    Some(Token::Name(name)) => (*name).to_owned(),
                    _ => String::new(),
                };
                let kind = match word {
                    "query" => "query",
                    "mutation" => "mutation",
                    _ => "subscription",
                };
                let open = selection_start(&tokens, at)?;
                return Some(Operation { kind, name, root_fields: fields(&tokens, open)? });
            }
            // A fragment definition before the operation: skip its selection set.
            Token::Name("fragment") => at = closing(&tokens, selection_start(&tokens, at)?)? + 1,
            _ => return None,
        }
    }
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

/// Field names at the first level of a selection set; of an aliased field its real name.
fn fields(tokens: &[Token], open: usize) -> Option<Vec<String>> {
    let end = closing(tokens, open)?;
    let mut names = Vec::new();
    let mut at = open + 1;
    while at < end {
        match tokens.get(at)? {
            Token::Name(name) => {
                if tokens.get(at + 1) == Some(&Token::Punctuation(b':')) {
                    at += 2;
                    continue;
                }
                names.push((*name).to_owned());
                at += 1;
            }
            Token::Punctuation(b'{' | b'(' | b'[') => at = closing(tokens, at)? + 1,
            // Spreads and directives: their names are no fields.
            Token::Punctuation(b'.') => {
                at += 1;
                if matches!(tokens.get(at), Some(Token::Name("on"))) {
                    at += 1;
                }
                at += 1;
            }
            Token::Punctuation(b'@') => at += 2,
            _ => at += 1,
        }
    }
    Some(names)
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

    #[test]
    fn operations() {
        let cases = [
            ("{ owner { name } repo(id: {a: 1}) }", Some(("query", "", "owner,repo"))),
            ("query getRepo($x: I = {a: 1}) { owner: who { n } }", Some(("query", "getRepo", "who"))),
            (
                "mutation { add(t: \"}\") @skip(if: true) { ok } ...F ... on X { y } }",
                Some(("mutation", "", "add")),
            ),
            ("fragment F on T { a } subscription S { s }", Some(("subscription", "S", "s"))),
            ("# c\nquery Q { \"\"\"d\"\"\" a }", Some(("query", "Q", "a"))),
            ("{ a", None),
            ("", None),
            ("type T { a: Int }", None),
        ];
        for (document, expected) in cases {
            let found = first_operation(document);
            let found = found.as_ref().map(|o| (o.kind, o.name.clone(), o.root_fields.join(",")));
            let expected = expected.map(|(kind, name, fields)| (kind, name.to_owned(), fields.to_owned()));
            assert_eq!(found, expected, "{document}");
        }
    }
}
