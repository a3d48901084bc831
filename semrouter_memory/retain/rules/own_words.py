"""What of a message is the user speaking for themselves.

Strategy: everything that may have been pasted, quoted, invented or handed over to be worked on is cut away before any
grammar looks at the text. Cutting too much loses a memory; cutting too little stores somebody else's words as the
user's, or obeys an instruction hidden in a pasted text. So in doubt it is cut.
"""

import re
from functools import lru_cache

from semrouter_memory.language.invisible import visible
from semrouter_memory.retain.rules import asides, enclosed, pasted

MAX_OWN_PARAGRAPH_CHARS = 800
"""A longer paragraph is taken for pasted material: few people type that much in one go."""

MAX_READ_CHARS = 16_000
"""What stands further behind is not read."""

_COMMAND = re.compile(r"(`{1,2})([^`\n]*)\1")
_NO_COMMAND = re.compile(r"\b(?:i|my|we|our|user|remember|always|never|assistant)\b|[\u4e00-\u9fff]", re.IGNORECASE)
_MAX_COMMAND_WORDS = 8
_MARKUP = re.compile(r"<!--.*?(?:-->|\Z)|<(\w+)[^<>]{0,200}>[^<]{0,2000}</\1>", re.DOTALL)
_QUOTED_LINE = re.compile(
    r"^\s*(?:>|\||#|//|/\*|\*/|;|--|\+ |import |from \w+ import|def |class |return |print|const |let |var |function |public |SELECT |INSERT |UPDATE |\$ |\{|\}|\[|\]|\+\+\+|@@"
    r"|At line|at \w+[.(]|Traceback|File \"|npm ERR|\w+(?:Error|Exception)\b|\d{1,2}:\d\d|\d{4}-\d\d-\d\d|(?:INFO|WARN|ERROR|DEBUG|TRACE|FATAL)\b).*$",
    re.MULTILINE,
)
_SPEAKER_LINE = re.compile(
    r"^\s*(?!(?:I|Note|PS|Edit|Update|Background|Context|Also|Question|Remember|Reminder|FYI|Btw)\b)[A-ZÀ-Þ][\w.'-]*(?:\s[A-ZÀ-Þ][\w.'-]*)?(?:\s\([^)\n]{0,40}\))?:\s.*$",
    re.MULTILINE,
)
"""As in "Anna: I live in Paris": a line of a chat or a form that was pasted."""
_ROLE = re.compile(
    r"^\s*(?:[\[<(#*]+\s*)?(?:system|assistant|user|human|ai|bot|tool|function|developer|admin(?:istrator)?|instructions?|tool[ _](?:result|output|call|response)s?|function[ _](?:result|output)|search results?|retrieved|context)"
    r"(?:\s(?:message|prompt|note|result|output))?\s*(?:[\])>*]+\s*:?|:)",
    re.IGNORECASE | re.MULTILINE,
)
_LONG_QUOTE = re.compile(
    r"\"[^\"]*(?:\"|\Z)|“[^”]*(?:”|\Z)|«[^»]*(?:»|\Z)|「[^」]*(?:」|\Z)|『[^』]*(?:』|\Z)|„[^“”]*(?:[“”]|\Z)|(?<!\w)‘[^\n]*?(?:’(?!\w)|$)|《[^》]*(?:》|\Z)|(?<![\w'])'(?!\s)[^'\n]*(?:'\w[^'\n]*)*'(?!\w)"
)
_SETTING = re.compile(r"^\s*[A-Z][A-Z0-9_]{2,}=.*$|\b[A-Z][A-Z0-9_]{2,}=\S+", re.MULTILINE)
_LETTER = re.compile(
    r"^\s*(?:dear\s+\S|(?:hi|hello|hey)\s+(?:[A-ZÀ-Þ]\w+|all|team|everyone|there)(?:\s[A-ZÀ-Þ]\w+)?\s*[,!]?\s*$|to whom it may concern|subject:|from:\s|to:\s|sehr geehrte|尊敬的|亲爱的|\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d)",
    re.IGNORECASE | re.MULTILINE,
)

