//! `\\p{…}`: without UTF mode a byte is the character of Latin-1 with its number.

use std::fmt::Write;

use regex_syntax::hir::{Class, HirKind};

/// The bytes that have the property, as members of a class.
pub(super) fn bytes(name: &str, is_negated: bool) -> Result<String, String> {
    let class = match name {
        "Any" => r"[\x{0}-\x{10FFFF}]".to_owned(),
        "L&" => r"[\p{Lu}\p{Ll}\p{Lt}]".to_owned(),
        "Xan" => r"[\p{L}\p{N}]".to_owned(),
        "Xwd" => r"[\p{L}\p{N}_]".to_owned(),
        "Xps" | "Xsp" => r"[\p{Z}\t\n\x0B\f\r\x{85}]".to_owned(),
        name => format!("\\p{{{name}}}"),
    };
    let parsed =
        regex_syntax::parse(&class).map_err(|_| format!("unknown property name after \\p: {name}"))?;
    let HirKind::Class(Class::Unicode(class)) = parsed.kind() else {
        return Err(format!("\\p{{{name}}} is not supported"));
    };
    let has = |byte: u8| {
        class.iter().any(|range| range.start() <= char::from(byte) && char::from(byte) <= range.end())
    };
    let mut members = String::new();
    for byte in (0..=255).filter(|byte| has(*byte) != is_negated) {
        let _ = write!(members, "\\x{byte:02X}");
    }
    // A class without members is none.
    Ok(if members.is_empty() { r"[^\x00-\xFF]".to_owned() } else { members })
}
