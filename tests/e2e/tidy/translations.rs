//! Pages are there in two languages with the same headings, code blocks and tables, and their links lead somewhere.

use std::fs;
use std::path::{Path, PathBuf};

use tidegate_testkit::gateway::workspace_root;

/// Pages with measurements, whose rows have the same figures in both languages.
const MEASURED: [&str; 3] = ["docs/dependencies.md", "docs/performance-bench.md", "docs/smuggling.md"];

/// What of a page does not depend on its language.
#[derive(Debug, PartialEq, Eq)]
enum Part {
    /// By its depth.
    Heading(usize),
    /// Language and text, without comments.
    Code(String),
    /// Rows and columns.
    Table(usize, usize),
}

fn parts(text: &str) -> Vec<Part> {
    let mut found = Vec::new();
    let mut code: Option<String> = None;
    let mut in_table = false;
    for line in text.lines() {
        let is_row = code.is_none() && line.starts_with('|');
        match (&mut code, line) {
            (Some(text), "```") => {
                found.push(Part::Code(std::mem::take(text)));
                code = None;
            }
            (Some(text), _) => *text += &format!("{}\n", without_comment(line)),
            (None, _) if line.starts_with("```") => code = Some(format!("{line}\n")),
            (None, _) if line.starts_with('#') => {
                found.push(Part::Heading(line.len() - line.trim_start_matches('#').len()));
            }
            (None, _) if is_row => {
                let columns = line.replace("\\|", "").matches('|').count();
                match found.last_mut() {
                    Some(Part::Table(rows, _)) if in_table => *rows += 1,
                    _ => found.push(Part::Table(1, columns)),
                }
            }
            _ => {}
        }
        in_table = is_row;
    }
    found
}

/// Comments in commands and configurations are translated.
fn without_comment(line: &str) -> &str {
    match line.trim_start().starts_with("# ") {
        true => "#",
        false => {
            line.split("  #").next().unwrap_or_default().split(" # ").next().unwrap_or_default().trim_end()
        }
    }
}

/// The figures of each row of a table, behind its first cell.
fn figures(text: &str) -> impl Iterator<Item = Vec<&str>> {
    let rows = text.lines().filter_map(|line| line.strip_prefix('|')?.split_once('|'));
    rows.map(|(_, cells)| {
        let parts = cells.split(|sign: char| !sign.is_ascii_digit() && !['.', ','].contains(&sign));
        parts.filter(|part| part.contains(|sign: char| sign.is_ascii_digit())).collect()
    })
}

fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for path in fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && name != "adr" {
            pages(&path, found);
        } else if name.ends_with(".md") && !name.ends_with(".zh-CN.md") {
            found.push(path);
        }
    }
}

#[test]
fn both_languages_say_the_same() {
    let root = workspace_root();
    let mut all = vec![root.join("README.md")];
    for folder in ["docs", "examples"] {
        pages(&root.join(folder), &mut all);
    }
    let mut wrong = Vec::new();
    for path in all {
        let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        let chinese =
            PathBuf::from(format!("{}.zh-CN.md", path.display().to_string().trim_end_matches(".md")));
        let Ok(other) = fs::read_to_string(&chinese) else {
            wrong.push(format!("{name} has no page in Chinese"));
            continue;
        };
        let english = fs::read_to_string(&path).unwrap_or_default();
        let (left, right) = (parts(&english), parts(&other));
        let length = left.len().max(right.len());
        let different = (0..length).find(|at| left.get(*at) != right.get(*at));
        if let Some(at) = different {
            wrong.push(format!("{name}, part {at}: {:?}, in Chinese {:?}", left.get(at), right.get(at)));
        }
        let other_figures = figures(&english).zip(figures(&other)).find(|(left, right)| left != right);
        if let Some((left, right)) = other_figures.filter(|_| MEASURED.contains(&name.as_str())) {
            wrong.push(format!("{name}: a row has {left:?}, in Chinese {right:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Targets of links, without those in code.
fn links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut in_code = false;
    for line in text.lines() {
        in_code ^= line.starts_with("```");
        if in_code {
            continue;
        }
        let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("``");
        let targets = prose.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        found.extend(targets.map(str::to_owned));
    }
    found
}

#[test]
fn links_lead_somewhere() {
    let root = workspace_root();
    let mut all: Vec<PathBuf> =
        ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "SECURITY.md"].map(|name| root.join(name)).into();
    for folder in ["docs", "examples"] {
        pages(&root.join(folder), &mut all);
    }
    let translated: Vec<PathBuf> =
        all.iter().map(|path| path.with_extension("zh-CN.md")).filter(|path| path.exists()).collect();
    let mut wrong = Vec::new();
    for path in all.into_iter().chain(translated) {
        let text = fs::read_to_string(&path).unwrap_or_default();
        for link in links(&text) {
            let file = link.split(['#', ' ']).next().unwrap_or_default();
            let is_here = !file.is_empty() && !file.contains(':');
            if is_here && !path.parent().is_some_and(|folder| folder.join(file).exists()) {
                wrong.push(format!("{}: {link}", path.strip_prefix(root).unwrap_or(&path).display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn parts_do_not_depend_on_the_language() {
    let page = "# A\n\n| a | b |\n|---|---|\n| `x \\| y` | z |\n\n```sh\nrun   # why\n# how\n```\n";
    let code = Part::Code("```sh\nrun\n#\n".to_owned());
    assert_eq!(parts(page), [Part::Heading(1), Part::Table(3, 3), code]);
    let rows: Vec<_> = figures("| a 1 | 2.5 us | 1,000 |\n").collect();
    assert_eq!(rows, [["2.5", "1,000"]]);
}
