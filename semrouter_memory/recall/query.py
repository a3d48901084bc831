"""The question of a request, the texts that it is searched with, and whether it is worth a search. Pure.

Strategy of `decide`: a search too many costs a millisecond, a search too few loses the memory the user asked for. So only a clear
case is skipped, and whatever looks personal overrides the fact signal, which is made for general knowledge and calls
"What is my budget?" a fact as well.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import cached_property
from itertools import islice

from semrouter_memory.language.frames import is_returned, speaker_chars, unframed
from semrouter_memory.language.phrases import begins, pattern, phrases
from semrouter_memory.language.scripts import CJK, in_form, simplified
from semrouter_memory.language.sentences import asks, is_courtesy, is_greeting, orders, sentences
from semrouter_memory.language.third_person import is_personal
from semrouter_memory.language.words import content_words, tokens
from semrouter_memory.model import Message, Reason, Role, Signals

HISTORY_MESSAGES = 3
_MAX_SHORT_CHARS = 20
_MAX_ASKING_CHARS = 300
"""A longer message holds more than what it asks: a pasted text, or the story that leads to the question."""
_INTRODUCES = (":", "：")
_SPEAKS = pattern(r"(?m)^[ \t]*(?:(human|user|用户)|ai|assistant|助手)[ \t]*[:：]")
"""Before what each says in a conversation that is written out in one message."""
_MAX_TERMS = 24
_CONTEXT_MESSAGES = 2
_NAMED_MESSAGES = 6
"""Where each of the user's messages among so many begins with a name, a client wrote it."""
SHOWN_MESSAGES = 6
"""Of a conversation, to a model that rewrites the question."""
_CONTEXT_CHARS = 700
"""A model reads about a thousand characters, and the question stands behind its context."""
_MESSAGE_CHARS = {Role.USER: 300, Role.ASSISTANT: 150}
"""Of each message. An answer begins with what it is about, and goes on with what the user never said."""
_PER_CHINESE = 3
"""A Chinese character says about as much as three letters, and is a token to most models."""
# A pasted document is not what a conversation is about; its beginning says enough.
_MAX_TERM_SOURCE_CHARS = 600

_MOST_POINTING_CONTENT = 3
"""A query with more content words than this says enough, whatever it points at."""

MAX_GREETING_CHARS = 20


@dataclass(frozen=True, eq=False, kw_only=True)
class Query:
    """A question with its conversation. Each property is computed once, when it is first needed.

    Attributes:
        text: the last user message, without a client's frame, bounded; in simplified characters, if Chinese. Of a conversation that is written out in it, the last one.
        history: the conversation before it, oldest first; of a long one what is read of it.
        now: when it is asked.
        max_chars: bound on every text that is searched with.
        likely_answer: what a model made up as an answer. It is searched with; what is wanted is still what the text asks for.
    """

    text: str
    now: datetime
    max_chars: int
    history: Sequence[Message] = ()
    likely_answer: str = ""

    def __post_init__(self) -> None:
        said, history = _last_said(unframed(self.text), self.history)
        object.__setattr__(self, "history", _recent(history))
        users = [message.text for message in map(_own, self.history[-_NAMED_MESSAGES:]) if message.role is Role.USER]
        text, before = written_out(ends_of(said[speaker_chars([*users, said]) :], self.max_chars))
        object.__setattr__(self, "text", simplified(text))
        object.__setattr__(self, "history", (*map(_own, self.history), *before))
        object.__setattr__(self, "likely_answer", simplified(self.likely_answer))

    @cached_property
    def asked(self) -> str:
        """What the text asks, without what is pasted. What is wanted is told by it alone: a pasted mail says "my", too."""
        return asked_in(self.text)

    @cached_property
    def today(self) -> date | None:
        """The day by UTC's calendar, where what is asked reckons with it ("how long ago", "next Friday")."""
        return self.now.astimezone(UTC).date() if phrases("reckons_with_today").occur_in(self.asked) else None

    @property
    def is_long(self) -> bool:
        """Whether the text holds more than what it asks."""
        return _is_long(self.text)

    @cached_property
    def line(self) -> str:
        """The text to search with, bounded and on one line."""
        if self.likely_answer:
            return on_one_line(self.likely_answer, self.max_chars)
        return _asked_first(self.text, self.asked, self.max_chars)

    @cached_property
    def is_vague(self) -> bool:
        return is_vague(self.line)

    @cached_property
    def is_personal(self) -> bool:
        return is_personal(self.asked)

    @cached_property
    def follows_up(self) -> bool:
        """Whether the text continues the conversation: "How much?" after a flight was talked about."""
        return bool(self.history) and (is_vague(self.text) if self.likely_answer else self.is_vague)

    @cached_property
    def search_text(self) -> str:
        """The text whose meaning is searched for: of a vague question, with the two messages before it.

        With more of them where the last user message is vague as well, for then the two do not say what it is about. The
        question's own words come last and stay.
        """
        if not (self.history and self.is_vague):
            return self.line
        before = " ".join(_beginning(message) for message in _context(self.history))
        left = min(self.max_chars - len(self.line) - 1, _letters(before, _CONTEXT_CHARS))
        return f"{before[-left:]} {self.line}" if before and left > 0 else self.line

    @cached_property
    def search_words(self) -> str:
        """The text whose words are searched for: of a vague question, with the key terms of what was asked before."""
        terms = key_terms(self.history) if self.is_vague else ()
        return (f"{self.line} {' '.join(terms)}" if terms else self.line)[: self.max_chars]

    @cached_property
    def stands_alone(self) -> bool:
        """Whether what is searched for is what was said, and nothing else."""
        return self.search_text == self.said

    @property
    def said(self) -> str:
        """What is asked alone, to embed: "Thanks, that's all" is small talk, whatever was talked about before."""
        return on_one_line(self.asked, None)[: self.max_chars]


