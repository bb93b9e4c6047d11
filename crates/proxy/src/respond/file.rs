//! Answers whose body lies in a file. On a plain connection its pages go from the kernel's cache to the socket
//! (sendfile); under TLS, in HTTP/2 and through body filters they are read in pieces.
//!
//! The worker asks first whether the pages are there; if they are not, the disk threads bring them.

use std::{
    fs::File,
    future::poll_fn,
    io,
    os::unix::fs::FileExt,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use tidegate_plugin_api::{
    BodyChunk, FileBody, Request, disk,
    file_body::{Part, Residence, fetch},
};
use tidegate_protocol::{BodyLength, Head, Method, chunked};
use tidegate_telemetry::error_log;

use super::DRAINED_BODY_BYTES;
use crate::{
    answer::head::{self, AnswerHead, ClientFraming},
    buffer,
    client::Client,
    filters, http2,
    phases::{Chains, Passed},
    read_ahead::ReadAhead,
    request::client_persists,
};

/// Sent from the page cache before others get their turn.
const WINDOW_BYTES: u64 = 512 * 1024;
/// Read at once where the bytes must pass through this process.
const PIECE_BYTES: usize = 64 * 1024;
/// Between two tries to get a place in the queue of the disk threads.
const QUEUE_WAIT: Duration = Duration::from_millis(5);

/// Why a body is not whole.
enum Broken {
    /// The client is gone, or too slow.
    Client,
    File(io::Error),
    /// A body filter lets nothing of it through: the status of the page that takes its place.
    Refused(u16),
}

struct Sender<'a> {
    request: &'a mut Request,
    client: &'a Client,
    chains: &'a Chains,
    framing: ClientFraming,
    filtered: bool,
    /// The head goes out with the first byte of the body.
    head_waits: bool,
    /// For the client; nothing of it is gone yet.
    out: Vec<u8>,
    ahead: ReadAhead,
    body_bytes: u64,
}

/// Sends an answer whose head is in `request.response`. Returns whether the connection may go on.
pub async fn send(request: &mut Request, client: &Client, chains: &Chains, body: FileBody) -> bool {
    if let Err(status) = filters::header_filter(request, client, chains) {
        return super::instead(request, client, status).await;
    }
    let length = body.length();
    let framing = head::framing(request, BodyLength::Fixed(length));
    let response = &mut request.response;
    if request.head.method == Method::Head
        && !response.body_changed
        && !response.headers.contains("Content-Length")
    {
        response.headers.set("Content-Length", length.to_string());
    }
    let http2 = client.is_http2();
    let mut keep = http2
        || (client_persists(request, client)
            && framing != ClientFraming::Close
            && (client.body_ended() || !client.expects_continue()));
    if keep && !http2 && !client.body_ended() {
        keep = client.drain_body(DRAINED_BODY_BYTES).await;
    }
    let mut out = client.worker.buffers.output();
    let bodiless = framing == ClientFraming::Bodiless;
    let head_waits = request.response.head_waits && !bodiless;
    client.answering.set(!head_waits);
    let head_bytes = if http2 {
        if !head_waits {
            // A client that is gone shows when its body is sent.
            let _ = http2::reply::send_head(request, client, framing, bodiless);
        }
        http2::reply::head_bytes(request)
    } else {
        AnswerHead::new(request, client.worker, framing, keep).write_http1(&mut out);
        out.len() as u64
    };
    let filtered = chains.has_body_filter();
    let ahead = ReadAhead::new(client.held_by_connection());
    let mut sender =
        Sender { request, client, chains, framing, filtered, head_waits, out, ahead, body_bytes: 0 };
    let result = if bodiless { sender.flush(true).await } else { sender.body(body).await };
    let Sender { out, body_bytes, head_waits, .. } = sender;
    client.worker.buffers.give_back_output(out);
    if let (Err(Broken::Refused(status)), true) = (&result, head_waits) {
        return super::instead(request, client, *status).await;
    }
    request.outcome.body_bytes_sent = body_bytes;
    request.outcome.bytes_sent = body_bytes + head_bytes;
    if let Err(broken) = result {
        client.give_up();
        match broken {
            Broken::Client => client.gone.set(true),
            Broken::Refused(_) => {}
            Broken::File(error) => error_log::log(
                error_log::Level::Error,
                format_args!(
                    "an answer is cut, its file cannot be read: {error}, client: {}",
                    client.facts.peer
                ),
            ),
        }
        return false;
    }
    keep
}

