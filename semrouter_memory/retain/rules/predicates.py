"""Whether a predicate of "I" or "we" says something lasting. Contractions are written out, the verb is in the base form."""

import re

from semrouter_memory.retain.rules import lexicon as lex
from semrouter_memory.retain.rules.conditions import lasting_word, medicated, without_degree
from semrouter_memory.retain.wordlist import words

_UNREAL = re.compile(
    r"\b(?:if|wish|would|could|should|might|whether|unless|hypothetically|dream(?:t|ed|ing)?)\b", re.IGNORECASE
)
_WOULD_SAY = re.compile(
    r"^would (?:rather|prefer|pay|settle for|go up to|love to (?:visit|learn|move|live|travel)|like to (?:visit|learn|move|become|travel|retire))\b",
    re.IGNORECASE,
)
_TODAYS_TROUBLE = re.compile(
    r"\b(?:errors?|bugs?|exceptions?|crash\w*|stack ?trace|traceback|warnings?|vulnerabilit\w+|(?:npm|pip) install|stuck (?:here|again|at|with)|(?<!by )(?<!bus )(?<!tram )(?<!metro )(?<!tube )line \d+|localhost)\b",
    re.IGNORECASE,
)
_ANAPHORIC = re.compile(
    r"^(?:\w+\s+){1,2}?(?:it(?!\shere\b)|that|this|these|those|them|your|you|u|what|how|one of (?:those|these|them)"
    r"|the (?:first|second|third|last|idea|tone|way|one|other|same|above|following|output|result|error|code)\w*)\b"
    r"|^(?:will|do|cannot|would|did|have|am|are)\s(?:not\s)?(?:\w+\s){1,2}?(?:it\b(?!\shere\b)|(?:this|that|those)(?=$|,|\s(?:then|now|again|anymore|yet|on|at|in|for|with|today|tomorrow)\b))"
    r"|^(?:do|did|have done|cannot|will do|do not do) (?:it|this|that|so)\b|^\w+ (?:something|anything|nothing|some help|help)\b",
    re.IGNORECASE,
)
_A_THING_AT_HAND = re.compile(
    r"^have (?:not )?(?:got )?(?:(?:a|an|some|no|any|the|one|two|another|few|many|several|following|little|quick|small|bit of a|more|"
    r"hard|stupid|simple|strange|weird|bad|good|great|python|pandas|sql|json|csv)\s+)*"
    r"(?:question|problem|issue|doubt|idea|clue|request|feeling|time|trouble|error|bug|look|to\b|task|df|dataframe|list|"
    r"string|array|table|function|code|file|script|class|json|csv|column|regex|query|concern|thing|thought|nothing|fun|"
    r"following|matrix|variable|dataset|data|log|exception|component|loop|text|dictionary|dict|object|suspicion|point|luck|screenshot"
    r"|it|that|this|here|mind|plan|day|one)s?\b",
    re.IGNORECASE,
)
_NAMED_PLACE = re.compile(
    r"^(?:in|from|at|near|with|based in|originally from)\s+(?:the\s+)?([A-ZÀ-Þ][\w'’-]+|[a-z]+ [A-Z]\w+)"
)
_NUMBERED_AGE = re.compile(r"^(?:almost |nearly |turning )?\d{1,3}(?:\s+years?\s+old)?(?:\s+and\b.*|\s*,.*)?$")
_ARTICLE = re.compile(
    r"^(?:an?|the|one of|part of|in charge of|allergic|originally)\s+(?!bit\b|little\b|tad\b|lot\b|few\b|huge fan of (?:it|that|this)|fan of (?:it|that|this)|same|first to|one who|idiot|mess|wreck)"
)
_FEAR = re.compile(
    r"^(?:scared|afraid|terrified|fond|proud owner|good|bad|terrible|great) (?:of|at) (?!it\b|that\b|this\b|you|them\b|him\b|those\b|these\b)\w"
)
_REGIME = re.compile(
    r"^(?:on|off)\s+(?:(?:a|an|the)\s+)?[\w-]+(?:\s+[\w-]+)?\s*(?:diet|medication|meds|pill|(?<!page )(?<!step )(?<!line )(?<!chapter )(?<!level )(?<!day )\d+)|^on (?:call|[A-Z]\w+|parental|maternity|sick leave|insulin|metformin|statins|[a-z]*bsd\b|[a-z]*linux\b|windows|macos|ubuntu|debian|fedora|arch|nixos|android|ios|iphone)"
)
_INTEREST = re.compile(
    r"^(?:really |very |also )?(?:into|interested in|passionate about|responsible for|used to|new to|obsessed with)\s+(?!this|that|it|the\b|seeing|knowing|hearing|your)\w"
)
_LIMIT = re.compile(
    r"^(?:at (?:least|most)|under|over|max(?:imum)?|no more than|less than|more than|between|up to|only)\s+[\w€$£¥]*\d",
    re.IGNORECASE,
)
_OWN_BUSINESS = re.compile(
    r"^run (?:an?|my|our) (?:[\w-]+ ){0,3}?(?:business|company|shop|store|bakery|cafe|café|restaurant|farm|studio|agency|start-?up|club"
    r"|practice|clinic|school|blog|newsletter|podcast|channel|team|bar|salon|gym|hotel|charity|workshop|kindergarten)\b",
    re.IGNORECASE,
)
_BETWEEN_US = re.compile(r"\b(?:you|your|yours|each other|one another)\b", re.IGNORECASE)
"""Said to or about the one who is spoken to."""
_SOFTENERS = words("not really even usually ever")
_OF_A_LIFE = re.compile(
    r"\b(?:in (?:high )?(?:school|college|uni|university|the army|the navy)|as an? (?:kid|child|teen\w*|student)|for years|back then|growing up|all my life)\b",
    re.IGNORECASE,
)
_COMING_AND_GOING = words("leave move return arrive fly start finish open close celebrate expect")
_TURNS = ("used to ", "got married", "had surgery", "gave up", "stopped drinking", "stopped smoking", "stopped eating")
"""Past events that changed a life, whatever they name."""
_VAGUE = words("time to you it that any much the a")
_HOLLOW = words(
    "the that this these those them they you your all any some every thing things something anything everything nothing"
    " now here there too also just very much more most many lot lots bit one ones way time again still yet then with"
    " for from and but not out about into over off what how why when who where so"
)
"""Words that name no thing."""
AT_HAND = re.compile(
    r"\b(?:functions?|methods?|classes|variables?|arrays?|strings?|columns?|rows?|tables?|lists?|loops?|values?|inputs?|outputs?|buttons?"
    r"|files?|scripts?|code|quer(?:y|ies)|requests?|responses?|errors?|commands?|lines?|paragraphs?|sentences?|texts?|words?|essay|poem"
    r"|story|summary|explanation|answers?|questions?|examples?|suggestions?|ideas?|advice|tips|help|recommendations?)\b",
    re.IGNORECASE,
)
"""What a task at hand is about: wishes and doings around these end with it."""
_IN_A_STAGE = re.compile(
    r"^in (?:my|our|the|an?) (?:(?:first|second|third|fourth|fifth|sixth|final|last|early|mid|late|\d+(?:st|nd|rd|th))\W(?:\w+ )?"
    r"(?:year|term|semester|trimester|twenties|thirties|forties|fifties|sixties)|(?:\w+ )?(?:band|choir|team|club|relationship|wheelchair))\b"
    r"|^in (?:year|grade|class|charge)\b",
    re.IGNORECASE,
)
_BOUND = re.compile(
    r"^(?:stuck|limited|restricted|locked|tied|bound|confined|addicted|sensitive|prone|married|engaged)\s+(?:on|to|in|into|with)\s\w"
)
_WANTED = re.compile(
    r"^(?:an?|some|new|something|somewhere|someone|only|no|two|three|\d+)\s.*\b(?:with|without|near|under|for|by|in|that|from|to|at|before|until)\b",
    re.IGNORECASE,
)
_GETS = re.compile(
    r"^get (?:\w+ )*(?:\w*sick(?:ness)?|migraines?|headaches?|heartburn|seizures?|rash(?:es)?|hives|anxious|dizzy|cramps|nosebleeds|bored|distracted|sunburn\w*)\b",
    re.IGNORECASE,
)
_KNOWING = re.compile(
    r"^know (?:how to \w+|[\w.+#-]+(?: and [\w.+#-]+)? (?:well|very well|inside out|by heart)|(?:some|a (?:bit|little)(?: of)?|no|basic) [\w.+#-]+)\b(?!.*\b(?:about|that|this|it)\b)"
)
_PRICED = re.compile(r"^(?:ask|charge|take|get|make|pay) (?:about |around )?[€$£¥]?\d\S*(?: \w+)? (?:per|each|an?)\b")
_MEASURED = re.compile(
    r"^(?:about |around |only )?(?:\d[.,]\d+\s?m?|\d[\d.,]*\s?(?:cm|kg|kilos|lbs|pounds|feet|m))(?:\s(?:tall|now|today))?$|^(?:grade|level|stage|size|band|class)\s\S*\d",
    re.IGNORECASE,
)
_HOUSED = re.compile(r"^(?:in|at) (?:an?|my|our) (?:[\w-]+ ){1,4}?(?:in|near|outside|by) (?:the )?[A-ZÀ-Þ]")
_ABSENT = re.compile(
    r"^(?:away|off|back|out|abroad|gone|on (?:holiday|vacation|leave|a trip)|in town|at home)\b(?!.*\b(?:minutes?|mins?|secs?|seconds?|hours?)\b)"
)
_BORN_SO = re.compile(
    r"^(?:colou?r blind|(?:left|right) handed|(?:gluten|dairy|lactose) (?:free|intolerant)|self employed|(?:short|near|far|long) sighted|hard of hearing)\b",
    re.IGNORECASE,
)
_RATED = re.compile(r"^(?:about |around |rated |roughly )*\d[\d.,]*\s(?:on|in|at)\s\w")
_ABILITIES = words("speak play swim drive cook sail ski read ride dance sing program code")
_SO_MANY = re.compile(
    r"^(?:about )?(?:\d+|two|three|four|five|six|seven|eight|nine|ten|twelve) (?:[\w-]+ )?(?:of us|people|guests|adults|families|couples|(?:weeks|months) (?:pregnant|along|old|into)|students|employees|colleagues|kids)\b",
    re.IGNORECASE,
)
_GOING = re.compile(
    r"^(?:go|going|travel|travelling|traveling|fly|flying|move|moving|visit|visiting)\b(?: to)?\s+(?:the\s+|see\s+)?[A-ZÀ-Þ]"
)


