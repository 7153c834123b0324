"""Value classes: dataclasses whose functions are made when they are first used.

``dataclasses`` writes and compiles up to seven functions when a class is defined. With some hundred classes
that was half of the time until a process has its first session, most of it for classes that the process never
makes an object of. Here a class is read when it is defined and finished when it is used. Type checkers,
``dataclasses.fields``, ``replace``, ``asdict`` and ``match`` see an ordinary dataclass, and so does pickling.
"""

from __future__ import annotations

__all__ = ["asdict", "dataclass", "field", "fields", "replace"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dataclasses import asdict, dataclass, field, fields, replace
    from typing import Any
else:

    def field(**options: Any) -> Any:
        """``dataclasses.field``."""
        return _Field(options)

    def dataclass(
        cls: type | None = None,
        *,
        frozen: bool = False,
        slots: bool = False,
        eq: bool = True,
        repr: bool = True,  # noqa: A002 - the name that dataclasses gives it
        kw_only: bool = False,
    ) -> Any:
        """``dataclasses.dataclass``: the functions of the class are made on first use."""
        options = {"frozen": frozen, "slots": slots, "eq": eq, "repr": repr, "kw_only": kw_only}
        return _defined(cls, options) if cls is not None else lambda cls: _defined(cls, options)

    def replace(value: Any, /, **changes: Any) -> Any:
        """``dataclasses.replace``."""
        plan = _PLANS.get(type(value))
        if plan is None:
            import dataclasses

            return dataclasses.replace(value, **changes)
        if plan.copies is None:
            plan.copies = _copies(plan)
        if plan.copies and changes.keys() <= plan.copies.keys():
            made = object.__new__(type(value))
            for name, (get, put) in plan.copies.items():
                put(made, changes[name] if name in changes else get(value))
            return made
        taken, derived = plan.arguments()
        for name in derived:
            if name in changes:
                raise ValueError(f"field {name} is declared with init=False")
        for name in taken:
            if name not in changes:
                changes[name] = getattr(value, name)
        return type(value)(**changes)

    def fields(value: Any) -> Any:
        """``dataclasses.fields``."""
        import dataclasses

        return dataclasses.fields(value)

    def asdict(value: Any, **options: Any) -> Any:
        """``dataclasses.asdict``."""
        if not options and type(value) in _PLANS and (plain := _plain(value)) is not _UNKNOWN:
            return plain
        import dataclasses

        return dataclasses.asdict(value, **options)


class _Field:
    """The settings of a field, until ``dataclasses`` needs them."""

    __slots__ = ("options",)

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options


class _Plan:
    """The definition of a class: its own fields, and how they were given."""

    __slots__ = ("_arguments", "_order", "cls", "copies", "given", "has_own_init", "names", "options")

    def __init__(self, cls: type, options: dict[str, Any]) -> None:
        self.cls, self.options = cls, options
        self._arguments: tuple[tuple[str, ...], tuple[str, ...]] | None = None
        self.has_own_init = "__init__" in cls.__dict__
        self.copies: dict[str, tuple[Any, Any]] | None = None  # the first copy makes it
        self._order: tuple[str, ...] | None = None
        kinds = cls.__annotations__.items()
        self.names = tuple(name for name, kind in kinds if not str(kind).startswith("ClassVar"))
        self.given = {name: cls.__dict__[name] for name in self.names if name in cls.__dict__}

    def every(self) -> list[tuple[str, dict[str, Any]]]:
        """All fields, those of bases first, and what was said of each."""
        found: dict[str, dict[str, Any]] = {}
        for base in reversed(self.cls.__mro__):
            if (plan := _PLANS.get(base)) is not None:
                found |= {name: plan.said_of(name) for name in plan.names}
        return list(found.items())

    def order(self) -> tuple[str, ...]:
        """The names of all fields, those of bases first."""
        if self._order is None:
            self._order = tuple(name for name, _ in self.every())
        return self._order

    def arguments(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The fields that ``__init__`` takes, and those that it does not."""
        if self._arguments is None:
            fields = [(name, said.get("init", True)) for name, said in self.every()]
            taken = tuple(name for name, is_taken in fields if is_taken)
            self._arguments = taken, tuple(name for name, is_taken in fields if not is_taken)
        return self._arguments

    def said_of(self, name: str) -> dict[str, Any]:
        given = self.given.get(name, _MISSING)
        said = {"kw_only": self.options["kw_only"], "annotation": self.cls.__annotations__[name]}
        if isinstance(given, _Field):
            return said | given.options
        return said if given is _MISSING else said | {"default": given}


_PLANS: dict[type, _Plan] = {}
_MISSING = object()
_UNKNOWN = object()  #: stands for a value that only ``dataclasses`` takes apart
_ATOMS = frozenset({str, int, bool, float, type(None), bytes})
_TIMES = frozenset({"datetime", "date", "time", "timedelta"})


def _plain(value: Any) -> Any:
    """What ``asdict`` makes of *value*, in a fraction of its time; ``_UNKNOWN`` where only that can tell.

    Texts, numbers and times never change, so they are not copied.
    """
    kind = type(value)
    if kind in _ATOMS or (kind.__module__ == "datetime" and kind.__name__ in _TIMES):
        return value
    if (plan := _PLANS.get(kind)) is not None:
        fields: dict[str, Any] = {}
        for name in plan.order():
            given = getattr(value, name)
            fields[name] = plain = given if type(given) in _ATOMS else _plain(given)
            if plain is _UNKNOWN:
                return _UNKNOWN
        return fields
    if kind is tuple or kind is list or (issubclass(kind, tuple) and hasattr(kind, "_fields")):
        parts = [_plain(part) for part in value]
        if any(part is _UNKNOWN for part in parts):
            return _UNKNOWN
        return parts if kind is list else tuple(parts) if kind is tuple else kind(*parts)
    return _UNKNOWN


def _defined(cls: type, options: dict[str, Any]) -> type:
    """*cls* as it is before its first use."""
    plan = _Plan(cls, options)
    held = {**cls.__dict__}
    made: dict[str, Any] = {
        name: _Late(name) for name in ("__dataclass_fields__", "__dataclass_params__", "__match_args__")
    }
    made["__init__"] = _Init("__init__")
    if options["repr"]:
        made["__repr__"] = _Late("__repr__")
    if options["eq"]:
        made["__eq__"] = _Equal("__eq__")
        made["__hash__"] = _Late("__hash__") if options["frozen"] else None
    if options["frozen"]:
        made |= {"__setattr__": _no_change, "__delattr__": _no_deletion}
        if options["slots"]:
            made |= {"__getstate__": _state, "__setstate__": _restored}
    said_by_class = {name for name in made if name in held}
    if held.get("__hash__", _MISSING) is None and "__eq__" in held:
        said_by_class.discard("__hash__")  # Python put None there, beside an equality
    made = {name: function for name, function in made.items() if name not in said_by_class}
    defaults = {
        name: given.options.get("default", _MISSING) if isinstance(given, _Field) else given
        for name, given in plan.given.items()
    }
    if options["slots"]:
        cls = _slotted(cls, plan, held, made)
    else:
        for name, default in defaults.items():
            if default is _MISSING:
                delattr(cls, name)
            else:
                setattr(cls, name, default)
        for name, function in made.items():
            setattr(cls, name, function)
    plan.cls = cls
    _PLANS[cls] = plan
    return cls


def _slotted(cls: type, plan: _Plan, held: dict[str, Any], made: dict[str, Any]) -> type:
    """*cls* again, with slots for its own fields."""
    inherited = {slot for base in cls.__mro__[1:-1] for slot in base.__dict__.get("__slots__", ())}
    for name in (*plan.names, "__dict__", "__weakref__"):
        held.pop(name, None)
    slots = tuple(name for name in plan.names if name not in inherited)
    again = type(cls)(cls.__name__, cls.__bases__, {**held, "__slots__": slots, **made})
    again.__qualname__ = cls.__qualname__
    return again


class _Late:
    """Stands in a class for what ``dataclasses`` makes of it."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        home = next((base for base in owner.__mro__ if base.__dict__.get(self.name) is self), None)
        if home is not None:  # else another thread has finished it meanwhile
            self.finish(home)
        return getattr(owner if instance is None else instance, self.name)

    def finish(self, home: type) -> None:
        """Puts what it stands for, and the like, in its place."""
        made = _by_dataclasses(_PLANS[home])
        for name, held in list(home.__dict__.items()):
            if type(held) is _Late:
                setattr(home, name, made[name])


class _Init(_Late):
    """Stands in a class for its ``__init__``, which alone is made where an object is."""

    __slots__ = ()

    def finish(self, home: type) -> None:
        setattr(home, self.name, _init(_PLANS[home]))


class _Equal(_Late):
    """Stands in a class for its ``__eq__``, which alone is made where two objects are compared."""

    __slots__ = ()

    def finish(self, home: type) -> None:
        setattr(home, self.name, _equal(_PLANS[home]))


def _equal(plan: _Plan) -> Any:
    """The function ``__eq__`` of a class: of one class, and alike in every field."""
    names = [name for name, said in plan.every() if said.get("compare", True)]
    own, others = ("".join(f"{of}.{name}, " for name in names) for of in ("self", "other"))
    known: dict[str, Any] = {}
    exec(  # noqa: S102 - of names of fields, as dataclasses does
        "def __eq__(self, other):\n"
        f" return ({own}) == ({others}) if other.__class__ is self.__class__ else NotImplemented",
        known,
    )
    function = known["__eq__"]
    function.__qualname__, function.__module__ = f"{plan.cls.__qualname__}.__eq__", plan.cls.__module__
    return function


def _init(plan: _Plan) -> Any:
    """The function ``__init__`` of a class."""
    known: dict[str, Any] = {"_set": object.__setattr__, "_missing": _MISSING}
    positional, named, body = list[str](), list[str](), list[str]()
    annotations: dict[str, Any] = {}
    for name, said in plan.every():
        value = name
        if "default" in said:
            known[f"_of_{name}"] = said["default"]
        elif "default_factory" in said:
            known[f"_make_{name}"] = said["default_factory"]
        if said.get("init", True):
            default = ""
            if "default" in said:
                default = f"=_of_{name}"
            elif "default_factory" in said:
                default, value = "=_missing", f"_make_{name}() if {name} is _missing else {name}"
            (named if said["kw_only"] else positional).append(name + default)
            annotations[name] = said["annotation"]
        elif "default_factory" in said:
            value = f"_make_{name}()"
        elif "default" in said and plan.options["slots"]:
            value = f"_of_{name}"
        else:
            continue
        if not plan.options["frozen"]:
            body.append(f"self.{name} = {value}")
        elif (slot := _slot(plan.cls, name)) is not None:  # in half the time of object.__setattr__
            known[f"_set_{name}"] = slot.__set__
            body.append(f"_set_{name}(self, {value})")
        else:
            body.append(f"_set(self, {name!r}, {value})")
    if hasattr(plan.cls, "__post_init__"):
        body.append("self.__post_init__()")
    parameters = ", ".join(["self", *positional, *(["*", *named] if named else [])])
    lines = "\n ".join(body or ["pass"])
    exec(f"def __init__({parameters}):\n {lines}", known)  # noqa: S102 - of names of fields, as dataclasses does
    function = known["__init__"]
    function.__qualname__, function.__module__ = f"{plan.cls.__qualname__}.__init__", plan.cls.__module__
    function.__annotations__ = annotations | {"return": None}
    return function


def _copies(plan: _Plan) -> dict[str, tuple[Any, Any]]:
    """By the name of each field, what reads and sets its slot; empty where a copy takes more than that."""
    cls, slots = plan.cls, {name: _slot(plan.cls, name) for name, _ in plan.every()}
    is_plain = plan.options["frozen"] and not plan.arguments()[1] and None not in slots.values()
    held = {name for base in cls.__mro__[:-1] for name in base.__dict__}
    if not is_plain or plan.has_own_init or held & {"__getattr__", "__new__", "__post_init__"}:
        return {}
    return {name: (slot.__get__, slot.__set__) for name, slot in slots.items()}


def _slot(cls: type, name: str) -> Any:
    """The slot of a field; None where it has none."""
    found = next((base.__dict__[name] for base in cls.__mro__ if name in base.__dict__), None)
    return found if type(found) is type(_Field.__dict__["options"]) else None


def _by_dataclasses(plan: _Plan) -> dict[str, Any]:
    """The class that ``dataclasses`` makes of the same bases and fields."""
    import dataclasses

    cls = plan.cls
    body: dict[str, Any] = {
        name: dataclasses.field(**given.options) if isinstance(given, _Field) else given
        for name, given in plan.given.items()
    }
    body |= {"__annotations__": cls.__annotations__, "__doc__": cls.__doc__ or ""}
    body |= {"__module__": cls.__module__, "__qualname__": cls.__qualname__}
    if "__orig_bases__" in cls.__dict__:
        body["__orig_bases__"] = cls.__dict__["__orig_bases__"]
    options = {**plan.options, "slots": False}
    twin: Any = type(cls)(cls.__name__, cls.__bases__, body)
    twin = dataclasses.dataclass(init=False, **options)(twin)
    return dict(twin.__dict__)


def _no_change(_: Any, name: str, __: Any) -> None:
    raise _frozen(f"cannot assign to field {name!r}")


def _no_deletion(_: Any, name: str) -> None:
    raise _frozen(f"cannot delete field {name!r}")


def _frozen(message: str) -> Exception:
    from dataclasses import FrozenInstanceError

    return FrozenInstanceError(message)


def _state(self: Any) -> list[Any]:
    return [getattr(self, name) for name, _ in _PLANS[_home(type(self))].every()]


def _restored(self: Any, state: list[Any]) -> None:
    for (name, _), value in zip(_PLANS[_home(type(self))].every(), state, strict=True):
        object.__setattr__(self, name, value)


def _home(cls: type) -> type:
    """The class of values that *cls* is, or derives from."""
    return next(base for base in cls.__mro__ if base in _PLANS)
