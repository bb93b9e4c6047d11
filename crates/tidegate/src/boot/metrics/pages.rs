//! Rendered pages of metrics, which have tens of megabytes at times. Readers share them: those who ask while a page is made get
//! the next one together, and while slow readers hold a few pages, no further one is made.

use std::{
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Instant,
};

use bytes::Bytes;
use tidegate_telemetry::{
    error_log::{self, Level},
    limiter::Limiter,
};

/// Pages that are held at a time.
const MOST_PAGES: usize = 4;

#[derive(Default)]
pub(super) struct Pages(Mutex<Vec<Held>>);

struct Held {
    page: Weak<Page>,
    begun: Instant,
}

struct Page(Vec<u8>);

/// A reader's hold on a page.
struct Reader(Arc<Page>);

impl AsRef<[u8]> for Reader {
    fn as_ref(&self) -> &[u8] {
        &self.0.0
    }
}

impl Pages {
    /// A page that was begun after this call, or, while too many are held, the newest of them. Blocks.
    pub(super) fn get(&self, render: impl FnOnce() -> Vec<u8>) -> Bytes {
        let asked = Instant::now();
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.retain(|one| one.page.strong_count() > 0);
        if let Some(newest) = held.last()
            && let Some(page) = newest.page.upgrade()
        {
            if newest.begun > asked {
                return Bytes::from_owner(Reader(page));
            }
            if held.len() >= MOST_PAGES {
                tell(newest.begun);
                return Bytes::from_owner(Reader(page));
            }
        }
        let begun = Instant::now();
        let page = Arc::new(Page(render()));
        held.push(Held { page: Arc::downgrade(&page), begun });
        Bytes::from_owner(Reader(page))
    }
}

#[cold]
fn tell(begun: Instant) {
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
    use super::*;

    #[test]
    fn a_few_pages_are_made_and_then_shared() {
        let pages = Pages::default();
        let render = |text: &'static str| move || text.as_bytes().to_vec();
        let mut held: Vec<Bytes> = ["1", "2", "3", "4"].map(|text| pages.get(render(text))).into();
        assert_eq!(held, ["1", "2", "3", "4"]);
        assert_eq!(pages.get(render("5")), "4", "the newest that is held");
        held.remove(0);
        assert_eq!(pages.get(render("6")), "6");
        drop(held);
        assert_eq!(pages.get(render("7")), "7");
        assert_eq!(pages.0.lock().unwrap().len(), 1);
    }
}
