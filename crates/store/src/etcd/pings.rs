//! Whether a quiet member is there: HTTP/2 PINGs that all gateways send at the same time.
//!
//! What a PING costs etcd is waking up: one that comes alone takes seven times the CPU of one that comes with others. Gateways
//! therefore send theirs in the same tenth of a second, by wall-clock time: when a whole number of intervals has passed since
//! 1970. A gateway whose clock is off sends its PING at another time, which costs etcd more and works as well.
//!
//! The HTTP/2 library has a timer for each connection and cannot be given a time. So they are put between its frames, and
//! whatever arrives afterwards is the answer.

mod frames;

use std::{
    io,
    pin::Pin,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    task::{Context, Poll},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tidegate_model::random::random_fraction;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep_until},
};
use tonic::Status;

use self::frames::Frames;

/// Between two PINGs. etcd allows one each 5 s (`--grpc-keepalive-min-time`) and ends connections with more.
const SECONDS: u64 = 7;
/// After a member called that too many: what servers of gRPC allow by default is one in 5 minutes, `etcd grpc-proxy` among them.
const CALM_SECONDS: u64 = 310;
/// What a member that allows even fewer may make of it.
const MOST_SECONDS: u64 = 3600;
/// A PING less than that after the one before is left out: a clock was set.
const SHORTEST: Duration = Duration::from_secs(6);
/// Over what time the PINGs of all gateways are spread.
const TOGETHER: Duration = Duration::from_millis(100);
/// A connection on which something arrived so recently is not asked. With an interval and the patience, 10 s.
const RECENT: Duration = Duration::from_millis(900);
/// A member that does not respond to a PING for that long is gone.
const PATIENCE: Duration = Duration::from_secs(2);

const FRAME: [u8; 17] = *b"\0\0\x08\x06\0\0\0\0\0tidegate";

/// How often quiet connections are asked, as the members allow it.
pub(super) struct Pings(AtomicU64);

impl Default for Pings {
    fn default() -> Pings {
        Pings(AtomicU64::new(SECONDS))
    }
}

impl Pings {
    /// For one connection.
    pub(super) fn clock(&self) -> Clock {
        Clock {
            interval: Duration::from_secs(self.0.load(Relaxed)),
            offset: TOGETHER.mul_f64(random_fraction()),
        }
    }

    /// Sends fewer once a connection ended because the member calls them too many; says so.
    pub(super) fn heed(&self, status: &Status) -> Option<String> {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(status);
        while let Some(error) = cause {
            let reason = error.downcast_ref::<h2::Error>().and_then(h2::Error::reason);
            if reason == Some(h2::Reason::ENHANCE_YOUR_CALM) {
                let before = self.0.load(Relaxed);
                let since = (before * 2).clamp(CALM_SECONDS, MOST_SECONDS);
                self.0.store(since, Relaxed);
                return Some(format!(
                    "it closes connections with a PING every {before} s; from now on every {since} s"
                ));
            }
            cause = error.source();
        }
        None
    }
}

/// When the PINGs of a connection are due.
#[derive(Clone, Copy)]
pub(super) struct Clock {
    interval: Duration,
    /// Within [`TOGETHER`].
    offset: Duration,
}

impl Clock {
    /// Asks over a connection whose HTTP/2 has not begun yet.
    pub(super) fn over<T>(self, stream: T) -> Pinged<T> {
        let now = Instant::now();
        Pinged {
            stream,
            frames: Frames::of_client(),
            clock: self,
            timer: Box::pin(sleep_until(now + self.next(since_1970()))),
            awaited: false,
            unwritten: &[],
            unflushed: false,
            heard: now,
            asked: None,
        }
    }

