"""What an RBAC filter answers to a request of which one header is known. Pure.

Strategy: permissions and principals are trees of the same kind. A leaf that asks for anything but the header is unknown, and what
depends on it counts as neither refused nor let through.
"""

from semrouter_memory.doctor.node import Node, all_of, any_of, regex_matches, text_matches


def refuses(rules: Node, header: str, value: str) -> bool:
    """Whether a request with that header surely gets 403."""
    policies = [_matches(policy, header, value) for policy in rules.entries("policies").values()]
    action = rules.get("action").choice(("ALLOW", "DENY", "LOG"))
    refusing = {"DENY": True, "ALLOW": False}
    return bool(rules) and action in refusing and any_of(policies) is refusing[action]


def _matches(policy: Node, header: str, value: str) -> bool | None:
    """One of its permissions, one of its principals, and its condition."""
    trees = [
        any_of([_takes(each, header, value) for each in policy.items(name)]) for name in ("permissions", "principals")
    ]
    conditions = any(policy.get(name) for name in ("condition", "checked_condition"))
    return all_of([*trees, None if conditions else True])


def _takes(tree: Node, header: str, value: str) -> bool | None:
    """Whether a permission or a principal takes the request."""
    for combine, name, parts in (
        (all_of, "and_rules", "rules"),
        (all_of, "and_ids", "ids"),
        (any_of, "or_rules", "rules"),
        (any_of, "or_ids", "ids"),
    ):
        if branch := tree.get(name):
            return combine([_takes(each, header, value) for each in branch.items(parts)])
    for name in ("not_rule", "not_id"):
        if branch := tree.get(name):
            taken = _takes(branch, header, value)
            return None if taken is None else not taken
    return True if tree.get("any").flag else _header_takes(tree.get("header"), header, value)


def _header_takes(matcher: Node, header: str, value: str) -> bool | None:
    if matcher.get("name").text.lower() != header:
        return None
    if old := matcher.get("safe_regex_match"):
        taken = regex_matches(old, value)
    else:
        taken = text_matches(matcher.get("string_match"), value)
    return None if taken is None else taken is not bool(matcher.get("invert_match").flag)
