"""The parts of the score of a hit, with the value of each part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["ScorePart", "explained", "score_parts"]

#: Parts that change nothing at these values, and are left out then.
_NEUTRAL: Final[Mapping[str, float]] = {"day": 0.0, "speaker": 1.0, "decay": 1.0, "passages": 1}
_APART: Final = ("terms", "neighbors", "score", "own", "passage", "passages")
_NAME: Final = 10  #: columns of the name of a part
_LEAST: Final = 0.0005  #: the least addend of a neighbour that is listed


@dataclass(frozen=True, slots=True)
class ScorePart:
    """A part of a score.

    Attributes:
        name: A word of the query, or the name of another part.
        value: Its share of the score; None if the part is no number.
        said: A remark on the part.
        is_term: Whether it is a word of the query.
    """

    name: str
    value: float | None
    said: str = ""
    is_term: bool = False


def score_parts(explain: Mapping[str, Any]) -> Iterator[ScorePart]:
    """The parts of a score: the words of the query, the neighbours of the entry, the rest, and the sum."""
    for term in explain.get("terms", ()):
        yield ScorePart(term["term"], term.get("score"), _of_term(term), is_term=True)
    beside = [each for each in explain.get("neighbors", ()) if each["score"] >= _LEAST]
    if beside:
        said = ", ".join(f"{_place(each['place'])} {each['score']:.3f}" for each in beside)
        yield ScorePart("beside it", sum(each["score"] for each in beside), said)
    for name, value in explain.items():
        if name not in _APART and value is not None and value != _NEUTRAL.get(name):
            known = value if isinstance(value, int | float) else None
            yield ScorePart(name.replace("_", " "), known, "" if known is not None else str(value))
    if explain.get("passages", 1) != 1:
        yield ScorePart(f"passage {explain['passage'] + 1} of {explain['passages']}", None, "fits best")
    if "score" in explain:
        yield ScorePart("score", explain["score"])


def explained(explain: Mapping[str, Any]) -> Iterator[str]:
    """The parts of a score, a line each."""
    for part in score_parts(explain):
        figure = f"{part.value:.3f}" if isinstance(part.value, float) else part.value
        shown = "" if figure is None else figure
        yield f"{part.name:<{_NAME}}  {shown:>5}  {part.said}".rstrip()


def _place(place: int) -> str:
    """Where an entry stands, seen from the one that was found."""
    return f"{abs(place)} {'before' if place < 0 else 'after'}"


def _of_term(term: Mapping[str, Any]) -> str:
    """How often the entry has the word, and how rare it is."""
    fields = term.get("fields")
    told = []
    if isinstance(fields, Mapping):
        told.append(", ".join(f"{count} in {name}" for name, count in fields.items()))
    elif "tf" in term:
        told.append(f"tf {term['tf']}")
    if "idf" in term:
        told.append(f"idf {term['idf']:.2f}")
    known = {"term", "score", "fields", "tf", "idf"}
    told += [f"{name.replace('_', ' ')} {value}" for name, value in term.items() if name not in known]
    return "; ".join(told)
