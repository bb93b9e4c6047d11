//! Every architecture decision record has the same form and a row in the index.

use std::fs;
use std::path::Path;

use tidegate_testkit::gateway::workspace_root;

const SECTIONS: [&str; 4] = ["Context", "Decision", "Alternatives", "Consequences"];

#[test]
fn decision_records_have_one_form_and_are_in_the_index() {
    let folder = workspace_root().join("docs/adr");
    let index = fs::read_to_string(folder.join("README.md")).unwrap_or_default();
    let names = record_names(&folder);
    assert!(!names.is_empty(), "no decision records in {}", folder.display());
    let mut wrong = Vec::new();
    for name in &names {
        let text = fs::read_to_string(folder.join(name)).unwrap_or_default();
        match index_row(name, &text, &names) {
            Ok(row) if index.lines().any(|line| line == row) => {}
            Ok(row) => wrong.push(format!("docs/adr/README.md: needs the line {row}")),
            Err(fault) => wrong.push(format!("docs/adr/{name}: {fault}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The names of all pages in the folder but the index.
fn record_names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.retain(|name| name.ends_with(".md") && name != "README.md");
    names.sort();
    names
}

/// The line of the index for this record, or what is wrong with the record.
fn index_row(name: &str, text: &str, names: &[String]) -> Result<String, String> {
    let number = number_of(name).ok_or("the file name does not begin with NNNN-")?;
    if names.iter().filter(|other| number_of(other) == Some(number)).count() > 1 {
        return Err(format!("number {number} is used twice"));
    }
    let title = value(text, 0, &format!("# {number}. "))?;
    let status = value(text, 2, "Status: ")?;
    let date = value(text, 3, "Date: ")?;
    if !is_status(status, names) {
        return Err(format!("status `{status}`; write `accepted` or `superseded by N`, where N is a record"));
    }
    if !is_date(date) {
        return Err(format!("date `{date}`; write YYYY-MM-DD"));
    }
    let sections: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    if sections != SECTIONS {
        return Err(format!("its sections are {sections:?}; write {SECTIONS:?}"));
    }
    if let Some(empty) = text.split("\n## ").find(|section| section.trim_end().lines().count() < 2) {
        return Err(format!("section `{}` is empty", empty.trim_end()));
    }
    Ok(format!("| {number} | [{title}]({name}) | {status} | {date} |"))
}

/// What follows the prefix in this line, counted from 0.
fn value<'a>(text: &'a str, at: usize, prefix: &str) -> Result<&'a str, String> {
    let line = text.lines().nth(at).unwrap_or_default();
    line.strip_prefix(prefix).ok_or_else(|| format!("line {} does not begin with `{prefix}`", at + 1))
}

fn number_of(name: &str) -> Option<u32> {
    let (digits, _) = name.split_once('-')?;
    if digits.len() == 4 { digits.parse().ok() } else { None }
}

/// A record that is superseded in part says in which, after the number.
fn is_status(status: &str, names: &[String]) -> bool {
    let Some(successor) = status.strip_prefix("superseded by ") else { return status == "accepted" };
    let number: Option<u32> = successor.split(' ').next().and_then(|digits| digits.parse().ok());
    number.is_some() && names.iter().any(|name| number_of(name) == number)
}

fn is_date(date: &str) -> bool {
    let has_sign =
        |at: usize, byte: u8| if at == 4 || at == 7 { byte == b'-' } else { byte.is_ascii_digit() };
    date.len() == 10 && date.bytes().enumerate().all(|(at, byte)| has_sign(at, byte))
}
