//! `NAME.tar.gz` of one file, streamed: log files may be larger than memory.

use std::{
    fs::File,
    io::{self, Read, Write},
    path::Path,
    time::UNIX_EPOCH,
};

use flate2::{Compression, write::GzEncoder};
use tidegate_telemetry::error_log::{self, Level};

const BLOCK: usize = 512;

/// Replaces the file by its archive; keeps it when that fails.
pub(crate) fn compress(path: &Path) {
    let mut target = path.as_os_str().to_owned();
    target.push(".tar.gz");
    let result = write(path, Path::new(&target)).and_then(|()| std::fs::remove_file(path));
    if let Err(error) = result {
        error_log::log(Level::Error, format_args!("compress log file {} failed: {error}", path.display()));
    }
}

fn write(path: &Path, target: &Path) -> io::Result<()> {
    let mut file = File::open(path)?;
    let data = file.metadata()?;
    let modified = data.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    let mut out = GzEncoder::new(File::create(target)?, Compression::default());
    out.write_all(&header(name, data.len(), modified))?;
    let copied = io::copy(&mut Read::by_ref(&mut file).take(data.len()), &mut out)?;
    let padding = (BLOCK - copied as usize % BLOCK) % BLOCK;
    // Two empty blocks end an archive.
    out.write_all(&vec![0; padding + 2 * BLOCK])?;
    out.finish()?.sync_all()
}

/// A ustar header (POSIX.1-1988).
fn header(name: &[u8], size: u64, modified: u64) -> [u8; BLOCK] {
    let mut header = [0; BLOCK];
    let mut put = |at: usize, bytes: &[u8]| {
        for (place, byte) in header.iter_mut().skip(at).zip(bytes) {
            *place = *byte;
        }
    };
    put(0, name.get(..100).unwrap_or(name));
    put(100, b"0000644\0");
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    put(124, format!("{size:011o}\0").as_bytes());
    put(136, format!("{modified:011o}\0").as_bytes());
    put(148, b"        ");
    put(156, b"0");
    put(257, b"ustar\x0000");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    for (place, byte) in header.iter_mut().skip(148).zip(format!("{sum:06o}\0 ").as_bytes()) {
        *place = *byte;
    }
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_holds_the_file() {
        let path = std::env::temp_dir().join(format!("archive-{}.log", std::process::id()));
        std::fs::write(&path, "line\n".repeat(200)).unwrap();
        compress(&path);
        assert!(!path.exists());
        let mut archive = path.into_os_string();
        archive.push(".tar.gz");
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(File::open(&archive).unwrap()).read_to_end(&mut bytes).unwrap();
        std::fs::remove_file(&archive).unwrap();
        assert_eq!(bytes.len() % BLOCK, 0);
        assert!(bytes[BLOCK..].starts_with("line\n".repeat(200).as_bytes()));
        assert_eq!(&bytes[124..135], b"00000001750");
    }
}
