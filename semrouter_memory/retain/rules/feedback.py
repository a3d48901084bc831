"""Lessons on how to be answered: "too long, bullet points please", "stop apologising", "metric units, always".

Strategy: a wish for the task at hand ("make this paragraph shorter") is no lesson. It becomes one when it is stated as a
habit, or when it criticises the answer before; while a text of the user's is being worked on, criticism is about that.
"""

import re

from semrouter_memory.retain.rules import lexicon as lex
from semrouter_memory.retain.rules.voice import conjugate, expand, third_person

_AS = r"bullet(?:s| ?points?| lists?)|bulleted lists?|numbered lists?|lists|tables|plain text|prose|full sentences|steps|step[- ]by[- ]step(?: instructions| answers)?"
_IN = (
    r"plain english|simple (?:words|language|terms|english)|layman'?s? terms|british (?:english|spelling)|american (?:english|spelling)"
    r"|(?:metric|imperial|si)(?: units| system)?|celsius|fahrenheit|kilomet(?:er|re)s|miles|24[- ]hour (?:time|clock)|short sentences|short paragraphs"
    r"|(?:english|german|french|spanish|italian|portuguese|dutch|polish|turkish|russian|chinese|japanese|korean|swedish|danish|norwegian|finnish|czech|arabic|hindi)"
)
_WITH = r"emojis?|emoticons|markdown|headings?|headlines|jargon|buzzwords|disclaimers|type hints|comments|docstrings|sources|citations|links|references|examples|introductions?|preambles?|caveats|exclamation marks|apologies|filler|fluff|small talk|flattery|tables|bold text"
_SHORT = r"(?:short|shorter|brief|briefer|concise|longer|detailed|direct|simple|simpler|one[- ](?:line|sentence|paragraph))\s(?:answers?|replies|responses?|explanations?)"
_PLEASE = r"(?:\s*,?\s*(?:please|pls|plz|instead|only|thanks|thx|next time|this time|ok))*"
_FORM = re.compile(
    rf"^(?:just |only |rather |i want |i prefer |i'd like |give me |use |answer |reply |write |speak |talk |make it |put it |as |in |with |more |fewer |less |no |without |can (?:you|we) (?:use|have|get) )*?"
    rf"(?:(?P<negative>no (?:more )?|fewer |less |without |drop the |skip the |spare me the |enough with the |cut the )(?P<without>{_WITH})|(?P<as>{_AS})|(?P<in>{_IN})|(?P<with>{_WITH})|(?P<short>{_SHORT})){_PLEASE}$",
    re.IGNORECASE,
)
_TOO = re.compile(
    r"^(?:(?:that|this|it|your (?:last )?(?:answers?|repl(?:y|ies)|responses?|explanations?)|the (?:answers?|repl(?:y|ies)|responses?|explanations?)|you)"
    r"(?: (?:is|was|are|were|write|talk|sound))*\s+)?(?:(?:still|way|far|much|a bit|a little|kind of|kinda|really|again)\s+)*"
    r"too\s+(?P<how>long|short|verbose|wordy|technical|complicated|complex|formal|informal|vague|generic|detailed|brief|chatty|academic|abstract|dry|salesy|enthusiastic|polite|condensed"
    r"|much (?:text|information|detail|jargon|fluff|to read)|many (?:words|emojis|details|caveats|disclaimers|bullet points|exclamation marks))\b(?:\s+(?:for me|again))*$",
    re.IGNORECASE,
)
_LENGTH = re.compile(r"^(?:long|short|detailed|brief|complicated)$", re.IGNORECASE)
_SHORTER = re.compile(
    rf"^(?:(?:a bit|much|keep it|make it|be|be more|answer|even|way)\s+)*(?P<how>shorter|short|briefer|concise|more concise|brief|simpler|more direct|less formal|less verbose|more detail(?:ed)?|less technical|to the point){_PLEASE}$",
    re.IGNORECASE,
)
_BEHAVIOUR = (
    r"apologi[sz]\w*|say\w*|repeat\w*|prais\w*|lectur\w*|moraliz\w*|moralis\w*|us(?:e|ing)|giv(?:e|ing)|add\w*|ask\w*|start\w*|end\w*|explain\w*|summari[sz]\w*|mention\w*"
    r"|call\w*|suggest\w*|recommend\w*|includ\w*|prefac\w*|address\w*|be|being|hedg\w*|flatter\w*|writ\w*|put\w*|answer\w*|respond\w*|reply\w*|agree\w*|assum\w*|tell\w*|show\w*|guess\w*|mak(?:e|ing) up"
)
_STOP = re.compile(
    rf"^(?:please\s+|pls\s+|can you\s+|could you\s+|just\s+)*(?:stop|quit)\s+(?P<doing>(?:{_BEHAVIOUR})\b.*)$",
    re.IGNORECASE,
)
_NO_NEED = re.compile(
    rf"^(?:you|u) (?:do not|don't|dont) (?:need|have) to (?P<doing>(?:{_BEHAVIOUR})\b.*)$", re.IGNORECASE
)
_DO_NOT = re.compile(
    rf"^(?:please\s+)?(?:don't|do not|dont)\s+(?P<doing>(?:{_BEHAVIOUR})\b.*?),?\s+(?:ever again|again|any ?more|in (?:the )?future|all the time|every time|so (?:much|often))\W*$",
    re.IGNORECASE,
)
_HABIT = re.compile(
    r"^(?:please\s+)?(?P<wish>(?:use|add|give|answer|reply|respond|write|explain|keep|show|format|include|put|call|address|speak|start|end|cite|be)\b.{2,}?),?\s+"
    r"(?:please\s*,?\s*)?(?:always|every time|each time|in general|as a rule|by default|next time|(?:only )?in (?:every|all|your|the|any) (?:answers?|repl(?:y|ies)|examples|code)|only in (?:examples|answers|code)|whenever you answer)\W*$",
    re.IGNORECASE,
)
_THINGS = re.compile(
    r"^(?:please\s+)?(?P<wish>(?:explain|describe|teach|tell|show)\s(?:me\s)?(?:things|stuff|everything|concepts|such things|it all)\b.{3,})$",
    re.IGNORECASE,
)
_KEEPS = re.compile(
    rf"^(?:you|u) (?:keep|always|constantly) (?P<doing>(?:{_BEHAVIOUR})\b[^,;]*?)(?:,?\s(?:stop (?:it|that)|please stop|cut it out|it's annoying|that's annoying))?$",
    re.IGNORECASE,
)
_NOT_CALLED = re.compile(
    r"^(?:please\s+)?(?:don't|do not|dont)\s+(?P<doing>(?:call|address|greet)\s(?:me|us)\b[^,;]{2,60})(?:[,;].*)?$",
    re.IGNORECASE,
)
"""How somebody is addressed is no matter of one answer."""
_UNLESS = re.compile(
    r"(?:^|,\s|\band\s|\bbut\s)(?:please\s|pls\s)?(?P<wish>(?:no|do not (?:\w+\s)+?)\s?[\w' -]{2,40}?\sunless (?:I|we) (?:ask|say so|request|tell)\b(?:\s(?:for (?:it|them|one|that)|you(?: to)?|it))?)$",
    re.IGNORECASE,
)
_WHENEVER = re.compile(
    r"^(?:please\s|pls\s|plz\s)?(?P<wish>[a-z]+\s[^,;?]{2,60}?\s(?:whenever|every time|each time|any time|when ?ever)\s(?:I|we|you)\s[^?]{2,60})$",
    re.IGNORECASE,
)
_NO_ORDER = re.compile(
    r"^(?:I|we|my|our|it|he|she|they|this|that|there|the|an?|you|happens?|works?|fails?|crash\w*|breaks?|get|got)\b",
    re.IGNORECASE,
)
_EVER = re.compile(r"^(?:please\s)?no (?P<what>[\w' -]{3,40}?),? ever$", re.IGNORECASE)
_NEVER_WITH = re.compile(
    rf"^(?:no (?:more )?|without |drop the |skip the |spare me the )(?P<without>{_WITH})(?:\s?(?:please|pls))?(?P<always>,?\s(?:ever|any ?more|at all|in general|always|from now on|in (?:your|the) (?:answers|replies)))?$",
    re.IGNORECASE,
)
_YOUR_ANSWERS = re.compile(
    r"^(?:please |pls )?(?:(?:can|could|would|will) you )?(?:please |pls )?(?:try to )?(?P<do>keep|make|write|give|format|structure) (?:all )?(?:of )?your (?P<what>answers|replies|responses|explanations)(?P<how>\s[^?]{2,80})\??$",
    re.IGNORECASE,
)
_MANNERS = re.compile(
    r"^(?:emoji|emoticon|disclaimer|apolog|filler|fluff|small talk|flattery|jargon|buzzword|preamble|caveat|exclamation)",
    re.IGNORECASE,
)
_UNITS = re.compile(rf"^(?:please\s+)?use\s+(?P<what>{_IN}){_PLEASE}$", re.IGNORECASE)
_MEASURES = re.compile(
    r"^(?:metric|imperial|si|celsius|fahrenheit|kilomet|miles|24|british|american|plain|simple)", re.IGNORECASE
)
_PREFERENCE = re.compile(
    r"^User (?:always |usually |strongly )?(?:prefers|likes|hates|loves|dislikes|wants|needs|cannot stand)\b.*\b(?:answers|replies|responses|explanations|bullet points)\b"
)
_PART = re.compile(r"\s*[,;:–—]\s*|\s+-+\s+|\s+(?:and|but|so)\s+")


