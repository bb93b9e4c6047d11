//! XML documents as trees of Lua tables, in the shape of the Lua library xml2lua: an element is a table of its children
//! by name, several of a name are a list, an element with nothing but text is the text. Namespace prefixes are dropped.

use std::fmt::Display;

use quick_xml::{
    Reader,
    events::{BytesStart, Event},
};
use tidegate_plugin_api::document::{Allowance, TooLarge};

use crate::{
    common::json::Undecoded,
    lua::{Entries, Key, Source},
};

const MAX_DEPTH: usize = 128;

/// An element in the list of its parent, which grows by doubling, and its name.
const ELEMENT_BYTES: usize = 2 * size_of::<(String, Element)>() + 16;
/// A text in a list that grows by doubling.
const TEXT_BYTES: usize = 2 * size_of::<String>() + 16;
/// `&#x10ffff;`, with room for zeros in front.
const LONGEST_ENTITY: usize = 16;

#[derive(Debug, Default, PartialEq)]
pub(super) struct Element {
    attributes: Vec<(String, String)>,
    texts: Vec<String>,
    children: Vec<(String, Element)>,
}

/// Reads a document: the root element is the only child of what is returned.
pub(super) fn parse(text: &str, allowance: &Allowance) -> Result<Element, Undecoded> {
    let text = text.trim_start_matches('\u{feff}');
    let mut reader = Reader::from_str(text);
    reader.config_mut().allow_dangling_amp = true;
    reader.config_mut().expand_empty_elements = true;
    let mut stack: Vec<(String, Element)> = vec![(String::new(), Element::default())];
    let mut text_begins = 0;
    loop {
        let at = position(&reader);
        let event = reader.read_event().map_err(|error| invalid(&error))?;
        if matches!(event, Event::Text(_) | Event::GeneralRef(_)) {
            continue;
        }
        add_text(&mut stack, text.get(text_begins..at).unwrap_or_default(), allowance)?;
        text_begins = position(&reader);
        match event {
            Event::Start(tag) => open(&mut stack, &tag, allowance)?,
            Event::End(_) => close(&mut stack),
            Event::CData(section) => {
                allowance.take(TEXT_BYTES + section.len())?;
                push_text(&mut stack, section.into_inner().into_owned());
            }
            Event::Eof => break,
            _ => {}
        }
    }
    match stack.pop() {
        Some((_, mut root)) if stack.is_empty() && !root.children.is_empty() => {
            root.children.sort_by(|(one, _), (other, _)| one.cmp(other));
            Ok(root)
        }
        Some((name, _)) if !stack.is_empty() => Err(format!("element {name} is not closed").into()),
        _ => Err("there is no element".to_owned().into()),
    }
}

fn position(reader: &Reader<&[u8]>) -> usize {
    usize::try_from(reader.buffer_position()).unwrap_or(usize::MAX)
}

/// The reason may quote names, which are as long as a client likes.
fn invalid(error: &dyn Display) -> Undecoded {
    const LONGEST_REASON: usize = 200;
    Undecoded::Invalid(error.to_string().chars().take(LONGEST_REASON).collect())
}

fn open(
    stack: &mut Vec<(String, Element)>,
    tag: &BytesStart<'_>,
    allowance: &Allowance,
) -> Result<(), Undecoded> {
    let name = tag.name().into_inner();
    allowance.take(ELEMENT_BYTES + 2 * name.len())?;
    if name.is_empty() {
        return Err("tag without a name".to_owned().into());
    }
    if stack.len() > MAX_DEPTH {
        return Err("elements nest too deeply".to_owned().into());
    }
    let mut element = Element::default();
    // Whether a name comes twice is not asked: that takes the square of their number.
    for attribute in tag.attributes().with_checks(false) {
        let attribute = attribute.map_err(|error| invalid(&error))?;
        let (name, value) = (local(attribute.key.into_inner()), &attribute.value);
        allowance.take(2 * TEXT_BYTES + name.len() + value.len())?;
        element.attributes.push((name.to_owned(), expand(value)));
    }
    stack.push((name.to_owned(), element));
    Ok(())
}

/// The reader has compared the names.
fn close(stack: &mut Vec<(String, Element)>) {
    let Some((name, mut element)) = stack.pop() else { return };
    // Stable: of one name they stay in the order of the document.
    element.children.sort_by(|(one, _), (other, _)| one.cmp(other));
    if let Some((_, parent)) = stack.last_mut() {
        parent.children.push((local(&name).to_owned(), element));
    }
}

fn add_text(stack: &mut [(String, Element)], text: &str, allowance: &Allowance) -> Result<(), TooLarge> {
    let text = text.trim();
    if !text.is_empty() {
        allowance.take(TEXT_BYTES + text.len())?;
        push_text(stack, expand(text));
    }
    Ok(())
}

