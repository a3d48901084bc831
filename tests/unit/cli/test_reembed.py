"""Which collection is copied, and what is said about the outcome."""

import pytest

from semrouter_memory.cli.reembed import _Done, _name, _Request, _say, _source
from semrouter_memory.config import Config, MemoryConfig, MilvusConfig
from semrouter_memory.errors import InvalidRequestError
from semrouter_memory.maintenance.reembed import ReembedReport

HERE = {"old": "mini/384/aa", "older": "mini/384/bb", "new": "bge/384/cc"}


def source_of(asked: str | None, *, configured: str = "new", target: str = "new", here: dict[str, str] = HERE) -> str:
    request = _Request(source=asked, target=target, drop_source=False, yes=False)
    return _source(request, MemoryConfig(milvus=MilvusConfig(collection=configured)), here)


@pytest.mark.parametrize(
    ("asked", "configured", "here", "expected"),
    [
        pytest.param("older", "new", HERE, "older", id="the named one"),
        pytest.param("older", "old", HERE, "older", id="the named one, though another is configured"),
        pytest.param(None, "old", HERE, "old", id="the configured one, when the target is given by hand"),
        pytest.param(None, "new", {"old": "mini", "new": "bge"}, "old", id="the only other one"),
        pytest.param(
            None, "gone", {"old": "mini", "new": "bge"}, "old", id="the only other one, the configured is gone"
        ),
    ],
)
def test_the_source_is_the_one_that_can_be_meant(
    asked: str | None, configured: str, here: dict[str, str], expected: str
) -> None:
    assert source_of(asked, configured=configured, here=here) == expected


@pytest.mark.parametrize(
    ("asked", "here", "message"),
    [
        ("new", HERE, "the same collection"),
        ("nowhere", HERE, r"there is no nowhere; other collections here: old \(mini/384/aa\), older"),
        (None, HERE, r"say which .* --from-collection; others here: old .*, older"),
        (None, {"new": "bge"}, "others here: none"),
    ],
)
def test_a_source_that_cannot_be_told_is_refused_with_what_there_is(
    asked: str | None, here: dict[str, str], message: str
) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        source_of(asked, here=here)


@pytest.mark.parametrize("name", ["1st", "a-b", "a b", "", "käse", "x; drop"])
def test_a_name_that_milvus_cannot_have_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequestError, match="--to-collection"):
        _name(name)


@pytest.mark.parametrize(
    ("report", "said"),
    [
        (ReembedReport(copied=3, memories=3, complete=True), "new holds all 3 memories of old"),
        (ReembedReport(complete=True, buried=2), "2 left out: they were deleted"),
        (ReembedReport(complete=True, newer=2), "2 left as they are: the target has a newer version"),
        (ReembedReport(complete=True, own=2), "2 more in the target"),
        (ReembedReport(failed=2), "2 NOT copied"),
        (ReembedReport(missing=2), "2 copied before are no longer in the source. NOT removed"),
        (ReembedReport(copied=9), "old changes all the time"),
    ],
)
def test_the_outcome_is_said(report: ReembedReport, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """And completeness only where it is so."""
    _say(_Done("old", dropped=False, report=report), "new", Config())
    output = capsys.readouterr().out
    assert said in output
    assert ("holds all" in output) is report.complete is ("next:" in output)
