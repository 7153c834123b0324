"""Opens a session: checks its options, applies its preset, and opens its store and its log."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import tzinfo
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, NamedTuple, TypeAlias, TypedDict, TypeVar

from siltstone import checks
from siltstone.compaction.base import Compactor, Trigger, check_policy
from siltstone.errors import ConfigError, ReadOnlyStoreError, refuse
from siltstone.hooks import HOOK_TIMEOUT, CompactionHooks, checked_hooks, gives_coroutine
from siltstone.llm import Models, run
from siltstone.memory.base import Store
from siltstone.memory.opening import is_database, open_store
from siltstone.session.boundary import compaction
from siltstone.session.core import SessionCore
from siltstone.session.retention import Retention
from siltstone.systems.base import Preset, System, default_model, default_policy
from siltstone.tokens import rule_for

if TYPE_CHECKING:
    from siltstone.archive.live import ContextArchive
    from siltstone.engine import AfterCompact, BeforeCompact
    from siltstone.events import Hook
    from siltstone.knowledge import KnowledgeConfig
    from siltstone.recall import RecallConfig
    from siltstone.redaction import RedactionConfig, Redactor


# Opens a session with a preset: the preset's options, and the preset that the store keeps for a session.

Unrelated: TypeAlias = Literal["first", "always", "branch", "raise"]
"""The meaning of a host's list that shares no request with the session.

``"first"``: the first such list after the session was opened begins a run of the host, and a later one is a
branch. ``"always"``: each one begins a run, for a host that sends only what is new. ``"branch"``: each one is
a branch. ``"raise"``: each one is an error.
"""

UNRELATED: tuple[Unrelated, ...] = ("first", "always", "branch", "raise")

KEY: Final = "preset"
DOCUMENTED: Final = "documented"
SETTINGS: Final = "preset_settings"
IN_CODE: Final = "preset_code"  #: names of settings that JSON cannot hold: only the host's code has them


def preset_options(options: Any, path: str | os.PathLike[str] | None) -> tuple[Preset | None, Any]:
    """The preset that *options* names, and *options* together with the preset's own.

    Raises:
        ConfigError: there is no such preset, or *options* has an option that the preset sets.
    """
    asked = options.get(KEY)
    if asked is None:
        return None, options
    from siltstone.presets import preset

    chosen = preset(asked)
    own = dict(chosen.options)
    if chosen.most_entries is not None:
        own["retention"] = Retention(max_entries=chosen.most_entries)
    if chosen.archive is not None and path is not None:
        own["archive"] = chosen.archive(path)
    if options.get("context_window") is not None:
        own.pop("context_window", None)  # a policy takes the smaller one
    if "policy" in options and options["policy"] is None:
        own.pop("policy")  # its memory alone
    for name in own:
        if options.get(name, own[name]) is not own[name]:
            raise ConfigError(
                f"{name} is part of the preset {chosen.name!r}: make it with siltstone.presets."
                f"{chosen.name}(...), or open the session with preset=None, as one without a preset",
                name,
                options[name],
            )
    return chosen, {**options, **own}


def check_without_directory(chosen: Preset) -> None:
    """Checks a preset for the address of a database, which has no directory.

    Raises:
        ConfigError: the preset needs a directory. The message says for what.
    """
    if chosen.needs_directory:
        raise ConfigError(
            f"preset {chosen.name!r} needs a directory for {chosen.needs_directory}, and a database has none",
            KEY,
            chosen.name,
        )


def kept_preset(store: Store, session_id: str, writer: Any = None) -> Preset | None:
    """The preset that the store keeps for the session, with its settings; None if it has none.

    *writer* is the caller's model: it stands for the one of ``profiles``, which only the host's code has.

    Raises:
        ConfigError: the preset was made with settings that JSON cannot hold; or the session is new, and other
            sessions of the store have a preset, so the caller must choose one. Nothing was written.
    """
    state = store.open_log(session_id).state()
    said = _read(state.settings)
    name = said.get(KEY)
    if not isinstance(name, str):
        if not state.next_seq and not said:
            _check_plain(store, session_id)
        return None
    settings, in_code = dict(said.get(SETTINGS, {})), said.get(IN_CODE)
    if in_code == ["profiles"] and writer is not None:
        settings["profiles"] = {settings.get("profile", "summarizer"): writer}
    elif in_code:
        model = ", or name its model: model=, or --model" if in_code == ["profiles"] else ""
        raise ConfigError(
            f"session {session_id!r} is of the preset {name!r}, made with {', '.join(in_code)}, "
            f"which no store can keep: {_how(name)}{model}",
            KEY,
            None,
        )
    from siltstone.presets import preset

    return preset(name, documented=said.get(DOCUMENTED, True) is True, **settings)


def preset_of_store(store: Store) -> Preset | None:
    """The preset of the store's sessions, which a new session must have too; None if they have none.

    Raises:
        ConfigError: the preset was made with settings that JSON cannot hold.
    """
    found = _first(store)
    return kept_preset(store, found[0]) if found else None


def check_free(store: Store, session_id: str, chosen: Preset) -> None:
    """Checks that no session of the store has another preset than *chosen*.

    Raises:
        ConfigError: one has. The message names both presets. Nothing was written.
    """
    own = _name(store, session_id)
    if own is not None:
        _check(own, session_id, chosen)
        return
    found = _first(store, but=chosen.name)
    if found:
        _check(found[1], found[0], chosen)


def settle(core: SessionCore, chosen: Preset, path: str | os.PathLike[str] | None) -> None:
    """Stores the preset *chosen* and its settings with the session, and connects the preset's files.

    A new session begins with the messages that the files hold.
    """
    settings = _read(core.rows.state().settings)
    said = {KEY: chosen.name, DOCUMENTED: chosen.documented, **_made(chosen)}
    try:
        if chosen.live is not None and path is not None:
            from pathlib import Path  # only a preset with files needs it

            live = chosen.live(Path(path), core.session_id, core.rows)
            if core.next_seq == 0 and (found := live.found()):
                core.locked(lambda: core.append_now(found, None))
                core.tell_secrets()
                begin = live.begun()
                if begin is not None:
                    trigger = Trigger("manual", context_window=core.context_window)
                    run(compaction(core, begin, trigger, 0, is_emergency=True), None)
            core.live = live
            core.catch_up()
        if not said.items() <= settings.items():
            core.save_settings(json.dumps({**settings, **said}, ensure_ascii=False))
    except ReadOnlyStoreError:
        pass  # the store was opened read-only


def _check(other: str, session_id: str, chosen: Preset) -> None:
    if other != chosen.name:
        raise ConfigError(
            f"preset {chosen.name!r} cannot go on with what preset {other!r} filled: session {session_id!r} "
            f"is of {other!r}; nothing was changed; use another directory",
            KEY,
            chosen.name,
        )


def _check_plain(store: Store, session_id: str) -> None:
    """Raises ConfigError if the store's sessions have a preset, which a new session must name."""
    found = _first(store)
    if found:
        raise ConfigError(
            f"session {session_id!r} is new, and session {found[0]!r} of the same store is of the preset "
            f"{found[1]!r}: {_how(found[1])}",
            KEY,
            None,
        )


