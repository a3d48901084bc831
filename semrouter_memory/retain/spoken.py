"""What of a session's turns the users say as themselves, and do not take back. Pure.

Strategy: what is not the user's own text is cut from a message by its layout. Two things only the turns around it
tell: a role-play lasts until the user ends it, and "scratch that" withdraws the message before.
"""

import re
from collections.abc import Sequence

from semrouter_memory.language.own_text import own_text
from semrouter_memory.model import LoggedTurn

_ROLE_PLAY = re.compile(
    r"\b(?:role-?\s?play\w*|in character|pretend|act as|let(?:'s|s| us) (?:play|practi[sc]e|rehearse|simulate|pretend)|mock interview"
    r"|play the (?:role|part)|text adventure|dungeon master|you(?:'re| are) (?:now (?:an? |the |my )?[a-z]|(?-i:[A-ZÀ-Þ])[\w'-]+\s?[.,!]))"
    r"|(?:^|\n)[^\S\n]*\*(?!\*)[a-z][^*\n]{3,80}\*|扮演|假装|我们来玩|你现在是|从现在起你是|你来当",
    re.IGNORECASE,
)
"""Words that begin a role-play. The messages after it are the role's, whatever they say."""
_ROLE_PLAY_ENDS = re.compile(
    r"\b(?:(?:back to|in) real(?:ity| life)|irl|for real|real talk|seriously|out of character|enough (?:now|games|of th(?:e|is) (?:game|role))"
    r"|(?:stop|end)(?: of)? (?:the )?(?:role-?\s?play\w*|game|playing|scene|exercise)|(?:game|scene|exercise|practice|role-?\s?play) (?:is )?over"
    r"|ok stop|stop now|that's enough)\b|回到现实|不玩了|说正经的|言归正传",
    re.IGNORECASE,
)
_WITHDRAWS = re.compile(
    r"^\W*(?:(?:no|ok|okay|wait|actually|sorry|please|pls|oh|and)[\s,]+)*(?:(?:do not|don't|dont) (?:remember|save|store|record|keep|note|memori[sz]e)"
    r" (?:that|this|it|what I (?:just )?(?:said|told))|forget (?:that|what I (?:just )?(?:said|told)|I said)|scratch that|strike that"
    r"|(?:just|only) (?:kidding|joking|testing|a test)|jk\b|i was (?:just |only )?(?:kidding|joking)|that was (?:just )?a joke)"
    r"|^(?:刚才(?:说的|是)?)?(?:开玩笑|逗你)|^(?:别|不要)记(?:住)?(?:这个|刚才)?",
    re.IGNORECASE,
)
"""As in "scratch that, forget what I just said"."""


def spoken(turns: Sequence[LoggedTurn]) -> list[str]:
    """What of each turn, oldest first, the user says as themselves; "" where nothing is, or the next turn withdraws it."""
    found: list[str] = []
    playing = False
    for turn in turns:
        message = turn.user_text
        if found and withdraws(message):
            found[-1] = ""
        ends = bool(_ROLE_PLAY_ENDS.search(message))
        playing = playing and not ends
        own = "" if playing else own_text(message)
        begins = _ROLE_PLAY.search(own)
        found.append(own[: begins.start()] if begins else own)
        playing = playing or (not ends and bool(_ROLE_PLAY.search(message)))
    return found


def withdraws(message: str) -> bool:
    """Whether the message takes back what was said before it."""
    return bool(_WITHDRAWS.search(message))
