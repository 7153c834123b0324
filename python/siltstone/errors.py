"""The exceptions of siltstone, as one tree.

::

    SiltstoneError
    ├── InvalidMessageError          ValueError        not a message of any dialect we read
    │   └── MessageTooLargeError                       a message over the size limit
    ├── ConfigError                  ValueError        a setting out of its bounds, or unknown
    ├── ContextOverflowError         ValueError        the messages that must stay are larger than the window
    ├── ConversionLossError          ValueError        a message that another dialect cannot say
    ├── DatasetError                 ValueError        evaluation data that is not there, or not right
    ├── EmbeddingError               RuntimeError      the caller's embedder raised, hung, or gave no vectors
    ├── HistoryConflictError         ValueError        a host's list that the session cannot follow
    ├── IllegalHistoryError          ValueError        a history that its provider would refuse
    ├── ModelError                   RuntimeError      the caller's model raised or gave no text
    ├── SecretRefusedError           ValueError        a secret in a text that may not be written with it
    ├── SessionBusyError             TimeoutError      another call of the session compacts for too long
    ├── ToolError
    │   ├── ToolNotFoundError        LookupError       no tool of that name
    │   └── InvalidArgumentsError    ValueError        arguments that the tool's schema refuses
    ├── StoreError
    │   ├── StoreOpenError           OSError           not a directory, not SQLite, no permission
    │   │   └── StoreVersionError                      written by another version of siltstone
    │   ├── StoreIoError             OSError           the disk is full, or a read or write failed
    │   ├── StoreBusyError           TimeoutError      another process held the lock for too long
    │   ├── StoreUnavailableError    TimeoutError      the database did not answer in time
    │   ├── StoreClosedError         ValueError        used after close()
    │   │   └── StoreForkedError                       opened before the process forked, used in the child
    │   ├── StoreReplacedError                         its file was deleted, moved or replaced meanwhile
    │   ├── StoreCorruptError        ValueError        a row that does not match its checksum
    │   ├── StoreConflictError       RuntimeError      another writer changed the session meanwhile
    │   ├── ReadOnlyStoreError       PermissionError   a write to a store opened for reading
    │   ├── InvalidEntryError        ValueError        an entry or a query out of its bounds
    │   ├── MessageRefusedError                        a message over the store's own limit; it is also a
    │   │                                              MessageTooLargeError
    │   ├── EntryNotFoundError       LookupError       no entry of that id
    │   ├── CompactionNotFoundError  LookupError       no compaction of that id
    │   └── SessionDroppedError      LookupError       a session that was dropped
    └── InternalError                RuntimeError      a defect of siltstone: please report it

Each error carries its values as attributes (``error.limit``, ``error.path``), can be pickled,
and keeps its cause.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import isfunction, signature, unwrap
from itertools import pairwise
from typing import Any, ClassVar, NoReturn, TypeVar

T = TypeVar("T")


class SiltstoneError(Exception):
    """The root of every error that siltstone raises on purpose.

    Attributes:
        code: The kind of error in one word for programs, logs and models; it does not change. Each class has
            its own: ``memory_io``, ``store_busy``, ``tool_not_found``.

    Args:
        message: One sentence that names the thing, the bound and the value.
        fields: The values in the sentence; each becomes an attribute.
    """

    code: ClassVar[str] = "siltstone"

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "code" not in cls.__dict__:
            cls.code = _in_words(cls.__name__.removesuffix("Error"))

    def __init__(self, message: str, **fields: Any) -> None:
        super().__init__(message)
        self.message = message
        self.__dict__.update(fields)

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message), self.__dict__.copy()


def _in_words(name: str) -> str:
    """``store_io`` for ``StoreIo``."""
    begins = (each.isupper() and before.islower() for before, each in pairwise(name))
    return name[:1].lower() + "".join(
        "_" * new + each.lower() for new, each in zip(begins, name[1:], strict=True)
    )


def _rebuild(kind: type[SiltstoneError], message: str) -> SiltstoneError:
    return kind(message)


class InvalidMessageError(SiltstoneError, ValueError):
    """Not a message of any dialect that siltstone reads."""


class MessageTooLargeError(InvalidMessageError):
    """A message larger than the limit. Carries ``size`` and ``limit`` in bytes."""


class ConfigError(SiltstoneError, ValueError):
    """A setting out of its bounds, or unknown. Carries ``field`` and ``value``."""

    def __init__(self, message: str, field: str = "", value: object = None) -> None:
        super().__init__(message, field=field, value=value)


def refuse(field: str, bound: str, value: object) -> NoReturn:
    """Raises the error that *field* must be *bound*.

    Raises:
        ConfigError: always.
    """
    raise ConfigError(f"{field} must be {bound}, got {value!r}", field=field, value=value)


_KINDS = {  # a type, as an error names it
    "str": "a text in quotes", "int": "an integer", "float": "a number", "bool": "True or False",
    **dict.fromkeys(("Sequence", "Iterable", "Collection"), "a list"), "Mapping": "a dict", "None": "None",
}  # fmt: skip


def explains(made: type[T]) -> type[T]:
    """Lets the methods of a class name an argument of a wrong type, after a call has failed of it."""
    for name, method in list(vars(made).items()):
        if isfunction(method) and (name == "__init__" or name[0] != "_"):
            setattr(made, name, _explained(method))
    return made


def _explained(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(*given: Any, **named: Any) -> Any:
        try:
            return method(*given, **named)
        except (TypeError, ValueError, AttributeError) as error:
            known = {} if isinstance(error, SiltstoneError) else signature(method).parameters
            at_place = [name for name, each in known.items() if each.kind is each.POSITIONAL_OR_KEYWORD]
            said = {**dict(zip(at_place, given, strict=False)), **named}
            for name in filter(said.__contains__, known):  # in their order
                _check(method, name, str(known[name].annotation), said[name])
            raise

    return call


def _check(method: Callable[..., Any], field: str, annotation: str, value: object) -> None:
    """Refuses *value* if it is known to be of another type than the *annotation* of *field* in *method*."""
    while annotation != (annotation := re.sub(r"\[[^\[\]]*\]", "", annotation)):
        pass
    named = vars(builtins) | unwrap(method).__globals__ | {"None": type(None)}
    words = annotation.split(" | ")
    kinds = [named.get(word) for word in words]
    try:
        fits = isinstance(value, tuple(kinds)) or (float in kinds and isinstance(value, int))
    except TypeError:  # a name that stands for no class
        return
    if not fits or (isinstance(value, str | bytes) and not {type(value), object} & {*kinds}):
        refuse(field, " or ".join(_KINDS.get(word, f"of the type {word}") for word in words), value)


class ContextOverflowError(SiltstoneError, ValueError):
    """Messages that must be kept exceed the window. Carries ``tokens`` and ``context_window``."""


class ConversionLossError(SiltstoneError, ValueError):
    """A part of a message that another dialect cannot express. Carries ``loss``."""


class DatasetError(SiltstoneError, ValueError):
    """Evaluation data that cannot be read, or whose questions do not fit its conversations."""


class EmbeddingError(SiltstoneError, RuntimeError):
    """The caller's embedder raised, hung, or gave no vectors. Carries ``embedder``, its id, and ``reason``.

    ``reason`` is ``raised``, ``timeout`` or ``invalid``.
    """

    code = "memory_embedding"


class HistoryConflictError(SiltstoneError, ValueError):
    """A host's list has rewritten the past in a way that the session does not follow; see ``observe``.

    Carries ``session_id`` and ``logged``, the number of messages in the log.
    """


class IllegalHistoryError(SiltstoneError, ValueError):
    """A history that its provider would refuse. Carries ``findings``, as from ``validate_history``."""


class ModelError(SiltstoneError, RuntimeError):
    """The caller's model raised, or its answer is no text."""


