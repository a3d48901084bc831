"""Texts that were pasted into a message without marks around them: letters, pages, transcripts, reviews. Pure.

Strategy. Such a text gives itself away by how it is laid out (a subject line, a heading, a signature, speakers, stars), by how
it is introduced ("got this mail today"), by what is asked of it ("summarise the above"), or by its length. Where it ends nobody
can tell, so all of it goes that is not plainly the user speaking to the assistant: what stands before a text that is introduced
or has a head, and the last line where that asks something about the text. In doubt it is cut.
"""

import re
from collections.abc import Sequence

from semrouter_memory.retain.rules.enclosed import TAKEN_OUT

MAX_TYPED_CHARS = 2_500
"""A message in which more than this is left over is taken for a pasted text: few people type that much."""

_TEXTS = (
    r"(?:articles?|e-?mails?|mails?|letters?|messages?|reviews?|posts?|blog(?: ?post)?s?|texts?|pages?|web ?(?:site|page)s?|transcripts?|transcriptions?|lyrics|poems?|prompts?"
    r"|tweets?|comments?|documents?|docs?|files?|notes|minutes|logs?|outputs?|results?|scans?|ocr|voicemails?|speech(?:es)?|monologues?|dialogues?|conversations?|chats?|threads?"
    r"|stor(?:y|ies)|chapters?|contracts?|leases?|agreements?|adverts?|ads?|bios?|profiles?|cvs?|resumes?|résumés?|sentences?|paragraphs?|passages?|quotes?|quotations?|excerpts?|extracts?"
    r"|abstracts?|essays?|statements?|testimon(?:y|ies)|tickets?|newsletters?|announcements?|descriptions?|captions?|snippets?|paste|copy|instructions?|notices?|testimonials?|memos?|reports?"
    r"|文章|邮件|来信|信件?|段话|句话|段文字|文字|评论|网页|消息|短信|新闻|内容|作文|文档|资料|材料|歌词|诗|简历|合同|聊天记录|对话|公告|通知|帖子|报告|日记|译文|原文|字幕|转录|结果)"
)
_POINTS = (
    r"(?:this|that|these|those|the above|above|below|following|here|attached|他|她|这|那|以下|下面|如下|上面|以上|上述)"
)
_RECEIVED = r"(?:found|got|gotten|received|copied|pasted|pasting|saw|read|came across|came in|was sent|forwarded|returned|returns|says|said|wrote|shows|收到|看到|读到|发来|发给我|找到|复制)"

