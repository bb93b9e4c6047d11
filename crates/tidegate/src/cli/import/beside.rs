//! The files that an imported configuration names, found as nginx finds them.

use std::{
    collections::HashMap,
    ffi::OsString,
    fs,
    io::Read,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use anyhow::{Context, bail};
use glob::{MatchOptions, Pattern};
use tidegate_import::{Conversion, Entry, Files, Report, Source};
use tidegate_model::nearest;

/// Where nginx's configuration is on Debian, and what its absolute names begin with.
const USUAL: &str = "/etc/nginx";

/// As glob(3) has it: no wildcard stands for a slash, or for a dot at the start of a name.
const AS_IN_C: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: true };

#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct Reading {
    /// nginx: location of /etc/nginx or a copy of it [default: the file's folder, then /etc/nginx]
    #[arg(long, value_name = "DIR")]
    nginx_prefix: Option<PathBuf>,
    /// nginx: treat includes of this name as empty
    #[arg(long, value_name = "GLOB")]
    include_empty: Vec<String>,
    /// Kong: ignore this plugin even though it may guard routes; routes with other unconverted plugins answer 501
    #[arg(long, value_name = "PLUGIN")]
    allow_missing: Vec<String>,
    /// Kong: file with NAME=VALUE lines for `${{ env "DECK_NAME" }}`, taking precedence over the environment
    #[arg(long, value_name = "FILE")]
    env_file: Option<PathBuf>,
    /// nginx: the port of the file that the one listener stands for
    #[arg(long, value_name = "PORT", hide = true)]
    stands_for: Option<u16>,
}

impl Reading {
    pub(crate) fn stands_for(&self) -> Option<u16> {
        self.stands_for
    }

    pub(crate) fn allow_missing(&self) -> &[String] {
        &self.allow_missing
    }

    /// Refuses options that are for files of another kind.
    pub(crate) fn fits(&self, source: Source) -> anyhow::Result<()> {
        let given = [
            ("--nginx-prefix", Source::Nginx, self.nginx_prefix.is_some()),
            ("--include-empty", Source::Nginx, !self.include_empty.is_empty()),
            ("--allow-missing", Source::Kong, !self.allow_missing.is_empty()),
            ("--env-file", Source::Kong, self.env_file.is_some()),
        ];
        match given.iter().find(|(_, kind, is_given)| *is_given && *kind != source) {
            Some((option, kind, _)) => bail!("{option} is for files of {}; leave it out", kind.name()),
            None => Ok(()),
        }
    }

    /// Names of --allow-missing that change nothing.
    pub(super) fn in_vain(&self, source: Source, file: &Path, report: &Report) -> Vec<String> {
        if source != Source::Kong || self.allow_missing.is_empty() {
            return Vec::new();
        }
        // What closes a route ends the report of its plugins.
        let text = read_text(file).unwrap_or_default();
        let plugin = |entry: &Entry| entry.subject.rsplit_once("plugin ").map(|(_, name)| name.to_owned());
        let present: Vec<String> = report.entries().iter().filter_map(plugin).collect();
        let said = |name: &String| {
            let mut own =
                report.entries().iter().filter(|entry| plugin(entry).as_ref() == Some(name)).peekable();
            if own.peek().is_none() && !text.contains(name.as_str()) {
                let hint = nearest::hint(name, present.iter().map(String::as_str));
                return Some(format!(
                    "--allow-missing {name} has no effect: the file has no such plugin{hint}"
                ));
            }
            (own.peek().is_some() && own.all(|entry| entry.outcome == Conversion::Converted))
                .then(|| format!("--allow-missing {name} has no effect: the plugin is converted"))
        };
        self.allow_missing.iter().filter_map(said).collect()
    }

    /// For a process that reads the same.
    pub(crate) fn arguments(&self) -> Vec<OsString> {
        let mut all = Vec::new();
        if let Some(prefix) = &self.nginx_prefix {
            all.extend(["--nginx-prefix".into(), prefix.clone().into_os_string()]);
        }
        for pattern in &self.include_empty {
            all.extend(["--include-empty".into(), pattern.into()]);
        }
        all
    }
}

pub(super) struct Beside {
    /// Where relative names start; the first that has the file counts.
    folders: Vec<PathBuf>,
    /// What stands for /etc/nginx.
    copy: Option<PathBuf>,
    /// Of --include-empty, each with whether a name was one of it.
    empty: Vec<(Pattern, AtomicBool)>,
    /// Of --env-file.
    variables: HashMap<String, String>,
}

