use serde_json::json;

use super::*;

fn talk(conf: &Value, logs: bool) -> Box<dyn Conversation> {
    let route = ProtocolRoute { id: &"redis-tests".into(), counts: true, logs };
    build(conf, &route).unwrap().open()
}

fn command(texts: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", texts.len()).into_bytes();
    texts.iter().for_each(|text| bytes.extend(format!("${}\r\n{text}\r\n", text.len()).bytes()));
    bytes
}

/// Shows the bytes in pieces of this size; returns the pauses of the commands.
fn sent(talk: &mut dyn Conversation, bytes: &[u8], size: usize) -> Result<Vec<u64>, String> {
    let mut pauses = Vec::new();
    for mut piece in bytes.chunks(size) {
        while !piece.is_empty() {
            match talk.client_sent(piece, &mut Vec::new())? {
                Progress::More => break,
                Progress::Whole(seen, pause) => {
                    pauses.push(pause.as_secs());
                    piece = &piece[seen..];
                }
            }
        }
    }
    Ok(pauses)
}

/// The logged lines of calls that end with these bytes.
fn answered(talk: &mut dyn Conversation, bytes: &str, size: usize) -> Vec<String> {
    let mut over = Vec::new();
    for piece in bytes.as_bytes().chunks(size) {
        talk.node_sent(piece, &mut over).unwrap();
    }
    lines(over)
}

fn lines(over: Vec<Call>) -> Vec<String> {
    over.into_iter().map(|call| String::from_utf8(call.variables[0].1.clone()).unwrap()).collect()
}

#[test]
fn calls_end_with_their_answers_however_they_are_cut() {
    let big = "v".repeat(300);
    let commands = [
        command(&["SET", "a", &big]),
        command(&["lrange", "b", "0", "2"]),
        command(&["hello", "3"]),
        command(&["GET", "c"]),
    ];
    let answers = "+OK\r\n*3\r\n$1\r\nx\r\n*0\r\n:5\r\n%1\r\n+a\r\n*2\r\n_\r\n$-1\r\n>2\r\n+invalidate\r\n*1\r\n+k\r\n|1\r\n+ttl\r\n:5\r\n$3\r\nfoo\r\n";
    for size in [1, 2, 7, 10_000] {
        let mut talk = talk(&json!({}), true);
        assert_eq!(sent(&mut *talk, &commands.concat(), size), Ok(vec![0; 4]), "{size}");
        let expected =
            [&*format!("set a {}...(300 bytes)", "v".repeat(128)), "lrange b 0 2", "hello 3", "get c"];
        assert_eq!(answered(&mut *talk, answers, size), expected, "{size}");
        assert!(talk.close().is_empty());
    }
    let counted = metrics::counted().into_iter();
    let of_get = counted.filter(|one| &*one.route == "redis-tests" && &*one.command == "hello");
    assert_eq!(of_get.map(|one| (one.count, one.within[9].1)).collect::<Vec<_>>(), [(4, 4)]);
}

#[test]
fn commands_wait_by_their_names_and_keys() {
    let conf = json!({"faults": [
        {"commands": ["get", "MGET"], "key": "b", "delay": 5},
        {"commands": ["get"], "delay": 2},
        {"commands": ["mset"], "key": "k", "delay": 3},
        {"commands": ["ping"], "key": "ignored", "delay": 4},
        {"commands": ["del"], "delay": -1},
    ]});
    let mut talk = talk(&conf, false);
    for (texts, expected) in [
        (&["GET", "b"][..], 5),
        (&["get", "a"], 2),
        (&["get", "bb"], 2),
        (&["mget", "a", "b"], 5),
        (&["MGET", "a", "c"], 0),
        (&["mset", "a", "k"], 0),
        (&["mset", "a", "1", "k", "1"], 3),
        (&["PING"], 4),
        (&["del", "a"], 0),
        (&["set", "b", "1"], 0),
    ] {
        assert_eq!(sent(&mut *talk, &command(texts), 3), Ok(vec![expected]), "{texts:?}");
    }
}

#[test]
fn what_is_no_command_ends_the_session() {
    for (bytes, expected) in [
        ("*-1\r\n", "invalid argument number: -1"),
        ("*0\r\n", "invalid argument number: 0"),
        ("*1e9\r\n", "invalid len string: \"1e9\""),
        ("*99999999999999999999\r\n", "invalid len string: \"99999999999999999999\""),
        ("*1\n", "invalid len string: \"*1\""),
        ("*1\r\n$-1\r\n", "invalid bulk length: -1"),
        ("*2\r\n$3\r\nGET\r\n$-1\r\n", "invalid bulk length: -1"),
        ("PING\r\n", "unknown prefix: \"P\""),
    ] {
        let found = sent(&mut *talk(&json!({}), false), bytes.as_bytes(), 100);
        assert_eq!(found, Err(format!("failed to read request: {expected}")), "{bytes}");
    }
    let long = format!("*{}", "1".repeat(200));
    assert!(sent(&mut *talk(&json!({}), false), long.as_bytes(), 50).is_err());
    let mut over = Vec::new();
    assert!(talk(&json!({}), false).node_sent(b"HTTP/1.1 400\r\n", &mut over).is_err());
    assert!(talk(&json!({}), false).node_sent(&b"*1\r\n".repeat(100), &mut over).is_err());
}

#[test]
fn messages_of_channels_end_no_calls() {
    let mut talk = talk(&json!({}), true);
    let mut say = |texts: &[&str]| sent(&mut *talk, &command(texts), 5).unwrap();
    say(&["lrange", "l", "0", "-1"]);
    say(&["subscribe", "dog", "cat"]);
    let subscribed =
        "*3\r\n$9\r\nsubscribe\r\n$3\r\ndog\r\n:1\r\n*3\r\n$9\r\nsubscribe\r\n$3\r\ncat\r\n:2\r\n";
    let list = "*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n";
    assert_eq!(
        answered(&mut *talk, &format!("{list}{subscribed}"), 4),
        ["lrange l 0 -1", "subscribe dog cat"]
    );
    assert!(answered(&mut *talk, "*3\r\n$7\r\nmessage\r\n$3\r\ndog\r\n$5\r\nHello\r\n", 100).is_empty());
    assert_eq!(sent(&mut *talk, &command(&["unsubscribe"]), 100), Ok(vec![0]));
    let left =
        "*3\r\n$11\r\nunsubscribe\r\n$3\r\ndog\r\n:1\r\n*3\r\n$11\r\nunsubscribe\r\n$3\r\ncat\r\n:0\r\n";
    assert_eq!(answered(&mut *talk, left, 6), ["unsubscribe"]);
    assert_eq!(sent(&mut *talk, &command(&["set", "dog", "1"]), 100), Ok(vec![0]));
    assert_eq!(lines(talk.close()), ["set dog 1"], "without its answer");
}

#[test]
fn calls_without_answers_are_bounded() {
    let mut talk = talk(&json!({}), true);
    let many = command(&["get", "a"]).repeat(3000);
    assert_eq!(sent(&mut *talk, &many, 1000).unwrap().len(), 3000);
    assert_eq!(answered(&mut *talk, &"+a\r\n".repeat(3000), 1000).len(), 1024);
    assert_eq!(sent(&mut *talk, &command(&["get", "b"]), 100), Ok(vec![0]));
    assert_eq!(answered(&mut *talk, "+a\r\n", 10), ["get b"]);
    assert!(answered(&mut *talk, "+a\r\n", 10).is_empty(), "no command waits");
}
