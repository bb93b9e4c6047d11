//! An empty admin key becomes a random one, which is written into config.yaml with all comments kept.

use std::{
    fs,
    io::{self, Read, Write},
    path::Path,
};

use crate::load::{EmptyKey, Loaded};

const LETTERS: &[u8; 52] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const KEY_LENGTH: usize = 32;

impl Loaded {
    /// Gives every empty admin key a value and writes it back. A file that cannot be written is a warning: the
    /// keys then hold until the process ends.
    pub fn fill_admin_keys(&mut self) -> io::Result<()> {
        if self.empty_admin_keys.is_empty() {
            return Ok(());
        }
        let path = self.settings.files.config.clone();
        let mut text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error),
        };
        let mut all_written = true;
        for empty in std::mem::take(&mut self.empty_admin_keys) {
            let key = random_key()?;
            match write_key(&text, &empty, &key) {
                Some(changed) => text = changed,
                None => all_written = false,
            }
            if let Some(admin_key) = self.settings.admin.keys.get_mut(empty.index) {
                admin_key.key = key;
            }
        }
        let shown = path.display();
        let failed = match replace_file(&path, &text) {
            Ok(()) if all_written => None,
            Ok(()) => Some("there is no place for it".to_owned()),
            Err(error) => Some(error.to_string()),
        };
        self.warnings.push(match failed {
            None => format!("{shown}: admin_key was empty; a random key was written into the file"),
            Some(problem) => format!(
                "{shown}: admin_key is empty and a random key cannot be written into the file ({problem}); \
                 set deployment.admin.admin_key yourself, or nobody can use the Admin API"
            ),
        });
        Ok(())
    }
}

fn random_key() -> io::Result<String> {
    let mut source = fs::File::open("/dev/urandom")?;
    let mut key = String::with_capacity(KEY_LENGTH);
    let mut bytes = [0; 64];
    while key.len() < KEY_LENGTH {
        source.read_exact(&mut bytes)?;
        // 208 is four times 52: no letter is likelier than another.
        let letters =
            bytes.iter().filter(|byte| **byte < 208).filter_map(|byte| LETTERS.get(usize::from(*byte) % 52));
        key.extend(letters.map(|letter| char::from(*letter)).take(KEY_LENGTH - key.len()));
    }
    Ok(key)
}

/// The text with the key in it; `None` when it has no place that is safe to change.
fn write_key(text: &str, empty: &EmptyKey, key: &str) -> Option<String> {
    match empty.place {
        Some((line, column)) => fill(text, line, column, key),
        None => add_section(text, key),
    }
}

/// Replaces the empty value at a place: `''`, `""`, `~` or nothing.
fn fill(text: &str, line: usize, column: usize, key: &str) -> Option<String> {
    let mut lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
    let target = lines.get_mut(line.checked_sub(1)?)?;
    let start =
        target.char_indices().nth(column.checked_sub(1)?).map_or(target.trim_end().len(), |(at, _)| at);
    let (before, after) = target.split_at_checked(start)?;
    let rest = ["''", "\"\"", "null", "~"]
        .into_iter()
        .find_map(|nothing| after.strip_prefix(nothing))
        .unwrap_or(after);
    let nothing_else = matches!(rest.trim_start().chars().next(), None | Some('#' | ',' | '}' | ']'));
    if !nothing_else || !before.trim_end().ends_with(':') {
        return None;
    }
    let space = if before.ends_with(' ') { "" } else { " " };
    let gap = if rest.starts_with('#') { " " } else { "" };
    *target = format!("{before}{space}{key}{gap}{rest}");
    Some(lines.concat())
}

/// Adds `admin_key` where the file has none: below `admin:` or `deployment:`, or at the end.
fn add_section(text: &str, key: &str) -> Option<String> {
    let root = crate::yaml::parse(text).ok()?.root;
    let mut node = &root;
    let mut missing = vec!["deployment", "admin"];
    while let Some(next) = missing.first().and_then(|name| node.get(name)) {
        node = next;
        missing.remove(0);
    }
    let crate::yaml::Content::Map(entries) = &node.content else {
        return root.is_null().then(|| format!("{}{}", ended(text), section(&missing, key, 0)));
    };
    let first = entries.first()?;
    let mut lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
    let place = first.line.checked_sub(1)?;
    let indent = first.column.checked_sub(1)?;
    // Only block style: the first key must be the first thing on its line.
    if lines.get(place)?.chars().take(indent).any(|letter| letter != ' ') {
        return None;
    }
    if missing.len() == 2 {
        return Some(format!("{}{}", ended(text), section(&missing, key, indent)));
    }
    lines.insert(place, section(&missing, key, indent));
    Some(lines.concat())
}

