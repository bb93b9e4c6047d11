//! The access log: each worker formats lines into its own buffer and hands over 16 KiB at a time.

use crate::log_writer::sink::LogSink;

/// APISIX's `access_log_buffer`.
pub(crate) const DEFAULT_BUFFER_BYTES: usize = 16 * 1024;

/// One worker's access log. Dropping it flushes.
#[derive(Debug)]
pub struct WorkerLog {
    sink: LogSink,
    buffer: Vec<u8>,
    lines: u64,
    limit_bytes: usize,
}

impl WorkerLog {
    /// A buffer of its own, in front of the shared file.
    pub fn new(sink: LogSink) -> Self {
        Self::with_buffer(sink, DEFAULT_BUFFER_BYTES)
    }

    /// A log that hands over once it holds `limit_bytes`; zero hands over every line.
    pub fn with_buffer(sink: LogSink, limit_bytes: usize) -> Self {
        WorkerLog { sink, buffer: Vec::new(), lines: 0, limit_bytes }
    }

    /// Adds a line: `write` appends its text, this adds the line end.
    #[inline]
    pub fn append(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if self.buffer.capacity() == 0 {
            self.buffer.reserve(self.limit_bytes + 1024);
        }
        write(&mut self.buffer);
        self.buffer.push(b'\n');
        self.lines += 1;
        if self.buffer.len() >= self.limit_bytes {
            self.flush();
        }
    }

    /// Hands over what is there. Call on the worker's tick (a second), so quiet servers show their lines.
    pub fn flush(&mut self) {
        if self.lines > 0 {
            self.sink.send(std::mem::take(&mut self.buffer), self.lines);
            self.lines = 0;
        }
    }

    /// Lines lost since start, over all workers that write to the same file.
    pub fn dropped(&self) -> u64 {
        self.sink.dropped()
    }
}

impl Drop for WorkerLog {
    fn drop(&mut self) {
        self.flush();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::log_writer::LogWriter;

    #[test]
    fn hands_over_when_full_on_tick_and_on_drop() {
        let directory = tempfile::tempdir().expect("temp dir");
        let path = directory.path().join("access.log");
        let writer = LogWriter::start().expect("thread starts");
        let mut log = WorkerLog::with_buffer(writer.open(&path).expect("opens"), 10);
        let written = || {
            assert!(writer.drain(Duration::from_secs(10)));
            std::fs::read_to_string(&path).expect("log")
        };
        log.append(|line| line.extend_from_slice(b"first"));
        assert_eq!(written(), "");
        log.append(|line| line.extend_from_slice(b"second"));
        assert_eq!(written(), "first\nsecond\n");
        log.append(|line| line.push(b'3'));
        log.flush();
        assert_eq!(written(), "first\nsecond\n3\n");
        log.append(|line| line.push(b'4'));
        drop(log);
        assert_eq!(written(), "first\nsecond\n3\n4\n");
    }
}
