//! From parser events to the tree.

use std::{collections::HashMap, rc::Rc};

use granit_parser::{Event, Options, Parser, ScalarStyle, ScanError, Span, StrInput, Tag};

use super::{
    node::{Content, Entry, Fault, Node},
    scalar,
};

/// Nesting deeper than this is refused: the tree is built and dropped recursively.
const MAX_DEPTH: usize = 128;
/// Nodes copied by aliases, in all: a few lines of aliases to aliases could otherwise fill the memory.
const MAX_COPIED_NODES: usize = 1_000_000;

pub(super) struct Builder<'text> {
    parser: Parser<'text, StrInput<'text>>,
    anchors: HashMap<usize, Rc<Node>>,
    copied: usize,
    /// How many nodes aliases may copy.
    most_copied: usize,
}

impl<'text> Builder<'text> {
    pub(super) fn new(text: &'text str) -> Self {
        let mut options = Options::default();
        // Comments count as data to the parser, which takes a hundred of them before the first key of a table for an attack.
        options.set_emit_comments(false);
        let parser = Parser::new_from_str_with_options(text, options);
        Self { parser, anchors: HashMap::new(), copied: 0, most_copied: MAX_COPIED_NODES }
    }

    pub(super) fn without_aliases(text: &'text str) -> Self {
        Self { most_copied: 0, ..Self::new(text) }
    }

    pub(super) fn document(mut self) -> Result<Node, Fault> {
        let mut start = Span::default();
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamStart => {}
                Event::DocumentStart(..) => start = span,
                Event::StreamEnd | Event::DocumentEnd => {
                    return Ok(scalar_node(&span, "", ScalarStyle::Plain, None));
                }
                other => {
                    let root = self.node(other, &span, 0)?;
                    return self.end(&start).map(|()| root);
                }
            }
        }
    }

    /// Nothing may follow the document.
    fn end(&mut self, first: &Span) -> Result<(), Fault> {
        loop {
            match self.next()? {
                (Event::DocumentEnd, _) => {}
                (Event::StreamEnd, _) => return Ok(()),
                (_, span) => {
                    let (line, column) = (first.start.line().max(1), first.start.col() + 1);
                    let message = format!("a second document begins here, the first one at {line}:{column}");
                    return Err(fault(&span, message));
                }
            }
        }
    }

    /// The next event that is data.
    fn next(&mut self) -> Result<(Event<'text>, Span), Fault> {
        loop {
            match self.parser.next_event() {
                Some(Ok((Event::Comment(..) | Event::Anchor(..), _))) => {}
                Some(Ok(pair)) => return Ok(pair),
                Some(Err(error)) => return Err(scan_fault(&error)),
                None => return Ok((Event::StreamEnd, Span::default())),
            }
        }
    }

    fn node(&mut self, event: Event<'text>, span: &Span, depth: usize) -> Result<Node, Fault> {
        if depth > MAX_DEPTH {
            return Err(fault(span, format!("nested deeper than {MAX_DEPTH} levels")));
        }
        let (node, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                (scalar_node(span, &text, style, tag.as_deref()), anchor)
            }
            Event::SequenceStart(_, anchor, _) => (self.list(span, depth)?, anchor),
            Event::MappingStart(_, anchor, _) => (self.map(span, depth)?, anchor),
            Event::Alias(anchor) => return self.alias(anchor, span, depth),
            other => return Err(fault(span, format!("unexpected {other:?}"))),
        };
        if anchor != 0 && self.most_copied > 0 {
            self.anchors.insert(anchor, Rc::new(node.clone()));
        }
        Ok(node)
    }

    fn list(&mut self, start: &Span, depth: usize) -> Result<Node, Fault> {
        let mut items = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if matches!(event, Event::SequenceEnd) {
                return Ok(at(start, Content::List(items)));
            }
            items.push(self.node(event, &span, depth + 1)?);
        }
    }

    fn map(&mut self, start: &Span, depth: usize) -> Result<Node, Fault> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut places: HashMap<String, (usize, usize)> = HashMap::new();
        let mut merged = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if matches!(event, Event::MappingEnd) {
                break;
            }
            let key_node = self.node(event, &span, depth + 1)?;
            let Content::Scalar { text: key, .. } = key_node.content else {
                return Err(fault(&span, "a key must be a single word or a quoted text".to_owned()));
            };
            let (event, value_span) = self.next()?;
            let mut value = self.node(event, &value_span, depth + 1)?;
            if matches!(&value.content, Content::Scalar { value, text } if value.is_null() && text.is_empty())
            {
                // The parser places what is not there at the next thing that is; it belongs behind the colon.
                value.line = key_node.line;
                value.column = key_node.column + key.chars().count() + 1;
            }
            if key == "<<" {
                merged.push(value);
                continue;
            }
            let entry = Entry { key, line: key_node.line, column: key_node.column, value };
            if let Some((line, column)) = places.insert(entry.key.clone(), (entry.line, entry.column)) {
                let text = format!("key {:?} is given twice, first at {line}:{column}", entry.key);
                return Err(fault(&span, text));
            }
            entries.push(entry);
        }
        for source in merged {
            merge(&mut entries, source);
        }
        Ok(at(start, Content::Map(entries)))
    }

    fn alias(&mut self, anchor: usize, span: &Span, depth: usize) -> Result<Node, Fault> {
        if self.most_copied == 0 {
            return Err(fault(span, "aliases are not read here; write the value out".to_owned()));
        }
        let Some(target) = self.anchors.get(&anchor).cloned() else {
            return Err(fault(span, "this alias refers to itself".to_owned()));
        };
        let (nodes, levels) = measure(&target);
        self.copied = self.copied.saturating_add(nodes);
        if self.copied > self.most_copied || depth + levels > MAX_DEPTH {
            return Err(fault(
                span,
                "too many values come from aliases; write them out or use fewer".to_owned(),
            ));
        }
        Ok(Node { content: target.content.clone(), ..at(span, Content::List(Vec::new())) })
    }
}

