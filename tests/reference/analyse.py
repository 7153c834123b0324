"""Text to terms, by the analyser ``lexical-6``."""

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from itertools import pairwise

import snowballstemmer

from reference.tables import (
    FUNCTION_CHARACTERS,
    FUNCTION_WORDS,
    IRREGULAR,
    STEMMERS,
    STOP_WORDS,
    STOP_WORDS_OF_SCRIPTS,
    is_han,
    stem,
)
from reference.tokenize import kind, lower, repaired


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split(" "))


PASSAGE = 160  # terms of a passage
OVERLAP = 40  # terms that it has in common with the next
LONGEST = 40  # letters of the longest word that is stemmed
LONGEST_NUMBER = 34
# Where the letters of Thai, Lao, Tibetan, Burmese and Khmer lie, which are written without spaces.
UNSPACED = [
    (0xE01, 0xE4E), (0xE81, 0xECF), (0xEDC, 0xEDF), (0xF40, 0xFBC), (0x1000, 0x103F), (0x1050, 0x108F),
    (0x109A, 0x109F), (0xA9E0, 0xA9EF), (0xA9FA, 0xA9FE), (0xAA60, 0xAA7F), (0x1780, 0x17DD),
]  # fmt: skip
SPACES = (" ", "\u00a0", "\u202f", "\u2009")  # which stand between groups of digits
BETWEEN = (*SPACES, "-", "/", ") ", " (", ")-", ":", ".")
APOSTROPHES = "'\u2019\u02bc"
#: Articles and the like that French, Italian and their kin tie to the next word.
ELIDED = frozenset(
    ["all", "c", "d", "dall", "dell", "j", "jusqu", "l", "lorsqu", "n", "nell", "puisqu", "qu", "sull"]
)
ROLES = frozenset(
    ["agent", "ai", "assistant", "bot", "developer", "function", "human", "model", "system", "tool", "user"]
)

#: What people write for letters that are no letters with an accent.
PLAINLY = {
    "ß": "ss", "æ": "ae", "œ": "oe", "þ": "th", "ł": "l", "ø": "o", "đ": "d", "ð": "d", "ħ": "h", "ŧ": "t",
    "\u0131": "i",
}  # fmt: skip
#: Signs without width, and the points of Hebrew.
UNSEEN = "[\u00ad\u200b-\u200f\u2060\ufeff\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7]"
EMOJI = [(0x2600, 0x27BF), (0x2B50, 0x2B50), (0x2B55, 0x2B55), (0x1F000, 0x1F3FA), (0x1F400, 0x1FAFF)]
MONTHS = tuple(
    "January February March April May June July August September October November December".lower().split(" ")
)
LETTER_OF = {"de": "\u00df", "tr": "\u0131"}  # which no other of the languages has
# A text is of a language that leads English by two of its words, and has a word in six of it.
LEAD = 2
SHARE = 6
# Words of the one who asks, of the one who is asked, and what is polite before "you" and before "me".
ASKER = frozenset(["i", "im", "ive", "me", "mine", "my", "myself"])
ASKED = frozenset(["you", "your", "youre", "yours", "yourself", "youve", "youd"])
POLITE = frozenset(["can", "could", "do", "please", "will", "would"])
GIVES = frozenset(["give", "help", "let", "remind", "show", "tell"])
# Words that say what is to be done with what is found.
ASKING = "ask conversation discuss mention overview say speak summarise summarize summary talk tell"
GREETING = (
    "afternoon again day dear evening everybody everyone good greetings hello help hey hi hope howdy kindly "
    "morning ok okay please quick quickly sorry team thank thanks there welcome well"
)
WHITE = "".join(c for c in map(chr, range(0x3001)) if c.isspace() and c not in "\x1c\x1d\x1e\x1f")
LINES = 20  # nearly equal texts are one hit from so many on
# Words that begin a question without a mark, and those that follow them.
QUESTION_WORDS = _words("how what when where which who whom whose why")
THEN = _words(
    "am are can could did do does had has have is long many might much of often old should was were will "
    "would"
)
OPENS = _words("am are can could did do does is was were will would")
AFTER = _words("a an any anybody anyone he i it my our she that the there they this we you your")
EDGES = string.punctuation + "\u201c\u201d\u2018\u2019"
_stem = snowballstemmer.stemmer("english").stemWord
_stems = {code: snowballstemmer.stemmer(name).stemWord for code, name in STEMMERS.items()}


def terms(text: str, language: str = "en") -> list[str]:
    """The terms of *text*: its words without those that say nothing, unless there is nothing else."""
    return [normal(word, language) for word in telling_words(text, language)]