_WORKED_ON = (
    r"summari[sz]e|sum up|translat\w+|proof-?read|polish|rewrite|re-write|reword|rephrase|paraphrase|correct|edit|improve"
    r"|shorten|analy[sz]e|review|check|fix|convert|classify|extract|grade|critique|transcribe|continue|complete|fill in"
    r"|parse|interpret|respond to|reply to|tl;?dr|simplify|condense|expand on|turn (?:this|these|the following|it) into|make (?:this|these|it) (?:more|less|sound|shorter|longer)|what does"
)
_WORK = re.compile(
    rf"(?:^|[.!?\n]\s*|\b(?:can|could|would|will) you (?:please |pls )?|\b(?:please|pls|help me(?: to)?)\s+)"
    rf"(?:{_WORKED_ON})\b[^.?!\n]*",
    re.IGNORECASE,
)
_HANDED_OVER = re.compile(
    r"(?:^|\n)(?:and|(?:the )?next|now|then|another|also this|this one|one more|q|question|riddle)(?: one)?\s?:|\b(?:(?<!we do )(?<!always do )this|these|the following|following|below|here is(?! how)|here's(?! how)|here are|attached|my code|the code|the text|the error"
    r"|the log|the prompt|says|(?<!I )(?<!i )said|wrote|sent|reads|texted|emailed|posted|replied|answered|(?<!I )asked|asks|complain(?:s|ed)|claim(?:s|ed)|insist(?:s|ed)|shout(?:s|ed)|comment(?:s|ed)|tweeted|admitted|goes|(?:was|is) like"
    r"|e-?mail|message|letter|review|tweet|article|text|bio|profile|transcript|logs?|output|config|readme|ticket|comment|caption|advert?|listing|description|passage|paragraph|sentences?|abstract|essay"
    r"|poem|lyrics|quote|snippet|sign|song|chat|thread|homework|exercise|problem|quiz|example|sample|grammatical|correct|lyric|script|prompt|to (?:write|say|sign|repeat|type)|mantra|motto|slogan|template|story|translation|for instance|riddle|e\.g\.)\b[^.!?\n:]{0,60}:(?!\d|//)",
    re.IGNORECASE,
)
_WORK_CHINESE = re.compile(
    r"(?:翻译|总结|概括|润色|改写|修改|校对|扩写|缩写|续写|解释|分析|检查|纠正)(?:一下|下)?[^。！？!?\n]{0,40}(?:[:：\n]|$)|(?:以下|下面|如下)[^。！？\n]{0,20}[:：]|造句|(?:说|写道|写着|回复|问我|告诉我|发给我|消息|邮件|短信|文章|评论|新闻|通知)[^。！？\n]{0,12}[:：]"
)

