"""Compares a new fact with known ones: it is new, known, a better wording, or a change."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, dropwhile, pairwise, takewhile
from typing import Final, Literal, TypeAlias

from siltstone.knowledge.base import ACTS, Fact, FactStore, now_ms, pattern, patterns, rows, words_of
from siltstone.knowledge.standing import resettles, settles

# The words, values and subject of a short text, by which facts are compared.

# Patterns, each of the table of its name.
(
    _CHANGE, _GIVEN_UP, _VALUE, _POLITE, _LATELY, _CORRECTS, _SAYS_CHANGE, _CHANGES_TO, _THEY_CHANGED,
    _IT_IS_NOW, _LEADS_IN, _GIVES_UP, _IS_GONE, _ADDS, _JOINS, _WHOLE, _FRONT, _NUMERAL,
) = map(pattern, (
    "change", "given up", "value", "polite", "lately", "corrects", "says change", "changes to",
    "they changed", "it is now", "leads in", "gives up", "is gone", "adds", "joins", "whole", "front",
    "numeral",
))  # fmt: skip

_WORD: Final = re.compile(r"[^\W_]+(?:[._/:@-][^\W_]+)*")
_STOP: Final = frozenset(words_of("stop").split())
_DENIES: Final = re.compile(
    r"\b(?:not|never|no longer|don't|doesn't|won't|isn't|cannot|can't)\b|不|别", re.IGNORECASE
)


def words(text: str) -> frozenset[str]:
    """The words of *text* in lower case, as the documented overlap splits it: at white space."""
    return frozenset(text.lower().split())


def contains_half(new: str, old: str) -> bool:
    """Whether *new* has more than half of the words of *old*."""
    known = words(old)
    return bool(known) and len(known & words(new)) * 2 > len(known)


def values(text: str) -> frozenset[str]:
    """The numbers, paths, versions, addresses and quoted texts in *text*."""
    return frozenset(found.group().strip("\"'`").rstrip(".,;").lower() for found in _VALUE.finditer(text))


def conflicting(one: str, other: str) -> bool:
    """Whether both texts have values, and each has one that the other lacks."""
    left, right = values(one), values(other)
    return bool(left and right) and not left <= right and not right <= left


def subject(text: str) -> str:
    """The first word of content, in lower case; empty where there is none."""
    found = (word for word in _WORD.findall(text.lower()) if word not in _STOP and not word.isdigit())
    return next(found, "")


# A statement in parts, by which our own rule compares facts.

_REWORDED: Final = patterns("reworded")
_FORMS: Final = {word: form for form, line in rows("form") for word in (form, *line.split())}
_CJK: Final = "\u3040-\u30ff\u3400-\u9fff"
_HOUR: Final = r"\d+(?::\d+)?(?: ?[ap]m)?"
_PIECE: Final = re.compile(
    rf"(?<!from ){_HOUR}(?: (?:to|until|till) |[-–]){_HOUR}\b(?![\w/-]|\.\d)"
    rf"|\d+(?::\d+)?\s?(?:a\.m\.?|p\.m\.?|[ap]m\b)|[^\W_{_CJK}]+(?:[._/:@+~-]+[^\W_{_CJK}]+)*%?|→|➜"
    rf"|我们|(?:周|星期|礼拜)[一二三四五六日天]|[早晚]上|[上下中]午|凌晨|(?:[~.]{{0,2}}/)[\w./-]+|[{_CJK}]",
    re.IGNORECASE,
)
_CONTRACTED: Final = patterns("contracted")
_SAME_AS: Final = {said.lower(): word for word, line in rows("same") for said in line.split("; ")}
_PHRASES: Final = sorted(_SAME_AS, key=len, reverse=True)
_SIGNS: Final = "|".join(said for said in _PHRASES if not said.isascii())
_SAYS_SAME: Final = re.compile(
    rf"\b(?:{'|'.join(filter(str.isascii, _PHRASES))})\b|(?=[{_CJK}])(?-i:{_SIGNS})", re.IGNORECASE
)
_DIGITS: Final = {said: int(digit) for digit, line in rows("digit") for said in line.split()}


def _number(found: re.Match[str]) -> str:
    """A number in digits: ``forty-two``, ``三千二``."""
    total = below = last = 0
    sizes = [_DIGITS[word] for word in re.findall(r"[a-z]+|[^\W a-z]", found[0].lower()) if word != "and"]
    is_chinese = not found[0].isascii()
    for size in sizes:
        if size < (10 if is_chinese else 100):
            last = last * 10 + size if is_chinese else last + size
        elif size >= (10_000 if is_chinese else 1_000):
            total, below, last = total + (below + last or 1) * size, 0, 0
        else:
            below, last = below + (last or 1) * size, 0
    is_short = is_chinese and sizes[-1] < 10 and sizes[-2:][0] >= 100  # 三千二 is 3,200
    return str(total + below + last * (sizes[-2] // 10 if is_short else 1))


@lru_cache(16_384)
def _form(word: str) -> str:
    low = word.lower().rstrip(".").replace(" ", "")
    if low[0].isdigit():
        return re.sub(r"(?<=\d)(?:st|nd|rd|th)$", "", low.replace(".m", "m"))
    if (known := _FORMS.get(low)) is not None:
        return known
    if len(low) > 3 and low.isascii() and low.isalpha():
        if low.endswith("ies"):
            low = low[:-3] + "y"
        elif low[-1] == "s" and low[-2] not in "siu":
            low = low[:-1]
        for end in ("ing", "ed"):
            if low.endswith(end) and len(low) > len(end) + 2:
                low = low[: -len(end)]
                low = low[:-1] if low[-1] == low[-2] not in "ls" else low
        low = low.rstrip("e") or low
    return _FORMS.get(low, low)


def _stems(line: str) -> frozenset[str]:
    return frozenset(map(_form, line.split()))


_LEFT_OUT: Final = _stems(words_of("left out"))
_ENDING: Final = re.compile("(?<=[a-z]{4})(?:ion|ment|er|or|ance|ence|ly|al)$")


def _root(word: str) -> str:
    return _ENDING.sub("", _form(word))


_SOFT: Final = frozenset(map(_root, words_of("soft").split())) | _LEFT_OUT | {"→"}
# Kinds of words, each of the table of its name.
(
    _WAYS, _ACTORS, _LIGHT, _OCCURS, _TIES, _PRONOUNS, _PERSONS, _NEVER, _AUXILIARIES, _FINITE, _IS, _PAST,
    _ONE_PLACE, _LIVES, _OWED, _GATHERS, _MANY, _SEVERAL, _ATTRIBUTES, _DAYS, _UNITS,
) = (
    _stems(words_of(table)) for table in (
        "ways", "actors", "light", "occurs", "ties", "pronouns", "persons", "never", "auxiliaries",
        "finite", "is", "past", "one place", "lives", "owed", "gathers", "many", "several", "attributes",
        "days", "units",
    )
)  # fmt: skip
_IN_CHINESE: Final = re.compile(f"[{_CJK}]")
_PREPOSITIONS: Final = _TIES - {"not", "never", "instead"} | {"of", "for"}
_CLOCK: Final = re.compile(r"\d.*(?::\d\d|am|pm|st|nd|rd|th)")

_ACTS: Final = _stems(" ".join(ACTS))
_WEAK: Final = frozenset(map(_root, words_of("weak").split()))
_VERBS: Final = frozenset(map(_root, ACTS))
_TIMES: Final = _DAYS | _stems(words_of("times"))


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence in parts.

    Attributes:
        tokens: Its words in order, one form for each, without articles, polite words and words of change.
        content: The words that a repetition has, too.
        tied: Words behind a preposition or a negation, which says what they are to the rest.
        front: The words of a first phrase such as "on Tuesday", which is a qualifier.
        verb: The place of the verb, or of a change such as "was moved to"; -1 where none is known.
        is_change: Whether the verb is such a change.
        given_up: The words behind "no longer", "instead of", "switched from".
        says_change: Whether a word such as "now" says that something changed.
        names: Words that are written as names or codes.
        is_past: Whether it tells of an event that is over.
        is_definite: Whether it begins with "the", so that one thing alone is meant.
        gist: The words that say something, in any order, and without those that can be said otherwise.
    """

    tokens: tuple[str, ...]
    content: tuple[str, ...]
    tied: frozenset[tuple[str, str]]
    front: frozenset[str]
    verb: int
    is_change: bool
    given_up: frozenset[str]
    says_change: bool
    names: frozenset[str]
    is_past: bool
    is_definite: bool
    gist: frozenset[str]

    @property
    def denies(self) -> bool:
        """Whether it denies something."""
        return "not" in self.tokens or "never" in self.tokens or "不" in self.tokens

    @property
    def subject(self) -> frozenset[str]:
        """The words before the verb."""
        return frozenset(self.tokens[: max(0, self.verb)]) - {"of", "for", "new", "新"} - _NEVER


