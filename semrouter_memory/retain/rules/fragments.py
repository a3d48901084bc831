"""What users say without "I": "budget is about 1800 euros", "moving to Seville in March", "max 400, no garlic please".

Strategy: a few forms in which the subject that is left out can only be the user: own events and money with a figure,
a verb that nobody orders an assistant to do, a limit, a wish. The thread's topic completes what does not stand alone.
"""

import re
from collections.abc import Mapping

from semrouter_memory.retain.rules import doubts
from semrouter_memory.retain.rules import lexicon as lex
from semrouter_memory.retain.rules.persons import in_passing
from semrouter_memory.retain.rules.predicates import AT_HAND, anaphoric, lasts, substantial, troubled, unreal
from semrouter_memory.retain.rules.voice import third_person
from semrouter_memory.retain.wordlist import words

_MAX_WORDS = 30
_MAX_SHORT = 12

_EVENT = (
    r"(?:(?:first|final|next|last|oral|driving|bar|job|phone|civil|school|math|maths|summer|house|return|connecting|monthly|total|whole|grocery|food|wedding|travel)\s)*"
    r"(?:budget|rent|mortgage|salary|deposit|exams?|test|interview|appointment|check-?up|vet check|recheck|surgery|operation|deadline|due date|flights?|train|ferry|lease|contract|wedding|funeral"
    r"|party|ceremony|graduation|guests?|in-laws|visitors|movers|meeting|offsite|conference|workshop|race|match|game day|gig|concert|recital|presentation|defen[cs]e|thesis|trial|hearing"
    r"|move|move-in|closing|delivery|class|course|semester|term|holidays?|vacation|trip|birthday|anniversary|renovation|project|launch|release|go-live|sprint|retention|team|cluster|upstream|backend|frontend"
    r"|fields?|land|plot|rooms?|(?:bath|bed|living |dining |box )rooms?|lawn|roof|yard|pool|soil|basement|attic|pond|greenhouse|ci|pipeline|servers?|database|db|repo|stack|prod|production|staging|house|flat|apartment|garden|balcony|kitchen|oven|car|bike|boat|shop|studio|class size|commute|shift|visa|passport|insurance|landlord|landlady|employer|pension|health plan|review|appraisal|provider|isp|bank|insurer|router|boiler|heating|gym|supplier|dealer|airline|hospital|clinic|monorepo|codebase|vet|scan|biopsy|viewing|audition|tournament|kick-?off|retreat|exhibition|rehearsal)"
)
_EVENT_IS = re.compile(
    rf"^(?:(?:the|our|my)\s)?(?P<what>(?:early |late |night |morning )?{_EVENT})(?P<of>\s(?:for|of|at|in|with|there|from|to|on)(?:\s[\w'’.-]+){{0,4}}?)?\s"
    r"(?P<rest>(?:is|are|was|starts?|ends?|begins?|arrives?|arrive|leaves?|departs?|takes place|runs?|expires?|moves?|comes?|come|costs?|has|have|lasts?|got [a-z]+ed|moved|will|opens?|closes?|covers?|pays?|allows?)\s.+)$",
    re.IGNORECASE,
)
_EVENT_BARE = re.compile(
    rf"^(?P<what>(?:early |late |night |morning |big )?{_EVENT})\s(?:(?:of|around|about|max|on|at|in|under|up to)\s)?(?P<value>[\d€$£¥].*|(?:on|in|at|by|until)\s.+)$",
    re.IGNORECASE,
)
_NOT_MINE_ALONE = re.compile(
    r"^the\s(?:(?:[\w-]+\s)?(?:shop|studio|gym|pool|bank|airline|dealer|supplier|provider|isp|insurer|hospital|clinic|train|ferry|hotel|restaurant|cafe|café|bar|museum|school|store|market|library|office|airport|station|salon|garage|hostel|venue)\s"
    r"|(?:[\w'’-]+\s){1,4}?(?:is|are)\s(?:called|named)\s|(?:car|bike|boat|house|flat|apartment|studio|rooms?|plot|land|fields?)\s(?:costs?|(?:is|are)\s(?:about |around )?[€$£¥]?\d[\d.,]*\s?(?:k\b|[€$£¥]|euros?|dollars?|pounds?)))",
    re.IGNORECASE,
)
"""What is as well somebody else's, or for sale: "the shop is called Bloom", "the flat costs 900". "My" must stand before it."""
_THINGS_IS = re.compile(rf"^((?:the\s)?{_EVENT})['’]s\s", re.IGNORECASE)
_ITS_DAY = re.compile(
    r"^((?:the\s)?[a-z][\w-]+(?:\s[a-z][\w-]+)?)['’]s\s(?=(?:on|at|due|next|this|in|until|till|from)\s)", re.IGNORECASE
)
_MINE = re.compile(
    r"^(?P<subject>(?!this\b|that\b|it\b|what\b|here\b|there\b|which\b|who\b|you\b|your\b|these\b|those\b|if\b|how\b|why\b|when\b)(?:[\w'’.-]+\s){1,5}?)(?P<verb>is|are|was|were)\s(?P<rest>(?:my|our)\s.+)$",
    re.IGNORECASE,
)
_THIS_IS_MINE = re.compile(
    r"^(?:that|this|it|here) is (?:my|our) (?P<what>(?:[a-z-]+\s){1,3})(?P<name>[A-ZÀ-Þ][\w'’-]*(?:\s[A-ZÀ-Þ][\w'’-]*)*)$"
)
_THATS_ME = re.compile(r"\b(?P<name>[A-ZÀ-Þ][\w'’-]+(?:\s[A-ZÀ-Þ][\w'’-]+)?),?\s(?:that is|which is) me\b")
_DOES_TO_ME = re.compile(
    r"^(?P<subject>(?!this\b|that\b|it\b|what\b|you\b|which\b|who\b|just\b|please\b|pls\b|only\b|always\b|never\b|simply\b|then\b)(?:[\w'’-]+\s){1,4}?)(?P<verb>gives?|makes?|triggers?|upsets?|hurts?|keeps?|helps?|bothers?|scares?|bores?|calms?|stresses|worries)\s(?P<rest>(?:me|us|my)\b.*)$",
    re.IGNORECASE,
)
_KILLS = re.compile(
    r"\b(?:an? error|errors?|exception|wrong|output|result|code|nan|null|undefined|\d{3})\b", re.IGNORECASE
)
_LIMIT = re.compile(
    r"^(?:(?:it|that|this) (?:must|should|has to) be )?(?:max(?:imum|\.)?|min(?:imum)?|at most|at least|up to|under|below|no more than|less than|around|about|roughly|between|budget|only)\s"
    r"(?:[€$£¥]\s?)?\d[\w.,]*(?:\s?(?:-|–|to|and)\s?[\d.,]+\w*)?(?:\s?[€$£¥%]|\s[a-z]+){0,4}$",
    re.IGNORECASE,
)
_NOT_FOR_ME = re.compile(
    r"^(?:please\s)?(?P<wish>(?:no|only|nothing|without|never|avoid|strictly)\s(?!thanks?\b|thank\b|wait\b|sorry\b|time\b|money\b|offen[cs]e\b|[\w'’-]+\s(?:needed|required|necessary)\b|problem|worr|idea|way\b|need\b|more\b|matter|one\b|luck|clue|doubt|joke|reason|rush|change|question|longer\b|kidding|pressure|errors?|output|code|result)[\w'’-]+.*)$",
    re.IGNORECASE,
)
_ONLY = re.compile(
    r"^(?P<what>(?!read|view|not|if|the|this|that|it|one\b)[\w.+#-]+(?:\s[\w.+#-]+)?) only$", re.IGNORECASE
)
_DISPLACED = re.compile(
    r"^(?:it|that) is (?P<this>[\w.+#-]+(?:\s[\w.+#-]+)?),? not (?P<that>[\w.+#-]+(?:\s[\w.+#-]+)?)$", re.IGNORECASE
)
_MADE_IN = re.compile(r"^it is (?P<what>an? (?:19|20)\d\d\s[a-z].*)$", re.IGNORECASE)
_IS_FOR = re.compile(r"^(?:this|it|that) is for (?P<what>(?:the|my|our|an?)\s\S+.*)$", re.IGNORECASE)
_IT_IS = re.compile(
    r"^(?:it|they) (?:is|are) (?P<what>(?:an? |about |around |almost |only )?(?:[\w.-]+\s){0,4}?(?:\d[\w.,%]*)\b.*)$",
    re.IGNORECASE,
)
_CALENDAR = re.compile(
    r"^(?:(?:probably|maybe|ideally|preferably|sometime|in|on|around|from|late|early|mid|end of|next|this|the|to|until)\s)*"
    r"(?:\d{1,2}(?:st|nd|rd|th)?\s)?(?:of\s)?(?:jan(?:uary)?|feb(?:ruary)?|march|april|may|june|july|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?|spring|summer|autumn|winter|easter|christmas"
    r"|mondays?|tuesdays?|wednesdays?|thursdays?|fridays?|saturdays?|sundays?)\b(?:\s(?:\d{1,2}(?:st|nd|rd|th)?|then|(?:to|until|-)\s.*))?$",
    re.IGNORECASE,
)
_PLACE_THEN = re.compile(
    r"^(?:probably|maybe|ideally|preferably|most likely|rather)\s(?P<rest>[A-ZÀ-Þ].*|(?:in|to|from|at|on)\s.+)$"
)
_GERUND = re.compile(
    r"^(?:(?:also|now|still|currently|just|never|not|always|only)\s)?(?P<verb>[a-z]{2,}ing)\s(?P<rest>\S.*)$",
    re.IGNORECASE,
)
_STATE = re.compile(
    r"^(?P<adverb>(?:also|never|always|usually|only|mostly|no longer|still|just|already|currently)\s)?(?P<verb>live|prefer|love|hate|own|commute|work (?=as|at|in|for|from|with|nights|part|full|remotely)"
    r"|work with|study|grew|have to|have an?|have (?:two|three|four|five|\d+)|had an?|want to (?=be |get |have |stay |reach )|need to be|need (?=[\w\s]{0,30}\bby\b)|got an?|adopted|bought|joined|signed up|moved|booked|started|lost|finished|use (?=[A-Z])|drive an?|cannot|do not eat|do not drink|sleep|wake up|get up)\s(?P<rest>\S.*)$",
    re.IGNORECASE,
)
_USUALLY = re.compile(
    r"^(?:mostly|usually|normally|rarely|sometimes|often|generally|typically)\s(?P<verb>[a-z]+)\s(?P<rest>\S.*)$",
    re.IGNORECASE,
)
_SELF = re.compile(
    rf"^(?:(?:also|still|now|a|an)\s)*(?:{lex.DEGREE})?"
    r"(?:allergic to|vegan|vegetarian|pescatarian|diabetic|pregnant|(?:left|right)[ -]handed|colou?r-?blind|lactose intolerant|gluten-free|based in|originally from|born in|married|retired|self-employed"
    r"|(?:type \d )?diabetic|beginner|newbie|native|fluent in|scared of|afraid of|terrified of|bad at|good at|into)\b.*$",
    re.IGNORECASE,
)
_EXPERIENCE = re.compile(
    r"^(?:about |over |almost )?\d+\+?\s?(?:years?|yrs?|months?)\s(?:of|in|as|at|with)\s\S+.*$", re.IGNORECASE
)
_MINE_IS = re.compile(r"^(?:mine|ours) (?:is|are|was) (?P<rest>\S.*)$", re.IGNORECASE)
_MEASURE = re.compile(
    r"^(?:about |around |roughly )?\d[\d.,]*(?:\s?[x×]\s?\d[\d.,]*)?\s?(?:m|cm|mm|km|metres?|meters?|kilomet(?:re|er)s?|feet|ft|inches|miles|sqm|square \w+|m2|hectares?|acres?|kg|kilos?|litres?|liters?|people|guests|adults|persons|days?|nights?|weeks?|hours?|minutes?|rooms?|floors?)\b(?!.*\?).*$",
    re.IGNORECASE,
)
_IT_SHALL_BE = re.compile(
    r"^(?P<what>(?!this\b|that\b|there\b|here\b|what\b|how\b|so\b|as\b)(?:the\s)?[\w'’-]+(?:\s[\w'’-]+){0,3}) it is$",
    re.IGNORECASE,
)
_HURT = re.compile(
    r"^(?:an?\s)?(?:torn|broken|sprained|herniated|slipped|frozen|fractured|ruptured|dislocated|chronic|high|low|bad|weak|dodgy)\s(?:\w+\s)?(?:\w+ )?(?:cuff|knees?|back|ankles?|wrists?|hips?|shoulders?|elbows?|disc|ligament|tendon|meniscus|acl"
    r"|migraines?|asthma|pain|blood pressure|cholesterol|eczema|heart|hearing|eyesight|toe|finger|arm|leg|foot|feet|hand|neck|rib|collarbone|teeth|tooth)\b.*$",
    re.IGNORECASE,
)
_WANT = re.compile(
    r"^(?:looking for|want|would like|searching for|hoping for|after|something|somewhere|someone)\s.+$", re.IGNORECASE
)
_WANTING = re.compile(r"^(?:looking for|want|would like|searching for|hoping for|after) ", re.IGNORECASE)
_TITLED = re.compile(r"^(?:Dr|Prof|Mrs|Mr|Ms)\.?\s[A-ZÀ-Þ][\w'’-]+\s(?:is|has|wants|will|always|never)\s\S+")
_HELP_ME = re.compile(
    r"^(?:please |pls )?(?:(?:can|could|would|will) (?:you|u) )?(?:please |pls )?(?:(?:help (?:me|us)(?: to)?|i (?:need|want) (?:some )?help (?:to|with)?) (?P<do>plan|prep|prepare|organi[sz]e|book|find|choose|sort out|pick|move|pack|decide|study|train|buy|sell|rent|save)"
    r"|(?P<do2>book|reserve) (?:me|us)) (?P<what>[^?.!]{4,120}?)(?:,\s*(?:please|pay|and|it|any|what|how).*)?[?.!]*$",
    re.IGNORECASE,
)
_DECISION = re.compile(
    r"^(?:(?:let us|I will|we will|I would|will|I am|we are|I|we)\s)?(?:just\s|then\s|probably\s)?(?:(?:go|going|went|stick|sticking)\s(?:with|for)|take|taking|took|pick|choose|chose)\s"
    r"(?P<what>the\s(?!first|second|third|last|latter|former|other|same|one\b|rest|middle|cheap\w*|plunge|time|bus|train|stairs|kids|dog)[\w'’.+-]+(?:\s[\w'’.+-]+){0,3}?)(?:\s(?:then|please|now))?$",
    re.IGNORECASE,
)
_THERE_IS = re.compile(
    r"^there (?:is|are) (?P<what>(?:an?|one|this|two|three)\s(?:[\w'’-]+\s){1,4}?(?:in|near|at|on|from|called|who|around)\s.+)$",
    re.IGNORECASE,
)
_SO_MANY_OF_US = re.compile(
    r"^there (?:will be|are|would be) (?P<many>\d+|two|three|four|five|six|seven|eight|nine|ten|twelve) of us$",
    re.IGNORECASE,
)
_MONEY = re.compile(
    r"[€$£¥]|\d\s?(?:k|euros?|dollars?|pounds?|quid|bucks|francs|pesos|crowns|kronor|zloty|yen|rupees|rand|an hour|a lesson|per \w+|each)\b|\b(?:an?|per|each) (?:month|week|year|night|hour|person|head|lesson)\b",
    re.IGNORECASE,
)
_PER = re.compile(r"\b(?:an?|per|each|every) (?:month|week|year|night|hour|person|head|lesson)$", re.IGNORECASE)
_DATED = re.compile(
    r"^(?:the )?(?P<what>[a-z][\w-]+(?:\s[a-z][\w-]+)?)\s(?P<rest>(?:is|starts|ends|begins|is due|takes place)\s(?:on|at|by|until|from|this|next|the)\s.+)$"
)
_SUBJECTLESS = words(
    "it this that there here he she they we you i what which who everything nothing something one today tomorrow christmas easter"
)
_HOME = words("soil garden kitchen flat house apartment balcony lawn roof basement")
"""Of these any lasting quality is worth knowing."""
_NO_DOING = words(
    "something anything nothing everything morning evening during according regarding considering assuming looking trying"
    " wondering asking hoping being having getting doing seeing missing king thing string"
)
_FINITE_SOON = re.compile(
    r"^(?:\S+\s){0,3}(?:is|are|was|were|has|have|can|does|do|will|makes?|seems?|gives?|means?|helps?|takes?)\b",
    re.IGNORECASE,
)


