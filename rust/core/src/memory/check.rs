//! Checks the bounds of entries. Blank entries are accepted, but not stored.

use crate::error::Result;
use crate::memory::options::invalid;
use crate::sqlite::NewEntry;

/// Bytes of the longest text of an entry that rows and indexes can hold. Callers set lower limits.
pub const MAX_TEXT_BYTES: usize = 256 * 1024 * 1024;

/// Refuses the whole batch if one entry is out of bounds, because a batch is stored whole or not at all.
pub(super) fn check(entries: &[NewEntry]) -> Result<()> {
    for (place, entry) in entries.iter().enumerate() {
        let name = entry.name.as_deref().unwrap_or_default();
        let texts = [
            ("text", entry.text.as_str()),
            ("role", &entry.role),
            ("name", name),
            ("kind", &entry.kind),
        ];
        for (field, text) in texts {
            if text.len() > MAX_TEXT_BYTES {
                let message = format!(
                    "entries[{place}].{field} must be at most {MAX_TEXT_BYTES} bytes, got {} bytes",
                    text.len()
                );
                return Err(invalid(message)
                    .with("limit", as_integer(MAX_TEXT_BYTES))
                    .with("size", as_integer(text.len())));
            }
        }
        if entry.start < 0 || entry.start > entry.end {
            return Err(invalid(format!(
                "entries[{place}].source_range must be 0 <= start <= end, got ({}, {})",
                entry.start, entry.end
            )));
        }
    }
    Ok(())
}

/// Whether the text is blank. Such an entry cannot be found, and is not stored.
pub(super) fn is_blank(entry: &NewEntry) -> bool {
    entry.text.trim().is_empty()
}

fn as_integer(size: usize) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}
