//! Any history, in outline: calls without results, results without calls, keys that come again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use siltstone_core::outline::{Keys, Line, Lines, Outline, Provenance, Role, Tie};

const ROLES: [Role; 5] = [
    Role::System,
    Role::Developer,
    Role::User,
    Role::Assistant,
    Role::Tool,
];
const ORIGINS: [Provenance; 4] = [
    Provenance::Original,
    Provenance::Summary,
    Provenance::Injected,
    Provenance::Other,
];

// Three bytes are a message: who speaks, how, and what it is tied to; a fourth one says what is kept.
fuzz_target!(|data: &[u8]| {
    let (mut keys, mut lines, mut kept) = (Keys::default(), Lines::default(), Vec::new());
    for (position, bytes) in data.chunks_exact(4).enumerate() {
        let line = Line {
            role: ROLES[usize::from(bytes[0]) % ROLES.len()],
            provenance: ORIGINS[usize::from(bytes[0] >> 4) % ORIGINS.len()],
            is_item: bytes[1] & 1 != 0,
            is_reasoning: bytes[1] & 2 != 0,
            parts: u32::from(bytes[1] >> 5),
        };
        let ties: Vec<Tie> = (0..bytes[1] >> 2 & 3)
            .map(|number| {
                let name = [bytes[2].wrapping_add(number) & 7];
                let key = match bytes[2] >> 5 & 3 {
                    0 => keys.name(None),
                    1 => keys.name(Some(&name)),
                    _ => keys.id(&name),
                };
                match bytes[2] >> 3 & 3 {
                    0 => Tie::Call(key),
                    1 => Tie::Result(key),
                    2 => Tie::Shared(key),
                    _ => Tie::Reference,
                }
            })
            .collect();
        lines.push(line, &ties);
        if bytes[3] & 1 != 0 {
            kept.push(position);
        }
    }
    let count = lines.len();
    let outline = Outline::new(lines, keys.count());

    let mut end = 0;
    for turn in outline.turns() {
        assert!(end <= turn.start && turn.start <= turn.request && turn.request < turn.end);
        end = turn.end;
    }
    assert!(end <= count && (count > 0 || !outline.in_flight()));
    assert!(outline.pending().is_sorted_by(|one, other| one < other));

    let closed = outline.closed(kept.iter().copied());
    let inside = |position: &usize| {
        closed
            .iter()
            .any(|&(start, end)| (start..end).contains(position))
    };
    assert!(kept.iter().all(inside), "{kept:?} in {closed:?}");
    assert!(
        closed
            .iter()
            .all(|&(start, end)| start < end && end <= count)
    );
    assert!(
        closed.is_sorted_by(|one, other| one.1 < other.0),
        "they touch: {closed:?}"
    );
    let again = outline.closed(closed.iter().flat_map(|&(start, end)| start..end));
    assert_eq!(again, closed, "what is closed is closed");
    for position in 0..=count {
        if let Some(group) = outline.group_ending_at(position) {
            assert_eq!(group.last(), Some(&position));
            let whole = group.iter().all(inside) || !group.iter().any(inside);
            assert!(whole, "{group:?} is parted by {closed:?}");
        }
    }
    let breaks = outline.breaks(closed.iter().copied());
    let length: usize = closed.iter().map(|(start, end)| end - start).sum();
    assert!(breaks.is_sorted_by(|one, other| one < other));
    assert!(
        breaks.last().is_none_or(|&last| last == length),
        "{breaks:?} of {length}"
    );
});
