//! An XML document as a tree with its namespaces, for signatures: each name has one meaning, and comments are nothing.
//!
//! Refused: declarations of the document's type, processing instructions, prefixes without a namespace, attributes that are there
//! twice, text around the root, characters that XML does not have. Namespaces are shared by all that is in them: a document costs
//! memory in proportion to its length.

use std::{collections::BTreeMap, rc::Rc};

use quick_xml::{
    Reader,
    events::{BytesStart, Event},
};

/// More than any message has.
const MAX_ELEMENTS: usize = 10_000;
const MAX_DEPTH: usize = 64;
const MAX_ATTRIBUTES: usize = 100;
const MAX_NAMESPACES: usize = 32;

/// Of the prefix `xml`, which needs no declaration.
const XML: &str = "http://www.w3.org/XML/1998/namespace";
/// Of the prefix `xmlns`, which cannot be declared.
const XMLNS: &str = "http://www.w3.org/2000/xmlns/";
const INVALID: &str = "it is not XML";

/// Prefixes and what they stand for; the default namespace has the empty prefix.
pub(super) type Scope = BTreeMap<Rc<str>, Rc<str>>;

#[derive(Clone, Debug)]
pub(super) struct Name {
    pub(super) prefix: String,
    pub(super) local: String,
    /// Empty: none.
    pub(super) namespace: Rc<str>,
}

#[derive(Debug)]
pub(super) struct Attribute {
    pub(super) name: Name,
    pub(super) value: String,
}

#[derive(Debug)]
pub(super) enum Node {
    Element(Element),
    /// Up to the next tag: neither comments nor CDATA sections divide it.
    Text(String),
}

#[derive(Debug)]
pub(super) struct Element {
    pub(super) name: Name,
    pub(super) attributes: Vec<Attribute>,
    /// What holds here.
    pub(super) scope: Rc<Scope>,
    pub(super) children: Vec<Node>,
}

impl Element {
    pub(super) fn is(&self, namespace: &str, local: &str) -> bool {
        &*self.name.namespace == namespace && self.name.local == local
    }

    /// Of an attribute without a namespace.
    pub(super) fn attribute(&self, name: &str) -> Option<&str> {
        let found = self
            .attributes
            .iter()
            .find(|attribute| attribute.name.namespace.is_empty() && attribute.name.local == name);
        found.map(|attribute| attribute.value.as_str())
    }

    pub(super) fn elements(&self) -> impl Iterator<Item = &Element> {
        self.children.iter().filter_map(|child| match child {
            Node::Element(element) => Some(element),
            Node::Text(_) => None,
        })
    }

    pub(super) fn all<'e>(&'e self, namespace: &'e str, local: &'e str) -> impl Iterator<Item = &'e Element> {
        self.elements().filter(move |element| element.is(namespace, local))
    }

    /// The only child of this name. `Err`: there is none, or there are several.
    pub(super) fn only<'e>(&'e self, namespace: &'e str, local: &'e str) -> Result<&'e Element, String> {
        let mut found = self.all(namespace, local);
        match (found.next(), found.next()) {
            (Some(element), None) => Ok(element),
            _ => Err(format!("{} has not one {local}", self.name.local)),
        }
    }

    /// Its whole text, of an element that has nothing else in it. Spaces around it count: they are part of what was signed.
    pub(super) fn text(&self) -> Result<&str, String> {
        match self.children.as_slice() {
            [] => Ok(""),
            [Node::Text(text)] => Ok(text),
            _ => Err(format!("{} has more than a text", self.name.local)),
        }
    }

    /// It and all below it, in the order of the document.
    pub(super) fn descendants(&self) -> Vec<&Element> {
        let (mut found, mut waiting) = (Vec::new(), vec![self]);
        while let Some(element) = waiting.pop() {
            found.push(element);
            let before = waiting.len();
            waiting.extend(element.elements());
            waiting[before..].reverse();
        }
        found
    }
}

