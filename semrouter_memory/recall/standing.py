"""Which memories matter to a request though it does not ask for them. Pure.

Strategy: similarity never finds "allergic to peanuts" from "suggest a dinner". So memories and requests are put into
a few classes by the words that such statements are made with (English, Chinese), and a table says which class of
memory is needed by which class of request. What a class needs is a bonus to a memory's relevance and no rule: a diet
that has nothing else in common with the request still yields to what was asked for.
"""

import re
from enum import IntFlag
from functools import reduce
from operator import or_

import numpy as np
from numpy.typing import NDArray

from semrouter_memory.model import Memory, MemoryType


class Standing(IntFlag):
    """What a memory is about, where that matters unasked. A memory may be several, most are none."""

    NONE = 0
    DIET = 1
    """What somebody must not, or will not, eat or drink."""
    HEALTH = 2
    """A condition, an injury, a medicine, a limit of the body."""
    TRAVEL = 4
    """How somebody travels, and what keeps them from it."""
    TIME = 8
    """When somebody can, or never can."""
    CODE = 16
    """How code is to be written, and in what."""
    WRITING = 32
    """How a text for somebody is to be written."""
    MONEY = 64
    """What may be spent, and where."""
    ANSWER = 128
    """How the user wants to be answered."""
    NAME = 256
    """What the user is called."""
    QUESTION = 512
    """No statement but a question, as the turns of a conversation may be."""


class Need(IntFlag):
    """What a request asks for, as far as memories of a class matter to it."""

    NONE = 0
    FOOD = 1
    BODY = 2
    TRIP = 4
    DATE = 8
    PROGRAM = 16
    TEXT = 32
    PURCHASE = 64
    EXPLANATION = 128


def _words(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE | re.VERBOSE)


