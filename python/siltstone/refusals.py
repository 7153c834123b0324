"""Which errors of providers say that a request was too large, and the numbers that they name.

The table is ``refusals.tsv``, beside this file: the first row that fits an error decides, and each row names
where its words were seen. :func:`add_row` puts a row of your own above all others.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast

from siltstone.errors import ContextOverflowError, refuse

Kind: TypeAlias = Literal["tokens", "bytes", "other"]
"""Too many tokens, too many bytes, or a refusal that no smaller request helps against."""

_DIGITS: Final = r"\d+(?:[,._\u00a0\u202f ]\d{3}(?!\d))*(?:\.\d+)?"
_NUMBER: Final = rf"{_DIGITS}[kKmM]?\b"
_PLACES: Final = ("LIMIT", "COUNT", "ANSWER", "TOTAL")


@dataclass(frozen=True)
class Row:
    """A row of the table. It fits an error that fits each of its columns that are not empty.

    Attributes:
        kind: What such an error says.
        source: Who says so, and where that can be read.
        text: A regular expression for the words, in any case. ``LIMIT``, ``COUNT``, ``ANSWER`` and ``TOTAL``
            in it stand for numbers: the largest request, the tokens of this one's input, those that it wants
            for its answer, and both together.
        code: Codes or types, separated by blanks. Each is also known as a word of the text.
        class_name: Names of exception classes, in the same way; a subclass counts.
        status: The HTTP status.
    """

    kind: Kind
    source: str
    text: str = ""
    code: str = ""
    class_name: str = ""
    status: int | None = None

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The compiled *text*."""
        text = self.text
        for place in _PLACES:
            text = text.replace(place, f"(?P<{place.lower()}>{_NUMBER})", 1)
            text = text.replace(place, f"(?P={place.lower()})")  # the same number again
        return re.compile(text, re.IGNORECASE | re.DOTALL)

    @cached_property
    def names(self) -> frozenset[str]:
        """The codes and the class names."""
        return frozenset((*self.code.split(), *self.class_name.split()))

    def fits(self, said: _Said) -> bool:
        """Whether the row fits an error."""
        return (
            (self.status is None or self.status == said.status)
            and (not self.names or not self.names.isdisjoint(said.names))
            and (not self.text or self.pattern.search(said.text) is not None)
        )


class Refusal(NamedTuple):
    """A refusal of a request that was too large.

    Attributes:
        kind: ``tokens`` or ``bytes``.
        source: The source of the row that decided.
        limit: The largest request, in the provider's tokens or in bytes; None if the error does not tell.
        sent: The tokens or bytes of the refused request, without its answer if the error tells both apart.
        answer: The tokens that it wanted for its answer.
        total: Both together.
    """

    kind: Kind
    source: str
    limit: int | None = None
    sent: int | None = None
    answer: int | None = None
    total: int | None = None


# -- The table ------------------------------------------------------------------------------------------

_TABLE: Final = "refusals.tsv"


@cache
def rows() -> list[Row]:
    """The table, read once."""
    words, found = dict[str, str](), list[Row]()
    for line in Path(__file__).with_name(_TABLE).read_text("utf-8").splitlines():
        columns = line.split("\t")
        if line.startswith("="):
            words[columns[0][1:]] = columns[1]
        elif not line.startswith("#"):
            kind, status, code, class_name, text, source = columns
            text = re.sub("|".join(words), lambda word: words[word[0]], text)
            found.append(Row(cast("Kind", kind), source, text, code, class_name, int(status or 0) or None))
    return found


def add_row(row: Row) -> None:
    """Puts *row* above all others, for a provider whose words the table does not have.

    ::

        add_row(Row("tokens", "our gateway", r"prompt of COUNT tokens, at most LIMIT"))

    Raises:
        ConfigError: *row* is no row, or has nothing to compare an error with.
    """
    if not isinstance(row, Row) or not (row.text or row.names or row.status):
        refuse("row", "a Row with a text, a code, a class name or a status", row)
    rows().insert(0, row)


# -- Reading an error -----------------------------------------------------------------------------------

