//! Keys of the Admin API that config.yaml leaves empty: random ones, kept in separate files below data/.
//!
//! config.yaml belongs to the user and is never written. A file holds one key and a newline, so that
//! `$(cat data/admin.key)` is the key.

use std::{
    fs::{self, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use tidegate_model::random::fill_secret;

use crate::settings::{AdminRole, Files, Key, Settings};

const LETTERS: &[u8; 52] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const KEY_LENGTH: usize = 32;
/// A key that a user has put there may be another, within reason.
const LONGEST_KEY: u64 = 1024;

impl Files {
    /// Where a generated key of this role is.
    pub fn admin_key(&self, role: AdminRole) -> PathBuf {
        self.prefix.join("data").join(format!("{}.key", role.name()))
    }
}

impl Settings {
    /// Takes the generated keys of an earlier start from their files. The error names the file that cannot be used;
    /// the key then matches no request.
    pub fn read_admin_keys(&mut self) -> Result<(), String> {
        self.fill(|path| read(path).map_err(|error| unusable("read", path, &error)))
    }

    /// As [`Settings::read_admin_keys`], and makes the files that are not there. Returns their paths.
    pub fn make_admin_keys(&mut self) -> Result<Vec<PathBuf>, String> {
        let mut made = Vec::new();
        self.fill(|path| match read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let key = random_key().and_then(|key| write(path, &key).map(|()| key));
                made.push(path.to_owned());
                key.map_err(|error| unusable("write", path, &error))
            }
            found => found.map_err(|error| unusable("read", path, &error)),
        })?;
        Ok(made)
    }

    /// What [`Settings::make_admin_keys`] would say, without making anything.
    pub fn check_admin_keys(&mut self) -> Result<(), String> {
        self.fill(|path| match read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            found => found.map_err(|error| unusable("read", path, &error)),
        })
    }

    fn fill(&mut self, mut key_of: impl FnMut(&Path) -> Result<String, String>) -> Result<(), String> {
        if self.admin.listen.is_none() {
            return Ok(());
        }
        for entry in self.admin.access.keys_mut() {
            if entry.is_generated() {
                entry.key = Key::Generated(Some(key_of(&self.files.admin_key(entry.role))?));
            }
        }
        Ok(())
    }
}

fn unusable(verb: &str, path: &Path, error: &io::Error) -> String {
    format!(
        "cannot {verb} the admin key in {}: {error}; correct that, or set deployment.admin.admin_key",
        path.display()
    )
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    fs::File::open(path)?.take(LONGEST_KEY).read_to_string(&mut text)?;
    let key = text.trim();
    // An incomplete key is unusable; removing the file creates a new one.
    if key.len() < KEY_LENGTH || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        let problem = format!(
            "expected one key of at least {KEY_LENGTH} characters; remove the file to generate a new one"
        );
        return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
    }
    Ok(key.to_owned())
}

/// The mode of a key file that others may read; `None` where all is well or there is no file.
pub(crate) fn loose_mode(path: &Path) -> Option<u32> {
    let mode = fs::metadata(path).ok()?.mode() & 0o777;
    (mode & 0o077 != 0).then_some(mode)
}

/// Whole or not at all, and readable by its owner only.
fn write(path: &Path, key: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o750).create(folder)?;
    }
    let beside = path.with_extension("key.new");
    let _ = fs::remove_file(&beside);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    file.write_all(format!("{key}\n").as_bytes())?;
    file.sync_all()?;
    fs::rename(&beside, path)
}