@lru_cache(16_384)
def statement(text: str) -> Statement:
    """*text* in parts."""
    for put, contracted in _CONTRACTED:
        text = contracted.sub(put, text)
    corrects = _CORRECTS.match(text) is not None
    text = _SAYS_SAME.sub(lambda found: _SAME_AS[found[0].lower()], _POLITE.sub("", text.strip(" .!。！")))
    text = _NUMERAL.sub(_number, text)
    for wording, found in _REWORDED:
        text = found.sub(wording, text)
    text, led_in = _LEADS_IN.subn("", _IT_IS_NOW.sub(r"\g<what> now", _POLITE.sub("", text.strip())))
    text = _THEY_CHANGED.sub(r"\g<what> → ", _POLITE.sub("", text))
    plain, count = _SAYS_CHANGE.subn(" ", _CHANGES_TO.sub(" → ", text).strip())
    if count + led_in or corrects or "→" in plain:
        plain = _LATELY.sub("", plain)
    given = frozenset(word for found in _GIVES_UP.finditer(plain) for word, _, _ in _tokens(found["c"]))
    front = _FRONT.match(plain)
    said = _tokens(plain[front.end() :] if front else plain)
    tokens = [form for form, _, _ in said]
    whole = [*(_tokens(front[0]) if front else ()), *said]
    fronted = [form for form, _, _ in whole[: len(whole) - len(said)]]
    every = [word for word in (*tokens, *fronted) if word not in ("of", "for", "be", "→", "是", "在")]
    tied = frozenset((word, behind) for word, behind in pairwise(every) if word in _TIES)
    verb = tokens.index("→") if "→" in tokens else _verb(said)
    proper = {form for form, word, _ in whole[1:] if word[0].isupper() and not word.isupper()}
    is_change, before = "→" in tokens, tokens[: max(0, verb)]
    return Statement(
        tokens=tuple(tokens), content=tuple(sorted(every)), tied=tied, verb=verb, is_change=is_change,
        given_up=given, front=frozenset(fronted) - _TIES - {"for"},
        names=frozenset(form for form, word, _ in said if word[0].isupper() or not word.isalpha()),
        says_change=corrects or count + led_in > 0 or is_change or not {"new", "新"}.isdisjoint(before),
        is_past=not is_change and verb >= 0
        and (tokens[verb] in _PAST or (said[verb][1].lower().endswith("ed") and tokens[verb][-2:] != "ed")),
        is_definite=plain[:4].lower() == "the ",
        gist=frozenset(part for word in every for part in _parts(word)) - (_SOFT - proper),
    )  # fmt: skip


