"""The rules by which secrets are found, in the order in which they are applied. Pure."""

import re

from semrouter_memory.retain import secret_values as values
from semrouter_memory.retain.secret_forms import (
    ACCESS,
    ASSIGNS,
    BEFORE,
    CLAUSE_END,
    CODE,
    DIGIT_WORD,
    DIGITS,
    END_QUOTE,
    FOR,
    FOUR_DIGITS,
    IS,
    KEY,
    LOCKS,
    NAMED,
    NO_UNIT,
    NOT_IN_WORD,
    ONE_TIME,
    PASSWORD,
    PASSWORT,
    PHRASE,
    PIN,
    PREFIXED,
    QUOTE,
    QUOTED,
    SECRETS,
    SET_TO,
    WITH,
    WORD,
    K,
    Rule,
    needing,
    rule,
    vendor_rules,
)
from semrouter_memory.retain.secret_numbers import CHECKED, NUMBERED

_STRUCTURED = (
    *needing(
        "begin",
        rule(
            K.PRIVATE_KEY,
            r"(?P<value>-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z))",
            flags=re.DOTALL,
        ),
    ),
    *needing("eyj", rule(K.JWT, r"\b(?P<value>eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?)", flags=0)),
    *vendor_rules(),
    *needing(
        "bearer basic",
        rule(K.CREDENTIALS, r"\bbearer\s+(?P<value>[A-Za-z0-9._~+/-]{12,}=*)", values.is_mixed_token),
        rule(K.CREDENTIALS, r"\bbasic\s+(?P<value>[A-Za-z0-9+/]{12,}=*)", values.is_credentials),
    ),
    *needing("://", rule(K.URL_CREDENTIALS, r"://(?P<value>[^\s/:@]{1,128}:[^\s/@]{1,128})@", values.is_url_login)),
)

_ASSIGNED = (
    *needing(
        "pass pw",
        rule(K.PASSWORD, rf"{BEFORE}{NAMED}{ASSIGNS}{QUOTED}", values.is_quoted_secret),
        rule(K.PASSWORD, rf"{BEFORE}{NAMED}\s?(?::=|=>?)\s?(?P<value>[^\s\"',;]{{3,}})", values.is_assigned),
        rule(K.PASSWORD, rf"{PREFIXED}{NAMED}[\"']?:\s{{0,3}}(?P<value>[^\s\"',;]{{3,}})", values.is_assigned),
    ),
    *needing(
        "key token secret credential",
        rule(K.API_KEY, rf"{BEFORE}{SECRETS}{ASSIGNS}[\"'](?P<value>[^\"'\s]{{6,}})[\"']", values.is_quoted_secret),
        rule(
            K.API_KEY,
            rf"{BEFORE}(?:{SECRETS}|secret|token|credentials?|key){ASSIGNS}[\"']?(?P<value>[^\s\"',;]{{6,}})",
            values.is_mixed_token,
        ),
    ),
    *needing(
        "pin puk otp",
        rule(K.PIN, rf"{PREFIXED}(?:pin|puk){ASSIGNS}[\"']?(?P<value>\d{{4,8}})\b"),
        rule(K.ONE_TIME_CODE, rf"{PREFIXED}(?:otp|totp){ASSIGNS}[\"']?(?P<value>\d{{4,8}})\b"),
        digit=True,
    ),
)

