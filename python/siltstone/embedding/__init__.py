"""Texts as vectors."""

from siltstone.embedding.base import (
    Embedder as Embedder,
    FunctionEmbedder as FunctionEmbedder,
    HashRule as HashRule,
    embed as embed,
    embed_batch as embed_batch,
    embed_sparse as embed_sparse,
)
from siltstone.embedding.pretrained import (
    MiniLMEmbedder as MiniLMEmbedder,
    StaticEmbedder as StaticEmbedder,
    TableEmbedder as TableEmbedder,
)