def statement(clause: str, people: Mapping[str, str], topic: str) -> str:
    """A clause without "I" in the third person when it can only be the user's, else "".

    Args:
        clause: contractions written out, without what leads in and trails off.
        topic: what the thread is about, "" when that is not certain.
    """
    count = len(clause.split())
    if not 0 < count <= _MAX_WORDS or unreal(clause) or anaphoric(clause):
        return ""
    return (
        _of_the_users_world(clause, topic)
        or _introduced_by_name(clause)
        or _of_it(clause, people, topic)
        or _without_i(clause)
        or _about_topic(clause, topic)
    )


def _of_the_users_world(clause: str, topic: str) -> str:
    clause = _THINGS_IS.sub(r"\1 is ", clause)
    clause = _ITS_DAY.sub(r"\1 is ", clause)
    if _NOT_MINE_ALONE.match(clause):
        return ""
    if event := _EVENT_IS.match(clause):
        what = event.group("what").lower()
        at_home = what in _HOME and not in_passing(event.group("rest").partition(" ")[2])
        if not (at_home or lex.anchored(event.group("rest"))):
            return ""
        return third_person(f"my {what}{event.group('of') or _for(what, topic)} {event.group('rest')}")
    if event := _EVENT_BARE.match(clause):
        what = event.group("what").lower()
        return third_person(f"my {what}{_for(what, topic)} is {event.group('value')}")
    if told := _of_time_and_place(clause, topic):
        return told
    if (mine := _MINE.match(clause)) and mine.group("rest").rpartition(" ")[2].lower() not in lex.NO_TOPIC:
        return third_person(clause)
    if (done := _DOES_TO_ME.match(clause)) and not _KILLS.search(done.group("rest")):
        return third_person(clause)
    return clause if _TITLED.match(clause) else ""


