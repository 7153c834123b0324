"""The tables of ``lexical-6`` for Chinese: the ranges of Han, and the characters that carry grammar alone."""

from __future__ import annotations

__all__ = ["FUNCTION_CHARACTERS", "is_han"]

HAN = [(0x3400, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x3FFFF)]

#: Pronouns, particles and measure words, in both scripts.
FUNCTION_CHARACTERS = frozenset("个么了他们你個們吗吧呀呢哦啊嗎嗯她它很我是的这這那麼")


def is_han(c: str) -> bool:
    """Whether the code point *c* lies where Chinese characters do."""
    return any(first <= ord(c) <= last for first, last in HAN)