def lasts(adverbs: list[str], rest: list[str], *, trusted: bool) -> bool:
    """Whether what "I" do or am is worth remembering."""
    predicate = " ".join(rest)
    if anaphoric(predicate) or (_TODAYS_TROUBLE.search(predicate) and not trusted):
        return False
    if unreal(predicate):
        return bool(_WOULD_SAY.match(predicate))
    if trusted:
        return True
    if _BETWEEN_US.search(predicate) or "all" in adverbs:
        return False
    habitual = any(word.lower() in {"always", "never", "usually", "only", "mostly", "rarely"} for word in adverbs)
    return _predicate_lasts(rest, predicate, habitual=habitual)


def _predicate_lasts(rest: list[str], predicate: str, *, habitual: bool) -> bool:
    verb, after = rest[0].lower(), predicate.partition(" ")[2]
    special = _special(verb, predicate, after)
    return _ordinary(verb, predicate, after, habitual=habitual) if special is None else special


def _special(verb: str, predicate: str, after: str) -> bool | None:
    """The answer for verbs with a grammar of their own, None for all others."""
    if verb in {"am", "are", "was", "were"}:
        return _being(after) if verb in {"am", "are"} else _has_been(after)
    if verb == "have":
        return _having(predicate, after)
    if verb == "cannot" or predicate.startswith(("do not ", "will not ")):
        return _negated(verb, after)
    if verb == "know":
        return bool(_KNOWING.match(predicate))
    if verb == "can" and after.startswith("only "):
        return lex.anchored(after)
    if verb == "can":
        return after.partition(" ")[0].lower() in _ABILITIES
    if verb in {"want", "need", "plan", "hope", "intend", "aim", "will", "must"}:
        return _planned(verb, after)
    return None