def _of_time_and_place(clause: str, topic: str) -> str:
    """As in "dinner is on saturday", "there will be 14 of us", "there is a teacher in Bergamo, 35 euros an hour"."""
    if many := _SO_MANY_OF_US.match(clause):
        return f"User is in a group of {many.group('many')}"
    if (dated := _DATED.match(clause)) and not AT_HAND.search(clause) and not troubled(clause):
        first, last = dated.group("what").split()[0].lower(), dated.group("what").split()[-1].lower()
        timed = lex.ANCHOR.search(dated.group("rest"))
        if (
            timed
            and first not in _SUBJECTLESS
            and last not in _SUBJECTLESS | lex.NO_TOPIC
            and last not in lex.RELATIONS
        ):
            return third_person(f"my {dated.group('what')} {dated.group('rest')}")
    if (there := _THERE_IS.match(clause)) and not AT_HAND.search(clause) and not troubled(clause):
        known = (
            _MONEY.search(clause)
            or re.search(r"\b(?:near|at|in|around) (?:us|me|my|our)\b", clause)
            or (topic and lex.NAME.search(clause))
        )
        return f"User knows of {_inside(there.group('what'))}" if known else ""
    return ""


def request(sentence: str) -> str:
    """As in "can you help me prepare for an interview at Vestmark on Thursday": what the user is about to do."""
    found = _HELP_ME.match(lex.LEAD.sub("", sentence))
    if not found or not lex.anchored(found.group("what")) or AT_HAND.search(found.group("what")):
        return ""
    return f"User wants to {(found.group('do') or found.group('do2')).lower()} {_inside(found.group('what').strip(' ?.!'))}"


