"""Chinese statements in a form that can be compared: numbers, times and set phrases written in one way. Pure.

Strategy: without word segmentation a statement is compared character by character, so what is written in several ways
(numbers, weekdays, "works at", "is called") is first written in one.
"""

import re

_DIGITS = {digit: number for number, digit in enumerate("零一二三四五六七八九")} | {"两": 2, "〇": 0}
_SCALES = {"十": 10, "百": 100, "千": 1000}
_NUMBER = re.compile(
    r"[零〇一二两三四五六七八九十百千万]+(?=元|块|岁|个|点|月|号|日|年|天|次|小时|分钟|公斤|斤|公里|杯|楼|层|人|口|周|只|条|匹|位|名|本|台|部|辆|份|双|间|瓶|%)"
)
_ARTICLE = re.compile(r"一(?=[只个家辆条位名本台部张份款双套间])[只个家辆条位名本台部张份款双套间]")
_MONEY = re.compile(r"(\d[\d,]*(?:\.\d+)?)(万|千)?\s?(?:元|块钱?|人民币)")
_TEN_THOUSANDS = re.compile(r"(\d+(?:\.\d+)?)万")
_DAY = re.compile(r"(?:周|星期|礼拜)([一二三四五六日天])")
_DAYS = dict(zip("一二三四五六日天", ("mon", "tue", "wed", "thu", "fri", "sat", "sun", "sun"), strict=True))
_TIME = re.compile(r"(上午|早上|下午|晚上|中午|凌晨)?(\d{1,2})点(半|\d{1,2}分)?")
_DATE = re.compile(r"(?:(\d{4})年)?(\d{1,2})月(\d{1,2})[日号]")
_MONTH = re.compile(r"(\d{1,2})月份?(?!\d)")
_MEASURES = {"公斤": "kg", "千克": "kg", "公里": "km", "小时": "hour", "分钟": "minute", "%": "percent"}
_MEASURE = re.compile(rf"(\d+(?:\.\d+)?)({'|'.join(_MEASURES)})")
_COUNT = re.compile(r"(?<![\w:.])(\d+(?:\.\d+)?)(?=[\u4e00-\u9fff])")
_COUNT_AFTER = re.compile(r"(?<=[\u4e00-\u9fff])(\d+(?:\.\d+)?)(?=[\u4e00-\u9fff])")
_AGE = re.compile(r"(\d+)岁半?")
_PHRASES = [
    (r"就职于|任职于|供职于|受雇于", "工作"),
    (r"上班|任职|就职", "工作"),
    (r"名字(?:叫做?|是)|名叫|叫做|名为|取名", "叫"),
    (r"居住在|家住在?|定居在?|居住", "住"),
    (r"喜爱|热爱|爱好是|爱(?=[吃喝看听玩打跑游做唱跳养读爬骑写画旅弹拍钓下逛滑])|很喜欢|非常喜欢|偏爱", "喜欢"),
    (r"过敏症", "过敏"),
    (r"生于|出生于|出生日期是", "生日是"),
    (r"每周|每星期|一周", "周"),
    (r"去世|过世", "死"),
    (r"犬", "狗"),
    (r"家里有|家有|养了?(?=[^老成])", "有"),
    (r"太太|老婆", "妻子"),
    (r"老公", "丈夫"),
    (r"父亲", "爸爸"),
    (r"母亲", "妈妈"),
    (r"薪水|月薪|薪资", "工资"),
    (r"汽车|轿车", "车"),
    (r"公寓", "房子"),
    (r"正在|目前|现在|已经|如今|最近|不久前|刚刚|每个月|每月|每天|左右|大约|平时|通常|一直", ""),
    (r"学习", "学"),
    (r"今年(?=\s?(?:age:|\d+岁))", ""),
    (r"旅行|出游", "旅游"),
    (r"租金", "房租"),
    (r"大夫", "医生"),
    (r"上司", "老板"),
    (r"单车|脚踏车", "自行车"),
    (r"小孩", "孩子"),
    (r"女友", "女朋友"),
    (r"男友", "男朋友"),
    (r"计划|想要|准备(?=去|买|搬|换|学)|想(?=去|买|学|换|搬)", "打算"),
    (r"(?:会|能|可以)(?=说)", ""),
    (r"慢跑", "跑步"),
    (r"锻炼", "健身"),
    (r"电影院", "影院"),
    (r"预定|预约", "预订"),
    (r"读书(?=$)|念书", "上学"),
    (r"不能吃|吃不了|不可以吃", "不吃"),
    (r"(?<=用户)把", ""),
]
_SPELLINGS = [(re.compile(pattern), replacement) for pattern, replacement in _PHRASES]
CHANGE = re.compile(
    r"(?:已经?)?(?:搬|换|改|提高|上调|下调|缩减|涨|降|升|调|推迟|提前|变|增加|减少|减|延期|延后|转)(?:家|去)?(?:到|成|为|至|了)+|辞职|跳槽|现在|不再|已经|最近"
)
"""What happens to a value."""


def normalised(text: str) -> str:
    """The statement with values spelled as English ones are, and set phrases in one form. Other texts stay."""
    if not is_chinese(text):
        return text
    text = _NUMBER.sub(lambda match: str(_number(match.group())), _ARTICLE.sub("", text))
    text = _DAY.sub(lambda match: f" day:{_DAYS[match[1]]} ", text)
    text = _DATE.sub(lambda match: f" date:{int(match[2]):02d}{int(match[3]):02d} ", text)
    text = _TIME.sub(_time, text)
    text = _MONTH.sub(lambda match: f" month:{int(match[1]):02d} ", text)
    text = _AGE.sub(r" age:\1 ", text)
    text = _MONEY.sub(_money, text)
    text = _TEN_THOUSANDS.sub(lambda match: f"{float(match[1]) * 10_000:g}", text)
    text = _MEASURE.sub(lambda match: f" {_MEASURES[match[2]]}:{match[1]} ", text)
    text = _COUNT_AFTER.sub(r" num:\1 ", _COUNT.sub(r" num:\1 ", text))
    for pattern, replacement in _SPELLINGS:
        text = pattern.sub(replacement, text)
    return text


def is_chinese(text: str) -> bool:
    """Whether there is a Chinese character in it."""
    return any("\u4e00" <= char <= "\u9fff" for char in text)


def _number(written: str) -> int:
    total = section = digit = 0
    for char in written:
        if char in _DIGITS:
            digit = _DIGITS[char]
        elif char == "万":
            total, section, digit = (section + digit or 1) * 10_000, 0, 0
        else:
            section, digit = section + (digit or 1) * _SCALES[char], 0
    return total + section + digit


def _time(match: re.Match[str]) -> str:
    hour = int(match[2])
    if match[1] in {"下午", "晚上"} and hour < 12:  # noqa: PLR2004 - hours
        hour += 12
    minutes = "30" if match[3] == "半" else f"{int(match[3][:-1]):02d}" if match[3] else "00"
    return f" time:{hour:02d}.{minutes} "


def _money(match: re.Match[str]) -> str:
    scale = {"万": 10_000, "千": 1_000}.get(match[2] or "", 1)
    return f" money:{float(match[1].replace(',', '')) * scale:.12g} "
