"""The words, values and subject of a short text, by which facts are compared."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["conflicting", "contains_half", "gives_up", "jaccard", "says_change", "subject", "values", "words"]

_WORD: Final = re.compile(r"[^\W_]+(?:[._/:@-][^\W_]+)*")
_STOP: Final = frozenset(
    [
        "a",
        "an",
        "the",
        "is",
        "are",
        "was",
        "were",
        "be",
        "been",
        "being",
        "to",
        "of",
        "in",
        "on",
        "at",
        "by",
        "for",
        "from",
        "with",
        "and",
        "or",
        "not",
        "no",
        "it",
        "its",
        "this",
        "that",
        "these",
        "those",
        "as",
        "we",
        "i",
        "you",
        "they",
        "he",
        "she",
        "our",
        "my",
        "your",
        "their",
        "has",
        "have",
        "had",
        "will",
        "would",
        "should",
        "must",
        "can",
        "could",
        "do",
        "does",
        "did",
        "now",
        "instead",
        "always",
        "never",
        "please",
        "also",
        "then",
        "there",
        "here",
        "than",
        "via",
        "into",
        "onto",
        "over",
        "under",
        "use",
        "uses",
        "used",
        "using",
        "set",
        "sets",
        "switch",
        "switched",
        "switches",
        "change",
        "changed",
        "move",
        "moved",
        "run",
        "runs",
        "running",
        "make",
        "made",
        "go",
        "went",
        "get",
        "got",
        "keep",
        "kept",
        "prefer",
        "prefers",
        "add",
        "added",
        "remove",
        "removed",
        "choose",
        "chose",
        "chosen",
        "decide",
        "decided",
        "replace",
        "replaced",
        "new",
        "old",
        "user",
        "users",
        "user's",
    ]
)
_CHANGE: Final = re.compile(
    r"\b(instead of|instead|switched|switch(?:ing)? to|no longer|now|moved to|changed to|replaced|replaces|"
    r"migrated|renamed|not anymore|any more|anymore|rather than|deprecated)\b|改为|换成|不再|改用|现在|替换",
    re.IGNORECASE,
)
_GIVEN_UP: Final = re.compile(
    r"\b(?:instead of|rather than|no longer|not|moved from|switched from|away from|replac(?:ed|es|ing))\s+"
    r"(?:use |using |the |on |in )*([^\W_]+)",
    re.IGNORECASE,
)
_VALUE: Final = re.compile(
    r"""(?P<quoted>"[^"\n]+"|'[^'\n]+'|`[^`\n]+`)"""
    r"""|(?P<url>\b[a-z][a-z0-9+.-]*://\S+)"""
    r"""|(?P<address>\b[\w.+-]+@[\w-]+\.\w[\w.-]*)"""
    r"""|(?P<path>(?<![\w/])(?:~|\.{1,2})?/[\w.@-]+(?:/[\w.@-]+)*/?)"""
    r"""|(?P<version>\bv?\d+(?:\.\d+)+\b)"""
    r"""|(?P<number>(?<![\w.])\d+(?:[.,]\d+)?%?(?![\w.]*\w))""",
    re.IGNORECASE,
)


def words(text: str) -> frozenset[str]:
    """The words of *text* in lower case, as the documented overlap splits it: at white space."""
    return frozenset(text.lower().split())


def jaccard(one: str, other: str) -> float:
    """The documented overlap: shared words over all words, 0..1; 0 for two empty texts."""
    left, right = words(one), words(other)
    union = len(left | right)
    return len(left & right) / union if union else 0.0


def contains_half(new: str, old: str) -> bool:
    """Whether *new* has more than half of the words of *old*."""
    known = words(old)
    return bool(known) and len(known & words(new)) * 2 > len(known)


def values(text: str) -> frozenset[str]:
    """The numbers, paths, versions, addresses and quoted texts in *text*."""
    return frozenset(found.group().strip("\"'`").rstrip(".,;").lower() for found in _VALUE.finditer(text))


def conflicting(one: str, other: str) -> bool:
    """Whether both texts have values, and each has one that the other lacks."""
    left, right = values(one), values(other)
    return bool(left and right) and not left <= right and not right <= left


def subject(text: str) -> str:
    """The first word of content, in lower case; empty where there is none."""
    for found in _WORD.finditer(text.lower()):
        word = found.group()
        if word not in _STOP and not word.isdigit():
            return word
    return ""


def gives_up(text: str) -> frozenset[str]:
    """The words that *text* gives up: those behind "instead of", "no longer", "moved from"."""
    return frozenset(found[1].lower() for found in _GIVEN_UP.finditer(text))


def says_change(text: str) -> bool:
    """Whether *text* has a word of change: "instead of", "switched", "no longer", "now", "moved to"."""
    return _CHANGE.search(text) is not None