def _tokens(text: str) -> list[tuple[str, str, bool]]:
    """The words of *text*: in one form for each, as they are written, and whether an article is before it."""
    kept, has_article = list[tuple[str, str, bool]](), False
    for word in _PIECE.findall(text):
        form = _form(word)
        if form not in _LEFT_OUT or (word == "A" and kept):
            kept.append((form, word, has_article))
        has_article = form in ("a", "an", "the")
    return kept


def _parts(word: str) -> list[str]:
    """*word*, or its parts if it is written with hyphens."""
    if clock := re.fullmatch(r"(\d\d?)(:\d\d)?([ap]?)m?", word):
        hour = int(clock[1]) % 12 + 12 * (clock[3] == "p") if clock[3] else int(clock[1])
        return [f"{hour}{(clock[2] or '').replace(':00', '')}"]
    has_parts = re.fullmatch("[a-z0-9]+(?:-[a-z]+)+", word) is not None
    return [*map(_root, word.split("-"))] if has_parts else [_ENDING.sub("", word)]


def _verb(said: Sequence[tuple[str, str, bool]]) -> int:
    """The place of the first word that is used as a verb; -1 where none is known."""
    for place, (form, _, _) in enumerate(said):
        if (place and form in _AUXILIARIES) or form == "住":
            return place
    for place, (form, word, has_article) in enumerate(said):
        if form in _ACTS and not has_article:
            before = said[place - 1][1].lower() if place else "we"
            is_verb = word.endswith(("s", "ed")) or before in _PRONOUNS or said[place - 1][0] in _NEVER
            if is_verb or before[-1] == "s":
                return place
    return -1


def repeats(one: str, other: str) -> bool:
    """Whether two sentences say the same of the same, in other words or in another order."""
    left, right = statement(one), statement(other)
    both, extra = left.gist & right.gist, left.gist ^ right.gist
    has_number = any(word[0].isdigit() or word in _DAYS for word in both)
    longer, shorter = (left, right) if left.gist > right.gist else (right, left)
    is_less = extra <= (_WEAK | _VERBS if has_number else _WEAK) and len(extra) < min(3, len(both))
    if not longer.gist >= shorter.gist or not (is_less or _adds_little(longer, shorter, extra)):
        return False
    if (len(both) < 2 and left.content != right.content) or _are_of_others(left, right):
        return False
    mine, theirs = (
        {(tie, part) for tie, word in said.tied if tie in _WAYS for part in both.intersection(_parts(word))}
        for said in (left, right)
    )
    if {*chain(*(mine - theirs))} & {*chain(*(theirs - mine))}:  # one is from Oslo, the other to Oslo
        return False
    if min(left.verb, right.verb) < 0 or _IN_CHINESE.search("".join(both)):
        return _actors(left, right) == _actors(right, left)
    first, second = _bare_subject(left, right), _bare_subject(right, left)
    verbs = (left.tokens[left.verb], right.tokens[right.verb])
    is_equation = verbs == ("be", "be") and left.subject == frozenset(right.tokens[right.verb + 1 :])
    has_same_places = not first or not second or first == second  # around the verb
    is_same = has_same_places and left.is_past == right.is_past  # not so "I work at Acme", "I worked at Acme"
    return is_same or is_equation or verbs[0] != verbs[1] or "marry" in both


