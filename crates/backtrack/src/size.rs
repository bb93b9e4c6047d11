//! How large a pattern is, estimated from its text.

/// About how many states the expression has: its characters, as often as they are repeated.
pub fn states(pattern: &str) -> usize {
    let mut bytes = pattern.bytes().peekable();
    // Of each group that is open: what is behind the last item, and that item.
    let mut groups = vec![(0_usize, 0_usize)];
    while let Some(byte) = bytes.next() {
        let Some((before, last)) = groups.last_mut() else { break };
        let item = match byte {
            b'(' => {
                groups.push((0, 0));
                continue;
            }
            b')' => {
                let inner = before.saturating_add(*last);
                if groups.len() > 1 {
                    groups.pop();
                }
                inner + 1
            }
            b'{' => {
                let mut numbers = [0_usize; 2];
                let mut place = 0;
                while let Some(byte) = bytes.next_if(|byte| *byte != b'}') {
                    match byte {
                        b',' => place = 1,
                        digit if digit.is_ascii_digit() => {
                            if let Some(number) = numbers.get_mut(place) {
                                *number = number.saturating_mul(10).saturating_add(usize::from(digit - b'0'));
                            }
                        }
                        _ => {}
                    }
                }
                let [least, most] = numbers;
                *last = last.saturating_mul(least.max(most).max(1));
                continue;
            }
            b'\\' => match bytes.next() {
                // A class of Unicode has hundreds of ranges.
                Some(b'p' | b'P') => STATES_OF_A_CLASS,
                _ => 1,
            },
            _ => 1,
        };
        if let Some((before, last)) = groups.last_mut() {
            *before = before.saturating_add(*last);
            *last = item;
        }
    }
    groups.iter().fold(1, |sum: usize, (before, last)| sum.saturating_add(*before).saturating_add(*last))
}

const STATES_OF_A_CLASS: usize = 300;
