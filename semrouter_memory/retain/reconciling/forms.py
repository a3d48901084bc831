"""How English and Chinese statements about somebody are built: the patterns that `meaning` takes them apart with. Pure."""

import re

from semrouter_memory.retain.reconciling.synonyms import CHANGE as CHANGES
from semrouter_memory.retain.reconciling.words import tokens
from semrouter_memory.retain.rules.lexicon import HABITUAL, RELATIONS, STATIVE
from semrouter_memory.retain.wordlist import words

KIN = RELATIONS | words("grandmother grandfather brother-in-law sister-in-law")
VERBS = (
    STATIVE
    | HABITUAL
    | words(
        "have be call name teach learn adopt move rent buy sell date marry smoke vote invest subscribe tend adopt install"
        " build train plan dislike detest allergic book reserve save owe borrow lend renovate migrate speak sail surf ski"
    )
)
KIN_CHINESE = re.compile(
    r"用户的?(妈妈|母亲|爸爸|父亲|爷爷|奶奶|外公|外婆|姥姥|姥爷|哥哥|弟弟|姐姐|妹妹|老婆|妻子|太太|老公|丈夫|女儿|儿子|孩子|女朋友|男朋友|女友|男友|叔叔|阿姨|朋友|同事|狗|猫)"
)
ENDING = (
    r"stopped|quit|quits|cancelled|canceled|gave up|given up|giving up|broke up|split up|ended|dropped out|dropped(?! (?:to|from|by|off))|sold|abandoned"
    r"|resigned|retired|unsubscribed|uninstalled|deleted|called off|discontinued|divorced|moved out|gave away|got rid of|donated|no longer"
    r"|(?:user|has|have|had) (?:recently |just |since )?left|off the table|finished with|(?:user|user has|has) (?:finished|completed|graduated from)|died|declined|turned down|rejected|withdrew|opted out|closed|scrapped|shelved|ditched"
    r"|backed out|pulled out|laid off|let go|was fired|got fired|made redundant|shut down|deactivated|terminated|fell through|stepped down"
    r"|parted ways|swore off|weaned off|passed away|(?:is|are|was) over|came to an end|changed (?:her|his|their) mind about|decided against"
    r"|lost (?:the|her|his|their) job|moved away from|wound down|disbanded|dissolved|demolished|gave notice|lost interest in|suspended|kicked"
)
ENDED = re.compile(rf"\b(?:{ENDING})\b")
NEGATION = re.compile(
    rf"\b(?:not|n't|never|no|cannot|can't|don't|doesn't|didn't|isn't|aren't|won't|without|avoids?|hates?|dislikes?|detests?|hated|disliked"
    rf"|anymore|any more|any longer|unable|refuses?|{ENDING})\b|不|没|讨厌|停止|取消|再也|放弃|戒|卖掉|卖了|分手|离职|退订|退出|辞职|辞去|辞掉|结束|终止|注销|送人|离婚|转让|泡汤|退学|退租|关闭|关掉|失业|拒绝|退掉|扔掉",
    re.IGNORECASE,
)
NOBODY = re.compile(
    r"\b(?:password|package|window|file|task|download|version|state) manager\b|\bpartner(?:ship)? program\b"
)
"""Things that are called like people."""
NEGATION_WORDS = words(
    "not never no cannot can can't don't doesn't didn't isn't aren't won stopp stop quit cancell cancel gave given giv"
    " broke brok split left dropp hat hate dislik detest avoid stand how unabl refus end doe t don doesn didn isn decid decide"
    " sold abandon resign retir unsubscrib uninstall delet call off discontinu divorc got rid donat finish complet graduat di declin reject withdrew opt clos scrapp shelv ditch"
    " able will longer 不 没 再 讨 厌 停 止 取 消 放 弃 戒 卖 掉 分 手 离 职 退 订 出"
)
NEGATION_TOKENS = NEGATION_WORDS.union(*map(tokens, NEGATION_WORDS))
AVERSION = re.compile(r"\b(?:hates?|dislikes?|detests?|hated|disliked|cannot stand|can't stand)\b|讨厌", re.IGNORECASE)
CHANGE = re.compile(
    r"\b(?:now|new|these days|nowadays|again|instead|no longer|any ?more|any longer|after all|became|becomes|went up|goes up|going up|went down|goes down|cutting down|cut down|back to|(?:up|down) (?:to|from)|made the move"
    rf"|currently|started|{'|'.join(sorted(CHANGES))})\b",
    re.IGNORECASE,
)
CLAUSE = re.compile(r",? (?:and|but|so|because|since|while|although|though|after|due to|following)\b |[;,，。] ?")
ADJUNCT = re.compile(
    r" (?:because|due to|since|after|as of|following|when|while|until|for good|in [a-z]+ \d{4}|on \d{4}-\d\d-\d\d|in \d{4}|(?:this|last|next) (?:week|month|year|spring|summer|autumn|fall|winter)|yesterday|thanks to|owing to|in favou?r of"
    r"|(?:an? |two |three |few |some |\d+ )?(?:days?|weeks?|months?|years?) ago|over the (?:summer|winter|weekend|holidays)|at the end of|earlier"
    r"|for (?:health|financial|personal|family|medical) reasons|to (?:save|focus|spend more|recover|avoid|concentrate))\b.*$"
)
PLANNED = re.compile(
    r"\b(?:plans?|planning|intends?|intending|wants|hopes?|hoping|would like|wishes|considering|thinking (?:of|about)|might|may (?!\d)|will"
    r"|going to|is moving|about to|aims?|aiming|dreams?|looking (?:to|for|forward)|is (?:interested|looking))\b|打算|计划|想要?|准备|考虑|希望"
)
FORMER = re.compile(
    r"\b(?:used to|formerly|previously|once (?:lived|worked|had|was)|in the past|ex-|former|originally)\b|以前|曾经|过去"
)
VERB = re.compile(
    r"\s(?P<verb>is|are|was|were|has|have|had|lives?|living|works?|will|moved|goes|costs?|pays?|runs?|plays?|likes?|loves?|hates?|prefers?"
    r"|starts?|ends?|departs?|leaves?|arrives?|renews?|uses?|takes?|weighs?|speaks?|studies|owns|turns?|does|doesn't|cannot|can't|never|eats?|drinks?"
    r"|wants?|needs?|drives?|opens?|closes?|got|gets|kept|told|teaches|enjoys?|suffers?|expires?)\s"
)
SET = r"is now|are now|is|are|was|were|will be|has been|costs?|moved|goes|went"
COPULAR = re.compile(
    rf"^(?:user's|user has an?)\s(?P<key>.+?)\s(?P<verb>{SET}|has|pays?|starts?|ends?|departs?|leaves?|arrives?|renews?|runs?|turns?|expires?|opens?|closes?)"
    r"\s(?:(?:now|currently)\s)?(?P<value>.+)$"
)
LED_TO = re.compile(r"(?:come|gone|fallen|risen|grown|improved|worsened|been \w+) (?:\w+ )?to\b")
"""As in "has come down to 195"."""
COPULAR_CHINESE = re.compile(
    r"^用户的?(?P<key>[^是为叫在，]{1,8}?)\s*(?:是|为|叫|在|(?:换|改|搬|提高|上调|下调|缩减|涨|降|升|调|变|推迟|提前|增加|减少|减|延期)(?:家|去)?(?:到|成|为|至)?了?(?=[^，]))\s*(?P<value>.+)$"
)
VERBS_CHINESE = frozenset("住喜养打学吃喝想不没有说会开在")
SUPERLATIVE = frozenset("喜想")
CIRCUMSTANCE = re.compile(r"(?:in|with|from|by|near|for)\b")
SETTING = re.compile(
    rf"^user\s(?:has\s)?(?:{'|'.join(sorted(CHANGES))})\s(?:the|their|his|her)\s(?P<key>(?:(?!\band\b)[\w' -])+?)(?:\sfrom\s.+?)?\sto\s(?P<value>.+)$"
)
BEING = words("is are was were moved goes went costs cost") | {"will be", "has been", "is now", "are now"}
NAMING = re.compile(r"\b(?:called|named)\b")
HOME = re.compile(
    r"\b(?:lives?|living|resides?|moved|relocated|based|home address is|address is)\s(?:now\s|back\s)?(?:in\s(?=with\b))?(?:with\s(?:[\w']+\s){1,4})?(?:(?:in|to|at|near)\s)?(?:the\s)?(?P<place>(?:\d+\s)?[A-ZÀ-Þ].*)$|(?:住在|住|搬到了?|搬去了?|定居|家在)(?P<place_cn>.+)$"
)
TOOLS = re.compile(
    r"\bmoved to (?:linux|windows|macos|mac|ubuntu|debian|kubernetes|aws|azure|google|github|gitlab|slack|notion|android|ios|microsoft)\b"
    r"|\bmoved to (?:\S+ )+?for (?!work|a job|the job|job|love|school|university|college|studies|family|good|now)"
)
OTHER_ADDRESS = re.compile(
    r"\b(?:work|office|email|e-mail|ip|mailing|billing|shipping|business|mac)\saddress\b", re.IGNORECASE
)
THING = re.compile(r"^user's (?!(?:new |home |current |postal )*address\b)|^用户的(?!家|地址|住)")
JOB = re.compile(
    r"\b(?:works?|working|employed|job is|a job|a new job|new position|promoted to|hired|joined)\b\s(?:now\s)?(?:(?:as|for|at|by|in)\b)?"
)
EMPLOYED = re.compile(r"\b(?:job|position|role|offer|works?|working)\b|工作")
JOB_TITLE = re.compile(
    r"^user\s(?:is|was|became|has become)\s(?:now\s)?(?:an?|the)\s(?P<role>[\w -]+?)\s(?:at|for)\s(?P<employer>.+)$"
)
NO_JOB = words(
    "member student volunteer regular patient customer client guest subscriber fan donor shareholder parent vegetarian vegan"
)
ROLE = re.compile(r"\b(?:as|promoted to)\s(?:an?\s|the\s)?(?P<role>.+?)(?:\s(?:at|for|in|with)\s|$)")
EMPLOYER = re.compile(r"\b(?:at|for|joined|by)\s(?P<employer>.+?)(?:\sas\s|$)")
EMPLOYER_CHINESE = re.compile(
    r"在(?P<employer>[^在]+?)(?:工作|当|担任|做)|(?:跳槽|换工作)(?:到|去|至)了?(?P<employer2>.+)$|(?:入职|加入)了?(?P<employer3>.+?)(?:公司)?$"
)
NO_DIET = re.compile(
    r"\b(?:no longer|not|isn't|stopped|quit|gave up)(?: (?!and\b|but\b)\w+){0,2} (?:vegetarian|vegan|pescatarian|keto|flexitarian)\b"
)
DIETS = words("vegetarian vegan pescatarian omnivor omnivore carnivor carnivore flexitarian")
RELATIONSHIPS = {
    stage: re.compile(pattern)
    for stage, pattern in {
        "broke up": r"\b(?:broke up|split up|parted ways|separated from|off (?:the|their|her|his) engagement|engagement (?:is|was) off)\b"
        r"(?! with (?:an?|the|(?:his|her|their) (?!girlfriend|boyfriend|partner|fianc))\b)|分手",
        "divorced": r"\bdivorced?\b|离婚|离异",
        "widowed": r"\bwidow(?:ed|er)?\b|丧偶",
        "married": r"\bmarried\b|已婚|结婚了|结了婚",
        "engaged": r"\bengaged\b|订婚",
        "dating": r"\bdating\b|\bin a (?:\w+ )?relationship\b|\bseeing someone\b|谈恋爱|恋爱中",
        "single": r"^user is (?:now |currently |still )?single\b(?!-)|单身",
    }.items()
}
"""Stages of a relationship; the first that is named counts."""
PREFERENCE = re.compile(r"\bprefers?\s(?P<what>.+?)(?:\s(?:in|on|for|at|when|while|with|during|as)\s(?P<context>.+))?$")
USED = re.compile(
    r"\b(?:uses?|using|prefers?|(?:switched|moved|migrated|changed|transitioned|converted|upgraded)(?:\sover)?\sto)\s(?P<what>.+?)"
    r"\s(?:in|on|for|at|when|while|with|during|as|to)\s(?P<context>.+)$"
)
BECOMES = re.compile(
    r"\b(?:switched|moved|changed|transferred|upgraded|converted|transitioned)(?:\sover)?(?:\sfrom\s.+?)?\sto\s(?P<what>.+)$"
)
PREPOSITION = re.compile(
    r"(?<!goes)(?<!going)(?<!\sis)\s(?:in|on|for|at|when|while|with|during|as|of|from|near|by|because|after|every|each|since|this|last|to|until)\s.*$|,.*$"
)
RANKED = re.compile(
    r"\b(?:prefers?|likes?|loves?|enjoys?)\s(?P<first>.+?)\s(?:over|to|more than|better than|rather than)\s(?P<second>.+)$"
)
OLD_VALUE = re.compile(
    r"\bfrom\s(?P<old1>.+?)\s(?:back\s)?to\s.+$"
    r"|\b(?:replaced|replacing|swapped|traded|exchanged)\s(?P<old2>.+?)\s(?:with|for|by)\s.+$"
    r"|\b(?:sold|got rid of|gave up|left|quit|dropped|ditched|returned|cancelled|canceled)\s(?P<old3>.+?)(?:,\s|\s(?:and|to|for)\s).+$"
    r"|\bstopped (?:\w+ing )?(?P<old7>.+?) (?:and|but) .+$"
    r"|\binstead of\s(?P<old4>.+)$|\brather than\s(?P<old6>.+)$|\bno longer\s(?:\w+\s)?(?P<old5>.+?)(?:\sbut\s|,\s).+$"
)
_INSTITUTIONS = {
    "school": "school nursery kindergarten preschool daycare creche academy",
    "university": "university college polytechnic",
    "gym": "gym fitness crossfit",
    "church": "church parish mosque temple synagogue",
    "clinic": "clinic hospital",
    "party": "party",
}
INSTITUTIONS = {word: kind for kind, named in _INSTITUTIONS.items() for word in named.split()}
"""Places that one belongs to, one of a kind at a time."""
ATTENDED = re.compile(
    r"\b(?:attends|(?:goes|going) to|is at|is a (?:student|pupil|member) (?:at|of)|(?:is )?enrolled (?:at|in)|studies at|trains at"
    r"|(?:switched|switches|moved|transferred|changed)(?: schools?)?(?: from .+?)? to|started (?:at|attending))"
    rf"\s(?:the\s)?(?P<name>(?:(?!and\b|at\b|in\b)[\w'&.-]+\s){{1,4}}?(?P<kind>{'|'.join(INSTITUTIONS)}))\b"
)
PROCEDURE = re.compile(r"^(?P<goal>[^:：]{3,120}?)\s?[:：]\s?(?P<steps>.+)$")
DATED = re.compile(r"^on \d{4}-\d\d-\d\d\b")
BOUND = re.compile(r"\b(?:to|from)\b|\breturn\b")
STRANGER = re.compile(r"^(?!On\b|In\b|At\b|The\b|Every\b|Each\b|A\b|An\b|User)[A-Z][\w-]+(?=\s|')")
EVENT = re.compile(
    r"^(?:on\s[\w-]+\s)?user\s(?:\w+ed|ran|went|bought|saw|had|met|won|lost|got|did|flew|drove|took|made|swam|rode|visited)\b"
)
AUXILIARY = words(
    "user is are was were has have had been be being does do did doesn't don't didn't isn't can cannot can't could will would not no never longer"
    " also now currently usually often sometimes already just still recently regularly really always mostly typically started stopped quit"
    " to decided plans planning plan wants want hopes intends going trying considering of doing using taking gave given up giving cancelled canceled"
    " ended finished sold dropped the a an any anymore more her his their my this that in on at with able unable about thinking begun began"
    " learned how and user's recently since after all"
)
