"""Texts as vectors."""

from typing import TYPE_CHECKING

from siltstone.late import names_of

if TYPE_CHECKING:
    from siltstone.embedding.base import Embedder
    from siltstone.embedding.function import FunctionEmbedder
    from siltstone.embedding.hashed import DIMENSION, HashRule, embed, embed_batch, embed_sparse
    from siltstone.embedding.minilm import MiniLMEmbedder
    from siltstone.embedding.table import TableEmbedder
else:
    __getattr__ = names_of(
        __name__,
        {
            "base": "Embedder",
            "function": "FunctionEmbedder",
            "hashed": "DIMENSION HashRule embed embed_batch embed_sparse",
            "minilm": "MiniLMEmbedder",
            "table": "TableEmbedder",
        },
    )

__all__ = [
    "DIMENSION",
    "Embedder",
    "FunctionEmbedder",
    "HashRule",
    "MiniLMEmbedder",
    "TableEmbedder",
    "embed",
    "embed_batch",
    "embed_sparse",
]
