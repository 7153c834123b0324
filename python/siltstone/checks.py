"""Bounds of settings: each check names the field, the bound and the value."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field as a_field, fields, replace
from functools import cache, partial
from math import inf
from typing import Any

from siltstone.errors import ConfigError, refuse as refuse
from siltstone.tokens import TokenRule, rule

LEAST_RESULT = 64  #: tokens that a result which is cut keeps at least: below, it says nothing but that
LEAST_WINDOW = 1_024  #: tokens of a summariser's window: a smaller one does not hold the prompt and an answer


def is_int(value: object) -> bool:
    """Whether *value* is a whole number; True and False are not."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    """Whether *value* is a number; True and False are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def positive(field: str, value: Any, or_else: str = "") -> None:
    """Refuses a value that is not a whole number above 0."""
    if not is_int(value):
        refuse(field, f"{or_else}an integer", value)
    if value <= 0:
        refuse(field, f"{or_else}> 0", value)


def at_least(field: str, value: Any, least: int, or_else: str = "") -> None:
    """Refuses a value that is not a whole number of *least* or more."""
    if not is_int(value) or value < least:
        refuse(field, f"{or_else}an integer >= {least}", value)


def within(field: str, value: Any, least: int, most: int) -> None:
    """Refuses what is not a whole number in *least*..*most*."""
    if not is_int(value) or not least <= value <= most:
        refuse(field, f"an integer in {least}..{most}", value)


def share(field: str, value: Any, or_else: str = "", *, above_zero: bool = False) -> None:
    """Refuses a value that is not a number in 0..1; with *above_zero* also 0."""
    if not is_number(value) or not 0 <= value <= 1 or (above_zero and value == 0):
        refuse(field, f"{or_else}a number {'> 0, at most 1' if above_zero else 'in 0..1'}", value)


def between(field: str, value: Any, least: float, most: float) -> None:
    """Refuses a value that is not a number in *least*..*most*."""
    if not is_number(value) or not least <= value <= most:
        refuse(field, f"a number in {least}..{most}", value)


def fraction(field: str, value: Any, or_else: str = "") -> None:
    """Refuses a value that is not a number above 0 and below 1."""
    if not is_number(value) or not 0 < value < 1:
        refuse(field, f"{or_else}a number > 0 and < 1", value)


def function(field: str, value: object, of: str, or_else: str = "") -> None:
    """Refuses a value that cannot be called with *of*, in words."""
    if not callable(value):
        refuse(field, f"{or_else}a function of {of}", value)


def seconds(field: str, value: Any, or_else: str = "None or ") -> None:
    """Refuses a value that is not a finite number of seconds above 0, and None where *or_else* is empty."""
    if not (value is None and or_else) and (not is_number(value) or not 0 < value < inf):
        refuse(field, f"{or_else}a number of seconds > 0", value)


def pause(field: str, value: Any, or_else: str = "") -> None:
    """Refuses what is not a finite time of 0 or more."""
    if not is_number(value) or not 0 <= value < inf:
        refuse(field, f"{or_else}a number of seconds >= 0", value)


def boolean(field: str, value: object, or_else: str = "") -> None:
    """Refuses a value that is neither True nor False."""
    if not isinstance(value, bool):
        refuse(field, f"{or_else}True or False", value)


def text(field: str, value: object) -> None:
    """Refuses a value that is not a text, and a blank text."""
    if not isinstance(value, str) or not value.strip():
        refuse(field, "a text that is not blank", value)


def names(field: str, value: object, bound: str = "a list of names") -> tuple[str, ...]:
    """The names in a list or a tuple; refuses anything else, and a name that is empty or no text."""
    found: Iterable[Any] = value if isinstance(value, list | tuple) else ("",)
    if not all(isinstance(name, str) and name for name in found):
        refuse(field, bound, value)
    return tuple(found)


def one_of(field: str, value: object, words: tuple[str, ...]) -> None:
    """Refuses a value that is not among *words*."""
    if not isinstance(value, str) or value not in words:
        refuse(field, " or ".join(map(repr, words)), value)


def estimator(field: str, value: str | TokenRule) -> None:
    """Refuses what is neither the name of a token rule nor a rule."""
    try:
        rule(value)
    except ConfigError as error:
        raise ConfigError(f"{field}: {error}", field=field, value=value) from None


