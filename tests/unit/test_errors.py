"""One table says how an error appears: its name in logs and metrics, and the management API's answer."""

from http import HTTPStatus

import pytest

from semrouter_memory.errors import (
    TOO_MANY_LINES,
    BodyError,
    ChatModelError,
    HttpAnswer,
    InvalidRequestError,
    LockLostError,
    ModelFault,
    ModelUnavailableError,
    NotFoundError,
    Service,
    StoreUnavailableError,
    TurnLogError,
    UnavailableError,
    failure_of,
    http_answer,
    name_of,
)

CANARY = "my secret"


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (StoreUnavailableError(CANARY), "StoreUnavailableError"),
        (StoreUnavailableError(CANARY, disk_full=True), "StoreFullError"),
        (StoreUnavailableError(CANARY, connection_lost=True), "ConnectionLostError"),
        (UnavailableError(CANARY, service=Service.EMBEDDING), "EmbeddingError"),
        (UnavailableError(CANARY, service=Service.STATE), "StateStoreError"),
        (UnavailableError(CANARY, service=Service.OWNER_VERSIONS), "OwnerVersionsError"),
        (UnavailableError(CANARY, service=Service.SERVER), "UnavailableError"),
        (LockLostError(CANARY), "LockLostError"),
        (ChatModelError(CANARY), "ChatModelError"),
        (ModelUnavailableError(CANARY), "ModelUnavailableError"),
        (ModelUnavailableError(CANARY, circuit_open=True), "CircuitOpenError"),
        (TurnLogError(CANARY), "TurnLogError"),
        (ValueError(CANARY), "ValueError"),
    ],
)
def test_an_error_is_named_without_its_message(error: Exception, name: str) -> None:
    assert name_of(error) == name


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (ChatModelError("x"), "model_failed"),
        (ModelUnavailableError("x", circuit_open=True), "model_failed"),
        (ChatModelError("x", fault=ModelFault.UNPARSABLE), "parse_failed"),
        (StoreUnavailableError("x", disk_full=True), "write_refused"),
        (UnavailableError("x", service=Service.EMBEDDING), "EmbeddingError"),
        (KeyError("x"), "KeyError"),
    ],
)
def test_a_failed_extraction_has_a_reason(error: Exception, failure: str) -> None:
    assert failure_of(error) == failure


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (InvalidRequestError("no", field="a"), 400, "invalid_value"),
        (InvalidRequestError("no", code=TOO_MANY_LINES), 413, "too_many_lines"),
        (NotFoundError("no", kind="turn"), 404, "turn_not_found"),
        (UnavailableError(service=Service.DELETION), 503, "deletion_unfinished"),
        (UnavailableError("3 imported", service=Service.IMPORT), 503, "import_unfinished"),
        (UnavailableError("store: x", service=Service.MAINTENANCE), 503, "maintenance_failed"),
        (LockLostError(CANARY), 503, "lock_lost"),
        (UnavailableError(CANARY, service=Service.STATE), 503, "state_unavailable"),
        (StoreUnavailableError(CANARY, disk_full=True), 503, "store_unavailable"),
        (UnavailableError(CANARY, service=Service.EMBEDDING), 503, "embedding_unavailable"),
        (TurnLogError(CANARY), 503, "turn_log_unavailable"),
        (UnavailableError(CANARY, service=Service.REDIS), 500, "internal_error"),
        (BodyError(CANARY), 500, "internal_error"),
        (ValueError(CANARY), 500, "internal_error"),
    ],
)
def test_the_api_answers_without_what_a_part_said(error: Exception, status: int, code: str) -> None:
    answer = http_answer(error)
    assert (answer.status, answer.code) == (status, code)
    assert CANARY not in answer.message


def test_the_caller_is_told_what_is_wrong_with_the_request() -> None:
    assert http_answer(InvalidRequestError("is too long", field="query")) == HttpAnswer(
        HTTPStatus.BAD_REQUEST, "invalid_value", "is too long", "query"
    )
    assert http_answer(NotFoundError("only users have settings", kind="settings")) == HttpAnswer(
        HTTPStatus.NOT_FOUND, "settings_not_found", "only users have settings"
    )
