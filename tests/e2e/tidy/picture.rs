//! The picture of the crates in ARCHITECTURE.md is drawn from the rules: `UPDATE_DOCS=1` writes it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;

use tidegate_testkit::gateway::workspace_root;

use super::MAY_USE;

const WIDTH: usize = 960;
const BOX: (usize, usize) = (116, 34);
const FLOOR_HEIGHT: usize = 92;
const MARGIN: usize = 24;

/// The binary, which may use all.
const BINARY: &str = "tidegate";

#[test]
fn the_picture_shows_the_rules() {
    let path = workspace_root().join("docs/architecture.svg");
    let drawn = draw();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &drawn).expect("written");
    }
    let there = fs::read_to_string(&path).unwrap_or_default();
    assert!(there == drawn, "docs/architecture.svg is not what MAY_USE says; run with UPDATE_DOCS=1");
}

/// Crate to the crates it uses. Tests and what only they use are left out.
fn uses() -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    let mut uses: BTreeMap<_, BTreeSet<_>> = MAY_USE
        .iter()
        .filter(|(name, _)| *name != "testkit")
        .map(|(name, used)| (*name, used.iter().copied().collect()))
        .collect();
    let all = uses.keys().copied().collect();
    uses.insert(BINARY, all);
    uses
}

/// One above the highest that it uses.
fn floor(name: &str, uses: &BTreeMap<&str, BTreeSet<&'static str>>) -> usize {
    let used = uses.get(name).into_iter().flatten();
    used.map(|used| floor(used, uses) + 1).max().unwrap_or(0)
}

/// Without arrows that other arrows imply.
fn direct(name: &str, uses: &BTreeMap<&str, BTreeSet<&'static str>>) -> Vec<&'static str> {
    let used = uses.get(name).cloned().unwrap_or_default();
    let implied = |of: &str| used.iter().any(|other| *other != of && reaches(other, of, uses));
    used.iter().copied().filter(|of| !implied(of)).collect()
}

fn reaches(from: &str, to: &str, uses: &BTreeMap<&str, BTreeSet<&'static str>>) -> bool {
    uses.get(from).into_iter().flatten().any(|used| *used == to || reaches(used, to, uses))
}

fn draw() -> String {
    let uses = uses();
    let mut floors: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    for name in uses.keys() {
        floors.entry(floor(name, &uses)).or_default().push(name);
    }
    let top = floors.keys().next_back().copied().unwrap_or(0);
    let height = 2 * MARGIN + top * FLOOR_HEIGHT + BOX.1;
    let mut places = BTreeMap::new();
    for (floor, names) in &floors {
        let step = WIDTH / names.len();
        for (index, name) in names.iter().enumerate() {
            places.insert(*name, (step * index + step / 2, MARGIN + (top - floor) * FLOOR_HEIGHT));
        }
    }
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" \
         font-size=\"14\">\n<title>Crates of Tidegate: each uses those below that its lines lead to</title>\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>\n"
    );
    for name in uses.keys() {
        for used in direct(name, &uses) {
            let ((x1, y1), (x2, y2)) = (places[name], places[used]);
            let (begin, middle) = (y1 + BOX.1, (y1 + BOX.1 + y2) / 2);
            let _ = writeln!(
                svg,
                "<path d=\"M{x1} {begin}C{x1} {middle} {x2} {middle} {x2} {y2}\" fill=\"none\" stroke=\"#9ab\"/>"
            );
        }
    }
    for (name, (x, y)) in &places {
        let (left, baseline) = (x - BOX.0 / 2, y + 22);
        let _ = writeln!(
            svg,
            "<rect x=\"{left}\" y=\"{y}\" width=\"{}\" height=\"{}\" rx=\"5\" fill=\"#eef4fa\" stroke=\"#357\"/>\
             <text x=\"{x}\" y=\"{baseline}\" text-anchor=\"middle\" fill=\"#123\">{name}</text>",
            BOX.0, BOX.1
        );
    }
    svg.push_str("</svg>\n");
    svg
}
