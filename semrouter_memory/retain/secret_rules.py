"""The rules by which secrets are found, in the order in which they are applied. Pure.

Strategy: published shapes first (`key_shapes.toml`), then values that stand behind a name, then numbers with check digits,
last long random strings. A name is a whole word, and what stands behind it must look like a value: digits for a PIN,
for a password no word that would describe one. Every pattern is linear in the text's length.
"""

import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from importlib.resources import files
from typing import Any

from semrouter_memory.retain import secret_values as values

Check = Callable[[str], bool]


class SecretKind(StrEnum):
    API_KEY = "api_key"
    PRIVATE_KEY = "private_key"
    JWT = "jwt"
    CREDENTIALS = "credentials"
    URL_CREDENTIALS = "url_credentials"
    PASSWORD = "password"  # noqa: S105 - the name of a kind
    PIN = "pin"
    ONE_TIME_CODE = "one_time_code"
    ACCESS_CODE = "access_code"
    LICENCE_KEY = "licence_key"
    SEED_PHRASE = "seed_phrase"
    CARD = "card_number"
    IBAN = "iban"
    BANK_ACCOUNT = "account_number"
    NATIONAL_ID = "national_id"
    RANDOM_STRING = "random_string"

    @property
    def in_words(self) -> str:
        """As messages to users have it: "a password", "an IBAN"."""
        words = self.value.replace("_", " ")
        for short in ("api", "jwt", "pin", "iban", "id", "url"):
            words = re.sub(rf"\b{short}\b", short.upper(), words)
        return words if words.endswith("credentials") else f"{'an' if words[0] in 'aAI' else 'a'} {words}"


def _always(_: str) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Rule:
    """One shape of a secret.

    Attributes:
        pattern: its group `value` is what is taken out.
        is_secret: whether such a value is one.
        needs: one of these stands in every text, case-folded, that the pattern matches; (): any text may match. Looking
            for them costs a fraction of the pattern.
        needs_digit: a text without a digit does not match.
    """

    kind: SecretKind
    pattern: re.Pattern[str]
    is_secret: Check = _always
    needs: tuple[str, ...] = ()
    needs_digit: bool = False


def _rule(kind: SecretKind, pattern: str, is_secret: Check = _always, *, flags: int = re.IGNORECASE) -> Rule:
    return Rule(kind, re.compile(pattern, flags), is_secret)


def _needing(needs: str, *rules: Rule, digit: bool = False) -> tuple[Rule, ...]:
    return tuple(replace(rule, needs=tuple(needs.split()), needs_digit=digit) for rule in rules)


def _load() -> dict[str, Any]:
    return tomllib.loads(files(__package__).joinpath("key_shapes.toml").read_text(encoding="utf-8"))


_DATA = _load()


def _vendor_rules() -> Iterator[Rule]:
    shapes = "|".join(pattern["shape"] for pattern in _DATA["pattern"])
    yield _rule(SecretKind.API_KEY, rf"(?<![A-Za-z0-9])(?P<value>{shapes})", flags=0)
    for prefix in _DATA["prefix"]:
        begins = "|".join(map(re.escape, sorted(prefix["begins"], key=len, reverse=True)))
        pattern = rf"(?<![A-Za-z0-9_])(?P<value>(?:{begins})[{prefix['alphabet']}]{{{prefix['least']},}})"
        rule = _rule(SecretKind.API_KEY, pattern, _behind(tuple(prefix["begins"])), flags=0)
        yield replace(rule, needs=tuple(begin.casefold() for begin in prefix["begins"]))


def _behind(prefixes: tuple[str, ...]) -> Check:
    longest_first = sorted(prefixes, key=len, reverse=True)

    def is_key(value: str) -> bool:
        return values.is_key(value.removeprefix(next(each for each in longest_first if value.startswith(each))))

    return is_key


def _iban_rule() -> Rule:
    shapes = "|".join(
        rf"(?:{countries.replace(' ', '|')})\d\d(?:[ ]?[A-Z0-9]){{{int(length) - 4}}}"
        for length, countries in _DATA["iban_lengths"].items()
    )
    return _rule(SecretKind.IBAN, rf"\b(?=[A-Z]{{2}}\d\d)(?P<value>{shapes})(?![A-Z0-9])", values.has_iban_digits)