def _inside(text: str) -> str:
    """In the third person, not at a sentence's beginning."""
    turned = third_person(text)
    return f"the u{turned[1:]}" if turned.startswith("User") else turned


def _for(what: str, topic: str) -> str:
    return f" for {topic}" if topic and what.rpartition(" ")[2] in lex.INCOMPLETE else ""


def _introduced_by_name(clause: str) -> str:
    if named := _THIS_IS_MINE.match(clause):
        return f"User's {named.group('what').strip()} is {named.group('name')}"
    if me := _THATS_ME.search(clause):
        return f"User's name is {me.group('name')}"
    return ""


def _of_it(clause: str, people: Mapping[str, str], topic: str) -> str:
    """As in "it's podman, not docker", "it's a 2009 Corolla with 240k km"."""
    if other := _DISPLACED.match(clause):
        return f"User has {other.group('this')}, not {other.group('that')}"
    if made := _MADE_IN.match(clause):
        return f"User has {made.group('what')}"
    if purpose := _IS_FOR.match(clause):
        named = re.search(r"\b(?:my|our)\b", clause, re.IGNORECASE) or lex.anchored(clause)
        return f"User asked for something for {_inside(purpose.group('what'))}" if named else ""
    it = _IT_IS.match(clause)
    if not it or not (about := people.get("it", topic)):
        return ""
    if about in people.values():
        return f"{about} is {_inside(it.group('what'))}"
    return f"User, about {about}: it is {_inside(it.group('what'))}"