/// The root of a document.
pub(super) fn parse(document: &[u8]) -> Result<Element, &'static str> {
    let text = std::str::from_utf8(document).map_err(|_| "it is not UTF-8")?;
    // As XML reads the ends of lines.
    let text = text.trim_start_matches('\u{feff}').replace("\r\n", "\n").replace('\r', "\n");
    let mut reader = Reader::from_str(text.trim());
    reader.config_mut().expand_empty_elements = true;
    let mut parser = Parser { open: Vec::new(), root: None, elements: 0 };
    loop {
        match reader.read_event().map_err(|_| INVALID)? {
            Event::Start(tag) => parser.start(&tag)?,
            Event::End(_) => parser.end(),
            Event::Text(text) => parser.text(&text.into_inner())?,
            Event::CData(section) => parser.text(&section.into_inner())?,
            Event::GeneralRef(name) => {
                parser.text(reference(&name.into_inner())?.encode_utf8(&mut [0; 4]))?
            }
            Event::Comment(_) | Event::Decl(_) => {}
            Event::DocType(_) => return Err("it declares its type"),
            Event::PI(_) => return Err("it has a processing instruction"),
            Event::Empty(_) => return Err(INVALID),
            Event::Eof => break,
        }
    }
    match (parser.root, parser.open.is_empty()) {
        (Some(root), true) => Ok(root),
        _ => Err(INVALID),
    }
}

struct Parser {
    open: Vec<Element>,
    root: Option<Element>,
    elements: usize,
}

impl Parser {
    fn start(&mut self, tag: &BytesStart) -> Result<(), &'static str> {
        self.elements += 1;
        if self.root.is_some() || self.open.len() >= MAX_DEPTH || self.elements > MAX_ELEMENTS {
            return Err(INVALID);
        }
        let mut scope = self.open.last().map(|element| element.scope.clone()).unwrap_or_default();
        let mut written: Vec<(String, String)> = Vec::new();
        // That none is there twice is asked below.
        for attribute in tag.attributes().with_checks(false) {
            let attribute = attribute.map_err(|_| INVALID)?;
            let (key, value) = (attribute.key.into_inner(), expanded(&attribute.value)?);
            if written.len() >= MAX_ATTRIBUTES {
                return Err(INVALID);
            }
            match key.strip_prefix("xmlns") {
                Some("") => declare(&mut scope, "", value)?,
                Some(":") => return Err(INVALID),
                Some(prefix) if prefix.starts_with(':') => declare(&mut scope, &prefix[1..], value)?,
                _ => written.push((key.to_owned(), value)),
            }
        }
        let name = name(tag.name().into_inner(), &scope, true)?;
        let mut attributes: Vec<Attribute> = Vec::new();
        for (key, value) in written {
            attributes.push(Attribute { name: self::name(&key, &scope, false)?, value });
        }
        let key = |attribute: &Attribute| (attribute.name.namespace.clone(), attribute.name.local.clone());
        attributes.sort_by_key(key);
        if attributes.windows(2).any(|pair| key(&pair[0]) == key(&pair[1])) {
            return Err("an attribute is duplicated");
        }
        self.open.push(Element { name, attributes, scope, children: Vec::new() });
        Ok(())
    }

    /// The reader has compared the names.
    fn end(&mut self) {
        let Some(element) = self.open.pop() else { return };
        match self.open.last_mut() {
            Some(parent) => parent.children.push(Node::Element(element)),
            None => self.root = Some(element),
        }
    }

    fn text(&mut self, text: &str) -> Result<(), &'static str> {
        if !text.chars().all(is_character) {
            return Err(INVALID);
        }
        match self.open.last_mut() {
            Some(element) => match element.children.last_mut() {
                Some(Node::Text(before)) => before.push_str(text),
                _ => element.children.push(Node::Text(text.to_owned())),
            },
            None if text.trim().is_empty() => {}
            None => return Err("it has text around its root"),
        }
        Ok(())
    }
}

fn declare(scope: &mut Rc<Scope>, prefix: &str, namespace: String) -> Result<(), &'static str> {
    let is_reserved = ["xml", "xmlns"].contains(&prefix) || [XML, XMLNS].contains(&namespace.as_str());
    if is_reserved || !prefix.is_empty() && (namespace.is_empty() || !is_name(prefix)) {
        return Err("a namespace is declared that cannot be");
    }
    let scope = Rc::make_mut(scope);
    scope.insert(prefix.into(), namespace.into());
    if scope.len() > MAX_NAMESPACES { Err(INVALID) } else { Ok(()) }
}

fn is_character(letter: char) -> bool {
    matches!(letter, '\t' | '\n' | '\r') || letter >= ' ' && !matches!(letter, '\u{fffe}' | '\u{ffff}')
}

fn is_name(text: &str) -> bool {
    let is_start = |letter: char| letter.is_alphabetic() || letter == '_';
    let is_part = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '-' | '.');
    text.starts_with(is_start) && text.chars().all(is_part)
}

