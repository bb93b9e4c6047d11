//! A page as one script: each step prints its number first, so that what it prints is known.

use std::fmt::Write as _;
use std::net::TcpListener;
use std::ops::Range;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use tidegate_testkit::gateway::binary;

use super::block::{Block, Kind};
use super::network;
use super::transcript::{has_json, missing, shown};

/// For a page that waits for something that never comes.
const SECONDS: u32 = 120;
const SLOW_SECONDS: u32 = 600;
/// Before the number of a step.
const MARK: char = '\u{1e}';

/// What the shell of a page has. A command that serves is started in the background by `stays`; it prints a line when its
/// ports are open.
const SHELL: &str = r#"
exec 2>&1
strict= staying=
step() { printf '\n\036%s\n' "$1"; }
curl() {
    case "$strict $*" in
        yes*|*:9180*|*:9090*) command curl -sS -m 60 --fail-with-body "$@" ;;
        *) command curl -sS -m 60 "$@" ;;
    esac
}
gateway() {
    local folder=${1:-.}
    [[ -e $folder/conf/config.yaml ]] || tidegate init --prefix "$folder" > /dev/null
    tidegate start --prefix "$folder"
    [[ ! -e $folder/data/admin.key ]] || export ADMIN_KEY="$(cat "$folder/data/admin.key")"
}
afresh() {
    tidegate stop > /dev/null 2>&1 || true
    cd "$(mktemp -d)"
}
leave() { [[ -z $staying ]] || { kill "$staying"; wait "$staying" || true; staying=; } }
stays() {
    leave
    exec {lines}< <(exec "$@" 2>&1)
    staying=$!
    while IFS= read -r -t 30 line <&"$lines"; do
        echo "$line"
        case $line in
            'tidegate: '*' -> '*|'tidegate: serving '*|'tidegate: echo on '*|'  proxy '*) cat <&"$lines" >/dev/null & return ;;
        esac
    done
    echo "it does not serve: $*"
    return 1
}
loads() {
    local folder
    folder=$(mktemp -d)
    mkdir "$folder/conf"
    cp "$1" "$folder/conf/config.yaml"
    printf 'routes: []\n#END\n' > "$folder/conf/apisix.yaml"
    tidegate test --prefix "$folder" > "$folder/said" 2>&1 || { cat "$folder/said"; return 1; }
    ! grep -v 'apisix.data_encryption.keyring encrypts with a key that is published' "$folder/said" | grep 'warning: '
}
"#;

/// What a step has to print.
enum Wanted<'a> {
    /// These lines, in their order, in the output of these steps.
    Lines(Range<usize>, Vec<&'a str>),
    Json(Range<usize>, &'a str),
}

#[derive(Default)]
struct Script<'a> {
    text: String,
    /// The line of the page for each step.
    lines: Vec<usize>,
    wanted: Vec<Wanted<'a>>,
    /// The steps of the last block that was typed.
    last: Range<usize>,
}

impl<'a> Script<'a> {
    fn step(&mut self, line: usize, strict: bool, commands: &str) {
        let strict = if strict { "yes" } else { "" };
        let _ = write!(self.text, "step {}\nstrict={strict}\n{}\n", self.lines.len(), commands.trim_end());
        self.lines.push(line);
    }

    fn add(&mut self, block: &'a Block) {
        let Block { line, given, text, language, kind, .. } = block;
        if matches!(kind, Kind::NotRun { .. }) {
            return;
        }
        if !given.is_empty() {
            self.step(*line, true, given);
        }
        let first = self.lines.len();
        match kind {
            Kind::NotRun { .. } => {}
            Kind::Output { of } => {
                if !of.is_empty() {
                    self.step(*line, false, of);
                    self.last = first..first + 1;
                }
                let steps = self.last.clone();
                self.wanted.push(match language.as_str() {
                    "json" => Wanted::Json(steps, text),
                    _ => Wanted::Lines(steps, text.lines().collect()),
                });
            }
            Kind::File { name, then } => {
                let write = format!(
                    "mkdir -p \"$(dirname '{name}')\"\ncat > '{name}' <<'END_OF_BLOCK'\n{text}END_OF_BLOCK\n{then}"
                );
                self.step(*line, true, &write);
                self.last = first..first + 1;
            }
            Kind::Typed { meanwhile, .. } => {
                match language.as_str() {
                    "console" => self.console(*line, text),
                    _ => self.typed(*line, text),
                }
                self.last = first..self.lines.len();
                if !meanwhile.is_empty() {
                    self.step(*line, true, meanwhile);
                }
                self.text += "leave\n";
            }
        }
    }

    fn console(&mut self, line: usize, text: &'a str) {
        for shown in shown(text) {
            let step = self.lines.len();
            self.step(line, false, &format!("{{ {}\n}} || true", shown.command));
            self.wanted.push(Wanted::Lines(step..step + 1, shown.lines));
        }
    }