def _last_said(text: str, history: Sequence[Message]) -> tuple[str, Sequence[Message]]:
    """What the user said last, and what came before; a framework may send what its tools return as the user's messages."""
    while is_returned(text):
        users = (at for at in reversed(range(len(history))) if history[at].role is Role.USER)
        if (place := next(users, None)) is None:
            break
        text, history = unframed(history[place].text), history[:place]
    return text, history


def _recent(history: Sequence[Message]) -> Sequence[Message]:
    """What is read of it: since the first of the last user messages, and no less than a model is shown."""
    users = (at for at in reversed(range(len(history))) if history[at].role is Role.USER)
    first = next(islice(users, HISTORY_MESSAGES - 1, None), 0)
    return history[max(min(first, len(history) - SHOWN_MESSAGES), 0) :]


def _own(message: Message) -> Message:
    """The message; of a user's the part that the user wrote."""
    own = unframed(message.text) if message.role is Role.USER else message.text
    return message if own == message.text else replace(message, text=own)


def ends_of(text: str, max_chars: int) -> str:
    """The text; of a longer one its beginning and its end, where what is asked of a pasted text stands."""
    half = (max_chars - 1) // 2
    return text if len(text) <= max_chars else f"{text[:half]}\n{text[-half:]}"


def written_out(text: str) -> tuple[str, tuple[Message, ...]]:
    """The text, or the last message of a conversation that is written out in it, and the messages before.

    Where the assistant ends the conversation, the text is what stands before it ("Find a title for this conversation:").
    """
    spoken = [*_SPEAKS.finditer(text)]
    roles = [Role.USER if each[1] else Role.ASSISTANT for each in spoken]
    if len({*roles}) < len(Role):
        return text, ()
    ends = (*(each.start() for each in spoken[1:]), len(text))
    texts = (text[each.end() : end].strip() for each, end in zip(spoken, ends, strict=True))
    # "Assistant:" at the end waits for the answer.
    messages = [Message(role, said) for role, said in zip(roles, texts, strict=True) if said]
    if messages and messages[-1].role is Role.USER:
        return messages[-1].text, tuple(messages[:-1])
    return text[: spoken[0].start()].strip() or text, ()


def asked_in(text: str) -> str:
    """What a message asks, without courtesies.

    Of a long one its first or its last paragraph, and both where neither has the form of it alone.
    """
    if _is_long(text):
        ends = (_paragraph(text, 0), _paragraph(text, -1))
        text = "\n".join([each for each in ends if _asks(each)] or ends)
    rest = _without_courtesies(text) if len(sentences(text)) > 1 else text
    return rest if 0 < len(rest) < len(text.strip()) else text