impl Beside {
    pub(super) fn new(file: &Path, arguments: &Reading) -> anyhow::Result<Beside> {
        let own = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let prefix = arguments.nginx_prefix.as_deref().map(std::path::absolute).transpose()?;
        let folders = match &prefix {
            Some(prefix) => vec![prefix.clone()],
            None => vec![std::path::absolute(own)?, PathBuf::from(USUAL)],
        };
        let pattern = |text: &String| {
            let pattern =
                Pattern::new(text).with_context(|| format!("--include-empty {text}: invalid pattern"))?;
            Ok((pattern, AtomicBool::new(false)))
        };
        let empty = arguments.include_empty.iter().map(pattern).collect::<anyhow::Result<_>>()?;
        let variables = arguments.env_file.as_deref().map(read_variables).transpose()?.unwrap_or_default();
        Ok(Beside { folders, copy: prefix, empty, variables })
    }

    /// A pattern of --include-empty that no include had.
    pub(super) fn unused(&self) -> Option<&str> {
        let mut unused = self.empty.iter().filter(|(_, used)| !used.load(Ordering::Relaxed));
        unused.next().map(|(pattern, _)| pattern.as_str())
    }

    fn places(&self, name: &str) -> Vec<PathBuf> {
        let path = Path::new(name);
        match (&self.copy, path.strip_prefix(USUAL)) {
            (Some(copy), Ok(rest)) => vec![copy.join(rest)],
            _ if path.is_absolute() => vec![path.to_owned()],
            _ => self.folders.iter().map(|folder| folder.join(path)).collect(),
        }
    }
}

impl Files for Beside {
    fn read(&self, name: &str) -> Result<String, String> {
        let places = self.places(name);
        let found = places.iter().find(|place| place.exists()).or(places.first());
        let path = found.ok_or_else(|| format!("{name}: no such file"))?;
        read_text(path).map_err(|error| format!("{}: {error:#}", path.display()))
    }

    fn glob(&self, pattern: &str) -> Result<Vec<String>, String> {
        let places = self.places(pattern);
        let found = places.iter().find(|place| fixed_folder(place).is_dir());
        let Some(place) = found else {
            let folders: Vec<String> =
                places.iter().map(|place| fixed_folder(place).display().to_string()).collect();
            return Err(format!("no folder {}", folders.join(" or ")));
        };
        let text = place.to_str().ok_or("its path is not UTF-8")?;
        let names = glob::glob_with(text, AS_IN_C).map_err(|error| error.to_string())?;
        names
            .map(|name| {
                let path = name.map_err(|error| error.to_string())?;
                path.to_str().map(str::to_owned).ok_or_else(|| format!("{}: not UTF-8", path.display()))
            })
            .collect()
    }

    fn variable(&self, name: &str) -> Option<String> {
        self.variables.get(name).cloned().or_else(|| std::env::var(name).ok())
    }

    fn is_declared_empty(&self, name: &str) -> bool {
        let places = self.places(name);
        let fits = |pattern: &Pattern| {
            pattern.matches(name) || places.iter().any(|place| pattern.matches_path(place))
        };
        let fitting = self.empty.iter().filter(|(pattern, _)| fits(pattern));
        fitting.inspect(|(_, used)| used.store(true, Ordering::Relaxed)).count() > 0
    }
}

/// No configuration is larger.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// Reading a pipe could block, and a device may never end.
pub(super) fn read_text(path: &Path) -> anyhow::Result<String> {
    let kind = fs::metadata(path)?;
    if !kind.is_file() {
        bail!("it is not a regular file");
    }
    let mut text = String::new();
    fs::File::open(path)?.take(MAX_FILE_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        bail!("it has more than {} MiB", MAX_FILE_BYTES >> 20);
    }
    Ok(text)
}

/// `NAME=VALUE`, also in quotes; `#` begins a comment.
fn read_variables(file: &Path) -> anyhow::Result<HashMap<String, String>> {
    let text = read_text(file).with_context(|| format!("cannot read {}", file.display()))?;
    let mut variables = HashMap::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim().trim_start_matches("export ");
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((name, value)) = line.split_once('=') else {
            bail!("{}:{}: expected NAME=VALUE", file.display(), index + 1)
        };
        let value = value.trim();
        let quoted = ['"', '\''].into_iter().find_map(|quote| value.strip_prefix(quote)?.strip_suffix(quote));
        variables.insert(name.trim().to_owned(), quoted.unwrap_or(value).to_owned());
    }
    Ok(variables)
}

/// The part of a pattern before the first wildcard.
fn fixed_folder(pattern: &Path) -> PathBuf {
    let is_fixed =
        |part: &std::path::Component| !part.as_os_str().to_string_lossy().contains(['*', '?', '[']);
    pattern.components().take_while(is_fixed).collect()
}
