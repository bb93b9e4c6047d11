//! The forms of the metrics page, and which one a scraper asks for.

/// How a page is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Prometheus' text format 0.0.4.
    #[default]
    Text,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

/// What a scraper gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Form {
    /// How the page is written.
    pub format: Format,
    /// Whether it is compressed.
    pub gzip: bool,
}

/// That cover the text format, the most specific first.
const TEXT_RANGES: [&str; 3] = ["text/plain", "text/*", "*/*"];

impl Format {
    /// For the header of a response.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Text => "text/plain; version=0.0.4",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// By the lines of `Accept` (RFC 9110, 12.5.1): OpenMetrics where it is named and text is not preferred, which the most
    /// specific range that covers it says.
    pub fn accepted<'a>(lines: impl IntoIterator<Item = &'a [u8]>) -> Format {
        let mut open = 0.0_f32;
        let mut texts: [Option<f32>; TEXT_RANGES.len()] = [None; TEXT_RANGES.len()];
        for item in lines.into_iter().flat_map(|line| line.split(|byte| *byte == b',')) {
            let Ok(item) = std::str::from_utf8(item) else { continue };
            let mut parts = item.split(';').map(str::trim);
            let range = parts.next().unwrap_or_default();
            let (mut weight, mut is_known) = (1.0, true);
            for (name, value) in parts.filter_map(|part| part.split_once('=')) {
                match name.trim().to_ascii_lowercase().as_str() {
                    "q" => weight = value.trim().parse().unwrap_or(0.0),
                    "version" => is_known = matches!(value.trim().trim_matches('"'), "1.0.0" | "0.0.1"),
                    _ => {}
                }
            }
            if range.eq_ignore_ascii_case("application/openmetrics-text") && is_known {
                open = open.max(weight);
            }
            for (name, text) in TEXT_RANGES.iter().zip(&mut texts) {
                if range.eq_ignore_ascii_case(name) {
                    *text = Some(text.unwrap_or_default().max(weight));
                }
            }
        }
        let text = texts.into_iter().flatten().next().unwrap_or_default();
        if open > 0.0 && open >= text { Format::OpenMetrics } else { Format::Text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scrapers_get_what_they_prefer() {
        // The third is Prometheus 2.49's, the fourth that of 3.0.
        for (accept, expected) in [
            ("", Format::Text),
            ("*/*", Format::Text),
            (
                "application/openmetrics-text;version=1.0.0;q=0.75,application/openmetrics-text;version=0.0.1;q=0.5,\
                 text/plain;version=0.0.4;q=0.25,*/*;q=0.1",
                Format::OpenMetrics,
            ),
            (
                "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                 text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,*/*;q=0.2",
                Format::OpenMetrics,
            ),
            ("application/openmetrics-text; version=1.0.0", Format::OpenMetrics),
            ("Application/OpenMetrics-Text", Format::OpenMetrics),
            ("application/openmetrics-text;version=2.0.0", Format::Text),
            ("application/openmetrics-text;q=0", Format::Text),
            ("application/openmetrics-text;q=0.3,text/plain;q=0.8", Format::Text),
            ("text/html,application/openmetrics-text;q=0.2,*/*;q=0.8", Format::Text),
            ("application/openmetrics-text;q=0.2,text/plain;q=0.1,*/*;q=0.8", Format::OpenMetrics),
            ("application/openmetrics-text;version=\"1.0.0\"", Format::OpenMetrics),
            ("text/html,application/xhtml+xml;q=0.9,*/*;q=0.8", Format::Text),
        ] {
            assert_eq!(Format::accepted([accept.as_bytes()]), expected, "{accept}");
        }
        assert_eq!(Format::accepted([b"\xff".as_slice()]), Format::Text);
    }
}
