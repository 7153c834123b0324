"""The tables of ``lexical-6``: words that say nothing, irregular forms, and stemmers.

The words are read where the core keeps them, and held by their hash: other words are another analyser.
"""

import hashlib
import json
import re
from pathlib import Path

import snowballstemmer

_SOURCE = Path(__file__).parents[2] / "rust/core/src/analyse"


def _strings(file: str, table: str) -> list[str]:
    """The strings and characters of a table of the core, without the line breaks in them."""
    body = (_SOURCE / file).read_text(encoding="utf-8").split(f"const {table}: ")[1].split("];")[0]
    found = re.findall(r"\"([^\"]*)\"|'(.)'", body.split("= [")[1])
    return [" ".join((words or character).replace("\\\n", " ").split()) for words, character in found]


#: The names of the languages in Latin letters whose stemmers are Snowball's; Vietnamese words have one form.
STEMMERS = {
    "da": "danish",
    "de": "german",
    "es": "spanish",
    "fi": "finnish",
    "fr": "french",
    "hu": "hungarian",
    "it": "italian",
    "nl": "dutch",
    "no": "norwegian",
    "pt": "portuguese",
    "ro": "romanian",
    "sv": "swedish",
    "tr": "turkish",
}
_TABLES = {
    "STOP_WORDS": _strings("stop_words.rs", "STOP_WORDS"),
    "OF_OTHER_SCRIPTS": _strings("stop_words.rs", "OF_OTHER_SCRIPTS"),
    "FUNCTION_CHARACTERS": _strings("stop_words.rs", "FUNCTION_CHARACTERS"),
    "FUNCTION_WORDS": _strings("stop_words.rs", "FUNCTION_WORDS"),
    "IRREGULAR": _strings("english.rs", "IRREGULAR"),
}

STOP_WORDS = frozenset(_TABLES["STOP_WORDS"])
#: Russian, Greek, Arabic and Hindi, as words are after folding.
STOP_WORDS_OF_SCRIPTS = frozenset(_TABLES["OF_OTHER_SCRIPTS"])
#: Pronouns, particles and measure words of Chinese, in both scripts.
FUNCTION_CHARACTERS = frozenset(_TABLES["FUNCTION_CHARACTERS"])
#: The words that tell a language, and say nothing in it, as they are after folding.
FUNCTION_WORDS = {
    code: frozenset(words.split())
    for code, words in zip([*STEMMERS, "vi"], _TABLES["FUNCTION_WORDS"], strict=True)
}
#: The base of each form.
IRREGULAR = dict(zip(_TABLES["IRREGULAR"][::2], _TABLES["IRREGULAR"][1::2], strict=True))

# Where the letters of a script lie, and Snowball's stemmer for it. All of Cyrillic is stemmed as Russian.
_SCRIPTS = [
    ([(0x400, 0x4FF)], "russian"),
    ([(0x370, 0x3FF)], "greek"),
    ([(0x620, 0x65F), (0x66E, 0x6D3), (0x6D5, 0x6EF), (0x6FA, 0x6FF)], "arabic"),
    ([(0x900, 0x963), (0x971, 0x97F)], "hindi"),
]
_STEMS = [(ranges, snowballstemmer.stemmer(language).stemWord) for ranges, language in _SCRIPTS]
_HAN = [(0x3400, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x3FFFF)]


def digest() -> str:
    """A hash of all words of the tables, in their order."""
    return hashlib.sha256(json.dumps(_TABLES).encode()).hexdigest()


def is_han(c: str) -> bool:
    """Whether the code point *c* lies where Chinese characters do."""
    return any(first <= ord(c) <= last for first, last in _HAN)


def stem(word: str) -> str:
    """The stem of a word in lower case, all of whose letters are of one of these scripts; else the word."""
    for ranges, stem_of in _STEMS:
        if all(any(first <= ord(c) <= last for first, last in ranges) for c in word):
            return str(stem_of(word))
    return word
