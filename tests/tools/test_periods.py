"""Times in words: each names one period, or is refused."""

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, strategies as st

from siltstone.tools.periods import period

NOW = datetime(2026, 3, 11, 15, 30, tzinfo=UTC)  # a Wednesday


def day(year: int, month: int, day: int) -> tuple[datetime, datetime]:
    start = datetime(year, month, day, tzinfo=UTC)
    return start, start + timedelta(days=1)


def between(first: tuple[int, int, int], after: tuple[int, int, int]) -> tuple[datetime, datetime]:
    return datetime(*first, tzinfo=UTC), datetime(*after, tzinfo=UTC)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("2026-03-05", day(2026, 3, 5)),
        ("2026-02", between((2026, 2, 1), (2026, 3, 1))),
        ("in 2025", between((2025, 1, 1), (2026, 1, 1))),
        ("today", day(2026, 3, 11)),
        ("Yesterday", day(2026, 3, 10)),
        ("the day before yesterday", day(2026, 3, 9)),
        ("this week", between((2026, 3, 9), (2026, 3, 16))),
        ("last week", between((2026, 3, 2), (2026, 3, 9))),
        ("this month", between((2026, 3, 1), (2026, 4, 1))),
        ("last month", between((2026, 2, 1), (2026, 3, 1))),
        ("last Tuesday", day(2026, 3, 10)),
        ("last Wednesday", day(2026, 3, 4)),
        ("on Thursday", day(2026, 3, 5)),
        ("Wednesday", day(2026, 3, 11)),
        ("tue", day(2026, 3, 10)),
        ("in March", between((2026, 3, 1), (2026, 4, 1))),
        ("December", between((2025, 12, 1), (2026, 1, 1))),
        ("March 2025", between((2025, 3, 1), (2025, 4, 1))),
        ("the 5th of March", day(2026, 3, 5)),
        ("March 12", day(2025, 3, 12)),
        ("March 5th, 2024", day(2024, 3, 5)),
        ("29 Feb", day(2024, 2, 29)),
        ("Sept. 3", day(2025, 9, 3)),
        ("3 days ago", day(2026, 3, 8)),
        ("a week ago", day(2026, 3, 4)),
        ("a year ago", day(2025, 3, 11)),
        ("a fortnight ago", day(2026, 2, 25)),
        ("now-3d", day(2026, 3, 8)),
        ("up to last Friday", day(2026, 3, 6)),
        ("earlier this week", between((2026, 3, 9), (2026, 3, 16))),
        ("over the weekend", between((2026, 3, 7), (2026, 3, 9))),
        ("last quarter", between((2025, 10, 1), (2026, 1, 1))),
        ("Q4", between((2025, 10, 1), (2026, 1, 1))),
        ("Q2 2025", between((2025, 4, 1), (2025, 7, 1))),
        ("H2 of 2025", between((2025, 7, 1), (2026, 1, 1))),
        ("2026-W10", between((2026, 3, 2), (2026, 3, 9))),
        ("2026-W10-3", day(2026, 3, 4)),
        ("week 40", between((2025, 9, 29), (2025, 10, 6))),
        ("the week of March 4", between((2026, 3, 2), (2026, 3, 9))),
        ("Tuesday last week", day(2026, 3, 3)),
        ("December last year", between((2025, 12, 1), (2026, 1, 1))),
        ("on the 31st", day(2026, 1, 31)),
        ("2026/3/5", day(2026, 3, 5)),
        ("5.3.2026", day(2026, 3, 5)),
        ("25/2/2026", day(2026, 2, 25)),
        ("2/2026", between((2026, 2, 1), (2026, 3, 1))),
        ("beginning of February", between((2026, 2, 1), (2026, 2, 10))),
        ("mid-February", between((2026, 2, 10), (2026, 2, 19))),
        ("late last month", between((2026, 2, 19), (2026, 3, 1))),
        ("end of the week", between((2026, 3, 13), (2026, 3, 16))),
    ],
)
def test_words_name_the_period_that_a_calendar_gives(words: str, expected: tuple[datetime, datetime]) -> None:
    assert period(words, NOW) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("now", NOW),
        ("2 hours ago", NOW - timedelta(hours=2)),
        ("2026-03-05T14:30", datetime(2026, 3, 5, 14, 30, tzinfo=UTC)),
        ("2026-03-05T14:30+02:00", datetime(2026, 3, 5, 12, 30, tzinfo=UTC)),
        ("2026-03-05 14:30 UTC", datetime(2026, 3, 5, 14, 30, tzinfo=UTC)),
        ("1772721000500", datetime(2026, 3, 5, 14, 30, 0, 500_000, tzinfo=UTC)),
        ("half an hour ago", NOW - timedelta(minutes=30)),
        ("now - 2h", NOW - timedelta(hours=2)),
        ("today at 3pm", datetime(2026, 3, 11, 15, tzinfo=UTC)),
        ("12 a.m.", datetime(2026, 3, 11, 0, tzinfo=UTC)),
        ("yesterday noon", datetime(2026, 3, 10, 12, tzinfo=UTC)),
        ("5 March 14:30", datetime(2026, 3, 5, 14, 30, tzinfo=UTC)),
    ],
)
def test_a_moment_is_a_period_without_length(words: str, expected: datetime) -> None:
    assert period(words, NOW) == (expected, expected)


