"""How the score of a hit came about, in lines: what it is made of, and what each part is worth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

__all__ = ["explained"]

#: Parts that change nothing at these values, and are left out then.
_NEUTRAL: Final[Mapping[str, float]] = {"day": 0.0, "speaker": 1.0, "decay": 1.0, "passages": 1}
_APART: Final = ("terms", "neighbors", "score", "own", "passage", "passages")
_NAME: Final = 10  #: columns of the name of a part
_LEAST: Final = 0.0005  #: what a neighbour adds at least, to be told of


def explained(explain: Mapping[str, Any]) -> Iterator[str]:
    """The parts of a score, a line each: the words of the query, what is beside the entry, and the rest."""
    for term in explain.get("terms", ()):
        yield _line(term["term"], term.get("score"), _of_term(term))
    beside = [each for each in explain.get("neighbors", ()) if each["score"] >= _LEAST]
    if beside:
        said = ", ".join(f"{each['place']:+d} {each['score']:.3f}" for each in beside)
        yield _line("beside it", sum(each["score"] for each in beside), said)
    for name, value in explain.items():
        if name not in _APART and value is not None and value != _NEUTRAL.get(name):
            yield _line(name.replace("_", " "), value)
    if explain.get("passages", 1) != 1:
        yield f"the best of its {explain['passages']} passages: number {explain['passage'] + 1}"
    if "score" in explain:
        yield _line("score", explain["score"])


def _line(name: str, value: Any, said: str = "") -> str:
    figure = f"{value:.3f}" if isinstance(value, float) else "" if value is None else str(value)
    return f"{name:<{_NAME}}  {figure:>5}  {said}".rstrip()


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