/// `<<`: keys that are not there already come from another mapping, or from several, first one first.
fn merge(entries: &mut Vec<Entry>, source: Node) {
    match source.content {
        Content::Map(more) => {
            for entry in more {
                if !entries.iter().any(|present| present.key == entry.key) {
                    entries.push(entry);
                }
            }
        }
        Content::List(sources) => sources.into_iter().for_each(|source| merge(entries, source)),
        Content::Scalar { .. } => {}
    }
}

/// How many nodes and how many levels a tree has.
fn measure(node: &Node) -> (usize, usize) {
    let fold = |(nodes, levels): (usize, usize), child: &Node| {
        let (more, below) = measure(child);
        (nodes + more, levels.max(below + 1))
    };
    match &node.content {
        Content::Scalar { .. } => (1, 1),
        Content::List(items) => items.iter().fold((1, 1), fold),
        Content::Map(entries) => entries.iter().map(|entry| &entry.value).fold((1, 1), fold),
    }
}

fn scalar_node(span: &Span, text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Node {
    let forced_text = tag.is_some_and(|tag| tag.core_suffix() == Some("str"));
    // The parser says `~` where there is nothing at all.
    let text = if style == ScalarStyle::Plain && span.is_empty() { "" } else { text };
    let value = if style == ScalarStyle::Plain && !forced_text {
        scalar::resolve(text)
    } else {
        serde_json::Value::String(text.to_owned())
    };
    at(span, Content::Scalar { value, text: text.to_owned() })
}

fn at(span: &Span, content: Content) -> Node {
    Node { line: span.start.line().max(1), column: span.start.col() + 1, content }
}

fn fault(span: &Span, message: String) -> Fault {
    Fault { line: span.start.line().max(1), column: span.start.col() + 1, message }
}

fn scan_fault(error: &ScanError) -> Fault {
    let marker = error.marker();
    Fault { line: marker.line().max(1), column: marker.col() + 1, message: error.info() }
}
