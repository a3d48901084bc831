"""Chinese clauses in the first person that are worth remembering: 我住在厦门 -> 用户住在厦门."""

import re
from collections.abc import Mapping

from semrouter_memory.retain.wordlist import words

_HAN = re.compile(r"[\u4e00-\u9fff]")
_SENTENCE = re.compile(r"[。！!；;\n]+|(?<=[？?])")
_CLAUSE = re.compile(r"[，,]+")
_QUESTION = re.compile(
    r"[？?]|吗$|呢$|什么|怎么|怎样|为什么|为啥|哪|多少|几[个点岁]|是不是|能不能|可不可以|可以.{0,6}吗|如何|谁"
)
_UNREAL = re.compile(r"如果|假如|假设|要是|万一|想象|假装|扮演|开玩笑|梦见|但愿|希望你|就好了")
_REQUEST = re.compile(
    r"^(?:请|麻烦|帮|给我|替我|告诉我|教我|写|翻译|推荐|列|生成|解释|总结|我想(?:问|知道|了解|请|让你|要你|看看)|我要你|我需要你|我希望你|我想让)"
)
_PASSING = re.compile(
    r"我(?:们)?(?:觉得|认为|感觉|以为|不知道|不确定|不懂|不明白|明白|知道|懂了|看|试|饿|困|累|好累|很累|忙|来|去睡|先|刚才|刚刚试|等|再|说|问|没事|在想|有(?:个|一个|点)?(?:问题|疑问|想法))"
)
_LEAD = re.compile(
    r"^(?:嗯+|好的?|行|哦|啊|对了?|那|其实|另外|还有|顺便(?:说一下|提一下|说)?|不过|而且|因为|所以|但是?|然后|你好|您好|谢谢|哈哈+|唉|最近|目前|现在)[，,、\s]*"
)
_TAIL = re.compile(r"(?:哈哈+|呵呵|啦|哦|呀|呢|吧|嘛|[。！!~～…\s])+$")

_KIN = "妈妈?|母亲|爸爸?|父亲|爷爷|奶奶|外公|外婆|姥姥|姥爷|哥哥?|弟弟?|姐姐?|妹妹?|老婆|妻子|太太|老公|丈夫|先生|女儿|儿子|孩子|女朋友|男朋友|女友|男友|叔叔|阿姨|舅舅|姑姑|表[哥弟姐妹]|堂[哥弟姐妹]|同事|朋友|室友|老板|领导|医生|老师|邻居|房东|狗|猫"
_FEMALE = words("妈 妈妈 母亲 奶奶 外婆 姥姥 姐 姐姐 妹 妹妹 老婆 妻子 太太 女儿 女朋友 女友 阿姨 姑姑")
_FULL = {"妈": "妈妈", "爸": "爸爸", "哥": "哥哥", "弟": "弟弟", "姐": "姐姐", "妹": "妹妹"}
_KIN_SUBJECT = re.compile(rf"^我(?:们)?(?:家)?(?:的)?({_KIN})(?!的)")
_STATE = re.compile(
    r"叫|姓|名字|住|家在|老家|来自|是|有|养了?|喜欢|爱|讨厌|不喜欢|不爱|偏好|更喜欢|习惯|不吃|吃素|不喝|不能|不会|过敏|预算|生日|岁|工作|上班|从事|当|做.{1,6}(?:工作|生意)"
    r"|学|读|毕业|搬|用|开|租|买|打算|计划|准备|想(?:去|学|买|换|成为|减|考)|每[天周月年]|经常|总是|从不|患|得了|确诊|怀孕|结婚|离婚|订婚|负责|擅长|会说|怕|戒|吃|身高|体重|在"
)
_AT = re.compile(r"^(?:我|我们|用户)在([\u4e00-\u9fffA-Z]\S{1,12})$")
_BUSY = re.compile(r"^我(?:们)?(?:正)?在(?:做|写|看|用|试|想|找|学习怎么|调|跑|弄|等|考虑|忙)")
_NO_TOPIC = re.compile(r"^我(?:们)?的(?:问题|意思|代码|程序|脚本|想法|理解|作业|文章|论文题|电脑坏|报错)")
_INSTRUCTION = re.compile(r"^(?:请)?(?:以后|今后|从现在(?:开始|起)|往后)(?:都|请|一律|就)*(?P<wish>.{2,})$")


def is_chinese(text: str) -> bool:
    return bool(_HAN.search(text))


def sentences(text: str) -> list[str]:
    return [sentence.strip() for sentence in _SENTENCE.split(text) if sentence.strip()]


def statements(sentence: str, people: Mapping[str, str], *, trusted: bool = False) -> tuple[list[str], dict[str, str]]:
    """Statements of a sentence in the third person, and whom 他/她 stand for afterwards."""
    known = dict(people)
    if _UNREAL.search(sentence):
        return [], known
    if wish := _INSTRUCTION.match(_LEAD.sub("", sentence)):
        return ([] if _QUESTION.search(sentence) else [f"用户希望助手以后{_third(wish.group('wish'))}"]), known
    found: list[str] = []
    for unit in _units(sentence):
        known |= _introduced(unit)
        if statement := _statement(unit, known, trusted=trusted):
            found.append(statement)
    return found, known


def _units(sentence: str) -> list[str]:
    """Clauses; one without a subject of its own belongs to the one before."""
    units: list[str] = []
    for clause in _CLAUSE.split(sentence):
        bare = _LEAD.sub("", clause.strip())
        if not bare:
            continue
        if units and not re.match(r"我|咱|俺|她|他|请|帮|你|能|可以", bare) and not _QUESTION.search(bare):
            units[-1] = f"{units[-1]}，{bare}"
        else:
            units.append(bare)
    return units


def _statement(unit: str, people: Mapping[str, str], *, trusted: bool) -> str:
    unit = _TAIL.sub("", unit)
    if not re.match(r"我|咱|俺|她|他", unit):
        return unit if trusted and unit and not _QUESTION.search(unit) else ""
    if (
        _QUESTION.search(unit)
        or _REQUEST.match(unit)
        or _PASSING.match(unit)
        or _BUSY.match(unit)
        or _NO_TOPIC.match(unit)
    ):
        return ""
    if unit[0] in "她他":
        who = people.get(unit[0], "")
        return who + unit[1:] if who and _STATE.search(unit) else ""
    return _third(unit) if trusted or _STATE.search(unit) or _AT.match(unit) else ""


def _third(text: str) -> str:
    text = _KIN_SUBJECT.sub(lambda match: f"用户的{_FULL.get(match.group(1), match.group(1))}", text)
    return re.sub(r"我们|咱们|我|咱|俺", "用户", text)


def _introduced(unit: str) -> dict[str, str]:
    kin = _KIN_SUBJECT.match(unit)
    if not kin:
        return {}
    name = f"用户的{_FULL.get(kin.group(1), kin.group(1))}"
    return {"她": name} if kin.group(1) in _FEMALE else {"他": name}