_CODES = (
    *needing(
        "code código codigo otp password pin",
        rule(K.ONE_TIME_CODE, rf"{ONE_TIME}{FOR}{IS}{QUOTE}?(?P<value>{CODE}){NO_UNIT}", values.is_code),
        rule(K.ONE_TIME_CODE, rf"{ONE_TIME}[:,]?\s(?P<value>{FOUR_DIGITS})"),
        rule(
            K.ONE_TIME_CODE,
            rf"(?<![\w.-])(?P<value>(?:[A-Z]-)?\d{{4,8}}|\d{{3}}[ -]\d{{3}})\s(?:is|as|was)\s(?:your\scode\b|(?:your|my|the|our)\s(?:[\w-]{{1,20}}\s){{0,2}}?{ONE_TIME})",
        ),
        digit=True,
    ),
    *needing(
        "code comb",
        rule(K.ACCESS_CODE, rf"{ACCESS}{FOR}{IS}{QUOTE}?(?P<value>{CODE}){NO_UNIT}", values.is_code),
        rule(K.ACCESS_CODE, rf"{ACCESS}[:,]?\s(?:to\s)?(?P<value>{FOUR_DIGITS})"),
        rule(
            K.ACCESS_CODE,
            r"\b(?<!area )(?<!postal )(?<!post )(?<!zip )(?<!error )(?<!status )(?<!course )(?<!dial )(?<!country )code\s(?:for|to|of|on)\s(?:the|my|our|their|his|her)"
            rf"\s(?:[\w'’-]{{1,20}}\s){{0,4}}?{LOCKS}(?:\s[\w'’-]{{1,20}}){{0,4}}?\s(?:is|was|=)\s(?:now\s)?(?P<value>{CODE}){NO_UNIT}",
            values.is_code,
        ),
        digit=True,
    ),
    *needing(
        "opens opened unlock disarm",
        rule(
            K.ACCESS_CODE,
            rf"\b{LOCKS}\s(?:opens|unlocks|disarms|is\s(?:opened|unlocked|disarmed))\s(?:with|by|using)\s(?:the\s)?(?:(?:code|number|combination|entering)\s)?(?P<value>{FOUR_DIGITS})",
        ),
        digit=True,
    ),
    *needing(
        "verify sign log confirm authent reset",
        rule(
            K.ONE_TIME_CODE,
            rf"\b(?:use|enter|type)\s(?:the\s)?(?:code\s)?(?P<value>{FOUR_DIGITS})\sto\s(?:verify|sign\sin|log\s?in|confirm|authenticate|reset)\b",
        ),
        digit=True,
    ),
    *needing(
        "type enter press dial in",
        rule(
            K.ACCESS_CODE,
            rf"\b(?:type|enter|press|dial|key\sin|punch\sin)\s(?P<value>{FOUR_DIGITS})\s(?:at|on|into|to\sopen)\s(?:the|our|my|your)\s(?:[\w-]{{1,16}}\s){{0,2}}?{LOCKS}\b",
        ),
        digit=True,
    ),
    *needing(
        "keypad box safe",
        rule(K.ACCESS_CODE, rf"\b(?:keypad|key\s?box|lock\s?box|key\ssafe)\s?:\s?(?P<value>{FOUR_DIGITS})"),
        digit=True,
    ),
    *needing(
        "pin puk geheimzahl",
        rule(K.PIN, rf"{PIN}{FOR}{IS}{QUOTE}?(?P<value>{DIGITS}(?:(?:,|\sand|\sor)\s\d{{4,8}}\b){{0,4}})"),
        rule(K.PIN, rf"{PIN}(?:[:,]?|{FOR}\sto)\s(?P<value>{FOUR_DIGITS})"),
        rule(K.PIN, rf"(?<![\w.-])(?P<value>\d{{4,8}})\s(?:is|was|=)\s{WITH}\s(?:[\w-]{{1,16}}\s){{0,2}}?{PIN}"),
        digit=True,
    ),
    *needing(
        "pin puk code comb",
        rule(
            K.PIN,
            rf"\b(?:pins?|puk|passcode|code|combination|combo)\b[^.,;:?!\n\d]{{0,40}}?[\s:](?P<value>(?:{DIGIT_WORD}[\s,-]{{1,2}}){{3,12}}{DIGIT_WORD})\b",
        ),
    ),
)

