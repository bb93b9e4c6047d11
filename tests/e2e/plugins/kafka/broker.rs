//! A Kafka broker with one topic, `events`, written from the public protocol (https://kafka.apache.org/protocol): Metadata 4,
//! ListOffsets 1, Fetch 4, SaslHandshake 1 and SaslAuthenticate 0 with PLAIN.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpListener},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
    thread,
};

use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// Messages of partition 0: `testmsg1` at offset 0, and so on, three to a batch.
pub(super) const MESSAGES: i64 = 30;

#[derive(Clone, Default)]
pub(super) struct Options {
    /// Only these names and passwords may ask.
    pub account: Option<&'static str>,
    pub tls: Option<Arc<ServerConfig>>,
    /// It never answers a fetch.
    pub silent: bool,
}

pub(super) struct Kafka {
    pub address: SocketAddr,
    /// Whether each request for metadata would create topics.
    pub creating: mpsc::Receiver<bool>,
    pub connections: Arc<AtomicUsize>,
    /// As many times it says that it is not the leader.
    pub moves: Arc<AtomicUsize>,
}

impl Kafka {
    pub(super) fn start(options: Options) -> Kafka {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let (created, creating) = mpsc::channel();
        let (moves, connections) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (counted, moved) = (connections.clone(), moves.clone());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                counted.fetch_add(1, SeqCst);
                let session = Session {
                    options: options.clone(),
                    port: address.port(),
                    created: created.clone(),
                    moves: moved.clone(),
                };
                thread::spawn(move || match &session.options.tls {
                    None => session.serve(stream),
                    Some(config) => {
                        let connection = ServerConnection::new(config.clone()).expect("a connection");
                        session.serve(StreamOwned::new(connection, stream));
                    }
                });
            }
        });
        Kafka { address, creating, connections, moves }
    }
}

struct Session {
    options: Options,
    port: u16,
    created: mpsc::Sender<bool>,
    moves: Arc<AtomicUsize>,
}

impl Session {
    fn serve(&self, mut stream: impl Read + Write) {
        let mut knows = self.options.account.is_none();
        while let Ok(request) = frame(&mut stream) {
            let mut request = Fields(&request);
            let (api, version, correlation) = (request.i16(), request.i16(), request.i32());
            request.text();
            let answer = match (api, version) {
                (17, 1) => [0_i16.to_be_bytes().to_vec(), numbers(&[1]), text("PLAIN")].concat(),
                (36, 0) => {
                    let token = request.bytes();
                    knows = self.options.account.is_some_and(|account| account.as_bytes() == token);
                    let code: i16 = if knows { 0 } else { 58 };
                    [code.to_be_bytes().to_vec(), text("who is that"), numbers(&[0])].concat()
                }
                // As brokers do to who has not said who it is.
                _ if !knows => return,
                (3, 4) => self.metadata(&mut request),
                (2, 1) => self.offsets(&mut request),
                (1, 4) if self.options.silent => continue,
                (1, 4) => self.fetched(&mut request),
                other => panic!("request {other:?}"),
            };
            let length = (answer.len() + 4) as i32;
            let whole = [&length.to_be_bytes(), &correlation.to_be_bytes(), answer.as_slice()].concat();
            if stream.write_all(&whole).and_then(|()| stream.flush()).is_err() {
                return;
            }
        }
    }

    fn metadata(&self, request: &mut Fields) -> Vec<u8> {
        assert_eq!(request.i32(), 1);
        let topic = request.text();
        let _ = self.created.send(request.take(1) != [0]);
        let no_name = vec![0xff, 0xff];
        let port = i32::from(self.port);
        // This broker, which is the controller, and one topic.
        let head = [
            numbers(&[0, 1, 7]),
            text("127.0.0.1"),
            numbers(&[port]),
            no_name.clone(),
            no_name,
            numbers(&[7, 1]),
        ];
        let code: i16 = if topic == "events" { 0 } else { 3 };
        let mut answer = [head.concat(), code.to_be_bytes().to_vec(), text(&topic), vec![0]].concat();
        if code != 0 {
            answer.extend(numbers(&[0]));
            return answer;
        }
        // Partition 0 is led by this broker, 1 by one that is not there, 2 by nobody.
        answer.extend(numbers(&[3]));
        for (number, leader) in [(0, 7), (1, 8), (2, -1)] {
            answer.extend([0, 0]);
            answer.extend(numbers(&[number, leader, 1, 7, 1, 7]));
        }
        answer
    }