def each(
    settings: object,
    names: str,
    check: Callable[..., object],
    *bounds: Any,
    unless: tuple[Any, ...] = (),
    **more: Any,
) -> None:
    """Runs *check* on the settings of these *names*, but not on a value that is one of *unless*."""
    if unless:
        more["or_else"] = f"{', '.join(map(repr, unless))} or "
    for name in names.split():
        value = getattr(settings, name)
        if value not in unless:
            check(name, value, *bounds, **more)


# Settings: values that are checked when they are made, each by the check that stands beside its default.


def setting(
    default: Any, check: Callable[..., object], *bounds: Any, unless: tuple[Any, ...] = (), **more: Any
) -> Any:
    """A field of :class:`Settings`. *check* looks at its value, but not at one that is among *unless*.

    A check that returns something returns the form in which the value is kept.
    """
    if unless:
        more["or_else"] = f"{', '.join(map(repr, unless))} or "

    def checked(field: str, value: object) -> object:
        return None if value in unless else check(field, value, *bounds, **more)

    return a_field(default=default, metadata={"check": checked})


@dataclass(frozen=True, slots=True)
class Settings:
    """Values that are checked when they are made.

    A field of the type ``bool`` or of some words is checked by its type, others are made by :func:`setting`.
    """

    def __post_init__(self) -> None:
        for each in fields(self):
            check = each.metadata.get("check") or _check_of(str(each.type))
            if check is not None and (kept := check(each.name, getattr(self, each.name))) is not None:
                object.__setattr__(self, each.name, kept)
        self._check_together()

    def _check_together(self) -> None:
        """Checks the bounds that depend on other settings."""


@cache
def _check_of(kind: str) -> Callable[[str, object], object] | None:
    """The check of a type, which a module with postponed annotations has by its name."""
    if kind in ("bool", str(bool)):
        return boolean
    words = re.fullmatch(r"(?:typing\.)?Literal\[(.*)\]", kind)
    return partial(one_of, words=tuple(re.findall("'([^']*)'", words[1]))) if words else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Summarising(Settings):
    """The settings of calls for a summary, which several policies have."""

    attempts: int = setting(2, positive)
    summary_timeout: float | None = setting(30.0, seconds)
    retry_delay: float = setting(0.5, pause)
    summarizer_window: int | None = setting(None, at_least, LEAST_WINDOW, unless=(None,))


def nearest(word: str, known: Sequence[str]) -> str:
    """A half sentence that names the known word nearest to *word*, or all of them."""
    from difflib import get_close_matches  # only an error needs it

    close = get_close_matches(word.lower().replace("-", "_"), [each.replace("-", "_") for each in known], 1)
    if not close:
        return f"; known are {', '.join(known)}"
    found = next(each for each in known if each.replace("-", "_") == close[0])
    return f"; did you mean {found!r}?"


def check_known(given: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    """Refuses unknown keys, and names the nearest known key.

    Raises:
        ConfigError: a key of *given* is not in *known*.
    """
    for key, value in given.items():
        if key not in known:
            alike = [each for each in known if each.islower() == key.islower()]  # keys of the same spelling
            hint = nearest(key, alike or known)
            raise ConfigError(f"{where} has no setting {key!r}{hint}", field=key, value=value)


# Computes a share of a whole as a whole number; exact for shares that are written as decimals.


def share_of(whole: int, share: float) -> int:
    """The largest number that is at most *share* of *whole*."""
    from fractions import Fraction  # with decimal: a session without shares does without

    return int(Fraction(str(share)) * whole)


def reached_at(whole: int, share: float) -> int:
    """The least number that is at least *share* of *whole*."""
    from fractions import Fraction

    return -int(-Fraction(str(share)) * whole // 1)


def settings_table(kind: type[Any], name: str, given: Mapping[str, Any], form: Any = None) -> Any:
    """The settings *kind* of the table *name*, such as ``[tiered.chronicle]``; *form* has the missing keys.

    Raises:
        ConfigError: an unknown key, with the nearest known key; or a value out of its bounds.
    """
    check_known(given, [each.name for each in fields(kind)], name)
    return replace(kind() if form is None else form, **given)
