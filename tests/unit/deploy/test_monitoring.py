"""The dashboard and the alert rules ask only for what the sidecar exposes, and leave out nothing that matters."""

import re

import pytest

from semrouter_memory.model import AppendOutcome, Reason
from tests.prometheus_files import TARGET_LABELS, Query, dashboard, families, panels, rules, series, shown, watched

_QUERIES = [*shown(), *watched()]
_NAMES = [f"{number}: {query.where}" for number, query in enumerate(_QUERIES)]
_KNOWN_VALUES: dict[tuple[str, str], frozenset[str]] = {
    ("semrouter_memory_recalls_total", "reason"): frozenset(Reason),
    ("semrouter_memory_exchanges_bypassed_total", "reason"): frozenset(Reason),
    ("semrouter_memory_turns_total", "outcome"): frozenset(AppendOutcome),
    ("semrouter_memory_maintenance_runs_total", "outcome"): frozenset({"complete", "incomplete"}),
    ("semrouter_memory_recall_step_seconds_count", "step"): frozenset({"rewrite"}),
}
_FUNCTIONS = frozenset(
    [
        "sum",
        "count",
        "min",
        "max",
        "avg",
        "rate",
        "increase",
        "deriv",
        "absent",
        "histogram_quantile",
        "by",
        "on",
        "unless",
        "and",
        "or",
        "group_left",
        "offset",
        "le",
    ]
)


def depth_of(text: str) -> int:
    """How many brackets stay open; -1 when one closes that was not opened, or another one than was."""
    pairs, open_ = {")": "(", "]": "[", "}": "{"}, []
    for character in re.sub(r'"[^"]*"', "", text):
        if character in pairs.values():
            open_.append(character)
        elif character in pairs and (not open_ or open_.pop() != pairs[character]):
            return -1
    return len(open_)


@pytest.mark.parametrize("query", _QUERIES, ids=_NAMES)
class TestEveryQuery:
    def test_asks_for_metrics_that_exist(self, query: Query) -> None:
        names = [name for name, _ in query.selectors()]
        assert names
        assert set(names) <= set(series())

    def test_selects_by_labels_that_the_metric_has(self, query: Query) -> None:
        for name, matchers in query.selectors():
            assert {label for label, _, _ in matchers} <= series()[name] | TARGET_LABELS

    def test_selects_values_that_the_label_takes(self, query: Query) -> None:
        for name, matchers in query.selectors():
            for label, _, value in matchers:
                if label not in TARGET_LABELS:
                    assert set(value.split("|")) <= _KNOWN_VALUES[(name, label)]

    def test_groups_by_labels_that_its_metrics_have(self, query: Query) -> None:
        for name, _ in query.selectors():
            kept = query.grouped() - {"le"}
            assert kept <= series()[name] | TARGET_LABELS

    def test_shows_only_labels_that_are_left(self, query: Query) -> None:
        """An aggregation keeps what it groups by; without one all labels stay."""
        names = {name for name, _ in query.selectors()}
        all_labels = {label for name in names for label in series()[name]} | TARGET_LABELS
        left = query.grouped() if re.search(r"\b(sum|count|min|max|avg)\b", query.text) else all_labels
        assert query.labels <= left

    def test_is_well_formed(self, query: Query) -> None:
        text = re.sub(r'"[^"]*"', '""', query.text)
        assert depth_of(query.text) == 0
        assert query.text.count('"') % 2 == 0
        for name in re.findall(r"\b([a-z_]+)\s*\(", text):
            assert name in _FUNCTIONS
        assert not re.search(r"[-+*/<>=]\s*$|\(\s*\)", text)

    def test_counters_are_rated_and_gauges_are_not(self, query: Query) -> None:
        """A counter's own value says nothing; of a gauge, rate() makes nonsense."""
        kinds = families()
        for inner, range_ in re.findall(r"(?:rate|increase)\((semrouter_memory_\w+)[^\[]*\[([^\]]+)\]\)", query.text):
            assert inner.endswith(("_total", "_bucket", "_sum", "_count"))
            assert re.fullmatch(r"\d+[smh]|\$__(rate_interval|range)", range_)
        for inner in re.findall(r"deriv\((semrouter_memory_\w+)", query.text):
            assert kinds[inner] == "gauge"


class TestTheDashboard:
    def test_shows_every_metric(self) -> None:
        """Whoever adds a metric gives it a panel."""
        asked = {name for query in shown() for name, _ in query.selectors()}
        ends = ("", "_total", "_bucket", "_sum", "_count")
        missing = {name for name in families() if not asked & {name + end for end in ends}}
        assert missing == set()

    def test_lets_the_reader_choose_data_source_job_and_instance(self) -> None:
        variables = {variable["name"]: variable for variable in dashboard()["templating"]["list"]}
        assert list(variables) == ["datasource", "job", "instance"]
        assert variables["datasource"]["type"] == "datasource"
        for panel in panels():
            assert panel["datasource"]["uid"] == "${datasource}"
            for target in panel["targets"]:
                assert target["datasource"]["uid"] == "${datasource}"

    @pytest.mark.parametrize("query", shown(), ids=lambda query: query.where)
    def test_heeds_the_choice_in_every_query(self, query: Query) -> None:
        for _, matchers in query.selectors():
            assert {("job", "=~", "$job"), ("instance", "=~", "$instance")} <= set(matchers)

    def test_has_panels_that_do_not_overlap(self) -> None:
        taken: set[tuple[int, int]] = set()
        for panel in dashboard()["panels"]:
            place = panel["gridPos"]
            cells = {
                (x, y)
                for x in range(place["x"], place["x"] + place["w"])
                for y in range(place["y"], place["y"] + place["h"])
            }
            assert max(x for x, _ in cells) < 24
            assert not cells & taken, panel["title"]
            taken |= cells

    def test_tells_panels_apart_and_says_what_each_is(self) -> None:
        identifiers = [panel["id"] for panel in dashboard()["panels"]]
        assert len(set(identifiers)) == len(identifiers)
        assert all(panel["title"] and panel["description"] for panel in panels())


class TestTheRules:
    def test_say_what_it_means_and_what_to_do(self) -> None:
        for rule in rules():
            assert rule["labels"]["severity"] in {"critical", "warning"}
            assert len(rule["annotations"]["summary"]) > 20
            assert len(rule["annotations"]["description"]) > 100

    def test_have_names_of_their_own(self) -> None:
        names = [rule["alert"] for rule in rules()]
        assert len(set(names)) == len(names)
        assert all(re.fullmatch(r"SemrouterMemory[A-Za-z]+", name) for name in names)

    def test_watch_what_is_lost_and_what_is_away(self) -> None:
        asked = {name for query in watched() for name, _ in query.selectors()}
        assert asked >= {
            f"semrouter_memory_{name}"
            for name in (
                "turns_dropped_total",
                "dead_letters_total",
                "store_available",
                "model_available",
                "queue_oldest_seconds",
                "exchanges_failed_total",
                "work_failures_total",
                "observer_errors_total",
            )
        }

    def test_notice_the_first_event_of_a_label(self) -> None:
        """A labelled counter begins with its first event, which increase() does not see."""
        for query in watched():
            if re.fullmatch(r"sum by \([^)]*\) \(increase\([^)]*\)\) > 0", query.text):
                assert all(not series()[name] for name, _ in query.selectors())