    /// From `now`, which counts from 1970, to the next that is due.
    fn next(self, now: Duration) -> Duration {
        let (interval, offset) = (self.interval.as_nanos(), self.offset.as_nanos());
        let past = (now.as_nanos() + interval - offset) % interval;
        Duration::from_nanos(u64::try_from(interval - past).unwrap_or(u64::MAX))
    }
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// A connection whose member is asked when it is quiet. Reading and writing fail once the member does not respond.
pub(super) struct Pinged<T> {
    stream: T,
    frames: Frames,
    clock: Clock,
    /// For the next PING, or for the response to the last.
    timer: Pin<Box<Sleep>>,
    awaited: bool,
    /// What is left to write of a PING.
    unwritten: &'static [u8],
    unflushed: bool,
    /// When something arrived last.
    heard: Instant,
    asked: Option<Instant>,
}

impl<T: AsyncRead + AsyncWrite + Unpin> Pinged<T> {
    /// Asks when it is time to, and fails when the response is overdue. Only after reading: what has arrived is a response.
    fn poll_member(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        while self.timer.as_mut().poll(context).is_ready() {
            if self.awaited {
                let problem = format!("no response to a PING for {} s", PATIENCE.as_secs());
                return Err(io::Error::new(io::ErrorKind::TimedOut, problem));
            }
            let now = Instant::now();
            let soon = self.asked.is_some_and(|asked| now - asked < SHORTEST);
            if soon || now - self.heard < RECENT {
                self.timer.as_mut().reset(now + self.clock.next(since_1970()));
                continue;
            }
            (self.awaited, self.asked) = (true, Some(now));
            if self.unwritten.is_empty() {
                self.unwritten = &FRAME;
            }
            self.timer.as_mut().reset(now + PATIENCE);
        }
        match self.poll_ping(context) {
            Poll::Ready(written) => written,
            Poll::Pending => Ok(()),
        }
    }

