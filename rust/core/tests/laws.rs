//! Laws of every text: one property for each.

use std::collections::BTreeMap;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use siltstone_core::embed::hash::{HashRule, word_hash};
use siltstone_core::embed::hashed_tf::{counts, embed};
use siltstone_core::json::string_size;
use siltstone_core::tokenize::words::for_each_word;
use siltstone_core::tokenize::{Class, classify};
use siltstone_core::tokens::TextSize;
use siltstone_core::{SparseRow, TopK};

fn words(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for_each_word(text, |word| found.push(word.to_owned()));
    found
}

fn is_cjk(word: &str) -> bool {
    word.chars().any(|c| classify(c) == Class::Cjk)
}

/// Any text, and texts of interesting parts: stretches of ASCII, scripts that mix, marks, emoji.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[ -~\n\t]{0,90}",
        2 => "\\PC{0,8}",
        1 => "[漢字かなカナー한글ñÉßΣς\u{301}\u{3099}\u{FE0F}\u{200D}❤— .]{0,8}",
        1 => any::<String>(),
    ];
    vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

fn rule() -> impl Strategy<Value = HashRule> {
    prop::sample::select(HashRule::ALL.to_vec())
}

fn row() -> impl Strategy<Value = SparseRow> {
    btree_map(0_u16..4096, 1_u32..100, 0..30).prop_map(|counts| counts.into_iter().collect())
}

fn sum(first: &SparseRow, second: &SparseRow) -> SparseRow {
    let mut counts = BTreeMap::new();
    for (bucket, count) in first.iter().chain(second.iter()) {
        *counts.entry(bucket).or_insert(0) += count;
    }
    counts.into_iter().collect()
}

proptest! {
    #[test]
    fn a_word_is_never_empty_and_never_begins_with_a_mark_unless_it_is_cjk(text in text()) {
        for word in words(&text) {
            let first = classify(word.chars().next().expect("a word has a code point"));
            prop_assert!(first != Class::Separator);
            prop_assert!(first != Class::Mark || word.chars().count() == 2, "{word:?}");
            prop_assert!(word.chars().all(|c| classify(c) != Class::Separator));
        }
    }

    #[test]
    fn words_joined_by_spaces_are_the_same_words(text in text()) {
        let once: Vec<String> = words(&text).into_iter().filter(|word| !is_cjk(word)).collect();
        let again = words(&once.join(" "));
        let expected: Vec<&String> = once.iter().filter(|word| !begins_with_mark(word)).collect();
        prop_assert_eq!(again.iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_separator_between_texts_adds_their_words(first in text(), second in text()) {
        let together = words(&format!("{first}\n{second}"));
        let expected = [words(&first), words(&second)].concat();
        prop_assert_eq!(together, expected);
    }

    #[test]
    fn a_separator_between_texts_adds_their_counts(rule in rule(), first in text(), second in text()) {
        let together = counts(&format!("{first} {second}"), rule);
        prop_assert_eq!(together, sum(&counts(&first, rule), &counts(&second, rule)));
    }

    #[test]
    fn the_order_of_words_does_not_matter(rule in rule(), texts in vec(text(), 0..5)) {
        let forward = texts.join("\n");
        let backward = texts.iter().rev().map(String::as_str).collect::<Vec<_>>().join("\n");
        prop_assert_eq!(counts(&forward, rule), counts(&backward, rule));
    }

    #[test]
    fn an_embedding_has_length_one_or_is_zero(rule in rule(), text in text()) {
        let row = counts(&text, rule);
        let squares: f64 =
            embed(&text, rule).map(|(_, value)| f64::from(value).powi(2)).sum();
        prop_assert_eq!(squares > 0.0, !row.is_zero());
        prop_assert!(row.is_zero() || (squares - 1.0).abs() < 1e-6, "{}", squares);
    }

    #[test]
    fn a_bucket_is_the_hash_modulo_4096(word in any::<String>()) {
        prop_assert_eq!(u64::from(HashRule::Xxh3.bucket(&word)), word_hash(&word) % 4096);
    }

    #[test]
    fn codes_give_back_their_row(row in row()) {
        prop_assert_eq!(SparseRow::from_codes(row.codes().to_vec()).unwrap(), row);
    }

    #[test]
    fn codes_are_refused_or_are_those_of_a_row(codes in vec(any::<u16>(), 0..4)) {
        if let Ok(row) = SparseRow::from_codes(codes.clone()) {
            let rebuilt: SparseRow = row.iter().collect();
            prop_assert_eq!(rebuilt.codes(), &codes[..]);
        }
    }

    #[test]
    fn dots_are_symmetric_and_bounded(first in row(), second in row()) {
        let dot = first.dot(&second);
        prop_assert_eq!(dot, second.dot(&first));
        prop_assert_eq!(first.dot(&first), first.squared_norm());
        let (dot, bound) = (u128::from(dot), u128::from(first.squared_norm()));
        prop_assert!(dot * dot <= bound * u128::from(second.squared_norm())); // Cauchy-Schwarz
    }

    #[test]
    fn dots_are_those_of_dense_vectors(first in row(), second in row()) {
        let mut dense = vec![0_u64; 4096];
        for (bucket, count) in second.iter() {
            dense[usize::from(bucket)] = u64::from(count);
        }
        let expected: u64 =
            first.iter().map(|(bucket, count)| u64::from(count) * dense[usize::from(bucket)]).sum();
        prop_assert_eq!(first.dot(&second), expected);
    }

    #[test]
    fn the_best_are_the_head_of_the_sorted_list(
        items in vec(0_u8..20, 0..200),
        limit in prop_oneof![0_usize..12, 60_usize..150],
    ) {
        let mut best = TopK::new(limit);
        let mut sorted: Vec<(u8, usize)> = items.into_iter().zip(0..).collect();
        for &item in &sorted {
            best.offer(item);
        }
        sorted.sort_unstable_by(|a, b| b.cmp(a));
        sorted.truncate(limit);
        prop_assert_eq!(best.into_best_first(), sorted);
    }

    #[test]
    fn sizes_are_those_that_the_standard_library_counts(text in text()) {
        let size = TextSize::of(text.as_bytes());
        prop_assert_eq!((size.bytes, size.code_points), (text.len(), text.chars().count()));
    }

    #[test]
    fn the_size_of_a_json_string_is_that_of_the_string_written_out(text in text()) {
        // serde_json escapes as Python does when it need not write ASCII.
        let written = serde_json::to_string(&text).unwrap();
        let size = string_size(text.as_bytes());
        prop_assert_eq!((size.bytes, size.code_points), (written.len(), written.chars().count()));
    }
}

fn begins_with_mark(word: &str) -> bool {
    word.chars()
        .next()
        .is_some_and(|c| classify(c) == Class::Mark)
}
