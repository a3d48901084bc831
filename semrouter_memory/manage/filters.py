"""Categories and filters that a caller sends to the management API."""

from typing import Annotated

from fastapi import Query
from pydantic import AfterValidator, Field

from semrouter_memory.model import MemoryFilter, filterable, parse_filter
from semrouter_memory.model.filters import MAX_VALUE_CHARS


def _category(value: str) -> str:
    value = value.strip()
    if value and not filterable(value):
        raise ValueError("must be printable, without quotation marks, backslashes and braces")
    return value


def _readable(value: str) -> str:
    parse_filter(value)
    return value


Category = Annotated[
    str,
    AfterValidator(_category),
    Field(
        max_length=MAX_VALUE_CHARS,
        description='A category of your own, to filter by; "": none. The same as `metadata.category`.',
        examples=["work"],
    ),
]
FilterText = Annotated[
    str,
    AfterValidator(_readable),
    Field(
        description="Only memories that fulfil all conditions, separated by commas: `category=work`, `metadata.KEY=VALUE` (a text,"
        " number or boolean of the metadata), `min_importance=0.5`. A comma in a value is written %2C.",
        examples=["category=work,metadata.team=core,min_importance=0.5"],
    ),
]


def filter_in(text: Annotated[FilterText, Query(alias="filter")] = "") -> MemoryFilter:
    """The filter of a query parameter."""
    return parse_filter(text)
