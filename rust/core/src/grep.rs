//! The lines of a text that a regular expression matches, whoever wrote it.

use regex::RegexBuilder;

use crate::error::{Error, ErrorKind, Result};

/// Bytes that a compiled expression may take: a model wrote it.
const MOST_COMPILED: usize = 1 << 20;

/// The numbers of the lines of `text` in which `pattern` matches, from 0; lines end at line feeds.
///
/// Time is linear in the text, whatever the pattern.
///
/// # Errors
///
/// `InvalidArgument`: `pattern` is no expression, or a compiled one would take more than a megabyte.
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
