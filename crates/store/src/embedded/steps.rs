//! Large files that become durable while they are written.

use std::{
    fs::File,
    io::{self, Write},
};

use tidegate_telemetry::background::give_way;

/// So much is made durable at a time. All of it at the end would be a kernel section of milliseconds, and other files' commits on the same
/// disk (the store's) would have to wait for all of it.
const DURABLE_AT_ONCE: usize = 512 * 1024;

/// A writer to a regular file. What it has written last is not durable yet when it is done.
#[derive(Debug)]
pub struct InSteps<'file> {
    file: &'file File,
    /// Bytes that need not be on disk.
    pending: usize,
}

impl<'file> InSteps<'file> {
    /// Goes on where the file is.
    pub fn new(file: &'file File) -> InSteps<'file> {
        InSteps { file, pending: 0 }
    }
}

impl Write for InSteps<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.pending += written;
        if self.pending >= DURABLE_AT_ONCE {
            self.pending = 0;
            give_way();
            self.file.sync_data()?;
            give_way();
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
