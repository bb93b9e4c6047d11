//! What instances of all workers share: data by key, and queues. Each plugin has its own, with a limit; the vm_id of a queue is the
//! name of a plugin.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, LazyLock},
};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Bytes of keys and values, and of waiting items, of one plugin; what one takes beside its text.
const MAX_BYTES: usize = 16 << 20;
const ENTRY_BYTES: usize = 64;
/// Queues of one plugin.
const MAX_QUEUES: usize = 256;

/// Its limit is reached.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Full;

/// Why a value was not set.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NotSet {
    Mismatch,
    Full,
}

#[derive(Default)]
struct Data {
    values: HashMap<Box<[u8]>, (Bytes, u32)>,
    bytes: usize,
    next: u32,
}

/// A queue, which instances of several workers may wait for. One of them is woken for an item.
pub(super) struct Queue {
    items: Mutex<(VecDeque<Bytes>, usize)>,
    pub filled: Notify,
}

#[derive(Default)]
struct Queues {
    by_name: HashMap<(&'static str, Box<[u8]>), u32>,
    all: Vec<Arc<Queue>>,
    of_plugin: HashMap<&'static str, usize>,
}

static DATA: LazyLock<Mutex<HashMap<&'static str, Data>>> = LazyLock::new(Mutex::default);
static QUEUES: LazyLock<Mutex<Queues>> = LazyLock::new(Mutex::default);

/// A value, and the number of its last change.
pub(super) fn get(plugin: &'static str, key: &[u8]) -> Option<(Bytes, u32)> {
    DATA.lock().get(plugin)?.values.get(key).cloned()
}

/// `cas`: the number of the change that this one follows; 0 for any.
pub(super) fn set(plugin: &'static str, key: &[u8], value: &[u8], cas: u32) -> Result<(), NotSet> {
    let mut all = DATA.lock();
    let data = all.entry(plugin).or_default();
    let before = data.values.get(key);
    let known = before.map_or(0, |(_, known)| *known);
    if cas != 0 && cas != known {
        return Err(NotSet::Mismatch);
    }
    let freed = before.map_or(0, |(value, _)| value.len() + key.len() + ENTRY_BYTES);
    let bytes = data.bytes - freed + key.len() + value.len() + ENTRY_BYTES;
    if bytes > MAX_BYTES {
        return Err(NotSet::Full);
    }
    data.bytes = bytes;
    data.next = data.next.wrapping_add(1).max(1);
    data.values.insert(key.into(), (Bytes::copy_from_slice(value), data.next));
    Ok(())
}

/// Opens a queue of the plugin, or makes it.
pub(super) fn register(plugin: &'static str, name: &[u8]) -> Result<u32, Full> {
    let mut queues = QUEUES.lock();
    let key = (plugin, name.into());
    if let Some(number) = queues.by_name.get(&key) {
        return Ok(*number);
    }
    let count = queues.of_plugin.entry(plugin).or_default();
    if *count >= MAX_QUEUES {
        return Err(Full);
    }
    *count += 1;
    queues.all.push(Arc::new(Queue { items: Mutex::default(), filled: Notify::new() }));
    let number = queues.all.len() as u32;
    queues.by_name.insert(key, number);
    Ok(number)
}

/// The queue of that plugin, or of one's own where no plugin is named.
pub(super) fn resolve(own: &'static str, plugin: &str, name: &[u8]) -> Option<u32> {
    let wanted = if plugin.is_empty() { own } else { plugin };
    let queues = QUEUES.lock();
    queues
        .by_name
        .iter()
        .find(|((of, known), _)| *of == wanted && **known == *name)
        .map(|(_, number)| *number)
}

pub(super) fn queue(number: u32) -> Option<Arc<Queue>> {
    QUEUES.lock().all.get((number as usize).checked_sub(1)?).cloned()
}

impl Queue {
    pub(super) fn push(&self, item: &[u8]) -> Result<(), Full> {
        {
            let mut items = self.items.lock();
            let bytes = items.1 + item.len() + ENTRY_BYTES;
            if bytes > MAX_BYTES {
                return Err(Full);
            }
            items.1 = bytes;
            items.0.push_back(Bytes::copy_from_slice(item));
        }
        self.filled.notify_one();
        Ok(())
    }

    pub(super) fn pop(&self) -> Option<Bytes> {
        let mut items = self.items.lock();
        let item = items.0.pop_front()?;
        items.1 -= item.len() + ENTRY_BYTES;
        Some(item)
    }

    pub(super) fn len(&self) -> usize {
        self.items.lock().0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_changed_by_who_saw_the_last_change() {
        assert_eq!(get("cas", b"k"), None);
        assert_eq!(set("cas", b"k", b"1", 0), Ok(()));
        let (value, cas) = get("cas", b"k").expect("a value");
        assert_eq!(&value[..], b"1");
        assert_eq!(set("cas", b"k", b"2", cas), Ok(()));
        assert_eq!(set("cas", b"k", b"3", cas), Err(NotSet::Mismatch));
        assert_eq!(set("cas", b"new", b"3", 7), Err(NotSet::Mismatch));
        assert_eq!(get("another", b"k"), None);
    }

    #[test]
    fn data_is_bounded_for_each_plugin() {
        let large = vec![0; MAX_BYTES / 2];
        assert_eq!(set("full", b"a", &large, 0), Ok(()));
        assert_eq!(set("full", b"a", &large, 0), Ok(()));
        assert_eq!(set("full", b"b", &large, 0), Err(NotSet::Full));
        assert_eq!(set("full-other", b"b", &large, 0), Ok(()));
    }

    #[test]
    fn queues_are_found_by_plugin_and_name() {
        let number = register("q", b"jobs").expect("a queue");
        assert_eq!(register("q", b"jobs"), Ok(number));
        assert_eq!(resolve("q", "", b"jobs"), Some(number));
        assert_eq!(resolve("other", "q", b"jobs"), Some(number));
        assert_eq!(resolve("other", "", b"jobs"), None);
        let queue = queue(number).expect("a queue");
        assert_eq!(queue.push(b"1"), Ok(()));
        assert_eq!(queue.push(&vec![0; MAX_BYTES]), Err(Full));
        assert_eq!(queue.pop().as_deref(), Some(&b"1"[..]));
        assert!(queue.pop().is_none() && queue.is_empty());
    }
}