def _is_card(value: str) -> bool:
    digits = "".join(char for char in value if char.isdigit())
    issued = any(
        len(digits) in card["lengths"] and values.first_digits_in(digits, card["first"]) for card in _DATA["card"]
    )
    return issued and values.has_luhn_digit(digits)


# -- the pieces of spoken forms
_NOT_IN_WORD = r"(?<![\w'’-])"
_FOR = r"(?:\s(?:for|of|to|on|at|in|with|from|that|which|i|you|he|she|it|we|they|für|vom|zum|der|des|meiner|auf|de|del|du|da|para|pour|van|voor)\s(?!(?:\w{1,5}\s)?(?:heart|soul|success|happiness|life|love|wealth|peace|freedom)\b)[^.,;:?!\n\"“「]{1,60}?)?"
_IS = r"(?:\s(?:is|are|was|were|remains|ist|lautet|war|est|es|é|=)\s?:?\s|['’]s\s|\s?(?:=|:|：)\s?)(?:(?:now|still|currently|again|actually|simply|just|jetzt)\s)?"
_WAS_SET = r"(?:\s(?:has\sbeen|have\sbeen|was|is|got)?\s?(?:changed|set|reset|updated|switched)\s(?:back\s)?to\s)"
_QUOTE, _END_QUOTE = r"[\"“‘'`「«]", r"[\"”’'`」»]"
_WORD = r"[^\s\"“”‘’'`]{3,64}?(?=[.,;:!?)]*(?:[\s\"”’'`]|\Z))"
_CLAUSE_END = r"(?=\s*(?:[.,;:!?)]+(?:\s|\Z)|\n|\Z|[。，；！？])|\s(?:and|but|so|or|please|because|since|which|though|for|on|at|in|if|don['’]?t|can|could|remember|keep|just|not|i|i['’]m)\b)"
_NO_UNIT = (
    r"(?![\w.,-]*\d|\w|%|\s?(?:%|°|mm|cm|km|kg|mg|ml|kb|mb|gb|ft|inch(?:es)?|euros?|dollars?|usd|eur|each|times"
    r"|points?|miles?|pages?|people|years?|days?|hours?|minutes?|steps?)\b)"
)
_WITH = r"(?:my|our|the|your|his|her|their|user['’]s|this|that)"

_PASSWORD = rf"{_NOT_IN_WORD}(?:passwords?|passwd|pass\s?phrases?|pass\s?codes?|pwd|pw|wi-?fi\skey|wlan[- ]key)(?!\w)"
_PASSWORT = rf"{_NOT_IN_WORD}(?:(?:\w{{2,16}}-?)?passwort|kennwort|contrase[ñn]a|mot\sde\spasse|senha|wachtwoord|clave\s(?:del?|de\sla)\s(?:wi-?fi|red|router|alarma|tarjeta)|parola\schiave)(?!\w)"
_KEY = rf"{_NOT_IN_WORD}(?:(?:api|secret|access|private|encryption|signing|master|ssh|aws)[ _-]?keys?|(?:api|signing|webhook|app|oauth)[ _-]?secrets?|(?:api|access|auth|bearer|refresh|session|bot|personal\saccess)[ _-]?tokens?|client[ _-]?secrets?)(?!\w)"
_PIN = rf"{_NOT_IN_WORD}(?:pins?(?:[ -]?(?:codes?|numbers?|no\.?|nr\.?|nummer))?|puk|geheimzahl|c[óo]digo\spin|code\spin)(?![\w-])"
_ONE_TIME = rf"{_NOT_IN_WORD}(?:otps?|totp|(?:one[\s-]time|verification|authentication|authenticator|auth|login|log-in|sign-?in|confirmation|2fa|mfa|sms|two[- ]factor|recovery|backup|activation)\s(?:codes?|passwords?|passcodes?|pins?)|bestätigungscode|code\sde\svérification|c[óo]digo\sde\sverificaci[óo]n)(?!\w)"
_ACCESS = rf"{_NOT_IN_WORD}(?:(?:front\s|back\s|garage\s)?(?:door|gate|alarm|garage|access|security|entry|entrance|lobby|lock|unlock|safe|locker|keypad|key\s?box|lock\s?box|vault|elevator|gym|lift|phone|tablet)\s(?:codes?|combination|combo|passcodes?)|t[üu]rcode|alarmcode|digicode|combination\s(?:for|of|to)\s(?:the|my|our)\s[\w ]{{1,30}})(?!\w)"
_LOCKS = r"(?:door|gate|alarm|safe|lock|locker|garage|entry|entrance|lobby|keypad|key\s?box|lock\s?box|building|house|flat|apartment|cabin|shed|office|vault|mail\s?box|elevator|lift|gym|bike|suitcase|phone|tablet|ipad|iphone|laptop|airbnb|parking|storage|basement|intercom|room)"
_CODE = r"[#*]?(?:\d{3,4}[ -]\d{3,4}|\d{1,3}(?:-\d{1,3}){2,4}|[\w#*]{3,12}(?:-[\w#*]{2,8}){0,6})"
_DIGITS = rf"[#*]?(?:\d{{3,10}}|\d(?:[ -]\d){{3,9}}|\d{{2,3}}(?:[ -]\d{{2,3}}){{1,3}})[#*]?{_NO_UNIT}"
_FOUR_DIGITS = rf"[#*]?(?:\d{{4,10}}|\d{{3}}[ -]\d{{3}})[#*]?{_NO_UNIT}"
_DIGIT_WORD = (
    r"(?:zero|oh|one|two|three|four|five|six|seven|eight|nine|null|eins|zwei|drei|vier|fünf|sechs|sieben|acht|neun)"
)

