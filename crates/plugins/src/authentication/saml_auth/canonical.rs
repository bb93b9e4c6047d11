//! Exclusive XML Canonicalization 1.0, without comments: <https://www.w3.org/TR/xml-exc-c14n/>.

use std::rc::Rc;

use super::tree::{Element, Node, Scope};

/// A namespace is written at each of the elements next to each other that have it: without a bound, a document of 1 MiB could have
/// a canonical form of gigabytes.
const MAX_BYTES: usize = 4 << 20;

/// Of an element and what is in it. `without`: an element that is left out. `inclusive`: prefixes whose namespaces are written even
/// where no name has them (`InclusiveNamespaces`). `Err`: it is too long.
pub(super) fn of(
    element: &Element,
    without: Option<&Element>,
    inclusive: &[&str],
) -> Result<String, &'static str> {
    let mut out = String::new();
    write(element, without, inclusive, &Scope::new(), &mut out)?;
    Ok(out)
}

fn write(
    element: &Element,
    without: Option<&Element>,
    inclusive: &[&str],
    above: &Scope,
    out: &mut String,
) -> Result<(), &'static str> {
    if out.len() > MAX_BYTES {
        return Err("its canonical form is too long");
    }
    let mut written = above.clone();
    out.push('<');
    push_name(&element.name.prefix, &element.name.local, out);
    for (prefix, namespace) in declarations(element, inclusive, above) {
        out.push_str(" xmlns");
        if !prefix.is_empty() {
            out.push(':');
            out.push_str(&prefix);
        }
        out.push_str("=\"");
        escape(&namespace, true, out);
        out.push('"');
        written.insert(prefix, namespace);
    }
    // In the order of their namespaces and names, as the tree has them.
    for attribute in &element.attributes {
        out.push(' ');
        push_name(&attribute.name.prefix, &attribute.name.local, out);
        out.push_str("=\"");
        escape(&attribute.value, true, out);
        out.push('"');
    }
    out.push('>');
    for child in &element.children {
        match child {
            Node::Text(text) => escape(text, false, out),
            Node::Element(child) if without.is_some_and(|without| std::ptr::eq(without, child)) => {}
            Node::Element(child) => write(child, without, inclusive, &written, out)?,
        }
    }
    out.push_str("</");
    push_name(&element.name.prefix, &element.name.local, out);
    out.push('>');
    Ok(())
}

/// The namespaces that this element's tag has to declare, by prefix.
fn declarations(element: &Element, inclusive: &[&str], above: &Scope) -> Scope {
    let of_attributes = element.attributes.iter().map(|attribute| attribute.name.prefix.as_str());
    let used = of_attributes.filter(|prefix| !prefix.is_empty());
    let used = used.chain([element.name.prefix.as_str()]).filter(|prefix| *prefix != "xml");
    let listed = inclusive.iter().copied().filter(|prefix| element.scope.contains_key(*prefix));
    let wanted = used.chain(listed).map(|prefix| (prefix, namespace(&element.scope, prefix)));
    wanted
        .filter(|(prefix, wanted)| namespace(above, prefix) != *wanted)
        .map(|(prefix, wanted)| (prefix.into(), wanted))
        .collect()
}

/// Empty: none.
fn namespace(scope: &Scope, prefix: &str) -> Rc<str> {
    scope.get(prefix).cloned().unwrap_or_default()
}

fn push_name(prefix: &str, local: &str, out: &mut String) {
    if !prefix.is_empty() {
        out.push_str(prefix);
        out.push(':');
    }
    out.push_str(local);
}

