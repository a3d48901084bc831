"""The table of attributes and the ways in which each is spoken of: "drives a Mini", "the new car is a Volvo". Pure.

Strategy: different predicates meet in one attribute. A way is a pattern over what follows the owner ("user", "user's
sister Amal"), with the value as a group; a value must be of the attribute's class, so "drives a taxi" names no car. An
attribute says when another value ends the one before: always (one has one age), only when a change is told (one may
have two cars), or never (one is born once). What a way does not know is left to the other rules.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from semrouter_memory.retain.wordlist import words


class Turnover(StrEnum):
    """When another value ends the one before."""

    ALWAYS = "always"
    TOLD = "told"
    """Only when the later statement tells of a change: one may have several at a time."""
    NEVER = "never"


class ValueClass(StrEnum):
    """What a value must look like to be one."""

    ANY = "any"
    NAMED = "named"
    """Holds a name: a capital letter or a Chinese word."""
    NUMBER = "number"
    LISTED = "listed"
    """Holds a word of `FAMILIES`."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """Something that somebody has: how its value is said, what that looks like and when it changes."""

    name: str
    ways: tuple[re.Pattern[str], ...]
    value_class: ValueClass
    turnover: Turnover


FAMILIES = {
    "car": words(
        "volvo audi bmw mercedes volkswagen vw golf toyota yaris corolla prius honda jazz civic mazda nissan leaf kia hyundai ford"
        " fiesta focus opel vauxhall corsa skoda octavia seat fiat panda mini renault clio peugeot citroen dacia tesla polestar"
        " subaru suzuki lexus porsche jaguar jeep chevrolet chevy dodge mitsubishi byd tiguan passat polo suv hatchback sedan"
        " 特斯拉 比亚迪 丰田 本田 大众 宝马 奔驰 奥迪 沃尔沃 日产 别克 福特 蔚来 理想 小鹏 吉利"
    ),
    "phone": words(
        "iphone pixel galaxy samsung android oneplus xiaomi huawei nokia motorola fairphone 安卓 苹果手机 华为 小米 三星"
    ),
    "editor": words(
        "vim neovim emacs vscode code sublime zed intellij pycharm webstorm helix nano atom cursor kate eclipse"
    ),
    "browser": words("chrome firefox safari edge brave opera vivaldi chromium"),
    "system": words("windows macos ubuntu fedora debian mint arch manjaro nixos linux opensuse"),
    "music": words("spotify tidal deezer qobuz"),
    "notes": words("notion obsidian evernote onenote logseq joplin"),
    "mail": words("gmail outlook fastmail protonmail hotmail"),
    "shell": words("bash zsh fish nushell"),
}
"""Names of things of one kind, of which one mostly uses one for one purpose."""

OTHER_PRODUCTS = words(
    "motorcycle motorcycles motorbike bike scooter moped tractor truck van boat mower generator engine tv watch tablet laptop fridge"
    " buds earbuds headphones monitor charger case club player instructor server servers ticket shares stock"
)
"""What a firm of `FAMILIES` makes or lends its name to besides."""

_ADVERB = r"(?: (?:now|currently|just|recently|finally|mostly|mainly|usually|is|has|was|have|been))*"
_FITTED = r"(?:(?:new|current|main|primary|default|favou?rite|preferred|regular|usual|own|personal) )*"
_ARTICLE = r"(?:(?:an?|the|his|her|their|its) )?"
_VALUE = r"(?P<value>.+)"
_TO = r"(?:switched|changed|moved|migrated|upgraded|converted|went)(?: over)?(?: from .+?)? to"
_ROLE = r"(?P<role>[a-z]+(?: [a-z]+)?)"
_SERVICE = r"(?P<role>(?:(?:car|home|health|life|travel|pet|liability) insurance|insurance|mobile(?: phone)?|phone|internet|broadband|electricity|energy|power|gas|water|hosting|web hosting|pension)(?: plan| service| contract)?)"
_DWELLING = r"(?:[\w-]+ )?(?:flat|house|apartment|home|condo|room|studio|place)"


def _of(name: str, value_class: ValueClass, turnover: Turnover, *ways: str) -> Attribute:
    return Attribute(name, tuple(re.compile(way) for way in ways), value_class, turnover)


ATTRIBUTES = (
    _of(
        "car",
        ValueClass.LISTED,
        Turnover.TOLD,
        rf"'s {_FITTED}(?:car|vehicle) is(?: now)? {_ARTICLE}{_VALUE}",
        rf"{_ADVERB} (?:drives|driving)(?: around in)? an? (?:old|used|new) {_VALUE}",
        rf"{_ADVERB} (?:drives|driving|owns|has|leases|leased|bought|got|purchased) {_ARTICLE}{_VALUE}",
        rf"{_ADVERB} {_TO} {_ARTICLE}{_VALUE}",
        rf" (?:has|got|bought|owns) an? new (?:car|vehicle)[,:]? {_ARTICLE}{_VALUE}",
        rf"的(?:新)?车(?:是|换成了?|换了)(?:辆)?{_VALUE}",
        rf"(?:开的是|开|买了|换成了?|换了)(?:辆)?(?:新)?{_VALUE}",
    ),
    _of(
        "phone",
        ValueClass.LISTED,
        Turnover.TOLD,
        rf"'s {_FITTED}(?:cell ?|mobile ?|smart)?phone is(?: now)? {_ARTICLE}{_VALUE}",
        rf"{_ADVERB} (?:uses|using|has|owns|carries|bought|got) {_ARTICLE}{_VALUE}",
        rf"{_ADVERB} {_TO} {_ARTICLE}{_VALUE}",
        rf" (?:has|got|bought) an? new phone[,:]? {_ARTICLE}{_VALUE}",
        rf"的(?:新)?手机(?:是|换成了?|换了)(?:部|台)?{_VALUE}",
        rf"(?:用的是|使用|用|换成了?|换了|改用了?)(?:部|台)?{_VALUE}",
    ),
    *(
        _of(
            family,
            ValueClass.LISTED,
            Turnover.TOLD,
            rf"{_ADVERB} (?:uses|using|runs|codes in|programs in|works in|writes code in|prefers|browses with) {_ARTICLE}{_VALUE}",
            rf"'s {_FITTED}(?:code |text |web |operating |music |mail )?(?:{family}|ide|app|client) is(?: now)? {_VALUE}",
            rf"{_ADVERB} {_TO} {_ARTICLE}{_VALUE}",
            rf"(?:用的是|使用|用|换成了?|换到了?|改用了?){_VALUE}",
        )
        for family in FAMILIES.keys() - {"car", "phone"}
    ),
    _of(
        "number",
        ValueClass.NUMBER,
        Turnover.TOLD,
        rf"'s {_FITTED}(?:(?:cell|mobile)?(?: ?phone)?(?: number)?) (?:is|(?:has )?changed to)(?: now)?:? (?P<value>\+?[\d() -]{{7,}})",
        r"(?: has| got| has got) an? (?:new )?(?:(?:cell|mobile)? ?phone )?number[:,]?(?: which is| it is)? (?P<value>\+?[\d() -]{7,})",
        r"的?(?:新)?(?:手机|电话)?(?:号码|号|电话|手机)(?:是|为|换成了?|改成了?|变成了?)(?P<value>[\d -]{7,})",
    ),
    _of(
        "weight",
        ValueClass.NUMBER,
        Turnover.TOLD,
        rf"{_ADVERB} (?:weighs|weighing)(?: in at)? {_VALUE}",
        rf"'s (?:current )?weight (?:is|has \w+ to|went \w+ to|dropped to)(?: now)? {_VALUE}",
        rf"{_ADVERB} (?:(?:gone |got )?(?:down|up) to|(?:dropped|slimmed|bulked)(?: down| up)? to|reached|at) (?P<value>[\d.]+ ?(?:kg|kilos?|lbs?|pounds|stone)\b.*)",
    ),
    _of(
        "partner",
        ValueClass.NAMED,
        Turnover.TOLD,
        rf"'s {_FITTED}(?:girlfriend|boyfriend|partner) is(?: called| named)? {_VALUE}",
        rf" has an? (?:new )?(?:girlfriend|boyfriend|partner),?(?: called| named)? {_VALUE}",
        rf"{_ADVERB} (?:dating|seeing|in a relationship with|going out with)(?: an? \w+ (?:called|named))? {_VALUE}",
        rf"的(?:新)?(?:女朋友|男朋友|对象)(?:是|叫){_VALUE}",
    ),
    _of(
        "employer",
        ValueClass.NAMED,
        Turnover.NEVER,
        rf"{_ADVERB} (?:works|working|employed) (?:at|for|by) (?:the )?{_VALUE}",
        rf"'s (?:current )?employer is {_VALUE}",
        r"是(?P<value>[^的]+)的(?:员工|职员|雇员)",
        r"在(?P<value>.+?)工作",
    ),
    _of(
        "home",
        ValueClass.NAMED,
        Turnover.TOLD,
        rf"{_ADVERB} (?:lives|living|resides|based|rents an? {_DWELLING}|lives in an? {_DWELLING}) in (?:the )?{_VALUE}",
        rf"{_ADVERB} (?:moved|relocated) to (?:the )?{_VALUE}",
        rf"'s (?:new |current )?home is(?: now)? in {_VALUE}",
        rf"{_ADVERB} bought an? {_DWELLING} in (?P<value>\S+(?: \S+)?) and (?:has )?moved (?:there|in)\b",
    ),
    _of(
        "bike",
        ValueClass.NAMED,
        Turnover.NEVER,
        rf"'s {_FITTED}(?:bike|bicycle|motorbike) is {_ARTICLE}{_VALUE}",
        rf"{_ADVERB} (?:rides|riding) {_ARTICLE}{_VALUE}",
    ),
    _of(
        "birthplace",
        ValueClass.NAMED,
        Turnover.NEVER,
        rf" was born in {_VALUE}",
        rf"'s (?:birthplace|place of birth) is {_VALUE}",
        rf"'s hometown is {_VALUE}",
        rf"(?:出生在|生于|出生于){_VALUE}",
        rf"的出生地是{_VALUE}",
    ),
    _of(
        "wedding",
        ValueClass.NAMED,
        Turnover.TOLD,
        rf"'s wedding(?: venue)? (?:is|will be|takes place|is being)(?: held)?(?: at)? {_VALUE}",
        rf"{_ADVERB} (?:getting married|marrying|will get married|gets married) at {_VALUE}",
    ),
    _of(
        "university",
        ValueClass.NAMED,
        Turnover.TOLD,
        rf"{_ADVERB} (?:studies|studying|a student|enrolled)(?: \w+)? at (?:the )?{_VALUE}",
        rf"{_ADVERB} (?:switched|transferred|moved)(?: from .+?)? to (?:the )?(?P<value>(?:\S+ )*(?:university|college|polytechnic|tu)\b.*)",
    ),
    _of(
        "role gym",
        ValueClass.NAMED,
        Turnover.TOLD,
        rf"{_ADVERB} (?:trains|works out|exercises|lifts|working out|training) at {_VALUE}",
        rf" switched gyms (?:and {_ADVERB} ?(?:goes|trains|works out) (?:to|at)|to) {_VALUE}",
        r" is a member (?:of|at) (?P<value>.*\b(?:gym|fitness)\b.*)",
    ),
    _of(
        "role bank",
        ValueClass.NAMED,
        Turnover.TOLD,
        rf"{_ADVERB} (?:banks|banking) (?:with|at) {_VALUE}",
        rf" (?:switched|changed|moved) banks (?:and {_ADVERB} ?(?:is|banks|uses|goes)(?: with| at)?|to) {_VALUE}",
    ),
    _of(
        "role manager",
        ValueClass.NAMED,
        Turnover.TOLD,
        rf"{_ADVERB} (?:reports|reporting|answers)(?: directly)? to {_VALUE}",
        rf"{_ADVERB} managed by {_VALUE}",
        rf"{_ADVERB} (?:works|working) under {_VALUE}",
    ),
    _of(
        "provider",
        ValueClass.NAMED,
        Turnover.TOLD,
        rf"'s {_FITTED}{_SERVICE} (?:provider|supplier|company|operator) is(?: now)? {_VALUE}",
        rf"'s {_FITTED}{_SERVICE} is(?: now)? (?:with|from|provided by) {_VALUE}",
        rf"{_ADVERB} (?:with|insured with) (?P<value>.+?) for (?:the |his |her |their )?{_SERVICE}$",
        rf"{_ADVERB} (?:switched|changed|moved|transferred)(?: the| his| her| their)? {_SERVICE}(?: (?:providers?|suppliers?|company|operators?))?(?: from .+?)? to {_VALUE}",
    ),
    _of(
        "role",
        ValueClass.NAMED,
        Turnover.TOLD,
        rf"'s {_FITTED}{_ROLE} is(?: now)?(?: called| named)? {_VALUE}",
        rf"{_ADVERB} (?:uses|prefers|likes|wants|chose|picked|sees|has|{_TO}) (?P<value>.+?) as (?:an?|the|his|her|their) {_FITTED}{_ROLE}$",
        rf" (?:hired|found|has|got|chose|picked|started seeing|sees|is seeing|switched to) an? (?:new|different|another) {_ROLE}(?:,| called| named|:|, called|, named)+ {_VALUE}",
        rf" (?:has )?(?:switched|changed) (?:(?:to a (?:new|different)|his|her|their|the) )?{_ROLE}(?:, from .+?,)? to {_VALUE}",
    ),
)
"""The more special ones first: one way of speaking is read as one attribute."""

ENDS = {
    "employer": re.compile(
        r"^(?:on \S+ )?user(?: has| just| recently| was| got| been| is)* (?:fired|laid off|let go|made redundant|unemployed|jobless|out of work"
        r"|sacked|dismissed|lost (?:the|his|her|their) job|quit (?:the|his|her|their) job|resigned|between jobs)\b(?: from (?P<value>.+))?"
        r"|^用户(?:被(?:裁员?|辞退|解雇|开除)|失业|辞职|离职)了?"
    ),
    "partner": re.compile(
        r"^(?:on \S+ )?user(?: has| just| recently)*(?: and (?P<value>\w+)(?: have| has)?| and (?:the|his|her|their) (?:girlfriend|boyfriend|partner))?"
        r"(?: is| are)? (?:broke up|broken up|split up|split|parted ways|single again|no longer together|single now|now single)\b"
        r"(?! with (?:an?|the|(?:his|her|their) (?!girlfriend|boyfriend|partner))\b)"
        r"(?: with (?!the\b|his\b|her\b|their\b)(?P<value2>\w+))?|^用户(?:和(?P<value3>.+?))?分手了?"
    ),
    "trip": re.compile(
        r"\b(?:called off|cancell?ed|scrapped|dropped|abandoned|shelved) (?:the|his|her|their) (?:(?:planned )?(?:trip|visit|holiday|vacation|journey) to (?P<value>.+)"
        r"|(?P<value2>.+?) (?:trip|visit|holiday|vacation|journey))"
        r"|\b(?:is not|isn't|no longer|won't be) (?:going|travell?ing|flying) to (?P<value3>\S+)|取消了?去?(?P<value4>.+?)的?(?:旅行|旅游|行程|之旅)"
    ),
}
"""How it is said that an attribute has no value any more, with or without the value."""

TRIP = re.compile(
    r"^user(?: is| will be|'s| has)* (?:going|travell?ing|flying|heading|visiting|booked|plans|planning|taking)(?: an?| the| to \w+| flights?| holiday| trip| vacation| [\w-]+ trip)*"
    r"(?: to)? (?P<value>.+)|打算去(?P<value2>.+)"
)
PLAN = re.compile(
    r" (?:is|pays|subscribes|subscribed|has|uses)(?: on| for| to)? (?:an? |the )?(?P<value>.+?) (?:plan|tier|subscription)\b"
)
NEW_PLAN = re.compile(
    r" (?:has )?(?:(?:up|down)graded|switched|moved|changed)(?: (?:the|his|her|their))? (?P<product>.+?)(?: plan| subscription)?(?: from .+?)? to (?:an? |the )?(?P<value>.+?)(?: plan| tier| subscription)?$"
)
PROMOTED = re.compile(
    r"\bpromoted(?: from .+?)? to (?:an? |the )?(?P<value>.+)$|\b(?:is now|became) an? (?P<value2>.+)$"
)
TITLE = re.compile(r"^user (?:is|works as|is working as) an? (?P<value>.+)$")
SENIORITY = words(
    "junior senior associate assistant lead principal staff trainee chief head deputy vice graduate apprentice intern"
)
DEADLINE = re.compile(
    r"'s (?:(?P<thing>.+?) )?(?:deadline|due date)(?: for (?:the )?(?P<thing2>.+?))? (?:is|was)(?: (?:on|set for|now))* (?P<value>.+)"
    r"| (?:has to|must|needs to) (?:submit|hand in|deliver|finish) (?:the|his|her|their) (?P<thing3>.+?) by (?P<value3>.+)"
    r"|'s (?P<thing4>.+?) is due(?: on| by)? (?P<value4>.+)"
)
EXTENSION = re.compile(
    r"(?: got| received| was given| has been given| was granted| has) (?:an? )?(?:(?P<thing>.+?) )?(?:deadline )?extension(?: (?:on|for) (?:the )?(?P<thing2>.+?))? (?:until|to|till) (?P<value>.+)"
)
