//! Shortens results of tools by their structure alone: nothing is rephrased.
//!
//! Lines that the reader has seen already become a reference, repeated lines are counted, and parts that are equal
//! in every row are written once. Time is linear in the text and in the earlier results.

mod lines;
mod seen;
mod tables;

use lines::Writer;
pub use seen::Earlier;
use seen::Seen;

/// `text`, shortened where its structure allows; otherwise unchanged.
///
/// The steps, in this order: Arrays (or lines) of JSON objects with the same keys become rows under one line of
/// keys, and other JSON loses its white space. Lines that one of the `earlier` results has become a reference to
/// it; the latest result wins. An unchanged stretch of a diff, and a run of lines that differ only in numbers, keep
/// only their first and last line. A path that several lines begin with is written once. Inline base64, colour
/// escapes, padding and blank lines are cut.
///
/// ```
/// use siltstone_core::condense::{Earlier, condense};
///
/// let log = "start\nstep 1 ok\nstep 2 ok\nstep 3 ok\nstep 4 ok\nstep 5 ok\nend";
/// let short = condense(log, &[]);
/// assert_eq!(short, "start\nstep 1 ok\n[… 3 lines like it …]\nstep 5 ok\nend");
/// let file = "fn main() {\n    let silt = stone();\n    println!(\"{silt}\");\n}\n".repeat(4);
/// let seen = [Earlier { handle: "m7", text: &file }];
/// assert_eq!(condense(&file, &seen), "[lines 1-17 as in m7, lines 1-17]");
/// ```
#[must_use]
pub fn condense(text: &str, earlier: &[Earlier<'_>]) -> String {
    let tabled = tables::written(text);
    let lines = lines::lines(&tabled);
    let mut writer = Writer::new(&tabled);
    let mut at = 0;
    if !earlier.is_empty() {
        let seen = Seen::of(earlier);
        let keys = seen::keys(&lines);
        let mut own = 0; // the first line that is not written yet
        while at < lines.len() {
            let Some(found) = seen.longest(&keys, &lines, at) else {
                at += 1;
                continue;
            };
            writer.write(&lines[own..at]);
            writer.refer(at, &found);
            at += found.length;
            own = at;
        }
        at = own;
    }
    writer.write(&lines[at..]);
    writer.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alone(text: &str) -> String {
        condense(text, &[])
    }

    #[test]
    fn a_plain_text_stays_as_it_is() {
        for text in [
            "",
            "\n",
            "one",
            "one\ntwo\n",
            "  a  b",
            "let x = [1, 2];\n    y()\n",
        ] {
            assert_eq!(alone(text), text);
        }
    }

    #[test]
    fn rows_of_json_have_their_keys_once() {
        let array = r#"{"rows": [{"id": 1, "name": "a, \"b\""}, {"id": 2, "name": "c"}, {"id": 3, "name": null}]}"#;
        let said = alone(array);
        assert!(
            said.contains("[3 rows of id | name]\n1 | \"a, \\\"b\\\"\"\n2 | \"c\"\n3 | null"),
            "{said}"
        );
        let lines = "{\"a\":1,\"b\":[1,2]}\n{\"a\":2,\"b\":[]}\n{\"a\":3,\"b\":{}}\nend";
        assert_eq!(
            alone(lines),
            "[3 rows of a | b]\n1 | [1,2]\n2 | []\n3 | {}\nend"
        );
    }

    #[test]
    fn rows_of_other_keys_are_no_table() {
        let text = r#"[{"a":1},{"b":2},{"a":3}]"#;
        assert_eq!(alone(text), text);
        let cut = r#"[{"a":1},{"a":2},{"a":3},{"a":"#;
        assert_eq!(alone(cut), cut);
    }

    #[test]
    fn json_loses_the_white_space_around_its_values_and_no_other() {
        let pretty = "{\n  \"a\": \"x  y\",\n  \"b\": [\n    1,\n    2\n  ]\n}";
        assert_eq!(alone(pretty), r#"{"a":"x  y","b":[1,2]}"#);
    }

    #[test]
    fn of_a_run_of_log_lines_the_first_and_the_last_stay() {
        let same = "warning: unused\n".repeat(9);
        assert_eq!(alone(&same), "warning: unused\n[× 9]\n");
        let figures = "1.5 2.5\n3.5 4.5\n5.5 6.5\n7.5 8.5\n9.5 1.5";
        assert_eq!(alone(figures), figures);
    }

    #[test]
    fn of_an_unchanged_stretch_of_a_diff_the_first_and_the_last_line_stay() {
        let diff = "@@ -1,9 +1,9 @@\n one\n two x\n three y\n four z\n five\n-old\n+new\n six";
        let said = "@@ -1,9 +1,9 @@\n one\n[… 3 unchanged lines …]\n five\n-old\n+new\n six";
        assert_eq!(alone(diff), said);
    }

    #[test]
    fn a_path_that_lines_begin_with_is_said_once() {
        let found =
            "lib/web/live.ex:1:use A\nlib/web/live.ex:9:use B\nlib/web/live.ex:12:use C\nend";
        let said = "[3 lines after \"lib/web/live.ex:\"]\n1:use A\n9:use B\n12:use C\nend";
        assert_eq!(alone(found), said);
    }

    #[test]
    fn inline_data_colours_padding_and_blank_lines_are_cut() {
        let data = format!("src=\"data:image/png;base64,{}\"", "iVBORw0K".repeat(80));
        assert_eq!(
            alone(&data),
            "src=\"data:image/png;base64,[640 characters of base64]\""
        );
        assert_eq!(alone("\u{1b}[31mred\u{1b}[0m end"), "red end");
        assert_eq!(
            alone("a        b     c\n\n\n\n\nc\n----------------"),
            "a  b  c\n\n\nc\n----"
        );
        assert_eq!(alone("     1→x\n     2→     y"), "1→x\n2→     y");
        for code in [
            "    x = f(a,   b)",
            "a.py:12:      return   x",
            "12→      return   x",
            "+      return   x",
            "\t     y     z",
        ] {
            assert_eq!(alone(code), code);
        }
    }

    #[test]
    fn what_was_seen_is_found_whatever_its_line_numbers() {
        let body: Vec<String> = (0..30)
            .map(|n| format!("let value_{n} = compute({n});"))
            .collect();
        let first = body.join("\n");
        let again: Vec<String> = body
            .iter()
            .enumerate()
            .map(|(n, line)| format!("{:>6}→{line}", n + 1))
            .collect();
        let seen = [Earlier {
            handle: "m3",
            text: &first,
        }];
        assert_eq!(
            condense(&again.join("\n"), &seen),
            "[lines 1-30 as in m3, lines 1-30]"
        );
    }

    #[test]
    fn no_text_becomes_longer_than_a_few_words() {
        let cases = [
            "[{",
            "{}",
            "[[[[",
            "@@ \n \n \n \n ",
            "a/\na/\na/\n",
            "\u{1b}[",
            "→→→",
            "\"\\",
        ];
        for text in cases {
            assert!(alone(text).len() <= text.len() + 64, "{text:?}");
        }
    }
}
