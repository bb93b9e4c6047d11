//! Prometheus text format 0.0.4 and OpenMetrics 1.0: families, samples, escapes.
//!
//! A counter of OpenMetrics ends in `_total`. Those of APISIX that do not are of type `unknown` there: a series has the same
//! name in both formats, so that dashboards and alerts do not depend on what a scraper asks for.

use super::Format;

/// The type of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// A value of now.
    Gauge,
    /// Cumulative buckets, a sum and a count.
    Histogram,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// Writes families into a text; also for metrics the control side computes at scrape time.
#[derive(Debug, Default)]
pub struct TextWriter {
    pub(super) out: Vec<u8>,
    pub(super) format: Format,
}

/// Units that a family's name may end in.
const UNITS: [&str; 3] = ["bytes", "seconds", "milliseconds"];

impl TextWriter {
    /// Starts a family. All its samples must follow before the next family starts.
    pub fn family(&mut self, name: &str, help: &str, kind: Kind) {
        let is_open = self.format == Format::OpenMetrics;
        let (name, kind) = match (kind, name.strip_suffix("_total")) {
            (Kind::Counter, Some(base)) if is_open => (base, kind.name()),
            (Kind::Counter, None) if is_open => (name, "unknown"),
            _ => (name, kind.name()),
        };
        self.describe("HELP", name);
        for byte in help.bytes() {
            match byte {
                b'\\' => self.out.extend_from_slice(b"\\\\"),
                b'\n' => self.out.extend_from_slice(b"\\n"),
                b'"' if is_open => self.out.extend_from_slice(b"\\\""),
                other => self.out.push(other),
            }
        }
        self.out.push(b'\n');
        self.describe("TYPE", name);
        self.out.extend_from_slice(kind.as_bytes());
        self.out.push(b'\n');
        let unit = name.rsplit_once('_').map(|(_, unit)| unit).filter(|unit| UNITS.contains(unit));
        if let Some(unit) = unit.filter(|_| is_open) {
            self.describe("UNIT", name);
            self.out.extend_from_slice(unit.as_bytes());
            self.out.push(b'\n');
        }
    }

    fn describe(&mut self, what: &str, name: &str) {
        for part in ["# ", what, " ", name, " "] {
            self.out.extend_from_slice(part.as_bytes());
        }
    }

    /// What a page ends with.
    pub(super) fn finish(mut self) -> Vec<u8> {
        if self.format == Format::OpenMetrics {
            self.out.extend_from_slice(b"# EOF\n");
        }
        self.out
    }

    /// One sample of a counter or gauge.
    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        self.line(name, "", &label_text(labels), value);
    }

    /// The bound of a histogram's bucket, as the label `le` has it: OpenMetrics writes all of them with a fraction.
    pub fn bound(&self, value: f64) -> String {
        if self.format == Format::OpenMetrics && value.fract() == 0.0 {
            format!("{value}.0")
        } else {
            value.to_string()
        }
    }

    pub(super) fn line(&mut self, name: &str, suffix: &str, labels: &str, value: f64) {
        self.start(name, suffix, labels, None);
        self.number(value);
    }

    pub(super) fn line_integer(&mut self, name: &str, suffix: &str, labels: &str, value: u64) {
        self.start(name, suffix, labels, None);
        self.integer(value);
    }

    /// A histogram's bucket; `None` as bound is `+Inf`.
    pub(super) fn bucket(&mut self, name: &str, labels: &str, bound: Option<u64>, count: u64) {
        let mut digits = itoa::Buffer::new();
        let le = bound.map_or("+Inf", |bound| digits.format(bound));
        let canonical = bound.filter(|_| self.format == Format::OpenMetrics).map(|_| format!("{le}.0"));
        let le = canonical.as_deref().unwrap_or(le);
        self.start(name, "_bucket", labels, Some(le));
        self.integer(count);
    }

    fn start(&mut self, name: &str, suffix: &str, labels: &str, le: Option<&str>) {
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(suffix.as_bytes());
        if !labels.is_empty() || le.is_some() {
            self.out.push(b'{');
            self.out.extend_from_slice(labels.as_bytes());
            if let Some(le) = le {
                if !labels.is_empty() {
                    self.out.push(b',');
                }
                self.out.extend_from_slice(b"le=\"");
                self.out.extend_from_slice(le.as_bytes());
                self.out.push(b'"');
            }
            self.out.push(b'}');
        }
        self.out.push(b' ');
    }

    fn integer(&mut self, value: u64) {
        self.out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
        self.out.push(b'\n');
    }

    fn number(&mut self, value: f64) {
        self.out.extend_from_slice(value.to_string().as_bytes());
        self.out.push(b'\n');
    }
}

/// The length of a value as [`label_text`] writes it, in bytes.
pub(super) fn escaped_length(value: &str) -> usize {
    value.len() + value.bytes().filter(|byte| matches!(byte, b'\\' | b'"' | b'\n')).count()
}

/// `name="value",…` with the format's escapes.
pub(super) fn label_text<'a>(pairs: impl IntoIterator<Item = &'a (&'a str, &'a str)>) -> String {
    let mut text = String::new();
    for (name, value) in pairs {
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(name);
        text.push_str("=\"");
        for character in value.chars() {
            match character {
                '\\' => text.push_str("\\\\"),
                '"' => text.push_str("\\\""),
                '\n' => text.push_str("\\n"),
                other => text.push(other),
            }
        }
        text.push('"');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(format: Format) -> String {
        let mut writer = TextWriter { format, ..TextWriter::default() };
        writer.family("a_lost_total", "Lost \"lines\"", Kind::Counter);
        writer.sample("a_lost_total", &[("log", "x")], 1.0);
        writer.family("a_http_status", "By code", Kind::Counter);
        writer.sample("a_http_status", &[("code", "200")], 2.0);
        writer.family("a_memory_bytes", "Held", Kind::Gauge);
        writer.sample("a_memory_bytes", &[], 3.5);
        writer.family("a_latency", "In ms", Kind::Histogram);
        writer.bucket("a_latency", "", Some(5), 1);
        writer.bucket("a_latency", "", None, 1);
        String::from_utf8(writer.finish()).expect("UTF-8")
    }

    #[test]
    fn openmetrics_differs_where_it_has_to() {
        let expected = "# HELP a_lost Lost \\\"lines\\\"\n# TYPE a_lost counter\na_lost_total{log=\"x\"} 1\n\
            # HELP a_http_status By code\n# TYPE a_http_status unknown\na_http_status{code=\"200\"} 2\n\
            # HELP a_memory_bytes Held\n# TYPE a_memory_bytes gauge\n# UNIT a_memory_bytes bytes\na_memory_bytes 3.5\n\
            # HELP a_latency In ms\n# TYPE a_latency histogram\na_latency_bucket{le=\"5.0\"} 1\n\
            a_latency_bucket{le=\"+Inf\"} 1\n# EOF\n";
        assert_eq!(page(Format::OpenMetrics), expected);
        let text = page(Format::Text);
        assert!(
            text.starts_with("# HELP a_lost_total Lost \"lines\"\n# TYPE a_lost_total counter\n"),
            "{text}"
        );
        assert!(text.ends_with("a_latency_bucket{le=\"5\"} 1\na_latency_bucket{le=\"+Inf\"} 1\n"), "{text}");
    }
}