_MEMORY: tuple[tuple[Standing, re.Pattern[str]], ...] = (
    (
        Standing.DIET,
        _words(
            r"""\b(?: allerg\w* | intoleran\w* | anaphyla\w* | epipen | vegan | vegetarian | pescatarian | halal | kosher | jain
            | gluten | c?o?eliac | lactose | dairy | keto | low[ -]?(?:carb|sodium|salt|fodmap|sugar) | diabet\w* | gout | ulcer
            | reflux | ibs | crohn\w* | cholesterol | hypertension | high\ blood\ pressure | kidney\ (?:stones?|disease|diet)
            | diet(?:ary)? | teetotal\w* | sober | fasts? | fasting
            | (?:does\ not|doesn['’]t|can['’]?t|cannot|must\ not|won['’]t|never|no\ longer)\ (?:eat|drink|have\ (?:caffeine|alcohol|sugar|dairy))\w*
            | (?:eats?|drinks?)\ (?:no|only|neither|gluten)\b
            | (?:avoids?|skips?|reacts?\ to|sensitive\ to|cut(?:s|ting)?\ out|gave\ up|hates?|dislikes?|can['’]?t\ stand|loathes?)
              \ (?:[\w-]+\ ){0,3}?(?:sugar|salt|meat|pork|beef|fish|seafood|shellfish|shrimp|nuts?|peanuts?|eggs?|milk|cheese|cilantro
              |coriander|mushrooms?|spicy|spices?|caffeine|coffee|alcohol|wine|soups?|onions?|garlic|olives?|foods?|vegetables|tofu|carbs?|bread)
            | (?:migraines?|hives|heartburn)\ (?:[\w-]+\ ){0,2}?(?:from|after|when)
            )\b
            | 过敏 | 忌口 | 不吃 | 不能吃 | 不喝 | 吃素 | 素食 | 清真 | 糖尿病 | 高血压 | 痛风 | 胃病 | 胃溃疡 | 乳糖 | 麸质 | 少油 | 少盐 | 少糖 | 戒[酒烟糖] | 无辣不欢 | 爱吃 | 控糖 | 低糖
            """
        ),
    ),
    (
        Standing.HEALTH,
        _words(
            r"""\b(?: asthma\w* | arthritis | tendon\w* | tendin\w* | injur\w* | surgery | surgeries | operation\ on | sprain\w* | fractur\w* | herniat\w*
            | (?:bad|weak|sore|torn|replaced|artificial|dodgy|broken|trapped)\ (?:left\ |right\ )?(?:back|knees?|hips?|shoulders?|ankles?|wrists?|heels?|disc|eye)
            | (?:hip|knee)\ replacement | scoliosis | sciatica | epilep\w* | seizures? | migraines? | depress\w* | anxiety | anxious | adhd | autis\w* | dyslexi\w*
            | pregnan\w* | ivf | breast-?feeding | pacemaker | arrhythmia | fibrillation | heart\ (?:condition|attack|disease|failure)
            | blood\ (?:pressure|thinners?|sugar) | hypertension | diabet\w* | insulin | thyroid | cancer | chemo\w* | parkinson\w* | dementia | stroke
            | eczema | psoriasis | rosacea | allerg\w* | colou?r[ -]?blind\w* | deaf | hearing\ aids? | blind | wheelchair | crutches | prosthe\w* | disab\w*
            | physio\w* | medication | meds? | prescri\w* | takes\ (?:[\w-]+\ ){1,3}?(?:\d+\ ?m[cg]g?|daily|twice|every|for\ (?:his|her|their))
            | afraid\ of | fear\ of | phobi\w* | \w+phobi[ac] | claustrophobi\w* | panic\ attacks? | insomnia | sleep\ apnoea | sleep\ apnea
            | doctor\ (?:said|told|advised|says) | kidney | celiac | coeliac | chronic
            )\b
            | 过敏 | 哮喘 | 受伤 | 旧伤 | 手术 | 骨折 | 关节 | 腰椎 | 颈椎 | 膝盖 | 半月板 | 怀孕 | 孕 | 高血压 | 糖尿病 | 心脏 | 湿疹 | 吃药 | 服药 | 医生建议 | 医生说 | 色盲 | 耳背 | 听力 | 恐高 | 害怕 | 失眠 | 抑郁 | 焦虑 | 近视 | 痛风 | 血压 | 血糖
            """
        ),
    ),
    (
        Standing.TRAVEL,
        _words(
            r"""\b(?: (?:window|aisle|exit[ -]row|extra)\ (?:airplane\ )?seats? | passport | visas? | (?:motion|car|sea|travel|air)[ -]?sick(?:ness)? | seasick
            | (?:afraid|scared|fear|terrified)\ of\ (?:flying|heights|deep\ water|water|boats) | (?:overnight|red[ -]eye|early|long|direct|nonstop|non-stop)\ flights?
            | flies\ (?:only|with) | frequent\ flyer | airlines? | hostels? | airbnbs? | camper\ ?van | travels\ (?:with|light|by|only)
            | (?:has|owns|have|drives)\ no\ car | no\ driver['’]?s?\ licen[cs]e | does(?:n['’]t|\ not)\ (?:drive|fly)
            )\b
            | 靠窗 | 靠过道 | 护照 | 签证 | 晕车 | 晕船 | 晕机 | 红眼航班 | 不坐飞机 | 恐高 | 怕水 | 不会开车 | 没有车
            """
        ),
    ),
    (
        Standing.TIME,
        _words(
            r"""\b(?: (?:works?|working|shifts?|on\ call|is\ off|is\ free|days?\ off|night\ shifts?|off\ work)\b(?=.*\b(?:nights?|days?|mornings?|evenings?|weekends?|weekdays?|week
              |monday|tuesday|wednesday|thursday|friday|saturday|sunday|\d\s?[ap]m|\d{1,2}:\d\d|until|shifts?))
            | (?:every|each|on|until|after|before|by|except)\ (?:other\ |second\ |last\ )?(?:monday|tuesday|wednesday|thursday|friday|saturday|sunday|weekday|weekend|morning|evening|night)s?
            | (?:mon|tues|wednes|thurs|fri|satur|sun)days\b | (?:before|after|until|from|by|at)\ (?:\d{1,2}(?::\d\d)?\s?[ap]\.?m\b|\d{1,2}:\d\d|noon|midnight)
            | (?:avoids?|no|never|hates?|prefers?)\ (?:[\w-]+\ ){0,2}?(?:meetings?|calls?|appointments?|mornings?|evenings?)
            )
            | 每[周天]| 周[一二三四五六日末] | 星期[一二三四五六日天] | 礼拜[一二三四五六日天] | 上班 | 下班 | 夜班 | 值班 | 轮班 | 点[前后] | 月初 | 月底 | 每月
            """
        ),
    ),
    (
        Standing.CODE,
        _words(
            r"""\b(?: python | golang | typescript | javascript | kotlin | java | rust | ruby | php | c\# | c\+\+ | scala | elixir | swift | haskell | sql | postgres\w* | mysql
            | sqlite | mongodb | redis | react | vue | svelte | angular | django | flask | fastapi | rails | spring\ boot | node(?:\.?js)? | pandas | numpy | polars | pytorch
            | tidyverse | matlab | bash | powershell | shell\ scripts? | terraform | ansible | docker | kubernetes | k8s | helm | github\ actions | gitlab | jenkins | junos
            | (?:unit\ )?tests? | table-driven | linters? | eslint | prettier | black | mypy | type\ hints? | tabs? | spaces | snake_case | camel_?case | commits? | monorepo
            | code | coding | scripts? | functions? | logging | log\ lines | json | yaml | config | apis? | frameworks? | libraries | git
            )\b(?=.*) | (?<=in\ )R\b | 代码 | 脚本 | 编程 | 后端 | 前端 | 数据库 | 写Python | 框架
            """
        ),
    ),
    (
        Standing.WRITING,
        _words(
            r"""\b(?: (?:wants?|prefers?|asks?\ for|insists?\ on|likes?|expects?|requires?|hates?|dislikes?|limits?|needs?)\b(?=.*\b(?:memos?|reports?|e?-?mails?|captions?|copy|letters?|drafts?|documents?|posts?
              |slides?|presentations?|minutes|updates?|comments?|briefs?|summar\w+|headings?|bold|bullet\w*|formal|informal|tone|address|words|pages?|sentences?|emojis?|spelling|format\w*|markdown|headlines?|newsletters?))
            | style\ ?: | style\ guide | house\ style | british\ (?:english|spelling) | american\ (?:english|spelling) | signs?\ (?:off|e?-?mails|letters)
            )
            | 要求.*(?:报告|周报|邮件|文案|字|格式) | 语气 | 文风 | 署名 | 落款
            """
        ),
    ),
    (
        Standing.MONEY,
        _words(
            r"""\b(?: budget | (?:can|will|may)\ (?:only\ )?(?:spend|afford) | at\ most | no\ more\ than | spend(?:s|ing)?\ limit | saving\ (?:up\ )?for | second[ -]?hand | refurbished
            | (?:won['’]t|does(?:n['’]t|\ not)|never|refuses\ to|boycotts?)\ (?:buy|shop|order|use)\b | ethical\w* | fair[ -]?trade
            )\b
            | 预算 | 最多花 | 存款 | 攒钱 | 二手
            """
        ),
    ),
    (
        Standing.ANSWER,
        _words(
            r"""^(?!.*\b(?:legal|contract\w*|officials?|clients?|customers?|boss|manager|team|teachers?|e-?mails?|letters?|memos?|reports?|posts?)\b)
            (?:the\ )?user\b.*\b(?: (?:wants?|prefers?|asks?\ for|likes?|needs?|hates?|dislikes?|would\ like|finds?)\b
              (?=.*\b(?:answers?|repl(?:y|ies)|responses?|explanations?|explained|bullet\w*|step[ -]by[ -]step|numbered|concise
              |(?:no|without|in)\ tables?|jargon|plain\ (?:english|language|words)|walls?\ of\ text|emojis?\ in|examples?\ first|tl;?dr
              |metric\ units|imperial\ units|units\ in|celsius|fahrenheit|answered|replied)\b)
            | (?:answers?|repl(?:y|ies)|responses?|explanations?)\ (?:in|should|must|without|with|to\ be)\b
            | (?:wants|prefers|likes|asks)\ to\ be\ (?:called|addressed|answered)\b
            )
            | 回答 | 回复.*(?:简短|短|要点|中文|英文) | 希望.*(?:字句|句子|解释|简短|简单|短一些)  | 称呼
            """
        ),
    ),
    (
        Standing.NAME,
        _words(
            r"""^(?:the\ )?user['’]s\ (?:first\ |full\ |nick|last\ )?name\ is\b | ^(?:the\ )?user\ (?:is\ called|goes\ by|is\ named|wants\ to\ be\ called|prefers\ to\ be\ called)
            | ^(?:the\ )?user['’]s\ (?:native\ |first\ |preferred\ |main\ )?(?:language|pronouns)\b | ^用户(?:叫|名叫|姓|的名字) | ^用户的?母语"""
        ),
    ),
)