def line_of(text: str, max_chars: int) -> str:
    """What a message asks on one line, bounded, and the rest of a long one behind it: a model reads the beginning alone."""
    text = ends_of(unframed(text), max_chars)
    return _asked_first(text, asked_in(text), max_chars)


def _asked_first(text: str, asked: str, max_chars: int) -> str:
    return on_one_line(f"{asked}\n{text}" if _is_long(text) else asked, None)[:max_chars]


def _is_long(text: str) -> bool:
    return len(text) > _MAX_ASKING_CHARS


def _paragraph(text: str, at: int) -> str:
    """The first or the last paragraph that says something; where that is long, the outermost line or sentence."""
    for pieces in (text.split("\n\n"), text.splitlines(), sentences(text)):
        inwards = reversed(pieces) if at else pieces
        outermost = next((each for each in inwards if len(each) > _MAX_ASKING_CHARS or _without_courtesies(each)), "")
        if 0 < len(outermost) <= _MAX_ASKING_CHARS:
            return outermost.strip()
    return text[-_MAX_ASKING_CHARS:] if at else text[:_MAX_ASKING_CHARS]


def _without_courtesies(text: str) -> str:
    return "".join(each for each in sentences(text) if not is_courtesy(each)).strip()


def _asks(paragraph: str) -> bool:
    return paragraph.endswith(_INTRODUCES) or any(asks(each) or orders(each) for each in sentences(paragraph))


def is_vague(query: str) -> bool:
    """Whether the query may refer to something that only the conversation names.

    A short question about the user's own ("What's my budget?") is not vague: what was talked about before would only
    lead away from it.
    """
    if begins(tokens(query), phrases("follow_ups"), phrases("follow_up_fillers")):
        return True
    content = content_words(query)
    if not content or (len(content) <= _MOST_POINTING_CONTENT and phrases("pointers").occur_in(query)):
        return True
    return _is_short(query) and not is_personal(query)


def _is_short(query: str) -> bool:
    text = query.strip()
    return len(text) + (_PER_CHINESE - 1) * len(CJK.findall(text)) <= _MAX_SHORT_CHARS


def _context(history: Sequence[Message]) -> Sequence[Message]:
    """The last messages from the one that says what they are about, two at least."""
    asked = [at for at, message in enumerate(history) if message.role is Role.USER][-HISTORY_MESSAGES:]
    clear = (at for at in reversed(asked) if not is_vague(history[at].text[:_MAX_TERM_SOURCE_CHARS]))
    return history[max(min(next(clear, len(history)), len(history) - _CONTEXT_MESSAGES), 0) :]


def _beginning(message: Message) -> str:
    most = _MESSAGE_CHARS[message.role]
    return on_one_line(message.text, _letters(message.text[:most], most))


def _letters(text: str, count: int) -> int:
    """How many characters of the text count as so many letters."""
    return count // _PER_CHINESE if CJK.search(text) else count


def key_terms(history: Sequence[Message]) -> list[str]:
    """What the last user messages were about: their content words in order, each once, the latest ones when there are many."""
    asked = [message.text for message in history if message.role is Role.USER][-HISTORY_MESSAGES:]
    terms = [word for text in asked for word in content_words(text[:_MAX_TERM_SOURCE_CHARS])]
    return list(dict.fromkeys(terms))[-_MAX_TERMS:]


def on_one_line(text: str, max_chars: int | None) -> str:
    """The beginning of a text, without its breaks."""
    return " ".join(text[:max_chars].split())


def decide(query: Query, signals: Signals, *, any_message: bool = False) -> Reason | None:
    """Why not to search; None: search.

    Args:
        signals: what upstream classifiers said of the request.
        any_message: search for a greeting and for an empty message, too.
    """
    if signals.is_fact and not query.is_personal:
        return Reason.FACT
    if signals.requires_tool:
        return Reason.TOOL
    if any_message:
        return None
    if not query.text.strip():
        return Reason.NO_QUERY
    is_short = len(query.text.strip()) <= MAX_GREETING_CHARS
    return Reason.GREETING if is_short and is_greeting(in_form("NFKC", query.text)) else None
