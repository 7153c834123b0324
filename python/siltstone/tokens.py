"""Estimates the tokens of a text, a message or a history; counts them where a tokenizer is given.

These rules are each a sum of units over messages and one conversion at the end:

``bytes/4``
    Bytes of the JSON text (of the text itself for a str), divided by four, rounded down once. Inline data
    of media is left out, and their own size is added.
``chars/3``
    Code points of the same, divided by three, rounded up once.
``chars/3-utf16``
    UTF-16 units of texts, tool arguments and results, divided by three and rounded up for each message,
    one at least: the estimate of the documented archive.
``blocks``
    The default rule: each part by a quarter of its bytes, or by the weights of its characters if that is
    more, as it is for numbers, ids and JSON; media by their own size; assistant and system messages by a
    quarter of their JSON at least. Each of these is rounded by itself; their sum is the estimate.
``weights``
    The same by the weights of characters: a digit, a letter of each script, a sign and a blank weigh what
    tokenizers make of them. The weights were fitted on public tokenizers, so that no estimate is much below
    the largest count of any of them.
``weights/qwen``
    The same with the weights of one family of tokenizers, for a model that is known: see :func:`rule_for`.
``bytes_total``
    The documented rule of tiered compaction: bytes of texts, results, names and arguments, of reasoning with
    its signature or what is encrypted of it, four for each token of media, divided by four and rounded down
    once; a text by itself is rounded up.
``flat_tools``
    Its older form: the bytes of a message's text divided by four and rounded down, 50 for a call, 100 for
    a result.

The JSON text of a message is ``json.dumps(message, ensure_ascii=False, separators=(",", ":"))``; its
bytes are those of its UTF-8, a lone surrogate counting three. An SDK's own object counts as what it
dumps.

Every rule gives media one size: as the provider of the named model counts them (:func:`rule_for`), else as
those do that count most.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from itertools import islice
from math import ceil, inf
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias, cast

from siltstone._native import message_tokens, text_size, text_tokens
from siltstone.errors import ConfigError, InvalidMessageError
from siltstone.messages import (
    Excerpt,
    History,
    Message,
    Part,
    RawMessage,
    message_json_tokens,
    message_size,
    read_message,
)
from siltstone.messages.dialects.base import without_inline_data

TextMeasure: TypeAlias = tuple[str, int, bool, int]
"""The counted unit of a text, the divisor, whether the result is rounded up, and the minimum."""


_BEFORE_CLAUDE_4_7: Final = r"claude-(?:3|(?:haiku|sonnet|opus)-4(?![-.][7-9]))"

_FLAT: Final = {"tool_call": 50, "tool_result": 100}  # the tokens of ``flat_tools``


class _Media(NamedTuple):
    """How the models of a provider count media, in tokens."""

    unit: int  #: pixels of a side of the squares into which a picture is cut; 0: it depends on the picture
    tokens: float  #: of a square
    most: int  #: squares of a picture
    edge: float = inf  #: pixels of the longest side; a larger picture is made smaller
    short: float = inf  #: pixels of the shortest side
    base: int = 0  #: beside the squares; all that a picture in low detail has
    high: int = 0  #: patches in high detail, for models that else take the original
    page: int = 0  #: of a page of a PDF; 0: of a picture of it and 1,500 of its text
    second: int = 10  #: of a sound
    unseen: int = 10_000  #: squares of a picture that is not in the message
    pages: int = 3  #: of a PDF that is not in the message


# developers.openai.com/api/docs/guides/images-vision, "Calculating costs": tiles and patches;
# .../guides/pdf-files: text and picture of each page; .../guides/realtime-costs: 100 ms of sound are a token.
_TILES: Final = _Media(512, 170, 8, 2_048, 768, 85)
_ORIGINAL: Final = _Media(32, 1.2, 30_000, high=2_500)
_PATCHES: Final = _Media(32, 1.2, 4_096, 2_048)
# platform.claude.com/docs/en/build-with-claude/vision: patches; .../pdf-support: from 1,500 for the text of a
# page, and its picture. Few models count more, so this is for unknown ones, too; but a picture that is not in
# the message has what most models count at most, since it has to fit into a small window.
_CLAUDE: Final = _Media(28, 1, 4_784, 2_576, page=1_500 + 1_568)
_LARGEST: Final = _CLAUDE._replace(second=32, unseen=1_600, pages=1)

#: By the names of models: the first one that is found counts.
_MEDIA: Final = {
    "gpt-4o-mini": _TILES._replace(tokens=5_667, base=2_833),
    r"gpt-\d\S*-nano": _PATCHES._replace(tokens=2.46),
    r"gpt-\d\S*-mini": _PATCHES._replace(tokens=1.62),
    "o4-mini": _PATCHES._replace(tokens=1.72),
    r"gpt-5(?:\.1)?(?![.\d])": _TILES._replace(tokens=140, base=70),
    r"gpt-5\.[23]": _PATCHES,
    r"gpt-5\.[45]": _ORIGINAL._replace(most=10_000, edge=6_000),
    r"gpt-(?:5|[6-9])": _ORIGINAL,
    r"(?:^|[/:])o[13]": _TILES._replace(tokens=150, base=75),
    "gpt-4": _TILES,
    _BEFORE_CLAUDE_4_7: _CLAUDE._replace(most=1_568, edge=1_568),
    "claude": _CLAUDE,
    # ai.google.dev/gemini-api/docs/media-resolution: a picture, a page; .../docs/tokens: crops, sound
    r"gemini-[3-9]": _Media(1, 0, 0, base=1_120, page=560, second=32),
    "gemini": _Media(0, 258, 8, page=258, second=32),
    # ai.google.dev/gemma/docs/capabilities/vision/prompt-with-visual-data
    "gemma": _Media(1, 0, 0, base=256, second=32),
}
_PAGE: Final = 1_224, 1_584  # pixels of a page in a picture of it
_PAGE_BYTES: Final = 50_000, 8_000  # of a page that cannot be counted, and of text
_SOUND, _FILM = 8_000, 300  # bytes of a second of speech in a compressed file; tokens of a second of a film

_BY_JSON = frozenset({"assistant", "system", "developer"})  #: roles that ``blocks`` counts by their JSON


class TokenRule(ABC):
    """A way to estimate tokens: units that add up, and one conversion of their sum.

    Running totals keep units and convert when asked, so they agree with a count of the whole.
    """

    name: str  #: As in ``estimate_tokens(..., rule=name)``.
    measure: Literal["bytes", "code_points", "blocks"] | None = None  #: the core's size that ``units`` is
    text_measure: TextMeasure | None = (
        None  #: the core's name of ``count_text``; None where only Python has it
    )

    _media: _Media = _LARGEST

    @abstractmethod
    def units(self, message: Message) -> int:
        """The units that *message* adds to the sum."""

    def media(self, part: Part) -> int:
        """The tokens of a picture, a sound, a film or a document; 0 of any other part. Base64 is no text."""
        seen, inline = self._media, part.size * 3 // 4
        if part.modality == "image" or (part.modality == "document" and len(part.extent) == 2):
            return _picture(seen, part.extent, part.detail)
        if part.modality == "audio":
            return ceil((part.duration_ms / 1_000 or inline / _SOUND or 60) * seen.second)
        if part.modality == "document":
            each = _PAGE_BYTES["[document: text/" in part.text]
            pages = sum(part.extent) or -(-inline // each) or seen.pages
            return pages * (seen.page or 1_500 + _picture(seen, _PAGE))
        if part.modality == "video":
            played = -(-part.duration_ms * _FILM // 1_000)
            return max(1, part.size // 4, played) if part.size else played
        return 0

    def units_of_each(self, raws: list[Any], read: Callable[[int], Message]) -> Iterator[int]:
        """The units of each of *raws*, as a history has them; *read* gives one as a message."""
        return (self.units(read(position)) for position in range(len(raws)))

    @abstractmethod
    def tokens(self, units: int) -> int:
        """The estimate for a sum of units."""

    @abstractmethod
    def count_text(self, text: str) -> int:
        """The estimate for a text by itself."""

    def _part(self, part: Part) -> int:
        """The tokens of *part*, its texts each by themselves."""
        called = (part.name or "") + (part.arguments or "") if part.kind == "tool_call" else ""
        said = "" if part.kind == "blob" else part.text
        beside = part.size // 4 if part.kind == "other" else 0
        return self.count_text(said) + self.count_text(called) + beside + self.media(part)

    def _apart(self, message: Message) -> tuple[RawMessage, int]:
        """*message* with the data of its media cut out of it, and their tokens."""
        if message.said is not None or all(part.modality is None for part in message.parts):
            return message.raw, 0
        return without_inline_data(message.raw)[0], sum(map(self.media, message.parts))

    def count(self, messages: Iterable[Message]) -> int:
        """The estimate for *messages* together. A history in outline is counted once."""
        if isinstance(messages, (History, Excerpt)):
            return self.tokens(messages.units(self))
        return self.tokens(sum(map(self.units, messages)))


def rule(name: str | TokenRule) -> TokenRule:
    """The rule with that name: ``bytes/4``, ``chars/3``, ``blocks`` or one of the documented ones.

    A rule is given back as it is.

    Raises:
        ConfigError: there is none.
    """
    if isinstance(name, TokenRule):
        return name
    found = _RULES.get(name) if isinstance(name, str) else None
    if found is None:
        known = ", ".join(map(repr, _RULES))
        raise ConfigError(f"unknown token rule {name!r}; known are {known}", field="rule", value=name)
    return found


def estimate_tokens(
    x: str | RawMessage | Message | Sequence[RawMessage | Message], rule: str | TokenRule = "blocks"
) -> int:
    """The tokens of a text, a message or a list of messages, without a tokenizer.

    Args:
        x: A text; a message in any dialect, or one that was read; or a list of these.
        rule: ``blocks`` (by the parts and their characters), ``bytes/4`` (rounds down), ``chars/3`` (rounds
            up), ``chars/3-utf16`` (the same of UTF-16 units, message by message), ``bytes_total`` or
            ``flat_tools`` (those of tiered compaction); or a rule of one's own, such as
            :class:`siltstone.tokens.TokenizerRule`.

    Raises:
        ConfigError: no such rule.
        InvalidMessageError: *x* is none of these, or holds what is not a message.
    """
    chosen = _rule(rule)
    if isinstance(x, str):
        return chosen.count_text(x)
    one = isinstance(x, (Message, Mapping)) or hasattr(x, "model_dump")
    items = [x] if one else x
    if not isinstance(items, Iterable):
        kind = type(x).__name__
        raise InvalidMessageError(
            f"tokens are estimated of a str, a message or a list of messages, got {kind}", value_type=kind
        )
    given = list(cast("Iterable[RawMessage | Message]", items))
    if any(isinstance(item, Message) for item in given):
        return chosen.count(
            item if isinstance(item, Message) else read_message(item, place)
            for place, item in enumerate(given)
        )
    return chosen.count(History(cast("list[RawMessage]", given)))  # the core walks over them


class _Json(TokenRule):
    def __init__(self, name: str, measure: Literal["bytes", "code_points"], divisor: int, up: bool) -> None:
        self.name, self.measure, self._divisor, self._up = name, measure, divisor, up
        self.text_measure = (measure, divisor, up, 0)

    def units(self, message: Message) -> int:
        rest, media = self._apart(message)
        return message_size(rest)[self.measure == "code_points"] + self._divisor * media

    def tokens(self, units: int) -> int:
        return (units + (self._divisor - 1) * self._up) // self._divisor

    def count_text(self, text: str) -> int:
        return self.tokens(text_size(text)[self.measure == "code_points"])


class _Utf16Thirds(TokenRule):
    name = "chars/3-utf16"
    text_measure = ("utf16", 3, True, 1)

    def units(self, message: Message) -> int:
        known: int | None = message.kept.get(_Utf16Thirds)  # each request counts all messages again
        if known is None:
            length = _utf16_units(message.text)
            for part in message.parts:
                said = part.text if part.kind == "tool_result" else part.arguments or ""
                length += _utf16_units(said) + 3 * self.media(part)
            known = message.kept[_Utf16Thirds] = max(1, -(-length // 3))
        return known

    def tokens(self, units: int) -> int:
        return units

    def count_text(self, text: str) -> int:
        return max(1, -(-_utf16_units(text) // 3))


class _Weights(TokenRule):
    def __init__(self, family: str, measure: Literal["blocks"] | None = None, model: str = "") -> None:
        found = (media for names, media in _MEDIA.items() if model and re.search(names, model))
        self._family, self.measure, self._media = family, measure, next(found, _LARGEST)
        self.name = family if self._media is _LARGEST else f"{family}: {model}"
        self.text_measure = (family, 1, False, 0)

    def units(self, message: Message) -> int:
        by_json = message.role in _BY_JSON
        rest, media = self._apart(message) if by_json else (message.raw, 0)
        if by_json and self.measure is None:
            return message_json_tokens(rest, self._family) + media
        said = message.said
        tokens = sum(map(self._part, message.parts)) if said is None else text_tokens(said, self._family)
        return max(tokens, message_size(rest)[0] // 4 + media) if by_json else tokens

    def units_of_each(self, raws: list[Any], read: Callable[[int], Message]) -> Iterator[int]:
        counts = message_tokens(raws, self._family)
        return (self.units(read(at)) if count is None else count for at, count in enumerate(counts))

    def tokens(self, units: int) -> int:
        return units

    def count_text(self, text: str) -> int:
        return text_tokens(text, self._family)


class _BytesTotal(TokenRule):
    name = "bytes_total"
    text_measure = ("bytes", 4, True, 0)

    def units(self, message: Message) -> int:
        return sum(4 * self.media(part) or _bytes_of(part) for part in message.parts)

    def tokens(self, units: int) -> int:
        return units // 4

    def count_text(self, text: str) -> int:
        return -(-_text_bytes(text) // 4)


class _FlatTools(TokenRule):
    name = "flat_tools"
    text_measure = ("bytes", 4, False, 0)

    def units(self, message: Message) -> int:
        text = flat = 0
        for part in message.parts:
            known = _FLAT.get(part.kind) or self.media(part)
            flat += known
            if not known:
                text += _text_bytes(part.text) or part.size * (part.kind != "reasoning")
        return text // 4 + flat

    def tokens(self, units: int) -> int:
        return units

    def count_text(self, text: str) -> int:
        return _text_bytes(text) // 4


def request_bytes(size: int) -> int:
    """Bytes of a request whose messages have :func:`message_bytes` of *size* together: a fifth more."""
    return size * 6 // 5


def message_bytes(message: Message) -> int:
    """The bytes that *message* adds to a request: the walk of ``blocks``, inline media at full length."""
    if message.role in _BY_JSON:
        return message_size(message.raw)[0]
    if message.said is not None:
        return _text_bytes(message.said)
    return sum(part.size if part.kind == "blob" else _bytes_of(part) for part in message.parts)


def _bytes_of(part: Part) -> int:
    """The bytes of a part by the rule ``bytes_total``."""
    if part.kind == "tool_call":
        return _text_bytes(part.text + (part.name or "") + (part.arguments or ""))
    if part.kind == "reasoning":
        return _text_bytes(part.text) + part.size
    return _text_bytes(part.text) or part.size


def _picture(seen: _Media, extent: tuple[int, ...], detail: str = "") -> int:
    """The tokens of a picture; of the largest one if its extent is unknown."""
    if detail == "low" and seen.base:
        return seen.base
    most = seen.high if detail == "high" and seen.high else seen.most
    if len(extent) != 2:
        return ceil(seen.base + min(most, seen.unseen) * seen.tokens)
    less, more = sorted(extent)
    unit = seen.unit or (384 if more <= 384 else min(max(less * 2 // 3, 256), 768))
    scale = min(1, seen.edge / more, seen.short / less)
    rows, columns = (ceil(side * scale / unit - 1e-6) for side in extent)
    return ceil(seen.base + min(most, rows * columns) * seen.tokens)


def _utf16_units(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def _text_bytes(text: str) -> int:
    return len(text) if text.isascii() else text_size(text)[0]


_RULES: Final[dict[str, TokenRule]] = {
    each.name: each
    for each in (
        _Json("bytes/4", "bytes", 4, up=False),
        _Json("chars/3", "code_points", 3, up=True),
        _Utf16Thirds(),
        _Weights("blocks", "blocks"),
        _Weights("weights"),
        _BytesTotal(),
        _FlatTools(),
    )
}
_rule = rule  # ``estimate_tokens`` has a parameter of that name

# Names of models and the families of their tokenizers; the first one that is found counts. Models that were
# made from another one have its name too, so theirs come first.
_FAMILIES: Final = {
    "qwen3.5": r"qwen-?3\.[5-9]",
    "qwen": "qwen|qwq",
    "llama3": "llama-?3",
    "llama4": "llama-?4",
    "o200k": r"gpt-(?:4o|4\.|5|oss)|(?:^|[/:])o\d",
    "cl100k": r"gpt-(?:4|3\.5)",
    "gemma": "gem(?:ma|ini)",
    "mistral": "mistral-(?:nemo|small|medium|large)|ministral|pixtral|devstral|magistral|codestral",
    "deepseek": "deepseek",
    "claude": _BEFORE_CLAUDE_4_7,
}
for _family in _FAMILIES:
    _RULES[f"weights/{_family}"] = _Weights(f"weights/{_family}")


def rule_for(model: str | None) -> TokenRule:
    """The rule by weights for *model*: that of its family of tokenizers, or ``weights`` if it has none.

    Media are counted as the provider of *model* documents it.
    """
    name = (model or "").lower()
    found = (family for family, names in _FAMILIES.items() if re.search(names, name))
    return _Weights("/".join(["weights", *islice(found, 1)]), model=name)


# Counts the tokens of a message with the model's own tokenizer.

MESSAGE_TOKENS: Final = 4  #: tokens that chat formats add to each message, including its role
_MOST_KEPT = 65_536  # counts, 16 bytes of a digest each


class Tokenizer(Protocol):
    """Anything that encodes a text: a ``tiktoken.Encoding``, a ``tokenizers.Tokenizer`` and the like."""

    def encode(self, text: str, /) -> Sized:
        """The tokens of *text*."""


class TokenizerRule(TokenRule):
    """Counts what was said with a tokenizer, and media as *model* counts them; for ``estimator=``.

    A message has its texts, the names and arguments of its calls, its results, its reasoning, and
    ``MESSAGE_TOKENS``. Texts are looked up by their digest, so a history is encoded once. A text
    that the tokenizer refuses is estimated by its bytes.

    Args:
        tokenizer: The tokenizer. Where it has ``encode_ordinary``, as tiktoken's do, that is used: a text
            that spells a special token is a text.
        name: Of the rule. Two tokenizers of one process need two names.
        model: The name of the model. None: media are counted at the most that any model counts.

    Raises:
        ConfigError: *tokenizer* has no ``encode``, or *name* is that of a rule without a tokenizer.
    """

    def __init__(self, tokenizer: Tokenizer, name: str | None = None, model: str | None = None) -> None:
        encode = getattr(tokenizer, "encode_ordinary", None) or getattr(tokenizer, "encode", None)
        if not callable(encode):
            raise ConfigError(
                f"tokenizer must have a method encode, got {tokenizer!r}", "tokenizer", tokenizer
            )
        own = getattr(tokenizer, "name", None)
        self.name = name or f"tokenizer:{own if isinstance(own, str) else type(tokenizer).__name__}"
        if self.name in ("blocks", "bytes/4", "chars/3"):
            raise ConfigError(f"name must be one of its own, got {name!r}", field="name", value=name)
        self._encode: Any = encode
        self._media = rule_for(model)._media
        self._known: dict[bytes, int] = {}

    def __repr__(self) -> str:
        return f"<TokenizerRule {self.name!r}>"

    def units(self, message: Message) -> int:
        """The tokens of *message*."""
        return MESSAGE_TOKENS + sum(map(self._part, message.parts))

    def tokens(self, units: int) -> int:
        """The sum itself: units are tokens."""
        return units

    def count_text(self, text: str) -> int:
        """The tokens of a text by itself."""
        if not text:
            return 0
        from hashlib import blake2b  # it loads OpenSSL

        key = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _MOST_KEPT:
                self._known.clear()
            known = self._known[key] = self._count(text)
        return known

    def _count(self, text: str) -> int:
        try:
            return len(self._encode(text))
        except Exception:  # a lone surrogate, a special token: whatever it will not read
            return rule("blocks").count_text(text)
