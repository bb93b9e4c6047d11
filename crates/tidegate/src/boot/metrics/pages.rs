//! Rendered pages of metrics, which have tens of megabytes at times. Readers share them: those who ask while a page is made get
//! the next one together, and while slow readers hold a few pages, no further one is made.

mod spare;

use std::{
    io::Write,
    mem,
    sync::{Arc, Mutex, OnceLock, PoisonError, Weak},
    time::Instant,
};

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use tidegate_telemetry::{
    background::{begin_turn, give_way},
    error_log::{self, Level},
    limiter::Limiter,
    metrics::{Form, Format},
};

use self::spare::Spare;

/// Pages that are held at a time before no further one of the same format is made.
const MOST_PAGES: usize = 4;

/// Some 20 us, and 70 where the encoder moves its window.
const COMPRESSED_AT_ONCE: usize = 8 * 1024;

#[derive(Default)]
pub(super) struct Pages {
    held: Mutex<Vec<Held>>,
    spare: Arc<Spare>,
}

struct Held {
    page: Weak<Page>,
    format: Format,
    begun: Instant,
}

struct Page {
    text: Vec<u8>,
    /// Made for the first reader that accepts it: 4 % of the text.
    gzip: OnceLock<Vec<u8>>,
    spare: Arc<Spare>,
}

impl Drop for Page {
    fn drop(&mut self) {
        self.spare.keep(mem::take(&mut self.text));
    }
}

/// A reader's hold on a page.
struct Reader {
    page: Arc<Page>,
    gzip: bool,
}

impl AsRef<[u8]> for Reader {
    fn as_ref(&self) -> &[u8] {
        match self.page.gzip.get() {
            Some(compressed) if self.gzip => compressed,
            _ => &self.page.text,
        }
    }
}

impl Page {
    fn reader(self: Arc<Self>, gzip: bool) -> Bytes {
        if gzip {
            self.gzip.get_or_init(|| compressed(&self.text));
        }
        Bytes::from_owner(Reader { page: self, gzip })
    }
}

/// At the quickest level: the rest of a page's bytes is worth less than the time.
fn compressed(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(text.len() / 16), Compression::fast());
    for piece in text.chunks(COMPRESSED_AT_ONCE) {
        // A vector takes every write.
        let _ = encoder.write_all(piece);
        give_way();
    }
    encoder.finish().unwrap_or_default()
}

impl Pages {
    /// A page that was begun after this call, or, while too many are held, the newest of them. `render` writes into an empty vector, which
    /// has the room of an earlier page at best. Blocks.
    pub(super) fn get(&self, form: Form, render: impl FnOnce(Vec<u8>) -> Vec<u8>) -> Bytes {
        let Form { format, gzip } = form;
        let asked = Instant::now();
        begin_turn();
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.retain(|one| one.page.strong_count() > 0);
        if let Some(newest) = held.iter().rfind(|one| one.format == format)
            && let Some(page) = newest.page.upgrade()
        {
            if newest.begun > asked {
                return page.reader(gzip);
            }
            if held.len() >= MOST_PAGES {
                warn_of_slow_readers(newest.begun);
                return page.reader(gzip);
            }
        }
        let begun = Instant::now();
        let text = render(self.spare.take());
        let page = Arc::new(Page { text, gzip: OnceLock::new(), spare: self.spare.clone() });
        held.push(Held { page: Arc::downgrade(&page), format, begun });
        drop(held);
        page.reader(gzip)
    }
}

#[cold]
fn warn_of_slow_readers(begun: Instant) {
    static LINES: Limiter = Limiter::new(1, 10_000);
    if let Some(others) = LINES.pass() {
        error_log::log(
            Level::Warn,
            format_args!(
                "slow readers hold {MOST_PAGES} metrics pages: a scrape gets the newest of them, {:.1} s \
                 old; {others} more \
                 since the previous line",
                begun.elapsed().as_secs_f64()
            ),
        );
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;

    use super::*;

    const TEXT: Form = Form { format: Format::Text, gzip: false };

    #[test]
    fn a_few_pages_are_made_and_then_shared() {
        let pages = Pages::default();
        let render = |text: &'static str| move |_| text.as_bytes().to_vec();
        let mut held: Vec<Bytes> = ["1", "2", "3", "4"].map(|text| pages.get(TEXT, render(text))).into();
        assert_eq!(held, ["1", "2", "3", "4"]);
        assert_eq!(pages.get(TEXT, render("5")), "4", "the newest that is held");
        let open = Form { format: Format::OpenMetrics, gzip: false };
        let other = pages.get(open, render("open"));
        // Pages of both forms count.
        assert_eq!(pages.get(open, render("again")), other, "the newest of its form");
        assert_eq!(other, "open");
        drop(other);
        held.remove(0);
        assert_eq!(pages.get(TEXT, render("6")), "6");
        drop(held);
        assert_eq!(pages.get(TEXT, render("7")), "7");
        assert_eq!(pages.held.lock().unwrap().len(), 1);
    }

    #[test]
    fn a_page_is_compressed_for_those_who_accept_it() {
        let pages = Pages::default();
        let text = "apisix_http_status{code=\"200\"} 1\n".repeat(1000);
        let compressed = pages.get(Form { gzip: true, ..TEXT }, |_| text.clone().into_bytes());
        assert!(compressed.len() < text.len() / 20, "{}", compressed.len());
        let mut read = String::new();
        GzDecoder::new(&compressed[..]).read_to_string(&mut read).expect("gzip");
        assert_eq!(read, text);
    }
}
