//! A flame graph: the wider a box, the more samples had it on the stack; callers below, callees above.

use std::{collections::BTreeMap, fmt::Write};

use quick_xml::escape::escape;

const WIDTH: f64 = 1200.0;
const ROW: f64 = 17.0;
const MARGIN: f64 = 30.0;
/// Narrower boxes cannot be seen.
const NARROWEST: f64 = 0.3;
/// Width of a letter of the text.
const LETTER: f64 = 6.6;

#[derive(Default)]
struct Frame {
    samples: u64,
    callees: BTreeMap<String, Frame>,
}

pub(super) fn render(stacks: &Stacks, title: &str) -> String {
    let mut root = Frame::default();
    for (stack, &samples) in stacks {
        root.samples += samples;
        stack.iter().fold(&mut root, |frame, name| {
            let callee = frame.callees.entry(name.clone()).or_default();
            callee.samples += samples;
            callee
        });
    }
    let deepest = stacks.keys().map(Vec::len).max().unwrap_or(0);
    let height = MARGIN * 2.0 + ROW * deepest as f64;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" font-family=\"monospace\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n<text x=\"8\" y=\"20\">{}, {} samples</text>\n",
        escape(title),
        root.samples
    );
    let mut left = 0.0;
    for (name, frame) in &root.callees {
        let width = WIDTH * frame.samples as f64 / root.samples.max(1) as f64;
        draw(&mut out, name, frame, left, height - MARGIN, root.samples);
        left += width;
    }
    out.push_str("</svg>\n");
    out
}

/// Depth is bounded by what perf records (127 frames).
fn draw(out: &mut String, name: &str, frame: &Frame, left: f64, bottom: f64, all: u64) {
    let width = WIDTH * frame.samples as f64 / all.max(1) as f64;
    if width < NARROWEST {
        return;
    }
    let share = 100.0 * frame.samples as f64 / all.max(1) as f64;
    let top = bottom - ROW;
    let shown: String = name.chars().take(((width - 4.0) / LETTER).max(0.0) as usize).collect();
    let label = if shown.chars().count() >= 3 { escape(&shown).into_owned() } else { String::new() };
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        "<g><title>{} ({} samples, {share:.1} %)</title><rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"16\" rx=\"1\" fill=\"{}\"/><text x=\"{:.1}\" y=\"{:.1}\">{label}</text></g>",
        escape(name),
        frame.samples,
        color(name),
        left + 2.0,
        top + 12.0
    );
    let mut at = left;
    for (name, callee) in &frame.callees {
        draw(out, name, callee, at, top, all);
        at += WIDTH * callee.samples as f64 / all.max(1) as f64;
    }
}

/// Warm colours; the same name has the same one everywhere.
fn color(name: &str) -> String {
    let hash = name.bytes().fold(5381u32, |hash, byte| hash.wrapping_mul(33) ^ u32::from(byte));
    format!("rgb({},{},{})", 205 + hash % 50, 90 + hash / 64 % 130, 40 + hash / 8192 % 50)
}

/// Stacks from the root on, and how often each was seen.
pub(super) type Stacks = BTreeMap<Vec<String>, u64>;