def _first(store: Store, but: str = "") -> tuple[str, str] | None:
    """The id and preset name of the first session with a preset other than *but*; None if there is none."""
    found = store.session_with_settings(_written(""), _written(but) if but else "")
    name = None if found is None else _read(found[1]).get(KEY)
    return None if found is None or not isinstance(name, str) else (found[0], name)


def _written(name: str) -> str:
    """The text by which stored settings name the preset *name*; any preset, if *name* is empty."""
    return json.dumps({KEY: name})[1:-1] if name else f'"{KEY}": "'


def _how(name: str) -> str:
    """The advice at the end of an error: the ways to open the session."""
    return (
        f"open it with preset={name!r} or one made by siltstone.presets.{name}(...), or with preset=None, as "
        "one without a preset"
    )


def _made(chosen: Preset) -> dict[str, Any]:
    """The settings of *chosen* as JSON, and the names of settings that JSON cannot hold."""
    kept: dict[str, Any] = {}
    for name, value in chosen.settings.items():
        try:
            kept[name] = json.loads(json.dumps(value, allow_nan=False))
        except (TypeError, ValueError):
            continue
    return {SETTINGS: kept, IN_CODE: sorted(chosen.settings.keys() - kept.keys())}


def _name(store: Store, session_id: str) -> str | None:
    """The name of the session's preset; None if it has none."""
    name = _read(store.open_log(session_id).state().settings).get(KEY)
    return name if isinstance(name, str) else None


def _read(settings: str) -> dict[str, Any]:
    if not settings:
        return {}
    try:
        value = json.loads(settings)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


CallT = TypeVar("CallT", bound=Callable[..., Any])
ModelT = TypeVar("ModelT")
BeforeT = TypeVar("BeforeT")
AfterT = TypeVar("AfterT")