def _are_of_others(one: Statement, other: Statement) -> bool:
    """Whether each of them is about a person that the other leaves out: "I like tea", "you like tea"."""
    return not (_PERSONS - {"i"}).isdisjoint({*one.content} ^ {*other.content})


def _adds_little(longer: Statement, shorter: Statement, extra: frozenset[str]) -> bool:
    """Whether the one *extra* word of the longer sentence is behind the verb, and no qualifier."""
    places = [place for place, word in enumerate(longer.tokens) if not extra.isdisjoint(_parts(word))]
    if not extra or len(extra) > 1 or len(places) != 1 or longer.says_change != shorter.says_change:
        return not extra
    [place] = places
    before, word, behind = ("", *longer.tokens, "")[place : place + 3]
    is_qualifier = before in _PREPOSITIONS or not shorter.gist.isdisjoint(_parts(behind))
    is_fixed = word in longer.names | _NEVER or not word.isascii() or place < longer.verb
    return longer.verb >= 0 and len(shorter.gist) > 1 and not is_qualifier and not is_fixed


def _actors(said: Statement, other: Statement) -> list[str]:
    """The words in order that may not change places: people and names, or all where one gives or owes."""
    actors = (said.names | _ACTORS) if _OWED.isdisjoint(said.tokens) else frozenset(said.tokens)
    known = {word for word in other.tokens if word in other.names or word in _ACTORS or not word.isascii()}
    return [word for word in dict.fromkeys(said.tokens) if word in actors & known and word.isalpha()]


def _bare_subject(said: Statement, other: Statement) -> frozenset[str]:
    """The subject without places and times, which may stand anywhere, as far as the *other* has its words."""
    moving = said.front.union(other.front, *(said.tied | other.tied), _TIES, _TIMES, _UNITS, _LIGHT)
    return (said.subject - moving) & {*other.tokens}


def replaces(new: str, old: str) -> str:
    """Why *new*, or a clause of it, takes the place of *old*: both have the same subject and relation.

    Empty if it does not.
    """
    parts = _JOINS.split(new.strip(" .!。！"))
    can_split = len(parts) > 1 and all(map(_WHOLE.match, parts))
    clauses = [part for part in parts if can_split and (part is parts[0] or statement(part).subject)]
    before = statement(old)
    why = next(filter(None, (_replaces(statement(clause), before) for clause in [new, *clauses])), "")
    why = why or ("the newer gives up what this states" if _is_gone(new, before) else "")
    return "" if _ADDS.search(new) else why


def _value_of(said: Statement) -> frozenset[str]:
    """The words directly behind the verb, up to a preposition."""
    behind = dropwhile(_PREPOSITIONS.__contains__, said.tokens[said.verb + 1 :])
    return frozenset(takewhile(lambda word: word not in _PREPOSITIONS, behind)) - _PRONOUNS - _LIGHT


def _tied(said: Statement) -> frozenset[str]:
    """The words that qualify, each behind a preposition."""
    ties = _PREPOSITIONS - {"from", "to"}
    return frozenset(word for tie, word in pairwise(said.tokens) if tie in ties and word not in _PREPOSITIONS)


def _is_gone(new: str, before: Statement) -> bool:
    """Whether *new* says that who or what *before* names has left, and names another for the same."""
    gone = {form for found in _IS_GONE.finditer(new) for form, *_ in _tokens(found[found.lastindex or 0])}
    verb, of_value = before.tokens[before.verb] if before.verb > 0 else "", _value_of(before)
    if gone.isdisjoint(of_value) and verb in _IS:  # "Ann is our lead"
        of_value = before.names & before.subject - _PRONOUNS
    if gone.isdisjoint(of_value) or verb not in _IS | _ONE_PLACE | _LIGHT | {"work"}:
        return False
    after = statement(new)
    rest = {form for form, _, _ in _tokens(new)} - gone - _SOFT
    is_same = gone >= of_value and after.verb > 0 and after.subject == before.subject
    is_of_same = _tied(after) <= {*before.tokens} and not rest.isdisjoint({*before.tokens} - of_value)
    return bool(rest - {*before.tokens}) and (is_same or is_of_same)


