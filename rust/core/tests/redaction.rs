//! Secrets in texts: what the rules find, what they leave, and what they say of it.

use siltstone_core::redact::{Action, CustomRule, Options, Redactor};

fn redactor() -> Redactor {
    let options = Options {
        keep_commit_ids: true,
        ..Options::default()
    };
    Redactor::new(options).unwrap()
}

fn redacted(text: &str) -> String {
    redactor().redact(text).0.unwrap_or_else(|| text.to_owned())
}

#[test]
fn the_documented_patterns_are_redacted_in_their_documented_words() {
    for (text, expected) in [
        (
            "Authorization: Bearer abcdefghijklmnopqrst",
            "Authorization: Bearer [REDACTED]",
        ),
        ("bearer abcdefghij_1234-5.678", "bearer [REDACTED]"),
        ("apiKey: 'abcdefgh12345678'", "apiKey: '[REDACTED]'"),
        ("api_key=abcdefgh12345678", "api_key=[REDACTED]"),
        ("API-KEY = abcdefgh12345678", "API-KEY = [REDACTED]"),
        ("token=abcdefghijklmnopqrst", "token=[REDACTED]"),
        ("id d41d8cd98f00b204e9800998ecf8427e!", "id [REDACTED_HEX]!"),
        (
            "x dGhpcyBpcyBhIHNlY3JldCBrZXkgdGhhdCBpcyBsb25n==",
            "x [REDACTED_B64]",
        ),
        ("the plain text", "the plain text"),
    ] {
        assert_eq!(redacted(text), expected);
    }
}

#[test]
fn a_text_that_was_redacted_stays_as_it_is() {
    let key = format!("ghp_{}", "dE5gH7jK9mN2pQ4sT6vW8yZ1cF3iL5oR7uX9aB3");
    let text = format!(
        "{key}{key} password=\"{key}\" https://a:{key}@b.c -----BEGIN PRIVATE KEY-----\nabc"
    );
    let once = redacted(&text);
    assert!(!once.contains("dE5"), "{once}");
    assert_eq!(redacted(&once), once);
}

#[test]
fn spans_are_those_of_the_original() {
    let text = "é token=abcdefghijklmnopqrst and AKIAABCDEFGHIJKLMNOP";
    let (_, findings) = redactor().redact(text);
    let found: Vec<_> = findings
        .iter()
        .map(|found| (&*found.rule, &text[found.start..found.end]))
        .collect();
    assert_eq!(
        found,
        [
            ("token", "abcdefghijklmnopqrst"),
            ("aws-access-key-id", "AKIAABCDEFGHIJKLMNOP")
        ]
    );
}

#[test]
fn an_allowed_rule_shields_and_a_blocking_one_says_so() {
    let options = Options {
        actions: vec![("hex".to_owned(), Action::Block)],
        custom: vec![CustomRule {
            id: "trace".to_owned(),
            pattern: r"trace=(?P<s>[0-9a-f]{32})".to_owned(),
            keywords: vec!["trace".to_owned()],
            placeholder: String::new(),
            action: Action::Allow,
        }],
        ..Options::default()
    };
    let redactor = Redactor::new(options).unwrap();
    let hex = "d41d8cd98f00b204e9800998ecf8427e";
    assert_eq!(redactor.scan(&format!("trace={hex}")), []);
    let [found] = &redactor.scan(&format!("x={hex}"))[..] else {
        panic!("one finding")
    };
    assert!(found.blocks);
}

#[test]
fn a_pattern_that_cannot_be_used_is_refused_by_name() {
    for pattern in ["(", "(a)\\1", "(?=a)", "a*"] {
        let custom = vec![CustomRule {
            id: "mine".to_owned(),
            pattern: pattern.to_owned(),
            keywords: Vec::new(),
            placeholder: "[MINE]".to_owned(),
            action: Action::Redact,
        }];
        let error = Redactor::new(Options {
            custom,
            ..Options::default()
        })
        .unwrap_err();
        assert!(error.to_string().contains("mine"), "{error}");
    }
}
