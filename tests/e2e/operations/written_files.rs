//! Files that verbs write: what is not a regular file stays what it is, and links lead to what is written.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use tidegate_testkit::Gateway;
use tidegate_testkit::gateway::{EMBEDDED, binary};

/// A verb with `@OUT@` for its output file, what its output has in it, and whether that is secret.
const VERBS: [(&[&str], &str, bool); 4] = [
    (&["config", "export", "-o", "@OUT@"], "/written", true),
    (&["config", "backup", "@OUT@"], "/written", true),
    (&["import", "apisix", "@IN@", "--to", "@OUT@"], "/written", true),
    (&["bench", "-n", "1", "-c", "1", "@URL@", "--json", "@OUT@"], "latency", false),
];

struct Fixture {
    gateway: Gateway,
    folder: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Fixture {
        let gateway = Gateway::start(EMBEDDED, None);
        let route = r#"{"uri": "/written", "plugins": {"mocking": {"response_example": "x"}}}"#;
        assert_eq!(gateway.admin("PUT", "/apisix/admin/routes/1", route).0, 201);
        let folder = tempfile::tempdir().expect("a folder");
        let file = format!("routes: [{{\"id\": 1, {}]\n#END\n", route.trim_start_matches('{'));
        fs::write(folder.path().join("in.yaml"), file).expect("written");
        Fixture { gateway, folder }
    }

    fn command(&self, words: &[&str], out: &Path) -> Command {
        let url = format!("http://{}/written", self.gateway.http);
        let input = self.folder.path().join("in.yaml");
        let mut command = Command::new(binary());
        command.args(words.iter().map(|word| match *word {
            "@OUT@" => out.as_os_str().to_owned(),
            "@IN@" => input.as_os_str().to_owned(),
            "@URL@" => (&url).into(),
            word => word.into(),
        }));
        command.arg("--prefix").arg(self.gateway.prefix());
        command
    }

    fn run(&self, words: &[&str], out: &Path) -> String {
        let output = self.command(words, out).stdin(Stdio::null()).output().expect("runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{words:?} {}: {said}", out.display());
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

#[test]
fn links_lead_to_what_is_written() {
    let fixture = Fixture::new();
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("volume")).expect("a folder");
    let (link, target) = (folder.path().join("link"), folder.path().join("volume/target"));
    symlink("volume/target", &link).expect("a link");
    for (words, wanted, is_secret) in VERBS {
        // Twice: over what is not there, and over what is.
        for _ in 0..2 {
            fixture.run(words, &link);
            assert!(fs::symlink_metadata(&link).expect("a link").is_symlink(), "{words:?}");
            let text = fs::read_to_string(&target).expect("the target");
            assert!(text.contains(wanted), "{words:?}: {text}");
            let mode = fs::metadata(&target).expect("the target").mode() & 0o777;
            assert!(!is_secret || mode == 0o600, "{words:?}: {mode:o}");
        }
        fs::remove_file(&target).expect("removed");
    }
    let left: Vec<_> = fs::read_dir(folder.path().join("volume")).expect("the folder").collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn pipes_and_standard_output_stay_and_are_written() {
    let fixture = Fixture::new();
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs").success());
    // As /dev/stdout, which a fault would remove from this machine.
    let standard_output = folder.path().join("stdout");
    symlink("/proc/self/fd/1", &standard_output).expect("a link");
    for (words, wanted, _) in VERBS {
        let writer = fixture.command(words, &pipe).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut writer = writer.expect("runs");
        let mut reader =
            Command::new("timeout").args(["20", "cat"]).arg(&pipe).stdout(Stdio::piped()).spawn();
        let status = writer.wait().expect("its status");
        let kind = fs::symlink_metadata(&pipe).expect("the pipe").file_type();
        let reader = reader.as_mut().expect("cat runs");
        if !kind.is_fifo() {
            let _ = reader.kill();
        }
        assert!(kind.is_fifo() && status.success(), "{words:?}: {status:?}");
        let mut text = String::new();
        let output = reader.stdout.take().expect("its output");
        std::io::Read::read_to_string(&mut std::io::BufReader::new(output), &mut text).expect("text");
        reader.wait().expect("its status");
        assert!(text.contains(wanted), "{words:?}: {text}");

        let printed = fixture.run(words, &standard_output);
        assert!(printed.contains(wanted), "{words:?}: {printed}");
        assert!(fs::symlink_metadata(&standard_output).expect("a link").is_symlink(), "{words:?}");
        // A redirected one: what was there before stays.
        let file = folder.path().join("file");
        let script = fixture.command(words, &standard_output);
        let quoted: Vec<String> = std::iter::once(script.get_program())
            .chain(script.get_args())
            .map(|word| format!("'{}'", word.to_string_lossy()))
            .collect();
        let line = format!("{{ echo before; {}; }} > '{}'", quoted.join(" "), file.display());
        assert!(
            Command::new("sh")
                .arg("-c")
                .arg(&line)
                .stderr(Stdio::null())
                .status()
                .expect("sh runs")
                .success()
        );
        let text = fs::read_to_string(&file).expect("the file");
        assert!(text.starts_with("before\n") && text.contains(wanted), "{words:?}: {text}");
    }
}

#[test]
fn what_cannot_be_written_is_said_and_leaves_nothing() {
    let fixture = Fixture::new();
    let folder = tempfile::tempdir().expect("a folder");
    for (words, ..) in VERBS {
        let output = fixture.command(words, folder.path()).output().expect("runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains("directory"), "{words:?}: {said}");
    }
    assert_eq!(fs::read_dir(folder.path()).expect("the folder").count(), 0);
}