def _ordinary(verb: str, predicate: str, after: str, *, habitual: bool) -> bool:
    """How things are, what is done again and again, and what happened and is tied to something."""
    if verb in lex.STATIVE or verb in lex.EVENT_PAST:
        return bool(after)
    if medicated(predicate) and not AT_HAND.search(after):
        return True
    if (lex.OFTEN.search(after) or _PRICED.match(predicate)) and not troubled(after) and not AT_HAND.search(after):
        return True
    anchored = lex.anchored(after)
    if verb in lex.HABITUAL:
        habit = habitual or _GETS.match(predicate) or _OWN_BUSINESS.match(predicate) or lex.HABIT.search(after)
        return bool(habit) or anchored
    if predicate.startswith(_TURNS) or (verb in _COMING_AND_GOING and anchored):
        return True
    if verb in lex.PAST or verb.endswith("ed"):
        return habitual or anchored or bool(_OF_A_LIFE.search(after)) or (verb in lex.LIFE_PAST and substantial(after))
    return (
        verb.replace("-", "").isalpha()
        and verb not in lex.MOMENTARY
        and substantial(after)
        and not AT_HAND.search(after)
    )


def _being(after: str) -> bool:
    """What may follow "I am"."""
    after = without_degree(after)
    after = re.sub(r"^(?:not|also|now|still|currently|originally|just|only|already|a proud|actually)\s+", "", after)
    word = after.split()[0].strip(",.").lower() if after else ""
    if (
        _for_a_while(word, after)
        or _named(after)
        or any(
            pattern.match(after)
            for pattern in (
                _NAMED_PLACE,
                _NUMBERED_AGE,
                _MEASURED,
                _HOUSED,
                _RATED,
                _BORN_SO,
                _ARTICLE,
                _FEAR,
                _REGIME,
                _INTEREST,
            )
        )
    ):
        return True
    if lasting_word(word) or _IN_A_STAGE.match(after):
        return True
    ended = word.endswith("ed") or word == "paid"
    if (_BOUND.match(after) or (ended and word not in lex.PASSING and not troubled(after))) and lex.anchored(after):
        return True
    if _SO_MANY.match(after) or (word in lex.DOING and substantial(after.partition(" ")[2])):
        return not troubled(after)
    if word in {"going", "thinking", "looking", "trying"}:
        return _intending(after)
    if word in {"having", "getting", "using", "doing"} and not AT_HAND.search(after):
        return lex.anchored(after.partition(" ")[2])
    if word in lex.UNDER_WAY or (word.endswith("ing") and word not in lex.PASSING and lex.anchored(after)):
        return not re.match(
            r"\w+ (?:a|an|the|this|some) (?:error|issue|problem|bug|weird|strange)|\w+ (?:it|this|that)\b|getting (?:the|an?|some) ",
            after,
        )
    return False


