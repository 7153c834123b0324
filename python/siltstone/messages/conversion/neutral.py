"""The neutral form of messages between two dialects, and the record of losses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from siltstone.messages.message import RawMessage

__all__ = ["Block", "Call", "Losses", "Media", "Neutral", "Result", "Text", "data_url", "from_url"]

Speaker: TypeAlias = Literal["system", "developer", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class Text:
    """A text."""

    text: str


@dataclass(frozen=True, slots=True)
class Media:
    """An image, a sound or a document: its base64 data, its URL, or its file id at the provider."""

    kind: Literal["image", "audio", "document"]
    data: str = ""
    media_type: str = ""
    url: str = ""
    file_id: str = ""
    name: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call, with the position of its message; *free* if its arguments are plain text, not JSON."""

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
    """One message: its role and its blocks; *raw* is the original, if both dialects can share it."""

    place: int
    role: Speaker
    blocks: tuple[Block, ...]
    raw: RawMessage | None = None


class Losses:
    """Records losses: the message, the part, and the reason."""

    def __init__(self) -> None:
        self.found: list[tuple[int, str, str]] = []

    def add(self, place: int, part: str, why: str) -> None:
        """Records one loss."""
        self.found.append((place, part, why))

    def leftover(self, place: int, part: str, fields: Mapping[str, Any], known: Iterable[str]) -> None:
        """Records a loss for every key of *fields* with a value that is not among the *known* keys."""
        known = set(known)
        for key, value in fields.items():
            if key not in known and value not in (None, [], {}, ""):
                self.add(place, f"{part}{key}", "no other dialect has this field")


def data_url(media: Media) -> str:
    """The URL of *media*; a data URL if the media are inline."""
    return f"data:{media.media_type};base64,{media.data}" if media.data else media.url


def from_url(url: str) -> dict[str, str]:
    """The fields of a :class:`Media` from a URL: type and data of a data URL, else the URL."""
    head, comma, data = url.partition(",")
    if url.startswith("data:") and comma and head.endswith(";base64"):
        return {"media_type": head[len("data:") : -len(";base64")], "data": data}
    return {"url": url}
