//! Plugin grpc-gateway: the HTTP rules in a proto file (`option (google.api.http)`) as routes with grpc-transcode.
//!
//! Reads as much of protobuf's language as says which rule belongs to which method; what the text means otherwise is
//! checked where it is compiled, without the options and without the import that defines them.

use serde_json::{Value, json};

use crate::{fields::Fields, imported::Imported};

/// A rule: a method of HTTP and a path for a method of gRPC.
#[derive(Debug, PartialEq)]
pub(super) struct Rule {
    pub method: String,
    /// Matches the whole path; its groups are the values of `arguments`.
    pub pattern: String,
    pub arguments: Vec<String>,
    pub service: String,
    pub call: String,
}

#[derive(Debug, Default)]
pub(super) struct Proto {
    /// The file without what grpc-transcode does not need.
    pub text: String,
    pub rules: Vec<Rule>,
    /// Rules that are not converted, and why.
    pub left_out: Vec<String>,
}

/// The file that the plugin names.
pub(super) fn file(conf: &Fields) -> Option<String> {
    conf.text("proto")
}

/// The routes of the rules, above `route`, which then answers what none of them matches.
pub(crate) fn add_routes(
    gateway: &Value,
    name: &str,
    route: &mut Value,
    band: usize,
    files: &dyn Fn(&str) -> Result<String, String>,
    imported: &mut Imported,
) {
    let line =
        gateway.get("line").and_then(Value::as_u64).and_then(|line| usize::try_from(line).ok()).unwrap_or(0);
    let subject = "plugin grpc-gateway";
    let none = json!({"abort": {"http_status": 400, "body": "no rule of the proto file matches"}});
    let path = gateway.get("proto").and_then(Value::as_str).unwrap_or_default();
    let proto = match files(path) {
        Ok(text) => read(&text),
        Err(why) => {
            imported.report.unsupported(line, subject, &format!("{why}; its requests are answered 400"));
            route["plugins"]["fault-injection"] = none;
            return;
        }
    };
    let id = imported.output.id("protos", name);
    imported.report.made("protos", &id, line);
    imported.output.add("protos", &id, json!({"content": proto.text}));
    for why in &proto.left_out {
        imported.report.unsupported(line, subject, why);
    }
    let floor = route.get("priority").and_then(Value::as_u64).unwrap_or(0);
    let room = band.saturating_sub(1);
    if proto.rules.len() > room {
        imported.report.unsupported(line, subject, &format!("rules beyond the first {room} are left out"));
    }
    let how = "bodies of errors have another form, streams of answers end with their first message, and the file is \
               read at import";
    imported.report.approximated(line, subject, how);
    for (index, rule) in proto.rules.iter().take(room).enumerate() {
        let allowed = route.get("methods").and_then(Value::as_array);
        if allowed.is_some_and(|methods| !methods.iter().any(|method| *method == rule.method)) {
            continue;
        }
        let mut own = route.clone();
        let mut vars = own.get("vars").and_then(Value::as_array).cloned().unwrap_or_default();
        vars.push(json!(["uri", "~~", rule.pattern]));
        own["vars"] = vars.into();
        own["methods"] = json!([rule.method]);
        own["priority"] = (floor + (room - index) as u64).into();
        let mut conf = json!({"proto_id": id, "service": rule.service, "method": rule.call});
        if !rule.arguments.is_empty() {
            conf["path_regex"] = rule.pattern.clone().into();
            conf["path_fields"] = json!(rule.arguments);
        }
        own["plugins"]["grpc-transcode"] = conf;
        let id = imported.output.id("routes", &format!("{name}-{}", rule.call));
        imported.report.made("routes", &id, line);
        imported.output.add("routes", &id, own);
    }
    route["plugins"]["fault-injection"] = none;
}

pub(super) fn read(text: &str) -> Proto {
    let bare = without_comments(text);
    let tokens = tokens(&bare);
    let mut proto = Proto::default();
    let (mut package, mut service, mut call) = (String::new(), String::new(), String::new());
    let mut removed: Vec<(usize, usize)> = Vec::new();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        let next = |offset: usize| tokens.get(at + offset).map_or("", |token| token.text);
        match token.text {
            "package" => package = next(1).to_owned(),
            "service" if next(2) == "{" => service = next(1).to_owned(),
            "rpc" => call = next(1).to_owned(),
            "import" if next(1).trim_matches('"') == "google/api/annotations.proto" => {
                let end = statement_end(&tokens, at);
                removed.push((token.start, tokens.get(end).map_or(bare.len(), Token::end)));
                at = end;
            }
            "option" if next(1) == "(" && next(2) == "google.api.http" => {
                let end = statement_end(&tokens, at);
                let inner = tokens.get(at + 3..end).unwrap_or_default();
                let name = if package.is_empty() { service.clone() } else { format!("{package}.{service}") };
                rules(inner, &name, &call, &mut proto);
                removed.push((token.start, tokens.get(end).map_or(bare.len(), Token::end)));
                at = end;
            }
            _ => {}
        }
        at += 1;
    }
    let mut from = 0;
    for (start, end) in removed {
        proto.text.push_str(bare.get(from..start).unwrap_or_default());
        from = end;
    }
    proto.text.push_str(bare.get(from..).unwrap_or_default());
    proto
}

/// The index of the semicolon that ends a statement, braces skipped.
fn statement_end(tokens: &[Token], start: usize) -> usize {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate().skip(start) {
        match token.text {
            "{" => depth += 1,
            "}" => depth = depth.saturating_sub(1),
            ";" if depth == 0 => return index,
            _ => {}
        }
    }
    tokens.len()
}

const METHODS: [&str; 5] = ["get", "put", "post", "delete", "patch"];

