"""Embeddings are finite float32 of their dimension; answers that are no vectors are refused by name."""

import asyncio
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import siltstone
from embedders import EXTRAS, installed
from reference import embed as twin
from siltstone.embedding import (
    Embedder,
    FunctionEmbedder,
    MiniLMEmbedder,
    StaticEmbedder,
    TableEmbedder,
    embed,
    embed_batch,
    embed_sparse,
)
from siltstone.embedding.base import as_row, as_rows, check_embedder
from siltstone.errors import ConfigError, EmbeddingError
from strategies_text import texts_of_words


def giving(answer: Any, dimension: int = 2) -> FunctionEmbedder:
    return FunctionEmbedder(lambda _texts: answer, "test/fixed", dimension)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([[0.0, 1.0, 2.0]] * 2, "embedder 'test/fixed' must give vectors of dimension 2, got dimension 3"),
        ([[0.0, 1.0]], "must give 2 vectors for 2 texts, got 1 vectors"),
        ([0.0, 1.0], r"must give an array of 2 axes, (texts, 2), got shape (2,)"),
        ([[0.0, float("nan")], [0.0, 1.0]], "must give finite float32, got nan at [0, 1]"),
        ([[0.0, 1.0], [float("-inf"), 1.0]], "must give finite float32, got -inf at [1, 0]"),
        ([[0.0, 1.0], [1e300, 1.0]], "must give finite float32, got 1e+300 at [1, 0]"),
        ([["a", "b"], ["c", "d"]], "must give an array of floats, got list of dtype <U1"),
        ([[1, 2], [3, 4]], "must give an array of floats, got list of dtype int64"),
        ([[True, False], [True, False]], "must give an array of floats, got list of dtype bool"),
        ([[1.0, 2.0], [3.0]], "must give an array of floats, got list: "),
        (None, "must give an array of floats, got NoneType of dtype object"),
        (np.zeros((2, 2), dtype=complex), "must give an array of floats, got ndarray of dtype complex128"),
    ],
)
def test_what_is_no_vector_is_refused_by_name_bound_and_value(answer: Any, message: str) -> None:
    with pytest.raises(EmbeddingError) as caught:
        giving(answer).embed_documents(["one", "two"])
    assert message in str(caught.value)
    assert (caught.value.embedder, caught.value.reason) == ("test/fixed", "invalid")  # type: ignore[attr-defined]


def test_queries_may_be_embedded_by_another_function() -> None:
    embedder = FunctionEmbedder(
        lambda texts: [[0.0] for _ in texts], "test/two", 1, lambda texts: [[1.0] for _ in texts]
    )
    rows: Any = embedder.embed_documents(["a"])
    row: Any = embedder.embed_query("a")
    assert (rows.tolist(), row.tolist()) == ([[0.0]], [1.0])


def test_an_async_function_is_awaited_and_checked() -> None:
    async def embed(texts: list[str]) -> list[list[float]]:
        await asyncio.sleep(0)
        return [[float(len(text)), 0.0] for text in texts]

    embedder = FunctionEmbedder(embed, "test/async", 2)
    answer: Any = embedder.embed_documents(["a", "bcd"])
    assert inspect.isawaitable(answer)

    async def all_of_it() -> tuple[Any, Any]:
        return await answer, await embedder.embed_query("xy")  # type: ignore[misc]

    rows, row = asyncio.run(all_of_it())
    assert (rows.tolist(), row.tolist()) == ([[1.0, 0.0], [3.0, 0.0]], [2.0, 0.0])


def test_an_async_function_that_gives_no_vectors_is_refused() -> None:
    async def embed(_texts: list[str]) -> str:
        return "no vectors"

    answer: Any = FunctionEmbedder(embed, "test/async", 2).embed_documents(["a"])

    async def wait() -> None:
        await answer

    with pytest.raises(EmbeddingError, match="must give an array of floats, got str"):
        asyncio.run(wait())


