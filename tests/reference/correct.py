"""A word of a query that no entry has stands for one at a typo's distance that entries have."""

from collections.abc import Collection, Mapping

from reference import analyse
from reference.embed import word_hash

MOST = 4  # words of a query that are corrected, the first ones
LONGEST = 20  # terms of the longest query that is corrected
LETTERS = range(5, 25)  # of a word that is
OF_LATIN = frozenset("abcdefghijklmnopqrstuvwxyzßıøæœđłþð")
# The letters of a script: those of words, and those that an edit may bring.
ALPHABETS = [
    (OF_LATIN, range(ord("a"), ord("z") + 1)),
    (frozenset(map(chr, range(0x3B1, 0x3CA))), range(0x3B1, 0x3CA)),
    (frozenset(map(chr, range(0x430, 0x480))), range(0x430, 0x450)),
    (frozenset(map(chr, range(0x621, 0x64B))), range(0x621, 0x64B)),
    (frozenset(map(chr, range(0x901, 0x94E))), range(0x901, 0x94E)),
]


def corrections(
    query: str, asked: Collection[str], languages: list[str], frequencies: Mapping[int, int]
) -> dict[str, str]:
    """For unknown terms of *query*, whose terms are *asked*, those that stand for them.

    A word that only says that something is asked stands for itself.

    *frequencies* has the number of passages of each known term, by its hash.
    """
    terms = dict.fromkeys(asked)
    if len(terms) > LONGEST:
        return {}
    asking = analyse.asking(query)
    unknown: dict[str, str] = {}
    for word in analyse.telling_words(query):
        term = analyse.normal(word)
        is_unknown = term in terms and term not in asking and not frequencies.get(word_hash(term))
        if _is_correctable(word) and is_unknown and len(unknown) < MOST:
            unknown.setdefault(term, word)
    found: dict[str, str] = {}
    for term, word in unknown.items():
        edits = [edit for edit in _edits(word) if not analyse.is_stop_word(edit)]
        near = {analyse.normal(edit, language) for edit in edits for language in ("en", *languages)}
        near = {each for each in near if each not in terms and each not in found.values()}
        known = [(-frequencies.get(word_hash(each), 0), word_hash(each), each) for each in near]
        if known and min(known)[0] < 0:
            found[term] = min(known)[2]
    return found


def _is_correctable(word: str) -> bool:
    if analyse.is_long_hash(word):
        return True
    is_letters = all(any(c in letters for letters, _ in ALPHABETS) for c in word)
    return is_letters and len(word) in LETTERS and not analyse.is_stop_word(word)


def _edits(word: str) -> set[str]:
    """Words with a letter left out, added, changed or swapped; the first one stays, or is swapped."""
    if analyse.is_long_hash(word):
        return {word[:7]}
    alphabet = next(map(chr, added) for letters, added in ALPHABETS if word[0] in letters)
    found = {word[:at] + word[at + 1] + word[at] + word[at + 2 :] for at in range(len(word) - 1)}
    found |= {word[:at] + word[at + 1 :] for at in range(1, len(word))}
    for letter in alphabet:
        found |= {word[:at] + letter + word[at:] for at in range(1, len(word) + 1)}
        found |= {word[:at] + letter + word[at + 1 :] for at in range(1, len(word))}
    return found - {word}
