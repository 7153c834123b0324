"""A regular expression that is compiled late is one that was compiled at once."""

from __future__ import annotations

import copy
import pickle
import re

from siltstone.patterns import pattern


def test_nothing_is_compiled_before_it_is_used(monkeypatch):
    made = []
    monkeypatch.setattr(re, "compile", lambda *given: made.append(given) or _compile(*given))
    late = pattern(r"(?P<word>[a-z]+)-(\d+)", re.IGNORECASE)
    assert made == []
    assert late.search("see Silt-17")["word"] == "Silt"
    assert made == [(r"(?P<word>[a-z]+)-(\d+)", re.IGNORECASE)]
    assert late.search("none") is None
    assert len(made) == 1  # what was asked for once is kept


_compile = re.compile


def test_it_does_what_the_compiled_one_does():
    late, known = pattern(r"(a)|(?:b)", re.MULTILINE), re.compile(r"(a)|(?:b)", re.MULTILINE)
    text = "xaxb\nab"
    assert [each.span() for each in late.finditer(text)] == [each.span() for each in known.finditer(text)]
    assert late.sub("-", text) == known.sub("-", text)
    assert late.split(text) == known.split(text)
    assert late.findall(text) == known.findall(text)
    assert late.match("b").span() == known.match("b").span()
    assert late.fullmatch("ab") is None
    assert (late.pattern, late.flags, late.groups) == (known.pattern, known.flags, known.groups)
    assert repr(late) == repr(known)


def test_it_is_copied_and_pickled():
    late = pattern("[a-z]+")
    assert copy.deepcopy(late).match("abc")[0] == "abc"
    assert pickle.loads(pickle.dumps(late)).match("abc")[0] == "abc"