def _for_a_while(word: str, after: str) -> bool:
    """As in "I am away 3-17 August", "we are trying IVF at the Hestia clinic"."""
    if _ABSENT.match(after):
        return bool(lex.ANCHOR.search(after))
    tries = word == "trying" and re.match(r"trying (?!to\b|it\b|this\b|that\b|out\b)", after)
    return bool(tries) and lex.anchored(after) and not AT_HAND.search(after) and not troubled(after)


def _named(after: str) -> bool:
    """As in "I am Karl", "I am German": one capitalised word; "I am Iron Man" is as likely a joke as a name."""
    words = re.split(r"[\s,]+", after.strip(" ,"))
    return words[0][:1].isupper() and words[0].lower() not in lex.PASSING and not (words[1:] and words[1][:1].isupper())


def _intending(after: str) -> bool:
    """As in "thinking of going to the Azores", "going to move", "looking to buy a house"."""
    if re.match(
        r"looking for (?:(?:a|an|some|new|another|part-time|full-time|bigger|better)\s)*(?:job|work|flat|apartment|house|home|room|position|school)\b",
        after,
    ):
        return True
    verb = re.match(
        r"^(?:going|trying|looking) to (\w+)|^(?:thinking) (?:of|about) (\w+ing)|^going on (?:a|an)?", after
    )
    if re.match(r"going to .*\b(?:on|every)\s\w+days?\b", after):
        return True
    if not verb:
        return bool(_GOING.match(after)) or (
            after.startswith("going to ") and bool(re.match(r"going to (?:the |a )?[A-Z]", after))
        )
    word = verb.group(1) or verb.group(2) or "go"
    planned = word in lex.PLANNED or word in lex.UNDER_WAY or word == "going" or _stem(word) in lex.PLANNED
    return planned and not re.match(r"^\w+ \w+ \w+ (?:it|this|that)\b", after)


