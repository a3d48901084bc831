"""The words by which `categories` tells what a memory is about and what a request needs (English, Chinese). Pure.

Each pattern is a list of alternatives, as such statements and requests are worded. An English one is a whole word or
phrase, and may be directly adjacent to Chinese characters; a Chinese one may stand anywhere. They are for texts in lower
case: a search that does not look at case is faster.
"""

import re
from functools import cached_property

from semrouter_memory.language.scripts import WORD_END, WORD_START


class _Words:
    """A pattern in two versions: English text, which most is, is searched in half the time without Chinese.

    Each is compiled when it is first needed, which takes some milliseconds: see `categories.prepare`.
    """

    def __init__(self, english: str, *, han: str) -> None:
        self._english = english
        self._han = han

    def search(self, text: str) -> re.Match[str] | None:
        return (self._of_ascii if text.isascii() else self._of_any).search(text)

    @cached_property
    def _of_ascii(self) -> re.Pattern[str]:
        return re.compile(rf"(?<!\w)(?:{self._english})(?!\w)", re.ASCII)

    @cached_property
    def _of_any(self) -> re.Pattern[str]:
        return re.compile(rf"{WORD_START}(?:{self._english}){WORD_END}|{self._han}")


# Memories

DIET = _Words(
    r"allerg\w*|intoleran\w*|anaphyla\w*|epipen|vegan|vegetarian|pescatarian|halal|kosher|jain|gluten|c?o?eliac"
    r"|lactose|dairy|keto|low[ -]?(?:carb|sodium|salt|fodmap|sugar)|diabet\w*|gout|ulcer|reflux|ibs|crohn\w*"
    r"|cholesterol|hypertension|high blood pressure|kidney (?:stones?|disease|diet)|diet(?:ary)?|teetotal\w*|sober"
    "|(?:does not|doesn['’]t|can['’]?t|cannot|must not|won['’]t|never|no longer) (?:eat|drink|have (?:caffeine"
    r"|alcohol|sugar|dairy))\w*|(?:eats?|drinks?) (?:no|only|neither|gluten)|(?:avoids?|skips?|reacts? to"
    "|sensitive to|cut(?:s|ting)? out|gave up|hates?|dislikes?|can['’]?t stand|loathes?|does(?:n['’]t"
    r"| not) (?:like|tolerate)) (?:[\w-]+ ){0,3}?(?:sugar|salt|meat|pork|beef|fish|seafood|shellfish|shrimp|nuts?"
    "|peanuts?|eggs?|milk|cheese|cilantro|coriander|mushrooms?|spicy|spices?|caffeine|coffee|alcohol|wine|soups?"
    "|onions?|garlic|olives?|foods?|vegetables|tofu|carbs?|bread|lamb|chicken|wheat|soy|tomato(?:es)?|avocados?"
    r"|beans|broccoli|celery|beer)|(?:migraines?|hives|heartburn) (?:[\w-]+ ){0,2}?(?:from|after|when)|paleo"
    r"|plant-based|sugar-free|nut-free|picky eater|fasts|fasting|ramadan|(?:on|does|doing) an? (?:[\w-]+ )?fast",
    han=(
        "过敏|忌口|不能?吃|不能?喝|吃素|素食|清真|糖尿病|高血压|痛风|胃病|胃溃疡|乳糖|麸质|少油|少盐|少糖|戒[酒烟糖]"
        "|无辣不欢|爱吃|控糖|低糖|不(?:爱|想|喜欢|敢|可以)[吃喝]|不耐受|低盐|低脂|无糖|生酮|纯素"
    ),
)
HEALTH = _Words(
    r"asthma\w*|arthritis|tendon\w*|tendin\w*|injur\w*|surgery|surgeries|operation on|sprain\w*|fractur\w*|(?:bad"
    "|weak|sore|torn|replaced|artificial|dodgy|broken|trapped) (?:left |right )?(?:back|knees?|hips?|shoulders?"
    r"|ankles?|wrists?|heels?|disc|eye)|(?:hip|knee) replacement|scoliosis|sciatica|epilep\w*|seizures?|migraines?"
    r"|depress\w*|anxiety|anxious|adhd|autis\w*|dyslexi\w*|pregnan\w*|ivf|breast-?feeding|pacemaker|arrhythmia"
    "|fibrillation|heart (?:condition|attack|disease|failure)|blood (?:pressure|thinners?|sugar)|hypertension"
    r"|diabet\w*|insulin|thyroid|cancer|chemo\w*|parkinson\w*|dementia|stroke|eczema|psoriasis|rosacea|allerg\w*"
    r"|colou?r[ -]?blind\w*|deaf|hearing aids?|blind|wheelchair|crutches|prosthe\w*|disab\w*|physio\w*|medication"
    r"|meds?|prescri\w*|takes (?:[\w-]+ ){1,3}?(?:\d+ ?m[cg]g?|daily|twice|every|for (?:his|her|their))|afraid of"
    r"|fear of|phobi\w*|\w+phobi[ac]|claustrophobi\w*|panic attacks?|insomnia|sleep apnoea|sleep apnea"
    r"|doctor (?:said|told|advised|says)|kidney|celiac|coeliac|chronic|hernia\w*|ana?emi[ac]|lupus|vertigo"
    r"|tinnitus|osteopor\w*|slipped disc|(?:back|knee|hip|shoulder|neck|wrist|ankle|joint|foot) (?:pain|problems?"
    "|issues?|trouble)",
    han=(
        "过敏|哮喘|受伤|旧伤|手术|骨折|关节|腰椎|颈椎|膝盖|半月板|孕|高血压|糖尿病|心脏|湿疹|吃药|服药|医生建议"
        "|医生说|色盲|耳背|听力|恐高|害怕|失眠|抑郁|焦虑|近视|痛风|血压|血糖|扭伤|腰[疼痛]|贫血|鼻炎|中风|癌|甲状腺"
        "|骨质疏松|轮椅|残疾"
    ),
)
TRAVEL = _Words(
    "(?:window|aisle|exit[ -]row|extra) (?:airplane )?seats?|passport|visas?|(?:motion|car|sea|travel"
    "|air)[ -]?sick(?:ness)?|seasick|(?:afraid|scared|fear|terrified) of (?:flying|heights|deep water|water"
    "|boats)|(?:overnight|red[ -]eye|early|long|direct|nonstop|non-stop) flights?|flies (?:only|with)"
    "|frequent flyer|airlines?|hostels?|airbnbs?|camper ?van|travels (?:with|light|by|only)|(?:has|owns|have"
    "|drives) no car|no driver['’]?s? licen[cs]e|does(?:n['’]t| not) (?:drive|fly)|(?:hates?|dislikes?) (?:flying"
    "|to fly|long drives)|carry-?on|rail ?cards?|prefers? (?:trains?|the train|flying|driving)(?! (?:school"
    "|gloves))|jet ?lag",
    han=(
        "靠窗|靠过道|护照|签证|晕车|晕船|晕机|红眼航班|不坐飞机|恐高|怕水|不会开车|没有车|(?:怕|不敢|不能)坐飞机"
        "|靠走道|驾照|常旅客"
    ),
)
TIME = _Words(
    r"(?:works?|working|shifts?|on call|is off|is free|days? off|night shifts?|off work)\b(?=.*\b(?:nights?|days?"
    "|mornings?|evenings?|weekends?|weekdays?|week|monday|tuesday|wednesday|thursday|friday|saturday|sunday"
    r"|\d{1,2}\s?[ap]m|\d{1,2}:\d\d|until|shifts?))|(?:every|each|on|until|after|before|by|except) (?:other "
    "|second |last )?(?:monday|tuesday|wednesday|thursday|friday|saturday|sunday|weekday|weekend|morning|evening"
    "|night)s?|(?:mon|tues|wednes|thurs|fri|satur|sun)days|(?:before|after|until|from|by"
    r"|at) (?:\d{1,2}(?::\d\d)?\s?[ap]\.?m\b|\d{1,2}:\d\d|noon|midnight)|(?:avoids?|no|never|hates?"
    r"|prefers?) (?:[\w-]+ ){0,2}?(?:meetings?|calls?|appointments?|mornings?|evenings?)|time ?zone",
    han=(
        "每[周天]|周[一二三四五六日末]|星期[一二三四五六日天]|礼拜[一二三四五六日天]|上班|下班|夜班|值班|轮班"
        "|点[前后]|月初|月底|每月|早起|时区|每[晚早]|没空|有空"
    ),
)
CODE = _Words(
    r"python|golang|typescript|javascript|kotlin|java|rust|ruby|php|c#|c\+\+|scala|elixir|swift|haskell|sql"
    r"|postgres\w*|mysql|sqlite|mongodb|redis|react|vue|svelte|angular|django|flask|fastapi|rails|spring boot"
    r"|node(?:\.?js)?|pandas|numpy|polars|pytorch|tidyverse|matlab|bash|powershell|shell scripts?|terraform"
    "|ansible|docker|kubernetes|k8s|helm|github actions|gitlab|jenkins|junos|(?:unit )?tests?|table-driven"
    "|linters?|eslint|prettier|mypy|type hints?|tabs?|spaces|snake_case|camel_?case|commits?|monorepo|code|coding"
    r"|scripts?|functions?|logging|log lines|json|yaml|config|apis?|frameworks?|libraries|git|(?:asp)?\.net"
    r"|flutter|perl|lua|clojure|laravel|next\.?js|pytest|jest|junit|ruff|pylint|neovim|vim|vs ?code|intellij"
    "|pycharm|graphql|grpc|(?<=in )r|(?:uses|formatted with|formats with) black|html|css",
    han="代码|脚本|编程|后端|前端|数据库|框架|缩进|注释|单元测试|编码",
)
WRITING = _Words(
    "(?:wants?|prefers?|asks? for|insists? on|likes?|expects?|requires?|hates?|dislikes?|limits?"
    r"|needs?)\b(?=.*\b(?:memos?|reports?|e?-?mails?|captions?|copy|letters?|drafts?|documents?|posts?|slides?"
    r"|presentations?|minutes|updates?|comments?|briefs?|summar\w+|headings?|bold|bullet\w*|formal|informal|tone"
    r"|address|words|pages?|sentences?|emojis?|spelling|format\w*|markdown|headlines?|newsletters?))|style(?= ?:)"
    "|style guide|house style|british (?:english|spelling)|american (?:english|spelling)|signs? (?:off|e?-?mails"
    "|letters)|oxford comma|em[ -]dash(?:es)?",
    han="要求.*(?:报告|周报|邮件|文案|字|格式)|语气|文风|署名|落款|口吻|排版",
)
MONEY = _Words(
    "budget|(?:can|will|may) (?:only )?(?:spend|afford)|at most|no more than|spend(?:s|ing)? limit"
    "|saving (?:up )?for|second[ -]?hand|refurbished|(?:won['’]t|does(?:n['’]t| not)|never|refuses to"
    r"|boycotts?) (?:buy|shop|order|use)|ethical\w*|fair[ -]?trade|frugal|thrifty|(?:can['’]?t|cannot"
    r"|can not) afford|price limit|on a (?:tight )?budget|up to [$€£]\d[\d,.]*",
    han="预算|最多花|存款|攒钱|二手|省钱|价位|买不起|不超过.{0,8}[元块钱]",
)
ANSWER = re.compile(
    r"^(?!.*\b(?:legal|contract\w*|officials?|clients?|customers?|boss|manager|team|teachers?|e-?mails?|letters?|memos?"
    r"|reports?|posts?)\b)(?:the )?user\b.*\b(?:"
    r"(?:wants?|prefers?|asks? for|likes?|needs?|hates?|dislikes?|would like|finds?)\b(?=.*\b(?:answers?|repl(?:y|ies)"
    r"|responses?|explanations?|explained|bullet\w*|step[ -]by[ -]step|numbered|concise|(?:no|without|in) tables?"
    r"|jargon|plain (?:english|language|words)|walls? of text|emojis? in|examples? first|tl;?dr|metric units|imperial units"
    r"|units in|celsius|fahrenheit|answered|replied)\b)"
    r"|(?:answers?|repl(?:y|ies)|responses?|explanations?) (?:in|should|must|without|with|to be)\b"
    r"|(?:wants|prefers|likes|asks) to be (?:called|addressed|answered)\b)"
    "|回答|回复.*(?:简短|短|要点|中文|英文)|希望.*(?:字句|句子|解释|简短|简单|短一些)|称呼",
)
NAME = re.compile(
    r"^(?:the )?user['’]s (?:(?:first |full |nick|last )?name is"
    r"|(?:native |first |preferred |main )?(?:language|pronouns))\b"
    "|^(?:the )?user (?:is called|goes by|is named|wants to be called|prefers to be called)"
    "|^用户(?:叫|名叫|姓|的名字)|^用户的?母语",
)