def lessons(sentence: str, *, criticism: bool, complained: bool = False) -> list[str]:
    """What a sentence teaches about how to answer, in the third person.

    Args:
        criticism: an answer stands before it that was no text in work, so that a complaint is about how it was given.
        complained: a sentence before this one did complain.
    """
    bare = _bare(sentence)
    if whole := _habit(bare):
        return [whole]
    if not criticism or sentence.rstrip().endswith(("?", "？")):
        return []
    parts = [part for part in (_bare(part) for part in _PART.split(bare)) if part]
    complaints = [too.group("how").lower() for part in parts if (too := _TOO.match(part))]
    wishes = [form for part in parts if (form := _form(part, complained=complained or bool(complaints)))]
    if complaints and not wishes and len(parts) > 1 and _LENGTH.match(complaints[0]):
        # "too long, we only have a week": not the answer is too long.
        return []
    return [*(f"User finds the assistant's answers too {how}" for how in complaints), *wishes]


def is_preference(content: str) -> bool:
    """Whether a statement about the user says how they like to be answered."""
    return bool(_PREFERENCE.match(content))


def _bare(text: str) -> str:
    return lex.TAIL.sub("", lex.LEAD.sub("", text.strip(" .!,;"))).strip(" .!,;")


def _habit(sentence: str) -> str:
    sentence = expand(sentence).rstrip(" ?")
    if manner := _YOUR_ANSWERS.match(sentence):
        return f"User wants the assistant to {manner.group('do')} its {manner.group('what')}{third_person(manner.group('how'))}"
    for pattern in (_STOP, _NO_NEED):
        if found := pattern.match(sentence):
            doing = found.group("doing")
            return f"User wants the assistant {'to stop' if pattern is _STOP else 'not to'} {third_person(doing)}"
    if never := _DO_NOT.match(sentence):
        return f"User wants the assistant never to {third_person(never.group('doing'))}"
    if keeps := _KEEPS.match(sentence):
        return f"User does not like that the assistant {_again(keeps.group('doing'))}"
    if told := _asked_for_all_times(sentence):
        return told
    if (without := _NEVER_WITH.match(sentence)) and (
        without.group("always") or _MANNERS.match(without.group("without"))
    ):
        return f"User prefers answers without {without.group('without')}"
    if wish := _HABIT.match(sentence) or _THINGS.match(sentence):
        return f"User wants the assistant to always {third_person(_lowered(wish.group('wish')))}"
    return ""


