"""Texts as vectors."""

from siltstone.embedding.base import (
    DIMENSION,
    Embedder,
    FunctionEmbedder,
    HashRule,
    embed,
    embed_batch,
    embed_sparse,
)
from siltstone.embedding.pretrained import MiniLMEmbedder, TableEmbedder

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
