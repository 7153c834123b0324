//! Finds the lines of a text that match a regular expression from an untrusted author.

use regex::RegexBuilder;

use crate::error::{Error, ErrorKind, Result};

/// The largest size of a compiled expression in bytes. A bound is needed, because a model writes the expressions.
const MOST_COMPILED: usize = 1 << 20;

/// The numbers, from 0, of the lines of `text` that match `pattern`. Lines end at line feeds.
///
/// The time is linear in the length of the text for every pattern.
///
/// # Errors
///
/// `InvalidArgument` where `pattern` is no valid expression, or takes more than a megabyte when it is compiled.
///
/// ```
/// # fn main() -> siltstone_core::Result<()> {
/// let found = siltstone_core::grep::matching_lines("one\ntwo\nthree", "^t")?;
/// assert_eq!(found, [1, 2]);
/// # Ok(())
/// # }
/// ```
pub fn matching_lines(text: &str, pattern: &str) -> Result<Vec<usize>> {
    let expression = RegexBuilder::new(pattern)
        .size_limit(MOST_COMPILED)
        .dfa_size_limit(MOST_COMPILED)
        .build()
        .map_err(|error| {
            Error::new(ErrorKind::InvalidArgument, error.to_string()).with("field", "pattern")
        })?;
    let lines = text.split('\n').enumerate();
    Ok(lines
        .filter(|(_, line)| expression.is_match(line))
        .map(|(number, _)| number)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_that_is_none_or_too_large_is_refused() {
        for pattern in ["(", "((a{99}){99}){99}", r"(a)\1"] {
            let error = matching_lines("a", pattern).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        }
    }

    #[test]
    fn an_empty_text_has_one_line() {
        assert_eq!(matching_lines("", "^$").unwrap(), [0]);
    }
}