class SecretRefusedError(SiltstoneError, ValueError):
    """A text contains a secret, and must not be written. Carries ``rule``, ``path`` and ``reason``.

    ``reason`` is ``blocked`` (the rule's action) or ``signed`` (signed reasoning, which must not be changed).
    """


class SessionBusyError(SiltstoneError, TimeoutError):
    """Another call of the session has compacted for longer than ten minutes.

    Carries ``session_id`` and ``waited``, in seconds.
    """


class ToolError(SiltstoneError):
    """A call of a tool that could not be carried out."""


class ToolNotFoundError(ToolError, LookupError):
    """No tool of that name. Carries ``name``."""


class InvalidArgumentsError(ToolError, ValueError):
    """Arguments that the tool's schema refuses. Carries ``name`` and ``reason``."""


class StoreError(SiltstoneError):
    """The store could not carry out the call. Its data is unchanged."""

    code = "memory_storage"


class StoreOpenError(StoreError, OSError):
    """The store cannot be opened. Carries ``path``."""


class StoreVersionError(StoreOpenError):
    """Another version of siltstone wrote the store. It was left untouched.

    Carries ``path``, and both versions: ``version`` that of the store, ``supported`` that of this siltstone.
    """


class StoreIoError(StoreError, OSError):
    """The disk is full, or a read or a write failed. Nothing of the batch was kept."""

    code = "memory_io"