# Requests

FOOD = _Words(
    r"cook\w*|dinners?|lunch\w*|breakfasts?|brunch|supper|snacks?|recipes?|meals?|restaurants?|cafes?|menus?"
    "|cakes?|cupcakes?|bak(?:e|ing|ery)|bbq|barbecue|takeaway|take-?out|chippy|desserts?|pudding|treats?|eat"
    r"|eating|food|dish(?:es)?|picnic|potluck|buffet|cater\w*|drinks?|cocktails?|smoothies?|pasta|pizza|sushi"
    r"|curry|salads?|soups?|sandwich\w*|grocer\w*|shopping list|gels?|appetizers?|starters?|ice cream|protein \w+"
    "|wine|starving|hungry|fridge|freezer|dine|dining|lunchbox(?:es)?|bento|ingredients?|burgers?|leftovers",
    han=(
        "吃(?![惊力亏药])|早餐|午餐|晚餐|菜|餐厅|外卖|零食|蛋糕|聚餐|煮|喝|火锅|夜宵|食谱|饭|甜[点品]|烧烤|宵夜|食材"
        "|便当|奶茶"
    ),
)
BODY = _Words(
    r"work-?outs?|exercis\w*|training|train for|gym|run(?:s|ning)?|hik(?:e|es|ing)|yoga|swim\w*|cycl(?:e|ing)"
    r"|stretch\w*|sports?|marathon|lose weight|get fit|fitness|practi[cs]e plan|\d+[ -]?week (?:block|plan"
    r"|program\w*)|pain\w*|hurts?|ache\w*|headache|fever|cold|cough|flu|medicin\w*|ibuprofen|paracetamol|aspirin"
    r"|painkillers?|antibiotics?|supplements?|vitamins?|symptoms?|doctor|gp|dentist|pharmac\w*|rash|infection|uti"
    r"|sleep|activit(?:y|ies)|outings?|things to do|day out|lift\w*|carry|mov(?:e|ing) (?:house|furniture)|chairs?"
    r"|desk|mattress|shoes|sweater|jumper|skin\w*|shampoo|sunscreen|lotion|soap|detergent|safe|jog(?:ging)?"
    r"|pilates|cardio|push-?ups|squats|warm-?up|physio\w*|sore throat|nausea|dizzy|massage|trainers",
    han=(
        "运动|健身|锻炼|跑步|减肥|减十?斤|瑜伽|爬山|疼|痛(?![快苦])|药|感冒|发烧|咳嗽|医生|医院|毛衣|护肤|睡|游泳"
        "|拉伸|打球|骑车|头晕|体检|失眠"
    ),
)
TRIP = _Words(
    r"trips?|travel\w*|flights?|fly(?:ing)?|hotels?|vacations?|holidays?|honeymoons?|itinerar\w*|weekend (?:away"
    "|getaway|in)|getaways?|road ?trips?|book(?:ing)? (?:a|the|us|me|my|flights?|tickets?)|airports?|trains?"
    "|ferry|ferries|cruises?|pack(?:ing)? (?:list|for)|what (?:should|do) i pack|luggage|tour(?:s|ing|ists?)?"
    r"|visit(?:s|ing)?|sightsee\w*|backpack\w*|camping|routes?|way (?:to get|from)|get (?:there|to)|days? in"
    "|resorts?|airbnbs?|hostels?|abroad|layover|sights|beach(?:es)?|camp(?:ground|site)s?",
    han="旅行|旅游|机票|酒店|航班|度假|行程|出差|自驾|高铁|火车|带孩子.*去|去.*玩|签证|民宿|景点|攻略|出国|出行|露营",
)
DATE = _Words(
    r"schedul\w*|meetings?|appointments?|calendars?|timetables?|time ?slots?|slots?|rotas?|roster|reschedul\w*"
    r"|availab\w*|free (?:on|this|next|time)|which (?:day|weekend|week|date|evening)|what (?:day|time|date)"
    "|when (?:should|could|can|shall)|(?:this|next|coming) (?:week(?:end)?|month|monday|tuesday|wednesday"
    "|thursday|friday|saturday|sunday)|on (?:a )?(?:mon|tues|wednes|thurs|fri|satur|sun)days?|(?:mon|tues|wednes"
    "|thurs|fri|satur|sun)day (?:morning|afternoon|evening|night|at)|plan (?:my|a|our|the|out)|revision plan"
    r"|study plan|date nights?|tomorrow|tonight|weekends?|invit\w*|\d{1,2}\s?[ap]m|agenda|reservations?|rsvp"
    "|one-on-one|(?:a|my|our|the) call with|this (?:morning|afternoon|evening)",
    han=(
        "安排|计划|周末|开会|会议|(?<![大节纽条合])约(?!等于|束)|什么时候.*合适|哪天|时间表|日程|排班|明天|今晚|下周"
        "|聚会|几点|有空|空档|后天|今天(?:下午|晚上)"
    ),
)
PROGRAM = _Words(
    r"code|scripts?|functions?|(?:unit )?tests?|refactor\w*|implement\w*|debug\w*|logging|class(?:es)?|api"
    r"|endpoints?|query|sql|regex|program|cli|bash|python|javascript|typescript|golang|java|rust|docker\w*"
    r"|kubernetes|deploy\w*|config\w*|policy|pipeline|ci|parsers?|parse|schema|migration|component|hook|module"
    "|library|package|repo|stack trace|algorithm|snippet|playbook|terraform|yaml|json|csv"
    r"|summari[sz]e .*\b(?:data|by)|plot|programming|bugs?|compil\w*|traceback|database|frontend|backend"
    r"|web ?(?:site|app|page)|html|css|c\+\+|c#|php|ruby|kotlin|git|webhooks?|cron(?:job)?|makefile|crud",
    han="代码|脚本|函数|程序|接口|部署|测试|写个.*(?:工具|程序|脚本)|编程|报错|数据库|爬虫|算法|网页|正则|重构",
)
TEXT = _Words(
    "draft|e-?mails?|letters?|write (?:a|an|the|this|my|me|up|to|back)|captions?|memos?|reports?|cover letter"
    r"|cards?|messages?|texts? to|translat\w*|rewrite|rephrase|proofread|summar(?:y|ise|ize)|posts?|blog|article"
    "|speech|slides?|presentation|minutes|newsletter|listing|ad|announcement|brief|note to|reply to|invitation"
    "|bio|resume|cv|essay|proposal|press release|copy|turn this into|tweets?|linkedin|paragraphs?|eulogy|vows"
    "|complaint|thank-?you note",
    han=(
        "写|邮件|周报|报告|文案|翻译|润色|(?<![微相自可])信(?![息任心用号])|开场白|演讲|发言|总结|简历|作文|文章|稿"
        "|通知|致辞|祝福|请假条|朋友圈"
    ),
)
PURCHASE = _Words(
    r"buy(?:ing)?|purchas\w*|shop(?:ping)?|recommend\w*|order(?:ing)?|gifts?|presents?|which (?:laptop|phone|car"
    r"|bike|tv|camera|model|brand|one should)|worth (?:it|buying)|afford|cheap\w*|upgrade|deals?|brand|look for in"
    "|fit in|get (?:him|her|them|the|for|my|a new)|where can i get|discounts?|bargains?|wish ?list|on sale"
    r"|which (?:\w+ ){1,2}should i (?:get|choose|pick)",
    han="买|推荐|礼物|换[个一新]|值得|送.*什么|购[买物]|网购|性价比|哪款|哪个牌子|便宜|挑(?!战)",
)
LETTER = _Words(
    "e-?mails?|letters?|cards?|application|resume|cv|bio|invitations?|sign(?:ature)?|(?:reply|note|message) to",
    han="邮件|写.?封|简历|贺卡",
)
EXPLANATION = _Words(
    r"explain\w*|explanation|describe|compare|comparison|differences?|pros and cons|overview|teach me"
    "|walk me through|help me understand|how (?:does|do|did|is|are|to|can|would|should)|why|what(?:['’]s| is| are"
    r"| does)|summar\w+|steps|guide|tutorial|instructions|tips|advice|eli5|definition of|meaning of|break (?:it"
    "|this|that) down",
    han="解释|讲讲|讲一?下|介绍|区别|怎么|如何|为什么|什么是|原理|步骤|对比|说明|讲解|教我|是什么意思",
)