def _replaces(after: Statement, before: Statement) -> str:
    known, owners = frozenset(before.content), {"i", "we"}
    given = after.given_up - _LIGHT - _PREPOSITIONS - _PRONOUNS
    if given and given <= known and not given & before.given_up - _LIGHT - _TIES:
        named = known - _LIGHT - _PREPOSITIONS - (_PRONOUNS if after.verb == 0 else set())
        is_switch = {"from", "从"} & {*after.tokens} and {"to", "→"} & {*after.tokens}
        if is_switch or "use" in after.given_up:  # "from A to B" needs no other word of the old statement
            verb, first = (*before.tokens[before.verb :], "", "")[:2]
            is_it = before.subject - after.subject <= owners or (verb in _IS and first not in _PREPOSITIONS)
            if before.verb > 0 and not before.is_past and (verb not in _GATHERS or "switch" in after.tokens):
                about = {*takewhile(lambda word: word not in ("from", "从", "not"), after.tokens)} - given
                is_all = is_it and given <= _value_of(before) and _tied(after) | after.front <= known
                is_all = is_all and about <= known | _PAST | _LIGHT | owners
                named = frozenset() if is_all else named - _ATTRIBUTES - {verb}
        if named <= after.given_up.union(after.tokens, after.front) and after.subject - _LIGHT <= known:
            return "the newer gives up what this states"
    is_same = after.front == before.front and after.subject - owners == before.subject - owners
    if after.denies != before.denies:
        deny = {"not", "never", "不", "没", "do", "can", "will", "at", "all", "能"}
        now, was = (frozenset(said.content) - deny for said in (after, before))
        is_said = after.denies and (after.verb > 0 or not after.tokens[-1].isascii())
        is_less = is_said and after.tokens[after.verb] in was and len(now - owners) > 1 and now <= was
        is_equal = len(before.gist - deny) > 1 and before.gist - deny == after.gist - deny
        is_denied = (is_equal or (is_same and (now == was or is_less))) and (
            after.denies or after.says_change
        )
        return "the newer denies what this states" if is_denied else ""
    verb = before.tokens[max(0, before.verb)] if before.tokens else ""
    moves = is_same and after.says_change and verb in _LIVES and verb in after.tokens[: after.verb + 1]
    return "the same subject and relation, another value" if moves or _has_other_value(before, after) else ""


def _only_value(said: Statement, other: Statement, *acts: frozenset[str]) -> tuple[int, list[str], bool]:
    """The only words in a row that the *other* lacks, their place, and whether they can be a name."""
    known = other.gist.union(other.tokens, _SOFT, ("new", "新"), *acts)
    lost = [not known.issuperset(_parts(word)) for word in said.tokens]
    first, last = (lost.index(True), len(lost) - lost[::-1].index(True)) if True in lost else (0, 0)
    value = said.tokens[first:last]
    shared = {word for word, is_lost in zip(value, lost[first:last], strict=True) if not is_lost}
    is_name = not _FINITE & {*value} and not any(map(str.isascii, shared - _PREPOSITIONS))
    is_apart = all(word in _SOFT or (not word.isascii() and 2 * len(shared) < len(value)) for word in shared)
    if not is_apart or not said.gist - known <= {part for word in value for part in _parts(word)}:
        return first, [], False
    return first, [word for word in value if word not in _SOFT - _TIMES - _TIES] or list(value), is_name


