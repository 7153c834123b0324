"""Words and terms of the core, by ``lexical-6``: worked examples, and against the slow twin."""

import json
import math
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from conftest import PROFILE
from reference import analyse as twin, lexical, tables, tokenize as word_twin
from siltstone import _native
from siltstone.evaluation import RECORDED, load_dataset
from strategies_text import assigned, texts_of_words
from vector_cases import cases


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("😀 !? ❤\ufe0f", ["😀", "❤"]),
        ("Łąka Ørby Straße", ["laka", "orbi", "strass"]),
        ("٤٧ ४७ 47 re\u00adpair re\u200bpair", ["47", "47", "47", "repair", "repair"]),
        ("2026-05-07 or 7.5.2026", ["2026", "may", "7", "20260507", "2026", "may", "7", "7.5.2026"]),
        ("What did the children paint?", ["child", "paint"]),
        ("what is it", ["what", "be", "it"]),  # nothing else remains
        ("She's gone; Ann's dogs don't bark", ["go", "ann", "dog", "bark"]),
        ("in__progress", ["progress", "inprogress"]),
        ("in_progress file_path", ["progress", "inprogress", "file", "path", "filepath"]),
        ("parseHTTPBody", ["pars", "http", "bodi", "parsehttpbodi"]),
        ("well-being --flag a-", ["well", "wellb", "flag"]),
        ("/usr/lib/python3.11", ["usr", "lib", "python3", "11", "python3.11"]),
        ("v1.2.3 0x1f 10,000 1,2", ["v1", "2", "3", "1.2.3", "0x1f", "10000", "1", "2"]),
        ("Café naïve ＡＢＣ", ["cafe", "naiv", "abc"]),
        (
            "我今天去公园 ラーメン 한국어 猫",
            ["今天", "天去", "去公", "公园", "ラー", "ーメ", "メン", "한국", "국어", "猫"],
        ),
        ("目的は 我的 你", ["目的", "的は"]),  # grammar in Chinese, part of a noun beside kana
        ("我的 你", ["我的", "你"]),
        ("My mothers and their mums; photographs", ["mom", "mom", "photo"]),
        ("a\ud800b silt", ["b", "silt"]),
        ("Защита от защитой ёлки мой", ["защит", "защит", "елк"]),  # й is no и with an accent
        ("η ομάδα των ΟΜΆΔΩΝ", ["ομαδ", "ομαδ"]),
        ("في الدوري دوري", ["دور", "دور"]),
        ("खिलाड़ियों ने खिलाड़ी", ["खिलाड़", "खिलाड़"]),
        ("ту134 защитаx", ["ту134", "защитаx"]),
        ("l'eau dell’acqua d'un Ann's qu' d's", ["eau", "acqua", "un", "ann", "qu"]),
    ],
)
def test_terms_worked_by_hand(text: str, expected: list[str]) -> None:
    assert _native.terms(text) == expected
    assert twin.terms(text) == expected


def test_the_words_of_the_tables_are_part_of_the_name_of_the_analyser() -> None:
    assert tables.digest() == "46e51e288d789fa878373d620d8617d0fdf17baf76651406583965f066035bbe"


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("Where is the silt of the river?", "en", ["silt", "river"]),
        ("Die Häuser sind in der Stadt", "de", ["haus", "stadt"]),
        ("Kapısının anahtarı nerede ve nasıl?", "tr", ["kapı", "anahtar"]),
        ("¿Dónde está la ciudad de los niños?", "es", ["ciud", "nin"]),
        ("Les rivières de l'hiver et des montagnes", "fr", ["rivier", "hiv", "montagn"]),
        ("Con mèo của tôi và một con chó", "en", ["con", "meo", "cua", "toi", "va", "mot", "con", "cho"]),
        ("la de en es", "es", ["la", "de", "en", "es"]),  # nothing else remains
        ("und 我的公园 die Häuser", "de", ["公园", "haus"]),
    ],
)
def test_a_text_is_read_in_its_language(text: str, language: str, expected: list[str]) -> None:
    assert _native.language(text) == twin.language_of(text) == language
    assert _native.terms(text, own_language=True) == twin.terms(text, language) == expected


@given(texts_of_words())
def test_terms_are_those_of_the_twin(text: str) -> None:
    check(text)


CHOICES = ["de", "en", "tr,en", "fr,de,it", "vi,de"]