def language_of(text: str, among: str = "auto") -> str:
    """The language of *text*: the first of *among* where no other is certain; ``en`` for Vietnamese."""
    usual, *others = ["en", *FUNCTION_WORDS] if among == "auto" else among.split(",")
    found = words(text)
    votes, different = (_votes(each) for each in (found, set(found)))
    best = min(others, key=lambda code: (-votes[code], code != "en", code), default=usual)
    leads = all(each[best] - each[usual] >= LEAD for each in (votes, different))
    told = best if leads and votes[best] * SHARE >= len(found) else usual
    return "en" if told == "vi" else told


def _votes(found: Collection[str]) -> Counter[str]:
    """How many of the words each language has."""
    votes = Counter(code for word in found for code in _speaks_for(word))
    votes["en"] = sum(word in STOP_WORDS for word in found)
    return votes


@lru_cache(maxsize=1 << 16)
def _speaks_for(word: str) -> list[str]:
    """The languages that a word is one of; a single letter is none."""
    return [
        code
        for code, known in FUNCTION_WORDS.items()
        if (len(word) > 1 and word in known) or LETTER_OF.get(code, " ") in word
    ]


@lru_cache(maxsize=1 << 16)
def normal(word: str, language: str = "en") -> str:
    """Its stem; in English of the base of an irregular form, with an ``s`` or not."""
    for letter, plain in PLAINLY.items():
        if letter != "\u0131" or language != "tr":
            word = word.replace(letter, plain)
    if language == "en":
        word = IRREGULAR.get(word) or IRREGULAR.get(word.removesuffix("s"), word)
    if len(word) > LONGEST:
        return word
    if language == "en" and re.fullmatch("[a-z]+", word):
        return str(_stem(word))
    if language != "en" and re.fullmatch("[a-z\u00df-\u00f6\u00f8-\u024f\u1e00-\u1eff]+", word):
        return str(_stems[language](word))
    return stem(word)


def telling_words(text: str, language: str = "en") -> list[str]:
    """The words of *text* that say something, or all where none does."""
    found = [(word, says) for word, says in _read_all(text, language) if says is not None]
    return [word for word, says in found if says] or [word for word, _ in found]


def characters(text: str, language: str = "en") -> list[tuple[int, str]]:
    """What is found inside of words and beside them, as terms, each with the number of terms before it."""
    found = _read_all(text, language)
    is_any = any(says for _, says in found)
    at, inside = 0, []
    for word, says in found:
        if says is None:
            inside.append((at, normal(word, language)))
        else:
            at += says or not is_any
    for end, number in grouped(text):
        before = [says for _, says in _read_all(repaired(text)[:end], language) if says is not None]
        inside.append((sum(says or not is_any for says in before), number))
    return inside


@lru_cache(maxsize=1 << 14)
def grouped(text: str) -> list[tuple[int, str]]:
    """The numbers of *text* in groups, each as one word, with the place of the white space behind it."""
    text = repaired(text)
    found: list[tuple[int, str]] = []
    groups: list[re.Match[str]] = []
    for group in re.finditer("[0-9A-Za-z]+", text):
        fits = len(group[0]) <= 4 or re.search("[0-9]", group[0])
        if not (fits and groups and text[groups[-1].end() : group.start()] in BETWEEN):
            found += _grouped(text, groups)
            groups = []
        groups += [group] if fits else []
    return found + _grouped(text, groups)


def _grouped(text: str, groups: list[re.Match[str]]) -> list[tuple[int, str]]:
    words = [group[0] for group in groups]
    signs = ["", *(text[one.end() : other.start()] for one, other in pairwise(groups))]

    def run(at: int, between: Sequence[str], kind: str, first: str = "") -> int:
        """How many groups of a kind begin at *at*, with one like *first*; 0 where such a one is before it."""
        fits = [re.fullmatch(kind, word) is not None for word in words]
        firsts = [re.fullmatch(first or kind, word) is not None for word in words]
        begins = firsts[at] and not (signs[at] in between and firsts[at - 1])
        ends = (end for end in range(at + 1, len(words)) if not fits[end] or signs[end] not in between)
        return next(ends, len(words)) - at if begins else 0

    found: list[tuple[int, str]] = []
    for at in range(len(words)):
        number = run(at, BETWEEN[:9], "[0-9]+")
        if len("".join(words[at : at + number])) < 7 or set(signs[at + 1 : at + number]) <= {"-"}:
            number = 0
        thousands = run(at, SPACES, "[0-9]{3}", "[0-9]{1,3}")
        time = run(at, (":",), "[0-9]{1,2}")
        pairs, fours = run(at, (":",), "[0-9A-Fa-f]{2}"), run(at, (".",), "[0-9A-Fa-f]{4}")
        account = run(at, SPACES, "[0-9A-Z]{1,4}", "[A-Z]{2}[0-9]{2}")
        unit = run(at, SPACES, "[A-Za-z]{1,3}", "[0-9]+")
        others = [(time, time in (2, 3)), (pairs, pairs == 6), (fours, fours == 3), (account, account > 2)]
        other = next((length for length, fits in [*others, (2, unit > 1)] if fits), 0)
        for length in (number, thousands if thousands != number else 0, other):
            word = "".join(words[at : at + length]).lower()
            if length > 1 and len(word) <= LONGEST_NUMBER:
                end = re.compile("[ \t-\r]|$").search(text, groups[at + length - 1].end())
                found.append((end.start() if end else len(text), word))
    return found