def _has_other_value(before: Statement, after: Statement) -> bool:
    """Whether all else is the same in any order, and the relation has one value at a time."""
    sides = ((before, after), (after, before))
    (old_place, was, was_name), (place, now, is_name) = (_only_value(*each) for each in sides)
    changes = after.says_change or before.is_change
    verb, new_verb = (said.tokens[said.verb] if said.tokens else "" for said in (before, after))
    is_reworded = changes and (after.is_change or not _OCCURS.isdisjoint((verb, new_verb)))
    # "The letter goes out on Friday", "we send the letter on Monday now".
    if is_reworded and not (_kind(was) and _kind(now)):
        found = [_only_value(*each, _ACTS & {verb, new_verb}) for each in sides]
        if {_kind(value) for _, value, _ in found} <= {"number", "time"}:
            (old_place, was, was_name), (place, now, is_name) = found
    starts = after.verb + 1 if after.is_change else 0 if after.says_change else max(1, after.verb)
    is_behind = old_place >= max(1, before.verb) and place >= starts
    if not was or not now or not is_behind or (after.is_past and not changes and "born" not in after.tokens):
        return False
    common = before.gist & after.gist - _UNITS - _TIMES
    is_same, moves = before.subject == after.subject, after.is_change and verb in _ONE_PLACE | _IS
    if not common and not (is_same and (verb == new_verb or moves)):
        return False
    kinds = {_kind(was), _kind(now)}
    relation = {*before.tokens[max(0, before.verb) : old_place], *after.tokens[max(0, after.verb) : place]}
    has_many = bool(relation & _MANY) and not relation & {"every", "each", "每", "是"}
    if kinds == {"number"}:
        behind = after.tokens[after.tokens.index(now[-1]) + 1 :]
        is_counted = _UNITS & {*behind, *now} or not now[0][-1].isdigit() or (behind and "have" in relation)
        is_of_one_unit = all(word[0].isdigit() or word in _UNITS for word in {*was} ^ {*now})
        is_comparable = is_of_one_unit or not before.subject.isdisjoint(_ATTRIBUTES)
        return is_comparable and bool(changes or is_counted or not has_many)
    if kinds <= {"number", "time"}:
        if not changes and all(_DAYS & {*each} and {*each} - _DAYS - _TIES for each in (was, now)):
            return False  # another day and another hour: another meeting
        is_unsure = (_DAYS & {*was, *now} or (len(now) > 2 and _TIES & {*now})) and not relation & _IS
        return changes or not (has_many or is_unsure)
    is_said = min(before.verb, after.verb) > 0 or not was[0].isascii()
    if kinds != {"name"} or not (was_name and is_name and is_said) or verb in was or _NEVER & {*was, *now}:
        return False
    are_names = after.names.issuperset(now) and before.names.issuperset(was)
    is_attribute = bool(before.subject & _ATTRIBUTES)
    if changes:
        is_it = not {"be", "是", "为"}.isdisjoint((verb, new_verb))
        is_known = is_same or len(common) > 1 or bool(before.subject - {"i", "we", "it"})
        gathers = _GATHERS & relation or {"work", "with"} <= relation
        return is_known and not gathers and (not is_it or are_names or is_attribute)
    is_one = are_names and (before.is_definite or (before.subject & {"i", "we"} and len(before.subject) > 1))
    is_of_several = (before.subject & _SEVERAL and verb not in _LIVES) or "have" in relation
    if verb != new_verb or not (before.subject ^ after.subject) <= {"i", "we"} or is_of_several:
        return False
    called = before.tokens[before.verb + 1] if verb in _IS else verb
    return called in _ONE_PLACE or (verb in _IS and bool(is_attribute or is_one))


def _kind(words: Sequence[str]) -> str:
    """What kind of value *words* are: ``time``, ``number`` or ``name``; empty for none of them."""
    if not 0 < len(words) <= 8 or "not" in words:
        return ""
    is_time = all(word in _TIMES or word in _TIES or word[0].isdigit() for word in words)
    if is_time and any(word in _TIMES or _CLOCK.fullmatch(word) for word in words):
        return "time"
    if not _PREPOSITIONS.isdisjoint(words):
        return ""
    return "number" if words[0][0].isdigit() and len(words) <= 3 else "name"


# Compares a new fact with known ones: it is new, known, a better wording, or a change.

Action: TypeAlias = Literal["ADD", "UPDATE", "SUPERSEDE", "NONE"]

_SAME = 0.5  #: the overlap above which two facts say the same
_NEAR = 0.2  #: the overlap above which they are about the same thing
_COMPARED = 64  #: facts that a new one is compared with
_LONGER = 1.2  #: the ratio of lengths above which the new wording is better


@dataclass(frozen=True, slots=True)
class Learned:
    """The result of a batch of facts.

    Attributes:
        added: New facts, including those that replaced another.
        updated: Facts with a better wording now; their ids stay.
        superseded: Facts that became history.
        known: The number of facts that were known already.
    """

    added: tuple[Fact, ...] = ()
    updated: tuple[Fact, ...] = ()
    superseded: tuple[Fact, ...] = ()
    known: int = 0


def decide(new: Fact, known: Sequence[Fact], *, documented: bool = False) -> tuple[Action, Fact | None]:
    """The effect of *new* on the facts of *known* that hold, and the fact that it affects.

    It is known if a fact has the same words of content in subject, relation and value. It supersedes a fact
    of the same subject, with all qualifiers, and of the same relation, if the value differs. In doubt it is
    added, and both hold. Facts of two speakers, or of two contexts, never affect each other.

    With *documented* the overlap of words decides, among facts of one type: the rule of the preset
    ``openclaw``. A fact is superseded only if the new one names the thing that changed: it has the same
    subject, or a word of change beside the old subject or the old value.
    """
    action, old, _ = _decide(new, Held(known, documented=documented))
    return action, old


