"""Texts as vectors."""

from siltstone.embedding.base import Embedder
from siltstone.embedding.function import FunctionEmbedder
from siltstone.embedding.hashed import DIMENSION, HashRule, embed, embed_batch, embed_sparse
from siltstone.embedding.minilm import MiniLMEmbedder
from siltstone.embedding.table import TableEmbedder

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