def check(text: str) -> None:
    """The terms of a query, and of a text in its own language."""
    language = twin.language_of(text)
    terms = twin.terms(text)
    assert _native.language(text) == language
    assert _native.terms(text) == terms
    own = terms if language == "en" else twin.terms(text, language)
    assert _native.terms(text, own_language=True) == own
    among = CHOICES[len(text) % len(CHOICES)]
    language = twin.language_of(text, among)
    assert _native.language(text, among) == language
    assert _native.terms(text, own_language=True, among=among) == twin.terms(text, language)


@given(
    st.lists(
        st.sampled_from([
            "der", "und", "die", "Häuser", "de", "la", "l'eau", "ciudades", "ırmağın", "ve", "bir", "the",
            "of", "rivers", "straße", "ağaçlar", "copiilor", "și", "het", "talot", "ja", "公园", "dell'acqua",
            "habe", "alle", "avaient",
        ]),
        max_size=14,
    ).map(" ".join)
)  # fmt: skip
def test_terms_of_mixed_languages_are_those_of_the_twin(text: str) -> None:
    check(text)


def test_no_english_text_of_the_recorded_ones_is_taken_for_another_language(data_dir: Path) -> None:
    """And nearly all of the others for what they are."""
    found: dict[str, list[str]] = {}
    for name in RECORDED:
        for conversation in load_dataset(name, data_dir).conversations:
            spoken = conversation.questions[0].category if name == "xquad-dev" else name
            found.setdefault(str(spoken), []).extend(_native.language(t.text) for t in conversation.turns)
    for english in ("locomo-dev", "agent-dev", "madial-en", "en"):
        assert set(found[english]) == {"en"}, english
    for code in ("de", "es", "ro", "tr"):
        assert found[code].count(code) >= 0.9 * len(found[code]), code


@given(
    st.lists(
        st.sampled_from(list("aAbBs'’-_.,019éÉ漢か\u3099\u0301 vVแมำ\u0e48๒ខ\u17d2ийИыхίασΣيناलोंे\u0306")),
        max_size=30,
    ).map("".join)
)
def test_terms_of_crowded_corners_are_those_of_the_twin(text: str) -> None:
    check(text)


def test_the_twins_read_every_assigned_code_point_alike() -> None:
    texts = [f"x{c}y {c}z 漢{c}字" for c in [*assigned()][:: 1 if PROFILE == "slow" else 4]]
    for start in range(0, len(texts), 1000):
        text = "\n".join(texts[start : start + 1000])
        assert _native.terms(text) == twin.terms(text)


def test_terms_of_recorded_conversations_are_those_of_the_twin(data_dir: Path) -> None:
    files = sorted(data_dir.glob("*.json*"))
    texts = sorted({text for file in files for line in _documents(file) for text in _strings(line)})
    assert len(texts) > 9_000
    for text in texts[:: 1 if PROFILE == "slow" else 12]:
        check(text)


def test_a_text_of_ten_megabytes_has_all_its_terms() -> None:
    assert len(_native.terms("Silt and stone, " * 655_360)) == 2 * 655_360
    assert len(_native.terms("x" * 10_000_000)[0]) == 10_000_000


def _documents(file: Path) -> Iterator[Any]:
    text = file.read_text("utf-8")
    if file.suffix == ".json":
        yield json.loads(text)
    else:
        yield from map(json.loads, text.splitlines())


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from _strings(list(value.values()))
    elif isinstance(value, list):
        for each in value:
            yield from _strings(each)


CJK_NAMES = ("CJK UNIFIED", "CJK COMPATIBILITY IDEOGRAPH", "HANGUL", "HIRAGANA", "HENTAIGANA", "KATAKANA")


@pytest.mark.parametrize("case", cases("words"), ids=lambda case: case["name"])
def test_words_are_those_of_the_vectors(case):
    assert _native.words(case["text"]) == case["words"]
    assert word_twin.words(case["text"]) == case["words"]


def test_the_twins_classify_every_assigned_code_point_alike():
    # Alone it shows whether it begins a word, between a and 漢 whether it continues one, or is CJK.
    texts = [f"{c}a{c}漢" for c in assigned()]
    for start in range(0, len(texts), 1000):
        text = "\n".join(texts[start : start + 1000])
        assert _native.words(text) == word_twin.words(text)