def learn(store: FactStore, batch: Sequence[Fact], *, documented: bool = False) -> Learned:
    """Adds *batch* to *store*, fact by fact, in one write.

    If two facts of the batch contradict each other, the later one holds; if one contradicts a known fact, the
    one that was said later holds, if both have source ranges. Nothing is deleted: superseded facts stay as
    history. A known fact gains the new source ranges, so learning a batch again changes nothing. If another
    session has a better wording, its fact replaces the old one, which becomes history: so each fact is of one
    session, and is deleted when that session is forgotten.
    """
    known = {fact.id: fact for fact in store.facts()} if batch else {}
    held = Held(known.values(), documented=documented)
    first = dict(known)
    added: dict[str, None] = {}
    already = 0
    for new in batch:
        action, old, why = _decide(new, held)
        if action == "UPDATE" and old is not None and old.session_id != new.session_id:
            action = "SUPERSEDE"
        if action == "ADD" or old is None:
            added[new.id] = None
            changed = [new]
        elif action == "SUPERSEDE" and _was_said_before(new, old):  # it was read late, and is already history
            added[new.id] = None
            changed = [
                replace(new, superseded_by=old.id, superseded_at=old.created_at, superseded_because=why)
            ]
        elif action == "SUPERSEDE":
            added[new.id] = None
            ended = new.created_at or now_ms()
            changed = [replace(old, superseded_by=new.id, superseded_at=ended, superseded_because=why), new]
        else:
            already += action == "NONE"
            said = _said_again(old, new)
            changed = [said if action == "NONE" else replace(said, content=new.content, context=new.context)]
        for fact in changed:
            known[fact.id] = fact
            held.put(fact)
    written = [fact for fact in known.values() if first.get(fact.id) != fact]
    ended_before = {name for name, fact in first.items() if fact.superseded_by}
    store.put(written)
    return Learned(
        tuple(fact for fact in written if fact.id in added),
        tuple(fact for fact in written if fact.id in first and fact.content != first[fact.id].content),
        tuple(fact for fact in written if fact.superseded_by and fact.id not in ended_before),
        already,
    )


class Held:
    """The facts that hold, indexed by words: a new fact is compared only with those that share a word."""

    def __init__(self, facts: Iterable[Fact] = (), *, documented: bool = False) -> None:
        self.documented: Final = documented
        self._facts: dict[str, Fact] = {}
        self._places: dict[str, int] = {}  # of equal facts the first one added comes first
        self._same: dict[bytes, dict[str, None]] = {}
        self._by_word: dict[tuple[str, str], dict[str, None]] = {}
        for fact in facts:
            self.put(fact)

    def put(self, fact: Fact) -> None:
        """Adds *fact*, or replaces the fact of its id; removes it if it does not hold any more."""
        old = self._facts.get(fact.id)
        if old is not None and (old.content, old.type) != (fact.content, fact.type):
            self._let_go(old)
        if fact.superseded_by is not None or fact.deleted_at is not None:
            if fact.id in self._facts:
                self._let_go(self._facts.pop(fact.id))
            return
        self._facts[fact.id] = fact
        self._places.setdefault(fact.id, len(self._places))
        self._same.setdefault(_digest(fact.content), {})[fact.id] = None
        for word in () if _is_of_a_tool(fact) else self._words(fact):  # those are told by text
            self._by_word.setdefault(word, {})[fact.id] = None

    def same(self, new: Fact) -> Fact | None:
        """The first fact with that text, ignoring case."""
        found = (self._facts[name] for name in self._same.get(_digest(new.content), ()))
        return next((fact for fact in found if self.documented or not _are_apart(new, fact)), None)

    def near(self, new: Fact) -> list[tuple[Fact, float]]:
        """The facts that share a word with *new*, each with the overlap; the nearest first."""
        asked = self._words(new)
        shared: Counter[str] = Counter()
        for word in asked:
            shared.update(list(self._by_word.get(word, ())))
        found = []
        for name, count in shared.most_common(None if self.documented else _COMPARED):
            fact = self._facts[name]
            found.append((fact, count / (len(asked) + len(self._words(fact)) - count)))
        return sorted(found, key=lambda each: (-each[1], -each[0].created_at, self._places[each[0].id]))

    def _words(self, fact: Fact) -> frozenset[tuple[str, str]]:
        if self.documented:
            return frozenset((fact.type, word) for word in words(fact.content))
        said = statement(fact.content)
        return frozenset(
            ("", word) for word in {*said.content, *said.gist, *settles(fact.content, fact.tags)[:1]}
        )

    def _let_go(self, fact: Fact) -> None:
        self._same[_digest(fact.content)].pop(fact.id, None)
        for word in self._words(fact):
            self._by_word.get(word, {}).pop(fact.id, None)


