//! A Kafka broker that knows one topic: it names itself as the leader, lets anyone log in, and keeps what is produced.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
    time::Duration,
};

use tidegate_testkit::PATIENCE;

/// Before leaders are looked up again by default.
pub(in crate::plugins::loggers) const SOON: Duration = Duration::from_secs(20);

pub(in crate::plugins::loggers) struct Message {
    pub topic: String,
    pub acks: i16,
    pub key: Option<String>,
    pub value: String,
}

pub(in crate::plugins::loggers) struct Broker {
    pub address: SocketAddr,
    messages: mpsc::Receiver<Message>,
    logins: mpsc::Receiver<String>,
    /// Requests for the leaders of the topic.
    asked: Arc<AtomicUsize>,
}

impl Broker {
    pub(in crate::plugins::loggers) fn start() -> Broker {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let ((sender, messages), (login, logins)) = (mpsc::channel(), mpsc::channel());
        let asked = Arc::new(AtomicUsize::new(0));
        let count = asked.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let session = Session {
                    port: address.port(),
                    messages: sender.clone(),
                    logins: login.clone(),
                    asked: count.clone(),
                };
                std::thread::spawn(move || session.serve(stream));
            }
        });
        Broker { address, messages, logins, asked }
    }

    pub(in crate::plugins::loggers) fn message(&self) -> Message {
        self.messages.recv_timeout(PATIENCE).expect("a message")
    }

    /// How often it was asked who leads the topic.
    pub(in crate::plugins::loggers) fn asked(&self) -> usize {
        self.asked.load(SeqCst)
    }

    /// Hands each value on from now.
    pub(in crate::plugins::loggers) fn each(self, mut take: impl FnMut(&str) + Send + 'static) {
        std::thread::spawn(move || self.messages.iter().for_each(|message| take(&message.value)));
    }

    /// What a client proved who it is with.
    pub(in crate::plugins::loggers) fn login(&self) -> String {
        self.logins.recv_timeout(PATIENCE).expect("a login")
    }
}

struct Session {
    port: u16,
    messages: mpsc::Sender<Message>,
    logins: mpsc::Sender<String>,
    asked: Arc<AtomicUsize>,
}

impl Session {
    /// Until the client leaves.
    fn serve(&self, mut stream: TcpStream) {
        while let Ok(request) = frame(&mut stream) {
            let mut request = Fields(&request);
            let (api, _, correlation) = (request.i16(), request.i16(), request.i32());
            request.text();
            let Some(answer) = self.answer(api, &mut request) else { continue };
            let length = (answer.len() + 4) as i32;
            let whole = [&length.to_be_bytes(), &correlation.to_be_bytes(), answer.as_slice()].concat();
            if stream.write_all(&whole).is_err() {
                return;
            }
        }
    }

    /// `None` where the client wants no answer.
    fn answer(&self, api: i16, request: &mut Fields) -> Option<Vec<u8>> {
        let mut answer = Vec::new();
        match api {
            0 => {
                let acks = self.produced(request);
                let topic = [&1_i32.to_be_bytes()[..], &text("errors"), &1_i32.to_be_bytes()].concat();
                // Partition 0, no error, offset and time, not throttled.
                answer.extend([topic, vec![0; 4 + 2 + 16 + 4]].concat());
                return (acks != 0).then_some(answer);
            }
            3 => {
                self.asked.fetch_add(1, SeqCst);
                request.i32();
                let topic = request.text();
                let numbers =
                    |numbers: &[i32]| numbers.iter().flat_map(|n| n.to_be_bytes()).collect::<Vec<u8>>();
                // One broker without a rack, which is the controller.
                answer.extend(numbers(&[0, 1, 7]));
                answer.extend(text("127.0.0.1"));
                answer.extend(numbers(&[i32::from(self.port)]));
                // Neither a rack nor a name of the cluster.
                answer.extend([0xff; 4]);
                // One topic with one partition, which it leads.
                answer.extend(numbers(&[7, 1]));
                answer.extend([0, 0]);
                answer.extend(text(&topic));
                answer.push(0);
                answer.extend(numbers(&[1]));
                answer.extend([0, 0]);
                answer.extend(numbers(&[0, 7, 1, 7, 1, 7]));
            }
            17 => {
                answer.extend(0_i16.to_be_bytes());
                answer.extend(1_i32.to_be_bytes());
                answer.extend(text("PLAIN"));
            }
            36 => {
                let token = request.bytes();
                let _ = self.logins.send(String::from_utf8_lossy(token).into_owned());
                answer.extend([0, 0, 0xff, 0xff, 0, 0, 0, 0]);
            }
            other => panic!("request {other}"),
        }
        Some(answer)
    }

    /// Keeps the record of a batch (format 2); returns the acknowledgements that the client wants.
    fn produced(&self, request: &mut Fields) -> i16 {
        request.text();
        let acks = request.i16();
        request.take(4 + 4);
        let topic = request.text();
        request.take(4 + 4);
        let mut batch = Fields(request.bytes());
        // Up to the count of records; then length, attributes, and the offsets of time and place.
        batch.take(61);
        batch.varint();
        batch.take(1);
        batch.varint();
        batch.varint();
        let (key, value) = (batch.varbytes(), batch.varbytes().expect("a value"));
        let _ = self.messages.send(Message { topic, acks, key, value });
        acks
    }
}

fn frame(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut frame = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut frame)?;
    Ok(frame)
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as i16).to_be_bytes()[..], text.as_bytes()].concat()
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

    /// Empty where there is none.
    fn text(&mut self) -> String {
        let length = usize::try_from(self.i16()).unwrap_or(0);
        String::from_utf8_lossy(self.take(length)).into_owned()
    }

    fn bytes(&mut self) -> &'a [u8] {
        let length = usize::try_from(self.i32()).unwrap_or(0);
        self.take(length)
    }

    /// Zigzag.
    fn varint(&mut self) -> i64 {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)[0];
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
        (value >> 1) as i64 ^ -((value & 1) as i64)
    }

    fn varbytes(&mut self) -> Option<String> {
        let length = usize::try_from(self.varint()).ok()?;
        Some(String::from_utf8_lossy(self.take(length)).into_owned())
    }
}