/// Random letters; so many are an AES key, too.
pub fn random_key() -> io::Result<String> {
    let mut key = String::with_capacity(KEY_LENGTH);
    let mut bytes = [0; 64];
    while key.len() < KEY_LENGTH {
        fill_secret(&mut bytes)?;
        // 208 is four times 52: no letter is likelier than another.
        let letters =
            bytes.iter().filter(|byte| **byte < 208).filter_map(|byte| LETTERS.get(usize::from(*byte) % 52));
        key.extend(letters.map(|letter| char::from(*letter)).take(KEY_LENGTH - key.len()));
    }
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{Source, load_with};

    fn load(prefix: &Path, text: &str) -> Settings {
        fs::create_dir_all(prefix.join("conf")).unwrap();
        fs::write(prefix.join("conf/config.yaml"), text).unwrap();
        let source = Source { prefix: prefix.to_owned(), ..Source::default() };
        load_with(&source, &|_| None).unwrap().settings
    }

    #[test]
    fn keys_left_empty_are_made_once() {
        for text in [
            "",
            "deployment: {admin: {admin_key_required: ~}}",
            "deployment: {admin: {admin_key: [{name: a, key: ''}]}}",
            "deployment: {admin: {admin_key: [{name: a, key: ~}]}}",
            "deployment: {admin: {admin_key: [{name: a}]}}",
            "apisix: {admin_key: [{name: a, key: ''}]}",
        ] {
            let folder = tempfile::tempdir().unwrap();
            let mut settings = load(folder.path(), text);
            assert_eq!(settings.admin.access.keys()[0].value(), None, "{text}");
            assert!(settings.read_admin_keys().is_err(), "{text}");
            let path = folder.path().join("data/admin.key");
            assert_eq!(settings.make_admin_keys().unwrap(), std::slice::from_ref(&path), "{text}");
            let key = settings.admin.access.keys()[0].value().unwrap().to_owned();
            assert_eq!((key.len(), fs::read_to_string(&path).unwrap()), (KEY_LENGTH, format!("{key}\n")));
            assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
            assert_eq!(loose_mode(&path), None);
            assert_eq!(fs::read_to_string(folder.path().join("conf/config.yaml")).unwrap(), text);
            let mut again = load(folder.path(), text);
            assert_eq!(again.make_admin_keys().unwrap(), Vec::<PathBuf>::new());
            assert_eq!(again.admin.access.keys()[0].value(), Some(key.as_str()));
        }
    }

    #[test]
    fn each_role_has_a_key_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let text = "deployment: {admin: {admin_key: [{name: v, role: viewer}, {name: e, role: editor}, {name: a, role: admin}]}}";
        let mut settings = load(folder.path(), text);
        let names = ["viewer.key", "editor.key", "admin.key"];
        let made = names.map(|name| folder.path().join("data").join(name));
        assert_eq!(settings.make_admin_keys().unwrap(), made);
        let keys = settings.admin.access.keys();
        assert!(keys.iter().all(|key| key.value().is_some()));
        assert!(keys[0].value() != keys[1].value() && keys[1].value() != keys[2].value());
        assert_eq!(settings.admin.access.admin_key().unwrap().name, "a");
    }

    #[test]
    fn nothing_is_made_without_need() {
        for text in [
            "apisix: {enable_admin: false}",
            "deployment: {admin: {admin_key_required: false}}",
            "deployment: {admin: {admin_key: []}}",
            "deployment: {admin: {admin_key: ~}}",
            "deployment: {admin: {admin_key: [{name: a, key: b}]}}",
        ] {
            let folder = tempfile::tempdir().unwrap();
            assert!(load(folder.path(), text).make_admin_keys().unwrap().is_empty(), "{text}");
            assert!(!folder.path().join("data").exists(), "{text}");
        }
    }

    #[test]
    fn half_of_a_key_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data/admin.key");
        fs::create_dir(folder.path().join("data")).unwrap();
        for text in ["", "\n", "short\n", "abcdefghijklmnopqrstuvwxyz abcdefghijklmnopqrstuvwxyz\n"] {
            fs::write(&path, text).unwrap();
            let mut settings = load(folder.path(), "");
            assert!(
                settings.make_admin_keys().unwrap_err().contains("remove the file to generate a new one"),
                "{text:?}"
            );
            assert_eq!(settings.admin.access.keys()[0].value(), None);
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }
}