fn section(missing: &[&str], key: &str, indent: usize) -> String {
    let mut text = String::new();
    let mut indent = indent;
    for name in missing.iter().chain(&["admin_key"]) {
        text.push_str(&format!("{:indent$}{name}:\n", ""));
        indent += 2;
    }
    text.push_str(&format!("{:indent$}- name: admin\n", ""));
    indent += 2;
    text.push_str(&format!("{:indent$}key: {key}\n{:indent$}role: admin\n", "", ""));
    text
}

fn ended(text: &str) -> String {
    if text.is_empty() || text.ends_with('\n') { text.to_owned() } else { format!("{text}\n") }
}

/// Whole or not at all where the folder allows it; a file mounted alone into a container cannot be replaced, only
/// written.
fn replace_file(path: &Path, text: &str) -> io::Result<()> {
    let beside = path.with_extension("yaml.new");
    let renamed = fs::File::create(&beside).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        if let Ok(metadata) = fs::metadata(path) {
            file.set_permissions(metadata.permissions())?;
        }
        file.sync_all()?;
        fs::rename(&beside, path)
    });
    if renamed.is_ok() {
        return Ok(());
    }
    let _ = fs::remove_file(&beside);
    fs::write(path, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{Source, load_with};

    /// Loads, fills, and loads again: the same key must be there and all else unchanged.
    fn check(text: &str, expected: &str) {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("conf")).unwrap();
        let path = folder.path().join("conf/config.yaml");
        fs::write(&path, text).unwrap();
        let source = Source { prefix: folder.path().to_owned(), ..Source::default() };
        let mut loaded = load_with(&source, &|_| None).unwrap();
        loaded.fill_admin_keys().unwrap();
        let key = loaded.settings.admin.keys[0].key.clone();
        assert_eq!(key.len(), KEY_LENGTH);
        assert_eq!(fs::read_to_string(&path).unwrap(), expected.replace("KEY", &key), "{text}");
        let again = load_with(&source, &|_| None).unwrap();
        let read = again.settings.admin.keys[0].key.clone();
        if expected.contains("KEY") {
            assert_eq!(read, key);
            assert!(again.empty_admin_keys.is_empty());
        }
    }

    #[test]
    fn keys_are_written_back() {
        check(
            "deployment:\n  admin:\n    admin_key:\n      - name: admin\n        key: ''   # secret\n        role: admin\n# end\n",
            "deployment:\n  admin:\n    admin_key:\n      - name: admin\n        key: KEY   # secret\n        role: admin\n# end\n",
        );
        check(
            "deployment: {admin: {admin_key: [{name: a, key: \"\", role: admin}]}}\n",
            "deployment: {admin: {admin_key: [{name: a, key: KEY, role: admin}]}}\n",
        );
        check(
            "deployment:\n  admin:\n    admin_key:\n      - key:\n        name: a\n",
            "deployment:\n  admin:\n    admin_key:\n      - key: KEY\n        name: a\n",
        );
        check(
            "apisix:\n  admin_key:\n    - name: a\n      key: ~\n",
            "apisix:\n  admin_key:\n    - name: a\n      key: KEY\n",
        );
    }

    #[test]
    fn a_section_is_added() {
        let item = |indent: usize| {
            format!("{0:indent$}- name: admin\n{0:indent$}  key: KEY\n{0:indent$}  role: admin\n", "")
        };
        check("", &format!("deployment:\n  admin:\n    admin_key:\n{}", item(6)));
        check("# words", &format!("# words\ndeployment:\n  admin:\n    admin_key:\n{}", item(6)));
        check(
            "apisix:\n  node_listen: 1",
            &format!("apisix:\n  node_listen: 1\ndeployment:\n  admin:\n    admin_key:\n{}", item(6)),
        );
        check(
            "deployment:\n  role: traditional\n",
            &format!("deployment:\n  admin:\n    admin_key:\n{}  role: traditional\n", item(6)),
        );
        check(
            "deployment:\n  admin:\n    allow_admin: []\n",
            &format!("deployment:\n  admin:\n    admin_key:\n{}    allow_admin: []\n", item(6)),
        );
        check("deployment: {admin: {allow_admin: []}}\n", "deployment: {admin: {allow_admin: []}}\n");
    }

    #[test]
    fn nothing_is_written_without_need() {
        for text in [
            "apisix: {enable_admin: false}",
            "deployment: {admin: {admin_key_required: false}}",
            "deployment: {admin: {admin_key: [{name: a, key: b}]}}",
        ] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("c.yaml");
            fs::write(&path, text).unwrap();
            let source = Source { file: Some(path.clone()), ..Source::default() };
            let mut loaded = load_with(&source, &|_| None).unwrap();
            loaded.fill_admin_keys().unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
            assert!(loaded.warnings.is_empty());
        }
    }
}
