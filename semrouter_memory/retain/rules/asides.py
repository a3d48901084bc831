"""When what is said is not to be taken for the user's life: confidences, games, suppositions, texts in work, and how long.

Strategy: some of these end with their message, others colour the turns after them. In doubt the turns after are left
out too, until the user plainly comes back to themselves.
"""

import re
from enum import Enum

FADES_AFTER = {"none": 0, "supposition": 2, "samples": 4, "game": 3}
"""How many later turns an aside colours, unless it is left before or taken up again."""


class Aside(Enum):
    """What a message is besides the user's own life."""

    NONE = "none"
    SUPPOSITION = "supposition"
    SAMPLES = "samples"
    """Sentences to translate, correct or quiz about: the next one may come without any introduction."""
    GAME = "game"
    """A made-up figure or a reading of cards: what is added to it is of that figure."""


_GAME = re.compile(
    r"\b(?:d&d|dnd|dungeons (?:and|&) dragons|pathfinder|larp\w*|rpg|character (?:sheet|concept|name|build)|(?:my|our) (?:character|avatar|persona|alter ego|oc|sim|half-elf|elf|orc|dwarf|wizard|paladin|bard|rogue|warlock|cleric|druid|ranger)"
    r"|backstory|tarot|horoscopes?|two truths|personality (?:test|quiz))\b|跑团|塔罗|星座运势|角色卡",
    re.IGNORECASE,
)
_GAME_GOES_ON = re.compile(
    r"^(?:(?:ok(?:ay)?|good|great|nice|cool|love it|perfect|yes|yeah|lol|haha)[\s,.!]+)*(?:and|also|plus|then|now|I also|I (?:have|am|owe|was|carry|speak|wield|cast|own|can|come|grew)|I'm|I've|my (?:character|weapon|backstory|patron|guild|party))\b"
    r"|\b(?:gold|guild|quest|dungeon|tavern|potion|spell|sword|dagger|dragon|kingdom|goblin\w*|orcs?|elf|elves|level|armou?r|rogue|wizard|card|spread|reversed)\b",
    re.IGNORECASE,
)