@pytest.mark.parametrize(
    ("words", "first"),
    [
        ("last 3 days", datetime(2026, 3, 8, tzinfo=UTC)),
        ("in the past two weeks", datetime(2026, 2, 25, tzinfo=UTC)),
        ("past week", datetime(2026, 3, 4, tzinfo=UTC)),
        ("7d", datetime(2026, 3, 4, tzinfo=UTC)),
        ("-24h", NOW - timedelta(hours=24)),
        ("last 90 mins", NOW - timedelta(minutes=90)),
    ],
)
def test_the_last_so_many_units_end_now(words: str, first: datetime) -> None:
    assert period(words, NOW) == (first, NOW)


@pytest.mark.parametrize(
    ("words", "first", "hours"),
    [
        ("this morning", datetime(2026, 3, 11, 4, tzinfo=UTC), 8),
        ("yesterday afternoon", datetime(2026, 3, 10, 12, tzinfo=UTC), 6),
        ("late last night", datetime(2026, 3, 10, 18, tzinfo=UTC), 12),
        ("tonight", datetime(2026, 3, 11, 18, tzinfo=UTC), 12),
        ("the morning of March 5", datetime(2026, 3, 5, 4, tzinfo=UTC), 8),
    ],
)
def test_a_part_of_a_day_is_some_hours(words: str, first: datetime, hours: int) -> None:
    assert period(words, NOW) == (first, first + timedelta(hours=hours))


@pytest.mark.parametrize(
    "words",
    [
        "in 3 days", "in a week", "this weekend", "3/5/2026", "3-5-2026", "spring 2025", "a few days ago",
        "before March", "after 5 March", "25:00", "13pm", "0pm", "31/31/2025", "2026-W54", "Q5", "H3 2026",
        "32nd", "week", "month", "h", "Tuesday, March 5", "12345678901", "2026-03-05T14:30+99:00",
        "gestern", "ayer", "昨天", "morning morning of March 5", "Monday " * 40, "early " * 5_000,
        "9" * 10**6, "(" * 80, "1" * 80 + " ago",
        "", "the other day", "recently", "last", "last March", "this Tuesday", "next week", "tomorrow",
        "2026-02-30", "2026-13", "0000", "31 June", "5 March 5", "32 March", "0 March", "some days ago",
        "99999 years ago", "morning", "t", "ma", "2 hours ago today", "2026-03-05T25:00",
    ],
)  # fmt: skip
def test_words_that_name_no_period_or_more_than_one_are_none(words: str) -> None:
    assert period(words, NOW) is None


def test_the_day_of_a_month_that_is_shorter_is_its_last() -> None:
    assert period("a month ago", datetime(2026, 3, 31, 9, tzinfo=UTC)) == day(2026, 2, 28)


def test_days_begin_at_midnight_in_the_zone_of_now() -> None:
    tokyo = timezone(timedelta(hours=9))
    late = datetime(2026, 3, 10, 20, tzinfo=UTC).astimezone(tokyo)  # there it is the 11th
    assert period("today", late) == (
        datetime(2026, 3, 10, 15, tzinfo=UTC),
        datetime(2026, 3, 11, 15, tzinfo=UTC),
    )


def test_a_day_on_which_the_clocks_change_has_23_hours() -> None:
    start, end = period("29 March 2026", datetime(2026, 4, 1, tzinfo=ZoneInfo("Europe/Paris"))) or (NOW, NOW)
    assert end.astimezone(UTC) - start.astimezone(UTC) == timedelta(hours=23)


MOMENTS = st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))


@given(MOMENTS)
def test_periods_that_follow_each_other_meet(now: datetime) -> None:
    for before, after in (("yesterday", "today"), ("last week", "this week"), ("last month", "this month")):
        earlier, later = period(before, now), period(after, now)
        assert earlier is not None
        assert earlier[1] == later[0] <= now < later[1]


@given(MOMENTS, st.dates())
def test_a_date_is_itself_whenever_it_is_said(now: datetime, when: object) -> None:
    found = period(str(when), now)
    if str(when) == "9999-12-31":
        assert found is None  # no calendar has the day after
    else:
        assert str(found[0].date()) == str(when)


LETTERS = st.text(st.sampled_from("0123456789-/.: adefhilmnorstuwy"), max_size=80)


@given(st.text() | st.from_regex(r"[0-9a-z ,-]{0,24}", fullmatch=True) | LETTERS, MOMENTS)
def test_whatever_is_said_it_is_a_period_or_none(words: str, now: datetime) -> None:
    found = period(words, now)
    assert found is None or found[0] <= found[1]