def _stem(participle: str) -> str:
    stem = participle.removesuffix("ing")
    return next((verb for verb in (stem, stem + "e", stem[:-1]) if verb in lex.PLANNED), stem)


def _has_been(after: str) -> bool:
    return bool(re.match(r"(?:born|raised|diagnosed|promoted|hired|adopted|laid off|fired|named)\b", after)) or (
        bool(re.match(r"(?:an?|in|at) ", after)) and lex.anchored(after)
    )


def _having(predicate: str, after: str) -> bool:
    """As in "I have two cats", "I have lived here since 2019", not "I have a question"."""
    if _A_THING_AT_HAND.match(predicate):
        return False
    words = after.split()
    if len(words) > 1 and words[0].lower() in {"been", "never", "always", "just", "already", "not", "recently"}:
        words = words[1:]
    verb = words[0].lower() if words else ""
    if verb == "got":
        return True
    if verb in lex.PAST or verb.endswith(("ed", "ing")):
        return verb in lex.EVENT_PAST or verb == "lived" or lex.anchored(after) or after.startswith("been diagnosed")
    return bool(words)


def _negated(verb: str, after: str) -> bool:
    """As in "do not eat meat", "cannot swim"; "cannot find the file" is today's trouble."""
    rest = [word.strip(",.").lower() for word in after.split() if word.lower() not in _SOFTENERS]
    if not rest:
        return False
    if verb == "cannot":
        return rest[0] in lex.CANNOT and "it" not in rest[1:2]
    if rest[0] in lex.STATIVE:
        return True
    if rest[0] == "have":
        return len(rest) > 1 and not _A_THING_AT_HAND.match(" ".join(rest))
    return rest[0] in {"want", "do"} and len(rest) > 1 and (rest[1] not in _VAGUE or lex.anchored(after))


def _planned(verb: str, after: str) -> bool:
    if verb == "want" and _LIMIT.match(after):
        return True
    goal = re.match(r"^to\s+(\w+)", after) or (
        re.match(r"^(?!be (?:there|back|here|right|late))(\w+)", after) if verb in {"will", "must"} else None
    )
    if not goal:
        wanted = verb in {"want", "need"} and not AT_HAND.search(after)
        return wanted and (lex.anchored(after) or bool(_WANTED.match(after)))
    word = goal.group(1).lower()
    if verb in {"will", "must"} and word not in lex.MOMENTARY and (lex.AMOUNT.search(after) or lex.DAY.search(after)):
        return not AT_HAND.search(after) and not troubled(after)
    if verb in {"need", "must", "will"}:
        return lex.anchored(after) and word in (
            lex.PLANNED | {"be", "pick", "attend", "pay", "meet", "submit", "leave", "renew", "turn", "have"}
        )
    planned = word in lex.PLANNED or (word not in lex.MOMENTARY and lex.anchored(after))
    return planned and not re.search(r"\b(?:this|that|it)\b$", after) and not AT_HAND.search(after)


def troubled(text: str) -> bool:
    """Whether it speaks of an error or the like: today's trouble, not how things are."""
    return bool(_TODAYS_TROUBLE.search(text))


def substantial(text: str) -> bool:
    """Whether it names a thing at all, rather than "it all the time"."""
    return any(word not in _HOLLOW for word in re.findall(r"[^\W\d_]{3,}", text.lower()))


def unreal(text: str) -> bool:
    """Conditions, wishes and what might be."""
    return bool(_UNREAL.search(text))


def anaphoric(predicate: str) -> bool:
    """Speaks of "it" or "that one": says nothing outside of its conversation."""
    return bool(_ANAPHORIC.match(predicate))