_FICTION = re.compile(
    r"\b(?:role-?\s?play\w*|in character|pretend|act as|let(?:'s|s| us) (?:play|practi[sc]e|rehearse|simulate|pretend)|mock interview|play the (?:role|part)|text adventure|dungeon master"
    r"|you(?:'re| are) (?:now )?(?:an? |the |my )(?!bit|little)|you(?:'re| are) (?:now )?(?-i:[A-ZÀ-Þ])[\w'-]+\s?[.,!])"
    r"|(?:^|\n)\s*\*(?!\*)[a-z][^*\n]{3,80}\*"
    r"|(?:扮演|角色扮演|假装|我们来玩|你现在是|从现在起你是|你是我的|你来当)",
    re.IGNORECASE,
)
_INVENTION = re.compile(
    r"\b(?:write|compose|draft|create|generate|make up|invent|tell(?: me)?|continue|give me|need|want|make|help)\b"
    r"[^.?!\n]{0,60}?\b(?:story|stories|poem|song|lyrics|rap|novel|scene|script|screenplay|dialogue|dialog|monologue|fairy tale|haiku"
    r"|limerick|sonnet|character|persona|fan ?fic\w*|joke|riddle|dating profile|speech|example (?:text|sentences?|conversation)"
    r"|sample (?:text|data|letter|conversation)|test data|cover letter|bio|essay)\b|(?:写|编|创作)[^。！？\n]{0,20}(?:故事|小说|诗|歌词|剧本|对话|段子|作文)",
    re.IGNORECASE,
)
_TOLD = re.compile(
    r"\b(?:(?:in|for) (?:my|the|a|this|our) (?:\w+ )?(?:novel|story|book|screenplay|script|dream|campaign|d&d\w*|fan ?fiction|play|comic|film|movie|show|series|song|joke|riddle|game)\b[^.!?\n]{0,60}?[,:]"
    r"|(?:the |my )?(?:protagonist|heroine|hero|narrator|villain|main character|antagonist)\b|(?:in|had) (?:a|my|this|the) (?:\w+ )?(?:dream|nightmare)\b|i (?:dreamt|dreamed)\b"
    r"|in (?:the )?first person|from the (?:perspective|point of view|viewpoint) of|第一人称|as an? [\w-]+(?: [\w-]+)?, i (?:want|need|can|should|must)\b|knock knock|why did the|a man walks into)",
    re.IGNORECASE,
)
_EMBEDS = re.compile(
    r"\b(?:this|the following|the next) (?:sentence|quote|quotation|paragraph|phrase|passage|verse)s?\b|\b(?:books?|articles?|web ?sites?|signs?|letters?|poems?|songs?|manuals?|reports?|pages?|posts?|sites?|labels?|plaques?|notes?|e-?mails?)\s(?:it\s)?(?:says?|said|reads?|states?)\b"
    r"|\bit (?:says|reads|states)\b|\b(?:respondents?|customers?|authors?|reviewers?|commenters?|posters?|narrators?)\b[^.!?\n]{0,20}\b(?:wrote|writes|commented|posted|stated)\b"
    r"|\bhow many (?:words|letters|characters|vowels|syllables|sentences|tokens)\b|\bcorrect to say\b|\b(?:french|german|spanish|italian|portuguese|dutch|polish|turkish|russian|chinese|japanese|korean|english|swedish|latin) (?:for|translation|version)\b"
    r"|(?:^|\n)\W*repeat\b|\bregex(?:es|p)?\s(?:against|on)\b|\bexplain this\b|\bmeaning of\b|\bcaption for\b|\bemojify\b|\b(?:someone|somebody|a person|people) who (?:says?|said|writes?)\b|\bwho said\b|\bis (?:it|this|that) (?:sarcasm|irony|ironic|sarcastic|a joke|grammatical|true)\b|\b(?:texted|messaged|e-?mailed|dmed|whatsapped|wrote(?: to)?)\s(?:me|us)\s(?=(?:I|I'm|my|we|our|remember|from now|the user)\b)|\baccording to (?:the|a|this|their|his|her)\b"
    r"|(?:^|\n)\W*(?:in|into) (?:french|german|spanish|italian|portuguese|dutch|polish|turkish|russian|chinese|japanese|korean|english|swedish)\b[^.!?\n]{0,12}:"
    r"|(?:这|下面|以下|下列|那)(?:一)?(?:段|句|篇|个|条)?(?:话|句子|文字|文章|段落|内容)[^。！？\n]{0,14}[。！？!?]|(?:跟我读|朗读|复述|译成|译为)",
    re.IGNORECASE,
)
"""A sentence that carries another's words, without a colon or marks around them."""
_WORD_PROBLEM = re.compile(
    r"\bhow (?:many|much|long|far|old|fast)\b[^?]{0,80}\b(?:altogether|in total|total|left|remain\w*|each|together|does (?:he|she|it|they|\w+) (?:need|have|take)|will (?:he|she|it|they))\b|\bsolve\b",
    re.IGNORECASE,
)
_INSTANCE = re.compile(
    r"\b(?:for example|for instance|as an example|e\.g\.|in a parallel universe|in (?:another|an alternate|a different) (?:life|timeline|world|reality)|once upon a time|\w*(?:Error|Exception|Warning)\s?:)|例如|比如说?",
    re.IGNORECASE,
)
_NOT_SERIOUS = re.compile(
    r"\b(?:tarot|horoscopes?|fortune (?:cookie|teller|telling)|palm reading|i ching|ouija|crystal ball|past life|(?:which|what) (?:character|house|princess|animal|hero) am i|character sheet|d&d sheet|two truths|in (?:this|that|the|my) (?:video ?)?(?:game|rpg|level|quest|campaign|dungeon|simulation)|(?:20|twenty) questions|hangman|trivia|d&d|dnd|dungeons?|skyrim|minecraft|pokemon|zelda|fortnite|hit points|mana|my (?:character|rook|knight|bishop|queen|pawn|elf|wizard|paladin)|checkmate|level \d+"
    r"|(?:what|who) am i\?|(?<!\bI )guess (?:what|who|which|my|where|how old|how many)|who (?:said|wrote|sang) (?:that|this|it)|(?:which|what) (?:movie|film|song|book|show|game) is (?:this|that)|where is (?:this|that) (?:quote |line )?from|next line"
    r"|test test|this is (?:just |only )?a test|testing (?:1|one)|test user|test account|lorem ipsum)(?!\w)|^as [A-ZÀ-Þ]\w+, I\b",
    re.IGNORECASE,
)
"""Games, quizzes, quotations and try-outs: nothing of such a message is read."""
_MANY_NUMBERS = 3
_LED_IN = re.compile(
    r"(?:^|\n|[.!?]\s)(?![^:\n.!?]{0,60}\b(?:I|I'm|I've|i'm|im|my|me|we|our|us|you|your|to|for|context|background|update|fyi|note|notes|btw|edit|ps|ok|so|things?|questions?|problem|issue|reminder|remember|important|also|situation|details|info|facts?|goals?"
    r"|constraints?|now on|first|second|next|plus|reality|truth|summary|preferences?|requirements?|rule|rules|allerg\w+|correction|setup|answers?|yes|no|status|profile|plan|reason|because|deal)\b)[^:\n.!?]{2,60}:\s+(?=[\"'“]?(?:I|I'm|I've|I'd|im|ive|my|we|our|please|remember|from now|always|never|users?|the user)\b)",
    re.IGNORECASE,
)
"""As in "from the forum: I'm 44": words that something else leads in than the user's own."""
_QUOTE_WORDS = 4
_HAN = re.compile(r"[\u4e00-\u9fff]")


