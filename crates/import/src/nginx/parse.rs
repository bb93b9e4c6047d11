//! The syntax: words, quotes, comments, `;`, blocks, and the Lua that OpenResty's `*_by_lua_block` holds.

use std::sync::Arc;

use crate::report::At;

/// Blocks deeper than this are refused; nginx.conf needs five levels.
const MAX_DEPTH: usize = 64;

#[derive(Clone, Debug, Default)]
pub(crate) struct Directive {
    pub name: String,
    pub arguments: Vec<String>,
    pub at: At,
    pub block: Vec<Directive>,
}

impl Directive {
    /// Empty if there are fewer.
    pub(crate) fn argument(&self, index: usize) -> &str {
        self.arguments.get(index).map_or("", String::as_str)
    }

    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Directive> {
        self.block.iter().filter(move |directive| directive.name == name)
    }

    pub(crate) fn one<'a>(&'a self, name: &'a str) -> Option<&'a Directive> {
        self.all(name).next()
    }

    /// Whether it stands in the block, at any depth.
    pub(crate) fn holds(&self, name: &str) -> bool {
        self.block.iter().any(|inner| inner.name == name || inner.holds(name))
    }

    /// Whether an argument here or inside has this text, which is in small letters, in any case.
    pub(crate) fn mentions(&self, text: &str) -> bool {
        self.arguments.iter().any(|argument| argument.to_ascii_lowercase().contains(text))
            || self.block.iter().any(|inner| inner.mentions(text))
    }

    /// `location ~ \.php$`
    pub(crate) fn title(&self) -> String {
        let mut title = self.name.clone();
        for argument in &self.arguments {
            title.push(' ');
            title.push_str(argument);
        }
        title
    }
}

enum Token {
    Word(String, usize),
    End,
    Open(usize),
    Close(usize),
}

/// `file`: what the directives say of where they stand; `None` for the file that was given.
pub(super) fn parse(text: &str, file: Option<&Arc<str>>) -> Result<Vec<Directive>, String> {
    let at = |line| At { file: file.cloned(), line };
    let mut stack: Vec<(Directive, Vec<Directive>)> = Vec::new();
    let mut done = Vec::new();
    let mut current: Option<Directive> = None;
    let mut tokens = Tokens { rest: text, line: 1 };
    while let Some(token) = tokens.next()? {
        match token {
            Token::Word(word, line) => match &mut current {
                Some(directive) => directive.arguments.push(word),
                None => current = Some(Directive { name: word, at: at(line), ..Directive::default() }),
            },
            Token::End => done.extend(current.take()),
            Token::Open(line) => {
                let mut directive = current.take().ok_or(format!("{line}: a block without a name"))?;
                if directive.name.ends_with("_by_lua_block") {
                    directive.arguments.push(tokens.lua(line)?.to_owned());
                    done.push(directive);
                    continue;
                }
                if stack.len() >= MAX_DEPTH {
                    return Err(format!("{line}: blocks are nested too deeply"));
                }
                stack.push((directive, std::mem::take(&mut done)));
            }
            Token::Close(line) => {
                if let Some(directive) = &current {
                    return Err(format!(
                        "{}: `{}` is not terminated by a semicolon",
                        directive.at.line, directive.name
                    ));
                }
                let (mut directive, outer) = stack.pop().ok_or(format!("{line}: unmatched closing brace"))?;
                directive.block = std::mem::replace(&mut done, outer);
                done.push(directive);
            }
        }
    }
    match (current, stack.pop()) {
        (None, None) => Ok(done),
        (Some(open), _) | (None, Some((open, _))) => {
            Err(format!("{}: `{}` is not closed", open.at.line, open.name))
        }
    }
}

struct Tokens<'a> {
    rest: &'a str,
    line: usize,
}

