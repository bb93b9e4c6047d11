//! What README claims names the tests and the pages with measurements that carry it.

use std::fs;

use tidegate_testkit::gateway::workspace_root;

const BEGIN: &str = "<!-- shown by:";

/// The references of each comment, in order.
fn shown_by(page: &str) -> Vec<Vec<String>> {
    let text = fs::read_to_string(workspace_root().join(page)).unwrap_or_default();
    let comments = text.split(BEGIN).skip(1).filter_map(|rest| Some(rest.split_once("-->")?.0));
    comments.map(|comment| comment.split(',').map(|name| name.trim().to_owned()).collect()).collect()
}

/// `FILE::FUNCTION` of a test, or a page.
fn is_there(reference: &str) -> bool {
    let (file, function) =
        reference.split_once("::").map_or((reference, None), |(file, name)| (file, Some(name)));
    let text = fs::read_to_string(workspace_root().join(file)).unwrap_or_default();
    match function {
        Some(name) => text.contains(&format!("#[test]\nfn {name}()")),
        None => !text.is_empty(),
    }
}

#[test]
fn claims_of_the_readme_are_shown_by_what_is_there() {
    let english = shown_by("README.md");
    assert!(english.len() >= 5, "{english:?}");
    assert_eq!(english, shown_by("README.zh-CN.md"), "both languages claim the same");
    let wrong: Vec<_> = english.iter().flatten().filter(|reference| !is_there(reference)).collect();
    assert!(wrong.is_empty(), "README.md: not there: {wrong:?}");
}
