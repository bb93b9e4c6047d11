//! Paths of an OpenAPI document: `/pets/{id}/photos/{name}.{kind}`.

use std::cmp::Ordering;

#[derive(Debug)]
pub(super) struct Template(Vec<Vec<Part>>);

#[derive(Debug)]
enum Part {
    Text(String),
    Parameter(String),
}

impl Template {
    pub(super) fn new(path: &str) -> Result<Template, String> {
        path.split('/').map(segment).collect::<Result<_, _>>().map(Template)
    }

    /// The parameters' values, if the path is one of these.
    pub(super) fn values<'t>(&'t self, path: &str) -> Option<Vec<(&'t str, String)>> {
        let mut segments = path.split('/');
        let mut values = Vec::new();
        for parts in &self.0 {
            values_of(parts, segments.next()?, &mut values)?;
        }
        segments.next().is_none().then_some(values)
    }

    /// What says more of a path comes first.
    pub(super) fn cmp_specific(&self, other: &Template) -> Ordering {
        let parameters =
            |parts: &Vec<Part>| parts.iter().filter(|part| matches!(part, Part::Parameter(_))).count();
        let texts = |parts: &Vec<Part>| {
            let length = |part: &Part| if let Part::Text(text) = part { text.len() } else { 0 };
            parts.iter().map(length).sum::<usize>()
        };
        let order = self.0.iter().zip(&other.0).map(|(one, other)| {
            let order = parameters(one).min(1).cmp(&parameters(other).min(1));
            order.then(texts(other).cmp(&texts(one)))
        });
        order.fold(Ordering::Equal, Ordering::then)
    }
}

fn segment(text: &str) -> Result<Vec<Part>, String> {
    let (mut parts, mut rest) = (Vec::new(), text);
    while let Some((before, after)) = rest.split_once('{') {
        if !before.is_empty() {
            parts.push(Part::Text(before.to_owned()));
        }
        let (name, after) = after.split_once('}').ok_or_else(|| format!("{text}: a brace is not closed"))?;
        if matches!(parts.last(), Some(Part::Parameter(_))) {
            return Err(format!("{text}: nothing stands between two parameters"));
        }
        parts.push(Part::Parameter(name.to_owned()));
        rest = after;
    }
    if !rest.is_empty() {
        parts.push(Part::Text(rest.to_owned()));
    }
    Ok(parts)
}

/// Each parameter goes up to the next text; none is empty.
fn values_of<'t>(parts: &'t [Part], mut text: &str, values: &mut Vec<(&'t str, String)>) -> Option<()> {
    for (at, part) in parts.iter().enumerate() {
        match part {
            Part::Text(literal) => text = text.strip_prefix(literal.as_str())?,
            Part::Parameter(name) => {
                let end = match parts.get(at + 1) {
                    // The last text ends the segment.
                    Some(Part::Text(literal)) if at + 2 == parts.len() => {
                        text.strip_suffix(literal.as_str())?.len()
                    }
                    Some(Part::Text(literal)) => text.find(literal.as_str())?,
                    _ => text.len(),
                };
                let (value, rest) = text.split_at(end);
                if value.is_empty() {
                    return None;
                }
                values.push((name, value.to_owned()));
                text = rest;
            }
        }
    }
    text.is_empty().then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        let cases = [
            ("/pet/{id}", "/pet/1", Some("id=1")),
            ("/pet/{id}", "/pet/", None),
            ("/pet/{id}", "/pet/1/x", None),
            ("/pet", "/pet", Some("")),
            ("/pet", "/pets", None),
            ("/f/{name}.{kind}", "/f/a.b.png", Some("name=a kind=b.png")),
            ("/f/v{n}-x", "/f/v12-x", Some("n=12")),
            ("/f/v{n}-x", "/f/v12", None),
        ];
        for (template, path, expected) in cases {
            let template = Template::new(template).expect("a template");
            let found = template.values(path).map(|values| {
                values.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
            });
            assert_eq!(found.as_deref(), expected, "{template:?} {path}");
        }
        for template in ["/{a", "/{a}{b}"] {
            assert!(Template::new(template).is_err(), "{template}");
        }
    }

    #[test]
    fn texts_come_before_parameters() {
        let order = |one: &str, other: &str| {
            let template = |text: &str| Template::new(text).expect("a template");
            template(one).cmp_specific(&template(other))
        };
        assert_eq!(order("/pet/find", "/pet/{id}"), Ordering::Less);
        assert_eq!(order("/pet/v{id}", "/pet/{id}"), Ordering::Less);
        assert_eq!(order("/{a}/b", "/a/{b}"), Ordering::Greater);
    }
}