_K = SecretKind

_BEFORE = r"(?<![A-Za-z0-9])(?:[A-Za-z0-9]{1,24}[_.-]){0,4}"
_PREFIXED = r"(?<![A-Za-z0-9])(?:[A-Za-z0-9]{1,24}[_.-]){1,4}"
_NAMED = r"(?:[A-Za-z0-9]{0,16}password|passwords|passwd|passphrase|pwd|pw|pass)"
_SECRETS = r"(?:api[_-]?key|access[_-]?key|secret[_-]?key|private[_-]?key|client[_-]?secret|(?:auth|access|refresh|api|bearer)[_-]?token)"
_ASSIGNS = r"[\"']?\s{0,3}(?::=?|=>?)\s{0,3}"
_QUOTED = r"[\"'](?P<value>[^\"'\n]{3,128})[\"']"
_PHRASE = rf"(?P<value>[^\W\d_]{{2,24}}(?:[ -][^\W\d_]{{2,24}}){{0,7}}?){_CLAUSE_END}"
_SET_TO = rf"(?:{_IS}|{_WAS_SET})"

_STRUCTURED = (
    *_needing(
        "begin",
        _rule(
            _K.PRIVATE_KEY,
            r"(?P<value>-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z))",
            flags=re.DOTALL,
        ),
    ),
    *_needing("eyj", _rule(_K.JWT, r"\b(?P<value>eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?)", flags=0)),
    *_vendor_rules(),
    *_needing(
        "bearer basic",
        _rule(_K.CREDENTIALS, r"\bbearer\s+(?P<value>[A-Za-z0-9._~+/-]{12,}=*)", values.is_mixed_token),
        _rule(_K.CREDENTIALS, r"\bbasic\s+(?P<value>[A-Za-z0-9+/]{12,}=*)", values.is_credentials),
    ),
    *_needing("://", _rule(_K.URL_CREDENTIALS, r"://(?P<value>[^\s/:@]{1,128}:[^\s/@]{1,128})@", values.is_url_login)),
)

