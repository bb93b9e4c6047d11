//! Distinguished names as text: RFC 2253 as OpenSSL and nginx write it, and OpenSSL's older form with slashes.

use std::fmt::Write;

use der::{
    Reader, SliceReader, Tag, Tagged,
    asn1::{AnyRef, ObjectIdentifier},
};

/// Attributes that are written by name, with OpenSSL's short names. Any other is written as its number.
const NAMES: &[(&str, &str)] = &[
    ("2.5.4.3", "CN"),
    ("2.5.4.4", "SN"),
    ("2.5.4.5", "serialNumber"),
    ("2.5.4.6", "C"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.9", "street"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("2.5.4.12", "title"),
    ("2.5.4.13", "description"),
    ("2.5.4.15", "businessCategory"),
    ("2.5.4.16", "postalAddress"),
    ("2.5.4.17", "postalCode"),
    ("2.5.4.18", "postOfficeBox"),
    ("2.5.4.20", "telephoneNumber"),
    ("2.5.4.41", "name"),
    ("2.5.4.42", "GN"),
    ("2.5.4.43", "initials"),
    ("2.5.4.44", "generationQualifier"),
    ("2.5.4.45", "x500UniqueIdentifier"),
    ("2.5.4.46", "dnQualifier"),
    ("2.5.4.65", "pseudonym"),
    ("2.5.4.72", "role"),
    ("2.5.4.97", "organizationIdentifier"),
    ("0.9.2342.19200300.100.1.1", "UID"),
    ("0.9.2342.19200300.100.1.3", "mail"),
    ("0.9.2342.19200300.100.1.25", "DC"),
    ("1.2.840.113549.1.9.1", "emailAddress"),
    ("1.2.840.113549.1.9.2", "unstructuredName"),
    ("1.2.840.113549.1.9.8", "unstructuredAddress"),
    ("1.3.6.1.4.1.311.20.2.3", "msUPN"),
    ("1.3.6.1.4.1.311.60.2.1.1", "jurisdictionL"),
    ("1.3.6.1.4.1.311.60.2.1.2", "jurisdictionST"),
    ("1.3.6.1.4.1.311.60.2.1.3", "jurisdictionC"),
];

const COMMON_NAME: &str = "2.5.4.3";

struct Attribute<'a> {
    id: String,
    value: AnyRef<'a>,
    /// With tag and length.
    der: &'a [u8],
    /// The number of its RelativeDistinguishedName.
    group: usize,
}

impl Attribute<'_> {
    fn name(&self) -> Option<&'static str> {
        NAMES.iter().find(|(id, _)| *id == self.id).map(|(_, name)| *name)
    }
}

/// `contents`: of the Name, without tag and length.
fn attributes(contents: &[u8]) -> der::Result<Vec<Attribute<'_>>> {
    let mut found = Vec::new();
    let mut groups = SliceReader::new(contents)?;
    let mut group = 0;
    while !groups.is_finished() {
        let set: AnyRef<'_> = groups.decode()?;
        set.tag().assert_eq(Tag::Set)?;
        let mut pairs = SliceReader::new(set.value())?;
        while !pairs.is_finished() {
            let pair: AnyRef<'_> = pairs.decode()?;
            pair.tag().assert_eq(Tag::Sequence)?;
            let mut fields = SliceReader::new(pair.value())?;
            let id: ObjectIdentifier = fields.decode()?;
            let der = fields.tlv_bytes()?;
            let value = SliceReader::new(der)?.decode()?;
            found.push(Attribute { id: id.to_string(), value, der, group });
        }
        group += 1;
    }
    Ok(found)
}

/// `CN=client,O=Example`: the last attribute first, bytes beyond ASCII escaped. `None` when it cannot be read.
pub fn rfc2253(contents: &[u8]) -> Option<String> {
    let attributes = attributes(contents).ok()?;
    let mut text = String::new();
    let mut before = None;
    for attribute in attributes.iter().rev() {
        match before {
            Some(group) if group == attribute.group => text.push('+'),
            Some(_) => text.push(','),
            None => {}
        }
        before = Some(attribute.group);
        match (attribute.name(), characters(attribute.value)) {
            (Some(name), Some(characters)) => {
                text.push_str(name);
                text.push('=');
                escape(&characters, &mut text);
            }
            (name, _) => {
                text.push_str(name.unwrap_or(&attribute.id));
                text.push_str("=#");
                attribute.der.iter().for_each(|byte| _ = write!(text, "{byte:02X}"));
            }
        }
    }
    Some(text)
}

/// `/O=Example/CN=client`, as OpenSSL's `X509_NAME_oneline`.
pub fn one_line(contents: &[u8]) -> Option<String> {
    let attributes = attributes(contents).ok()?;
    let mut text = String::new();
    let mut before = None;
    for attribute in &attributes {
        text.push(if before == Some(attribute.group) { '+' } else { '/' });
        before = Some(attribute.group);
        text.push_str(attribute.name().unwrap_or(&attribute.id));
        text.push('=');
        for byte in attribute.value.value() {
            match byte {
                b'/' | b'+' => {
                    text.push('\\');
                    text.push(char::from(*byte));
                }
                b' '..=b'~' => text.push(char::from(*byte)),
                _ => _ = write!(text, "\\x{byte:02X}"),
            }
        }
    }
    Some(text)
}

/// The CNs of a subject that are text. Others match no name.
pub(crate) fn common_names(contents: &[u8]) -> Vec<String> {
    let attributes = attributes(contents).unwrap_or_default();
    let names = attributes.iter().filter(|attribute| attribute.id == COMMON_NAME);
    names.filter_map(|name| String::from_utf8(characters(name.value)?).ok()).collect()
}

/// UTF-8 of a string type. T61 counts as Latin-1, as everywhere.
fn characters(value: AnyRef<'_>) -> Option<Vec<u8>> {
    let bytes = value.value();
    match value.tag() {
        Tag::Utf8String => Some(bytes.to_vec()),
        Tag::NumericString
        | Tag::PrintableString
        | Tag::TeletexString
        | Tag::Ia5String
        | Tag::VisibleString
        | Tag::UtcTime
        | Tag::GeneralizedTime => Some(bytes.iter().map(|byte| char::from(*byte)).collect::<String>().into()),
        Tag::BmpString => wide(bytes),
        _ => None,
    }
}

fn wide(bytes: &[u8]) -> Option<Vec<u8>> {
    let points = bytes.chunks(2).map(|it| it.iter().fold(0u32, |point, byte| point << 8 | u32::from(*byte)));
    Some(points.map(char::from_u32).collect::<Option<String>>()?.into())
}

fn escape(characters: &[u8], text: &mut String) {
    let last = characters.len().saturating_sub(1);
    for (position, byte) in characters.iter().enumerate() {
        let edge = match byte {
            b' ' => position == 0 || position == last,
            b'#' => position == 0,
            _ => matches!(byte, b',' | b'+' | b'"' | b'\\' | b'<' | b'>' | b';'),
        };
        match byte {
            _ if edge => {
                text.push('\\');
                text.push(char::from(*byte));
            }
            b' '..=b'~' => text.push(char::from(*byte)),
            _ => _ = write!(text, "\\{byte:02X}"),
        }
    }
}
