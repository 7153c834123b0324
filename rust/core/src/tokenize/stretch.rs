//! Cuts a text into stretches that are ASCII and stretches that are not, never inside a word.
//!
//! Most texts are ASCII except for a dash here and an emoji there; the ASCII between these is read by the fast
//! path.

/// The shortest ASCII stretch that is worth a cut, in bytes.
const MIN_ASCII: usize = 64;

/// A piece of a text that ends with the text or after an ASCII separator, which ends every word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stretch<'a> {
    /// All of it is ASCII.
    Ascii(&'a str),
    /// Some of it is not.
    Mixed(&'a str),
}

/// The stretches of `text`, in order; together they are the text.
pub(super) fn stretches(text: &str) -> impl Iterator<Item = Stretch<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (stretch, after) = (!rest.is_empty()).then(|| first(rest))?;
        rest = after;
        Some(stretch)
    })
}

/// The first stretch of `text`, and the rest of the text.
fn first(text: &str) -> (Stretch<'_>, &str) {
    if text.is_ascii() {
        return (Stretch::Ascii(text), "");
    }
    let bytes = text.as_bytes();
    let ascii = ascii_prefix(bytes);
    let separator = bytes[..ascii].iter().rposition(|&byte| is_separator(byte));
    let cut = separator.map_or(0, |place| place + 1);
    if cut >= MIN_ASCII {
        let (stretch, after) = text.split_at(cut);
        return (Stretch::Ascii(stretch), after);
    }
    let (stretch, after) = text.split_at(mixed_end(bytes, ascii));
    (Stretch::Mixed(stretch), after)
}

/// The end of a stretch whose first non-ASCII byte is at `from`: after the next separator that is followed by
/// ASCII.
fn mixed_end(text: &[u8], from: usize) -> usize {
    let mut seen = from;
    while let Some(place) = text[seen..].iter().position(|&byte| is_separator(byte)) {
        let end = seen + place + 1;
        let next = &text[end..text.len().min(end + MIN_ASCII)];
        let ascii = ascii_prefix(next);
        if ascii == next.len() {
            return end;
        }
        seen = end + ascii;
    }
    text.len()
}

fn is_separator(byte: u8) -> bool {
    byte.is_ascii() && !byte.is_ascii_alphanumeric()
}

/// How many bytes of ASCII `text` begins with.
fn ascii_prefix(text: &[u8]) -> usize {
    let whole: usize = text
        .chunks(64)
        .take_while(|chunk| chunk.is_ascii())
        .map(<[u8]>::len)
        .sum();
    let rest = &text[whole..];
    whole
        + rest
            .iter()
            .position(|byte| !byte.is_ascii())
            .unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dash_costs_its_surroundings_only() {
        let long = "word ".repeat(20);
        let text = format!("{long}— {long}");
        let found: Vec<_> = stretches(&text).collect();
        assert_eq!(
            found,
            [
                Stretch::Ascii(&long),
                Stretch::Mixed("— "),
                Stretch::Ascii(&long)
            ]
        );
    }

    #[test]
    fn no_stretch_begins_inside_a_word() {
        let word = "w".repeat(200);
        let text = format!("a {word}é{word} b");
        let found: Vec<_> = stretches(&text).collect();
        let mixed = format!("a {word}é{word} ");
        assert_eq!(found, [Stretch::Mixed(&mixed), Stretch::Ascii("b")]);
    }
}