_ASSIGNED = (
    *_needing(
        "pass pw",
        _rule(_K.PASSWORD, rf"{_BEFORE}{_NAMED}{_ASSIGNS}{_QUOTED}", values.is_quoted_secret),
        _rule(_K.PASSWORD, rf"{_BEFORE}{_NAMED}\s?(?::=|=>?)\s?(?P<value>[^\s\"',;]{{3,}})", values.is_assigned),
        _rule(_K.PASSWORD, rf"{_PREFIXED}{_NAMED}[\"']?:\s{{0,3}}(?P<value>[^\s\"',;]{{3,}})", values.is_assigned),
    ),
    *_needing(
        "key token secret credential",
        _rule(
            _K.API_KEY, rf"{_BEFORE}{_SECRETS}{_ASSIGNS}[\"'](?P<value>[^\"'\s]{{6,}})[\"']", values.is_quoted_secret
        ),
        _rule(
            _K.API_KEY,
            rf"{_BEFORE}(?:{_SECRETS}|secret|token|credentials?|key){_ASSIGNS}[\"']?(?P<value>[^\s\"',;]{{6,}})",
            values.is_mixed_token,
        ),
    ),
    *_needing(
        "pin puk otp",
        _rule(_K.PIN, rf"{_PREFIXED}(?:pin|puk){_ASSIGNS}[\"']?(?P<value>\d{{4,8}})\b"),
        _rule(_K.ONE_TIME_CODE, rf"{_PREFIXED}(?:otp|totp){_ASSIGNS}[\"']?(?P<value>\d{{4,8}})\b"),
        digit=True,
    ),
)

_NUMBERED = (
    *_needing(
        "",
        _rule(
            _K.CARD,
            r"\b(?:cvv2?|cvc2?|card\s(?:security|verification)\scode|security\scode\son\s(?:the|my)\s(?:back|card)[\w ]{0,20})(?:\son\s\w{1,12})?\W{0,3}(?:(?:is|code|number)\s)?(?P<value>\d{3,4})\b",
        ),
        _rule(_K.NATIONAL_ID, r"\b(?:ssn|social\ssecurity(?:\snumber)?)\D{0,12}(?P<value>\d{3}[ -]?\d{2}[ -]?\d{4})\b"),
        _rule(
            _K.NATIONAL_ID,
            r"\b(?:passport|identity\scard|id\scard|driving\slicen[cs]e|driver['’]?s['’]?\slicen[cs]e|national\sinsurance|social\s(?:security|insurance)|ni|tax(?:payer)?|residence\spermit|national\sid)"
            r"\s(?:numbers?|no\b\.?|nr\b\.?|id\b(?:\snumber)?|identification\snumber|#)\W{0,3}(?:(?:is|was|reads)\W{1,3})?(?P<value>[A-Z]{2}(?: ?\d\d){3} ?[A-D]\b|(?=[\w/-]*\d)[\w/-]{5,24})",
            values.is_code,
        ),
        _rule(
            _K.NATIONAL_ID,
            r"\b(?:passport|driving\slicen[cs]e|driver['’]?s['’]?\slicen[cs]e|nino|personalausweis(?:nummer)?|reisepass(?:nummer)?|ausweisnummer|steuer-?id|dni|nie)(?:\s?:|\s(?:is|ist|es|hat\sdie\snummer))\s(?P<value>(?=[\w-]{0,23}\d)[A-Z0-9][A-Z0-9-]{5,23})(?!\w)",
            values.is_code,
        ),
        _rule(
            _K.NATIONAL_ID,
            r"(?:身份证|护照|社保|驾照|驾驶证)(?:卡?号码?|编号|\s?(?=是|为|：|:))\s?(?:就?是|为|：|:)?\s?(?P<value>[A-Za-z0-9]{6,18})(?![A-Za-z0-9年])",
            values.is_code,
        ),
        _rule(
            _K.BANK_ACCOUNT,
            r"\b(?:sort\scode|routing\s(?:number|no)|acc(?:oun)?t\s(?:number|no)|bank\saccount|kontonummer|num[ée]ro\sde\scompte|n[úu]mero\sde\scuenta)\b\W{0,3}(?:(?:is|ist|est|es)\s)?(?P<value>\d[\d -]{4,20}\d)(?![\w-])",
            values.is_account_number,
        ),
        _rule(_K.BANK_ACCOUNT, r"(?:银行卡|银行账|账)号?码?\s?(?:就?是|为|：|:)?\s?(?P<value>\d{10,19})(?!\d)"),
        digit=True,
    ),
)

