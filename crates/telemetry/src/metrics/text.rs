//! Prometheus text format 0.0.4: families, samples, escapes.

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
}

impl TextWriter {
    /// Starts a family. All its samples must follow before the next family starts.
    pub fn family(&mut self, name: &str, help: &str, kind: Kind) {
        self.out.extend_from_slice(b"# HELP ");
        self.out.extend_from_slice(name.as_bytes());
        self.out.push(b' ');
        for byte in help.bytes() {
            match byte {
                b'\\' => self.out.extend_from_slice(b"\\\\"),
                b'\n' => self.out.extend_from_slice(b"\\n"),
                other => self.out.push(other),
            }
        }
        self.out.extend_from_slice(b"\n# TYPE ");
        self.out.extend_from_slice(name.as_bytes());
        self.out.push(b' ');
        self.out.extend_from_slice(kind.name().as_bytes());
        self.out.push(b'\n');
    }

    /// One sample of a counter or gauge.
    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        self.line(name, "", &label_text(labels), value);
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