/// `get: "/path"`, `body: "*"`, and the same inside `additional_bindings { }`.
fn rules(tokens: &[Token], service: &str, call: &str, proto: &mut Proto) {
    // A binding begins with its braces; what stands in a nested one does not count for the outer.
    let mut stack: Vec<(Option<(&str, &str)>, Option<&str>)> = vec![(None, None)];
    let mut done = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        let value = || {
            let rest = tokens.iter().skip(index + 1).find(|token| ![":", "="].contains(&token.text));
            rest.filter(|token| token.text.starts_with('"')).map(|token| token.text.trim_matches('"'))
        };
        match token.text {
            "{" => stack.push((None, None)),
            "}" => done.extend(stack.pop()),
            "body" => {
                if let (Some(top), Some(text)) = (stack.last_mut(), value()) {
                    top.1 = Some(text);
                }
            }
            name => {
                // The short form is `option (google.api.http).get = "/path"`.
                let name = name.trim_start_matches('.');
                if let (true, Some(top), Some(path)) = (METHODS.contains(&name), stack.last_mut(), value()) {
                    top.0 = Some((name, path));
                }
            }
        }
    }
    done.extend(stack.pop());
    for (rule, body) in done {
        let Some((method, path)) = rule else { continue };
        let shown = format!("{} {path} of {service}/{call}", method.to_uppercase());
        if body.is_some_and(|body| body != "*") {
            proto.left_out.push(format!("{shown}: `body` is a field; only \"*\" is converted"));
            continue;
        }
        match pattern(path) {
            Some((pattern, arguments)) => proto.rules.push(Rule {
                method: method.to_uppercase(),
                pattern,
                arguments,
                service: service.to_owned(),
                call: call.to_owned(),
            }),
            None => proto.left_out.push(format!("{shown}: fields of messages in the path are not converted")),
        }
    }
}

/// The expression for a path template, and the fields that its groups fill.
fn pattern(template: &str) -> Option<(String, Vec<String>)> {
    let (mut pattern, mut names) = ("^".to_owned(), Vec::new());
    let mut rest = template;
    while let Some(open) = rest.find('{') {
        pattern.push_str(&wild(&rest[..open]));
        let close = open + rest.get(open..)?.find('}')?;
        let (name, shape) =
            rest.get(open + 1..close)?.split_once('=').unwrap_or((rest.get(open + 1..close)?, "*"));
        if name.contains('.') {
            return None;
        }
        names.push(name.trim().to_owned());
        pattern.push_str(&format!("({})", wild(shape.trim())));
        rest = rest.get(close + 1..)?;
    }
    pattern.push_str(&wild(rest));
    pattern.push('$');
    Some((pattern, names))
}

/// `*` is a segment, `**` any number of them.
fn wild(text: &str) -> String {
    regex::escape(text).replace("\\*\\*", ".*").replace("\\*", "[^/]+")
}

struct Token<'a> {
    text: &'a str,
    start: usize,
}

impl Token<'_> {
    fn end(&self) -> usize {
        self.start + self.text.len()
    }
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let rest = bytes.get(at + 1..).unwrap_or_default();
        let word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte == b'.';
        let length = match byte {
            b'"' => 2 + rest.iter().position(|&other| other == b'"').unwrap_or(rest.len().saturating_sub(1)),
            byte if word(&byte) => 1 + rest.iter().take_while(|byte| word(byte)).count(),
            _ => 1,
        };
        if !byte.is_ascii_whitespace()
            && let Some(text) = text.get(at..at + length)
        {
            tokens.push(Token { text, start: at });
        }
        at += length;
    }
    tokens
}

/// Comments become spaces; quotes are kept.
fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut quoted = false;
    while let Some(c) = rest.chars().next() {
        let skip = match (quoted, rest) {
            (false, rest) if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            (false, rest) if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
            _ => 0,
        };
        if skip > 0 {
            out.push(' ');
            rest = rest.get(skip..).unwrap_or_default();
            continue;
        }
        quoted ^= c == '"';
        out.push(c);
        rest = rest.get(c.len_utf8()..).unwrap_or_default();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
syntax = "proto3";
package shop.v1; // a "package"
import "google/api/annotations.proto";
message Item { string id = 1; }
service Shop {
  rpc Get (Item) returns (Item) {
    option (google.api.http) = { get: "/v1/{id}" additional_bindings { post: "/v1/get:now" body: "*" } };
  }
  /* rpc Not (Item) returns (Item); */
  rpc All (Item) returns (stream Item) { option (google.api.http).get = "/v1/all/{id=a/**}"; option deprecated = true; }
  rpc Deep (Item) returns (Item) { option (google.api.http) = { put: "/v1/{a.b}" }; }
}
"#;

    #[test]
    fn rules_are_read_and_taken_out() {
        let proto = read(TEXT);
        let shown: Vec<String> = proto
            .rules
            .iter()
            .map(|rule| {
                format!(
                    "{} {} {:?} {}/{}",
                    rule.method, rule.pattern, rule.arguments, rule.service, rule.call
                )
            })
            .collect();
        let expected = [
            r#"POST ^/v1/get:now$ [] shop.v1.Shop/Get"#,
            r#"GET ^/v1/([^/]+)$ ["id"] shop.v1.Shop/Get"#,
            r#"GET ^/v1/all/(a/.*)$ ["id"] shop.v1.Shop/All"#,
        ];
        assert_eq!(shown, expected);
        assert_eq!(proto.left_out.len(), 1, "{:?}", proto.left_out);
        assert!(!proto.text.contains("google") && proto.text.contains("option deprecated"), "{}", proto.text);
    }
}