_CODES = (
    *_needing(
        "code código codigo otp password pin",
        _rule(_K.ONE_TIME_CODE, rf"{_ONE_TIME}{_FOR}{_IS}{_QUOTE}?(?P<value>{_CODE}){_NO_UNIT}", values.is_code),
        _rule(_K.ONE_TIME_CODE, rf"{_ONE_TIME}[:,]?\s(?P<value>{_FOUR_DIGITS})"),
        _rule(
            _K.ONE_TIME_CODE,
            rf"(?<![\w.-])(?P<value>(?:[A-Z]-)?\d{{4,8}}|\d{{3}}[ -]\d{{3}})\s(?:is|as|was)\s(?:your\scode\b|(?:your|my|the|our)\s(?:[\w-]{{1,20}}\s){{0,2}}?{_ONE_TIME})",
        ),
        digit=True,
    ),
    *_needing(
        "code comb",
        _rule(_K.ACCESS_CODE, rf"{_ACCESS}{_FOR}{_IS}{_QUOTE}?(?P<value>{_CODE}){_NO_UNIT}", values.is_code),
        _rule(_K.ACCESS_CODE, rf"{_ACCESS}[:,]?\s(?:to\s)?(?P<value>{_FOUR_DIGITS})"),
        _rule(
            _K.ACCESS_CODE,
            r"\b(?<!area )(?<!postal )(?<!post )(?<!zip )(?<!error )(?<!status )(?<!course )(?<!dial )(?<!country )code\s(?:for|to|of|on)\s(?:the|my|our|their|his|her)"
            rf"\s(?:[\w'’-]{{1,20}}\s){{0,4}}?{_LOCKS}(?:\s[\w'’-]{{1,20}}){{0,4}}?\s(?:is|was|=)\s(?:now\s)?(?P<value>{_CODE}){_NO_UNIT}",
            values.is_code,
        ),
        digit=True,
    ),
    *_needing(
        "opens opened unlock disarm",
        _rule(
            _K.ACCESS_CODE,
            rf"\b{_LOCKS}\s(?:opens|unlocks|disarms|is\s(?:opened|unlocked|disarmed))\s(?:with|by|using)\s(?:the\s)?(?:(?:code|number|combination|entering)\s)?(?P<value>{_FOUR_DIGITS})",
        ),
        digit=True,
    ),
    *_needing(
        "verify sign log confirm authent reset",
        _rule(
            _K.ONE_TIME_CODE,
            rf"\b(?:use|enter|type)\s(?:the\s)?(?:code\s)?(?P<value>{_FOUR_DIGITS})\sto\s(?:verify|sign\sin|log\s?in|confirm|authenticate|reset)\b",
        ),
        digit=True,
    ),
    *_needing(
        "type enter press dial in",
        _rule(
            _K.ACCESS_CODE,
            rf"\b(?:type|enter|press|dial|key\sin|punch\sin)\s(?P<value>{_FOUR_DIGITS})\s(?:at|on|into|to\sopen)\s(?:the|our|my|your)\s(?:[\w-]{{1,16}}\s){{0,2}}?{_LOCKS}\b",
        ),
        digit=True,
    ),
    *_needing(
        "keypad box safe",
        _rule(_K.ACCESS_CODE, rf"\b(?:keypad|key\s?box|lock\s?box|key\ssafe)\s?:\s?(?P<value>{_FOUR_DIGITS})"),
        digit=True,
    ),
    *_needing(
        "pin puk geheimzahl",
        _rule(_K.PIN, rf"{_PIN}{_FOR}{_IS}{_QUOTE}?(?P<value>{_DIGITS}(?:(?:,|\sand|\sor)\s\d{{4,8}}\b){{0,4}})"),
        _rule(_K.PIN, rf"{_PIN}(?:[:,]?|{_FOR}\sto)\s(?P<value>{_FOUR_DIGITS})"),
        _rule(_K.PIN, rf"(?<![\w.-])(?P<value>\d{{4,8}})\s(?:is|was|=)\s{_WITH}\s(?:[\w-]{{1,16}}\s){{0,2}}?{_PIN}"),
        digit=True,
    ),
    *_needing(
        "pin puk code comb",
        _rule(
            _K.PIN,
            rf"\b(?:pins?|puk|passcode|code|combination|combo)\b[^.,;:?!\n\d]{{0,40}}?[\s:](?P<value>(?:{_DIGIT_WORD}[\s,-]{{1,2}}){{3,12}}{_DIGIT_WORD})\b",
        ),
    ),
)