impl Sender<'_> {
    async fn body(&mut self, body: FileBody) -> Result<(), Broken> {
        let FileBody { file, residence, parts } = body;
        let framed = matches!(self.framing, ClientFraming::Length(_) | ClientFraming::Close);
        let direct = framed && !self.filtered && self.client.sends_files();
        let mut parts = parts.into_iter().peekable();
        while let Some(part) = parts.next() {
            let ends = parts.peek().is_none();
            match part {
                Part::Bytes(bytes) => self.pass(&bytes, ends).await?,
                Part::File { length: 0, .. } => self.pass(&[], ends).await?,
                Part::File { offset, length } if direct => {
                    self.flush_more().await?;
                    self.page_cache(&file, residence, offset, length).await?;
                }
                Part::File { offset, length } => {
                    self.in_pieces(&file, residence, offset, length, ends).await?;
                }
            }
        }
        self.flush(true).await
    }

    /// Pages straight from the kernel's cache.
    async fn page_cache(
        &mut self,
        file: &Arc<File>,
        residence: Residence,
        offset: u64,
        length: u64,
    ) -> Result<(), Broken> {
        let (mut at, end) = (offset, offset.saturating_add(length));
        while at < end {
            let window_end = end.min(at.saturating_add(WINDOW_BYTES));
            if !residence.is_resident(file, at, window_end - at) {
                let (file, length) = (file.clone(), window_end - at);
                self.on_disk_threads(move || fetch(&file, at, length)).await?;
            }
            while at < window_end {
                let count = usize::try_from(window_end - at).unwrap_or(usize::MAX);
                let client = self.client;
                let sent = taken(client, |context| client.poll_send_file(context, file, at, count)).await?;
                if sent == 0 {
                    return Err(Broken::File(io::ErrorKind::UnexpectedEof.into()));
                }
                at += sent as u64;
                self.body_bytes += sent as u64;
            }
            if at < end {
                tokio::task::yield_now().await;
            }
        }
        Ok(())
    }

    async fn in_pieces(
        &mut self,
        file: &Arc<File>,
        residence: Residence,
        offset: u64,
        length: u64,
        last: bool,
    ) -> Result<(), Broken> {
        let (mut at, end) = (offset, offset.saturating_add(length));
        while at < end {
            let most = if self.head_waits { PIECE_BYTES } else { self.ahead.step().min(PIECE_BYTES) };
            let wanted = usize::try_from(end - at).unwrap_or(usize::MAX).min(most);
            // Nobody holds it while the client is waited for.
            let mut input = self.client.worker.buffers.large();
            let piece = input.room(buffer::LARGE).get_mut(..wanted).unwrap_or_default();
            let count = match residence.read(file, piece, at) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let file = file.clone();
                    let read = self.on_disk_threads(move || {
                        let mut bytes = vec![0; wanted];
                        let count = file.read_at(&mut bytes, at)?;
                        bytes.truncate(count);
                        Ok(bytes)
                    });
                    let bytes = read.await?;
                    piece.get_mut(..bytes.len()).unwrap_or_default().copy_from_slice(&bytes);
                    bytes.len()
                }
                other => other.map_err(Broken::File)?,
            };
            if count == 0 {
                return Err(Broken::File(io::ErrorKind::UnexpectedEof.into()));
            }
            at += count as u64;
            let ends = last && at >= end;
            input.received(count);
            self.pass(input.filled(), ends).await?;
            self.client.worker.buffers.give_back(input);
            if !ends {
                self.flush(false).await?;
                tokio::task::yield_now().await;
            }
        }
        Ok(())
    }

    /// Waits for a job of the disk threads. While their queue is full, the client waits as for a slow disk.
    async fn on_disk_threads<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> io::Result<T> + Clone + Send + 'static,
    ) -> Result<T, Broken> {
        let patience = Duration::from_millis(self.client.worker.settings.send_timeout_ms);
        let started = Instant::now();
        while started.elapsed() <= patience {
            match disk::run(job.clone()) {
                Ok(result) => {
                    let gone = || Err(io::Error::other("reading panicked"));
                    return result.await.unwrap_or_else(gone).map_err(Broken::File);
                }
                Err(disk::Full) => tokio::time::sleep(QUEUE_WAIT).await,
            }
        }
        Err(Broken::File(io::Error::other("the queue of the disk threads is full")))
    }

    /// Body bytes through the filters into `out`.
    async fn pass(&mut self, data: &[u8], last: bool) -> Result<(), Broken> {
        if !self.filtered {
            self.frame(data, last);
            return Ok(());
        }
        let step = self.request.response.body_step();
        match self.pass_from(0, data, last, step).await? {
            None => Ok(()),
            Some(maker) => Box::pin(self.remade(maker)).await,
        }
    }

    /// Through the filters from one on. `Some`: the filter at this place has the whole body.
    async fn pass_from(
        &mut self,
        from: usize,
        data: &[u8],
        last: bool,
        step: usize,
    ) -> Result<Option<usize>, Broken> {
        let mut rest = data;
        loop {
            let (piece, after) = rest.split_at(rest.len().min(step));
            rest = after;
            let mut chunk = BodyChunk::new(piece.to_vec(), last && rest.is_empty());
            match self.chains.body_filter(self.request, &mut chunk, from) {
                Passed::Through => self.frame(&chunk.data, chunk.last),
                Passed::Waits(maker) => return Ok(Some(maker)),
                Passed::Refused(status) => return Err(Broken::Refused(status)),
            }
            if rest.is_empty() {
                return Ok(None);
            }
            if from > 0 {
                self.flush(false).await?;
            }
            tokio::task::yield_now().await;
        }
    }

    /// The bodies that filters rebuild, one after the other.
    async fn remade(&mut self, mut maker: usize) -> Result<(), Broken> {
        loop {
            let body = self.chains.whole_body(self.request, maker).await.map_err(Broken::Refused)?;
            let step = self.request.response.body_step().min(PIECE_BYTES);
            match self.pass_from(maker + 1, &body, true, step).await? {
                None => return Ok(()),
                Some(next) => maker = next,
            }
        }
    }

    fn frame(&mut self, data: &[u8], last: bool) {
        if self.head_waits && (last || !data.is_empty()) {
            self.head_waits = false;
            self.client.answering.set(true);
            if self.client.is_http2() {
                let _ = http2::reply::send_head(self.request, self.client, self.framing, false);
            }
        }
        match self.framing {
            ClientFraming::Bodiless => return,
            ClientFraming::Length(_) | ClientFraming::Close | ClientFraming::Frames => {
                self.out.extend_from_slice(data)
            }
            ClientFraming::Chunked => {
                chunked::write_chunk(&mut self.out, data);
                if last {
                    chunked::write_end(&mut self.out, &Head::new());
                }
            }
        }
        self.body_bytes += data.len() as u64;
    }

    /// What file pages follow at once: the kernel sends both in one packet if they fit.
    async fn flush_more(&mut self) -> Result<(), Broken> {
        let (client, mut sent) = (self.client, 0);
        while let Some(rest) = self.out.get(sent..).filter(|rest| !rest.is_empty()) {
            sent += taken(client, |context| client.poll_send_more(context, rest)).await?;
        }
        self.out.clear();
        Ok(())
    }

    async fn flush(&mut self, last: bool) -> Result<(), Broken> {
        if self.head_waits {
            return Ok(());
        }
        let (client, mut sent) = (self.client, 0);
        let (held, ahead) = (self.out.capacity(), &mut self.ahead);
        while let Some(rest) = self.out.get(sent..).filter(|rest| !rest.is_empty()) {
            let send = |context: &mut Context<'_>| {
                let taken = client.poll_send(context, rest, last);
                if taken.is_pending() {
                    ahead.stalls(held);
                }
                taken
            };
            let count = taken(client, send).await?;
            if count == 0 {
                return Err(Broken::Client);
            }
            sent += count;
        }
        if sent > 0 {
            ahead.flows();
        }
        self.out.clear();
        if !last {
            return Ok(());
        }
        if client.is_http2() {
            return client.with_http2(|stream| stream.end(None)).map_err(|_| Broken::Client);
        }
        // TLS may hold back records.
        client.write(&[]).await.map_err(|()| Broken::Client)
    }
}

/// Sends once, within the time that a client has to take something.
async fn taken(
    client: &Client,
    mut send: impl FnMut(&mut Context<'_>) -> Poll<io::Result<usize>>,
) -> Result<usize, Broken> {
    client.timer.set(client.worker.settings.send_timeout_ms);
    let sent = poll_fn(|context| match send(context) {
        Poll::Pending if client.timer.expired() => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
        other => other,
    });
    match sent.await {
        Ok(count) => Ok(count),
        // sendfile reads and writes: an error of the disk is not the client's fault.
        Err(error) if error.raw_os_error() == Some(libc::EIO) => Err(Broken::File(error)),
        Err(_) => Err(Broken::Client),
    }
}