def _asked_for_all_times(sentence: str) -> str:
    """As in "point out my mistakes whenever I make some", "no statistics unless I ask", "don't call me Bob"."""
    if unless := _UNLESS.search(sentence):
        return third_person(f"User wants {unless.group('wish')}")
    if (whenever := _WHENEVER.match(sentence)) and not _NO_ORDER.match(whenever.group("wish")):
        return third_person(f"User wants the assistant to {_lowered(whenever.group('wish'))}")
    if never_ever := next((found for part in _PART.split(sentence) if (found := _EVER.match(part))), None):
        return f"User never wants {never_ever.group('what')}"
    if not_called := _NOT_CALLED.match(sentence):
        return f"User wants the assistant not to {third_person(not_called.group('doing'))}"
    return ""


def _form(part: str, *, complained: bool) -> str:
    part = expand(part)
    if units := _UNITS.match(part):
        return f"User prefers answers in {units.group('what')}"
    if shorter := _SHORTER.match(part):
        return f"User wants the assistant's answers to be {shorter.group('how').lower()}"
    found = _FORM.match(part)
    if not found or not (
        complained or re.search(r"\b(?:instead|no more|enough|spare me|next time)\b", part, re.IGNORECASE)
    ):
        return ""
    if found.group("negative"):
        return f"User prefers answers without {found.group('without')}"
    if found.group("short"):
        return f"User prefers {found.group('short')}"
    return next(f"User prefers answers {how} {found.group(how)}" for how in ("as", "in", "with") if found.group(how))


def _again(doing: str) -> str:
    verb, _, rest = doing.partition(" ")
    rest = third_person(f" {rest}").strip() if rest else ""
    rest = f"the u{rest[1:]}" if rest.startswith("User") else rest
    return (
        f"keeps {verb} {rest}".strip() if verb.lower().endswith("ing") else f"always {conjugate(verb)} {rest}".strip()
    )


def preference(wish: str) -> str:
    """A wish for a form of answers, as in "give me bullet points"; "" when it is another wish."""
    return _form(_bare(wish), complained=True)


def in_units(wish: str) -> str:
    """As in "use metric units": what somebody wants for a reason of their own; not a language, which a task may ask for."""
    found = _UNITS.match(_bare(wish))
    return f"User prefers answers in {found.group('what')}" if found and _MEASURES.match(found.group("what")) else ""


def _inside(text: str) -> str:
    turned = third_person(text)
    return f"the u{turned[1:]}" if turned.startswith("User") else turned


def _lowered(text: str) -> str:
    return text[:1].lower() + text[1:]
