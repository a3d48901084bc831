"""What a model reads of a tool teaches its use."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from semrouter_memory.manage.tools import INSTRUCTIONS, TOOLS

_KEYWORDS = {
    *("type", "description", "examples", "default", "enum", "anyOf", "items", "format"),
    *("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems"),
}


def schemas_in(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield schema
    for inner in (*schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else ())):
        yield from schemas_in(inner)


@pytest.mark.parametrize("name", TOOLS)
def test_every_argument_is_described_in_plain_json_schema(name: str) -> None:
    """No references, and no word that JSON Schema does not have: clients pass it on as it is."""
    schema = TOOLS[name].schema()
    assert set(TOOLS[name].required) <= schema["properties"].keys()
    assert schema["additionalProperties"] is False
    for argument, described in schema["properties"].items():
        assert described.get("description"), argument
        assert all(part.keys() <= _KEYWORDS for part in schemas_in(described)), argument
        assert argument not in TOOLS[name].required or described["examples"]


@pytest.mark.parametrize("name", TOOLS)
def test_a_tool_costs_few_tokens(name: str) -> None:
    assert len(json.dumps(TOOLS[name].schema())) + len(TOOLS[name].description) < 3000


def test_the_instructions_name_the_tools_by_their_names() -> None:
    named = set(INSTRUCTIONS.split("`")[1::2])
    assert named < TOOLS.keys()


def test_only_forget_deletes_and_reading_changes_nothing() -> None:
    assert {name for name, tool in TOOLS.items() if tool.deletes} == {"forget"}
    assert {name for name, tool in TOOLS.items() if not tool.reads} == {"remember", "record_episode", "forget"}


@pytest.mark.parametrize("name", [name for name, tool in TOOLS.items() if "limit" in tool.parameters])
def test_a_limit_is_a_whole_number_however_it_is_written(name: str) -> None:
    """JSON knows one kind of number, and some models write 5.0."""
    tool = TOOLS[name]
    asked = tool.request.model_validate({**dict.fromkeys(tool.required, "x"), **tool.fixed, "limit": 5.0})
    assert asked.model_dump()["limit"] == 5
    described = tool.schema()["properties"]["limit"]
    assert {"type", "minimum", "maximum"} <= {key for part in schemas_in(described) for key in part}