def decision(clause: str, topic: str) -> str:
    """As in "let's go with the omnibook", "we'll take the scandic": what was settled on, "" when it is none."""
    if not topic and (settled := _IT_SHALL_BE.match(clause)) and settled.group("what")[:1].isupper():
        return f"User decided on {settled.group('what')}"
    found = _DECISION.match(clause)
    if not found or AT_HAND.search(clause) or troubled(clause) or not substantial(found.group("what")):
        return ""
    what = _inside(found.group("what"))
    return f"User's choice for {topic} is {what}" if topic else f"User decided on {what}"


def _without_i(clause: str) -> str:
    if not doubts.named(clause, {}):
        return ""
    if gerund := _GERUND.match(clause):
        rest = gerund.group("rest")
        verb = gerund.group("verb").lower()
        lasting = lex.anchored(rest) or (
            verb in lex.UNDER_WAY | lex.DOING | {"thinking", "considering"} and substantial(rest)
        )
        passing = verb in _NO_DOING and not (verb == "getting" and lex.DAY.search(rest))
        if passing or not lasting or _FINITE_SOON.match(rest) or troubled(rest):
            return ""
        return third_person(f"I am {clause[:1].lower()}{clause[1:]}")
    if state := _STATE.match(clause):
        said = f"{state.group('verb').strip()} {state.group('rest')}".split()
        adverbs = (state.group("adverb") or "").split()
        return third_person(" ".join(["I", *adverbs, *said])) if adverbs or lasts([], said, trusted=False) else ""
    if _HURT.match(clause) or _EXPERIENCE.match(clause):
        return third_person(f"I have {clause}")
    if (mine := _MINE_IS.match(clause)) and lex.anchored(mine.group("rest")):
        return f"User's own is {_inside(mine.group('rest'))}"
    if (usual := _USUALLY.match(clause)) and usual.group("verb").lower() in lex.STATIVE | lex.HABITUAL | lex.TRADE:
        own = re.search(r"\b(?:my|our)\b", clause, re.IGNORECASE) or lex.anchored(usual.group("rest"))
        return third_person(f"I {clause}") if own and not AT_HAND.search(clause) and not troubled(clause) else ""
    return third_person(f"I am {clause}") if _SELF.match(clause) else ""


