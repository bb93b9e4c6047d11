//! A plugin runner written from the protocol: what it does with a request is the name of the plugin that it is asked for.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

pub(super) type Pairs = Vec<(String, Option<String>)>;

/// What the gateway sent.
#[derive(Debug, PartialEq)]
pub(super) enum Seen {
    Conf { key: String, conf: Pairs },
    Request { address: Vec<u8>, method: u8, path: String, args: Pairs, headers: Pairs },
    Response { status: u16, headers: Pairs },
    Info(Option<Vec<u8>>),
}

#[derive(Default)]
struct State {
    /// By token, from 1.
    confs: Mutex<Vec<Pairs>>,
    /// The next token is not known.
    forgets: AtomicBool,
    connections: AtomicUsize,
    /// Of them, those that the gateway has not closed.
    open: AtomicUsize,
}

pub(super) struct Runner {
    pub seen: Receiver<Seen>,
    state: Arc<State>,
}

impl Runner {
    pub(super) fn listen(path: &Path) -> Runner {
        let listener = UnixListener::bind(path).expect("a socket");
        let (sender, seen) = channel();
        let state = Arc::new(State::default());
        let theirs = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                theirs.connections.fetch_add(1, Ordering::SeqCst);
                theirs.open.fetch_add(1, Ordering::SeqCst);
                let (state, sender) = (Arc::clone(&theirs), sender.clone());
                thread::spawn(move || {
                    serve(stream, &state, &sender);
                    state.open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Runner { seen, state }
    }

    /// As one that was started again.
    pub(super) fn forget(&self) {
        self.state.forgets.store(true, Ordering::SeqCst);
    }

    pub(super) fn open(&self) -> usize {
        self.state.open.load(Ordering::SeqCst)
    }

    pub(super) fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }
}

fn receive(stream: &mut UnixStream) -> Option<(u8, Vec<u8>)> {
    let mut head = [0; 4];
    stream.read_exact(&mut head).ok()?;
    let mut data = vec![0; u32::from_be_bytes([0, head[1], head[2], head[3]]) as usize];
    stream.read_exact(&mut data).ok()?;
    Some((head[0], data))
}

fn send(stream: &mut UnixStream, kind: u8, data: &[u8]) {
    let length = (data.len() as u32).to_be_bytes();
    let _ = stream.write_all(&[&[kind, length[1], length[2], length[3]], data].concat());
}

fn serve(mut stream: UnixStream, state: &State, seen: &Sender<Seen>) {
    while let Some((kind, data)) = receive(&mut stream) {
        let at = number(&data, 0);
        let answer = match kind {
            1 => {
                let conf = pairs(&data, at, 0);
                let _ = seen.send(Seen::Conf { key: text(&data, at, 1).expect("a key"), conf: conf.clone() });
                let mut confs = state.confs.lock().expect("confs");
                confs.push(conf);
                Some((1, table(&[Part::U32(confs.len() as u32)])))
            }
            2 => {
                let _ = seen.send(Seen::Request {
                    address: bytes(&data, at, 1).expect("an address"),
                    method: field(&data, at, 2).map_or(0, |place| data[place]),
                    path: text(&data, at, 3).expect("a path"),
                    args: pairs(&data, at, 4),
                    headers: pairs(&data, at, 5),
                });
                of_token(state, &data, at, 6, |plugin, value| act(plugin, value, &mut stream, seen))
            }
            4 => {
                let status =
                    field(&data, at, 1).map_or(0, |place| u16::from_le_bytes([data[place], data[place + 1]]));
                let _ = seen.send(Seen::Response { status, headers: pairs(&data, at, 2) });
                of_token(state, &data, at, 3, |plugin, value| change(plugin, value, &mut stream, seen))
            }
            other => panic!("a message of kind {other}"),
        };
        match answer {
            Some((kind, data)) => send(&mut stream, kind, &data),
            None => return,
        }
    }
}

type Answer = Option<(u8, Vec<u8>)>;

fn of_token(
    state: &State,
    data: &[u8],
    at: usize,
    id: usize,
    act: impl FnOnce(&str, &str) -> Answer,
) -> Answer {
    let token = field(data, at, id).map_or(0, |place| number(data, place));
    if state.forgets.swap(false, Ordering::SeqCst) {
        return Some((0, table(&[Part::U8(2)])));
    }
    let first = state.confs.lock().expect("confs").get(token - 1).and_then(|conf| conf.first().cloned());
    let (plugin, value) = first.unwrap_or_default();
    act(&plugin, value.as_deref().unwrap_or_default())
}

fn ask_back(stream: &mut UnixStream, seen: &Sender<Seen>, kind: u8, of: &[Part]) {
    send(stream, 3, &table(&[Part::U8(kind), Part::Table(of)]));
    let (kind, data) = receive(stream).expect("an answer");
    assert_eq!(kind, 3);
    let _ = seen.send(Seen::Info(bytes(&data, number(&data, 0), 0)));
}

/// What becomes of a request.
fn act(plugin: &str, value: &str, stream: &mut UnixStream, seen: &Sender<Seen>) -> Answer {
    let stop = |parts: &[Part]| Some((2, table(&[Part::U32(1), Part::U8(1), Part::Table(parts)])));
    let rewrite = |parts: &[Part]| Some((2, table(&[Part::U32(1), Part::U8(2), Part::Table(parts)])));
    let goes_on = Some((2, table(&[Part::U32(1)])));
    match plugin {
        "stop" => stop(&[
            Part::U16(405),
            Part::Pairs(&[("X-Resp", Some("foo")), ("X-Same", Some("one")), ("X-Same", Some("two"))]),
            Part::Bytes(b"cat"),
        ]),
        "stop-plain" => stop(&[Part::U16(0), Part::None, Part::Bytes(b"cat")]),
        "stop-page" => stop(&[Part::U16(403)]),
        "stop-continue" => stop(&[Part::U16(100)]),
        "rewrite" => rewrite(&[
            Part::Text("/uri/x y?"),
            Part::Pairs(&[
                ("X-Delete", None),
                ("X-Change", Some("new")),
                ("X-Add", Some("added")),
                ("Host", Some("other.test")),
            ]),
            Part::Pairs(&[("a", Some("one")), ("a", Some("two")), ("gone", None)]),
            Part::Pairs(&[
                ("X-Early", Some("1")),
                ("X-Early", Some("2")),
                ("Content-Type", Some("no")),
                ("Server", Some("no")),
            ]),
        ]),
        "rewrite-body" => {
            rewrite(&[Part::None, Part::None, Part::None, Part::None, Part::Bytes(value.as_bytes())])
        }
        "host" => rewrite(&[Part::Text("/host"), Part::Pairs(&[("Host", Some(value))])]),
        "rewrite-path" => rewrite(&[Part::Text(value)]),
        "split" => rewrite(&[Part::Text("/split"), Part::Pairs(&[("X-A", Some("1\r\nX-B: 2"))])]),
        "variable" => {
            ask_back(stream, seen, 1, &[Part::Text(value)]);
            goes_on
        }
        "body" => {
            ask_back(stream, seen, 2, &[]);
            goes_on
        }
        "response" => {
            ask_back(stream, seen, 3, &[]);
            goes_on
        }
        "unknown-info" => {
            send(stream, 3, &table(&[Part::U8(9), Part::Table(&[])]));
            let _ = receive(stream);
            None
        }
        "error" => Some((0, table(&[Part::U8(1)]))),
        "unexpected" => Some((1, table(&[]))),
        "malformed" => Some((2, vec![0xff; 40])),
        "empty" => Some((2, Vec::new())),
        "closes" => None,
        "cut" => {
            let _ = stream.write_all(&[2, 0, 0, 9, 1]);
            None
        }
        "hang" => {
            let _ = receive(stream);
            None
        }
        _ => goes_on,
    }
}

/// What becomes of a response.
fn change(plugin: &str, value: &str, stream: &mut UnixStream, seen: &Sender<Seen>) -> Answer {
    let changed = |parts: &[Part]| Some((4, table(parts)));
    match plugin {
        "change-body" => changed(&[Part::U32(1), Part::None, Part::None, Part::Bytes(value.as_bytes())]),
        "change-headers" => changed(&[
            Part::U32(1),
            Part::None,
            Part::Pairs(&[
                ("X-Runner", Some("kit")),
                ("Content-Type", Some("application/json")),
                ("x-same", Some("one")),
                ("X-Same", Some("two")),
            ]),
        ]),
        "change-status" => changed(&[Part::U32(1), Part::U16(value.parse().expect("a status"))]),
        "read-body" => {
            ask_back(stream, seen, 3, &[]);
            changed(&[Part::U32(1)])
        }
        "error" => Some((0, table(&[Part::U8(0)]))),
        "hang" => {
            let _ = receive(stream);
            None
        }
        _ => changed(&[Part::U32(1)]),
    }
}

enum Part<'a> {
    None,
    U8(u8),
    U16(u16),
    U32(u32),
    Text(&'a str),
    Bytes(&'a [u8]),
    Pairs(&'a [(&'a str, Option<&'a str>)]),
    Table(&'a [Part<'a>]),
}

/// A whole message.
fn table(parts: &[Part]) -> Vec<u8> {
    let mut out = vec![0; 4];
    let at = put(&mut out, parts);
    out[..4].copy_from_slice(&(at as u32).to_le_bytes());
    out
}

/// Every field has four bytes here, whatever it needs; offsets lead ahead.
fn put(out: &mut Vec<u8>, parts: &[Part]) -> usize {
    while !(out.len() + 4 + 2 * parts.len()).is_multiple_of(4) {
        out.push(0);
    }
    let list = out.len();
    out.extend((4 + 2 * parts.len() as u16).to_le_bytes());
    out.extend((4 + 4 * parts.len() as u16).to_le_bytes());
    for (number, part) in parts.iter().enumerate() {
        let offset = if matches!(part, Part::None) { 0 } else { 4 + 4 * number as u16 };
        out.extend(offset.to_le_bytes());
    }
    let at = out.len();
    out.extend(((at - list) as u32).to_le_bytes());
    out.resize(at + 4 + 4 * parts.len(), 0);
    for (number, part) in parts.iter().enumerate() {
        let place = at + 4 + 4 * number;
        match part {
            Part::None => {}
            Part::U8(value) => out[place] = *value,
            Part::U16(value) => out[place..place + 2].copy_from_slice(&value.to_le_bytes()),
            Part::U32(value) => out[place..place + 4].copy_from_slice(&value.to_le_bytes()),
            Part::Table(parts) => {
                let to = put(out, parts);
                point(out, place, to);
            }
            Part::Text(text) => vector(out, place, text.as_bytes()),
            Part::Bytes(list) => vector(out, place, list),
            Part::Pairs(pairs) => {
                let start = out.len();
                point(out, place, start);
                out.extend((pairs.len() as u32).to_le_bytes());
                out.resize(start + 4 + 4 * pairs.len(), 0);
                for (number, (name, value)) in pairs.iter().enumerate() {
                    let value = value.map_or(Part::None, Part::Text);
                    let to = put(out, &[Part::Text(name), value]);
                    point(out, start + 4 + 4 * number, to);
                }
            }
        }
    }
    at
}

fn point(out: &mut [u8], place: usize, to: usize) {
    out[place..place + 4].copy_from_slice(&((to - place) as u32).to_le_bytes());
}

fn vector(out: &mut Vec<u8>, place: usize, bytes: &[u8]) {
    let start = out.len();
    point(out, place, start);
    out.extend((bytes.len() as u32).to_le_bytes());
    out.extend(bytes);
    out.push(0);
    while !out.len().is_multiple_of(4) {
        out.push(0);
    }
}

fn number(data: &[u8], at: usize) -> usize {
    u32::from_le_bytes(data[at..at + 4].try_into().expect("four bytes")) as usize
}

fn field(data: &[u8], at: usize, id: usize) -> Option<usize> {
    let list = at - number(data, at);
    let short = |at: usize| usize::from(u16::from_le_bytes([data[at], data[at + 1]]));
    let entry = 4 + 2 * id;
    (entry < short(list)).then(|| short(list + entry)).filter(|offset| *offset > 0).map(|offset| at + offset)
}

fn bytes(data: &[u8], at: usize, id: usize) -> Option<Vec<u8>> {
    let place = field(data, at, id)?;
    let start = place + number(data, place);
    assert!(start.is_multiple_of(4) || data.len() < 8, "aligned");
    Some(data[start + 4..start + 4 + number(data, start)].to_vec())
}

fn text(data: &[u8], at: usize, id: usize) -> Option<String> {
    bytes(data, at, id).map(|bytes| String::from_utf8(bytes).expect("text"))
}

fn pairs(data: &[u8], at: usize, id: usize) -> Pairs {
    let Some(place) = field(data, at, id) else { return Vec::new() };
    let start = place + number(data, place);
    let entry = |number_of| {
        let place = start + 4 + 4 * number_of;
        let at = place + number(data, place);
        (text(data, at, 0).expect("a name"), text(data, at, 1))
    };
    (0..number(data, start)).map(entry).collect()
}