_CONFIDENCE = re.compile(
    r"\b(?:off the record|(?:just )?between (?:us|you and (?:me|i))|not for the record|keep (?:this|that|it) (?:private|confidential|secret|to yourself|between us|out of (?:your )?memory)"
    r"|(?:do not|don't|dont|never|no need to|without|please not) (?:ever )?(?:remember|sav(?:e|ing)|stor(?:e|ing)|record|memori[sz]e|keep|note|write down|log|retain|put)(?:ing)?"
    r"\s(?:(?:any of )?(?:this|that|it|these|the next|the following|the rest|what|anything|my|the fact)\b(?! in mind)|down|in (?:your )?memory)"
    r"|(?<!not )(?<!n't )(?<!dont )(?<!never )forget (?:this|that|it|what I|everything I|I (?:said|told|mentioned))|(?:this|that) (?:is|stays|should stay) (?:confidential|private|secret)"
    r"|incognito|delete (?:this|that|it) from (?:your )?memory)\b"
    r"|别记|不要记(?!错)|别保存|不要保存|别存|不要存|忘掉|忘了(?:这|刚才|我说)|保密|私下(?:说|告诉)|不要告诉|别告诉",
    re.IGNORECASE,
)
_TAKEN_BACK = re.compile(
    r"^\W*(?:(?:no|ok|okay|wait|actually|sorry|please|pls|oh|and)[\s,]+)*(?:(?:please\s+)?(?:do not|don't|dont) (?:remember|save|store|record|keep|note|memori[sz]e) (?:that|this|it|what I (?:just )?(?:said|told))"
    r"|forget (?:that|what I (?:just )?(?:said|told)|I said)|scratch that|strike that|just kidding|jk\b|only joking|i was (?:just |only )?(?:kidding|joking)|that was (?:just )?a joke|not really|just testing|just a test)"
    r"|^(?:开玩笑|刚才(?:说的|是)?(?:开玩笑|逗你)|别记(?:住)?(?:这个|刚才)?|不要记(?:住)?(?:这个|刚才))",
    re.IGNORECASE,
)
_INJECTION = re.compile(
    r"\b(?:ignore|disregard|forget|override|bypass)\s(?:all\s|any\s|the\s|your\s|my\s|every\s)*(?:previous|prior|earlier|above|preceding|other|former|system)\s(?:instructions?|prompts?|rules|messages?|context|directions)"
    r"|\bsystem (?:prompt|override|message)\b|\b(?:save|write|add|store|commit|put) (?:this |it |that )?(?:in)?to (?:your |the )?(?:long[- ]term )?memory that the user\b|\bremember that the user\b"
    r"|\b(?:the user|this user) (?:always|prefers|wants|authori[sz]es|has agreed|likes|is an? admin|must|should)\b|忽略(?:之前|以上|上面|所有)",
    re.IGNORECASE,
)
SUPPOSES = re.compile(
    r"(?:^|[.!?\n]\s?)(?:(?:and|so|ok|okay|now|well|hey|hi|question),?\s+)*(?:suppose|supposing|imagine|let's say|lets say|let us say|say (?:i|we)\b|assume|assuming|what if|what would happen if|hypothetically"
    r"|in a hypothetical|consider a|given that i|(?:if|when) (?:i|we|my \w+) (?:were|was|had|won|got|could|lived|became|inherited|owned|moved|earned|bought|quit|died|ever)"
    r"|would you rather|in theory|(?:go|stay|stick|play|start|work) with (?:the|a|this|that|my) (?:hypothetical|scenario|premise|fantasy)|thought experiment|picture this|for the sake of argument)\b|\b(?:the|a|this|my) (?:hypothetical|thought experiment|what-if)\b|假设|假如|如果我(?:是|有|中|能|们)|要是我|想象|万一",
    re.IGNORECASE,
)
_SAMPLES = re.compile(
    r"\b(?:translat\w+|proof-?read\w*|(?:correct|check|fix|grade) (?:my|the|this|these) (?:\w+ )?(?:grammar|sentences?|spelling|text|english|german|french|spanish|writing)"
    r"|(?:example|sample) sentences?|grammatical(?:ly)?|homework|word problems?|dictation|passive|past tense|reported speech|synonyms?|classif(?:y|ies|ication)|sentiment|categori[sz]e|label (?:this|these|the)|user stor(?:y|ies)|(?:how (?:do|would) (?:you|i) say)|correct me|in (?:the )?first person|from the (?:perspective|point of view|viewpoint) of|in (?:german|french|spanish|italian|portuguese|dutch|polish|turkish|russian|chinese|japanese|korean|english|swedish)(?: please| pls)?(?=\s?:))\b|翻译|造句|改错|语法|作业",
    re.IGNORECASE,
)
_COMES_BACK = re.compile(
    r"\b(?:back to reality|(?:in|back to) real(?:ity| life)|irl|out of character|stop (?:the )?(?:role-?\s?play\w*|game|playing)|end (?:of )?(?:the )?(?:role-?\s?play|game|scene)"
    r"|(?:game|scene) over|seriously now|for real(?: now)?|enough of (?:the|this) (?:game|role)|btw|by the way|anyway|anyways|my actual|actually|in fact|joking aside|real talk|(?:this|it) is for (?:my|our|the|an?)|(?:this|it)'s for (?:my|our|the|an?)|(?:this|it|that)(?:'s| is| was) (?:from|by) (?:an?|my|our)|(?:that|this|it)(?:'s| is| was) (?:an?|my) (?:patient|client|customer|colleague|student|friend)\w*|danke|merci|gracias|thanks|thank you|thx|cheers|ta)\b"
    r"|回到现实|不玩了|说正经的|言归正传|其实|对了|谢谢|顺便",
    re.IGNORECASE,
)
_GOES_ON = re.compile(r"^(?:and|then|also|now|next|plus|another|再|还有|然后)\b", re.IGNORECASE)


def of_a_game(text: str) -> bool:
    """Whether it speaks of a made-up figure or of what cards foretell."""
    return bool(_GAME.search(text))


def confidential(text: str) -> bool:
    """Whether the user asks that this message is not kept."""
    return bool(_CONFIDENCE.search(text))


def takes_back(text: str) -> bool:
    """Whether the message takes back what was said before it."""
    return bool(_TAKEN_BACK.search(text))


def injects(text: str) -> bool:
    """Whether words that give orders to an assistant's memory, or speak of "the user", stand in the open."""
    return bool(_INJECTION.search(text))


def opened(text: str) -> Aside:
    """The aside that a message begins and that may go on after it."""
    if SUPPOSES.search(text):
        return Aside.SUPPOSITION
    if of_a_game(text):
        return Aside.GAME
    return Aside.SAMPLES if _SAMPLES.search(text) else Aside.NONE


def goes_on(text: str, aside: Aside) -> bool:
    """Whether a message still belongs to the aside that an earlier one opened."""
    if aside is Aside.NONE or _COMES_BACK.search(text):
        return False
    if aside is Aside.GAME:
        return bool(_GAME_GOES_ON.search(text))
    return aside is Aside.SAMPLES or bool(_GOES_ON.match(text.lstrip()) or SUPPOSES.search(text))