_INTRODUCES = re.compile(
    rf"\b{_RECEIVED}\b[^.!?\n]{{0,60}}\b{_TEXTS}(?![\w-])|\b{_TEXTS}\b[^.!?\n]{{0,40}}\b{_RECEIVED}\b|\b{_POINTS}\s(?:[\w'-]+\s){{0,2}}{_TEXTS}(?![\w-])|\b{_TEXTS}\s(?:below|above|follows?|here)\b"
    rf"|\b(?:below|following|the above)\b|\b(?:copied|pasted|taken|quoted|quoting|forwarded|straight|verbatim)\s(?:this\s|it\s)?(?:from|by|out of)\b|\breturned this\b|\b(?:writes|wrote|texted|e-?mailed|messaged|replied|posted|whatsapped)(?: (?:me|us|back))?\s*$"
    rf"|(?:{_POINTS}|{_RECEIVED})[^。！？\n]{{0,12}}{_TEXTS}|{_TEXTS}[^。！？\n]{{0,8}}(?:如下|{_RECEIVED})",
    re.IGNORECASE,
)
"""A line that says that a text comes, of what is on the lines behind it."""
_POINTS_ON = re.compile(
    r"\b(?:this|these|following|below|here|have a look|take a look)\W*$|\b(?:thoughts|opinions|your take|comments)\s?\?\W*$|(?:这个|这篇|这段|下面|如下|以下)\W*$|(?:看看|看一下)\W*$",
    re.IGNORECASE,
)
_WORKS = re.compile(
    r"(?:^|[.!?。！？]\s*|\b(?:please|pls|you|help me(?: to)?|and|to)\s+|请|帮我|麻烦)\s*(?:just\s+)?(?:summari[sz]e|sum up|tl;?dr|translate|proof-?read|spell[- ]?check|check (?:the|my|this) (?:spelling|grammar)|paraphrase|rephrase|reword|rewrite"
    r"|polish|shorten|simplify|classify|transcribe|extract|explain this|analy[sz]e (?:this|the)|continue (?:this|the)|improve (?:this|the)|correct (?:this|the)|make this|fix (?:this|the) (?:text|grammar|spelling)"
    r"|match the regex|repeat (?:after me|this)|say (?:after me|this)|count the (?:words|letters)"
    r"|总结|概括|翻译|润色|改写|修改|校对|改一?下|改改|判断|分析|朗读|跟我读|续写|解释)",
    re.IGNORECASE,
)
_ASKS_ABOUT = re.compile(
    rf"\b(?:summari[sz]e|sum up|translate|proof-?read|paraphrase|rephrase|reword|rewrite|polish|shorten|simplify|explain|analy[sz]e|classify|extract|check|correct|improve)\b[^.?!\n]{{0,30}}\b(?:this|that|these|it|above|the {_TEXTS})\b"
    r"|^\W*(?:(?:please|pls|can you|could you)\s)?(?:tl;?dr|eli5|summari[sz]e|summary|translate|translation|explain|explanation|thoughts|opinions?|proof-?read|analy[sz]e|sentiment|key points)\b(?:\s(?:please|pls|for me|it|in|into|to|it|[A-Z]\w+|\d+|words?|sentences?)\b)*+\W*$"
    rf"|\b(?:this|that|these|the|her|his|their)\s(?:[\w'-]+\s)?{_TEXTS}(?![\w-])[^.!\n]{{0,80}}\?|\b(?:the above|above text|aforementioned|this (?:guy|person|woman|man|author|writer|customer))\b"
    r"|\bhow (?:should|do|can|would|shall) (?:I|we|you) (?:reply|respond|answer|react|write back)\b|\bwhat (?:should|do|shall) (?:I|we) (?:answer|reply|say|write back)\b|^\s*(?:\^|↑|👆)"
    r"|\bmake (?:it|this|that)\s(?:better|longer|shorter|more|less|sound|clearer|funnier)|\b(?:any|find(?: the)?|fix(?: the)?) (?:grammar|spelling|typos?|mistakes|errors)\b|\b(?:tone|style|grammar|spelling|wording) (?:ok|okay|fine|right|good|correct|appropriate)\b|\bis the (?:tone|style|grammar|spelling|wording)\b|^\W*(?:请|帮我|麻烦|帮忙)*(?:总结|概括|翻译|润色|解释|分析|改写)(?:一下|下)?\W*$|\bis (?:this|that|it|he|she) (?:spam|legit\w*|a scam|phishing|real|true|reliable|genuine|fake|trustworthy|correct|grammatical|right\?|well written|ai[- ]generated|serious)\b|\bwho (?:wrote|said|is writing|is saying|is (?:this|that)|is right)\b"
    r"|\bwhat (?:does|did|do|is) (?:this|that|she|he|they|the author|the writer)\b[^.!\n]{0,20}\b(?:mean|say|saying|about|want)\b|\bwhat (?:is|are|was) (?:this|that|these|it)(?: about)?\s*\?|\bwhat's (?:this|that|it)(?: about)?\s*\?"
    r"|(?:->|=>|→|\bin|\bto|\binto)\s(?:plain )?(?:english|french|german|spanish|italian|portuguese|dutch|polish|turkish|russian|chinese|japanese|korean|swedish|latin)(?:\s(?:please|pls))?\s*[?.!]?\s*$"
    r"|(?:上面|以上|上述|这(?:段|篇|封|句|首|个|条|份|是|些)|那(?:段|篇|封|句))[^。！\n]{0,20}(?:总结|概括|翻译|意思|什么|可靠|真的|诈骗|怎么|对吗|谁|吗|看法)|(?:总结|概括|翻译|润色|解释|分析)(?:一下|下)?(?:上面|以上|上述|这)|(?:怎么|如何)(?:回复|回答|回信)|(?:英文|英语|法语|德语|日语|中文)怎么说|什么意思|是谁(?:说|写)的",
    re.IGNORECASE,
)
"""A last line that asks something about the text before it."""