def alternatives(text: str, languages: list[str]) -> list[tuple[str, list[str], bool]]:
    """For each word of a query its terms in English and in *languages*, and whether it says nothing in one.

    Words that say nothing in any of them are left out, unless there is nothing else.
    """
    every = ["en", *languages]
    read = [[(word, says) for word, says in _read_all(text, each) if says is not None] for each in every]
    found = []
    for same in zip(*read, strict=True):
        word = same[0][0]
        says = [each for each, (_, says) in zip(every, same, strict=True) if says]
        if says:
            found.append(
                (word, list(dict.fromkeys(normal(word, each) for each in says)), len(says) < len(every))
            )
    if found:
        return found
    return [(word, list(dict.fromkeys(normal(word, each) for each in every)), False) for word, _ in read[0]]


def is_stop_word(word: str, language: str = "en") -> bool:
    """Whether a word in lower case says nothing."""
    return word in STOP_WORDS_OF_SCRIPTS or word in (
        STOP_WORDS if language == "en" else FUNCTION_WORDS[language]
    )


def words(text: str) -> list[str]:
    """Words, parts of words, and compounds, in lower case; pairs of CJK, triples of Thai and its like."""
    return [word for word, says in _read_all(text, "en") if says is not None]


@lru_cache(maxsize=16)
def _read_all(text: str, language: str) -> list[tuple[str, bool | None]]:
    """The words of *text*, each with whether it says anything; None for a character inside of CJK."""
    return [word for piece in repaired(text).split() for word in _read_piece(piece, language)]


@lru_cache(maxsize=1 << 16)
def _read_piece(piece: str, language: str) -> list[tuple[str, bool | None]]:
    found: list[tuple[str, bool | None]] = []
    rest = fold(piece)
    while rest:
        rest = _read(rest, found, language)
    return found


def fold(piece: str) -> str:
    """Without accents: compatible composition without combining diacritical marks; ``й`` is no ``и``."""
    bare = re.sub("(?<![иИ])\u0306|[\u0300-\u0305\u0307-\u036f]", "", unicodedata.normalize("NFKD", piece))
    bare = re.sub(UNSEEN, "", bare).replace("\u06a9", "\u0643").replace("\u06cc", "\u064a")
    digits = (str(unicodedata.digit(c)) if _is_digit(c) else c for c in bare)
    return unicodedata.normalize("NFC", "".join(digits))


def _is_digit(c: str) -> bool:
    return unicodedata.category(c) == "Nd" and ord(c) <= 0x104A9


def passages(found: list[str]) -> list[tuple[int, list[str]]]:
    """Overlapping stretches of terms that cover all of them, each with its place; at least one."""
    last = max(0, len(found) - OVERLAP - 1)
    return [(start, found[start : start + PASSAGE]) for start in range(0, last + 1, PASSAGE - OVERLAP)]


def name_of(role: str, name: str | None) -> str:
    """The name that is searched of the speaker: a role counts where it is no part in a play."""
    ascii_lower = "".join(c.lower() if c.isascii() else c for c in role)
    return name if name is not None else "" if ascii_lower in ROLES else role


def is_person(role: str, kind: str) -> bool:
    """Whether a name is that of a person: users speak, and roles that are names; tools do not."""
    is_user = name_of(role, None) != "" or role.lower() in ("human", "user")
    return is_user and not kind.lower().startswith(("function", "tool"))


def is_about_asker(text: str) -> bool:
    """Whether an English question is about the one who asks: the first pronoun decides."""
    before = ""
    for piece in repaired(text).split():
        word = re.split("['\u2019]", piece.strip(EDGES), maxsplit=1)[0]
        word = word.lower() if word.isascii() else word
        if word in ASKER and not (word == "me" and before in GIVES):
            return language_of(text) == "en"
        if word in ASKED and not (word == "you" and before in POLITE):
            return False
        before = word
    return False


