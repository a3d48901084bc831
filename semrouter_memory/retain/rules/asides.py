"""What is said and is not to be kept as the user's life: confidences, games, suppositions, words to an assistant's memory."""

import re

_GAME = re.compile(
    r"\b(?:d&d|dnd|dungeons (?:and|&) dragons|pathfinder|larp\w*|rpg|character (?:sheet|concept|name|build)|(?:my|our) (?:character|avatar|persona|alter ego|oc|sim|half-elf|elf|orc|dwarf|wizard|paladin|bard|rogue|warlock|cleric|druid|ranger)"
    r"|backstory|tarot|horoscopes?|two truths|personality (?:test|quiz))\b|跑团|塔罗|星座运势|角色卡",
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


def of_a_game(text: str) -> bool:
    """Whether it speaks of a made-up figure or of what cards foretell."""
    return bool(_GAME.search(text))


def confidential(text: str) -> bool:
    """Whether the user asks that this message is not kept."""
    return bool(_CONFIDENCE.search(text))


def injects(text: str) -> bool:
    """Whether words that give orders to an assistant's memory, or speak of "the user", stand in the open."""
    return bool(_INJECTION.search(text))