_PASSWORDS = (
    *needing(
        "pass pw kennwort contrase senha wachtwoord clave key parola",
        rule(
            K.PASSWORD,
            rf"(?:{PASSWORD}|{PASSWORT}){FOR}(?:{SET_TO}|[:,]?\s){QUOTE}(?P<value>[^\"”’'`」»\n]{{3,64}}){END_QUOTE}",
            values.is_quoted_secret,
        ),
        rule(K.PASSWORD, rf"(?:{PASSWORD}|{PASSWORT}){FOR}{SET_TO}{QUOTE}?(?P<value>{WORD})", values.is_strong),
        rule(K.PASSWORD, rf"{PASSWORD}{FOR}{SET_TO}{PHRASE}", values.is_passphrase),
        rule(
            K.PASSWORD,
            rf"{PASSWORT}{FOR}{IS}(?P<value>(?-i:[A-ZÄÖÜ])[^\W\d_]{{2,24}}){CLAUSE_END}",
            values.is_passphrase,
        ),
        rule(K.PASSWORD, rf"(?:{PASSWORD}|{PASSWORT})[:,]?\s(?P<value>{WORD})", values.is_bare_password),
        rule(
            K.PASSWORD,
            rf"{NOT_IN_WORD}pass(?:[:,]?|\sis)\s{QUOTE}?(?=[^\s]{{0,64}}[#!@$%^&*])(?P<value>{WORD})",
            values.is_bare_password,
        ),
        rule(
            K.PASSWORD,
            rf"\b(?:chang|set|reset|switch|updat|mak)\w{{0,4}}\s(?:\S{{1,20}}\s){{0,4}}?(?:{PASSWORD}|{PASSWORT}){FOR}\sto\s(?:be\s)?{QUOTE}?(?P<value>{WORD})",
            values.is_strong,
        ),
        rule(
            K.PASSWORD,
            rf"(?<!\S){QUOTE}?(?P<value>[^\s\"'“”‘’\[\]]{{4,64}}){END_QUOTE}?\s(?:is|was)\s{WITH}\s(?:[\w-]{{1,16}}\s){{0,2}}?{PASSWORD}{CLAUSE_END}",
            values.is_strong,
        ),
        rule(
            K.PASSWORD,
            rf"\b(?:use|using|used|with|try|enter|type|picked|chose)\s{QUOTE}?(?P<value>{WORD}){END_QUOTE}?\s(?:as|for)\s{WITH}\s(?:[\w-]{{1,16}}\s){{0,2}}?{PASSWORD}",
            values.is_strong,
        ),
        rule(
            K.PASSWORD,
            r"\b(?:user(?:[ _-]?name)?|login|log-in|usr)(?:\sis|\s?[:=])?\s[^\s,;/|'’]{2,64}[,;/|]?\s(?:and\s)?(?:(?:the|my)\s)?(?:pass(?:word|wort|code)?|pw|pwd|kennwort)(?:\sis|\s?[:=])?\s(?P<value>\S{4,64})",
            values.is_bare_password,
        ),
    ),
    *needing(
        "login log-in cred",
        rule(
            K.PASSWORD,
            r"\b(?:login|log-in|credentials|creds)\s?(?:is|are|:)\s?[^\s/|:]{1,64}\s?[/|]\s?(?P<value>[^\s/]{5,64})",
            values.is_strong,
        ),
    ),
    *needing(
        "wifi wi-fi wlan ssid",
        rule(
            K.PASSWORD,
            r"\b(?:wi-?fi|wlan|ssid)\s?(?:is|:)\s?[^\s/|:]{1,64}\s?[/|]\s?(?P<value>[^\s/]{5,64})",
            values.is_bare_password,
        ),
    ),
    *needing(
        "key token secret",
        rule(
            K.API_KEY,
            rf"{KEY}{FOR}{IS}{QUOTE}(?P<value>[^\"”’'`\s]{{6,128}}){END_QUOTE}",
            values.is_quoted_secret,
        ),
        rule(K.API_KEY, rf"{KEY}{FOR}{IS}{QUOTE}?(?P<value>[^\s\"”’'`,;]{{6,256}})", values.is_mixed_token),
        rule(K.API_KEY, rf"{KEY}[:,]?\s(?P<value>[\w./+=-]{{16,256}})", values.is_key),
    ),
    *needing(
        "key",
        rule(
            K.LICENCE_KEY,
            r"\b(?:wlan|wi-?fi|wireless|network|router|licen[cs]e|product|activation|recovery|encryption|pre-shared|security|master|bitlocker|unlock|registration|steam|software|vpn|windows|serial)[\s-]key\W{0,3}(?:(?:is|was|says|reads)\W{1,3})?(?P<value>(?=[\w-]*\d)[\w-]{4,}(?:[ -](?=\w*\d)[A-Z0-9]{2,8}\b){0,10})",
            values.is_licence_key,
        ),
        digit=True,
    ),
    *needing(
        "phrase word 助记词",
        rule(
            K.SEED_PHRASE,
            r"(?:\b(?:seed|recovery|mnemonic|backup|secret|wallet)\s(?:phrase|words?)\b|助记词)\W{0,3}(?:(?:is|are|是)\W{0,3})?(?P<value>(?:[a-z]{3,8}[ ,]{1,2}){11,23}[a-z]{3,8})\b",
            values.is_seed_phrase,
        ),
    ),
)

_CHINESE_IS = r"\s?(?:就?是|为|叫|:|：|=|改成了?|改为|设为|设成了?|设置为|换成了?)\s?"
_CHINESE = (
    *needing(
        "密码 口令 密钥 令牌",
        rule(
            K.PASSWORD,
            rf"(?:密码|口令|密钥|令牌){_CHINESE_IS}[“「\"'](?P<value>[^”」\"'\n]{{2,64}})[”」\"']",
            values.is_quoted_secret,
        ),
        rule(
            K.PASSWORD, rf"(?:密码|口令|密钥|令牌){_CHINESE_IS}(?P<value>[!#-&(-~]{{3,64}})", values.is_said_in_chinese
        ),
        rule(
            K.PASSWORD,
            r"(?:密码|口令)\s?(?P<value>(?=[!-~]{0,40}\d)[!#-&(-~]{4,64})(?![年月日次位个天])",
            values.is_bare_password,
        ),
    ),
    *needing(
        "pin 码",
        *(
            rule(
                kind,
                rf"(?:{names})(?:{_CHINESE_IS}|\s?)[“「\"]?(?P<value>#?[A-Za-z0-9]{{3,10}}#?)(?![A-Za-z0-9年位分])",
                values.is_code,
            )
            for kind, names in (
                (K.PIN, r"(?<![A-Za-z])PIN码?"),
                (K.ONE_TIME_CODE, "验证码|动态码|校验码|短信码|授权码|恢复码"),
                (K.ACCESS_CODE, "门禁码|开门码|解锁码|门锁码|安全码"),
            )
        ),
        digit=True,
    ),
)

RULES: tuple[Rule, ...] = (*_STRUCTURED, *_ASSIGNED, *NUMBERED, *_CODES, *_PASSWORDS, *_CHINESE, *CHECKED)
