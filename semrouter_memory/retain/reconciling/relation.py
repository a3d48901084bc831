"""The ways in which a later statement can stand to an earlier one. Pure."""

from enum import StrEnum


class Relation(StrEnum):
    """How a later statement stands to an earlier one."""

    SAME = "same_statement"
    COVERED = "already_known"
    """The later says less than the earlier."""
    REFINES = "more_detail"
    REPLACES = "same_attribute_new_value"
    REPLACES_ONE = "shorter_name_new_value"
    """The same, where the later names the attribute in fewer words, and so may mean only one of several."""
    CONTRADICTS = "contradiction"
    PARTLY = "contradicts_a_part"
    DISTINCT = "distinct"
