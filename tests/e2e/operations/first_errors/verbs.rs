//! Each first error in every verb that meets it: the exit code, the cause and the remedy.

use std::fs;
use std::path::Path;

use tidegate_testkit::gateway::binary;

use crate::pages::network;

/// What goes wrong, before the verbs. Verbs are called in a folder where `given` has been typed; `a` is that of a gateway.
struct Fault {
    given: &'static str,
    /// A verb, its exit code, and parts of what it says.
    verbs: &'static [(&'static str, i32, &'static [&'static str])],
}

const TAKEN: &str = "(tidegate) listens on 127.0.0.1:";
/// Without capabilities, root is a user as any other.
const NOBODY: &str = "tidegate() { setpriv --bounding-set=-all --inh-caps=-all tidegate \"$@\"; }\n";
/// Another process on these ports.
const PORTS: &str = "for port in 1980 8080 8888 9080; do tidegate echo -p $port > /dev/null 2>&1 & until (: > /dev/tcp/127.0.0.1/$port) 2> /dev/null; do :; done; done\n";
const PORT: &[&str] = &[TAKEN, "stop it, or choose another port"];
const OF_A_VERB: &[&str] = &["tidegate: cannot listen on ", TAKEN, "choose another port with --listen"];
const NOT_RUNNING: &[&str] = &["not running", "`tidegate start` starts it, --prefix names another folder"];
const NO_API: &[&str] = &["cannot reach the Admin API at 127.0.0.1:9180", "start it, or give --"];
const NO_CONTROL: &[&str] = &["cannot reach the Control API at 127.0.0.1:9090", "start it, or give --prefix"];
const NO_KEY: &[&str] = &["cannot read the admin key in ", "or set deployment.admin.admin_key"];
const WRONG_KEY: &[&str] = &["wrong apikey", "a generated key is in data/admin.key"];
const MAY_NOT: &[&str] = &["Permission denied", "user 0 may not: make it the owner (chown -R 0 FOLDER)"];
const NO_SERVER: &[&str] = &["nothing listens there"];
/// A verb that serves, asked once.
macro_rules! asked {
    ($verb:literal, $port:literal, $url:literal) => {
        concat!(
            $verb,
            " & until (: > /dev/tcp/127.0.0.1/",
            $port,
            ") 2> /dev/null; do :; done; curl -sSk -m 9 ",
            $url,
            ":",
            $port,
            "/; kill $!; wait"
        )
    };
}
const HELP: &[&str] = &["--help"];