def _about_topic(clause: str, topic: str) -> str:
    """As in "max 400", "late October", "no mountain roads", once a thread has a topic."""
    if len(clause.split()) > _MAX_SHORT:
        return ""
    if wish := _NOT_FOR_ME.match(clause):
        named = substantial(wish.group("wish").partition(" ")[2]) and not AT_HAND.search(clause)
        about = f" for {topic}" if topic and "," not in clause else ""
        return f"User wants {_inside(wish.group('wish'))}{about}" if named else ""
    if not topic:
        return f"User's limit is {clause}" if _LIMIT.match(clause) and _PER.search(clause) else ""
    if (alone := _ONLY.match(clause)) and not AT_HAND.search(clause) and substantial(alone.group("what")):
        return f"User wants {alone.group('what')} only for {topic}"
    for pattern, kind in ((_LIMIT, "limit"), (_CALENDAR, "time")):
        if pattern.match(clause):
            return f"User's {kind} for {topic} is {clause}"
    if _MEASURE.match(clause):
        return f"User, about {topic}: {_inside(clause)}"
    return _chosen(clause, topic)


def _chosen(clause: str, topic: str) -> str:
    if choice := _IT_SHALL_BE.match(clause):
        return f"User's choice for {topic} is {_inside(choice.group('what'))}"
    if then := _PLACE_THEN.match(clause):
        return f"User's choice for {topic} is probably {then.group('rest')}"
    if _WANT.match(clause) and (lex.anchored(clause) or " with " in clause):
        return f"User wants {_inside(_WANTING.sub('', clause))} for {topic}"
    return ""
