//! From tokens to a tree. Each step down is counted, and each node.

use ahash::AHashMap;

use super::{
    Document, Fault, Field, Fragment, Kind, MOST_DEPTH, MOST_NODES, Operation, Selection, Value,
    lexer::{Lexer, Token},
};

impl<'t> Document<'t> {
    /// Reads a document of operations and fragments alone.
    pub fn parse(text: &'t str) -> Result<Document<'t>, Fault> {
        let mut lexer = Lexer::new(text);
        let next = lexer.next()?;
        let mut parser = Parser { lexer, next, nodes: 0, depth: 0 };
        let mut document = Document { operations: Vec::new(), fragments: AHashMap::default() };
        while parser.next != Token::End {
            // A description.
            if matches!(parser.next, Token::Text(_)) {
                parser.advance()?;
            }
            if parser.next == Token::Name("fragment") {
                let (name, fragment) = parser.fragment()?;
                document.fragments.insert(name, fragment);
            } else {
                document.operations.push(parser.operation()?);
            }
        }
        if document.operations.is_empty() {
            return Err(Fault::NoOperation);
        }
        Ok(document)
    }
}

struct Parser<'t> {
    lexer: Lexer<'t>,
    next: Token<'t>,
    nodes: usize,
    depth: usize,
}

impl<'t> Parser<'t> {
    fn advance(&mut self) -> Result<Token<'t>, Fault> {
        let next = self.lexer.next()?;
        Ok(std::mem::replace(&mut self.next, next))
    }

    fn take(&mut self, sign: u8) -> Result<bool, Fault> {
        let found = self.next == Token::Punctuation(sign);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn expect(&mut self, sign: u8) -> Result<(), Fault> {
        if self.take(sign)? { Ok(()) } else { Err(self.lexer.fault()) }
    }

    fn name(&mut self) -> Result<&'t str, Fault> {
        match self.next {
            Token::Name(name) => self.advance().map(|_| name),
            _ => Err(self.lexer.fault()),
        }
    }

    fn count(&mut self) -> Result<(), Fault> {
        self.nodes += 1;
        if self.nodes > MOST_NODES { Err(Fault::TooLarge) } else { Ok(()) }
    }

    fn below<R>(&mut self, read: impl FnOnce(&mut Self) -> Result<R, Fault>) -> Result<R, Fault> {
        if self.depth == MOST_DEPTH {
            return Err(Fault::TooDeep);
        }
        self.depth += 1;
        let read = read(self);
        self.depth -= 1;
        read
    }

    fn operation(&mut self) -> Result<Operation<'t>, Fault> {
        let kind = match self.next {
            Token::Punctuation(b'{') => None,
            Token::Name("query") => Some(Kind::Query),
            Token::Name("mutation") => Some(Kind::Mutation),
            Token::Name("subscription") => Some(Kind::Subscription),
            _ => return Err(self.lexer.fault()),
        };
        let (mut name, mut variables) = ("", Vec::new());
        if kind.is_some() {
            self.advance()?;
            if let Token::Name(found) = self.next {
                name = found;
                self.advance()?;
            }
            variables = self.variables()?;
            self.directives()?;
        }
        let selections = self.selections()?;
        Ok(Operation { kind: kind.unwrap_or(Kind::Query), name, variables, selections })
    }

    fn fragment(&mut self) -> Result<(&'t str, Fragment<'t>), Fault> {
        self.advance()?;
        let name = self.name()?;
        if name == "on" || self.name()? != "on" {
            return Err(self.lexer.fault());
        }
        let on = self.name()?;
        self.directives()?;
        Ok((name, Fragment { on, selections: self.selections()? }))
    }

    fn variables(&mut self) -> Result<Vec<(&'t str, Option<Value<'t>>)>, Fault> {
        let mut variables = Vec::new();
        if !self.take(b'(')? {
            return Ok(variables);
        }
        loop {
            self.count()?;
            if matches!(self.next, Token::Text(_)) {
                self.advance()?;
            }
            self.expect(b'$')?;
            let name = self.name()?;
            self.expect(b':')?;
            self.type_reference()?;
            let default = if self.take(b'=')? { Some(self.value()?) } else { None };
            self.directives()?;
            variables.push((name, default));
            if self.take(b')')? {
                return Ok(variables);
            }
        }
    }

    fn type_reference(&mut self) -> Result<(), Fault> {
        if self.take(b'[')? {
            self.below(Self::type_reference)?;
            self.expect(b']')?;
        } else {
            self.name()?;
        }
        self.take(b'!').map(|_| ())
    }

    fn directives(&mut self) -> Result<(), Fault> {
        while self.take(b'@')? {
            self.name()?;
            self.arguments()?;
        }
        Ok(())
    }

    fn arguments(&mut self) -> Result<Vec<(&'t str, Value<'t>)>, Fault> {
        if !self.take(b'(')? {
            return Ok(Vec::new());
        }
        let first = self.member()?;
        let mut arguments = vec![first];
        while !self.take(b')')? {
            arguments.push(self.member()?);
        }
        Ok(arguments)
    }

    fn member(&mut self) -> Result<(&'t str, Value<'t>), Fault> {
        let name = self.name()?;
        self.expect(b':')?;
        Ok((name, self.value()?))
    }

    fn value(&mut self) -> Result<Value<'t>, Fault> {
        self.count()?;
        match self.advance()? {
            Token::Name(name) => Ok(Value::Name(name)),
            Token::Number(number) => Ok(Value::Number(number)),
            Token::Text(text) => Ok(Value::Text(text)),
            Token::Punctuation(b'$') => self.name().map(Value::Variable),
            Token::Punctuation(b'[') => self.below(|parser| {
                let mut items = Vec::new();
                while !parser.take(b']')? {
                    items.push(parser.value()?);
                }
                Ok(Value::List(items))
            }),
            Token::Punctuation(b'{') => self.below(|parser| {
                let mut members = Vec::new();
                while !parser.take(b'}')? {
                    members.push(parser.member()?);
                }
                Ok(Value::Object(members))
            }),
            _ => Err(self.lexer.fault()),
        }
    }

    fn selections(&mut self) -> Result<Vec<Selection<'t>>, Fault> {
        self.below(|parser| {
            parser.expect(b'{')?;
            let mut selections = vec![parser.selection()?];
            while !parser.take(b'}')? {
                selections.push(parser.selection()?);
            }
            Ok(selections)
        })
    }

    fn selection(&mut self) -> Result<Selection<'t>, Fault> {
        self.count()?;
        if self.next != Token::Spread {
            return self.field().map(Selection::Field);
        }
        self.advance()?;
        let on = match self.next {
            Token::Name("on") => {
                self.advance()?;
                Some(self.name()?)
            }
            Token::Name(name) => {
                self.advance()?;
                self.directives()?;
                return Ok(Selection::Spread(name));
            }
            _ => None,
        };
        self.directives()?;
        Ok(Selection::Inline { on, selections: self.selections()? })
    }

    fn field(&mut self) -> Result<Field<'t>, Fault> {
        let mut name = self.name()?;
        if self.take(b':')? {
            name = self.name()?;
        }
        let arguments = self.arguments()?;
        self.directives()?;
        let has_selections = self.next == Token::Punctuation(b'{');
        let selections = if has_selections { self.selections()? } else { Vec::new() };
        Ok(Field { name, arguments, selections })
    }
}
