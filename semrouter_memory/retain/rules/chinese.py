"""Chinese clauses in the first person that are worth remembering: 我住在厦门 -> 用户住在厦门."""

import re
from collections.abc import Mapping

from semrouter_memory.retain.wordlist import words

_WISH = "用户希望助手"
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
_NEUTRAL = words("孩子 同事 朋友 室友 老板 领导 医生 老师 邻居 房东 狗 猫")
_KIN_SUBJECT = re.compile(rf"^我(?:们)?(?P<home>家)?(?P<of>的)?(?P<kin>{_KIN})(?P<has>的)?")
"""The longest word for a relation, whole (妈妈, not 妈), and whether something of theirs is spoken of (妈妈的生日)."""
_KIN_WITHIN = re.compile(rf"我(?:们)?(?:家)?(?:的)?(?P<kin>{_KIN})(?P<has>的)?")
_SOMEBODY = re.compile(
    rf"(?<!是)(?<![个名位])(?<!我)(?<!我们)(?<!我家)(?<!我的)(?<!们家)(?<!们的)(?:{_KIN}|经理|店员|店主|服务员|司机|客服|护士|律师|教练|导游|前台|同学|学生|客户|女士|小姐|师傅|主任|教授|女孩|男孩|姑娘|小伙子|女生|男生)"
)
"""Somebody who is not introduced as the user's: a later 她 or 他 may mean them."""
_CALLED = re.compile(r"[老小阿][\u4e00-\u9fff](?=也|都|是|在|有|会|要|去|来|很|特别|说|喜欢|不|想|[，,。]|$)")
"""A name of the everyday kind behind a relation: 同事老周."""
_STATE = re.compile(
    r"叫|姓|名字|住|家在|老家|来自|是|有|养了?|喜欢|爱|讨厌|不喜欢|不爱|偏好|更喜欢|习惯|不吃|吃素|不喝|不能|不会|过敏|预算|生日|岁|工作|上班|从事|当|做.{1,6}(?:工作|生意)"
    r"|学|读|毕业|搬|用|开|租|买|打算|计划|准备|想(?:去|学|买|换|成为|减|考)|每[天周月年]|[月号日周年天][^，]{0,4}(?:去|飞|回)|经常|总是|从不|患|得了|确诊|怀孕|结婚|离婚|订婚|负责|擅长|会说|怕|戒|吃|身高|体重|在"
)
_AT = re.compile(r"^(?:我|我们|用户)在([\u4e00-\u9fffA-Z]\S{1,12})$")
_BUSY = re.compile(r"^我(?:们)?(?:正)?在(?:做|写|看|用|试|想|找|学习怎么|调|跑|弄|等|考虑|忙)")
_NO_TOPIC = re.compile(r"^我(?:们)?的(?:问题|意思|代码|程序|脚本|想法|理解|作业|文章|论文题|电脑坏|报错)")
_INSTRUCTION = re.compile(r"^(?:请)?(?:以后|今后|从现在(?:开始|起)|往后)(?:都|请|一律|就)*(?P<wish>.{2,})$")


