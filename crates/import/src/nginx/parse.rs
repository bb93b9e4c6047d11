//! The syntax: words, quotes, comments, `;` and blocks.

#[derive(Debug, Default)]
pub struct Directive {
    pub name: String,
    pub arguments: Vec<String>,
    pub line: usize,
    pub block: Vec<Directive>,
}

impl Directive {
    /// Empty if there are fewer.
    pub fn argument(&self, index: usize) -> &str {
        self.arguments.get(index).map_or("", String::as_str)
    }

    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Directive> {
        self.block.iter().filter(move |directive| directive.name == name)
    }

    pub fn one<'a>(&'a self, name: &'a str) -> Option<&'a Directive> {
        self.all(name).next()
    }
}

enum Token {
    Word(String, usize),
    End,
    Open(usize),
    Close(usize),
}

pub fn parse(text: &str) -> Result<Vec<Directive>, String> {
    let mut stack: Vec<(Directive, Vec<Directive>)> = Vec::new();
    let mut done = Vec::new();
    let mut current: Option<Directive> = None;
    for token in tokens(text)? {
        match token {
            Token::Word(word, line) => match &mut current {
                Some(directive) => directive.arguments.push(word),
                None => current = Some(Directive { name: word, line, ..Directive::default() }),
            },
            Token::End => done.extend(current.take()),
            Token::Open(line) => {
                let directive = current.take().ok_or(format!("{line}: a block without a name"))?;
                stack.push((directive, std::mem::take(&mut done)));
            }
            Token::Close(line) => {
                if let Some(directive) = &current {
                    return Err(format!(
                        "{}: `{}` is not ended by a semicolon",
                        directive.line, directive.name
                    ));
                }
                let (mut directive, outer) = stack.pop().ok_or(format!("{line}: a brace too many"))?;
                directive.block = std::mem::replace(&mut done, outer);
                done.push(directive);
            }
        }
    }
    match (current, stack.pop()) {
        (None, None) => Ok(done),
        (Some(open), _) | (None, Some((open, _))) => {
            Err(format!("{}: `{}` is not ended", open.line, open.name))
        }
    }
}

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut line = 1;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\n' => line += 1,
            c if c.is_whitespace() => {}
            '#' => while rest.next_if(|&c| c != '\n').is_some() {},
            ';' => tokens.push(Token::End),
            '{' => tokens.push(Token::Open(line)),
            '}' => tokens.push(Token::Close(line)),
            '"' | '\'' => {
                let (start, mut word) = (line, String::new());
                loop {
                    match rest.next() {
                        None => return Err(format!("{start}: a quote is not closed")),
                        Some(end) if end == c => break,
                        Some('\\') if rest.peek() == Some(&c) => word.extend(rest.next()),
                        Some(other) => {
                            line += usize::from(other == '\n');
                            word.push(other);
                        }
                    }
                }
                tokens.push(Token::Word(word, start));
            }
            first => {
                let mut word = String::from(first);
                // `${name}` belongs to the word, any other brace ends it.
                while let Some(next) = {
                    let named = word.ends_with('$');
                    rest.next_if(|&c| !c.is_whitespace() && c != ';' && (c != '{' || named))
                } {
                    word.push(next);
                    if word.ends_with("${") {
                        while let Some(inner) = rest.next_if(|&c| c != '}' && c != '\n') {
                            word.push(inner);
                        }
                        word.extend(rest.next_if_eq(&'}'));
                    }
                }
                tokens.push(Token::Word(word, line));
            }
        }
    }
    Ok(tokens)
}