_REQUEST: tuple[tuple[Need, re.Pattern[str]], ...] = (
    (
        Need.FOOD,
        _words(
            r"""\b(?: cook\w* | dinners? | lunch\w* | breakfasts? | brunch | supper | snacks? | recipes? | meals? | restaurants? | cafes? | menus? | cakes? | cupcakes? | bak(?:e|ing|ery) | bbq | barbecue
            | takeaway | take-?out | chippy | desserts? | pudding | treats? | eat | eating | food | dish(?:es)? | picnic | potluck | buffet | cater\w* | drinks? | cocktails? | smoothies? | pasta | pizza | sushi | curry
            | salads? | soups? | sandwich\w* | grocer\w* | shopping\ list | gels? | catering | appetizers? | starters? | ice\ cream | protein\ \w+ | wine | starving | hungry | fridge | freezer )\b
            | 吃 | 晚饭 | 午饭 | 早饭 | 早餐 | 午餐 | 晚餐 | 菜 | 菜谱 | 餐厅 | 饭店 | 外卖 | 零食 | 蛋糕 | 聚餐 | 做饭 | 煮 | 喝 | 火锅 | 夜宵 | 食谱
            """
        ),
    ),
    (
        Need.BODY,
        _words(
            r"""\b(?: work-?outs? | exercis\w* | training | train\ for | gym | run(?:s|ning)? | hik(?:e|es|ing) | yoga | swim\w* | cycl(?:e|ing) | stretch\w* | sports? | marathon | lose\ weight | get\ fit | fitness | practi[cs]e\ plan | \d+[ -]?week\ (?:block|plan|program\w*)
            | pain\w* | hurts? | ache\w* | headache | fever | cold | cough | flu | medicin\w* | ibuprofen | paracetamol | aspirin | painkillers? | antibiotics? | supplements? | vitamins? | symptoms? | doctor | gp | dentist | pharmac\w* | rash | infection | uti | sleep
            | activit(?:y|ies) | outings? | things\ to\ do | day\ out | lift\w* | carry | mov(?:e|ing)\ (?:house|furniture) | chairs? | desk | mattress | shoes | sweater | jumper | skin\w* | shampoo | sunscreen | lotion | soap | detergent | safe )\b
            | 运动 | 健身 | 锻炼 | 跑步 | 减肥 | 减十?斤 | 瑜伽 | 爬山 | 疼 | 痛 | 药 | 感冒 | 发烧 | 咳嗽 | 医生 | 医院 | 毛衣 | 护肤 | 睡
            """
        ),
    ),
    (
        Need.TRIP,
        _words(
            r"""\b(?: trips? | travel\w* | flights? | fly(?:ing)? | hotels? | vacations? | holidays? | honeymoon | itinerar\w* | weekend\ (?:away|getaway|in) | getaway | road\ ?trip | book(?:ing)?\ (?:a|the|us|me|my|flights?|tickets?) | airport | trains? | ferry | cruise
            | pack(?:ing)?\ (?:list|for) | what\ (?:should|do)\ i\ pack | luggage | tour(?:s|ist)? | visit(?:ing)? | sightsee\w* | backpack\w* | camping | routes? | way\ (?:to\ get|from)\b | get\ (?:there|to)\b | days?\ in\b )
            | 旅行 | 旅游 | 机票 | 酒店 | 航班 | 度假 | 行程 | 出差 | 自驾 | 高铁 | 火车 | 带孩子.*去 | 去.*玩
            """
        ),
    ),
    (
        Need.DATE,
        _words(
            r"""\b(?: schedul\w* | meetings? | appointments? | calendar | timetables? | time\ ?slots? | slots? | rota | roster | reschedul\w* | availab\w* | free\ (?:on|this|next|time) | which\ (?:day|weekend|week|date|evening)
            | what\ (?:day|time|date)\b | when\ (?:should|could|can|shall)\b | (?:this|next|coming)\ (?:week(?:end)?|month|monday|tuesday|wednesday|thursday|friday|saturday|sunday)
            | on\ (?:a\ )?(?:mon|tues|wednes|thurs|fri|satur|sun)days? | (?:mon|tues|wednes|thurs|fri|satur|sun)day\ (?:morning|afternoon|evening|night|at)
            | plan\ (?:my|a|our|the|out)\b | revision\ plan | study\ plan | date\ night | tomorrow | tonight | weekend | invit\w* | \d\s?[ap]m\b )
            | 安排 | 计划 | 周末 | 开会 | 会议 | 约 | 什么时候.*合适 | 哪天 | 时间表 | 日程 | 排班 | 明天 | 今晚 | 下周
            """
        ),
    ),
    (
        Need.PROGRAM,
        _words(
            r"""\b(?: code | scripts? | functions? | (?:unit\ )?tests? | refactor\w* | implement\w* | debug\w* | logging | class(?:es)? | api | endpoints? | query | sql | regex | program | cli | bash | python | javascript | typescript | golang | java | rust | docker\w* | kubernetes
            | deploy\w* | config\w* | policy | pipeline | ci | parser? | parse | schema | migration | component | hook | module | library | package | repo | stack\ trace | algorithm | snippet | playbook | terraform | yaml | json | csv | summari[sz]e\ .*\b(?:data|by) | plot )\b
            | 代码 | 脚本 | 函数 | 程序 | 接口 | 部署 | 测试 | 写个.*(?:工具|程序|脚本)
            """
        ),
    ),
    (
        Need.TEXT,
        _words(
            r"""\b(?: draft | e-?mails? | letters? | write\ (?:a|an|the|this|my|me|up|to|back)\b | captions? | memos? | reports? | cover\ letter | cards? | messages? | texts?\ to | translat\w* | translation | rewrite | rephrase | proofread | summar(?:y|ise|ize) | posts? | blog | article
            | speech | slides? | presentation | minutes | newsletter | listing | ad | announcement | brief | note\ to | reply\ to | invitation | bio | resume | cv | essay | proposal | press\ release | copy | turn\ this\ into )\b
            | 写[一封个篇份]* | 邮件 | 周报 | 报告 | 文案 | 翻译 | 润色 | 信 | 开场白 | 演讲 | 发言 | 总结
            """
        ),
    ),
    (
        Need.PURCHASE,
        _words(
            r"""\b(?: buy(?:ing)? | purchas\w* | shop(?:ping)? | recommend\w* | order(?:ing)? | gifts? | presents? | which\ (?:laptop|phone|car|bike|tv|camera|model|brand|one\ should) | worth\ (?:it|buying) | afford | cheap\w* | upgrade | deals? | brand | look\ for\ in | fit\ in | get\ (?:him|her|them|the|for|my|a\ new) | where\ can\ i\ get )\b
            | 买 | 推荐 | 礼物 | 换[个一新] | 值得 | 送.*什么
            """
        ),
    ),
    (
        Need.EXPLANATION,
        _words(
            r"""\b(?: explain\w* | explanation | describe | compare | comparison | differences? | pros\ and\ cons | overview | teach\ me | walk\ me\ through | help\ me\ understand
            | how\ (?:does|do|did|is|are|to|can|would|should)\b | why\b | what(?:['’]s|\ is|\ are|\ does)\b | summar\w+ | steps | guide | tutorial | instructions | tips | advice | eli5 )\b
            | 解释 | 讲讲 | 讲一下 | 介绍 | 区别 | 怎么 | 如何 | 为什么 | 什么是 | 原理 | 步骤 | 对比
            """
        ),
    ),
)


