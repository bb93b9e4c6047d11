//! Sets of files that reach each other.

use std::collections::BTreeSet;

use super::arrows::Arrows;
use super::modules::FileId;

/// Each with two files or more, the largest first.
pub(super) fn circles(arrows: &Arrows) -> Vec<BTreeSet<FileId>> {
    let mut found: Vec<BTreeSet<FileId>> = Vec::new();
    for file in arrows.keys() {
        if found.iter().any(|circle| circle.contains(file)) {
            continue;
        }
        let back: BTreeSet<FileId> =
            reached(arrows, *file).into_iter().filter(|to| reached(arrows, *to).contains(file)).collect();
        if back.len() > 1 {
            found.push(back);
        }
    }
    found.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    found
}

fn reached(arrows: &Arrows, from: FileId) -> BTreeSet<FileId> {
    let mut found = BTreeSet::new();
    let mut open = vec![from];
    while let Some(file) = open.pop() {
        for to in arrows.get(&file).into_iter().flat_map(|named| named.keys()) {
            if found.insert(*to) {
                open.push(*to);
            }
        }
    }
    found
}