_LESSON_TOO = re.compile(
    r"^(?:你|您)?(?:的)?(?:回答|答案|回复|说的|讲的|写的|这个|这)?(?:也|还是|实在|有点)?(?P<how>太(?:长|短|啰嗦|罗嗦|复杂|专业|正式|笼统|抽象|简单|简略|官方|书面|难懂|多字|多废话))了?(?:吧|啊|一点|些)?$"
)
_LESSON_FORM = re.compile(
    r"^(?:请|麻烦|还是|能不能|可以)?(?:你)?(?P<wish>(?:用|以)(?:要点|列表|表格|中文|英文|英语|简体(?:中文|字)?|繁体(?:中文|字)?|大白话|白话|口语|简单的(?:话|语言|词)|公制(?:单位)?|摄氏度?|一句话|短句|条目|分点|数字编号)(?:的?(?:方式|形式))?"
    r"(?:来)?(?:回答|回复|说|讲|解释|列出|告诉我|写)?(?:我)?|分点(?:回答|说|列出)|(?:回答|说|讲|解释)?(?:得)?(?:再)?(?:简短|简洁|简单|详细|直接|通俗|短)(?:一?点|一?些))(?:吧|好吗|就好|就行)?$"
)
_LESSON_ANSWERS = re.compile(
    r"^(?:请|麻烦|希望|你|您|能不能|可以|都|一律|尽量|跟我|和我|对我|给我)*(?P<wish>"
    r"(?:用|以(?![后前来及为往])|使用)(?:[\u4e00-\u9fff]{1,6}|[A-Za-z]{2,12})(?:的?(?:方式|形式|语气))?来?(?:回答|回复|答复|交流|沟通|跟我说话|和我说话|跟我聊天?|和我聊天?)"
    r"|(?:回答|回复|答复|说话)(?:的?时候?|时)?(?:请|要|得|尽量|都|可以|再|的|更)*(?:简短|简洁|简单|简练|精炼|详细|具体|直接|通俗|正式|口语化|短|长|委婉|客气)(?:一?点儿?|一?些)?"
    r"|(?:简短|简洁|简练|简要|详细|直接|通俗|正式)(?:一?点儿?|一?些)?(?:地|的)?(?:回答|回复|答复)|分点(?:回答|回复|作答))(?:我|我的问题|问题)?(?:就行|就好|就可以|即可|可以吗)?$"
)
"""How answers in general shall be, whatever was asked: 请用中文回答."""
_CALL_ME = re.compile(
    r"^(?P<led>(?:请|以后|你|您|可以|就|都|大家|朋友们?|同事们?|一般|平时|直接|的话)*)(?:叫|称呼|喊)我(?:为|做)?(?P<name>[老小阿大][\u4e00-\u9fff]{1,2}?|[A-Z][A-Za-z]{1,15}|[\u4e00-\u9fff]{2,4}?)(?P<end>就行|就好|就可以|即可|好了)?$"
)
_NO_NAME = re.compile(
    r"[做去来吃喝起看说写怎什么别的了吗呢回到给把被]|^(?:今天|明天|后天|晚上|早上|如何|一声|一下|滚|傻|笨|有点|很)"
)
_LESSON_STOP = re.compile(
    r"^(?:请|麻烦)?(?:你)?(?:别|不要|不用|少)(?:再|老是?|总是?|一直|每次都)?(?P<doing>(?:道歉|说(?:对不起|抱歉)|用(?:表情|emoji|敬语|表格|英文|术语)|加(?:表情|emoji)|重复|客气|废话|啰嗦|讲大道理|说教).{0,12})$"
)
_LESSON_HABIT = re.compile(
    r"^(?:请)?(?:每次|总是|一直|永远|一律|始终)(?:都)?(?P<wish>(?:用|给|加|写|回答|附|先|说|叫).{2,})$"
)
_NO_SUBJECT = re.compile(
    r"^(?:膝盖|腰|胃|背|眼睛|牙齿?|脚踝?|手腕?|肩膀?|颈椎|血压|血糖|皮肤)(?:有(?:旧伤|点?问题|毛病|炎症)|不好|不行|受过伤|偏?[高低]|过敏|动过手术).*$"
    r"|^(?:(?:总|我的|每月的?|旅行|装修|婚礼|买车)?(?:预算|房租|租金|工资|月薪|首付|考试|面试|婚礼|航班|飞机|火车|手术|复查|体检|生日|截止日期|开学|毕业|搬家|签证|预产期|会议|演出|比赛|租约|合同|押金))(?:时间|日期)?(?:是|在|定在|大概|大约|最多|不超过|每个?月|改到|推迟到)?.*[\d一二两三四五六七八九十百千万].*$"
)
_LIMIT = re.compile(
    r"^(?:(?:最多|不超过|控制在|大概|大约)(?:花|用|出)?[\d一二两三四五六七八九十百千万.]+(?:块|元|万|千|百|左右|以内|以下)*钱?"
    r"|[\d一二两三四五六七八九十百千万.]+(?:块|元)?钱?(?:以内|以下|左右))$"
)
_KIN_ALONE = re.compile(
    r"^(?P<kin>老婆|老公|妻子|丈夫|太太|女儿|儿子|孩子|爸爸?|妈妈?|父母|爷爷|奶奶|外公|外婆|公公|婆婆|男友|女友|男朋友|女朋友)(?!的|说|问|让|叫我|觉得)(?P<rest>\S{2,})$"
)
_SILENT_SUBJECT = re.compile(
    r"^(?:也|还|一直|平时|从来|目前|现在|刚|已经)*(?:不能吃|不吃|不喝|吃素|对.{1,8}过敏|住在|在.{1,10}(?:工作|上班|上学|读书|读研)|养了|有(?:一|两|二|三|四|五)[个只条岁]|打算|计划|准备(?:去|考|买|搬)|(?:上周|上个?月|去年|今年|昨天|最近|前几天)(?:刚)?(?:换|买|订|搬|养|报|考|租|装|做)了|下(?:个月|周|周末|学期|半年).{0,6}(?:去|搬|飞|考|开学|结婚))\S+$"
)