fn escape(text: &str, is_attribute: bool, out: &mut String) {
    for letter in text.chars() {
        match (letter, is_attribute) {
            ('&', _) => out.push_str("&amp;"),
            ('<', _) => out.push_str("&lt;"),
            ('\r', _) => out.push_str("&#xD;"),
            ('>', false) => out.push_str("&gt;"),
            ('"', true) => out.push_str("&quot;"),
            ('\t', true) => out.push_str("&#x9;"),
            ('\n', true) => out.push_str("&#xA;"),
            (letter, _) => out.push(letter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authentication::saml_auth::tree::parse;

    fn canonical(document: &str, at: &[&str], inclusive: &[&str]) -> String {
        let root = parse(document.as_bytes()).expect("a document");
        let element = at.iter().fold(&root, |element, name| {
            element.elements().find(|child| child.name.local == *name).expect("an element")
        });
        of(element, None, inclusive).expect("a short form")
    }

    /// The examples of the recommendation, section 2.2, and of Canonical XML 1.0, sections 3.2 to 3.4.
    #[test]
    fn what_the_recommendations_show() {
        let one = r#"<n0:local xmlns:n0="foo:bar" xmlns:n3="ftp://example.org"><n1:elem2 xmlns:n1="http://example.net" xml:lang="en"><n3:stuff xmlns:n3="ftp://example.org"/></n1:elem2></n0:local>"#;
        let two = r#"<n2:pdu xmlns:n1="http://example.com" xmlns:n2="http://foo.example" xml:lang="fr" xml:space="retain"><n1:elem2 xmlns:n1="http://example.net" xml:lang="en"><n3:stuff xmlns:n3="ftp://example.org"/></n1:elem2></n2:pdu>"#;
        let expected = r#"<n1:elem2 xmlns:n1="http://example.net" xml:lang="en"><n3:stuff xmlns:n3="ftp://example.org"></n3:stuff></n1:elem2>"#;
        assert_eq!(canonical(one, &["elem2"], &[]), expected);
        assert_eq!(canonical(two, &["elem2"], &[]), expected);
        for (document, expected) in [
            (
                "<doc>\n   <e1   />\n   <e3   name = \"elem3\"   id=\"elem3\"   /></doc>",
                "<doc>\n   <e1></e1>\n   <e3 id=\"elem3\" name=\"elem3\"></e3></doc>",
            ),
            (
                "<e5 a:attr=\"out\" b:attr=\"sorted\" attr2=\"all\" attr=\"I'm\" xmlns:b=\"http://www.ietf.org\" xmlns:a=\"http://www.w3.org\" xmlns=\"http://example.org\"/>",
                "<e5 xmlns=\"http://example.org\" xmlns:a=\"http://www.w3.org\" xmlns:b=\"http://www.ietf.org\" attr=\"I'm\" attr2=\"all\" b:attr=\"sorted\" a:attr=\"out\"></e5>",
            ),
            (
                "<doc><text>First line&#x0d;&#10;Second line</text><value>&#x32;</value><compute><![CDATA[value>\"0\" && value<\"10\" ?\"valid\":\"error\"]]></compute><norm attr=' &apos;   &#x20;&#13;&#xa;&#9;   &apos; '/></doc>",
                "<doc><text>First line&#xD;\nSecond line</text><value>2</value><compute>value&gt;\"0\" &amp;&amp; value&lt;\"10\" ?\"valid\":\"error\"</compute><norm attr=\" '    &#xD;&#xA;&#x9;   ' \"></norm></doc>",
            ),
            ("<doc>Hello, world!<!-- Comment 1 --></doc>", "<doc>Hello, world!</doc>"),
        ] {
            assert_eq!(canonical(document, &[], &[]), expected);
        }
    }

    #[test]
    fn namespaces_are_written_where_they_are_used_or_listed() {
        let document = r#"<a xmlns="u:0" xmlns:p="u:1" xmlns:q="u:2"><b><c xmlns=""><p:d/></c></b></a>"#;
        assert_eq!(
            canonical(document, &["b"], &[]),
            r#"<b xmlns="u:0"><c xmlns=""><p:d xmlns:p="u:1"></p:d></c></b>"#
        );
        assert_eq!(
            canonical(document, &["b"], &["q", "none"]),
            r#"<b xmlns="u:0" xmlns:q="u:2"><c xmlns=""><p:d xmlns:p="u:1"></p:d></c></b>"#
        );
        assert_eq!(canonical(document, &["b", "c"], &[]), r#"<c><p:d xmlns:p="u:1"></p:d></c>"#);
    }
    #[test]
    fn namespaces_written_again_and_again_end() {
        let long = "u:".repeat(50_000);
        let document = format!("<a xmlns:p='{long}'>{}</a>", "<p:b/>".repeat(9_000));
        assert!(of(&parse(document.as_bytes()).expect("a document"), None, &[]).is_err());
    }
}
