//! Texts with variables that stay as they are written where there is nothing to put in.

use serde_json::{Map, Value};
use tidegate_plugin_api::{Request, Template};

pub(crate) struct VariableText {
    text: String,
    template: Template,
}

impl VariableText {
    pub(crate) fn new(text: &str) -> VariableText {
        VariableText { text: text.to_owned(), template: Template::compile(text) }
    }

    /// A text none of whose variables has a value stays unchanged.
    pub(crate) fn render(&self, request: &Request) -> String {
        let mut rendered = Vec::new();
        match self.template.render_into(request, &mut rendered) {
            0 => self.text.clone(),
            _ => String::from_utf8_lossy(&rendered).into_owned(),
        }
    }
}

/// Several, by name.
pub(crate) struct VariableTexts(Vec<(String, VariableText)>);

impl VariableTexts {
    pub(crate) fn new(texts: &Map<String, Value>) -> VariableTexts {
        let text =
            |(name, value): (&String, &Value)| Some((name.clone(), VariableText::new(value.as_str()?)));
        VariableTexts(texts.iter().filter_map(text).collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn render(&self, request: &Request) -> impl Iterator<Item = (String, String)> {
        self.0.iter().map(|(name, text)| (name.clone(), text.render(request)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::test_request;

    #[test]
    fn values_and_texts() {
        let request = test_request::request("GET /x HTTP/1.1\r\nHost: h\r\n\r\n");
        for (text, expected) in
            [("a", "a"), ("${host}-$arg_a", "h-"), ("x-$arg_a", "x-$arg_a"), ("$host", "h")]
        {
            assert_eq!(VariableText::new(text).render(&request), expected, "{text}");
        }
    }
}