const FAULTS: &[Fault] = &[
    Fault {
        given: PORTS,
        verbs: &[
            ("run --prefix a", 1, PORT),
            ("start --prefix a", 1, PORT),
            ("test --prefix a", 1, PORT),
            ("serve -r a", 1, OF_A_VERB),
            ("serve --daemon -r a", 1, &[TAKEN, "choose another port with --listen"]),
            ("proxy --to http://127.0.0.1:1", 1, OF_A_VERB),
            ("echo", 1, PORT),
            ("doctor --prefix a", 3, PORT),
        ],
    },
    Fault {
        given: "tidegate start --prefix a\nprintf 'apisix: {node_listen: [9080, 9081]}\\n' > a/conf/config.yaml\n\
                tidegate echo -p 9081 > /dev/null 2>&1 & until (: > /dev/tcp/127.0.0.1/9081) 2> /dev/null; do :; done",
        verbs: &[("reload --prefix a", 1, PORT), ("upgrade --prefix a", 1, PORT)],
    },
    Fault {
        given: "",
        verbs: &[
            ("stop --prefix a", 1, NOT_RUNNING),
            ("quit --prefix a", 1, NOT_RUNNING),
            ("reload --prefix a", 1, NOT_RUNNING),
            ("upgrade --prefix a", 1, NOT_RUNNING),
            ("connections --prefix a", 1, NOT_RUNNING),
            ("routes --prefix a", 1, NO_CONTROL),
            ("health --prefix a", 1, NO_CONTROL),
            ("config backup f --prefix a", 1, &["there is no database ", "the first start makes it"]),
        ],
    },
    Fault {
        given: "tidegate start --prefix a; tidegate stop --prefix a",
        verbs: &[
            ("config export --prefix a", 1, NO_API),
            ("config history --prefix a", 1, NO_API),
            ("config checkpoint one --prefix a", 1, NO_API),
            ("config rollback 1 --prefix a", 1, NO_API),
            ("config import apisix.yaml --prefix a", 1, NO_API),
            ("config diff apisix.yaml --prefix a", 2, NO_API),
            ("import apisix apisix.yaml --apply --prefix a", 1, NO_API),
            ("explain GET http://a/ --prefix a", 1, &["cannot reach the Admin API", "use --offline"]),
        ],
    },
    Fault {
        given: "tidegate start --prefix a; rm a/data/admin.key",
        verbs: &[
            ("config export --prefix a", 1, NO_KEY),
            ("config history --prefix a", 1, NO_KEY),
            ("config import apisix.yaml --prefix a", 1, NO_KEY),
            ("config diff apisix.yaml --prefix a", 2, NO_KEY),
            ("explain GET http://a/ --prefix a", 1, NO_KEY),
            ("import apisix apisix.yaml --apply --prefix a", 1, &["--apply needs --admin-key", "admin.key"]),
        ],
    },
    Fault {
        given: "tidegate start --prefix a; printf '%032d' 0 > a/data/admin.key",
        verbs: &[
            ("config export --prefix a", 1, WRONG_KEY),
            ("config history --prefix a", 1, WRONG_KEY),
            ("config checkpoint one --prefix a", 1, WRONG_KEY),
            ("config rollback 1 --prefix a", 1, WRONG_KEY),
            ("config import apisix.yaml --prefix a", 1, WRONG_KEY),
            ("config diff apisix.yaml --prefix a", 2, WRONG_KEY),
            ("explain GET http://a/ --prefix a", 1, WRONG_KEY),
            ("import apisix apisix.yaml --apply --prefix a", 1, WRONG_KEY),
            ("import apisix apisix.yaml --apply --admin-key nope", 1, WRONG_KEY),
        ],
    },
    Fault {
        given: "chmod 500 a a/conf",
        verbs: &[
            ("run --prefix a", 1, MAY_NOT),
            ("start --prefix a", 1, MAY_NOT),
            ("test --prefix a", 1, &["cannot be written: Permission denied", "give the path of a file"]),
            ("init --prefix a/b", 1, &["Permission denied"]),
        ],
    },
    Fault {
        given: "chmod 000 a/conf/config.yaml",
        verbs: &[
            ("run --prefix a", 1, MAY_NOT),
            ("start --prefix a", 1, MAY_NOT),
            ("test --prefix a", 1, MAY_NOT),
            ("routes --prefix a", 1, MAY_NOT),
            ("config export --prefix a", 1, MAY_NOT),
            ("doctor --prefix a", 3, MAY_NOT),
        ],
    },
    Fault {
        given: "rm -r a",
        verbs: &[
            ("run --prefix a", 1, &["has no folder conf/", "tidegate init --prefix a"]),
            ("start --prefix a", 1, &["has no folder conf/", "tidegate init --prefix a"]),
            ("test --prefix a", 1, &["has no folder conf/", "tidegate init --prefix a"]),
            ("config export --prefix a", 1, &["has no folder conf/", "tidegate init --prefix a"]),
            ("serve -r a", 1, &["cannot serve a", "give a directory that can be read"]),
        ],
    },
    Fault {
        given: "printf 'routes: [{id: 1, uri: /a' > apisix.yaml; mkdir -p a/conf; printf 'apisix: {node_listen: [x]}\\n' > a/conf/config.yaml",
        verbs: &[
            ("run --prefix a", 1, &["config.yaml:1:24", "node_listen"]),
            ("start --prefix a", 1, &["config.yaml:1:24", "node_listen"]),
            ("test --prefix a", 1, &["config.yaml:1:24", "node_listen"]),
            ("doctor --prefix a", 3, &["config.yaml:1:24", "node_listen"]),
            ("run --from apisix:apisix.yaml", 1, &["apisix.yaml:1:10: unclosed bracket '{'"]),
            ("import apisix apisix.yaml", 1, &["apisix.yaml:1:10: unclosed bracket '{'"]),
            ("doctor apisix.yaml", 3, &["apisix.yaml:1:10: unclosed bracket '{'", "correct the place"]),
        ],
    },
    Fault {
        given: "printf 'routes: [{id: 1, uri: /a, plugins: {key_auth: {}}}]\\n#END\\n' > apisix.yaml\n\
                printf 'deployment: {role: data_plane, role_data_plane: {config_provider: yaml}}\\n' > a/conf/config.yaml\n\
                cp apisix.yaml a/conf",
        verbs: &[
            ("test --prefix a", 2, &["unknown plugin [key_auth]; did you mean key-auth?"]),
            ("doctor --prefix a", 3, &["unknown plugin [key_auth]", "did you mean key-auth?"]),
            ("doctor apisix.yaml", 3, &["unknown plugin [key_auth]", "did you mean key-auth?"]),
            ("import apisix apisix.yaml", 0, &["unknown plugin [key_auth]; did you mean key-auth?"]),
        ],
    },
    Fault {
        given: "tidegate start --prefix a; printf 'routes: [{id: 1, uri: /a, plugins: {key_auth: {}}}]\\n#END\\n' > apisix.yaml",
        verbs: &[
            (
                "config import apisix.yaml --prefix a",
                1,
                &["unknown plugin [key_auth]; did you mean key-auth?"],
            ),
            (
                "import apisix apisix.yaml --apply --prefix a",
                1,
                &["unknown plugin [key_auth]; did you mean key-auth?"],
            ),
        ],
    },
    Fault {
        given: "tidegate echo > /dev/null 2>&1 & until (: > /dev/tcp/127.0.0.1/1980) 2> /dev/null; do :; done",
        verbs: &[
            ("bench http://127.0.0.1:1/ -d 1s", 1, NO_SERVER),
            (
                "bench http://nowhere.invalid/ -d 1s",
                1,
                &["cannot find the address of nowhere.invalid", "check the name"],
            ),
            ("bench https://127.0.0.1:1980/ -d 1s", 1, &["the server speaks plain HTTP; use http://"]),
            (
                asked!("proxy --to http://127.0.0.1:1", "8080", "http://127.0.0.1"),
                0,
                &["nothing listens there: start the server, or correct the port"],
            ),
            (
                asked!("proxy --to http://nowhere.invalid", "8080", "http://127.0.0.1"),
                0,
                &["failed to resolve nowhere.invalid", "correct the name"],
            ),
            (
                asked!("proxy --to https://127.0.0.1:1980", "8080", "http://127.0.0.1"),
                0,
                &["speaks plain HTTP, not TLS; set the upstream", "scheme to http"],
            ),
            (
                asked!("proxy --to http://127.0.0.1:1 --tls self-signed", "8080", "http://127.0.0.1"),
                0,
                &["The plain HTTP request was sent to HTTPS port: use https:// for it"],
            ),
            (
                asked!("proxy --to http://127.0.0.1:1", "8080", "https://127.0.0.1"),
                0,
                &["a port for plain HTTP: use http:// for it"],
            ),
            (
                asked!("serve -r a", "8888", "https://127.0.0.1"),
                0,
                &["a port for plain HTTP: use http:// for it"],
            ),
            ("proxy", 2, HELP),
            (
                "proxy --to 127.0.0.1:3000",
                2,
                &["begins with http:// or https://, such as http://127.0.0.1:3000"],
            ),
            ("proxy --to http://a/b", 2, &["a server is wanted, without \"/b\""]),
            ("proxy --to http://a --rate 10", 2, &["such as 100/s"]),
            ("rout", 2, &["similar subcommands exist: 'run', 'routes'"]),
        ],
    },
];

