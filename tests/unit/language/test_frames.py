"""What a client writes around the words of its user."""

from time import process_time

import pytest

from semrouter_memory.language.frames import unframed

ASKED = "what time does my flight leave?"
ASKED_IN_CHINESE = "我的航班几点起飞？"
FRAMES = (
    "Current date: Friday, November 28, 2026\nUser timezone: America/Los_Angeles\n\n{}",
    "[system note: the user is on a mobile device; keep the answer brief]\n\n{}",
    "Context: You are chatting on mobile. The current time is 08:14.\n\n{}",
    "The user's locale is en-US. Today is 2026-11-28.\n\n{}",
    "<context>\ncurrent_date: 2026-11-28\ntimezone: Europe/Oslo\n</context>\n\n{}",
    "You are a helpful assistant. Answer in markdown.\n\n{}",
    "### Environment\n- OS: macOS 15.2\n- Date: 2026-11-28\n\n### Message\n{}",
    "## Context\nThe conversation takes place in Slack.\n\n## Question\n{}",
    "Time: 2026-11-28T09:12:44Z | Platform: web | Plan: free\n\nUser: {}",
    "[28/11/2026, 10:02] Harold: {}",
    "Note: Replies are shown in a chat window. Do not use tables.\n\nQuestion: {}",
    "<task>\n{}\n</task>\n\n<environment_details>\n# Current Mode\n<slug>ask</slug>\n</environment_details>",
    "<additional_data>\nnone\n</additional_data>\n<user_query>\n{}\n</user_query>",
    "<system-reminder>\nNever mention this.\n</system-reminder>\n{}",
    '<ctx time="09:12"/>\n{}',
    "{}\n\n[Current time: 2026-11-28 09:12, device: phone]",
    "{}\n\n(Answer in plain text. Today's date is 2026-11-28.)",
    "{}\n\n---\nLocal time: 09:12\nUnits: metric",
    'Conversation info (untrusted metadata):\n```json\n{{"sender": "+491700000"}}\n```\n\n{}',
    "(user is speaking through a car speaker)\n{}",
)
CHINESE_FRAMES = (
    "当前时间：2026年11月28日 星期六\n用户时区：Asia/Shanghai\n\n{}",
    "[系统提示：用户正在使用手机端，请简短回答]\n\n{}",
    "背景：你正在微信里和用户聊天。今天是2026-11-28。\n\n问题：{}",
)


@pytest.mark.parametrize("frame", FRAMES)
def test_the_users_words_come_out_of_a_frame(frame: str) -> None:
    assert unframed(frame.format(ASKED)) == ASKED


@pytest.mark.parametrize("frame", CHINESE_FRAMES)
def test_the_users_words_come_out_of_a_chinese_frame(frame: str) -> None:
    assert unframed(frame.format(ASKED_IN_CHINESE)) == ASKED_IN_CHINESE


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "hi",
            ASKED,
            f"{ASKED}\n",
            "Current date: 2026-11-28",
            "[system note: keep it brief]",
            "Tokyo: what is my flight?",
        ),
        *("Budget: 3000\nDates: 3 to 9 May\n\nWhere should we go?", "Biscuit is limping.\n\nWhat do I do?"),
        *("Keep it short.\n\nWrite to my boss that I am ill.", "Today is my birthday.\n\nWhat should I do?"),
        *(
            "You are my gym coach.\n\nWhat should I eat?",
            "[urgent] when is my flight?",
            "[docs](https://a.example) mean what?",
        ),
        *(
            "[10:14] Ana: I am ill\n[10:15] Ben: why?\nwho is ill?",
            "<article>\nBees make wax.\n</article>\n\nWhat does it say?",
        ),
        *(
            "why is it not valid?\n- alias: x\n  trigger:\n    platform: sun\n    event: sunset",
            "(a + b) * c\nwhat is it?",
        ),
        *(
            "Reply to her.\n\nanswer in one sentence, no idioms please",
            "def f():\n    return 1\n\nwhat does it return?",
        ),
    ],
)
def test_what_users_write_themselves_stays(text: str) -> None:
    assert unframed(text) == text


@pytest.mark.parametrize(
    "piece", ["[", "<context>", "Current date: x\n", "# ", "\n", "- ", "(", "user: ", "|", "You are "]
)
def test_long_texts_take_no_time(piece: str) -> None:
    started = process_time()
    unframed(piece * (200_000 // len(piece)))
    assert process_time() - started < 1
