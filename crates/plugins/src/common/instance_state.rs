//! What one configured plugin keeps between the phases of a request. A global rule and a route may both have the
//! plugin; each keeps its own.

use tidegate_plugin_api::Request;

struct States<T>(Vec<(usize, T)>);

fn key<P>(plugin: &P) -> usize {
    std::ptr::from_ref(plugin) as usize
}

pub(crate) fn set<P, T: 'static>(request: &mut Request, plugin: &P, state: T) {
    let states = request.extensions.get_or_insert_with(|| States::<T>(Vec::new()));
    states.0.retain(|(owner, _)| *owner != key(plugin));
    states.0.push((key(plugin), state));
}

pub(crate) fn get_mut<'a, P, T: 'static>(request: &'a mut Request, plugin: &P) -> Option<&'a mut T> {
    let states = request.extensions.get_mut::<States<T>>()?;
    states.0.iter_mut().find(|(owner, _)| *owner == key(plugin)).map(|(_, state)| state)
}

pub(crate) fn take<P, T: 'static>(request: &mut Request, plugin: &P) -> Option<T> {
    let states = request.extensions.get_mut::<States<T>>()?;
    let at = states.0.iter().position(|(owner, _)| *owner == key(plugin))?;
    Some(states.0.swap_remove(at).1)
}
