"""Reads times in English words, such as ``yesterday`` or ``last Tuesday``, and in ISO 8601.

Words name a period, from its first moment up to its end. Ambiguous words are not understood: nothing is
guessed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Final, TypeAlias

__all__ = ["Period", "period"]

Period: TypeAlias = tuple[datetime, datetime]
"""The first moment of a period, and the first one after it; the same moment twice for a point in time."""

_DAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONTHS: Final = (
    "", "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_NUMBERS: Final = (
    "zero", "one", "two", "three", "four", "five", "six",
    "seven", "eight", "nine", "ten", "eleven", "twelve",
)  # fmt: skip
_DAY: Final = timedelta(days=1)


def period(words: str, now: datetime) -> Period | None:
    """The period that *words* name at *now*; None where they name none, or more than one.

    ==================================  =============================================================
    words                               period
    ==================================  =============================================================
    ``2026-03-05``, ``2026-03``,        the day, the month, the year
    ``2026``
    ``2026-03-05T14:30``                that moment; with an offset in its own zone
    ``now``                             *now*
    ``today``, ``yesterday``, ``the     the day
    day before yesterday``
    ``this week``, ``last month``       the week (from Monday), month or year that holds *now*, or the
                                        one before it
    ``last Tuesday``                    the latest Tuesday before today
    ``Tuesday``, ``on Tuesday``         the same, or today if it is one
    ``in March``, ``March``             the latest March that has begun
    ``5 March``, ``March 5th``          the latest such day that has begun
    ``5 March 2026``, ``March 2026``    the day, the month
    ``3 days ago``, ``a week ago``      the day that many days or weeks before today
    ``2 months ago``, ``a year ago``    the day of that month or year with today's number, or its last
    ``2 hours ago``, ``5 minutes ago``  that moment
    ==================================  =============================================================

    Args:
        words: In any case. Articles and ``on``, ``in`` before them are left out.
        now: The moment from which they are seen, with a zone: days begin at midnight there.
    """
    said = re.sub(r"[\s,]+", " ", words).strip().lower()
    said = re.sub(r"^(?:(?:on|in|the) )+", "", said)
    for read in (_moment, _calendar, _relative, _weekday, _ago, _named):
        try:
            found = read(said, now)
        except (ValueError, OverflowError):  # no calendar has such a day
            return None
        if found is not None:
            return found
    return None


def _moment(said: str, now: datetime) -> Period | None:
    if not re.fullmatch(r"\d{4}-\d\d-\d\d[t ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?( ?(z|[+-]\d\d:?\d\d))?", said):
        return None
    moment = datetime.fromisoformat(said.upper().replace(" +", "+").replace(" -", "-").replace(" Z", "Z"))
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=now.tzinfo)
    return aware, aware


def _calendar(said: str, now: datetime) -> Period | None:
    found = re.fullmatch(r"(\d{4})(?:-(\d\d)(?:-(\d\d))?)?", said)
    if found is None:
        return None
    year, month, day = (None if part is None else int(part) for part in found.groups())
    if year is None or month is None:
        return _year(int(found[1]), now.tzinfo)
    return _month(year, month, now.tzinfo) if day is None else _day(date(year, month, day), now.tzinfo)


def _relative(said: str, now: datetime) -> Period | None:
    today, zone = now.date(), now.tzinfo
    monday = today - timedelta(days=today.weekday())
    periods: dict[str, Callable[[], Period]] = {
        "now": lambda: (now, now),
        "today": lambda: _day(today, zone),
        "yesterday": lambda: _day(today - _DAY, zone),
        "day before yesterday": lambda: _day(today - 2 * _DAY, zone),
        "this week": lambda: _between(monday, monday + 7 * _DAY, zone),
        "last week": lambda: _between(monday - 7 * _DAY, monday, zone),
        "this month": lambda: _month(today.year, today.month, zone),
        "last month": lambda: _month(*_months_before(today, 1), zone),
        "this year": lambda: _year(today.year, zone),
        "last year": lambda: _year(today.year - 1, zone),
    }
    return periods[said]() if said in periods else None


def _weekday(said: str, now: datetime) -> Period | None:
    last, _, name = said.rpartition(" ")
    day = _place(name, _DAYS, shortest=3)
    if day is None or last not in ("", "last"):
        return None
    back = (now.weekday() - day) % 7
    return _day(now.date() - timedelta(days=back or (7 if last else 0)), now.tzinfo)


def _ago(said: str, now: datetime) -> Period | None:
    found = re.fullmatch(r"(\w+) (minute|hour|day|week|month|year)s? ago", said)
    if found is None:
        return None
    number = _number(found[1])
    if number is None:
        return None
    today = now.date()
    match found[2]:
        case "minute" | "hour" as unit:
            moment = now.astimezone(UTC) - timedelta(**{f"{unit}s": number})
            return moment, moment
        case "day" | "week" as unit:
            return _day(today - number * (7 if unit == "week" else 1) * _DAY, now.tzinfo)
        case unit:
            year, month = _months_before(today, number * (12 if unit == "year" else 1))
            last = _days(year, month)
            return _day(date(year, month, min(today.day, last)), now.tzinfo)


def _named(said: str, now: datetime) -> Period | None:
    """A month by its name, with or without a day and a year."""
    found = re.fullmatch(
        r"(?:(?P<before>\d\d?)(?:st|nd|rd|th)? (?:of )?)?(?P<month>[a-z]+)\.?"
        r"(?: (?P<after>\d\d?)(?:st|nd|rd|th)?)?(?: (?P<year>\d{4}))?",
        said,
    )
    month = None if found is None else _place(found["month"], _MONTHS, shortest=3)
    if found is None or not month or (found["before"] and found["after"]):
        return None
    number = found["before"] or found["after"]
    day = 1 if number is None else int(number)
    first = date(int(found["year"]), month, day) if found["year"] else _latest(month, day, now.date())
    return _month(first.year, month, now.tzinfo) if number is None else _day(first, now.tzinfo)


def _latest(month: int, day: int, today: date) -> date:
    """The latest such day up to *today*.

    Raises:
        ValueError: no year has it.
    """
    for year in range(today.year, today.year - 9, -1):  # of 9 years in a row one has a 29 February
        if 1 <= day <= _days(year, month) and date(year, month, day) <= today:
            return date(year, month, day)
    raise ValueError(f"no month {month} has a day {day}")


def _days(year: int, month: int) -> int:
    from calendar import monthrange  # with locale: only a query that names a month needs it

    return monthrange(year, month)[1]


def _number(word: str) -> int | None:
    if word in ("a", "an"):
        return 1
    if word in _NUMBERS:
        return _NUMBERS.index(word)
    return int(word) if re.fullmatch(r"[0-9]{1,5}", word) else None


def _place(word: str, names: Iterable[str], shortest: int) -> int | None:
    """The place of the name that *word* is, or is the beginning of: ``tue``, ``sept``."""
    for place, name in enumerate(names):
        if name and len(word) >= shortest and name.startswith(word):
            return place
    return None


def _months_before(today: date, months: int) -> tuple[int, int]:
    year, month = divmod(today.year * 12 + today.month - 1 - months, 12)
    return year, month + 1


def _day(day: date, zone: tzinfo | None) -> Period:
    return _between(day, day + _DAY, zone)


def _month(year: int, month: int, zone: tzinfo | None) -> Period:
    return _between(date(year, month, 1), date(year + month // 12, month % 12 + 1, 1), zone)


def _year(year: int, zone: tzinfo | None) -> Period:
    return _between(date(year, 1, 1), date(year + 1, 1, 1), zone)


def _between(first: date, after: date, zone: tzinfo | None) -> Period:
    start, end = (datetime(day.year, day.month, day.day, tzinfo=zone) for day in (first, after))
    return start, end