def test_cjk_is_what_unicode_calls_so():
    """The table of ranges was written by hand; names of code points are another witness."""
    for c in assigned():
        name = unicodedata.name(c, "")
        if name.startswith(CJK_NAMES) and c.isalpha():
            assert _native.words(f"a{c}漢") == ["a", f"{c}漢"], name
        if "BOPOMOFO" in name or name.startswith(("CIRCLED", "PARENTHESIZED", "SQUARE", "YI ", "TANGUT")):
            assert f"{c}漢" not in _native.words(f"a{c}漢"), name


@given(texts_of_words())
def test_words_are_those_of_the_twin(text):
    assert _native.words(text) == word_twin.words(text)


@given(texts_of_words())
def test_whitespace_words_are_those_of_the_twin(text):
    assert _native.whitespace_words(text) == word_twin.whitespace_words(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\ud800b", ["a", "b"]),  # a lone one is U+FFFD, which separates
        ("a\udc00\ud800", ["a"]),  # the wrong way round
        ("\ud842\udfb7野家", ["𠮷野", "野家"]),  # a pair is the code point it stands for
    ],
)
def test_surrogates_are_paired_or_replaced(text, expected):
    assert _native.words(text) == expected
    assert word_twin.words(text) == expected


def test_neighbours_are_lifted_by_their_shares():
    texts = ["silt", "mud", "clay", "sand", "loam", "marl"]
    entries = [lexical.Entry(text, (n, n + 1)) for n, text in enumerate(texts)]
    [found] = lexical.search(["silt"], entries)
    assert [place for place, _ in found] == [0, 1, 2, 3, 4]
    best = found[0][1]
    assert [score / best for _, score in found] == pytest.approx([1, 0.41, 0.4, 0.3, 0.2])


def test_a_neighbour_that_repeats_a_term_adds_less_than_one_that_brings_another():
    def score(beside: str, far: str) -> float:
        texts = {0: "silt clay", 1: beside, 10: far, 20: "mud", 30: "mud"}
        entries = [lexical.Entry(text, (place, place + 1)) for place, text in texts.items()]
        return dict(lexical.search(["silt delta"], entries)[0])[0]

    assert score("silt clay", "delta clay") < score("delta clay", "silt clay")


def test_a_day_is_one_text_among_days():
    """Worked by hand: days of one and of two entries, each a word and the three of its date; "silt" on one.

    idf(silt) among two days is ln(1 + 1.5 / 1.5); dl = 8, avgdl = (4 + 8) / 2 = 6. Entries have 4 terms
    in the mean, so a day weighs 1.
    """
    moments = [0, 86_400_000, 86_400_000 + 5]
    entries = [
        lexical.Entry(text, (n * 10, n * 10 + 1), created_at=moment)
        for n, (text, moment) in enumerate(zip(["mud", "silt", "clay"], moments, strict=True))
    ]
    facts = [lexical.Entry(each.content, created_at=each.created_at) for each in entries]
    [[(place, score)]] = lexical.search(["silt"], entries)
    [[(_, without)]] = lexical.search(["silt"], facts)
    idf = math.log(1 + 2.5 / 1.5)
    day = math.log(2) * 3 / (1 + 2 * (0.25 + 0.75 * 8 / 6))
    assert place == 1
    assert score - without == pytest.approx(day / (1.2 * 2.2 * idf))


@pytest.mark.parametrize(("words", "weight"), [(21, 1.0), (46, 0.25), (96, 0.0625)])
def test_a_day_weighs_less_where_entries_are_long(words: int, weight: float):
    """Entries of so many words and the four of "silt" and the date; 25 of them weigh in full."""
    text = "silt " + "mud " * words
    entries = [
        lexical.Entry(text if n else "mud " * (words + 1), (n * 10, n * 10 + 1), created_at=n * 86_400_000)
        for n in (0, 1)
    ]
    facts = [lexical.Entry(each.content, created_at=each.created_at) for each in entries]
    [[(_, score)]] = lexical.search(["silt"], entries)
    [[(_, without)]] = lexical.search(["silt"], facts)
    # Of two days and of two passages, all as long as the mean, one has "silt": its part is the idf.
    assert score - without == pytest.approx(weight / (1.2 * 2.2))


def test_a_gap_of_three_messages_parts_neighbours():
    for start, expected in [(3, [0, 1]), (4, [0])]:
        entries = [lexical.Entry("silt", (0, 1)), lexical.Entry("mud", (start, start + 1))]
        assert [place for place, _ in lexical.search(["silt"], entries)[0]] == expected