_HEAD = re.compile(
    r"^\s*(?:"
    r"(?:subject|from|to|cc|bcc|sent|date|reply-to|betreff|objet|asunto|主题|发件人|收件人|标题|作者|来源|日期|姓名|用户名|full name|user ?name|name)\s*[:：]|(?:re|fwd?|fw|aw|wg)\s?:\s|转发\s*[:：]"
    r"|on .{4,80} wrote:|.{0,40}(?:original|forwarded|weitergeleitete) message\b|begin forwarded"
    r"|#{1,6}\s*\w(?!.*\b(?:my|me|i)\b)|\*{0,2}(?:chapter|section|part|page|appendix|article|episode|scene|act)\s(?:\d+|[ivx]+\b|one\b)"
    r"|《[^》\n]{1,30}》\s*$|(?:作文|日记|小说|散文|诗歌|演讲稿?)\s*[:：]|(?:各位|诸位)[\u4e00-\u9fff]{1,6}[:：]|(?!请|帮|麻烦|我)[\u4e00-\u9fff]{2,6}[:：]\s*$"
    r"|by [A-ZÀ-Þ]\w+ [A-ZÀ-Þ]\w+\s*$|(?:第[一二三四五六七八九十\d]+[章节页回])"
    r"|\[?\(?\d{1,2}:\d\d(?::\d\d)?(?:[,.]\d+)?\b(?!\s*(?:am|pm|uhr|h)?\s\w+\s\w+)|(?:(?-i:[A-ZÀ-Þ])[\w'’.-]*(?:\s(?-i:[A-ZÀ-Þ])[\w'’.-]*){0,2}|[\u4e00-\u9fff]{1,4})\s+\d{1,2}:\d\d(?::\d\d)?\s?(?:am|pm)?\s*$|.{1,40}[—–-]\s(?:today|yesterday|heute) at\b|\d{1,2}[/.]\d{1,2}[/.]\d{2,4},?\s.{0,14}[-–:]|\[\d{1,2}[:/.]"
    r"|(?:file(?:name)?|attachment|attached|anhang|附件)\s*[:：]|\[attach\w*|\S+\.(?:txt|md|docx?|pdf|csv|html?|json|ya?ml|eml|log|rtf|xlsx?)\b:?\s*$"
    r"|https?://\S+\s*$|www\.\S+\s*$|from https?://|@\w+(?:\s·.*)?$|u/\w+|r/\w+\s*$|posted by\b|.{0,40}\b\d+ min(?:ute)?s? read\b|.{1,60}\s[•·|]\s.{1,40}$"
    r"|(?:rating|评分)\s*[:：]|.{0,20}[★⭐☆]{2,}|\d(?:\.\d)?/(?:5|10)\b|.{0,20}[一二三四五]星\s*$|ticket\s#?\d|commit [0-9a-f]{6,}|author:|test case\b.{0,10}:|survey|answer \d+ of \d+"
    r"|(?:interviewer|candidate|speaker|respondent|customer|witness|patient|agent|caller|narrator|operator|observation|thought|action|web ?page|page content|note to (?:the )?(?:ai|assistant)|memory|memories)\b[^.!?\n]{0,30}[:\]]"
    r"|\[(?:memor(?:y|ies)|system|note|context|doc\w*|source|page|scan|transcript)\b|【[^】\n]{1,12}】"
    r"|(?:affidavit|curriculum vitae|advertisement|transcript|minutes|witness statement|press release|terms and conditions)\b"
    r"|(?:\w[\w ]{0,20},){2,}\w[\w ]{0,20}\s*$|[^\n\t]{0,60}\t[^\n]*\t"
    r"|(?:dear\s+\S|to whom it may concern|to my \w+\s*$|sehr geehrte|尊敬的|亲爱的|致[\u4e00-\u9fff]{1,8}[:：])"
    r")",
    re.IGNORECASE,
)
"""A line that begins a text with a form of its own."""
_SHOUTED_HEAD = re.compile(r"^\s*+(?!.*\b(?:I|MY|ME|HELP|PLEASE|YOU|WE)\b)(?=(?:[^A-Za-z\n]*[A-Z]){8})[^a-z\n]{4,80}$")
_TITLED_HEAD = re.compile(
    r"^\s*+(?!(?:I|I'm|We|My|Our)\b)(?:[A-ZÀ-Þ][\w'’-]*+|[a-z]{1,4}|&|\d++)(?:[\s:,–-]++(?:[A-ZÀ-Þ][\w'’-]*+|(?:an?|the|of|in|on|and|to|for|with|my|by|from)\b|&|\d++)){2,9}+\s*$"
)
_TAIL = re.compile(
    r"^\s*(?:(?:(?:best|kind|warm|warmest)(?: regards| wishes)?|regards|sincerely(?: yours)?|yours (?:sincerely|faithfully|truly)|yours|respectfully|cordially|all the best|mit freundlichen gr[üu](?:ß|ss)en|cheers|love|xoxo)\s*,?\s*$"
    r"|此致|敬礼|祝好|敬上|谨上|\d+\s(?:people found|replies|comments|likes|retweets|upvotes|shares)\b|reviewed in\b|helpful\?|page \d+ of \d+|swipe right|share this|subscribe\b|sent from my\b|copyright|©|all rights reserved)",
    re.IGNORECASE,
)
"""A line that ends such a text: it stands before it."""
_SPEECH_LINE = re.compile(
    r"^\W{0,4}(?!(?:i|my|we|our|and|also|so|ps|note|edit|update|background|context|question|remember|reminder|fyi|btw|for|about|please)\b)(?:[\w.'-]{1,24}(?:\s[\w.'-]{1,16}){0,2})\W{0,3}[:>]\W{0,3}\s?(?=\S)",
    re.IGNORECASE,
)
_LABEL_CHINESE = re.compile(
    r"(?:^|(?<=[。！？!?\s]))(?![^：:\s]{0,6}(?:我|记住|记得|记一下|请记|别忘|另外|备注|补充|更正|提醒|注意|预算|目标|要求|顺便|其实|步骤|流程|方法))[^，。！？：:\s]{1,12}[:：](?=[^\n]*(?:我|用户|记住|以后))[^\n]*"
)
_TOLD_CHINESE = re.compile(
    r"(?:他|她|他们|她们|小[\u4e00-\u9fff]|老[\u4e00-\u9fff]|朋友|同事|老师|老板|客户|网友|对方|作者|有人|书里|文中|里面|俗话|古人|《[^》]*》里?)(?:也|又|还)?(?:发(?:来)?(?:消息|短信|邮件|微信)|打电话)?(?:来)?(?:跟|对|和|向)?(?:我|我们|大家)?(?:说|讲|告诉我|写道?|写着|问)(?:了|过|着)?[，,：:]?(?=请?(?:我|记住|记得|用户|以后|你))[^。！？\n]*"
)
_MACHINES = re.compile(
    r"\b(?:attention|note to|notice to|message (?:to|for)|instructions? (?:to|for)|dear|to (?:the|any|all)|if you(?:'re| are)(?: an?| the)?|any|all|you,)\s(?:the\s|any\s|an?\s)?(?:ai|llm|language model|chatbot|assistant|bot|model|agent)s?\b(?!\s(?:manager|professor|editor|coach|store|conference|course|engineer))"
    r"|\b(?:ai|llm|language model|chatbot)s?(?: assistants?| agents?| models?)?\s(?:reading|processing|that reads?|who reads?|must|are instructed|shall)\b|(?:AI|人工智能|机器人|助手|模型)(?:请|必须|应当|注意)",
    re.IGNORECASE,
)
"""Words to whatever machine reads them: nobody speaks so to their own assistant."""


