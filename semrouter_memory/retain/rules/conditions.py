"""How somebody is for good and what they take for it: "severely allergic to nuts", "warfarin for my heart". Pure.

Strategy: an adverb of degree before a word that lasts changes nothing of its lasting. A medicine is known by what it is
taken for, or by the ending of its name.
"""

import re

from semrouter_memory.retain.rules import lexicon as lex

_LASTING_FORM = re.compile(
    r"^(?:self-)?[a-z-]{2,}(?:less|ian|free|ist|phobic|phobe|intolerant|handed|based|sighted|blind)$"
)
_DEGREE_OF_LASTING = re.compile(rf"^{lex.DEGREE}(?=(?P<word>[a-z-]+)\b)", re.IGNORECASE)
_CONDITION = (
    r"(?:heart|knees?|back|blood|blood pressure|pressure|cholesterol|thyroid|stomach|joints?|hips?|shoulders?|ankles?|wrists?|neck|skin|eyes?|liver|kidneys?|lungs?|nerves?|bones?|prostate|bladder|asthma"
    r"|migraines?|headaches?|diabetes|allerg(?:y|ies)|hay ?fever|anxiety|depression|adhd|add|arthritis|gout|pain|pains|epilepsy|seizures|reflux|heartburn|insomnia|sleep|eczema|psoriasis|acne|anaemia|anemia"
    r"|angina|arrhythmia|hypertension|ibs|crohn'?s|lupus|osteoporosis|endometriosis|pcos|menopause|ptsd|ocd|bipolar|mood|periods|hormones|deficiency|infection|condition|disease|disorder|syndrome)"
)
_MEDICATED = re.compile(
    rf"^(?:take|use|need)\s(?!(?:a|an|the|my)?\s?(?:break|day|time|bus|train|car|look|moment|nap|rest|walk)\b)(?:[\w.,-]+\s){{1,5}}?(?:for|against)\s(?:(?:my|the|an?)\s)?(?:[\w-]+\s){{0,2}}?{_CONDITION}(?=\s*$|[,.;!]|\s(?:and|since|every|each|in|at|on|twice|once|which|because|after|before|as|daily|now|when|too|problems?|condition|trouble|issues?|pain)\b)"
    r"|^take\s(?:(?:my|an?|the|some|daily|\d+\s?(?:mg|mcg|g|ml)(?:\sof)?)\s)*(?:[\w-]+\s){0,2}?"
    r"(?:insulin|aspirin|medications?|medicines?|meds|pills?|supplements?|vitamins?|vitamin \w+|antidepressants?|antihistamines?|antibiotics|blood thinners?|beta blockers?|painkillers?|steroids|statins|melatonin|creatine"
    r"|[a-z]{2,}(?:statin|pril|sartan|olol|prazole|cillin|oxetine|aline|azepam|azolam|formin|profen|amol|triptan|dipine|thyroxine|xaban|farin|lukast|tidine|tadine|irizine|gabalin|apentin|giline|idone|iapine|semide|thiazide|sone|solone))\b",
    re.IGNORECASE,
)
"""A medicine, by what it is for or by its name: taken again and again."""


def without_degree(after: str) -> str:
    """As in "severely allergic to sesame": what somebody is, without how much."""
    found = _DEGREE_OF_LASTING.match(after)
    return after[found.end() :] if found and lasting_word(found.group("word")) else after


def lasting_word(word: str) -> bool:
    """Whether "I am" with this word tells what stays so."""
    return word.lower() in lex.LASTING or bool(_LASTING_FORM.match(word))


def medicated(predicate: str) -> bool:
    """Whether it tells of a medicine that is taken, or an aid that is used, for the body."""
    return bool(_MEDICATED.match(predicate))