def _decide(new: Fact, held: Held) -> tuple[Action, Fact | None, str]:
    same = held.same(new)
    if same is not None:
        return "NONE", same, ""
    if _is_of_a_tool(new):
        return "ADD", None, ""
    ranked = held.near(new)
    if held.documented:
        return _by_overlap(new, ranked)
    ours = [fact for fact, _ in ranked if not _are_apart(new, fact)]
    known = next((fact for fact in ours if repeats(new.content, fact.content)), None)
    if known is not None:
        return "NONE", known, ""
    found = ((fact, resettles(new, fact) or replaces(new.content, fact.content)) for fact in ours)
    old, why = next((each for each in found if each[1]), (None, ""))
    return ("SUPERSEDE" if old else "ADD"), old, why


def _are_apart(new: Fact, old: Fact) -> bool:
    """Whether the two were said by different people, or have different subjects beside the sentence."""
    contexts = [statement(fact.context).content for fact in (new, old) if fact.context]
    return new.speaker != old.speaker or (len(contexts) == 2 and contexts[0] != contexts[1])


def _by_overlap(new: Fact, ranked: Sequence[tuple[Fact, float]]) -> tuple[Action, Fact | None, str]:
    for fact, overlap in ranked:
        longer = len(new.content) > _LONGER * len(fact.content)
        says_it = overlap > _SAME or (longer and contains_half(new.content, fact.content))
        same_values = not conflicting(new.content, fact.content) and not _contradicts(new, fact)
        if says_it and same_values and not _other_subject(new, fact) and not _gives_up(new, fact):
            return ("UPDATE" if longer else "NONE"), fact, ""
    for fact, overlap in ranked:
        if overlap > _NEAR and (_changes(new, fact) or (overlap > _SAME and _is_other_object(new, fact))):
            return "SUPERSEDE", fact, "the same subject, by the overlap of words"
    return "ADD", None, ""


def _is_of_a_tool(fact: Fact) -> bool:
    """Whether the fact is a result of a tool, which stays true whatever the tool returns later."""
    return fact.source.startswith("tool:")


def _changes(new: Fact, old: Fact) -> bool:
    """Whether *new* changes *old*, if both are about related things."""
    if subject(new.content) == subject(old.content) != "":
        return True
    is_named = _names(new, subject(old.content)) or bool(values(old.content) & values(new.content))
    return is_named and _CHANGE.search(new.content) is not None


def _contradicts(new: Fact, old: Fact) -> bool:
    """Whether *new* is no better wording of *old*: each has a word that the other lacks, or one denies it.

    A word of change says the same.
    """
    mine, theirs = _content_words(new), _content_words(old)
    denies = [_DENIES.search(each.content) is not None for each in (new, old)]
    changes = _CHANGE.search(new.content) and not _CHANGE.search(old.content)
    return bool(changes) or denies[0] != denies[1] or not (mine <= theirs or theirs <= mine)


def _is_other_object(new: Fact, old: Fact) -> bool:
    """Whether both begin with the same verb, "use" for example, so that its object has changed."""
    first, before = (each.content.lower().split()[:1] for each in (new, old))
    return first == before != [] and first[0] in _STOP


def _content_words(fact: Fact) -> frozenset[str]:
    return words(fact.content.translate(_POINTS)) - _STOP


def _other_subject(new: Fact, old: Fact) -> bool:
    """Whether the two have different subjects, and neither names the subject of the other."""
    mine, theirs = subject(new.content), subject(old.content)
    return mine != theirs and not _names(old, mine) and not _names(new, theirs)


def _gives_up(new: Fact, old: Fact) -> bool:
    """Whether *new* says that the subject of *old* is given up: "instead of" it, "no longer" it."""
    given_up = {found[1].lower() for found in _GIVEN_UP.finditer(new.content)}
    return subject(new.content) != subject(old.content) != "" and subject(old.content) in given_up


def _names(fact: Fact, word: str) -> bool:
    return bool(word) and word in words(fact.content.translate(_POINTS))


def _said_again(old: Fact, new: Fact) -> Fact:
    """*old* with the source ranges of *new*; unchanged if it has them already."""
    old = replace(old, tags=tuple(dict.fromkeys((*old.tags, *new.tags))))
    if old.session_id != new.session_id:
        return replace(old, support=old.support + 1)
    places = tuple(each for each in new.source_ranges if each not in old.source_ranges)
    if new.source_ranges and not places:
        return old
    return replace(old, source_ranges=(*old.source_ranges, *places), support=old.support + 1)


def _was_said_before(new: Fact, old: Fact) -> bool:
    """Whether all of *new* was said before *old*, in the same session."""
    if new.session_id != old.session_id or not new.source_ranges or not old.source_ranges:
        return False
    return max(end for _, end in new.source_ranges) <= min(start for start, _ in old.source_ranges)


def _digest(content: str) -> bytes:
    from hashlib import sha256  # it loads OpenSSL, which only learning needs

    return sha256(content.strip().lower().encode("utf-8", "replace")).digest()


_POINTS = {ord(char): " " for char in ".,;:!?()[]\"'`"}