@dataclass
class Shape:
    id: Any = "test/shape"
    dimension: Any = 2
    embed_documents: Any = print
    embed_query: Any = print


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"id": ""}, "embedder.id must be a str of 1 to 256 bytes, got ''"),
        ({"id": 7}, "embedder.id must be a str of 1 to 256 bytes, got 7"),
        ({"id": "é" * 129}, "embedder.id must be a str of 1 to 256 bytes, got 'é"),
        ({"dimension": 0}, "embedder.dimension must be an integer in 1..65536, got 0"),
        ({"dimension": 65_537}, "embedder.dimension must be an integer in 1..65536, got 65537"),
        ({"dimension": "2"}, "embedder.dimension must be an integer in 1..65536, got '2'"),
        ({"embed_query": None}, "embedder 'test/shape' must have a method embed_query"),
    ],
)
def test_what_is_no_embedder_is_refused_by_name(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_embedder(Shape(**fields))
    assert str(caught.value).startswith(message)


def test_a_table_averages_the_rows_of_a_texts_words() -> None:
    table = np.eye(4, dtype=np.float16)
    embedder = TableEmbedder(table, ["silt", "river", "slow", "silt"])
    (row,) = embedder.embed_documents(["Silt, silt and RIVER!"])
    # two of row 0 and one of row 1, of length 1; `and` has no row
    assert row.tolist() == pytest.approx([2 / 5**0.5, 1 / 5**0.5, 0.0, 0.0], rel=1e-6)
    assert embedder.embed_query("none of them").tolist() == [0.0] * 4


def test_a_table_is_read_from_a_file_and_known_by_its_content(tmp_path: Path) -> None:
    table = np.arange(6, dtype=np.float32).reshape(3, 2)
    np.save(tmp_path / "table.npy", table)
    read = TableEmbedder.load(tmp_path / "table.npy")
    assert read.id == TableEmbedder(table).id
    assert read.id != TableEmbedder(table + 1).id
    assert read.id != TableEmbedder(table, ["a", "b", "c"]).id
    assert TableEmbedder(table[:1], [""]).id != TableEmbedder(table[:1]).id
    assert np.array_equal(read.embed_query("silt"), TableEmbedder(table).embed_query("silt"))


@pytest.mark.parametrize(
    ("table", "vocabulary", "message"),
    [
        (np.zeros((2, 2), dtype=int), None, "must hold floats, got dtype int64"),
        (np.zeros(3), None, r"at least 1 row of 1 to 65536 floats, got shape (3,)"),
        (np.zeros((0, 3)), None, r"got shape (0, 3)"),
        (np.full((2, 2), np.nan), None, "must hold finite floats"),
        (np.zeros((2, 2)), ["a"], "a word for each of the 2 rows, got 1 words"),
    ],
)
def test_what_is_no_table_is_refused_by_name(table: Any, vocabulary: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        TableEmbedder(table, vocabulary)
    assert message in str(caught.value)


@pytest.mark.parametrize("content", [None, b"", b"no array", b"\x93NUMPY\x01\x00"])
def test_a_file_without_a_table_is_refused_by_its_path(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "table.npy"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"table\.npy"):
        TableEmbedder.load(path)


def test_a_pickle_is_never_run(tmp_path: Path) -> None:
    np.save(tmp_path / "table.npy", np.array([print], dtype=object), allow_pickle=True)
    with pytest.raises(ConfigError, match="pickle"):
        TableEmbedder.load(tmp_path / "table.npy")


@pytest.mark.parametrize("kind", EXTRAS)
def test_weights_that_are_not_installed_are_named_with_their_extra(
    kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("siltstone.embedding.pretrained.find_spec", lambda _name: None)
    with pytest.raises(ConfigError, match=rf"pip install 'siltstone\[{EXTRAS[kind][0]}\]'"):
        kind()


@pytest.mark.parametrize(("kind", "what"), [(MiniLMEmbedder, "MODEL"), (StaticEmbedder, "TABLE")])
def test_a_package_that_changed_is_refused(kind: Any, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(kind)
    monkeypatch.setattr(f"siltstone.embedding.pretrained.{what}_SHA256", "0" * 64)
    with pytest.raises(ConfigError, match="must have sha256 0000"):
        kind()


@pytest.mark.parametrize("kind", EXTRAS)
def test_what_means_the_same_is_close_together(kind: Any) -> None:
    cat, feline, tax = installed(kind).embed_documents(
        ["The cat sat on the mat.", "A feline rested upon the rug.", "Taxes are due in April."]
    )
    assert float(cat @ feline) > float(cat @ tax) + 0.2
    assert float(cat @ cat) == pytest.approx(1.0, abs=1e-6)


CORNERS = ["", " ", "?!", "😀", "漢字かな", "a" * 100_000, "silt\x00\ud800", "word " * 5_000]


def table() -> TableEmbedder:
    return TableEmbedder(np.random.default_rng(0).normal(size=(512, 24)).astype(np.float32))


def function() -> FunctionEmbedder:
    inner = table()
    return FunctionEmbedder(inner.embed_documents, "test/function", inner.dimension)


MEMBERS: dict[str, Callable[[], Any]] = {
    "table": table,
    "function": function,
    "minilm": lambda: installed(MiniLMEmbedder),
    "static": lambda: installed(StaticEmbedder),
}


@pytest.fixture(params=MEMBERS, scope="module")
def embedder(request: pytest.FixtureRequest) -> Any:
    return MEMBERS[request.param]()


def test_an_embedder_has_what_the_contract_asks_for(embedder: Any) -> None:
    check_embedder(embedder)
    assert isinstance(embedder, Embedder)


def test_texts_of_every_kind_have_finite_vectors(embedder: Any) -> None:
    rows = as_rows(embedder.embed_documents(CORNERS), embedder, len(CORNERS))
    assert rows.dtype == np.float32
    assert rows.shape == (len(CORNERS), embedder.dimension)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(st.text(max_size=30), min_size=1, max_size=3))
def test_a_vector_does_not_depend_on_what_is_embedded_beside_it(embedder: Any, texts: list[str]) -> None:
    rows = as_rows(embedder.embed_documents(texts), embedder, len(texts))
    for row, text in zip(rows, texts, strict=True):
        assert np.array_equal(row, as_row(embedder.embed_query(text), embedder))


RULES = ["xxh3", "poly31"]


def rows(texts: list[str], rule: str) -> np.ndarray:
    table = np.zeros((len(texts), 4096), np.float32)
    for number, text in enumerate(texts):
        for bucket, value in twin.embed(text, rule).items():
            table[number, bucket] = value
    return table


@given(st.lists(texts_of_words(), max_size=4), st.sampled_from(RULES))
def test_dense_and_sparse_rows_are_those_of_the_twin(texts, rule):
    expected = rows(texts, rule)
    dense = embed_batch(texts, rule)
    assert dense.shape == (len(texts), 4096)
    assert np.array_equal(dense, expected)
    indptr, indices, values = embed_sparse(texts, rule)
    numbers = np.repeat(np.arange(len(texts)), np.diff(indptr))
    assert np.array_equal(indices, np.nonzero(expected)[1])
    assert np.array_equal(values, expected[numbers, indices])
    for number, text in enumerate(texts):
        assert np.array_equal(embed(text, rule), expected[number])


@pytest.mark.parametrize("texts", [[], [""], ["", "…"], ["silt", "", "two words"]])
def test_arrays_have_their_types_and_can_be_written_to(texts):
    dense = embed_batch(texts)
    indptr, indices, values = embed_sparse(texts)
    assert (dense.dtype, dense.shape) == (np.float32, (len(texts), 4096))
    assert dense.flags.c_contiguous
    assert (indptr.dtype, indices.dtype, values.dtype) == (np.int64, np.int32, np.float32)
    assert indptr.shape == (len(texts) + 1,)
    assert all(array.flags.writeable for array in (dense, indptr, indices, values, embed("one")))
    dense[...] = 7


def test_one_text_is_a_row_of_unit_length_and_one_without_words_is_zero():
    vector = embed("one fish, two fish")
    assert (vector.dtype, vector.shape) == (np.float32, (4096,))
    assert np.linalg.norm(vector) == pytest.approx(1)
    assert not embed(" … ").any()


@pytest.mark.parametrize("call", [embed_batch, embed_sparse])
def test_one_str_is_no_list_of_str(call):
    with pytest.raises(siltstone.ConfigError, match="texts must be a list of str, got one str") as caught:
        call("silt")
    assert caught.value.field == "texts"
    assert isinstance(caught.value, ValueError)