fn push_text(stack: &mut [(String, Element)], text: String) {
    // Text outside of the root element means nothing.
    if let [_, .., (_, element)] = stack {
        element.texts.push(text);
    }
}

/// A name without its namespace prefix.
fn local(name: &str) -> &str {
    name.rsplit_once(':').map_or(name, |(_, local)| local)
}

/// Replaces the five named entities and character references; others stay.
fn expand(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let near = after.as_bytes().get(..LONGEST_ENTITY).unwrap_or(after.as_bytes());
        let entity = memchr::memchr(b';', near).map(|end| &after[..end]);
        let character = entity.and_then(|entity| match entity {
            "lt" => Some('<'),
            "gt" => Some('>'),
            "amp" => Some('&'),
            "quot" => Some('"'),
            "apos" => Some('\''),
            number => {
                let number = number.strip_prefix('#')?;
                let code = match number.strip_prefix('x') {
                    Some(digits) => u32::from_str_radix(digits, 16).ok()?,
                    None => number.parse().ok()?,
                };
                char::from_u32(code)
            }
        });
        match (character, entity) {
            (Some(character), Some(entity)) => {
                out.push(character);
                rest = &after[entity.len() + 1..];
            }
            _ => {
                out.push('&');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

impl Element {
    /// The element as a Lua value: a text, or a table; an empty element is an empty text.
    fn source(&self) -> Source<'_> {
        if !self.children.is_empty() || !self.attributes.is_empty() {
            return Source::Table(self.table());
        }
        match self.texts.as_slice() {
            [] => Source::Text(""),
            [text] => Source::Text(text),
            texts => Source::Table(Source::list(texts.len(), texts.iter().map(|text| Source::Text(text)))),
        }
    }

    pub(super) fn table(&self) -> Entries<'_> {
        let texts = (1..).zip(&self.texts).map(|(place, text)| (Key::Place(place), Source::Text(text)));
        let attributes = (!self.attributes.is_empty()).then(|| {
            let each = self.attributes.iter().map(|(name, value)| (Key::Name(name), Source::Text(value)));
            let (members, each) = (self.attributes.len(), Box::new(each));
            (Key::Name("_attr"), Source::Table(Entries { items: 0, members, is_array: false, each }))
        });
        // They are in order of their names, see `close`.
        let children = self.children.chunk_by(|(one, _), (other, _)| one == other).filter_map(|same| {
            let (name, first) = same.first()?;
            let several = || Source::list(same.len(), same.iter().map(|(_, child)| child.source()));
            let value = if same.len() == 1 { first.source() } else { Source::Table(several()) };
            Some((Key::Name(name), value))
        });
        let each = Box::new(texts.chain(attributes).chain(children));
        Entries { items: self.texts.len(), members: 0, is_array: false, each }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lua_value(text: &str, expression: &str) -> String {
        let root = parse(text, &Allowance::new(10_000)).unwrap();
        crate::lua::evaluate(Source::Table(root.table()), &format!("tostring({expression})"))
    }

    #[test]
    fn shapes_of_trees() {
        let cases = [
            ("<a>x</a>", "t.a", "x"),
            ("<?xml version='1.0'?><s:a xmlns:s='u'><s:b> y </s:b></s:a>", "t.a.b", "y"),
            ("<a><b>1</b><b>2</b></a>", "t.a.b[2]", "2"),
            ("<a><b/></a>", "t.a.b == ''", "true"),
            ("<a k=\"v>w\">x</a>", "t.a._attr.k .. t.a[1]", "v>wx"),
            ("<a><![CDATA[<x>]]></a>", "t.a", "<x>"),
            ("<a>&lt;&#65;&amp;&bad;</a>", "t.a", "<A&&bad;"),
            ("<a>&#x000041;&#x41&#00000000000000065;</a>", "t.a", "A&#x41&#00000000000000065;"),
            ("<a><c/><b>1</b><c/><b>2</b></a>", "t.a.b[1] .. t.a.b[2] .. #t.a.c", "122"),
            ("<!-- c --><a><!-- d -->z</a>", "t.a", "z"),
            ("<a>x<!-- d -->y</a>", "t.a[1] .. t.a[2]", "xy"),
            ("\u{feff}<a>x</a>", "t.a", "x"),
            ("<!DOCTYPE a [<!ENTITY x 'y'>]><a>1 & 2 &x; <b/></a>", "t.a[1]", "1 & 2 &x;"),
            ("<a k='1' k='2'/>", "t.a._attr.k", "2"),
        ];
        for (text, expression, expected) in cases {
            assert_eq!(lua_value(text, expression), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_document() {
        for text in ["", "text", "<a>", "</a>", "<a></b>", "<a", "<a k></a>", "<a k=v></a>", "<!-- x", "<>"] {
            assert!(parse(text, &Allowance::new(10_000)).is_err(), "{text}");
        }
    }
}
