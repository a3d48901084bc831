"""The management API does what its description says, whatever is sent: requests are generated from the description itself.

Bounded and repeatable as part of the suite; SCHEMA_EXAMPLES=500 looks longer.
"""

import os
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import ignored_auth, negative_data_rejection, positive_data_acceptance

from tests.management_ports import DESCRIPTION, TOKEN, Ports, descriptions, open_ports

EXAMPLES = int(os.environ.get("SCHEMA_EXAMPLES", "8"))
HEADERS = {"user": {"x-authz-user-id": "alice"}, "operator": {"authorization": f"Bearer {TOKEN}"}}
OPERATIONS = [
    pytest.param(port, f"{method.upper()} {path}", id=f"{port}: {method} {path}")
    for port, description in descriptions().items()
    for path, methods in description["paths"].items()
    for method in methods
]
_NOT_CHECKED = [
    # Who exists, what is secret or printable, and which cursor was given, no schema can say: such data gets a 400.
    positive_data_acceptance,
    # Every request here carries its credentials; who may do what without them, test_authorisation says.
    ignored_auth,
]

Schema = Any


@schemathesis.serializer("application/x-ndjson")
def as_lines(_: Any, value: Any) -> Any:
    return value if isinstance(value, bytes | str) else str(value)


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ports]:
    with open_ports(tmp_path_factory.mktemp("ports")) as opened:
        yield opened


@pytest.fixture(scope="module")
def schemas(ports: Ports) -> dict[str, Schema]:
    urls = {"user": ports.user_url, "operator": ports.operator_url}
    return {port: schemathesis.openapi.from_url(url + DESCRIPTION, headers=HEADERS[port]) for port, url in urls.items()}


def known(ports: Ports, name: str) -> str:
    """Something of alice's that such a path parameter may name."""
    if name == "memory_id":
        with httpx.Client(base_url=ports.user_url, headers=HEADERS["user"], verify=False) as http:
            stored = http.post("/v1/memory", json={"content": f"User has key {uuid.uuid4()}"})
            return str(stored.raise_for_status().json()["id"])
    httpx.put(f"{ports.user_url}/v1/memory/settings", json={"paused": False}, headers=HEADERS["user"], verify=False)
    turn_id = ports.append("alice", "I live in Oslo")
    return turn_id if name == "turn_id" else "s1"


def aimed(case: Any, ports: Ports) -> None:
    """Let a request name what exists, and a backup go where it may."""
    for name in case.path_parameters or ():
        case.path_parameters[name] = known(ports, name)
    if "user_id" in (case.query or {}):
        case.query["user_id"] = "alice"


def _kept_inside(case: Any, ports: Ports) -> None:
    wanted = case.body.get("directory") if isinstance(case.body, dict) else None
    if case.operation.path == "/v1/backup" and isinstance(wanted, str) and wanted:
        case.body["directory"] = str(ports.directory / f"backup-{uuid.uuid4().hex}")


@pytest.mark.parametrize("mode", GenerationMode, ids=lambda mode: mode.value)
@pytest.mark.parametrize(("port", "label"), OPERATIONS)
def test_every_answer_is_one_that_the_description_knows(
    ports: Ports, schemas: dict[str, Schema], port: str, label: str, mode: GenerationMode
) -> None:
    operation = schemas[port].find_operation_by_label(label)
    statuses = set[int]()
    # Any text is lines, and a line that is no memory is reported in the answer.
    not_checked = [*_NOT_CHECKED, *([negative_data_rejection] if label.endswith("/import") else [])]

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode), aim=st.booleans())
    def answers(case: Any, *, aim: bool) -> None:
        if aim and mode is GenerationMode.POSITIVE:
            aimed(case, ports)
        _kept_inside(case, ports)
        response = case.call_and_validate(headers=HEADERS[port], excluded_checks=not_checked)
        statuses.add(response.status_code)

    try:
        answers()
    except Unsatisfiable:
        # A route without parameters, or with nothing but a path, takes no wrong data.
        assert mode is GenerationMode.NEGATIVE
        return
    assert all(status < 500 for status in statuses)