    /// Writes a PING where there is a place for it. Pending: a part of it is written, and nothing else may be.
    fn poll_ping(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.unwritten.is_empty() {
            let begun = self.unwritten.len() < FRAME.len();
            if !begun && !self.frames.between() {
                return Poll::Ready(Ok(()));
            }
            let written = match Pin::new(&mut self.stream).poll_write(context, self.unwritten) {
                Poll::Ready(written) => written?,
                Poll::Pending if begun => return Poll::Pending,
                Poll::Pending => return Poll::Ready(Ok(())),
            };
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.unwritten = self.unwritten.get(written..).unwrap_or_default();
            self.unflushed = true;
        }
        if self.unflushed && Pin::new(&mut self.stream).poll_flush(context)?.is_ready() {
            self.unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    fn hear(&mut self) {
        self.heard = Instant::now();
        if self.awaited {
            self.awaited = false;
            self.timer.as_mut().reset(self.heard + self.clock.next(since_1970()));
            if self.unwritten.len() == FRAME.len() {
                self.unwritten = &[];
            }
        }
    }

    /// For what cannot go on: the timer goes on.
    fn waits<R>(&mut self, context: &mut Context<'_>) -> Poll<io::Result<R>> {
        self.poll_member(context)?;
        Poll::Pending
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncRead for Pinged<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = into.filled().len();
        match Pin::new(&mut this.stream).poll_read(context, into) {
            Poll::Ready(read) => {
                if into.filled().len() > before {
                    this.hear();
                }
                Poll::Ready(read)
            }
            Poll::Pending => this.waits(context),
        }
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Pinged<T> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.poll_ping(context)?.is_pending() {
            return this.waits(context);
        }
        match Pin::new(&mut this.stream).poll_write(context, bytes) {
            Poll::Ready(Ok(written)) => {
                this.frames.written(bytes.get(..written).unwrap_or_default());
                Poll::Ready(Ok(written))
            }
            Poll::Ready(failed) => Poll::Ready(failed),
            Poll::Pending => this.waits(context),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.poll_ping(context)?.is_pending() {
            return this.waits(context);
        }
        match Pin::new(&mut this.stream).poll_flush(context) {
            Poll::Ready(flushed) => Poll::Ready(flushed),
            Poll::Pending => this.waits(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
        time::{Instant, sleep, timeout},
    };

    use super::*;

    const PREFACE: [u8; 24] = *b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];

    /// A connection whose member has read the preface.
    async fn begun(room: usize) -> (Pinged<DuplexStream>, DuplexStream) {
        let (near, mut far) = duplex(room);
        let mut connection = Pings::default().clock().over(near);
        connection.write_all(&PREFACE).await.expect("written");
        connection.flush().await.expect("flushed");
        far.read_exact(&mut [0; 24]).await.expect("the preface");
        (connection, far)
    }

    #[tokio::test(start_paused = true)]
    async fn a_quiet_member_is_asked_and_may_answer_with_anything() {
        let (mut connection, mut far) = begun(1024).await;
        let reader = tokio::spawn(async move { connection.read(&mut [0; 64]).await });
        let (start, mut ping) = (Instant::now(), [0; FRAME.len()]);
        far.read_exact(&mut ping).await.expect("a PING");
        assert_eq!(ping, FRAME);
        let longest = Duration::from_secs(SECONDS) + RECENT;
        assert!(start.elapsed() <= longest, "{:?}", start.elapsed());
        far.write_all(&SETTINGS).await.expect("an answer");
        assert_eq!(reader.await.expect("no panic").expect("an answer"), SETTINGS.len());
    }

    #[tokio::test(start_paused = true)]
    async fn a_member_that_does_not_respond_is_gone_within_ten_seconds() {
        let (mut connection, far) = begun(1024).await;
        let start = Instant::now();
        let problem = connection.read(&mut [0; 64]).await.expect_err("no response");
        assert_eq!(problem.kind(), io::ErrorKind::TimedOut);
        assert!(start.elapsed() <= Duration::from_secs(10), "{:?}", start.elapsed());
        drop(far);
    }

    #[tokio::test(start_paused = true)]
    async fn a_member_that_takes_nothing_is_gone_too() {
        // Without room for a frame: nothing may come within it.
        let (mut connection, far) = begun(64).await;
        let mut frame = vec![0, 0, 200, 0, 0, 0, 0, 0, 1];
        frame.resize(209, 7);
        let written = timeout(Duration::from_secs(10), connection.write_all(&frame)).await;
        assert_eq!(written.expect("in time").expect_err("no room").kind(), io::ErrorKind::TimedOut);
        drop(far);
    }

    #[tokio::test(start_paused = true)]
    async fn a_ping_waits_for_the_end_of_a_frame() {
        let (mut connection, mut far) = begun(1024).await;
        let frame = [0, 0, 4, 0, 0, 0, 0, 0, 1, 1, 2, 3, 4];
        let (first, second) = frame.split_at(11);
        connection.write_all(first).await.expect("written");
        let pause = Duration::from_secs(SECONDS) + RECENT;
        // Reading drives the timer.
        let _ = timeout(pause, connection.read(&mut [0; 64])).await;
        connection.write_all(second).await.expect("written");
        connection.flush().await.expect("flushed");
        let mut read = [0; 13 + FRAME.len()];
        far.read_exact(&mut read).await.expect("both");
        assert_eq!(read[..13], frame);
        assert_eq!(read[13..], FRAME);
    }

    #[tokio::test(start_paused = true)]
    async fn what_arrives_saves_questions() {
        let (mut connection, mut far) = begun(1 << 16).await;
        let reader = tokio::spawn(async move {
            let mut bytes = [0; 64];
            while connection.read(&mut bytes).await? > 0 {}
            io::Result::Ok(())
        });
        for _ in 0..60 {
            far.write_all(&SETTINGS).await.expect("written");
            sleep(RECENT / 2).await;
        }
        far.shutdown().await.expect("ended");
        reader.await.expect("no panic").expect("no problem");
        assert_eq!(far.read(&mut [0; 64]).await.expect("an end"), 0);
    }

    #[test]
    fn all_gateways_ask_in_the_same_tenth_of_a_second() {
        let interval = Duration::from_secs(SECONDS);
        for offset in [Duration::ZERO, Duration::from_millis(42), TOGETHER] {
            let clock = Clock { interval, offset };
            for now in [0, 1, 6_999, 7_000, 7_001, 7_050, 1_790_000_123_456] {
                let now = Duration::from_millis(now);
                let wait = clock.next(now);
                assert!(wait > Duration::ZERO && wait <= interval, "{now:?}: {wait:?}");
                let at = (now + wait).as_nanos() % interval.as_nanos();
                assert_eq!(at, offset.as_nanos(), "{now:?}");
            }
        }
    }

    #[test]
    fn a_member_that_wants_fewer_gets_fewer() {
        let pings = Pings::default();
        let calm = h2::Error::from(h2::Reason::ENHANCE_YOUR_CALM);
        let said = pings.heed(&Status::from_error(Box::new(calm))).expect("a reason");
        assert!(said.contains(&format!("every {SECONDS} s; from now on every {CALM_SECONDS} s")), "{said}");
        assert_eq!(pings.0.load(Relaxed), CALM_SECONDS);
        assert_eq!(pings.heed(&Status::from_error(Box::new(h2::Error::from(h2::Reason::NO_ERROR)))), None);
        assert_eq!(pings.0.load(Relaxed), CALM_SECONDS);
    }
}
