"""Whether a request is worth a search of the memory. Pure.

Strategy: a search too many costs a millisecond, a search too few loses the memory the user asked for. So only a clear
case is skipped, and whatever looks personal overrides the fact signal, which is made for general knowledge and calls
"What is my budget?" a fact as well.
"""

import re
import unicodedata

from semrouter_memory.language.third_person import is_personal
from semrouter_memory.model import Decision, Reason, Signals

MAX_GREETING_CHARS = 20

_GREETING = re.compile(
    r"""
    (?: \b(?: hi+ | hello | hey+ | howdy | hiya | yo | greetings
            | good\s(?:morning|afternoon|evening|night|day) | morning | evening
            | thanks | thank\syou | thank\su | thx | ty | cheers | much\sappreciated
            | bye(?:\sbye)? | goodbye | good\sbye | see\s(?:you|ya) | cya | later | take\scare
            | ok | okay | k | sure | yes | yep | yeah | no | nope | cool | great | nice | perfect | welcome | please
            | there | again | all | everyone | so\smuch | very\smuch | a\slot | soon | tomorrow )\b
      | 你好 | 您好 | 大家好 | 嗨 | 哈喽 | 哈啰 | 哈罗 | 喂 | 在吗 | 在么 | 早上好 | 早安 | 早 | 上午好 | 中午好 | 下午好 | 晚上好 | 晚安
      | 谢谢 | 謝謝 | 多谢 | 多謝 | 感谢 | 谢啦 | 谢了 | 辛苦了 | 麻烦了 | 不客气 | 再见 | 再見 | 拜拜 | 回头见 | 明天见 | 下次见
      | 好的 | 好吧 | 好 | 嗯 | 行 | 可以 | 是的 | 是 | 对 | 不 | 不是 | 不用 | 没有 | 收到 | 明白 | 知道 | 没问题
      | 你们 | 你 | 您 | 大家 | 啊 | 呀 | 哦 | 哈 | 啦 | 了 | 呢 | 吧
    )
    \s*
    """,
    re.VERBOSE,
)


def decide(query: str, signals: Signals, *, without_query: bool = False) -> Decision:
    """Whether to search, and why not.

    Args:
        query: the last user message.
        signals: what upstream classifiers said of the request.
        without_query: search for a greeting and for an empty message, too.
    """
    if signals.is_fact and not is_personal(query):
        return Decision(search=False, reason=Reason.FACT)
    if signals.requires_tool:
        return Decision(search=False, reason=Reason.TOOL)
    if without_query:
        return Decision(search=True, reason=Reason.SEARCH)
    if not query.strip():
        return Decision(search=False, reason=Reason.NO_QUERY)
    if is_greeting(query):
        return Decision(search=False, reason=Reason.GREETING)
    return Decision(search=True, reason=Reason.SEARCH)


def is_greeting(query: str) -> bool:
    """Whether the text is a greeting, thanks or a bare yes or no, and nothing else."""
    if len(query.strip()) > MAX_GREETING_CHARS:
        return False
    # Full-width letters and punctuation become plain; then punctuation and emoji are as good as spaces.
    plain = unicodedata.normalize("NFKC", query).casefold()
    text = "".join(char if char.isalnum() else " " for char in plain).split()
    return not _GREETING.sub("", " ".join(text)).strip()
