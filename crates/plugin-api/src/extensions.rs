//! Private state of plugins during one request.

use std::any::{Any, TypeId};

/// A few typed values; allocates nothing until the first insert.
#[derive(Default)]
pub struct Extensions(Vec<(TypeId, Box<dyn Any>)>);

impl Extensions {
    /// Replaces a value of the same type.
    pub fn insert<T: 'static>(&mut self, value: T) {
        let id = TypeId::of::<T>();
        self.0.retain(|(other, _)| *other != id);
        self.0.push((id, Box::new(value)));
    }

    /// The value of this type.
    pub fn get<T: 'static>(&self) -> Option<&T> {
        let id = TypeId::of::<T>();
        self.0.iter().find(|(other, _)| *other == id)?.1.downcast_ref()
    }

    /// The value of this type, to be changed.
    pub fn get_mut<T: 'static>(&mut self) -> Option<&mut T> {
        let id = TypeId::of::<T>();
        self.0.iter_mut().find(|(other, _)| *other == id)?.1.downcast_mut()
    }

    /// Makes the value on first use.
    pub fn get_or_insert_with<T: 'static>(&mut self, make: impl FnOnce() -> T) -> &mut T {
        let id = TypeId::of::<T>();
        let at = self.0.iter().position(|(other, _)| *other == id).unwrap_or_else(|| {
            self.0.push((id, Box::new(make())));
            self.0.len() - 1
        });
        self.0[at].1.downcast_mut().unwrap_or_else(|| unreachable!("stored under its own type id"))
    }

    /// Removes the value of this type.
    pub fn take<T: 'static>(&mut self) -> Option<T> {
        let id = TypeId::of::<T>();
        let at = self.0.iter().position(|(other, _)| *other == id)?;
        self.0.swap_remove(at).1.downcast().ok().map(|value| *value)
    }

    /// Removes all; the memory stays for the connection's next request.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}