/// The default namespace is for elements alone.
fn name(written: &str, scope: &Scope, is_element: bool) -> Result<Name, &'static str> {
    let (prefix, local) = written.split_once(':').unwrap_or(("", written));
    if !is_name(local) || !prefix.is_empty() && !is_name(prefix) {
        return Err(INVALID);
    }
    let namespace = match prefix {
        "xml" => XML.into(),
        "" if !is_element => Rc::default(),
        "" => scope.get("").cloned().unwrap_or_default(),
        prefix => scope.get(prefix).cloned().ok_or("a prefix has no namespace")?,
    };
    Ok(Name { prefix: prefix.to_owned(), local: local.to_owned(), namespace })
}

/// One of the five names that XML has by itself, or a number.
fn reference(name: &str) -> Result<char, &'static str> {
    let number = |text: &str, radix| {
        let is_digits = text.chars().all(|digit| digit.is_digit(radix));
        u32::from_str_radix(text, radix).ok().filter(|_| is_digits).and_then(char::from_u32)
    };
    let found = match name {
        "lt" => Some('<'),
        "gt" => Some('>'),
        "amp" => Some('&'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        name => match (name.strip_prefix("#x"), name.strip_prefix('#')) {
            (Some(digits), _) => number(digits, 16),
            (None, Some(digits)) => number(digits, 10),
            (None, None) => None,
        },
    };
    found.filter(|letter| is_character(*letter)).ok_or("a reference stands for nothing")
}

/// The value of an attribute as it counts: white space that is written is a space, what a reference stands for is kept.
fn expanded(written: &str) -> Result<String, &'static str> {
    if !written.chars().all(is_character) {
        return Err(INVALID);
    }
    let mut value = String::with_capacity(written.len());
    let mut rest = written;
    while let Some(at) = rest.find(['&', '<', '\t', '\n']) {
        let (before, found) = rest.split_at(at);
        value.push_str(before);
        if let Some(after) = found.strip_prefix('&') {
            let (name, after) = after.split_once(';').ok_or(INVALID)?;
            value.push(reference(name)?);
            rest = after;
        } else if found.starts_with('<') {
            return Err(INVALID);
        } else {
            value.push(' ');
            rest = &found[1..];
        }
    }
    value.push_str(rest);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_texts() {
        let root = parse(b"<?xml version='1.0'?><a xmlns='u:1' xmlns:p='u:2' p:x='1' x='a&#10;b\nc'><p:b>1<!-- x -->2<![CDATA[&3]]>&lt;&#52;</p:b></a>");
        let root = root.expect("a document");
        assert!(root.is("u:1", "a"));
        assert_eq!(root.attribute("x"), Some("a\nb c"));
        assert_eq!(root.only("u:2", "b").expect("b").text(), Ok("12&3<4"));
        assert_eq!(root.descendants().len(), 2);
        assert!(root.only("u:1", "b").is_err());
    }

    #[test]
    fn documents_that_are_refused() {
        for document in [
            "",
            "<a>",
            "<a/><b/>",
            "<a/>text",
            "<!DOCTYPE a [<!ENTITY x 'y'>]><a>&x;</a>",
            "<a>&x;</a>",
            "<a>&#0;</a>",
            "<a>&#+65;</a>",
            "<a>&#x;</a>",
            "<a>&#xffff;</a>",
            "<a>\u{1}</a>",
            "<a x='\u{1}'/>",
            "<a><?pi?></a>",
            "<p:a/>",
            "<a p:x='1'/>",
            "<a xmlns:p=''/>",
            "<a xmlns:xml='u:1'/>",
            "<a xmlns:='u:1'/>",
            "<a xmlns:p='http://www.w3.org/2000/xmlns/'/>",
            "<a x='1' x='2'/>",
            "<a xmlns:p='u:1' xmlns:q='u:1' p:x='1' q:x='2'/>",
            "<a x='<'/>",
            "<a:b:c xmlns:a='u:1'/>",
            "<a></b>",
        ] {
            assert!(parse(document.as_bytes()).is_err(), "{document}");
        }
        assert!(parse("<a>".repeat(100_000).as_bytes()).is_err());
        assert!(parse(format!("<a>{}</a>", "<b/>".repeat(100_000)).as_bytes()).is_err());
        assert!(parse(&[b'<', 0xff, b'/', b'>']).is_err());
    }
}