class SessionOptions(TypedDict, Generic[ModelT, BeforeT, AfterT], total=False):
    """The options of ``store.session(id, ...)``; :meth:`siltstone.Session.open` explains each."""

    preset: str | Preset | System | None
    policy: Compactor | None
    model: ModelT | None
    context_window: int | Literal["auto"] | None
    agent_model: str | None
    reserved_tokens: int
    namespace: str
    index_tools: bool
    recall: bool | RecallConfig
    redaction: bool | RedactionConfig | Redactor | None
    knowledge: bool | KnowledgeConfig
    allow_forget: bool
    archive: str | os.PathLike[str] | ContextArchive | None
    hooks: Sequence[Hook]
    on_before_compact: BeforeT | None
    on_after_compact: AfterT | None
    hook_timeout: float | None
    check: bool
    retention: Retention | None
    time_zone: tzinfo | str | None
    background: bool
    unrelated: Unrelated


class Options(SessionOptions[ModelT, BeforeT, AfterT], Generic[ModelT, BeforeT, AfterT], total=False):
    """The same, and the store of the session: what ``Session.open`` and ``AsyncSession.open`` take."""

    memory: bool | Store


OPTIONS: Final = frozenset(Options.__annotations__)

StoreOptions: TypeAlias = "SessionOptions[Models, BeforeCompact, AfterCompact]"
"""The options of :meth:`siltstone.Session.open`, without the store."""


Path = str | os.PathLike[str]

DEFAULTS: Final = Options[Any, Any, Any](
    context_window=None, agent_model=None, reserved_tokens=0, memory=True, index_tools=True, recall=False,
    allow_forget=False, archive=None, hooks=(), on_before_compact=None, on_after_compact=None, check=False,
    hook_timeout=HOOK_TIMEOUT, time_zone=None, background=True, unrelated="first",
)  # fmt: skip
"""The defaults of options; an option that is not here means another thing if it is left out."""


def shows_options(opening: CallT) -> CallT:
    """Lets ``help()`` show the type and the default of each option, in place of ``**options``."""
    plain = signature(opening)
    *usual, options = plain.parameters.values()
    kinds = options.annotation.strip("]").rpartition("[")[2].split(", ")  # of the model and the two hooks
    shown = []
    for name, kind in Options.__annotations__.items():
        text = kind.__forward_arg__
        for variable, meant in zip(("ModelT", "BeforeT", "AfterT"), kinds, strict=True):
            text = text.replace(variable, meant)
        shown.append(
            Parameter(name, Parameter.KEYWORD_ONLY, default=DEFAULTS.get(name, ...), annotation=text)
        )
    vars(opening)["__signature__"] = plain.replace(parameters=[*usual, *shown])
    return opening


class Opened(NamedTuple):
    """An opened session: its core, and the checked options that its calls need."""

    core: SessionCore
    policy: Compactor | None
    model: Any
    owns_store: bool
    recall: RecallConfig | None
    allow_forget: bool = False
    preset: Preset | None = None
    time_zone: tzinfo | None = None
    path: Path | None = None
    options: Any = None


def open_session(
    path: Path | None, session_id: str, options: Options[Any, Any, Any], *, is_async: bool
) -> Opened:
    """Opens the session *session_id* with *options*.

    Raises:
        TypeError: an option does not exist.
        ConfigError: an option has a bad value: no path and no store, a window <= 0 or not above the reserved
            tokens, something that is no policy or no model, or a policy that has no room in the window.
        StoreError: the store cannot be opened.
    """
    unknown = options.keys() - OPTIONS
    if unknown:
        raise _no_option(min(unknown))
    check_text("session_id", session_id, "chat-1")
    if options.get("namespace") is not None:
        check_text("namespace", options.get("namespace"), "acme/user-42")
    given = options
    options = _windowed(options)
    shared = options.get("memory", True)
    place = path if isinstance(shared, bool) else getattr(shared, "path", None)
    if is_database(place):
        place = None  # there is no directory beside it
    preset, options = preset_options(options, place)
    options = {**DEFAULTS, **options}
    if preset is not None and is_database(path) and isinstance(shared, bool):
        check_without_directory(preset)
    memory, reserved = options["memory"], options["reserved_tokens"]
    window: Any = options["context_window"]  # a number, or None
    check_window(window, reserved)
    agent_model = options["agent_model"]
    counted = rule_for(agent_model) if agent_model else None
    is_told = "policy" in options or window is None
    policy = options.get("policy") if is_told else default_policy(counted)
    if policy is not None:
        check_policy(policy)
        policy.check_overhead(reserved, window)
    model = options.get("model") if "model" in options or policy is None else default_model()
    check_model(model, is_async=is_async)
    archive = _archive(options["archive"])
    recall = _recall(options["recall"], options["memory"])
    time_zone = _time_zone(options["time_zone"])
    redactor = _redactor(options, recall)
    compaction_hooks = CompactionHooks(
        options["on_before_compact"], options["on_after_compact"], options["hook_timeout"], options["check"]
    )
    hooks = checked_hooks(options["hooks"])
    knowledge, retention = _knowledge(options, recall), _retention(options, recall)
    if archive is not None and memory is False:
        raise ConfigError("archive needs memory=True", field="archive", value=options["archive"])
    allow_forget = options["allow_forget"]
    checks.boolean("allow_forget", allow_forget)
    checks.one_of("unrelated", options["unrelated"], UNRELATED)
    store, owned = _store(path, session_id, memory, preset)
    with _beginning(store, owned):
        if preset is not None:
            check_free(store, session_id, preset)
        elif "preset" not in given and (kept := kept_preset(store, session_id, given.get("model"))):
            if owned:
                store.close()  # the preset may need another form of store
            return open_session(path, session_id, {**given, "preset": kept}, is_async=is_async)
        core = SessionCore(
            store,
            session_id,
            options,
            cross_session=None if recall is None else recall.cross_session,
            indexed=memory is not False,
            token_rule=policy.token_rule if policy else counted,
            hooks=hooks,
            compaction_hooks=compaction_hooks,
            context_window=window,
            retention=retention,
            redactor=redactor,
            knowledge=knowledge,
            archive=archive,
        )
        if preset is not None:
            settle(core, preset, place)
        core.use_model(agent_model)
        if core.clock.limits:
            core.tell_limits(window)
        _begin(core)
    return Opened(core, policy, model, owned, recall, allow_forget, preset, time_zone, path, given)


