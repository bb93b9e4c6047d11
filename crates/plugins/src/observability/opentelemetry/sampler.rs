//! Which traces are recorded.

use serde::Deserialize;
use serde_json::Value;

use super::context::TraceContext;

#[derive(Deserialize)]
pub(super) struct Conf {
    name: String,
    #[serde(default)]
    options: Options,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Options {
    fraction: f64,
    root: Option<Root>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Root {
    name: String,
    options: RootOptions,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RootOptions {
    fraction: f64,
}

#[derive(Debug, PartialEq)]
enum Rule {
    Always,
    Never,
    Ratio(f64),
}

/// Samplers that record no trace although they do not say so.
pub(super) fn remarks(conf: &Value) -> Vec<String> {
    let at = |place: &str| {
        let rule = conf.pointer(place)?;
        let fraction = rule.pointer("/options/fraction").and_then(Value::as_f64);
        let is_none = fraction.is_none_or(|fraction| fraction <= 0.0);
        (rule.get("name")?.as_str() == Some("trace_id_ratio") && is_none).then_some(())
    };
    if conf.pointer("/sampler/name").is_none() {
        return vec![
            "sampler is always_off unless it is set, so that no span is sent; write {\"name\": \"always_on\"}".to_owned(),
        ];
    }
    if at("/sampler").is_some() {
        return vec![
            "sampler trace_id_ratio samples nothing without options.fraction above 0, up to 1".to_owned(),
        ];
    }
    let is_by_parent = conf.pointer("/sampler/name").is_some_and(|name| name == "parent_base");
    let root = at("/sampler/options/root").filter(|()| is_by_parent);
    root.map(|()| {
        "sampler.options.root trace_id_ratio samples no trace that begins here without options.fraction above 0, up to 1".to_owned()
    })
    .into_iter()
    .collect()
}

impl Rule {
    fn new(name: &str, fraction: f64) -> Rule {
        match name {
            "always_on" => Rule::Always,
            "trace_id_ratio" => Rule::Ratio(fraction),
            _ => Rule::Never,
        }
    }

    /// The same answer for a trace wherever it is asked: the id decides, not chance.
    fn samples(&self, trace_id: &str) -> bool {
        match self {
            Rule::Always => true,
            Rule::Never => false,
            Rule::Ratio(fraction) if *fraction >= 1.0 => true,
            Rule::Ratio(fraction) => {
                let part = trace_id.get(..16).and_then(|digits| u64::from_str_radix(digits, 16).ok());
                part.is_some_and(|part| ((part >> 1) as f64) < fraction * (1u64 << 63) as f64)
            }
        }
    }
}

pub(crate) struct Sampler {
    /// The parent's decision counts, the rule only for traces that begin here.
    by_parent: bool,
    rule: Rule,
}

impl Sampler {
    pub(super) fn new(conf: &Conf) -> Sampler {
        if conf.name != "parent_base" {
            return Sampler { by_parent: false, rule: Rule::new(&conf.name, conf.options.fraction) };
        }
        let rule = conf
            .options
            .root
            .as_ref()
            .map_or(Rule::Never, |root| Rule::new(&root.name, root.options.fraction));
        Sampler { by_parent: true, rule }
    }

    pub(super) fn samples(&self, trace_id: &str, parent: Option<&TraceContext>) -> bool {
        match parent {
            Some(parent) if self.by_parent => parent.sampled,
            _ => self.rule.samples(trace_id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions() {
        let parent = |sampled| TraceContext { trace_id: "f".repeat(32), span_id: "1".repeat(16), sampled };
        let sampler = |conf| Sampler::new(&serde_json::from_value(conf).unwrap());
        let cases = [
            (serde_json::json!({"name": "always_on"}), None, true),
            (serde_json::json!({"name": "always_off"}), Some(parent(true)), false),
            (serde_json::json!({"name": "trace_id_ratio", "options": {"fraction": 1}}), None, true),
            (serde_json::json!({"name": "trace_id_ratio", "options": {"fraction": 0.5}}), None, false),
            (serde_json::json!({"name": "parent_base"}), Some(parent(true)), true),
            (serde_json::json!({"name": "parent_base"}), None, false),
            (
                serde_json::json!({"name": "parent_base", "options": {"root": {"name": "always_on"}}}),
                None,
                true,
            ),
            (
                serde_json::json!({"name": "parent_base", "options": {"root": {"name": "always_on"}}}),
                Some(parent(false)),
                false,
            ),
        ];
        for (conf, parent, expected) in cases {
            let text = conf.to_string();
            assert_eq!(sampler(conf).samples(&"f".repeat(32), parent.as_ref()), expected, "{text}");
        }
    }
}
