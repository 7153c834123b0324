//! Any text, to everything that reads texts: no panic, and what must hold of every text does.
#![no_main]

use libfuzzer_sys::fuzz_target;
use siltstone_core::analyse::{Fields, Language, for_each_term_in};
use siltstone_core::bm25::Query;
use siltstone_core::embed::hash::HashRule;
use siltstone_core::embed::hashed_tf::{counts, embed};
use siltstone_core::json::{string_size, write_string};
use siltstone_core::tokenize::words::for_each_word;

fuzz_target!(|data: &[u8]| {
    let _ = string_size(data); // lone surrogates, and bytes that are no text at all
    let text = String::from_utf8_lossy(data);

    let mut literal = String::new();
    write_string(&text, &mut literal);
    let size = string_size(text.as_bytes());
    assert_eq!(size.bytes, literal.len());
    assert_eq!(size.code_points, literal.chars().count());
    let read: String = serde_json::from_str(&literal).expect("a JSON string");
    assert_eq!(read, text);

    let words = words(&text);
    for rule in HashRule::ALL {
        let mut norm = 0.0_f64;
        let mut buckets = 0;
        for (bucket, value) in embed(&text, rule) {
            assert!(usize::from(bucket) < 4_096 && value.is_finite() && value > 0.0);
            norm += f64::from(value) * f64::from(value);
            buckets += 1;
        }
        assert_eq!(counts(&text, rule).iter().count(), buckets);
        assert!(buckets == 0 || (norm - 1.0).abs() < 1e-5, "norm {norm}");
        if rule == HashRule::Xxh3 {
            assert_eq!(buckets == 0, words.is_empty(), "buckets without words");
        }
    }

    for_each_term_in(&text, Language::English, |term| {
        assert!(!term.is_empty(), "an empty term");
    });
    let fields = Fields::of(&text, "user", Some(&text), 1_700_000_000_000);
    for passage in fields.passages() {
        let _ = fields.passage(passage);
    }
    let _ = Query::of(&text);
});

fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    for_each_word(text, |word| {
        assert!(!word.is_empty(), "an empty word");
        words.push(word.to_owned());
    });
    words
}
