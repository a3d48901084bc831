"""What a stretch of conversation is about, as far as the user's own request names it: "a bike", "the Japan trip".

Needed to complete what is said in few words: "max 400" says nothing a week later, "max 400 for a telescope" does.
"""

import re

_TRAVEL = re.compile(
    r"\b(?:trip|travel\w*|going|fly(?:ing)?|visit(?:ing)?|holidays?|vacation|honeymoon|weekend|week|days|hike|hiking|moving|move)\s+"
    r"(?:to|in|around|through|visit)?\s*(?:the\s+)?(?P<place>[A-ZÀ-Þ][\w'’-]+(?:\s[A-ZÀ-Þ][\w'’-]+)?)",
)
_VISIT = re.compile(r"\b(?:visit(?:ing)?|tour(?:ing)?)\s+(?:the\s+)?(?P<place>[A-ZÀ-Þ][\w'’-]+(?:\s[A-ZÀ-Þ][\w'’-]+)?)")
_NAMED_TRIP = re.compile(
    r"\b(?P<place>[A-ZÀ-Þ][\w'’-]+)\s(?P<what>trip|holiday|vacation|tour|honeymoon|hike|visit|wedding|move)\b"
)
_REQUEST = re.compile(
    r"\b(?:plan(?:ning)?|book(?:ing)?|organi[sz](?:e|ing)|choos(?:e|ing)|find(?:ing)?|pick(?:ing)?|buy(?:ing)?|recommend|suggest|need|get(?:ting)?"
    r"|what(?:'s|s| is)(?= (?:an?|the) (?:good|decent|nice|cheap|reliable|best|solid))|looking for|look for|give me|make|create|design|build|sort out|want|shopping for|prepar(?:e|ing)(?: for)?|prep for)\s+(?:me\s+|us\s+)?(?P<what>(?:(?:an?|the|my|our|some|good|new)\s+)+(?:[\w'’-]+\s?){1,4})",
    re.IGNORECASE,
)
_BARE = re.compile(
    r"^(?P<what>[a-z][\w-]+(?:\s[\w-]+){0,2}?)\s+(?:for|ideas|recommendations?|tips|suggestions)\b[^.!?]*\?*$",
    re.IGNORECASE,
)
_END = re.compile(
    r"\s+(?:in|for|to|with|from|that|which|who|please|pls|and|or|on|at|near|under|by|so|as|because|off|this|next|of|around|where|when|if|but|is|are)\b.*$",
    re.IGNORECASE,
)
_DETERMINER = re.compile(
    r"^(?:(?:an?|the|my|our|some|me|us|good|best|nice|cheap|decent|reliable|solid)\s+)+", re.IGNORECASE
)
_NO_TOPIC = re.compile(
    r"\b(?:help|way|ways|list|code|function|script|regex|query|error|bug|file|poem|story|email|letter|essay|paragraph|text|sentence|summary|word"
    r"|quiz|game|riddle|joke|test|use|need|thing|things|stuff|money|sleep|work|home|answer|example|explanation|question|time|idea|ideas|advice|information|info|feel|hint|reminder|chance|sense|rid|bit|lot|few)\b",
    re.IGNORECASE,
)
_REPORTED = re.compile(
    r"\b(?:says|said|tells|told|thinks|suggests|suggested|wants (?:me|us)|asked (?:me|us)|recommends|recommended|keeps saying|not (?:going|moving|flying|travell?ing|visiting|planning))\b[^.!?;\n]*",
    re.IGNORECASE,
)
"""What others say, or what is denied, is nothing that the user is about to do."""
_ASKED = re.compile(r"^(?:which|what|whose|what kind of|any|how many|how much)\s+", re.IGNORECASE)
_MIN_CHARS = 3
_THE = {"week", "weekend", "trip", "wedding", "party", "move", "interview", "exam", "appointment", "day", "holiday"}


def topic_of(text: str) -> str:
    """The topic that these words of the user set, for example "the Japan trip", "a bike"; "" when they set none."""
    text = _REPORTED.sub(" ", text)
    for pattern in (_NAMED_TRIP, _VISIT, _TRAVEL):
        if trip := pattern.search(text):
            what = trip.groupdict().get("what") or "trip"
            return f"the {trip.group('place')} {what}"
    for pattern in (_REQUEST, _BARE):
        if (request := pattern.search(text)) and (what := _noun_phrase(request.group("what"))):
            return what
    return ""


def _noun_phrase(text: str) -> str:
    what = _DETERMINER.sub("", _ASKED.sub("", _END.sub("", text.strip()))).strip(" ,'’-")
    what = re.sub(r"^(?:need|want|get|find)\s", "", what)
    if not what or _NO_TOPIC.search(what) or len(what) < _MIN_CHARS:
        return ""
    article = (
        "the user's" if re.match(r"^(?:my|our)\b", text.strip(), re.IGNORECASE) or what.split()[-1] in _THE else "a"
    )
    if article == "a" and (what.endswith("s") or what[:1].isupper()):
        return what
    return f"{'an' if article == 'a' and what[0].lower() in 'aeiou' else article} {what}"
