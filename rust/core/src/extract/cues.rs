//! Kinds of lines that tend to be needed again, and what each adds to the salience of a line.

use std::sync::LazyLock;

use regex::bytes::{RegexSet, RegexSetBuilder};

const FAILURES: &str = r"(?i:\b(?:error|exception|traceback|fail(?:s|ed|ure|ing)?|panic|refused|denied|timed? ?out|bug)\b)";
const DECISIONS: &str = r"(?i:\b(?:decid\w+|decision|chose|agreed|must|never|always|prefer\w*|instead|because|important|remember|require[sd]?|fixed|root cause|turns? out|deadline)\b)";
const OPEN_TASKS: &str = r"(?i:\b(?:to-?do|fixme|next steps?|remaining|still (?:has|have|need)|left to do|open question)\b)|- \[ \]";
const IN_CJK: &str = "错误|失败|决定|必须|不要|记住|下一步|待办|重要|因为|エラー|失敗|決定|必要|重要|次に|오류|실패|결정|중요";
const PATHS: &str = r"https?://|(?:^|[^\w/])[\w.~-]*/[\w.~-]|\b\w+\.(?:py|rs|ts|js|go|c|h|java|rb|exs?|md|toml|json|ya?ml|sql|sh)\b";
const DIGITS: &str = r"(?u:\d)";
const IDENTIFIERS: &str = r"\w_\w|\b[a-z]+[A-Z]|\b[A-Z][a-z]+[A-Z]|\w\(\)|\b[A-Z]{2,}[-_]?[0-9]";

/// The cues, each with its weight in hundredths. Letters of a word are those of ASCII, since the words of the patterns
/// are: so an English word next to a Chinese one is found.
const CUES: [(u32, &str); 7] = [
    (25, FAILURES),
    (25, DECISIONS),
    (25, OPEN_TASKS),
    (25, IN_CJK),
    (20, PATHS),
    (15, DIGITS),
    (15, IDENTIFIERS),
];

static PATTERNS: LazyLock<RegexSet> = LazyLock::new(|| {
    RegexSetBuilder::new(CUES.map(|(_, pattern)| pattern))
        .unicode(false)
        .build()
        .expect("the patterns are valid")
});

/// The weight of all cues of `line` together, in hundredths.
pub(super) fn hundredths(line: &str) -> u32 {
    let found = PATTERNS.matches(line.as_bytes());
    found.iter().map(|each| CUES[each].0).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_cue_counts_once() {
        for (line, expected) in [
            ("nothing of note here", 0),
            ("It failed, then it failed again: timed out", 25),
            ("debug, failsafe", 0),
            ("We decided that, because it Must", 25),
            ("- [ ] call Ann", 25),
            ("next steps: TODO", 25),
            ("我们决定了", 25),
            ("次にError", 50),
            ("see src/main.rs", 20),
            ("a // b and/", 0),
            ("既/x", 20),
            ("in 3 days", 15),
            ("٣", 15),
            ("snake_case and camelCase", 15),
            ("Error 5 in /a_b: we decided, TODO 决定", 150),
        ] {
            assert_eq!(hundredths(line), expected, "{line}");
        }
    }
}