@lru_cache(64)
def own_words(text: str) -> str:
    """The part of a message in which the user speaks as themselves, about what is.

    Asked for when the turn is accepted, and again when it is read and when the next one is.
    """
    text = visible(text)
    whole, text = tidied(text), tidied(pasted.without(enclosed.without(text[:MAX_READ_CHARS])))
    if asides.confidential(whole) or asides.of_a_game(whole) or _NOT_SERIOUS.search(whole) or _is_word_problem(whole):
        return ""
    text = _MARKUP.sub(" ", _COMMAND.sub(_command, text))
    text = _LONG_QUOTE.sub(_short_quote, text)
    text = _QUOTED_LINE.sub("", text)
    text = _SETTING.sub(" ", text)
    if text.count("\n"):
        text = _SPEAKER_LINE.sub("", text)
    for start in (_ROLE, _LETTER):
        text = _before(start, text)
    for start in (_WORK, _HANDED_OVER, _WORK_CHINESE, _EMBEDS):
        text = _around(start, text)
    for start in (_FICTION, _INVENTION, _TOLD, _INSTANCE, asides.SUPPOSES, _LED_IN):
        text = _before(start, text)
    text = text.replace(enclosed.TAKEN_OUT, "")
    if asides.injects(text):
        return ""
    return "\n".join(paragraph for paragraph in text.split("\n") if len(paragraph) <= MAX_OWN_PARAGRAPH_CHARS)


def _is_word_problem(text: str) -> bool:
    """As in "Ann has 5 pens, I have 7. How many are left?"."""
    return len(re.findall(r"\d+", text)) >= _MANY_NUMBERS and bool(_WORD_PROBLEM.search(text))


def tidied(text: str) -> str:
    """The part that is read, without empty lines and runs of blanks, on which the patterns would dwell."""
    lines = (" ".join(line.split()) for line in text[:MAX_READ_CHARS].splitlines())
    return "\n".join(line for line in lines if line)


def _command(match: re.Match[str]) -> str:
    """A command or name in backticks stays, prose goes."""
    code = match.group(2)
    return " " if len(code.split()) > _MAX_COMMAND_WORDS or _NO_COMMAND.search(code) else code


def _short_quote(match: re.Match[str]) -> str:
    """A quoted word or name stays, without changing what it says; a quoted sentence goes."""
    quoted = match.group()
    return (
        quoted
        if len(quoted.split()) + len(_HAN.findall(quoted)) // 2 < _QUOTE_WORDS
        and len(quoted) <= MAX_OWN_PARAGRAPH_CHARS // 20
        else " "
    )


def _before(start: re.Pattern[str], text: str) -> str:
    found = start.search(text)
    return text[: found.start()] if found else text


def _around(start: re.Pattern[str], text: str) -> str:
    """Without all that is handed over; of what stood between marks right behind, the text goes on after it."""
    kept, rest = "", text
    while found := start.search(rest):
        kept += rest[: found.start()]
        behind = _TAKEN_OUT_BEHIND.match(rest, found.end())
        if not behind:
            return kept
        rest = rest[behind.end() :]
    return kept + rest


_TAKEN_OUT_BEHIND = re.compile(rf"[^\n]*\n?{enclosed.TAKEN_OUT}")