_PASSWORDS = (
    *_needing(
        "pass pw kennwort contrase senha wachtwoord clave key parola",
        _rule(
            _K.PASSWORD,
            rf"(?:{_PASSWORD}|{_PASSWORT}){_FOR}(?:{_SET_TO}|[:,]?\s){_QUOTE}(?P<value>[^\"”’'`」»\n]{{3,64}}){_END_QUOTE}",
            values.is_quoted_secret,
        ),
        _rule(_K.PASSWORD, rf"(?:{_PASSWORD}|{_PASSWORT}){_FOR}{_SET_TO}{_QUOTE}?(?P<value>{_WORD})", values.is_strong),
        _rule(_K.PASSWORD, rf"{_PASSWORD}{_FOR}{_SET_TO}{_PHRASE}", values.is_passphrase),
        _rule(
            _K.PASSWORD,
            rf"{_PASSWORT}{_FOR}{_IS}(?P<value>(?-i:[A-ZÄÖÜ])[^\W\d_]{{2,24}}){_CLAUSE_END}",
            values.is_passphrase,
        ),
        _rule(_K.PASSWORD, rf"(?:{_PASSWORD}|{_PASSWORT})[:,]?\s(?P<value>{_WORD})", values.is_bare_password),
        _rule(
            _K.PASSWORD,
            rf"{_NOT_IN_WORD}pass(?:[:,]?|\sis)\s{_QUOTE}?(?=[^\s]{{0,64}}[#!@$%^&*])(?P<value>{_WORD})",
            values.is_bare_password,
        ),
        _rule(
            _K.PASSWORD,
            rf"\b(?:chang|set|reset|switch|updat|mak)\w{{0,4}}\s(?:\S{{1,20}}\s){{0,4}}?(?:{_PASSWORD}|{_PASSWORT}){_FOR}\sto\s(?:be\s)?{_QUOTE}?(?P<value>{_WORD})",
            values.is_strong,
        ),
        _rule(
            _K.PASSWORD,
            rf"(?<!\S){_QUOTE}?(?P<value>[^\s\"'“”‘’\[\]]{{4,64}}){_END_QUOTE}?\s(?:is|was)\s{_WITH}\s(?:[\w-]{{1,16}}\s){{0,2}}?{_PASSWORD}{_CLAUSE_END}",
            values.is_strong,
        ),
        _rule(
            _K.PASSWORD,
            rf"\b(?:use|using|used|with|try|enter|type|picked|chose)\s{_QUOTE}?(?P<value>{_WORD}){_END_QUOTE}?\s(?:as|for)\s{_WITH}\s(?:[\w-]{{1,16}}\s){{0,2}}?{_PASSWORD}",
            values.is_strong,
        ),
        _rule(
            _K.PASSWORD,
            r"\b(?:user(?:[ _-]?name)?|login|log-in|usr)(?:\sis|\s?[:=])?\s[^\s,;/|'’]{2,64}[,;/|]?\s(?:and\s)?(?:(?:the|my)\s)?(?:pass(?:word|wort|code)?|pw|pwd|kennwort)(?:\sis|\s?[:=])?\s(?P<value>\S{4,64})",
            values.is_bare_password,
        ),
    ),
    *_needing(
        "login log-in cred",
        _rule(
            _K.PASSWORD,
            r"\b(?:login|log-in|credentials|creds)\s?(?:is|are|:)\s?[^\s/|:]{1,64}\s?[/|]\s?(?P<value>[^\s/]{5,64})",
            values.is_strong,
        ),
    ),
    *_needing(
        "wifi wi-fi wlan ssid",
        _rule(
            _K.PASSWORD,
            r"\b(?:wi-?fi|wlan|ssid)\s?(?:is|:)\s?[^\s/|:]{1,64}\s?[/|]\s?(?P<value>[^\s/]{5,64})",
            values.is_bare_password,
        ),
    ),
    *_needing(
        "key token secret",
        _rule(
            _K.API_KEY,
            rf"{_KEY}{_FOR}{_IS}{_QUOTE}(?P<value>[^\"”’'`\s]{{6,128}}){_END_QUOTE}",
            values.is_quoted_secret,
        ),
        _rule(_K.API_KEY, rf"{_KEY}{_FOR}{_IS}{_QUOTE}?(?P<value>[^\s\"”’'`,;]{{6,256}})", values.is_mixed_token),
        _rule(_K.API_KEY, rf"{_KEY}[:,]?\s(?P<value>[\w./+=-]{{16,256}})", values.is_key),
    ),
    *_needing(
        "key",
        _rule(
            _K.LICENCE_KEY,
            r"\b(?:wlan|wi-?fi|wireless|network|router|licen[cs]e|product|activation|recovery|encryption|pre-shared|security|master|bitlocker|unlock|registration|steam|software|vpn|windows|serial)[\s-]key\W{0,3}(?:(?:is|was|says|reads)\W{1,3})?(?P<value>(?=[\w-]*\d)[\w-]{4,}(?:[ -](?=\w*\d)[A-Z0-9]{2,8}\b){0,10})",
            values.is_licence_key,
        ),
        digit=True,
    ),
    *_needing(
        "phrase word 助记词",
        _rule(
            _K.SEED_PHRASE,
            r"(?:\b(?:seed|recovery|mnemonic|backup|secret|wallet)\s(?:phrase|words?)\b|助记词)\W{0,3}(?:(?:is|are|是)\W{0,3})?(?P<value>(?:[a-z]{3,8}[ ,]{1,2}){11,23}[a-z]{3,8})\b",
            values.is_seed_phrase,
        ),
    ),
)

