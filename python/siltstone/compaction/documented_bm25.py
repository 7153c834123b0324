"""BM25 as the documented archive has it: its own tokenizer, repeated query terms counted again.

It is written to be read and runs in Python; ``siltstone.index.Bm25Index`` is the one that is fast.
"""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Sequence

__all__ = ["documented_scores", "documented_tokens"]

K1, B = 1.2, 0.75
#: What becomes of a character of ASCII: white space and punctuation part words, symbols and controls go.
_ASCII = {
    code: " " if chr(code).isspace() or unicodedata.category(chr(code)).startswith("P") else None
    for code in range(128)
    if not chr(code).isalnum()
}


def documented_tokens(text: str) -> list[str]:
    """The terms of *text*: words in lower case, and each Han character with the pair it closes.

    Blank space and punctuation part words; other symbols are left out without parting one.
    """
    if text.isascii():
        return text.lower().translate(_ASCII).split()
    tokens: list[str] = []
    word: list[str] = []
    before = ""
    for char in text.lower():
        is_han = _is_han(char)
        if is_han or char.isspace() or unicodedata.category(char).startswith("P"):
            if word:
                tokens.append("".join(word))
                word = []
            if is_han:
                tokens.append(char)
                if before:
                    tokens.append(before + char)
            before = char if is_han else ""
        elif unicodedata.category(char)[0] in "LN":
            word.append(char)
            before = ""
    if word:
        tokens.append("".join(word))
    return tokens


def documented_scores(texts: Sequence[str], query: str) -> list[float]:
    """The score of each text for *query*; 0 where they share no term."""
    counts = [Counter(documented_tokens(text)) for text in texts]
    lengths = [sum(count.values()) for count in counts]
    average = sum(lengths) / len(lengths) if lengths else 0.0
    scores = [0.0] * len(texts)
    for term, times in Counter(documented_tokens(query)).items():
        having = [at for at, count in enumerate(counts) if term in count]
        idf = math.log((len(texts) - len(having) + 0.5) / (len(having) + 0.5) + 1)
        for at in having:
            tf = counts[at][term]
            scores[at] += times * idf * tf * (K1 + 1) / (tf + K1 * (1 - B + B * lengths[at] / average))
    return scores


def _is_han(char: str) -> bool:
    return "\u4e00" <= char <= "\u9fff" or "\u3400" <= char <= "\u4dbf" or "\u3000" <= char <= "\u303f"