    /// Commands, with what they print after `#=> `.
    fn typed(&mut self, line: usize, text: &'a str) {
        let mut commands = String::new();
        let mut wanted = Vec::new();
        for (number, row) in text.lines().enumerate().chain([(usize::MAX, "")]) {
            if let Some(row) = row.strip_prefix("#=> ") {
                wanted.push(row);
                continue;
            }
            if number == usize::MAX || !wanted.is_empty() {
                let step = self.lines.len();
                self.step(line, wanted.is_empty(), &commands);
                self.wanted.push(Wanted::Lines(step..step + 1, std::mem::take(&mut wanted)));
                commands.clear();
            }
            commands += &format!("{}{row}\n", if stays(row) { "stays " } else { "" });
        }
    }

    /// What is not as the page shows it.
    fn judge(&self, page: &str, output: &str, fine: bool) -> Result<(), String> {
        let mut parts = vec![String::new(); self.lines.len()];
        let mut reached = None;
        for part in output.split(MARK).skip(1) {
            let (number, text) = part.split_once('\n').unwrap_or((part, ""));
            if let Some(place) = number.parse::<usize>().ok().filter(|number| *number < parts.len()) {
                text.clone_into(&mut parts[place]);
                reached = Some(place);
            }
        }
        for wanted in &self.wanted {
            let (steps, lacking) = match wanted {
                Wanted::Lines(steps, lines) => {
                    (steps, missing(lines, &parts[steps.clone()].concat()).map(str::to_owned))
                }
                Wanted::Json(steps, json) => {
                    let has = has_json(json, &parts[steps.clone()].concat());
                    (steps, (!has).then(|| (*json).to_owned()))
                }
            };
            let was_run = reached.is_some_and(|reached| steps.end <= reached + usize::from(fine));
            if let Some(lacking) = lacking.filter(|_| was_run) {
                let line = self.lines.get(steps.start).copied().unwrap_or_default();
                let printed = parts[steps.clone()].concat();
                return Err(format!(
                    "{page}:{line}: has no line `{lacking}`, or not there, in its output:\n{printed}"
                ));
            }
        }
        match reached {
            _ if fine => Ok(()),
            Some(step) => {
                Err(format!("{page}:{}: a command fails, after\n{}", self.lines[step], parts[step]))
            }
            None => Err(format!("{page}: the shell does not begin:\n{output}")),
        }
    }
}

/// Whether a command serves until it is stopped.
fn stays(row: &str) -> bool {
    let mut words = row.split(' ');
    let program = words.next().unwrap_or_default();
    let verb = words.next().unwrap_or_default();
    (program == "tidegate" || program.ends_with("/tidegate"))
        && ["run", "proxy", "serve", "echo"].contains(&verb)
        && !row.contains(" &")
        && !row.contains("--print")
}

/// Types blocks into one shell, in a folder and after `before`.
pub(crate) fn run(page: &str, blocks: &[&Block], before: &str, folder: &Path) -> Result<(), String> {
    let mut script = Script::default();
    for block in blocks {
        script.add(block);
    }
    let seconds = if blocks.iter().any(|block| block.is_slow) { SLOW_SECONDS } else { SECONDS };
    let text = format!("{SHELL}\n{before}\n{}", script.text);
    let mut command = match network::own_everything() {
        true => network::alone(&format!("mount -t tmpfs none /srv\nset -u\n{text}"), seconds),
        false => match in_the_open(&text, seconds) {
            Some(command) => command,
            None => return Ok(()),
        },
    };
    static OPEN: Mutex<()> = Mutex::new(());
    let _alone = (!network::own_everything()).then(|| OPEN.lock().unwrap_or_else(PoisonError::into_inner));
    let own = binary().parent().unwrap_or(folder).display();
    let path = std::env::var("PATH").unwrap_or_default();
    let output = command
        .current_dir(folder)
        .env("PATH", format!("{own}:{path}:/usr/sbin"))
        .env("TMPDIR", folder)
        .env_remove("MAKEFLAGS")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{page}: {error}"))?;
    let printed = [output.stdout, output.stderr].concat();
    script.judge(page, &String::from_utf8_lossy(&printed), output.status.success())
}

/// Without namespaces: pages that stay within their folder, if the documented ports are free.
fn in_the_open(text: &str, seconds: u32) -> Option<Command> {
    let leaves_its_folder = ["/srv", "ip addr ", "mount "].iter().any(|word| text.contains(word));
    if leaves_its_folder || [9080, 9180].iter().any(|port| TcpListener::bind(("0.0.0.0", *port)).is_err()) {
        eprintln!("skipped: this machine allows no namespaces, and a port is taken or a folder is needed");
        return None;
    }
    let end = "trap 'kill $(jobs -p) $(cat logs/*.pid 2>/dev/null) 2>/dev/null || true' EXIT";
    let mut command = Command::new("timeout");
    command.args([&seconds.to_string(), "bash", "-c", &format!("set -eu\n{end}\n{text}")]);
    Some(command)
}