_MOST_CAUSES: Final = 8  # links of the chain of causes that are looked at
_STATUS: Final = re.compile(
    r"(?:^|error(?: code)?:? |status(?: code)?:? |HTTP |\()([45]\d\d)\b", re.IGNORECASE
)
_WORD: Final = re.compile(r"\b[A-Za-z]\w{7,}\b|(?<=code\":\")\d{4}\b|(?<=code': ')\d{4}\b")
_LINK: Final = re.compile(r"https?://\S+")
_ALONE: Final = re.compile(rf"(?<![\w.\-/:\[]){_DIGITS}(?: ?[KMG]i?B\b|[km]\b|\b)(?![\w\-/:])", re.IGNORECASE)
_OF_LIMIT: Final = r"(?:max|limit|window|length|allowed|only|<=|up to|at most|than|exceed)\D{0,40}$"
_NO_SIZE: Final = re.compile(
    r"(?:code|status)\W{0,6}$|context window exceeds limit \($|\bby $", re.IGNORECASE
)
_MOST: Final = 10**12  # a larger number is no size
_LEAST: Final = 256  # a smaller number is a code, or a count of something else
_UNITS: Final = {"k": 1_000, "m": 1_000_000, "g": 1_000_000_000}


class _Said(NamedTuple):
    text: str
    names: frozenset[str]
    status: int | None


def refusal_of(error: BaseException | str) -> Refusal | None:
    """What *error* says of the size of its request; None if that was not too large.

    Args:
        error: The exception of the provider's SDK, or its message. The causes of an exception are looked at
            too, since frameworks wrap exceptions.
    """
    found: Refusal | None = None
    link: Any = error
    for _ in range(_MOST_CAUSES):
        if link is None or isinstance(link, ContextOverflowError) or (found and found.limit):
            break
        said = _said(link)
        row = next((row for row in rows() if row.fits(said)), None)
        if found is None and row is not None and row.kind == "other":
            return None
        if row is not None and (found is None or row.kind == found.kind):
            found = Refusal(row.kind, row.source, *_numbers(row.kind, said))
        link = getattr(link, "__cause__", None)
    return found


def _said(link: BaseException | str) -> _Said:
    text = _LINK.sub("", str(link))
    names, status = set(_WORD.findall(text)), None
    if not isinstance(link, str):
        names |= {kind.__name__ for kind in type(link).__mro__}
        response: Any = getattr(link, "response", None)
        body: Any = getattr(link, "body", None)
        told = response.get("Error", {}) if isinstance(response, dict) else {}
        if isinstance(body, dict):
            told = {**told, **(body["error"] if isinstance(body.get("error"), dict) else body)}
        codes = [getattr(link, "code", None), getattr(link, "type", None), *told.values()]
        names |= {str(code) for code in codes if isinstance(code, str | int)}
        text = " ".join([text, *(str(told[key]) for key in ("message", "Message") if key in told)])
        statuses = [getattr(of, key, None) for of in (link, response) for key in ("status_code", "status")]
        status = next((each for each in statuses if type(each) is int), None)
    if status is None and (named := _STATUS.search(text)):
        status = int(named[1])
    return _Said(text, frozenset(names), status)


def _numbers(kind: Kind, said: _Said) -> tuple[int | None, ...]:
    """Limit, size, answer and total; None for what the text does not name, or what cannot be."""
    for row in rows():
        if row.kind == kind and "LIMIT" in row.text and (match := row.pattern.search(said.text)):
            found = {name: _number(text) for name, text in match.groupdict().items() if text}
            if "limit" in found:
                break
    else:
        found = _alone(said)
    limit, answer, total = found.get("limit"), found.get("answer"), found.get("total")
    sent = found.get("count", total)
    if sent is None and len(numbers := _alone(said)) == 2 and limit in numbers.values():
        sent = max(numbers.values())
    if total is None and sent is not None:
        total = sent + (answer or 0)
    if not limit or not limit < (total or _MOST) < _MOST + 1:
        return None, None, None, None
    return limit, sent, answer, total


def _alone(said: _Said) -> dict[str, int]:
    """Of two numbers the smaller one is the limit; one alone is, if the words before it say so."""
    places = {
        _number(match[0]): match.start()
        for match in _ALONE.finditer(said.text)
        if not _NO_SIZE.search(said.text[: match.start()])
    }
    found = sorted(number for number in places if number >= _LEAST and number != said.status)
    if not re.search(r"token|context|length|byte|size|char|\d ?[KMG]i?B\b", said.text, re.IGNORECASE):
        return {}
    if len(found) == 2:
        return {"limit": found[0], "count": found[1]}
    before = said.text[: places[found[0]]] if len(found) == 1 else ""
    return {"limit": found[0]} if re.search(_OF_LIMIT, before, re.IGNORECASE) else {}


def _number(text: str) -> int:
    """The number that *text* spells: ``128,000``, ``128k``, ``32 MB``, ``11893.0``."""
    digits = re.sub(r"[,._\u00a0\u202f ](?=\d{3}(?!\d))", "", text.rstrip("BbiI").strip())
    unit = _UNITS.get(digits[-1].lower(), 1)
    return int(float(re.match(r"[\d.]+", digits)[0]) * unit)  # type: ignore[index]  # it begins with a digit
