//! Numbered things of a snapshot, in pieces: it shares with the one before all pieces in which nothing has changed.

use std::sync::Arc;

const PIECE: usize = 256;

/// Things of a kind, such as routes, by number.
pub struct Table<T> {
    pieces: Vec<Arc<Vec<Option<Arc<T>>>>>,
    length: u32,
}

impl<T> Clone for Table<T> {
    fn clone(&self) -> Table<T> {
        Table { pieces: self.pieces.clone(), length: self.length }
    }
}

impl<T> Default for Table<T> {
    fn default() -> Table<T> {
        Table { pieces: Vec::new(), length: 0 }
    }
}

impl<T> Table<T> {
    /// `None` for a number that has not been added, or has nothing.
    #[inline]
    pub fn get(&self, number: usize) -> Option<&Arc<T>> {
        self.pieces.get(number / PIECE)?.get(number % PIECE)?.as_ref()
    }

    /// All there are, by rising number.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.pieces.iter().flat_map(|piece| piece.iter().flatten())
    }

    /// The next number, which has nothing yet.
    pub fn add(&mut self) -> u32 {
        let number = self.length;
        self.length += 1;
        if self.pieces.len() * PIECE <= number as usize {
            self.pieces.push(Arc::new(vec![None; PIECE]));
        }
        number
    }

    /// Puts something under a number that has been added, or takes it away.
    pub fn set(&mut self, number: u32, thing: Option<Arc<T>>) {
        let piece = self.pieces.get_mut(number as usize / PIECE);
        if let Some(slot) = piece.and_then(|piece| Arc::make_mut(piece).get_mut(number as usize % PIECE)) {
            *slot = thing;
        }
    }
}
