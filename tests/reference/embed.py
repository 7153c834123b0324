"""Text to numbers: words to buckets, buckets to counts, counts to a unit vector."""

import math
import struct
from collections import Counter

import xxhash

from reference.tokenize import repaired, whitespace_words, words

DIMENSION = 4096


def word_hash(word: str) -> int:
    """XXH3-64 of the UTF-8 of *word*."""
    return xxhash.xxh3_64_intdigest(repaired(word).encode())


def poly31(word: str) -> int:
    """``h = 31 * h + byte`` over the UTF-8 of *word*, ASCII letters in lower case, modulo 2**64."""
    value = 0
    for byte in repaired(word).encode().lower():  # bytes.lower() knows ASCII alone
        value = (31 * value + byte) % 2**64
    return value


def bucket(word: str, hash_rule: str) -> int:
    """The bucket of *word*: its hash modulo 4,096."""
    return {"xxh3": word_hash, "poly31": poly31}[hash_rule](word) % DIMENSION


def counts(text: str, hash_rule: str = "xxh3") -> dict[int, int]:
    """How many words of *text* fall into each bucket."""
    split = {"xxh3": words, "poly31": whitespace_words}[hash_rule]
    return dict(Counter(bucket(word, hash_rule) for word in split(text)))


def embed(text: str, hash_rule: str = "xxh3") -> dict[int, float]:
    """The buckets of *text* in ascending order, each with its value as a float32.

    ``value = count / sqrt(sum of squared counts)``, computed in float64 and rounded once.
    """
    counted = counts(text, hash_rule)
    length = math.sqrt(sum(count**2 for count in counted.values()))
    return {number: _float32(counted[number] / length) for number in sorted(counted)}


def _float32(value: float) -> float:
    return float(struct.unpack("f", struct.pack("f", value))[0])
