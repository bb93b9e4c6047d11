//! A body that lies in a file. On a plain connection its pages go from the kernel's cache to the socket (sendfile); under
//! TLS, in HTTP/2 and through body filters they are read in pieces.
//!
//! The worker first asks whether the pages are in memory; if they are not, the disk threads read them.

use std::{
    collections::VecDeque,
    fs::File,
    future::Future,
    io,
    os::unix::fs::FileExt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use tidegate_plugin_api::{
    FileBody, disk,
    file_body::{Part, Residence, fetch},
};
use tidegate_telemetry::error_log;

use crate::{
    answer::{
        body::{Body, End, Step},
        writer::Writer,
    },
    buffer,
};

/// Sent from the page cache before others get their turn.
const WINDOW_BYTES: u64 = 512 * 1024;
/// Read at once where the bytes must pass through this process.
const PIECE_BYTES: usize = 64 * 1024;
/// Between two tries to get a place in the queue of the disk threads.
const QUEUE_WAIT: Duration = Duration::from_millis(5);

/// The work of the disk threads for it.
type Job = Pin<Box<dyn Future<Output = io::Result<Vec<u8>>>>>;

pub(super) struct InFile {
    file: Arc<File>,
    residence: Residence,
    /// The parts still to be sent; one that has begun is shorter.
    parts: VecDeque<Part>,
    job: Option<Job>,
    /// The bytes that the last job has read.
    fetched: Vec<u8>,
    /// The pages before this offset are in memory: they may be sent.
    resident_to: u64,
    /// No filter sees the body, and the connection takes pages.
    is_direct: bool,
    /// Time limit of the disk: the same as for a client to take something.
    patience_ms: u64,
}

/// The result of looking at the first part.
enum Look {
    Step(Step),
    /// The disk threads have to read first.
    Job(Job),
}

impl Body for InFile {
    /// A body at hand is also sent to a client that has ended its side.
    const FOLLOWS_CLIENT: bool = false;

    fn limit_ms(&self) -> Option<u64> {
        None
    }

    fn sends_itself(&self) -> bool {
        self.is_direct && matches!(self.parts.front(), Some(Part::File { .. }))
    }

    fn poll_piece(
        &mut self,
        context: &mut Context<'_>,
        writer: &mut Writer<'_>,
        room: usize,
    ) -> Result<Step, End> {
        loop {
            if let Some(job) = &mut self.job {
                let Poll::Ready(done) = job.as_mut().poll(context) else { return Ok(Step::WaitsForBody) };
                self.job = None;
                self.fetched = done.map_err(|error| unreadable(writer, &error))?;
            }
            match self.send_next_part(context, writer, room)? {
                Look::Step(step) => return Ok(step),
                Look::Job(job) => self.job = Some(job),
            }
        }
    }
}

impl InFile {
    /// `is_direct`: the client's connection takes pages of files, framed as they are, without filters.
    pub(super) fn new(body: FileBody, is_direct: bool, patience_ms: u64) -> InFile {
        let FileBody { file, residence, parts } = body;
        InFile {
            file,
            residence,
            parts: parts.into_iter().filter(|part| part.length() > 0).collect(),
            job: None,
            fetched: Vec::new(),
            resident_to: 0,
            is_direct,
            patience_ms,
        }
    }

    fn send_next_part(
        &mut self,
        context: &mut Context<'_>,
        writer: &mut Writer<'_>,
        room: usize,
    ) -> Result<Look, End> {
        let most = room.min(writer.step()).min(PIECE_BYTES);
        match self.parts.front_mut() {
            None => writer.pass(&[], true)?,
            Some(Part::Bytes(bytes)) => {
                let piece = bytes.split_to(bytes.len().min(most));
                self.pass(writer, &piece)?;
                if writer.is_filtered() {
                    return Ok(Look::Step(Step::Rests));
                }
            }
            Some(&mut Part::File { offset, length }) => {
                let here = Range { at: offset, length };
                return match self.is_direct && !writer.head_waits() {
                    true => self.send_pages(context, writer, here),
                    false => self.pass_piece(writer, here, most),
                };
            }
        }
        Ok(Look::Step(Step::Moved))
    }

    /// Pages straight from the kernel's cache.
    fn send_pages(
        &mut self,
        context: &mut Context<'_>,
        writer: &mut Writer<'_>,
        Range { at, length }: Range,
    ) -> Result<Look, End> {
        if !writer.is_flushed() {
            return Ok(Look::Step(Step::WaitsForClient));
        }
        if self.resident_to <= at {
            let window = length.min(WINDOW_BYTES);
            self.resident_to = at.saturating_add(window);
            if !self.residence.is_resident(&self.file, at, window) {
                let file = self.file.clone();
                let read = move || fetch(&file, at, window).map(|()| Vec::new());
                return Ok(Look::Job(on_disk_threads(self.patience_ms, read)));
            }
        }
        let count = usize::try_from(length.min(self.resident_to - at)).unwrap_or(usize::MAX);
        let sent = match writer.client.poll_send_file(context, &self.file, at, count) {
            Poll::Pending => return Ok(Look::Step(Step::WaitsForClient)),
            Poll::Ready(Ok(0)) => return Err(unreadable(writer, &io::ErrorKind::UnexpectedEof.into())),
            Poll::Ready(Ok(sent)) => sent,
            // sendfile reads and writes: an error of the disk is not the client's fault.
            Poll::Ready(Err(error)) if error.raw_os_error() == Some(libc::EIO) => {
                return Err(unreadable(writer, &error));
            }
            Poll::Ready(Err(_)) => return Err(End::Client),
        };
        writer.count(sent);
        self.advance(sent);
        let window_is_sent = at.saturating_add(sent as u64) == self.resident_to;
        self.pop_if_done();
        if self.parts.is_empty() {
            writer.pass(&[], true)?;
            return Ok(Look::Step(Step::Moved));
        }
        Ok(Look::Step(if window_is_sent { Step::Rests } else { Step::Moved }))
    }

    /// A piece that passes through this process.
    fn pass_piece(
        &mut self,
        writer: &mut Writer<'_>,
        Range { at, length }: Range,
        most: usize,
    ) -> Result<Look, End> {
        let fetched = std::mem::take(&mut self.fetched);
        if !fetched.is_empty() {
            self.advance(fetched.len());
            self.pass(writer, &fetched)?;
            return Ok(Look::Step(Step::Rests));
        }
        let wanted = usize::try_from(length).unwrap_or(usize::MAX).min(most);
        let client = writer.client;
        let buffers = &client.worker.buffers;
        // It is not held while waiting for the client.
        let mut input = buffers.large();
        let piece = input.room(buffer::LARGE).get_mut(..wanted).unwrap_or_default();
        match self.residence.read(&self.file, piece, at) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                buffers.give_back(input);
                let file = self.file.clone();
                let read = move || read_from_disk(&file, at, wanted);
                return Ok(Look::Job(on_disk_threads(self.patience_ms, read)));
            }
            Ok(0) => return Err(unreadable(writer, &io::ErrorKind::UnexpectedEof.into())),
            Ok(count) => {
                input.received(count);
                self.advance(count);
            }
            Err(error) => return Err(unreadable(writer, &error)),
        }
        self.pass(writer, input.filled())?;
        buffers.give_back(input);
        Ok(Look::Step(Step::Rests))
    }

    /// Passes bytes of the first part that are gone from it.
    fn pass(&mut self, writer: &mut Writer<'_>, data: &[u8]) -> Result<(), End> {
        self.pop_if_done();
        writer.pass(data, self.parts.is_empty())
    }

    /// Bytes of the first part have been read or sent.
    fn advance(&mut self, count: usize) {
        if let Some(Part::File { offset, length }) = self.parts.front_mut() {
            *offset += count as u64;
            *length = length.saturating_sub(count as u64);
        }
    }

    fn pop_if_done(&mut self) {
        if self.parts.front().is_some_and(|part| part.length() == 0) {
            self.parts.pop_front();
            // The next part may be before this one.
            self.resident_to = 0;
        }
    }
}