def without(text: str) -> str:
    """What of a message, enclosed texts taken out, the user may have typed."""
    if _MACHINES.search(text):
        return ""
    lines = [_LABEL_CHINESE.sub("", _TOLD_CHINESE.sub("", line)) for line in text.split("\n")]
    lines = ["" if _HASHTAGS.search(line) else line for line in lines]
    last = _last(lines)
    if last is None:
        return ""
    if _ATTRIBUTED.search(lines[last]):
        return "\n".join(_frame(lines[:last]))
    if _ASKS_ABOUT.search(lines[last]) and not _enclosed_last(lines[:last]):
        return "\n".join([*_frame(lines[:last]), _own_line(lines[last], alone=not any(map(str.strip, lines[:last])))])
    ends = [number for number, line in enumerate(lines) if _TAIL.match(line)]
    if ends and any(map(str.strip, lines[: ends[0]])):
        return "\n".join(_frame(lines[: ends[0]]))
    kept = lines[: _begins(lines)]
    if sum(map(len, kept)) > MAX_TYPED_CHARS:
        return ""
    return "\n".join(line for line in kept if not (_SPEECH_LINE.match(line) and len(kept) > 1 and _speakers(kept) > 1))


def _last(lines: Sequence[str]) -> int | None:
    return next((number for number in reversed(range(len(lines))) if lines[number].strip()), None)


def _enclosed_last(lines: Sequence[str]) -> bool:
    """Whether the last thing that was said is a text between marks: then it is that which is asked about."""
    last = _last(lines)
    return last is not None and lines[last].strip() == TAKEN_OUT