class StoreBusyError(StoreError, TimeoutError):
    """Another process held the write lock for longer than the limit."""


class StoreUnavailableError(StoreError, TimeoutError):
    """The database did not answer in time. Carries ``outcome``.

    ``"not written"``: nothing was written. ``"unknown"``: a write was under way. It may be done, not done, or
    done and not yet on a standby: read before you repeat it.
    """


class StoreClosedError(StoreError, ValueError):
    """The store was used after ``close()``."""


class StoreForkedError(StoreClosedError):
    """A store was opened before the process forked, and is used in the child: open the path again there.

    ``open`` raises it too, in a child whose parent was busy in a store for more than a second when it forked.
    Carries ``path``.
    """


class StoreReplacedError(StoreError):
    """The file at the store's path is not the opened file: it was deleted, moved, or replaced.

    The write of that call may be in the other file, and is not acknowledged. Close the store, and open the
    path again. Carries ``path``.
    """


class StoreCorruptError(StoreError, ValueError):
    """A stored row does not match its checksum, or does not follow the schema."""

    code = "memory_text_corruption"


class StoreConflictError(StoreError, RuntimeError):
    """Another writer changed the session meanwhile; nothing was written. Open it again."""


class ReadOnlyStoreError(StoreError, PermissionError):
    """A write to a store that is open for reading."""


class InvalidEntryError(StoreError, ValueError):
    """An entry, a session id or a query out of its bounds."""


class MessageRefusedError(StoreError, MessageTooLargeError):
    """A message larger than the store's own limit. Carries ``index``, ``size`` and ``limit``."""


class EntryNotFoundError(StoreError, LookupError):
    """No entry of that id. Carries ``entry_id``."""


class CompactionNotFoundError(StoreError, LookupError):
    """No compaction of that id in the session. Carries ``compaction_id``."""


class SessionDroppedError(StoreError, LookupError):
    """The session was dropped, and its id is not used again. Carries ``session_id``."""

    code = "memory_scope"


class InternalError(SiltstoneError, RuntimeError):
    """A defect of siltstone (a panic in the Rust core, turned into this error): please report it."""


@contextmanager
def requires(extra: str, by: str) -> Iterator[None]:
    """Around imports that *by* makes: where a package is absent, the error names the *extra* that brings it.

    Raises:
        ImportError: it is not installed; carries ``name``.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] == "siltstone":
            raise
        raise ImportError(
            f"{by} needs {error.name}, which is not installed; pip install 'siltstone[{extra}]'",
            name=error.name,
        ) from error
