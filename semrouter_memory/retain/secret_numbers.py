"""Rules for numbers: of papers, accounts and cards, by name or by check digits, and long random strings. Pure."""

from semrouter_memory.language.scripts import WORD_END, WORD_START
from semrouter_memory.retain import secret_values as values
from semrouter_memory.retain.secret_forms import K, iban_rule, is_card, needing, rule

NUMBERED = (
    *needing(
        "",
        rule(
            K.CARD,
            r"\b(?:cvv2?|cvc2?|card\s(?:security|verification)\scode|security\scode\son\s(?:the|my)\s(?:back|card)[\w ]{0,20})(?:\son\s\w{1,12})?\W{0,3}(?:(?:is|code|number)\s)?(?P<value>\d{3,4})\b",
        ),
        rule(K.NATIONAL_ID, r"\b(?:ssn|social\ssecurity(?:\snumber)?)\D{0,12}(?P<value>\d{3}[ -]?\d{2}[ -]?\d{4})\b"),
        rule(
            K.NATIONAL_ID,
            r"\b(?:passport|identity\scard|id\scard|driving\slicen[cs]e|driver['’]?s['’]?\slicen[cs]e|national\sinsurance|social\s(?:security|insurance)|ni|tax(?:payer)?|residence\spermit|national\sid)"
            r"\s(?:numbers?|no\b\.?|nr\b\.?|id\b(?:\snumber)?|identification\snumber|#)\W{0,3}(?:(?:is|was|reads)\W{1,3})?(?P<value>[A-Z]{2}(?: ?\d\d){3} ?[A-D]\b|(?=[\w/-]*\d)[\w/-]{5,24})",
            values.is_code,
        ),
        rule(
            K.NATIONAL_ID,
            r"\b(?:passport|driving\slicen[cs]e|driver['’]?s['’]?\slicen[cs]e|nino|personalausweis(?:nummer)?|reisepass(?:nummer)?|ausweisnummer|steuer-?id|dni|nie)(?:\s?:|\s(?:is|ist|es|hat\sdie\snummer))\s(?P<value>(?=[\w-]{0,23}\d)[A-Z0-9][A-Z0-9-]{5,23})(?!\w)",
            values.is_code,
        ),
        rule(
            K.NATIONAL_ID,
            r"(?:身份证|护照|社保|驾照|驾驶证)(?:卡?号码?|编号|\s?(?=是|为|：|:))\s?(?:就?是|为|：|:)?\s?(?P<value>[A-Za-z0-9]{6,18})(?![A-Za-z0-9年])",
            values.is_code,
        ),
        rule(
            K.BANK_ACCOUNT,
            r"\b(?:sort\scode|routing\s(?:number|no)|acc(?:oun)?t\s(?:number|no)|bank\saccount|kontonummer|num[ée]ro\sde\scompte|n[úu]mero\sde\scuenta)\b\W{0,3}(?:(?:is|ist|est|es)\s)?(?P<value>\d[\d -]{4,20}\d)(?![\w-])",
            values.is_account_number,
        ),
        rule(K.BANK_ACCOUNT, r"(?:银行卡|银行账|账)号?码?\s?(?:就?是|为|：|:)?\s?(?P<value>\d{10,19})(?!\d)"),
        digit=True,
    ),
)

_SEPARATOR = r"[ .\u00a0–-]{1,2}"
CHECKED = (
    *needing(
        "",
        rule(K.NATIONAL_ID, rf"(?<!\d)(?P<value>\d{{17}}[\dX]){WORD_END}", values.is_citizen_number),
        rule(
            K.CARD,
            rf"{WORD_START}(?<![.+-])(?P<value>\d{{14,19}}|\d{{4}}(?:{_SEPARATOR}\d{{4}}){{3}}(?:{_SEPARATOR}\d{{1,3}})?|\d{{4}}{_SEPARATOR}\d{{6}}{_SEPARATOR}\d{{4,5}}){WORD_END}(?!-)",
            is_card,
        ),
        iban_rule(),
        rule(
            K.RANDOM_STRING,
            rf"{WORD_START}(?<![/+=.:-])(?P<value>(?=[\w+]*/)[A-Za-z0-9+][A-Za-z0-9/+]{{38,86}}={{0,2}}){WORD_END}(?![/+=])",
            values.is_random,
        ),
        rule(
            K.RANDOM_STRING,
            rf"{WORD_START}(?<![/.+=-])(?P<value>[A-Za-z0-9_+=-]{{32,}}){WORD_END}(?![/.+=-])",
            values.is_random,
            flags=0,
        ),
        digit=True,
    ),
)