#[test]
fn every_verb_says_what_to_do() {
    if !network::own_everything() {
        eprintln!("skipped: this machine allows no namespaces");
        return;
    }
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..3)
            .map(|lane| {
                let faults = FAULTS.iter().skip(lane).step_by(3);
                scope.spawn(move || faults.flat_map(meet).collect::<Vec<_>>())
            })
            .collect();
        lanes.into_iter().flat_map(|lane| lane.join().expect("a lane ends")).collect()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// What is not said, in the verbs of one fault.
fn meet(fault: &Fault) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let calls: String = fault
        .verbs
        .iter()
        .enumerate()
        .map(|(number, (verb, ..))| format!("timeout -k 1 30 bash -c 'tidegate {verb}' > said.{number} 2>&1 < /dev/null; echo $? > code.{number}\n"))
        .collect();
    // Of who may not write, whose folder is made before.
    let nobody = if fault.given.starts_with("chmod") { NOBODY } else { "" };
    let script = format!(
        "cd '{}'\nPATH='{}':$PATH\ntidegate init --prefix a > /dev/null\n\
         printf 'routes: [{{id: 1, uri: /a, upstream: {{nodes: {{\"127.0.0.1:1\": 1}}}}}}]\\n#END\\n' > apisix.yaml\n\
         {}\n{nobody}\nset +e\ndeclare -fx tidegate 2> /dev/null\n{calls}",
        folder.path().display(),
        binary().parent().unwrap_or(Path::new("/")).display(),
        fault.given
    );
    let output = network::alone(&script, 300).output().expect("bash runs");
    let read = |name: String| fs::read_to_string(folder.path().join(name)).unwrap_or_default();
    let mut wrong = Vec::new();
    for (number, (verb, code, parts)) in fault.verbs.iter().enumerate() {
        let (said, ended) = (read(format!("said.{number}")), read(format!("code.{number}")));
        let is_said = parts.iter().all(|part| said.contains(part));
        if ended.trim() != code.to_string() || !is_said {
            let printed = String::from_utf8_lossy(&output.stderr);
            wrong.push(format!(
                "tidegate {verb}: {} instead of {code}, {parts:?} in\n{said}{printed}",
                ended.trim()
            ));
        }
    }
    // Modes would keep the folder from being removed.
    let _ = std::process::Command::new("chmod").args(["-R", "u+rwX"]).arg(folder.path()).status();
    wrong
}