@contextmanager
def _beginning(store: Store, owned: bool) -> Iterator[None]:
    """Meanwhile a store behind a network asks once what is new. An own store is closed after an error."""
    try:
        with getattr(store, "one_look", nullcontext)():
            yield
    except BaseException:
        if owned:
            store.close()
        raise


def check_text(field: str, value: object, example: str) -> None:
    """Raises ConfigError if *value* is no text; *example* is one."""
    if not isinstance(value, str):
        named = example if value is None or isinstance(value, bytes) else str(value)
        raise ConfigError(
            f"{field} must be a text, got {value!r}: a name of your own, such as {named!r}", field, value
        )


def _no_option(name: str) -> TypeError:
    """The error for an option that does not exist, with the nearest one that does."""
    from difflib import get_close_matches

    near = get_close_matches(name, OPTIONS, 1, 0.5)
    meant = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(sorted(OPTIONS))}"
    return TypeError(f"open() has no option {name!r}; {meant}")


def _windowed(options: Options[Any, Any, Any]) -> Options[Any, Any, Any]:
    """*options* with a number in place of ``"auto"``."""
    model = options.get("agent_model")
    if model is not None:
        check_text("agent_model", model, "gpt-5")
    if options.get("context_window") == "auto":
        from siltstone.limits import auto_window  # only who asks for a window needs it

        return {**options, "context_window": auto_window(model)}
    return options


def _time_zone(zone: tzinfo | str | None) -> tzinfo | None:
    """The time zone in which days begin; None for the machine's own zone."""
    if zone is None or isinstance(zone, tzinfo):
        return zone
    if isinstance(zone, str):
        from zoneinfo import ZoneInfo  # few sessions name a zone

        try:
            return ZoneInfo(zone)
        except (ValueError, OSError, KeyError):  # an invalid name, or an unknown zone
            pass
    return refuse("time_zone", "a tzinfo, a name such as 'Europe/Paris', or None", zone)


def _redactor(options: Options[Any, Any, Any], recall: RecallConfig | None) -> Redactor | None:
    """The redactor for all written texts; None if the session does not redact."""
    asked = options.get("redaction", recall is not None and recall.redaction)
    if asked is None or asked is False:
        return None
    from siltstone.redaction import RedactionConfig, Redactor

    if isinstance(asked, Redactor):
        return asked
    if asked is not True and not isinstance(asked, RedactionConfig):
        refuse("redaction", "True, False, a RedactionConfig or a Redactor", asked)
    return Redactor(None if asked is True else asked)


def _retention(options: Options[Any, Any, Any], recall: RecallConfig | None) -> Retention | None:
    """The bounds of the entries: the host's, or recall's if its settings differ from the defaults.

    The defaults of recall are the documented bounds. They are not applied, since they would remove every
    entry after 90 days.
    """
    if "retention" in options or recall is None:
        given = options.get("retention")
        if given is not None and not isinstance(given, Retention):
            refuse("retention", "None or a Retention, such as Retention(max_entries=999)", given)
        return given
    from siltstone.recall import RecallConfig

    usual = RecallConfig()
    if (recall.max_segments, recall.eviction_days) == (usual.max_segments, usual.eviction_days):
        return None
    return Retention.documented(max_segments=recall.max_segments, eviction_days=recall.eviction_days)