def lessons(sentence: str, *, criticism: bool, drafting: bool = False) -> list[str]:
    """What a sentence teaches about how to answer; same as the English `feedback.lessons`.

    Args:
        criticism: an answer stands before it that was no text in work.
        drafting: a text is being worked on, which a wish would be about.
    """
    if _QUESTION.search(sentence):
        return []
    parts = [_TAIL.sub("", _LEAD.sub("", part.strip())) for part in _CLAUSE.split(sentence)]
    always = [
        f"用户希望助手总是{_third(habit.group('wish'))}" for part in parts if (habit := _LESSON_HABIT.match(part))
    ]
    always += [
        f"{_WISH}以后{_third(wish.group('wish'))}"
        for part in parts
        if (wish := _INSTRUCTION.match(part)) and len(parts) > 1
    ]
    stop = [f"用户希望助手不要{_third(found.group('doing'))}" for part in parts if (found := _LESSON_STOP.match(part))]
    answers = (
        []
        if drafting or any(map(_LESSON_TOO.match, parts))
        else [f"{_WISH}{_third(found.group('wish'))}" for part in parts if (found := _LESSON_ANSWERS.match(part))]
    )
    if not criticism:
        return [*always, *stop, *answers]
    complaints = [f"用户觉得助手的回答{found.group('how')}" for part in parts if (found := _LESSON_TOO.match(part))]
    forms = [f"用户希望助手{_third(found.group('wish'))}" for part in parts if (found := _LESSON_FORM.match(part))]
    forms = forms if complaints or stop or len(parts) == 1 else []
    return list(dict.fromkeys([*always, *stop, *complaints, *forms, *answers]))


def is_instruction(content: str) -> bool:
    """Whether a statement says what the assistant shall do from now on."""
    return content.startswith(_WISH)


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
        return ([] if _QUESTION.search(sentence) else [f"{_WISH}以后{_third(wish.group('wish'))}"]), known
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
        if (
            units
            and not re.match(r"我|咱|俺|她|他|请|帮|你|能|可以", bare)
            and not _LIMIT.match(_TAIL.sub("", bare))
            and not (_NO_SUBJECT.match(bare) and not units[-1].startswith(("我", "咱", "俺")))
            and not _QUESTION.search(bare)
        ):
            units[-1] = f"{units[-1]}，{bare}"
        else:
            units.append(bare)
    return units


def _statement(unit: str, people: Mapping[str, str], *, trusted: bool) -> str:
    unit = _TAIL.sub("", unit)
    if _LIMIT.match(unit):
        return f"用户的预算：{unit}"
    if (called := _CALL_ME.match(unit)) and _is_a_name(called):
        said_by_others = re.search(r"大家|朋友|同事", called.group("led"))
        return _third(unit) if said_by_others else f"用户希望被称呼为{called.group('name')}"
    if (kin := _KIN_ALONE.match(unit)) and not _QUESTION.search(unit) and _STATE.search(kin.group("rest")):
        return f"用户的{_FULL.get(kin.group('kin'), kin.group('kin'))}{_third(kin.group('rest'))}"
    if (
        (_NO_SUBJECT.match(unit) or _SILENT_SUBJECT.match(unit))
        and not _QUESTION.search(unit)
        and not _REQUEST.match(unit)
    ):
        return (
            _third(unit)
            if unit.startswith("我")
            else f"用户{'' if _SILENT_SUBJECT.match(unit) else '的'}{_third(unit)}"
        )
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


def _is_a_name(called: re.Match[str]) -> bool:
    """叫我小王 is one, 叫我起床 is none; a name of no everyday kind needs 就行 or the like."""
    name = called.group("name")
    everyday = name[0] in "老小阿大" or name.isascii()
    return not _NO_NAME.search(name) and (everyday or bool(called.group("end")))


def _third(text: str) -> str:
    text = _KIN_SUBJECT.sub(_of_kin, text)
    return re.sub(r"我们|咱们|我|咱|俺", "用户", text)


def _of_kin(match: re.Match[str]) -> str:
    """As in 我妈的生日: 用户妈妈的生日, with one 的 only where there was one."""
    kin = _FULL.get(match.group("kin"), match.group("kin"))
    if not match.group("has"):
        return f"用户的{kin}"
    return f"用户{match.group('home') or ''}{match.group('of') or ''}{kin}的"


def _introduced(unit: str) -> dict[str, str]:
    """Whom 她 and 他 stand for behind a clause; "" for nobody known, as when somebody else is spoken of too."""
    kin = _KIN_SUBJECT.match(unit) or _KIN_WITHIN.search(unit)
    if not kin:
        return {} if unit[0] in "她他" or not _SOMEBODY.search(unit) else {"她": "", "他": ""}
    if _SOMEBODY.search(unit, kin.end("kin")):
        return {"她": "", "他": ""}
    called = _CALLED.match(unit, kin.end())
    name = f"用户的{_FULL.get(kin.group('kin'), kin.group('kin'))}{called.group() if called else ''}"
    if kin.group("kin") in _NEUTRAL:
        return {"她": name, "他": name}
    return {"她": name} if kin.group("kin") in _FEMALE else {"他": name}
