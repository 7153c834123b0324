"""Counts the tokens of a message with the model's own tokenizer."""

from __future__ import annotations

from collections.abc import Sized
from hashlib import blake2b
from typing import Any, Final, Protocol

from siltstone.errors import ConfigError
from siltstone.messages import Message, Part
from siltstone.tokens import (
    AUDIO_TOKENS,
    DOCUMENT_TOKENS,
    IMAGE_TOKENS,
    VIDEO_TOKENS_PER_SECOND,
    TokenRule,
    rule,
)

__all__ = ["MESSAGE_TOKENS", "Tokenizer", "TokenizerRule"]

MESSAGE_TOKENS: Final = 4  #: tokens that chat formats add to each message, including its role
_MOST_KEPT = 65_536  # counts, 16 bytes of a digest each

_FLAT: Final = {"image": IMAGE_TOKENS, "audio": AUDIO_TOKENS, "document": DOCUMENT_TOKENS}


class Tokenizer(Protocol):
    """Anything that encodes a text: a ``tiktoken.Encoding``, a ``tokenizers.Tokenizer`` and the like."""

    def encode(self, text: str, /) -> Sized:
        """The tokens of *text*."""


class TokenizerRule(TokenRule):
    """Counts what was said with a tokenizer, and media at their flat cost; for ``estimator=``.

    A message has its texts, the names and arguments of its calls, its results, its reasoning, and
    ``MESSAGE_TOKENS``. Texts are looked up by their digest, so a history is encoded once. A text
    that the tokenizer refuses is estimated by its bytes.

    Args:
        tokenizer: The tokenizer. Where it has ``encode_ordinary``, as tiktoken's do, that is used: a text
            that spells a special token is a text.
        name: Of the rule. Two tokenizers of one process need two names.

    Raises:
        ConfigError: *tokenizer* has no ``encode``, or *name* is that of a rule without a tokenizer.
    """

    def __init__(self, tokenizer: Tokenizer, name: str | None = None) -> None:
        encode = getattr(tokenizer, "encode_ordinary", None) or getattr(tokenizer, "encode", None)
        if not callable(encode):
            raise ConfigError(
                f"tokenizer must have a method encode, got {tokenizer!r}", field="tokenizer", value=tokenizer
            )
        own = getattr(tokenizer, "name", None)
        self.name = name or f"tokenizer:{own if isinstance(own, str) else type(tokenizer).__name__}"
        if self.name in ("blocks", "bytes/4", "chars/3"):
            raise ConfigError(f"name must be one of its own, got {name!r}", field="name", value=name)
        self._encode: Any = encode
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

    def _part(self, part: Part) -> int:
        if part.modality == "video":
            return max(1, -(-part.duration_ms * VIDEO_TOKENS_PER_SECOND // 1_000))
        if part.modality is not None:
            return _FLAT[part.modality]
        called = (part.name or "") + (part.arguments or "") if part.kind == "tool_call" else ""
        beside = part.size // 4 if part.kind == "other" else 0
        return self.count_text(part.text) + self.count_text(called) + beside
