//! The core against `tests/vectors/*.json`, which the Python tests read too.

use std::fs;
use std::path::Path;

use serde_json::Value;
use siltstone_core::embed::hash::{HashRule, word_hash};
use siltstone_core::embed::hashed_tf::{DIMENSION, counts, embed};
use siltstone_core::json::string_size;
use siltstone_core::tokenize::{whitespace, words};
use siltstone_core::tokens::{Family, TextSize, bytes_over_four, chars_over_three};

fn read(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/vectors")
        .join(name);
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// The cases under `key`, of which there must be some.
fn cases<'a>(file: &'a Value, key: &str) -> &'a [Value] {
    let cases = list(file, key);
    assert!(!cases.is_empty());
    cases
}

fn list<'a>(case: &'a Value, key: &str) -> &'a [Value] {
    case[key].as_array().unwrap()
}

fn text<'a>(case: &'a Value, key: &str) -> &'a str {
    case[key].as_str().unwrap()
}

fn number(case: &Value, key: &str) -> usize {
    case[key].as_u64().unwrap().try_into().unwrap()
}

#[test]
fn words_are_those_of_the_vectors() {
    let file = read("words.json");
    assert_eq!(text(&file, "rule"), words::ID);
    for case in cases(&file, "cases") {
        let mut found: Vec<Value> = Vec::new();
        words::for_each_word(text(case, "text"), |word| found.push(word.into()));
        assert_eq!(Value::Array(found), case["words"], "{}", case["name"]);
    }
}

#[test]
fn whitespace_words_are_those_of_the_vectors() {
    for case in cases(&read("whitespace.json"), "cases") {
        let found: Vec<Value> = whitespace::words(text(case, "text"))
            .map(Value::from)
            .collect();
        assert_eq!(Value::Array(found), case["words"], "{}", case["text"]);
    }
}

#[test]
fn buckets_are_those_of_the_vectors() {
    let file = read("buckets.json");
    for rule in HashRule::ALL {
        for case in cases(&file, rule.name()) {
            let word = text(case, "word");
            assert_eq!(
                usize::from(rule.bucket(word)),
                number(case, "bucket"),
                "{rule} {word:?}"
            );
        }
    }
    for case in cases(&file, "xxh3") {
        assert_eq!(
            Value::from(word_hash(text(case, "word"))),
            case["hash"],
            "{}",
            case["word"]
        );
    }
}

#[test]
fn embeddings_are_those_of_the_vectors() {
    let file = read("embeddings.json");
    assert_eq!(number(&file, "dimension"), DIMENSION);
    for case in cases(&file, "cases") {
        let rule = text(case, "hash_rule").parse().unwrap();
        let counts = counts(text(case, "text"), rule);
        let (buckets, counts): (Vec<u16>, Vec<u32>) = counts.iter().unzip();
        assert_eq!(Value::from(buckets), case["buckets"], "{}", case["text"]);
        assert_eq!(Value::from(counts), case["counts"], "{}", case["text"]);
        // serde_json may read the last bit of a double wrong, which a float does not have.
        #[expect(clippy::cast_possible_truncation, reason = "written from floats")]
        let expected = list(case, "values")
            .iter()
            .map(|value| value.as_f64().unwrap() as f32);
        let values = embed(text(case, "text"), rule).map(|(_, value)| value.to_bits());
        assert!(values.eq(expected.map(f32::to_bits)), "{}", case["text"]);
    }
}

#[test]
fn estimates_are_those_of_the_vectors() {
    for case in cases(&read("estimates.json"), "cases") {
        let size = TextSize::of(text(case, "text").as_bytes());
        let found = [
            ("bytes", size.bytes),
            ("code_points", size.code_points),
            ("bytes/4", bytes_over_four(size)),
            ("chars/3", chars_over_three(size)),
            (
                "blocks",
                Family::BLOCKS.tokens(text(case, "text").as_bytes()),
            ),
            (
                "weights",
                Family::default().tokens(text(case, "text").as_bytes()),
            ),
        ];
        for (name, value) in found {
            assert_eq!(value, number(case, name), "{name} of {}", case["text"]);
        }
    }
}

#[test]
fn sizes_of_json_strings_are_those_of_the_vectors() {
    for case in cases(&read("json_sizes.json"), "strings") {
        let size = string_size(text(case, "text").as_bytes());
        let expected = (number(case, "bytes"), number(case, "code_points"));
        assert_eq!((size.bytes, size.code_points), expected, "{}", case["text"]);
    }
}