    /// 6 as long as another broker leads.
    fn code(&self) -> i16 {
        let moved = self.moves.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1));
        if moved.is_ok() { 6 } else { 0 }
    }

    fn offsets(&self, request: &mut Fields) -> Vec<u8> {
        request.take(8);
        let topic = request.text();
        request.take(4);
        let partition = request.i32();
        // Messages are a second apart, the first at 1,000,000.
        let offset = match request.i64() {
            -1 => MESSAGES,
            -2 => 0,
            time => {
                let later = (time - 1_000_000).max(0);
                let offset = later / 1000 + i64::from(later % 1000 > 0);
                if offset < MESSAGES { offset } else { -1 }
            }
        };
        let place = [numbers(&[1]), text(&topic), numbers(&[1, partition])].concat();
        [place, self.code().to_be_bytes().to_vec(), numbers64(&[-1, offset])].concat()
    }

    fn fetched(&self, request: &mut Fields) -> Vec<u8> {
        request.take(4 + 4 + 4 + 4 + 1 + 4);
        let topic = request.text();
        request.take(4);
        let partition = request.i32();
        let offset = request.i64();
        let code = match self.code() {
            0 if offset > MESSAGES => 1,
            code => code,
        };
        // From the batch with the message on, two batches at most.
        let first = offset - offset % 3;
        let firsts = [first, first + 3].into_iter().filter(|first| code == 0 && *first < MESSAGES);
        let batches: Vec<u8> = firsts.flat_map(batch).collect();
        let place = [numbers(&[0, 1]), text(&topic), numbers(&[1, partition])].concat();
        let facts = [code.to_be_bytes().to_vec(), numbers64(&[MESSAGES, MESSAGES]), numbers(&[-1])].concat();
        [place, facts, numbers(&[batches.len() as i32]), batches].concat()
    }
}

/// Three records in format 2.
fn batch(first: i64) -> Vec<u8> {
    let mut records = Vec::new();
    for further in 0..3_u8 {
        let value = format!("testmsg{}", first + i64::from(further) + 1);
        // Zigzag: small numbers twice. No attributes; milliseconds later, and the offset; no key; no headers.
        let later = u16::from(further) * 2000;
        let time = if later < 128 { vec![later as u8] } else { vec![later as u8 | 0x80, (later >> 7) as u8] };
        let body = [vec![0], time, vec![further * 2, 1, value.len() as u8 * 2], value.into_bytes(), vec![0]]
            .concat();
        records.push(body.len() as u8 * 2);
        records.extend(body);
    }
    let time = 1_000_000 + first * 1000;
    let facts =
        [vec![0, 0], numbers(&[2]), numbers64(&[time, time + 2000, -1]), vec![0xff, 0xff], numbers(&[-1, 3])];
    let covered = [facts.concat(), records].concat();
    let sum = crc32c(&covered).to_be_bytes().to_vec();
    [numbers64(&[first]), numbers(&[covered.len() as i32 + 9, -1]), vec![2], sum, covered].concat()
}

fn crc32c(data: &[u8]) -> u32 {
    let bit = |sum: u32| if sum & 1 == 1 { sum >> 1 ^ 0x82f6_3b78 } else { sum >> 1 };
    !data.iter().fold(!0, |sum, byte| (0..8).fold(sum ^ u32::from(*byte), |sum, _| bit(sum)))
}

fn numbers(numbers: &[i32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_be_bytes()).collect()
}

fn numbers64(numbers: &[i64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_be_bytes()).collect()
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as i16).to_be_bytes()[..], text.as_bytes()].concat()
}

fn frame(stream: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut frame = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut frame)?;
    Ok(frame)
}

/// What is left of a request.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(length);
        self.0 = rest;
        taken
    }

    fn i16(&mut self) -> i16 {
        i16::from_be_bytes(self.take(2).try_into().expect("two bytes"))
    }

    fn i32(&mut self) -> i32 {
        i32::from_be_bytes(self.take(4).try_into().expect("four bytes"))
    }

    fn i64(&mut self) -> i64 {
        i64::from_be_bytes(self.take(8).try_into().expect("eight bytes"))
    }

    fn text(&mut self) -> String {
        let length = usize::try_from(self.i16()).unwrap_or(0);
        String::from_utf8_lossy(self.take(length)).into_owned()
    }

    fn bytes(&mut self) -> &'a [u8] {
        let length = usize::try_from(self.i32()).unwrap_or(0);
        self.take(length)
    }
}
