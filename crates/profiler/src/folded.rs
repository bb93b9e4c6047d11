//! A line for each stack: `thread;outermost;...;innermost count`.

use std::fmt::Write;

use crate::profile::Profile;

pub(crate) fn write(profile: &Profile) -> Vec<u8> {
    let mut text = String::new();
    for stack in &profile.stacks {
        text.push_str(&part(&stack.thread));
        for frame in stack.frames.iter().rev() {
            text.push(';');
            text.push_str(&part(&frame.label()));
        }
        let _ = writeln!(text, " {}", stack.samples);
    }
    if profile.lost > 0 {
        let _ = writeln!(text, "[lost] {}", profile.lost);
    }
    text.into_bytes()
}

/// Semicolons stand between frames, and the last space before the count.
fn part(name: &str) -> String {
    name.chars()
        .map(|character| if character == ';' || character.is_control() { ':' } else { character })
        .collect()
}
