//! The fenced blocks of a page, with what the comments before them say.

use super::transcript::shown;

/// A fenced block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// Of its fence, from 1.
    pub line: usize,
    /// The text of the last heading of the second level.
    pub heading: String,
    /// Behind the fence.
    pub language: String,
    pub text: String,
    /// Commands that come before it.
    pub given: String,
    /// Takes minutes.
    pub is_slow: bool,
    pub kind: Kind,
}

/// What becomes of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Typed. While its last command serves, `meanwhile` is typed as well.
    Typed {
        meanwhile: String,
        place: Place,
    },
    /// Written to a file; then these commands.
    File {
        name: String,
        then: String,
    },
    /// Compared with what these commands, or those before, print.
    Output {
        of: String,
    },
    NotRun {
        reason: String,
    },
}

/// Where commands are typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Where the block before was.
    Same,
    /// In a folder without files.
    Empty,
    /// In a checkout where `make run` serves.
    Checkout,
}

/// All blocks, or what a page leaves open.
pub(crate) fn blocks(page: &str) -> Result<Vec<Block>, String> {
    let mut found = Vec::new();
    let mut comments: Vec<String> = Vec::new();
    let mut heading = String::new();
    let mut lines = page.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let indent = &line[..line.len() - line.trim_start().len()];
        let line = line.trim_start();
        if let Some(text) = line.strip_prefix("## ") {
            text.clone_into(&mut heading);
        }
        if let Some(comment) = line.strip_prefix("<!-- ") {
            let mut text = comment.to_owned();
            while !text.trim_end().ends_with("-->") {
                let (_, next) = lines.next().ok_or(format!("line {}: the comment has no end", number + 1))?;
                text += &format!("\n{}", next.strip_prefix(indent).unwrap_or(next));
            }
            comments.push(text.trim_end().trim_end_matches("-->").trim_end().to_owned());
            continue;
        }
        let Some(language) = line.strip_prefix("```") else {
            comments.clear();
            continue;
        };
        let mut text = String::new();
        loop {
            let (_, next) = lines.next().ok_or(format!("line {}: the block has no end", number + 1))?;
            if next.trim() == "```" {
                break;
            }
            text += &format!("{}\n", next.strip_prefix(indent).unwrap_or(next));
        }
        let is_slow = comments.iter().any(|comment| comment == "slow");
        let (given, kind) =
            read(language, &comments).map_err(|reason| format!("line {}: {reason}", number + 1))?;
        comments.clear();
        if language == "console" && shown(&text).iter().any(|shown| shown.lines.is_empty()) {
            return Err(format!("line {}: a command shows no output", number + 1));
        }
        let (heading, language) = (heading.clone(), language.to_owned());
        found.push(Block { line: number + 1, heading, language, text, given, is_slow, kind });
    }
    Ok(found)
}

/// What comes first, and what becomes of the block.
fn read(language: &str, comments: &[String]) -> Result<(String, Kind), String> {
    let (mut given, mut meanwhile) = (String::new(), String::new());
    let mut place = Place::Same;
    let mut kind = None;
    for comment in comments {
        let (head, commands) = comment.split_once('\n').unwrap_or((comment, ""));
        let commands = commands.to_owned();
        let (word, rest) = head.split_once(' ').unwrap_or((head, ""));
        match (word, rest) {
            ("given", "") => given = commands,
            ("meanwhile", "") => meanwhile = commands,
            ("first", "run") => place = Place::Empty,
            ("after", "make run") => place = Place::Checkout,
            ("output", "") => kind = Some(Kind::Output { of: commands }),
            ("file", name) if !name.is_empty() && !commands.is_empty() => {
                kind = Some(Kind::File { name: name.to_owned(), then: commands });
            }
            ("file", _) => return Err("`file` takes a name, and commands that read the file".to_owned()),
            ("not", _) => match rest.strip_prefix("run: ") {
                Some(reason) if reason.contains(' ') => {
                    kind = Some(Kind::NotRun { reason: reason.to_owned() })
                }
                _ => return Err("`not run` takes a reason".to_owned()),
            },
            // Any other comment, such as who shows a claim.
            _ => {}
        }
    }
    match kind {
        Some(kind) => Ok((given, kind)),
        None if ["sh", "console"].contains(&language) => Ok((given, Kind::Typed { meanwhile, place })),
        None => Err(format!(
            "a block of {}: say in a comment before it whether it is a file, an output, or not run and why",
            if language.is_empty() { "no language" } else { language }
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_say_what_a_block_is() {
        let page = "## A\n<!-- given\nsetup\n-->\n<!-- shown by: x -->\n```sh\none\n```\n\n- item\n  <!-- output -->\n  ```\n  two\n  ```\n";
        let found = blocks(page).expect("a page");
        let kinds: Vec<_> =
            found.iter().map(|block| (block.line, block.text.as_str(), &block.kind)).collect();
        let typed = Kind::Typed { meanwhile: String::new(), place: Place::Same };
        assert_eq!(kinds, [(6, "one\n", &typed), (12, "two\n", &Kind::Output { of: String::new() })]);
        assert_eq!((found[0].given.as_str(), found[0].heading.as_str()), ("setup", "A"));
    }

    #[test]
    fn what_a_page_leaves_open_is_an_error() {
        for (page, reason) in [
            ("```yaml\na: 1\n```\n", "line 1: a block of yaml: say"),
            ("```\na\n```\n", "line 1: a block of no language: say"),
            ("<!-- not run -->\n```sh\na\n```\n", "line 2: `not run` takes a reason"),
            ("<!-- not run: why -->\n```sh\na\n```\n", "line 2: `not run` takes a reason"),
            ("<!-- file a -->\n```yaml\na\n```\n", "line 2: `file` takes"),
            ("<!-- given\nx\n", "line 1: the comment has no end"),
            ("```sh\nx\n", "line 1: the block has no end"),
            ("<!-- output -->\n\n```\na\n```\n", "line 3: a block of no language"),
        ] {
            let found = blocks(page).expect_err(page);
            assert!(found.starts_with(reason), "{found}");
        }
    }
}
