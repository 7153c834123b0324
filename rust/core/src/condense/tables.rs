//! Writes JSON objects with the same keys as rows under one line of keys, and removes the white space of other
//! JSON.

use std::borrow::Cow;

const FEWEST_ROWS: usize = 3;
const MOST_TRIES: usize = 64; // stretches that look like a table: nested ones are read several times

/// `text` with its tables of JSON as rows. If it has no table and is a single JSON value, its white space is
/// removed.
pub(super) fn written(text: &str) -> Cow<'_, str> {
    if !text.contains('{') {
        return Cow::Borrowed(text);
    }
    let bytes = text.as_bytes();
    let mut out: Option<String> = None;
    let (mut done, mut at, mut tries) = (0, 0, 0);
    while let Some(next) = bytes.get(at..).and_then(next_opening) {
        at += next;
        let byte = bytes[at];
        let is_start = at == 0 || bytes[at - 1] == b'\n';
        let may = (byte == b'[' && bytes.get(blank(bytes, at + 1)) == Some(&b'{'))
            || (byte == b'{' && is_start);
        if may && tries < MOST_TRIES {
            tries += 1;
            if let Some((table, end)) = table(text, at) {
                let out = out.get_or_insert_with(|| String::with_capacity(text.len()));
                out.push_str(&text[done..at]);
                out.push_str(&table);
                (at, done) = (end, end);
                continue;
            }
        }
        at += 1;
    }
    if let Some(mut out) = out {
        out.push_str(&text[done..]);
        return Cow::Owned(out);
    }
    let whole = text.trim_end();
    if whole.starts_with(['{', '[']) && text.contains('\n') && value(bytes, 0) == Some(whole.len())
    {
        return Cow::Owned(compact(whole).into_owned());
    }
    Cow::Borrowed(text)
}

/// The distance to the next bracket or brace.
fn next_opening(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|byte| matches!(byte, b'[' | b'{'))
}

/// The objects of the array at `start`, or of the consecutive lines from there on, as rows; and where they end.
/// `None` if they are not a table.
fn table(text: &str, start: usize) -> Option<(String, usize)> {
    let bytes = text.as_bytes();
    let is_array = bytes.get(start) == Some(&b'[');
    let mut at = if is_array {
        blank(bytes, start + 1)
    } else {
        start
    };
    let mut keys: Vec<&str> = Vec::new();
    let mut rows: Vec<Vec<&str>> = Vec::new();
    let mut end = start;
    while let Some((row_keys, values, next)) = object(text, at) {
        if rows.is_empty() {
            keys = row_keys;
        } else if row_keys != keys {
            if is_array {
                return None;
            }
            break;
        }
        rows.push(values);
        end = next;
        if !is_array {
            if bytes.get(next) != Some(&b'\n') {
                break;
            }
            at = next + 1;
            continue;
        }
        let after = blank(bytes, next);
        match bytes.get(after) {
            Some(b',') => at = blank(bytes, after + 1),
            Some(b']') => {
                end = after + 1;
                break;
            }
            _ => return None,
        }
    }
    let is_closed = !is_array || bytes.get(end.checked_sub(1)?) == Some(&b']');
    if rows.len() < FEWEST_ROWS || keys.is_empty() || !is_closed {
        return None;
    }
    let mut table = format!("[{} rows of {}]", rows.len(), keys.join(" | "));
    for row in rows {
        table.push('\n');
        for (place, value) in row.iter().enumerate() {
            if place > 0 {
                table.push_str(" | ");
            }
            table.push_str(&compact(value));
        }
    }
    if is_array && bytes.get(end).is_some_and(|byte| *byte != b'\n') {
        table.push('\n');
    }
    Some((table, end))
}

/// The keys and the values of the object at `start`, and where it ends.
fn object(text: &str, start: usize) -> Option<(Vec<&str>, Vec<&str>, usize)> {
    let bytes = text.as_bytes();
    if bytes.get(start) != Some(&b'{') {
        return None;
    }
    let (mut keys, mut values) = (Vec::new(), Vec::new());
    let mut at = blank(bytes, start + 1);
    loop {
        let key_end = string(bytes, at)?;
        keys.push(text.get(at + 1..key_end - 1)?);
        at = blank(bytes, key_end);
        if bytes.get(at) != Some(&b':') {
            return None;
        }
        at = blank(bytes, at + 1);
        let value_end = value(bytes, at)?;
        values.push(text.get(at..value_end)?);
        at = blank(bytes, value_end);
        match bytes.get(at)? {
            b',' => at = blank(bytes, at + 1),
            b'}' => return Some((keys, values, at + 1)),
            _ => return None,
        }
    }
}

/// Where the value at `start` ends; `None` if it is incomplete or not JSON.
fn value(bytes: &[u8], start: usize) -> Option<usize> {
    match bytes.get(start)? {
        b'"' => string(bytes, start),
        b'{' | b'[' => {
            let (mut depth, mut at) = (0_usize, start);
            loop {
                match bytes.get(at)? {
                    b'"' => {
                        at = string(bytes, at)?;
                        continue;
                    }
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' => {
                        depth -= 1;
                        if depth == 0 {
                            return Some(at + 1);
                        }
                    }
                    _ => {}
                }
                at += 1;
            }
        }
        byte if byte.is_ascii_alphanumeric() || *byte == b'-' => {
            let length = bytes[start..]
                .iter()
                .take_while(|byte| is_scalar(**byte))
                .count();
            Some(start + length)
        }
        _ => None,
    }
}

fn is_scalar(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.')
}

/// Where the string at `start` ends, with its quotes.
fn string(bytes: &[u8], start: usize) -> Option<usize> {
    if bytes.get(start) != Some(&b'"') {
        return None;
    }
    let mut at = start + 1;
    loop {
        match bytes.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            b'\n' => return None,
            _ => at += 1,
        }
    }
}

/// The place of the next byte that is not white space.
fn blank(bytes: &[u8], mut at: usize) -> usize {
    while matches!(bytes.get(at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
        at += 1;
    }
    at
}

/// `json` without the white space between its values.
fn compact(json: &str) -> Cow<'_, str> {
    if !json.contains([' ', '\t', '\n', '\r']) || json.starts_with('"') {
        return Cow::Borrowed(json);
    }
    let bytes = json.as_bytes();
    let mut text = String::with_capacity(json.len());
    let (mut at, mut from) = (0, 0);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => at = string(bytes, at).unwrap_or(bytes.len()),
            b' ' | b'\t' | b'\n' | b'\r' => {
                text.push_str(&json[from..at]);
                at = blank(bytes, at);
                from = at;
            }
            _ => at += 1,
        }
    }
    text.push_str(json.get(from..).unwrap_or(""));
    Cow::Owned(text)
}
