"""Numbers of a text, whatever way they are written in."""

import pytest

from semrouter_memory.language.values import split, values


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a budget of $10K, or 10,000 dollars", {"money:10000"}),
        ("2万元", {"money:20000"}),
        ("房租五千元", {"money:5000"}),
        ("工资一万二", {"num:12000"}),
        ("预算是1万5", {"num:15000"}),
        ("房租四千八一个月", {"num:4800", "month:1"}),
        ("旺季五百八一晚，一千零二十四", {"num:580", "num:1024"}),
        ("通过率百分之七十二，退货百分之三点五", {"percent:72", "percent:3.5"}),
        ("豆浆三块二，油条四块五毛", {"money:3.2", "money:4.5"}),
        ("两块三明治", {"money:2"}),
        ("总价三百八十万", {"num:3800000"}),
        ("年会在正月初十，腊月二十三祭灶", {"date:0110", "date:1223"}),
        ("三月一直下雨", {"month:03"}),
        ("预算是1万5千美元", {"money:15000"}),
        ("房租5千5百块", {"money:5500"}),
        ("存了1万，5月份去", {"num:10000", "month:05"}),
        ("on 2026-05-03", {"date:0503", "year:2026"}),
        ("on May 3, 2026", {"date:0503", "year:2026"}),
        ("the 3rd of May 2026", {"date:0503", "year:2026"}),
        ("she may come in 3 days", {"day:3"}),
        ("in May", {"month:05"}),
        ("周三下午三点", {"day:wed", "time:1500"}),
        ("Wednesday at 3 pm", {"day:wed", "time:1500"}),
        ("1.80 m", {"cm:180"}),
        ("180 cm", {"cm:180"}),
        ("twenty-five people", {"num:25"}),
        ("29 years old", {"age:29"}),
        ("User turned 29", {"age:29"}),
        ("体重70公斤", {"kg:70"}),
        ("the second floor", {"ordinal:2"}),
        ("+44 7700 900123", {"phone:447700900123"}),
        ("vitamin B12", set()),
        ("2026-05-20T07:30:00Z", {"date:0520", "year:2026", "time:0730"}),
        ("bring two old colleagues", {"num:2"}),
        ("the hearing is at 8:00, 12 of us come", {"time:0800", "num:12"}),
        ("21, 10, 8,5 and 1,200", {"num:21", "num:10", "num:8", "num:5", "num:1200"}),
        ("card 5500-0000-0000-0004", {"phone:5500000000000004"}),
        ("pay $ 45-rent@example.com", {"address:45-rent@example.com"}),
    ],
)
def test_a_value_has_one_spelling(text: str, expected: set[str]) -> None:
    assert values(text) == expected


def test_what_is_no_value_is_left() -> None:
    assert split("Rent: €900 at Café Nord")[1].split() == ["rent:", "at", "cafe", "nord"]