impl<'a> Tokens<'a> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn take(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.rest = self.rest.get(c.len_utf8()..).unwrap_or_default();
        self.line += usize::from(c == '\n');
        Some(c)
    }

    fn next(&mut self) -> Result<Option<Token>, String> {
        loop {
            let line = self.line;
            let Some(c) = self.peek() else { return Ok(None) };
            match c {
                '\u{feff}' => _ = self.take(),
                c if c.is_whitespace() => _ = self.take(),
                '#' => while self.peek().is_some_and(|c| c != '\n') && self.take().is_some() {},
                ';' | '{' | '}' => {
                    self.take();
                    return Ok(Some(match c {
                        ';' => Token::End,
                        '{' => Token::Open(line),
                        _ => Token::Close(line),
                    }));
                }
                '"' | '\'' => {
                    self.take();
                    return self.quoted(c, line).map(|word| Some(Token::Word(word, line)));
                }
                _ => return Ok(Some(Token::Word(self.word(), line))),
            }
        }
    }

    fn quoted(&mut self, quote: char, start: usize) -> Result<String, String> {
        let mut word = String::new();
        loop {
            match self.take() {
                None => return Err(format!("{start}: a quote is not closed")),
                Some(end) if end == quote => return Ok(word),
                Some('\\') => self.escaped(&mut word),
                Some(other) => word.push(other),
            }
        }
    }

    /// nginx takes the backslash off quotes and backslashes, and reads `\t`, `\r` and `\n`, within quotes and without.
    fn escaped(&mut self, word: &mut String) {
        match self.take() {
            Some(c @ ('"' | '\'' | '\\')) => word.push(c),
            Some('t') => word.push('\t'),
            Some('r') => word.push('\r'),
            Some('n') => word.push('\n'),
            Some(other) => word.extend(['\\', other]),
            None => word.push('\\'),
        }
    }

    /// `${name}` belongs to the word, any other brace ends it.
    fn word(&mut self) -> String {
        let mut word = String::new();
        while let Some(c) = self.peek() {
            let named = word.ends_with('$');
            if c.is_whitespace() || c == ';' || (c == '{' && !named) {
                break;
            }
            self.take();
            match c {
                '\\' => self.escaped(&mut word),
                '{' => {
                    word.push(c);
                    while let Some(inner) = self.peek().filter(|&c| c != '}' && c != '\n') {
                        self.take();
                        word.push(inner);
                    }
                }
                c => word.push(c),
            }
        }
        word
    }

    /// The Lua up to the brace that ends its block, which is taken too.
    fn lua(&mut self, start: usize) -> Result<&'a str, String> {
        let code = self.rest;
        let mut depth = 1;
        while let Some(c) = self.peek() {
            if let Some(level) = long_bracket(self.rest) {
                self.skip_past(&format!("]{}]", "=".repeat(level)));
                continue;
            }
            match c {
                '-' if self.rest.starts_with("--") => {
                    let comment = self.rest.get(2..).unwrap_or_default();
                    match long_bracket(comment) {
                        Some(level) => self.skip_past(&format!("]{}]", "=".repeat(level))),
                        None => while self.peek().is_some_and(|c| c != '\n') && self.take().is_some() {},
                    }
                    continue;
                }
                '"' | '\'' => {
                    self.take();
                    while let Some(inner) = self.take() {
                        match inner {
                            '\\' => _ = self.take(),
                            end if end == c || end == '\n' => break,
                            _ => {}
                        }
                    }
                    continue;
                }
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            let length = code.len() - self.rest.len();
            self.take();
            if depth == 0 {
                return Ok(code.get(..length).unwrap_or_default());
            }
        }
        Err(format!("{start}: a Lua block is not closed"))
    }

    fn skip_past(&mut self, end: &str) {
        while !self.rest.is_empty() && !self.rest.starts_with(end) {
            self.take();
        }
        for _ in 0..end.len() {
            self.take();
        }
    }
}

/// The level of the long bracket that a text begins with: 2 of `[==[`.
fn long_bracket(text: &str) -> Option<usize> {
    let rest = text.strip_prefix('[')?;
    let level = rest.len() - rest.trim_start_matches('=').len();
    rest.get(level..)?.starts_with('[').then_some(level)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let all = parse(text, None).unwrap_or_else(|error| panic!("{text}: {error}"));
        all.iter().map(Directive::title).collect()
    }

    #[test]
    fn words_and_their_escapes() {
        for (text, wanted) in [
            (r#"return 200 "a \"b\" \\ \t.";"#, "return 200 a \"b\" \\ \t."),
            (r"location ~ \.php$ { }", r"location ~ \.php$"),
            ("a b#c;", "a b#c"),
            ("a ${b}c;", "a ${b}c"),
            (r"a b\;c;", r"a b\;c"),
            ("a 'x\ny';", "a x\ny"),
            ("if ($a = \"b\") { }", "if ($a = b )"),
        ] {
            assert_eq!(words(text), [wanted], "{text}");
        }
    }

    #[test]
    fn lua_is_one_word() {
        let text = "location / { access_by_lua_block { if a then local t = { '}' } end -- }\n s = [=[ } ]=] } deny all; }";
        let all = parse(text, None).expect("it is read");
        let inner: Vec<&str> = all[0].block.iter().map(|directive| directive.name.as_str()).collect();
        assert_eq!(inner, ["access_by_lua_block", "deny"]);
        assert!(parse("a_by_lua_block { {", None).is_err());
    }

    #[test]
    fn faults_name_their_line() {
        for (text, wanted) in [
            ("a {\nb", "2: `b` is not closed"),
            ("a;\n}", "2: unmatched closing brace"),
            ("\n'a", "2: a quote is not closed"),
            ("a {\n b }", "2: `b` is not terminated by a semicolon"),
        ] {
            assert_eq!(parse(text, None).err().as_deref(), Some(wanted), "{text}");
        }
    }
}