def _begins(lines: Sequence[str]) -> int:
    """The line from which on a text is not the user's, as far as its layout or its introduction says."""
    last = _last(lines)
    for number, line in enumerate(lines):
        if _HEAD.match(line) and line.strip():
            return number
        if number == last:
            break
        if not any(map(str.strip, lines[:number])) and line.strip() and _is_headline(line):
            return number
        if _SHOUTED_HEAD.match(line) or (_TITLED_HEAD.match(line) and not lines[number + 1].strip()):
            return number
        if _INTRODUCES.search(line) or _WORKS.search(line) or _POINTS_ON.search(line) or _is_title(line):
            following = next(each.strip() for each in lines[number + 1 :] if each.strip())
            if following != TAKEN_OUT:
                return number + 1
    return len(lines)


def _is_headline(line: str) -> bool:
    """A first line that is no sentence and speaks to nobody: the name of what follows."""
    bare = line.strip()
    if _HAN.search(bare):
        return len(bare) <= _HEADLINE_CHARS and not re.search(r"[我你您咱请帮，。！？!?]", bare)
    return (
        len(bare.split()) <= _HEADLINE_WORDS
        and bool(_HEADLINE.match(bare))
        and not _SPEAKS_TO.search(bare)
        and not bare.endswith((".", "!", "?", ":", "…"))
    )


def _is_title(line: str) -> bool:
    """A few words that name a text and say nothing else: "voicemail transcription"."""
    words = line.split()
    return (
        0 < len(words) <= _TITLE_WORDS
        and bool(_TEXT_ALONE.search(line))
        and not _SPEAKS.search(_RELATIVE.sub("", line))
        and not line.rstrip().endswith("?")
    )


_TITLE_WORDS = 8
_HEADLINE_WORDS, _HEADLINE_CHARS = 10, 12
_HAN = re.compile(r"[\u4e00-\u9fff]")
_HEADLINE = re.compile(
    r"(?!(?i:hi|hello|hey|thanks|thank|ok|okay|quick|update|btw|also|about|question|note|my|our|yes|no|sure|great|good|well|so|oh|please|remember|reminder|context|background|details|info|facts|for|just|i|we|btw)\b)[A-ZÀ-Þ\[(\d]|(?:My|Our)(?:\s[A-ZÀ-Þ]\w+){2,}"
)
_SPEAKS_TO = re.compile(r"\b(?:I|I'm|I've|im|ive|you|your|we|me|us|please)\b", re.IGNORECASE)
_HASHTAGS = re.compile(r"\s#[A-Za-z]\w+\s*$")
_ATTRIBUTED = re.compile(r"(?:^|\s)[-–—]{1,2}\s?[A-ZÀ-Þ][\w.'’-]+(?:\s[A-ZÀ-Þ][\w.'’-]+){1,3}\s*$")
"""As in "I live in a tree. - Anna Berg"."""
_TEXT_ALONE = re.compile(
    rf"(?:^|\b(?:an?|the|some|of|here is|here's)\s|\b\w+\s){_TEXTS}\b|{_TEXTS}\s*[:：]?\s*$", re.IGNORECASE
)
_RELATIVE = re.compile(
    r"\b(?:that |which )?(?:I|we) (?:really )?(?:like|love|found|know|saw|read|got|have|had)\W*$", re.IGNORECASE
)
_SPEAKS = re.compile(
    r"\b(?:I|I'm|I've|im|my|me|we|our|us|you|your|need|want|looking|write|draft|help|give|find|recommend|suggest|make|send|is|are|was|were|has|have)\b|我|你|写|推荐|帮",
    re.IGNORECASE,
)


def _frame(before: Sequence[str]) -> list[str]:
    """Of what stands before a question about a text: the lines that introduce it, if any do."""
    begins = _begins([*before, "x"])
    return list(before[:begins]) if begins < len(before) else []


def _own_line(line: str, *, alone: bool) -> str:
    """The line that asks about a text. When nothing stands before it, the text is in the line itself."""
    return "" if alone and _WITHIN.search(line) else line


_WITHIN = re.compile(
    r"(?:->|=>|→|\bin|\bto|\binto)\s(?:english|french|german|spanish|italian|portuguese|dutch|polish|turkish|russian|chinese|japanese|korean|swedish|latin)\W*$|怎么说|什么意思|是谁(?:说|写)的|tl;?dr\W*$",
    re.IGNORECASE,
)


def _speakers(lines: Sequence[str]) -> int:
    return sum(bool(_SPEECH_LINE.match(line)) for line in lines)
