//! Reads a message that is a role and a text, which most messages are.

use std::borrow::Cow;

/// The roles of such messages that are the same in every dialect.
const ROLES: [&str; 3] = ["user", "assistant", "system"];

/// The digits of an escape such as `\u001f`.
const DIGITS: usize = 4;

/// A message that has a role and a text, and nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said<'a> {
    /// The role of the speaker: `user`, `assistant` or `system`.
    pub role: &'static str,
    /// The text.
    pub text: Cow<'a, str>,
    /// Whether the role stands before the text.
    pub is_role_first: bool,
}

/// The message in compact JSON; `None` if it is another one, is written in another way, or has lone surrogates.
#[must_use]
pub fn said(json: &str) -> Option<Said<'_>> {
    let fields = json.strip_prefix('{')?.strip_suffix('}')?;
    let first = fields.strip_prefix(r#""role":""#);
    let (role, literal) = if let Some(rest) = first {
        rest.split_once(r#"","content":"#)?
    } else {
        let rest = fields.strip_prefix(r#""content":"#)?;
        let (literal, role) = rest.strip_suffix('"')?.rsplit_once(r#","role":""#)?;
        (role, literal)
    };
    Some(Said {
        role: ROLES.into_iter().find(|&known| known == role)?,
        text: text(literal)?,
        is_role_first: first.is_some(),
    })
}

/// The text of a string literal; `None` if it is anything else, or names a surrogate.
fn text(literal: &str) -> Option<Cow<'_, str>> {
    let mut rest = literal.strip_prefix('"')?.strip_suffix('"')?;
    let special = |byte: u8| u8::from(byte == b'"' || byte == b'\\' || byte < b' ');
    if rest.bytes().fold(0, |any, byte| any | special(byte)) == 0 {
        return Some(Cow::Borrowed(rest));
    }
    let mut text = String::with_capacity(rest.len());
    while let Some(at) = rest.bytes().position(|byte| special(byte) != 0) {
        let (plain, escaped) = rest.split_at(at);
        text.push_str(plain);
        let mut points = escaped.strip_prefix('\\')?.chars();
        let point = match points.next()? {
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'u' => {
                let (code, behind) = points.as_str().split_at_checked(DIGITS)?;
                points = behind.chars();
                code_point(code)?
            }
            point @ ('"' | '\\' | '/') => point,
            _ => return None,
        };
        text.push(point);
        rest = points.as_str();
    }
    text.push_str(rest);
    Some(Cow::Owned(text))
}

/// The text of the string literal with which `json` begins; `None` if it begins with anything else, or names a
/// surrogate.
pub(crate) fn first_string(json: &str) -> Option<Cow<'_, str>> {
    let bytes = json.as_bytes();
    let mut end = 1;
    loop {
        let rest = bytes.get(end..)?;
        end += rest
            .iter()
            .position(|&byte| byte == b'"' || byte == b'\\')?
            + 1;
        if bytes[end - 1] == b'"' {
            return text(&json[..end]);
        }
        end += 1; // the escaped byte
    }
}

/// The code point of four hexadecimal digits.
fn code_point(digits: &str) -> Option<char> {
    let is_number = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let code = u32::from_str_radix(digits, 16).ok().filter(|_| is_number)?;
    char::from_u32(code)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::json::write_string;

    #[test]
    fn a_text_is_read_in_both_orders_of_the_fields() {
        let first = said(r#"{"role":"user","content":"a\n\u00e9 \\ \/\u001F"}"#).unwrap();
        assert_eq!((first.role, &*first.text), ("user", "a\né \\ /\u{1f}"));
        assert!(first.is_role_first);
        let second = said(r#"{"content":"a, \"role\":\"user\"","role":"system"}"#).unwrap();
        assert_eq!(
            (second.role, &*second.text),
            ("system", r#"a, "role":"user""#)
        );
        assert!(!second.is_role_first);
    }

    #[test]
    fn any_other_message_is_left_to_others() {
        for other in [
            "",
            "{}",
            "[]",
            r#"{"role":"user"}"#,
            r#"{"role":"user","content":null}"#,
            r#"{"role":"user","content":[{"type":"text","text":"a"}]}"#,
            r#"{"role":"tool","content":"a"}"#,
            r#"{"role":"us\u0065r","content":"a"}"#,
            r#"{"role":"user","content":"a","name":"b"}"#,
            r#"{"role":"user","name":"b","content":"a"}"#,
            r#"{"content":"a","name":"b","role":"user"}"#,
            r#"{"content":1,"role":"user"}"#,
            r#"{"role":"user","content":"\ud800"}"#,
            r#"{"role":"user","content":"\ud83d\ude00"}"#,
            r#"{"role":"user","content":"\u+123"}"#,
            r#"{"role":"user","content":"\u00é"}"#,
            r#"{"role":"user","content":"\x"}"#,
            r#"{"role":"user","content":"\"}"#,
            r#"{"role":"user","content":"a"b"}"#,
            "{\"role\":\"user\",\"content\":\"a\nb\"}",
            r#"{"role":"user", "content":"a"}"#,
            r#"{"role":"user","content":"a"} "#,
        ] {
            assert_eq!(said(other), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(text in any::<String>(), is_role_first: bool) {
            let mut literal = String::new();
            write_string(&text, &mut literal);
            let json = if is_role_first {
                format!(r#"{{"role":"assistant","content":{literal}}}"#)
            } else {
                format!(r#"{{"content":{literal},"role":"assistant"}}"#)
            };
            let beginning = format!("{literal}, {literal}");
            prop_assert_eq!(first_string(&beginning), Some(Cow::Borrowed(&*text)));
            let expected = Said { role: "assistant", text: Cow::Owned(text), is_role_first };
            prop_assert_eq!(said(&json), Some(expected));
        }
    }
}
