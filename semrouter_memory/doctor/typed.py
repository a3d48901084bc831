"""Parsed YAML into envoy-data-plane's messages, strictly, as Envoy itself would read it.

Strategy: one walk down the value and the message's fields together. What does not fit is noted with its path and left
out, so that one mistyped field hides no other mistake. Aliases of YAML can blow a small file up, so the walk is bounded.
"""

import dataclasses
import importlib
import re
import typing
import warnings
from typing import Any

import betterproto2
from betterproto2 import FieldMetadata
from betterproto2.casing import safe_snake_case
from envoy_data_plane.envoy.config.bootstrap.v3 import Bootstrap
from envoy_data_plane.google import protobuf
from envoy_data_plane.message_pool import default_message_pool

from semrouter_memory.doctor import scalars
from semrouter_memory.doctor.place import At, Opened, keyed
from semrouter_memory.doctor.yaml_loader import MERGE_KEY
from semrouter_memory.errors import ConfigurationError

_MAX_VALUES = 300_000
_MAX_DEPTH = 100
_MAX_SHOWN_CHARS = 40
_TYPE_KEY = "@type"
_TYPED_STRUCTS = frozenset({"xds.type.v3.TypedStruct", "udpa.type.v1.TypedStruct"})
"""Any message, said as a mapping beside its type."""
_NOT_A_TYPE = frozenset({protobuf.Struct, protobuf.Value, protobuf.ListValue})
_A_DURATION = 'needs a duration in seconds, such as "1.5s"'
_PLACEHOLDER = re.compile(r"\$\{|\{\{|^\$\w+$")
_KINDS = {
    type(None): "nothing",
    dict: "a mapping",
    list: "a list",
    str: "text",
    bool: "true or false",
    int: "a number",
    float: "a number",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Problem:
    """A value that Envoy would refuse."""

    path: str
    what: str


def read_bootstrap(value: dict[str, Any], path: str = "") -> tuple[At, list[Problem]]:
    """The bootstrap, and what in it does not fit.

    Raises:
        ConfigurationError: it is beyond every bound; the message says which.
    """
    reader = _Reader()
    with warnings.catch_warnings():
        # Deprecated fields say so when they are set; Envoy reads them all the same.
        warnings.simplefilter("ignore")
        message = reader.message(value, Bootstrap, path)
    return At(message if message is not None else Bootstrap(), path, reader.opened), reader.problems


class _Reader:
    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.opened: dict[str, Opened] = {}
        self._left = _MAX_VALUES
        self._depth = 0

    def message(self, value: Any, cls: type, path: str) -> Any:
        """A message, or None when the value is no mapping or its fields exclude each other."""
        if cls is protobuf.Any:
            return self._any(value, path)
        if cls in _NOT_A_TYPE:
            return self._free(value, cls, path)
        if not isinstance(value, dict):
            return self._refuse(path, f"needs a mapping ({cls.__name__}), has {_shown(value)}")
        self._enter(path)
        fields = self._fields(value, cls, path)
        self._depth -= 1
        try:
            return cls(**fields)
        except ValueError:
            return self._refuse(path, "fields that exclude each other are set together")

    def _fields(self, value: dict[Any, Any], cls: type, path: str) -> dict[str, Any]:
        known = _fields_of(cls)
        read: dict[str, Any] = {}
        for key, item in value.items():
            name = safe_snake_case(key) if isinstance(key, str) else ""
            where = f"{path}.{key}" if path else str(key)
            if name not in known:
                self._refuse(where, f"{cls.__name__} has no field {_shown(key)}{_alike(str(key), known)}")
            elif item is not None:
                result = self._field(item, known[name], f"{path}.{name.rstrip('_')}" if path else name.rstrip("_"))
                if result is not None:
                    read[name] = result
        return read

    def _field(self, value: Any, field: "_Field", path: str) -> Any:
        if field.meta.map_meta:
            if not isinstance(value, dict):
                return self._refuse(path, f"needs a mapping, has {_shown(value)}")
            found = {str(key): self._map_value(item, field, keyed(path, str(key))) for key, item in value.items()}
            return {key: item for key, item in found.items() if item is not None}
        if field.meta.repeated:
            # Envoy takes what is no list for the only item of one.
            entries = value if isinstance(value, list) else [value]
            items = [self._single(item, field, f"{path}[{index}]") for index, item in enumerate(entries)]
            if not field.is_message:
                return [item for item in items if item is not None]
            # What was refused must keep its place, or all paths behind it would be wrong.
            return [field.cls() if item is None else item for item in items]
        return self._single(value, field, path)

    def _map_value(self, value: Any, field: "_Field", path: str) -> Any:
        assert field.meta.map_meta is not None
        return self._single(value, dataclasses.replace(field, meta=field.meta.map_meta[1]), path)

    def _single(self, value: Any, field: "_Field", path: str) -> Any:
        self._count(path)
        meta = field.meta
        if meta.unwrap is not None:
            return self._wrapped(value, meta.unwrap(), path)
        if meta.proto_type == betterproto2.TYPE_MESSAGE:
            return self.message(value, field.cls, path)
        if meta.proto_type == betterproto2.TYPE_ENUM:
            return self._enum(value, field.cls, path)
        return self._scalar(value, meta.proto_type, path)

    def _wrapped(self, value: Any, cls: type, path: str) -> Any:
        if cls is protobuf.Duration:
            found = scalars.duration(value)
            return found if found is not None else self._refuse(path, f"{_A_DURATION}, has {_shown(value)}")
        fields = _fields_of(cls)
        if set(fields) == {"value"}:
            return self._scalar(value, fields["value"].meta.proto_type, path)
        return None  # a timestamp: nothing that is looked at has one

    def _enum(self, value: Any, cls: type[betterproto2.Enum], path: str) -> Any:
        found = scalars.choice(value, cls)
        if found is not None:
            return found
        return self._refuse(path, f"is {_shown(value)}; there are {', '.join(scalars.choices(cls))}")

    def _scalar(self, value: Any, kind: str, path: str) -> Any:
        if kind == betterproto2.TYPE_BOOL:
            return self._read(scalars.boolean(value), path, "true or false", value)
        if kind in betterproto2.ALL_INT_TYPES:
            return self._integer(value, kind, path)
        if kind in {betterproto2.TYPE_FLOAT, betterproto2.TYPE_DOUBLE}:
            return self._read(scalars.number(value), path, "a number", value)
        if kind == betterproto2.TYPE_BYTES:
            return self._read(scalars.octets(value), path, "base64 text", value)
        return value if isinstance(value, str) else self._mistyped(path, "text", value)

    def _read(self, found: Any, path: str, needed: str, value: Any) -> Any:
        return found if found is not None else self._mistyped(path, needed, value)

    def _integer(self, value: Any, kind: str, path: str) -> Any:
        number = scalars.whole_number(value)
        if number is None:
            return self._mistyped(path, "a whole number", value)
        low, high = scalars.BOUNDS[kind]
        return number if low <= number <= high else self._refuse(path, f"is {number}; there fit {low} to {high}")

    def _any(self, value: Any, path: str) -> Any:
        """An `Any`: its content is kept beside the tree, by its path."""
        if value == {}:
            return protobuf.Any()
        if not isinstance(value, dict) or not isinstance(value.get(_TYPE_KEY), str):
            return self._refuse(path, f'needs a mapping with "{_TYPE_KEY}", has {_shown(value)}')
        value = _untyped(value)
        url = value[_TYPE_KEY]
        if not isinstance(url, str):
            return self._refuse(path, "needs a type_url")
        name = url.rpartition("/")[2]
        cls = _type_named(name)
        message = None
        if cls is not None:
            content = {key: item for key, item in value.items() if key != _TYPE_KEY}
            message = self.message(content, cls, path)
        elif name.startswith("envoy.") and _package_exists(name):
            self._refuse(f"{path}.{_TYPE_KEY}", f"Envoy has no type {_shown(name)}")
        self.opened[path] = Opened(name, message)
        return protobuf.Any(type_url=url)

    def _free(self, value: Any, cls: type, path: str) -> Any:
        """JSON of any shape; it is kept as it is."""
        if cls is protobuf.Struct and not isinstance(value, dict):
            return self._refuse(path, f"needs a mapping, has {_shown(value)}")
        self._measure(value, path)
        self.opened[path] = Opened("google.protobuf.Struct", value)
        return cls()

    def _measure(self, value: Any, path: str) -> None:
        self._enter(path)
        items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        for item in items:
            self._measure(item, path)
        self._depth -= 1

    def _enter(self, path: str) -> None:
        self._count(path)
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise ConfigurationError(f"{path[:200]}...: nested more than {_MAX_DEPTH} deep")

    def _count(self, path: str) -> None:
        self._left -= 1
        if self._left < 0:
            raise ConfigurationError(f"{path[:200]}: more than {_MAX_VALUES} values; is it blown up by YAML aliases?")

    def _mistyped(self, path: str, needed: str, value: Any) -> None:
        hint = ""
        if isinstance(value, str) and _PLACEHOLDER.search(value):
            hint = "; fill placeholders in before (envsubst)"
        elif needed == "text":
            # A number may well be a key that was not quoted.
            return self._refuse(path, f"needs text, has {_KINDS.get(type(value), 'something else')}; quote it")
        return self._refuse(path, f"needs {needed}, has {_shown(value)}{hint}")

    def _refuse(self, path: str, what: str) -> None:
        self.problems.append(Problem(path or "(top level)", what))


def _untyped(value: dict[str, Any]) -> dict[str, Any]:
    """What a TypedStruct holds, as if it stood there itself."""
    content = value.get("value", {})
    if value[_TYPE_KEY].rpartition("/")[2] not in _TYPED_STRUCTS or not isinstance(content, dict):
        return value
    return {**content, _TYPE_KEY: value.get("type_url", value.get("typeUrl"))}


@dataclasses.dataclass(frozen=True, slots=True)
class _Field:
    meta: FieldMetadata
    cls: Any

    @property
    def is_message(self) -> bool:
        return self.meta.proto_type == betterproto2.TYPE_MESSAGE and self.meta.unwrap is None


_KNOWN: dict[type, dict[str, _Field]] = {}


def _fields_of(cls: type) -> dict[str, _Field]:
    if cls not in _KNOWN:
        hints = typing.get_type_hints(cls)
        _KNOWN[cls] = {
            field.name: _Field(FieldMetadata.get(field), _class_in(hints[field.name]))
            for field in dataclasses.fields(cls)
        }
    return _KNOWN[cls]


def _class_in(hint: Any) -> Any:
    """The class of a field's items: of `X | None`, `list[X]` and `dict[str, X]` it is X."""
    arguments = [part for part in typing.get_args(hint) if part is not type(None)]
    return _class_in(arguments[-1]) if arguments and typing.get_origin(hint) is not typing.Annotated else hint


def _type_named(name: str) -> Any:
    url = f"type.googleapis.com/{name}"
    if url not in default_message_pool.url_to_type:
        _package_exists(name)
    return default_message_pool.url_to_type.get(url)


def _package_exists(name: str) -> bool:
    """Whether the package of a message is known here; registers its messages."""
    package = name.rpartition(".")[0]
    if not re.fullmatch(r"[a-z0-9_]+(\.[a-z0-9_]+)*", package):
        return False
    try:
        importlib.import_module(f"envoy_data_plane.{package}")
    except ImportError:
        return False
    return True


def _alike(key: str, known: dict[str, _Field]) -> str:
    if key == MERGE_KEY:
        return "; Envoy merges nothing in YAML: write the fields out, or use the alias as a whole"
    import difflib  # noqa: PLC0415 - for a mistake only

    near = difflib.get_close_matches(key, known, n=1)
    return f"; is {near[0]} meant?" if near else ""


def _shown(value: Any) -> str:
    """A short look at what stands there; a long text may be a secret or a certificate."""
    if isinstance(value, str) and len(value) <= _MAX_SHOWN_CHARS:
        return ascii(value)
    if isinstance(value, bool | int | float):
        return str(value)[:_MAX_SHOWN_CHARS]
    return _KINDS.get(type(value), "something else")