def asking(text: str) -> frozenset[str]:
    """The terms that only say that something is asked, where *text* is English."""
    return frozenset(terms(ASKING)) if language_of(text) == "en" else frozenset()


def questions(text: str) -> list[str]:
    """The questions of a text that only asks: its other sentences greet, or have two words or fewer."""
    found, rest = [], text.strip()
    while rest:
        end = re.search(r"[\n。？！؟]|[.?!](?=\s|$)", rest)
        sentence, mark = (rest, "\n") if end is None else (rest[: end.start()], end[0])
        rest = "" if end is None else rest[end.end() :].lstrip()
        if mark in "?？؟" or (mark == "\n" and _opens_question(sentence)):
            found.append(sentence)
        elif (len(sentence.split()) > 2 or len(sentence.encode()) > 40) and asked([sentence]):
            return []
    return found


def asked(sentences: Iterable[str]) -> set[str]:
    """The terms of *sentences* without those of a greeting."""
    return {term for sentence in sentences for term in terms(sentence)} - set(terms(GREETING))


def _opens_question(sentence: str) -> bool:
    found = sentence.split()
    while found and _ascii_lower(found[0]) == "please":
        found = found[1:]
    if len(found) < 2:
        return False
    first, second = map(_ascii_lower, found[:2])
    return (
        (first in QUESTION_WORDS and second in THEN)
        or (first in OPENS and second in AFTER)
        or (first in GIVES and second in ("me", "us"))
    )


def _ascii_lower(word: str) -> str:
    return "".join(c.lower() if c.isascii() else c for c in word)


def whole(text: str) -> str:
    """What equal texts have in common: lower case, single spaces, nothing around it."""
    bare = repaired(text).strip(f"{WHITE}.?!。？！")
    return re.sub(f"[{WHITE}]+", " ", bare).lower()


@lru_cache(maxsize=1 << 14)
def _shape(text: str) -> str:
    """What nearly equal texts have in common: a sign for each number, time and id."""
    shown, numbers = "", 0
    for piece in whole(text).split(" "):
        is_number = False
        for run in re.findall(r"[^\W_]*[\W_]|[^\W_]+", piece):
            word = run if run[-1].isalnum() else run[:-1]
            is_hex = re.fullmatch("[0-9a-f]{4,}", word) is not None
            is_number = any(c.isnumeric() for c in word) or (is_number and is_hex)
            numbers += is_number
            shown += ("0" if is_number else word) + run[len(word) :]
        shown += " "
    return shown if numbers > 1 else whole(text)


def each_once(found: list[tuple[int, float]], texts: Sequence[str], query: str) -> list[tuple[int, float]]:
    """*found* without what is one hit with a better one: equal texts, and lines that differ in numbers."""
    shapes = [_shape(text) for text in texts]
    counts = Counter(shapes)
    exact = any(c.isnumeric() for c in query)
    best: dict[str, tuple[int, float]] = {}
    for place, score in found:
        is_line = not exact and counts[shapes[place]] >= LINES
        best.setdefault(f"~{shapes[place]}" if is_line else whole(texts[place]), (place, score))
    return list(best.values())


def date_words(milliseconds: int) -> list[str]:
    """Month, year and day of a moment, in UTC."""
    day = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
    return [day.strftime("%B").lower(), str(day.year), str(day.day)]


def _read(rest: str, found: list[tuple[str, bool | None]], language: str) -> str:
    """Adds what *rest* begins with to *found*, and gives what follows it."""
    if any(first <= ord(rest[0]) <= last for first, last in EMOJI):
        found.append((rest[0], True))
        return rest[1:]
    if _kind(rest[0]) == "letter":
        return _read_compound(rest, found, language)
    if _kind(rest[0]) == "unspaced":
        return _read_unspaced(rest, found)
    if _kind(rest[0]) != "cjk":
        return rest[1:]
    end = next((at for at, c in enumerate(rest) if _kind(c) not in ("cjk", "mark")), len(rest))
    run = rest[:end]
    chinese = all(map(is_han, run))
    words = [one + next_one for one, next_one in pairwise(run)] or [run]
    says = [not (chinese and FUNCTION_CHARACTERS.intersection(word)) for word in words]
    if end == 1:
        found.append((run, says[0]))
        return rest[end:]
    for c, word, tells in zip(run, words, says, strict=False):
        found += [(c, None), (word, tells)]
    found.append((run[-1], None))
    return rest[end:]