_CHINESE_IS = r"\s?(?:就?是|为|叫|:|：|=|改成了?|改为|设为|设成了?|设置为|换成了?)\s?"
_CHINESE = (
    *_needing(
        "密码 口令 密钥 令牌",
        _rule(
            _K.PASSWORD,
            rf"(?:密码|口令|密钥|令牌){_CHINESE_IS}[“「\"'](?P<value>[^”」\"'\n]{{2,64}})[”」\"']",
            values.is_quoted_secret,
        ),
        _rule(
            _K.PASSWORD, rf"(?:密码|口令|密钥|令牌){_CHINESE_IS}(?P<value>[!#-&(-~]{{3,64}})", values.is_said_in_chinese
        ),
        _rule(
            _K.PASSWORD,
            r"(?:密码|口令)\s?(?P<value>(?=[!-~]{0,40}\d)[!#-&(-~]{4,64})(?![年月日次位个天])",
            values.is_bare_password,
        ),
    ),
    *_needing(
        "pin 码",
        *(
            _rule(
                kind,
                rf"(?:{names})(?:{_CHINESE_IS}|\s?)[“「\"]?(?P<value>#?[A-Za-z0-9]{{3,10}}#?)(?![A-Za-z0-9年位分])",
                values.is_code,
            )
            for kind, names in (
                (_K.PIN, r"(?<![A-Za-z])PIN码?"),
                (_K.ONE_TIME_CODE, "验证码|动态码|校验码|短信码|授权码|恢复码"),
                (_K.ACCESS_CODE, "门禁码|开门码|解锁码|门锁码|安全码"),
            )
        ),
        digit=True,
    ),
)

_SEPARATOR = r"[ .\u00a0–-]{1,2}"
_CHECKED = (
    *_needing(
        "",
        _rule(_K.NATIONAL_ID, r"(?<!\d)(?P<value>\d{17}[\dX])(?!\w)", values.is_citizen_number),
        _rule(
            _K.CARD,
            rf"(?<![\w.+-])(?P<value>\d{{14,19}}|\d{{4}}(?:{_SEPARATOR}\d{{4}}){{3}}(?:{_SEPARATOR}\d{{1,3}})?|\d{{4}}{_SEPARATOR}\d{{6}}{_SEPARATOR}\d{{4,5}})(?![\w-])",
            _is_card,
        ),
        _iban_rule(),
        _rule(
            _K.RANDOM_STRING,
            r"(?<![\w/+=.:-])(?P<value>(?=[\w+]*/)[A-Za-z0-9+][A-Za-z0-9/+]{38,86}={0,2})(?![\w/+=])",
            values.is_random,
        ),
        _rule(
            _K.RANDOM_STRING, r"(?<![\w/.+=-])(?P<value>[A-Za-z0-9_+=-]{32,})(?![\w/.+=-])", values.is_random, flags=0
        ),
        digit=True,
    ),
)

RULES: tuple[Rule, ...] = (*_STRUCTURED, *_ASSIGNED, *_NUMBERED, *_CODES, *_PASSWORDS, *_CHINESE, *_CHECKED)