def standing_of(memory: Memory) -> Standing:
    """What classes of standing memory a statement belongs to."""
    content = memory.content
    is_question = memory.type is MemoryType.EPISODIC and content.rstrip().endswith(("?", "？"))
    asked = Standing.QUESTION if is_question else Standing.NONE
    return reduce(or_, (kind for kind, pattern in _MEMORY if pattern.search(content)), asked)


def need_of(request: str) -> Need:
    """What the request needs, by its words."""
    return reduce(or_, (need for need, pattern in _REQUEST if pattern.search(request)), Need.NONE)


_UNASKED = (
    (Need.EXPLANATION | Need.TEXT | Need.PROGRAM, Standing.ANSWER),
    (Need.TEXT, Standing.NAME),
)
_MOST_UNASKED = 2


def offered(marks: NDArray[np.uint16], scores: NDArray[np.float32], need: Need) -> NDArray[np.intp]:
    """The places of memories that are given to the model though the request is about something else.

    How the user wants to be answered matters to whatever is explained, written or programmed for them.
    """
    wanted = reduce(or_, (standing for needs, standing in _UNASKED if need & needs), Standing.NONE)
    places = np.flatnonzero(marks & wanted)
    return places[np.argsort(-scores[places], kind="stable")][:_MOST_UNASKED]
