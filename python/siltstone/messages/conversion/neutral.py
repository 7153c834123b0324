"""The neutral form that a conversion goes through, and the parts that it had to give up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

from siltstone.messages.kinds import RawMessage
from siltstone.values import dataclass

__all__ = ["Block", "Call", "Losses", "Media", "Neutral", "Result", "Text", "data_url", "from_url"]

Speaker: TypeAlias = Literal["system", "developer", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class Text:
    """A text."""

    text: str


@dataclass(frozen=True, slots=True)
class Media:
    """An image, a sound or a document: its base64 data, its address, or the provider's id of it."""

    kind: Literal["image", "audio", "document"]
    data: str = ""
    media_type: str = ""
    url: str = ""
    file_id: str = ""
    name: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool, with the place of its message; *free* where its arguments are any text."""

    place: int
    call_id: str
    name: str
    arguments: str
    free: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """The answer to a call."""

    call_id: str
    blocks: tuple[Text | Media, ...]
    is_error: bool = False
    free: bool = False


Block: TypeAlias = Text | Media | Call | Result


@dataclass(frozen=True, slots=True)
class Neutral:
    """One message: who speaks, and what; *raw* where it may stay the object that it is."""

    place: int
    role: Speaker
    blocks: tuple[Block, ...]
    raw: RawMessage | None = None


class Losses:
    """Takes down what is lost: which message, which part of it, and why."""

    def __init__(self) -> None:
        self.found: list[tuple[int, str, str]] = []

    def add(self, place: int, part: str, why: str) -> None:
        """One loss."""
        self.found.append((place, part, why))

    def leftover(self, place: int, part: str, fields: Mapping[str, Any], known: Iterable[str]) -> None:
        """Every key of *fields* that says something and is not among the *known* ones."""
        known = set(known)
        for key, value in fields.items():
            if key not in known and value not in (None, [], {}, ""):
                self.add(place, f"{part}{key}", "no other dialect has this field")


def data_url(media: Media) -> str:
    """The address of *media*; a data URL where it is inline."""
    return f"data:{media.media_type};base64,{media.data}" if media.data else media.url


def from_url(url: str) -> dict[str, str]:
    """The fields of a :class:`Media` that an address gives."""
    head, comma, data = url.partition(",")
    if url.startswith("data:") and comma and head.endswith(";base64"):
        return {"media_type": head[len("data:") : -len(";base64")], "data": data}
    return {"url": url}
