"""What a text looks like as numbers."""

from siltstone.embedding.hashed import DIMENSION, HashRule, embed, embed_batch, embed_sparse

__all__ = ["DIMENSION", "HashRule", "embed", "embed_batch", "embed_sparse"]