/// The position of the first part.
struct Range {
    at: u64,
    length: u64,
}

/// The answer is cut, or replaced where nothing of it is out.
fn unreadable(writer: &Writer<'_>, error: &io::Error) -> End {
    error_log::log(
        error_log::Level::Error,
        format_args!(
            "response truncated, cannot read its file: {error}, client: {}",
            writer.client.facts.peer
        ),
    );
    End::Broken(500)
}

/// Waits for the disk if it has to.
fn read_from_disk(file: &File, at: u64, wanted: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; wanted];
    let count = file.read_at(&mut bytes, at)?;
    if count == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    bytes.truncate(count);
    Ok(bytes)
}

/// While the queue of the disk threads is full, the client waits as for a slow disk.
fn on_disk_threads(
    patience_ms: u64,
    job: impl FnOnce() -> io::Result<Vec<u8>> + Clone + Send + 'static,
) -> Job {
    Box::pin(async move {
        let (patience, started) = (Duration::from_millis(patience_ms), Instant::now());
        while started.elapsed() <= patience {
            match disk::run(job.clone()) {
                Ok(result) => {
                    return result.await.unwrap_or_else(|| Err(io::Error::other("reading panicked")));
                }
                Err(disk::Full) => tokio::time::sleep(QUEUE_WAIT).await,
            }
        }
        Err(io::Error::other("the queue of the disk threads is full"))
    })
}