def _knowledge(options: Options[Any, Any, Any], recall: RecallConfig | None) -> KnowledgeConfig | None:
    """The settings by which the session learns facts; None if it learns none by itself."""
    given = options.get("knowledge", recall is not None)
    if given is False:
        return None
    from siltstone.knowledge import KnowledgeConfig

    if isinstance(given, KnowledgeConfig):
        config = given
    elif given is True:
        config = KnowledgeConfig(
            knowledge_extraction=getattr(options["recall"], "knowledge_extraction", True)
        )
    else:
        refuse("knowledge", "True, False or a KnowledgeConfig", given)
    if options["memory"] is False:
        raise ConfigError(
            "knowledge needs memory: open the session with memory=True, or with knowledge=False",
            "knowledge",
            given,
        )
    return config


def _archive(given: object) -> ContextArchive | None:
    if given is None:
        return None
    from siltstone.session.archiving import archive_of

    return archive_of(given)


def _begin(core: SessionCore) -> None:
    """Begins the work that an earlier process has left: unread messages, missing files of the archive."""
    if core.knowing.is_learning:
        from siltstone.session.learning import check_due

        check_due(core)
    if core.archive is not None:
        from siltstone.session.archiving import begin

        begin(core)


def check_model(model: Any, *, is_async: bool) -> None:
    """Raises ConfigError if *model* is not callable, or is async in a sync session."""
    models = model if isinstance(model, Sequence) and not isinstance(model, str) else (model,)
    for each in models if model is not None else ():
        if not callable(each) or isinstance(each, type):
            maker = "anthropic" if "claude" in str(each) else "openai"
            named = f"siltstone.models.{maker}({each!r})" if isinstance(each, str) else "ExtractiveModel()"
            raise ConfigError(
                f"model, which writes summaries, must be a callable such as {named}, a list of them, or "
                f"None, got {each!r}",
                "model",
                each,
            )
        if not is_async and gives_coroutine(each):
            raise ConfigError(
                f"model {each!r} is async, which a Session cannot await: open an AsyncSession", "model", each
            )


def check_window(context_window: int | None, reserved_tokens: int = 0) -> None:
    """Raises ConfigError for a window <= 0, or a window not above the reserved tokens."""
    checks.at_least("reserved_tokens", reserved_tokens, 0)
    if context_window is None:
        return
    if type(context_window) is int and 0 < context_window <= reserved_tokens:
        refuse("reserved_tokens", f"< the window of {context_window}", reserved_tokens)
    if type(context_window) is not int or context_window <= 0:
        refuse("context_window", "an integer > 0", context_window)


def _recall(asked: Any, memory: Any) -> RecallConfig | None:
    """The settings of recall, from the option *asked*; None if recall is off."""
    if asked is False or asked is None:
        return None
    from siltstone.recall import RecallConfig

    config = RecallConfig() if asked is True else asked
    if not isinstance(config, RecallConfig):
        refuse("recall", "True, False or a RecallConfig", asked)
    if not config.enabled:
        return None
    if memory is False:
        raise ConfigError(
            "recall needs a memory to look into: open the session without memory=False", "recall", asked
        )
    return config


def _store(
    path: Path | None, session_id: str, memory: bool | Store, preset: Preset | None
) -> tuple[Store, bool]:
    if not isinstance(memory, bool):
        if not hasattr(memory, "open_log"):
            refuse("memory", "True, False or a store such as MemoryStore.open(path)", memory)
        return memory, False
    if path is None:
        raise ConfigError(
            "a session needs a path, or a store: Session.open(None, id, memory=SimpleMemoryStore()) keeps it "
            "in memory",
            "path",
            path,
        )
    if hasattr(path, "open_log"):
        raise ConfigError(
            "the path of a session must be one of a file; a store that is open is given as memory=, "
            f"with None as the path: Session.open(None, {session_id!r}, memory=store)",
            "path",
            path,
        )
    if preset is None:
        return open_store(path), True
    try:
        return preset.open_store(path), True
    except ConfigError as error:  # a store of another form: name its preset, if any
        with open_store(path, read_only=True) as there:
            check_free(there, session_id, preset)
        raise ConfigError(
            f"preset {preset.name!r} needs a store of another form than the one in {os.fspath(path)!r}: use "
            "another directory; nothing was changed",
            "preset",
            preset.name,
        ) from error
