"""A text is found in another one, however deep JSON has it."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import example, given, strategies as st

from siltstone.messages.text import DEEPEST, holds
from strategies import texts

KEY = '-----BEGIN KEY-----\nMII"q\\B/\té\U0001f511\n-----END KEY-----\n'


def nested(text: str, depth: int, *, ascii_only: bool) -> str:
    for _ in range(depth):
        text = json.dumps({"key": text}, ensure_ascii=ascii_only)
    return text


@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize("depth", range(DEEPEST + 1))
@pytest.mark.parametrize(
    "around",
    [
        "{}",
        "```json\n{}\n```",
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{}",
        '{{"a": 1}}\n{}\n{{"b": "\\ud83d"}}\n',
        "row 1: {} and C:\\new\\u",
        "unclosed: \"{}",
    ],
    ids=["alone", "fence", "headers", "lines", "row", "broken"],
)  # fmt: skip
def test_json_is_read_in_any_text_to_the_depth_that_is_promised(
    around: str, depth: int, ascii_only: bool
) -> None:
    text = around.format(nested(KEY, depth, ascii_only=ascii_only))
    assert holds(text, KEY)
    assert not holds(text, KEY.replace("MII", "MIJ"))


def test_deeper_than_that_it_is_not_read() -> None:
    assert not holds(nested(KEY, DEEPEST + 1, ascii_only=True), KEY)


@pytest.mark.parametrize(
    "written",
    [r"J\u00f6rg", r"J\u00F6rg", r"\u004A\u00f6r\u0067", r"{\"a\": \"J\\u00f6rg\"}", r"J\\\\u00F6rg"],
)
def test_escapes_of_either_case_are_read(written: str) -> None:
    assert holds(written, "Jörg")
    assert holds(r"\ud83d\udd11 \uD83D\uDD11", "\U0001f511 \U0001f511")


def test_what_is_no_json_is_not_read() -> None:
    assert not holds(base64.b64encode(KEY.encode()).decode(), KEY)
    assert not holds("J%C3%B6rg J&ouml;rg J\\xf6rg", "Jörg")
    assert holds("C:\\new\\table", "C:\\new\\table")
    assert not holds("abc", "abd")


@given(texts(min_size=1), texts(), texts(), st.integers(0, DEEPEST), st.booleans())
@example("\ud83d", "", "", 2, True)
def test_whatever_is_written_as_json_is_found(
    sought: str, before: str, after: str, depth: int, ascii_only: bool
) -> None:
    paired = sought.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    assert holds(before + nested(f"<{sought}>", depth, ascii_only=ascii_only) + after, paired)
