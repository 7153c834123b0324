"""Reads times in English words, such as ``yesterday`` or ``last Tuesday``, and in figures.

Words name a period, from its first moment up to its end. Ambiguous words are not understood: nothing is
guessed. Libraries that read such words give one moment instead of a period, and guess.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Final, TypeAlias, TypeGuard

Period: TypeAlias = tuple[datetime, datetime]
"""The first moment of a period, and the first one after it; the same moment twice for a point in time."""

_Reader: TypeAlias = Callable[[str, datetime], Period | None]

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
_LONGEST: Final = 80  #: characters of words for a time
_PARTS: Final = {"morning": (4, 12), "afternoon": (12, 18), "evening": (17, 24), "night": (18, 30)}
_UNITS: Final = {
    "second": "s|secs?|seconds?",
    "minute": "m|mins?|minutes?",
    "hour": "h|hrs?|hours?",
    "day": "d|days?",
    "week": "w|wks?|weeks?",
    "fortnight": "fortnights?",
    "month": "mos?|months?",
    "quarter": "quarters?",
    "year": "y|yrs?|years?",
}
_MONTHS_OF: Final = {"month": 1, "quarter": 3, "year": 12}
_DAYS_OF: Final = {"day": 1, "week": 7, "fortnight": 14}
_SPAN: Final = (
    r"(?:(?P<count>\d+(?:\.\d+)?) ?|(?P<word>(?:a )?couple(?: of)?|half an?|[a-z]+) )"
    rf"(?P<unit>{'|'.join(_UNITS.values())})"
)  # so many units
_LEADING: Final = re.compile(
    r"^(?:(?:on|in|at|the|since|from|as of|starting|during|within|over|until|till|up to|through|earlier) )+"
)


def period(words: str, now: datetime) -> Period | None:
    """The period that *words* name at *now*; None where they name none, or more than one.

    ==================================  =============================================================
    words                               period
    ==================================  =============================================================
    ``2026-03-05``, ``2026/3/5``,       the day; ``31.12.2025`` and ``31/12/2025`` too, but not
    ``5.3.2026``                        ``3/5/2026``, which is read in two ways
    ``2026-03``, ``3/2026``, ``2026``   the month, the year
    ``2026-W11``, ``week 11``, ``Q1``,  the week of ISO 8601, the quarter, the half-year; without a year
    ``H1 2026``                         the latest that has begun
    ``2026-03-05T14:30``, epoch         that moment, without an offset in the zone of *now*; seconds or
    seconds                             milliseconds since 1970
    ``now``                             *now*
    ``today``, ``yesterday``, ``the     the day
    day before yesterday``
    ``this week``, ``last month``,      the week (from Monday), weekend, month, quarter or year that
    ``previous year``                   holds *now*, or the one before it
    ``last Tuesday``                    the latest Tuesday before today
    ``Tuesday``, ``on Tuesday``         the same, or today if it is one
    ``Tuesday last week``               the Tuesday of that week
    ``in March``, ``March``             the latest March that has begun
    ``5 March``, ``March 5th``          the latest such day that has begun
    ``5 March 2026``, ``March 2026``,   the day, the month
    ``March last year``
    ``3 days ago``, ``a week ago``      the day that many days or weeks before today
    ``2 months ago``, ``a year ago``    the day of that month or year with today's number, or its last
    ``2 hours ago``, ``now-2h``         that moment
    ``last 3 days``, ``past week``,     from that day, or that moment, up to *now*
    ``7d``
    ``yesterday morning``,              4 to 12 o'clock, ``afternoon`` 12 to 18, ``evening`` 17 to 24,
    ``last night``                      ``night`` 18 to 6 on the next day
    ``today at 3pm``, ``May 7 14:30``   that moment
    ``early May``, ``end of the week``  the first, the middle or the last third of its days
    ``the week of May 7``               the week that holds that day
    ==================================  =============================================================

    Args:
        words: In any case. Articles and words such as ``on``, ``in`` and ``since`` before them are left out.
        now: The moment from which they are seen, with a zone: days begin at midnight there.
    """
    if len(words) > _LONGEST:
        return None
    said = re.sub(r"[\s,]+", " ", words).strip(" .?!'\"").lower()
    if re.fullmatch(rf"in {_SPAN}", said):
        return None  # it lies ahead
    return _read(said, now, (*_SIMPLE, _in_week, *_MADE_OF_OTHERS))


def _read(said: str, now: datetime, readers: Iterable[_Reader]) -> Period | None:
    said = _LEADING.sub("", said)
    for read in readers:
        try:
            found = read(said, now)
        except (ValueError, OverflowError):  # no calendar has such a day
            continue
        if found is not None:
            return found
    return None


def _moment(said: str, now: datetime) -> Period | None:
    if re.fullmatch(r"\d{10}(\.\d+)?|\d{13}", said):
        seconds = float(said) if len(said.partition(".")[0]) == 10 else int(said) / 1000
        moment = datetime.fromtimestamp(seconds, UTC)
    elif re.fullmatch(r"\d{4}-\d\d-\d\d[t ]\d\d:\d\d.*", said):
        moment = datetime.fromisoformat(re.sub(r" ?(utc|gmt)$", "z", said).upper().replace(" Z", "Z"))
    elif said in ("now", "right now", "just now"):
        moment = now
    else:
        return None
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=now.tzinfo)
    return aware, aware


def _calendar(said: str, now: datetime) -> Period | None:
    zone = now.tzinfo
    if re.fullmatch(r"\d{8}", said):
        return _day(date.fromisoformat(said), zone)
    if found := re.fullmatch(r"(\d{4})(?:([-/.])(\d\d?)(?:\2(\d\d?))?)?", said):
        year, month, day = int(found[1]), int(found[3] or 0), int(found[4] or 0)
        if found[3] is None:
            return _months(year, 1, 12, zone)
        return _months(year, month, 1, zone) if found[4] is None else _day(date(year, month, day), zone)
    if found := re.fullmatch(r"(\d\d?)([-/.])(?:(\d\d?)\2)?(\d{4})", said):
        one, other, year = int(found[1]), int(found[3] or 0), int(found[4])
        if found[3] is None:
            return _months(year, one, 1, zone)
        if found[2] == "." or one > 12:
            return _day(date(year, other, one), zone)
        return _day(date(year, one, other), zone) if other > 12 or one == other else None
    if found := re.fullmatch(r"(\d{4})-?w(\d\d)(?:-?([1-7]))?", said):
        first = date.fromisocalendar(int(found[1]), int(found[2]), int(found[3] or 1))
        return _between(first, first + (1 if found[3] else 7) * _DAY, zone)
    if found := re.fullmatch(r"(?:week |w)(\d\d?)(?: of)?(?: (\d{4}))?", said):
        number = int(found[1])
        return _latest_of(found[2], now, lambda year: _week(date.fromisocalendar(year, number, 1), zone))
    if found := re.fullmatch(r"(?:(\d{4})[- ]?)?([qh])([1-4])(?: (?:of )?(\d{4}))?", said):
        length = 3 if found[2] == "q" else 6
        month = length * (int(found[3]) - 1) + 1
        if not (found[1] and found[4]):
            return _latest_of(found[1] or found[4], now, lambda year: _months(year, month, length, zone))
    return None


def _latest_of(year: str | None, now: datetime, of_year: Callable[[int], Period]) -> Period:
    """The period of *year*; without a year the latest that has begun."""
    if year is not None:
        return of_year(int(year))
    this = of_year(now.year)
    return this if this[0] <= now else of_year(now.year - 1)


def _relative(said: str, now: datetime) -> Period | None:
    today, zone = now.date(), now.tzinfo
    days = {"today": 0, "yesterday": 1, "day before yesterday": 2}
    if said in days:
        return _day(today - days[said] * _DAY, zone)
    if said == "weekend":  # the latest that has begun
        said = "this weekend" if today.weekday() > 4 else "last weekend"
    found = re.fullmatch(r"(this|current|last|previous) (week|weekend|month|quarter|year)", said)
    if found is None:
        return None
    back, unit = found[1] in ("last", "previous"), found[2]
    if unit == "weekend" and not back and today.weekday() < 5:
        return None  # the one before, or the one ahead
    if unit.startswith("week"):
        monday = today - timedelta(days=today.weekday() + 7 * back)
        return _between(monday + (5 * _DAY if unit == "weekend" else 0 * _DAY), monday + 7 * _DAY, zone)
    length = _MONTHS_OF[unit]
    year, month = _months_before(today, (today.month - 1) % length + length * back)
    return _months(year, month, length, zone)


def _weekday(said: str, now: datetime) -> Period | None:
    last, _, name = said.rpartition(" ")
    day = _place(name, _DAYS, shortest=3)
    if day is None or last not in ("", "last", "past", "previous"):
        return None
    back = (now.weekday() - day) % 7
    return _day(now.date() - timedelta(days=back or (7 if last else 0)), now.tzinfo)


def _ago(said: str, now: datetime) -> Period | None:
    found = re.fullmatch(rf"{_SPAN} (?:ago|back)", said) or re.fullmatch(rf"now ?- ?{_SPAN}", said)
    return None if found is None else _back(found["count"] or found["word"], found["unit"], now)


def _lately(said: str, now: datetime) -> Period | None:
    """The last so many units up to now."""
    said = re.sub(r"^(past|last) (?=(?:second|minute|hour|day)$)|^past (?=[a-z]+$)", "last one ", said)
    found = re.fullmatch(rf"(?:(?:last|past|previous) |-)?{_SPAN}", said)
    first = None if found is None else _back(found["count"] or found["word"], found["unit"], now)
    return None if first is None else (first[0], now)


def _back(count: str, unit: str, now: datetime) -> Period | None:
    """The moment so many units before *now*; the day, of units of a day or more. None: *count* is none."""
    number = _number(count)
    if number is None:
        return None
    name = next(name for name, spellings in _UNITS.items() if re.fullmatch(spellings, unit))
    if name in ("second", "minute", "hour"):
        moment = (now.astimezone(UTC) - timedelta(**{f"{name}s": number})).astimezone(now.tzinfo)
        return moment, moment
    if number != int(number):
        return None
    if name in _DAYS_OF:
        return _day(now.date() - int(number) * _DAYS_OF[name] * _DAY, now.tzinfo)
    year, month = _months_before(now.date(), int(number) * _MONTHS_OF[name])
    return _day(date(year, month, min(now.day, _days(year, month))), now.tzinfo)


def _numbered(said: str, now: datetime) -> Period | None:
    """The latest day with a number, such as ``7th``."""
    found = re.fullmatch(r"(\d\d?)(?:st|nd|rd|th)", said)
    if found is None:
        return None
    for back in range(3):  # of three months in a row one has a day 31 that has begun
        year, month = _months_before(now.date(), back)
        if int(found[1]) <= _days(year, month) and (day := date(year, month, int(found[1]))) <= now.date():
            return _day(day, now.tzinfo)
    return None


def _named(said: str, now: datetime) -> Period | None:
    """A month by its name, with or without a day and a year."""
    found = re.fullmatch(
        r"(?:(?P<before>\d\d?)(?:st|nd|rd|th)? (?:of )?)?(?P<month>[a-z]+)\.?"
        r"(?: (?:the )?(?P<after>\d\d?)(?:st|nd|rd|th)?)?"
        r"(?: (?:of )?(?P<year>\d{4}|(?:this|last) year))?",
        said,
    )
    month = None if found is None else _place(found["month"], _MONTHS, shortest=3)
    if found is None or not month or (found["before"] and found["after"]):
        return None
    number = found["before"] or found["after"]
    day = 1 if number is None else int(number)
    if (year := found["year"]) is None:
        first = _latest(month, day, now.date())
    else:
        named = {"this year": now.year, "last year": now.year - 1}
        first = date(named[year] if year in named else int(year), month, day)
    return _months(first.year, month, 1, now.tzinfo) if number is None else _day(first, now.tzinfo)


def _in_week(said: str, now: datetime) -> Period | None:
    """The week of a day, a weekday of a week, or a day after the name of its weekday."""
    if found := re.fullmatch(r"week of (.+)", said):
        day = _read(found[1], now, _SIMPLE)
        return _week(day[0].date(), now.tzinfo) if _is_day(day) else None
    name = "|".join(f"{day[:3]}(?:{day[3:]})?" for day in _DAYS)
    found = re.fullmatch(
        rf"(?P<day>{name})(?: of)? (?P<rest>.+)|(?P<week>.+ week)(?: on)? (?P<of>{name})", said
    )
    if found is None:
        return None
    at = _place(found["day"] or found["of"], _DAYS, shortest=3) or 0
    whole = _read(found["rest"] or found["week"], now, (_calendar, _relative, _named))
    if whole is not None and whole[1] - whole[0] == 7 * _DAY:
        return _day(whole[0].date() + at * _DAY, now.tzinfo)
    return whole if _is_day(whole) and whole[0].weekday() == at else None


def _part_of_day(said: str, now: datetime) -> Period | None:
    said = re.sub(r"^(?:early|late) (?=.*(?:morning|evening|night)$)", "", said).replace(
        "tonight", "this night"
    )
    part = "|".join(_PARTS)
    found = re.fullmatch(rf"(?:(?P<day>.+?) )??(?:in the )?(?P<part>{part})(?: of (?P<of>.+))?", said)
    if found is None or bool(found["day"]) == bool(found["of"]):
        return None
    named = {"this": "today", "last": "yesterday"}.get(found["day"], found["day"])
    day = _read(found["of"] or named, now, (*_SIMPLE, _in_week))
    if not _is_day(day):
        return None
    first, after = (timedelta(hours=hour) for hour in _PARTS[found["part"]])
    return day[0] + first, day[0] + after


def _clock(said: str, now: datetime) -> Period | None:
    found = re.fullmatch(
        r"(?:(?P<day>.+?) )??(?:at |@ ?)?"
        r"(?:(?P<noon>noon)|(?P<hour>\d\d?)(?::(?P<minute>\d\d)(?::\d\d)?)? ?(?P<half>[ap])?(?(half)\.?m))",
        said,
    )
    if found is None or not (found["noon"] or found["minute"] or found["half"]):
        return None
    day = _read(found["day"] or "today", now, (*_SIMPLE, _in_week))
    hour = 12 if found["noon"] else int(found["hour"])
    if not _is_day(day) or (found["half"] and not 1 <= hour <= 12):
        return None
    if found["half"]:
        hour = hour % 12 + (12 if found["half"] == "p" else 0)
    moment = day[0].replace(hour=hour, minute=int(found["minute"] or 0))
    return moment, moment


def _third(said: str, now: datetime) -> Period | None:
    found = re.fullmatch(
        r"(?P<place>beginning of|start of|early|middle of|mid|end of|late)[ -](?P<of>.+)", said
    )
    if found is None:
        return None
    of = re.sub(r"^(?:the )?(week|month|quarter|year)$", r"this \1", found["of"])
    whole = _read(of, now, (*_SIMPLE, _in_week))
    days = 0 if whole is None else (whole[1] - whole[0]).days
    if whole is None or days < 7:
        return None
    at = 0 if found["place"] in ("beginning of", "start of", "early") else 1 + (found["place"][0] != "m")
    first, after = (whole[0].date() + days // 3 * place * _DAY for place in (at, at + 1))
    return _between(first, after if at < 2 else whole[1].date(), now.tzinfo)


_SIMPLE: Final = (_moment, _calendar, _relative, _weekday, _ago, _lately, _numbered, _named)
_MADE_OF_OTHERS: Final = (_part_of_day, _third, _clock)


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


def _number(word: str) -> float | None:
    if word in ("a", "an"):
        return 1
    if "couple" in word:
        return 2
    if word.startswith("half"):
        return 0.5
    if word in _NUMBERS:
        return _NUMBERS.index(word)
    return float(word) if re.fullmatch(r"[0-9]{1,5}(\.[0-9]{1,3})?", word) else None


def _place(word: str, names: Iterable[str], shortest: int) -> int | None:
    """The place of the name that *word* is, or is the beginning of: ``tue``, ``sept``."""
    for place, name in enumerate(names):
        if name and len(word) >= shortest and name.startswith(word):
            return place
    return None


def _months_before(today: date, months: int) -> tuple[int, int]:
    year, month = divmod(today.year * 12 + today.month - 1 - months, 12)
    return year, month + 1


def _is_day(whole: Period | None) -> TypeGuard[Period]:
    return whole is not None and whole[1] - whole[0] == _DAY and whole[0].hour == 0


def _day(day: date, zone: tzinfo | None) -> Period:
    return _between(day, day + _DAY, zone)


def _week(day: date, zone: tzinfo | None) -> Period:
    """The week that holds *day*."""
    monday = day - timedelta(days=day.weekday())
    return _between(monday, monday + 7 * _DAY, zone)


def _months(year: int, month: int, length: int, zone: tzinfo | None) -> Period:
    """So many months from the first of *month* on."""
    after = year * 12 + month - 1 + length
    return _between(date(year, month, 1), date(after // 12, after % 12 + 1, 1), zone)


def _between(first: date, after: date, zone: tzinfo | None) -> Period:
    start, end = (datetime(day.year, day.month, day.day, tzinfo=zone) for day in (first, after))
    return start, end