def _read_unspaced(rest: str, found: list[tuple[str, bool | None]]) -> str:
    """Reads a run of a script without spaces: its overlapping triples of code points, or all of it."""
    end = next((at for at, c in enumerate(rest) if _kind(c) not in ("unspaced", "mark")), len(rest))
    run = "".join(map(lower, rest[:end]))
    width = min(3, end)
    found += [(run[at : at + width], True) for at in range(end - width + 1)]
    return rest[end:]


def _read_compound(rest: str, found: list[tuple[str, bool | None]], language: str) -> str:
    """Reads words that a hyphen, underscores, or a dot between digits join: the parts, then the whole."""
    parts: list[str] = []
    first = rest
    whole, next_rest = "", rest
    joint: str | None = ""
    while joint is not None:
        word, last, rest = _read_word(next_rest)
        cut = _cut(word)
        parts += cut
        whole += joint + "".join(cut)
        joint, next_rest = _joint(last, rest)
    if date := _date(parts, whole):
        found += [(word, True) for word in (*date, whole)]
        return rest
    for at, part in enumerate(parts):
        says = not is_stop_word(part, language)
        found.append((part, says))
        if at == 0 and not says and language == "en" and len(part.encode()) > 1 and re.match("[A-Z]", first):
            found.append((part, None))
        if is_long_hash(part):
            found.append((part[:7], None))
    if len(parts) > 1:
        whole = whole[1:] if re.match(r"v[0-9].*\.", whole, re.DOTALL) else whole
        found.append((whole, not is_stop_word(whole, language)))
    return rest


def is_long_hash(word: str) -> bool:
    """Whether a word is a hexadecimal number of 8 to 64 digits, with letters and digits."""
    return re.fullmatch("(?=.*[a-f])(?=.*[0-9])[0-9a-f]{8,64}", word) is not None


def _date(parts: list[str], whole: str) -> list[str]:
    """Year, month and day of a date in digits, as people say them; empty where it is none."""
    if len(parts) != 3 or not all(re.fullmatch("[0-9]+", part) for part in parts):
        return []
    dotted = "." in whole
    year, month, day = reversed(parts) if dotted else parts
    least = 1 if dotted else 2
    if len(year) != 4 or year[0] == "0" or not least <= len(month) <= 2 or not least <= len(day) <= 2:
        return []
    fits = 1 <= int(month) <= 12 and 1 <= int(day) <= 31
    return [year, MONTHS[int(month) - 1], str(int(day))] if fits else []


def _joint(last: str, rest: str) -> tuple[str | None, str]:
    """The sign that joins *rest* to the word before it, which ends with *last*; None if there is none."""
    hyphen = re.match(r"-|_+", rest)
    if hyphen and _kind(rest[hyphen.end() : hyphen.end() + 1]) == "letter":
        return "", rest[hyphen.end() :]
    if re.match("[0-9]", last) and re.match("[.][0-9]", rest):
        return ".", rest[1:]
    return None, rest


def _read_word(rest: str) -> tuple[str, str, str]:
    """A word as it was written, without apostrophes and commas; its last code point; what follows."""
    word, last = "", ""
    while rest:
        c = rest[0]
        if c in APOSTROPHES:
            if rest[1:2] in ("s", "S") and _kind(rest[2:3]) not in ("letter", "mark"):
                return word, rest[1], rest[2:]
            if word.lower() in ELIDED and _kind(rest[1:2]) == "letter":
                word, last, rest = "", "", rest[1:]  # l'eau is eau
                continue
            if _kind(rest[1:2]) != "letter":
                break
        elif _kind(c) in ("letter", "mark"):
            word += c
        elif not (re.match("[0-9]", last) and re.match(",[0-9]{3}(?![0-9])", rest)):
            break
        last, rest = c, rest[1:]
    return word, last, rest


def _cut(word: str) -> list[str]:
    """*word* in lower case, cut before capitals that begin a part of it."""
    parts = [""]
    for at, c in enumerate(word):
        begins = c.isupper() and (not word[at - 1].isupper() or word[at + 1 : at + 2].islower())
        if at and begins:
            parts.append("")
        parts[-1] += lower(c)
    return parts


@cache
def _kind(c: str) -> str:
    """The effect of a code point, or of the end of the text, on a word."""
    found = "separator" if not c or c in APOSTROPHES else kind(c)
    is_unspaced = found == "letter" and any(first <= ord(c) <= last for first, last in UNSPACED)
    return "unspaced" if is_unspaced else found
