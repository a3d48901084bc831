"""Takes secrets out of a text before it is written anywhere.

Strategy: named shapes first (a key's published prefix, a PEM block, a JWT), then values that stand behind a name
("password is ..."), then numbers that prove themselves by a check sum (cards, IBAN), last long random strings. Phone
numbers, dates, prices, hashes and UUIDs are ordinary text and stay. Every pattern is linear in the text's length.
"""

import re
from collections.abc import Callable

from semrouter_memory.retain.wordlist import words

MARK = "[redacted]"
"""Stands where a secret was. A candidate that contains it is not stored."""

_SHAPES = re.compile(
    r"""
      -----BEGIN\ [A-Z\ ]*PRIVATE\ KEY(?:\ BLOCK)?-----.*?(?:-----END\ [A-Z\ ]*PRIVATE\ KEY(?:\ BLOCK)?-----|\Z)
    | \beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?                      # JSON Web Token
    | \b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{16,}                        # OpenAI, Anthropic, Stripe and who imitates them
    | \b(?:gh[pousr]_|github_pat_|glpat-|hf_|npm_|pypi-|whsec_|dop_v1_|xapp-|xox[abeprs]-|shp(?:at|ss|ca|pa)_|lin_api_|sq0[a-z]{3}-|GOCSPX-|ya29\.|dckr_pat_|figd_|sbp_|phc_|rubygems_|nvapi-|gsk_|xai-|r8_|tskey-|pat-|AGE-SECRET-KEY-1)[A-Za-z0-9_-]{10,}
    | \bdapi[0-9a-f]{32}\b
    | \b\d{8,10}:AA[\w-]{30,}                                    # Telegram
    | \b[MNO][\w-]{23,25}\.[\w-]{6}\.[\w-]{27,}                 # Discord
    | \bhooks\.slack\.com/services/[\w/]+
    | \b(?:AKIA|ASIA)[0-9A-Z]{16}\b
    | \bAIza[\w-]{30,}
    | \bSG\.[\w-]{16,}\.[\w-]{16,}
    """,
    re.VERBOSE | re.DOTALL,
)

_AUTHORIZATION = re.compile(r"\b(bearer|basic)\s+([A-Za-z0-9._~+/-]{12,}=*)", re.IGNORECASE)
_URL_CREDENTIALS = re.compile(r"(://)[^\s/:@]{1,128}:[^\s/@]{1,128}(@)")

_NAMED = (
    r"(?:passwords?|passwort|passwd|passphrase|passcode|pwd|pw|pass|otp|totp|puk|2fa|mfa|pin|secret|secret[_-]?key|(?:auth|access|refresh|api|bearer)?[_-]?token"
    r"|api[_-]?key|access[_-]?key|private[_-]?key|client[_-]?secret|credentials?)"
)
_ASSIGNMENT = re.compile(
    rf"(?<![A-Za-z0-9])((?:[A-Za-z0-9]{{1,24}}[_.-]){{0,4}}{_NAMED}[\"']?\s{{0,3}}(?:=|:=?|=>)\s{{0,3}})"
    r"(\"[^\"\n]{3,}\"|'[^'\n]{3,}'|[^\s\"',;]{4,})",
    re.IGNORECASE,
)
_SAID = (
    r"(?:passwords?|passwort|passwd|passphrase|passcode|pass\s?code|pwd|pw|pin(?:\s(?:code|number))?|puk|secret\skey|api[\s-]?key|access\stoken"
    r"|wi-?fi\skey|contrase[ñn]a|mot\sde\spasse|senha|wachtwoord)"
)
_CODE_NAME = (
    r"(?:otp|one[\s-]time\s(?:code|password|pin)|(?:verification|security|authentication|auth|login|access|confirmation|2fa|mfa|sms|door|gate|alarm"
    r"|entry|lock|unlock|safe|locker|keypad|recovery|backup|house|building|key\s?box|lock\s?box)\scode|(?:safe|lock|locker)\scombination)"
)
_SPOKEN_CODE = re.compile(
    rf"\b({_CODE_NAME}(?:\s(?:for|of|to|on|at)\s[^.,;:?!\d\n]{{1,60}}?)?(?:\s(?:is|was|=)|['’]s)\s(?:(?:now|still|currently)\s)?[\"'“]?)"
    r"(?=[^\s\"'”]{0,40}\d)([^\s\"'”]{3,}?)(?=[.,;!?]*(?:[\s\"'”]|\Z))",
    re.IGNORECASE,
)
_LOGIN = re.compile(
    r"\b((?:login|log-in|credentials|creds)\s?(?:is|are|:)\s?[^\s/|]{1,64}\s?[/|]\s?)(\S{5,})", re.IGNORECASE
)
_CODE_FOR = re.compile(
    r"\b((?:the\s)?code\s(?:for|to|of)\s(?:the|my|our|their)\s[^.,;:?!\d\n]{1,40}?\s(?:is|was)\s)(#?\d{3,10}[#*]?)",
    re.IGNORECASE,
)
_BARE_CODE = re.compile(
    r"\b((?:door|gate|alarm|entry|lock|locker|safe|keypad|building|security|access|verification|sms|2fa|login)\scode[:,]?\s|pin[:,]?\s|otp[:,]?\s|puk[:,]?\s)(#?\d{4,10}[#*]?)(?![\w.,-]*\d)",
    re.IGNORECASE,
)
_BARE_PASSWORD = re.compile(
    r"\b((?:password|passwort|passcode|passphrase)[:,]?\s[\"'“]?)(?=[^\s\"'”]*\d)(?=[^\s\"'”]*[A-Za-z])([^\s\"'”]{5,})",
    re.IGNORECASE,
)
_LABELLED_KEY = re.compile(
    r"\b((?:wlan|wi-?fi|wireless|network|router|licen[cs]e|product|activation|recovery|encryption|pre-shared|access|security|master|bitlocker|unlock|registration|steam|software|vpn|guest|admin)[\s-]"
    r"(?:key|code|pass(?:word|phrase|code)?|pw|pwd|pin)\W{0,3}(?:(?:is|was|says|reads)\W{1,3})?)((?=[\w-]*\d)[\w-]{4,}(?:[ -](?=\w*\d)[A-Z0-9]{2,8}\b){0,10})",
    re.IGNORECASE,
)
_USER_AND_PASS = re.compile(
    r"\b((?:user(?:name)?|login|usr)\s?(?:is\s|[:=]\s?)?[^\s,;/|]{2,64}[,;/|]?\s(?:and\s)?(?:pass|pw|pwd|passwort|kennwort|passcode)\s?(?:is\s|[:=]\s?)?)(\S{4,})",
    re.IGNORECASE,
)
_PASS_VALUE = re.compile(
    r"\b((?:pass|pw|pwd|kennwort|passwd)[:,]?\s[\"'“]?)(?=[^\s\"'”]*\d)(?=[^\s\"'”]*[A-Za-z])(?=[^\s\"'”]*[#!@$%^&*=])([^\s\"'”]{6,})",
    re.IGNORECASE,
)
_DIGIT_WORD = r"(?:zero|oh|one|two|three|four|five|six|seven|eight|nine)"
_SPELLED = re.compile(
    rf"\b((?:pin|puk|passcode|code|combination|combo)\b[^.,;:?!\n\d]{{0,40}}?\s)((?:{_DIGIT_WORD}[\s,-]{{1,2}}){{3,12}}{_DIGIT_WORD})\b",
    re.IGNORECASE,
)
_PHRASE = re.compile(
    r"\b((?:seed|recovery|mnemonic|backup|secret)\s(?:phrase|words?)\W{0,3}(?:is\W{1,3}|are\W{1,3})?)((?:[a-z]{3,8}[ ,]{1,2}){11,23}[a-z]{3,8})\b",
    re.IGNORECASE,
)
_ACCOUNT = re.compile(
    r"\b((?:sort\scode|routing\s(?:number|no)|account\s(?:number|no)|bank\saccount)\W{0,3}(?:is\s)?)(\d[\d -]{4,20}\d)",
    re.IGNORECASE,
)
_SPOKEN = re.compile(
    rf"\b({_SAID}(?:\s(?:for|of|to|on|at)\s[^.,;:?!\n]{{1,60}}?)?(?:\s(?:is|are|was|=)|['’]s)\s(?:(?:now|still|currently)\s)?[\"'“]?)"
    # Up to the full stop behind it, so that the next sentence stays one.
    r"([^\s\"'”]{3,}?)(?=[.,;!?]*(?:[\s\"'”]|\Z))",
    re.IGNORECASE,
)
_SPOKEN_CHINESE = re.compile(
    r"((?:密码|口令|验证码|动态码|密钥|令牌|PIN码?)\s?(?:是|为|:|：|=)?\s?[“\"]?)([!-~]{3,})", re.IGNORECASE
)
_CARD_CODE = re.compile(r"\b((?:cvv2?|cvc2?|card\ssecurity\scode)\W{0,3}(?:is\s|code\s)?)(\d{3,4})\b", re.IGNORECASE)
_SOCIAL_SECURITY = re.compile(
    r"\b((?:ssn|social\ssecurity(?:\snumber)?)\D{0,12})(\d{3}-?\d{2}-?\d{4})\b", re.IGNORECASE
)

_CARD = re.compile(r"(?<![\w.+-])[2-6]\d{3}(?:[ .\u00a0–-]{0,2}\d){9,15}(?![\w-])")
_IBAN = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b", re.IGNORECASE)
_BASE64 = re.compile(r"(?<![\w/+=.:-])(?=[\w+]*/)[A-Za-z0-9+][A-Za-z0-9/+]{38,86}={0,2}(?![\w/+=])")
_CITIZEN = re.compile(r"(?<!\d)\d{17}[\dXx](?!\w)")
_RANDOM = re.compile(r"(?<![\w/.+=-])[A-Za-z0-9_+=-]{32,}(?![\w/.+=-])")

_NO_SECRET = words(
    "not wrong weak expired incorrect strong long short secure insecure lost gone changed required missing"
    " empty stored the a an my too very still always never being no none null true false invalid case hashed"
    " encrypted used set correct broken rejected denied there here same different easy hard known unknown"
)
_MIN_RANDOM_DIGITS = 3


def redact(text: str) -> str:
    """The text with `[redacted]` in place of secrets; names in front of them stay."""
    text = _SHAPES.sub(MARK, text)
    text = _AUTHORIZATION.sub(_if(_looks_random), text)
    text = _URL_CREDENTIALS.sub(rf"\1{MARK}\2", text)
    text = _ASSIGNMENT.sub(_if(_is_assigned_secret), text)
    for labelled in (_USER_AND_PASS, _PASS_VALUE, _SPELLED, _LABELLED_KEY):
        text = labelled.sub(rf"\1{MARK}", text)
    text = _SPOKEN.sub(_if(_is_spoken_secret), text)
    text = _SPOKEN_CODE.sub(rf"\1{MARK}", text)
    text = _LOGIN.sub(rf"\1{MARK}", text)
    text = _BARE_CODE.sub(rf"\1{MARK}", text)
    text = _BARE_PASSWORD.sub(rf"\1{MARK}", text)
    text = _CODE_FOR.sub(rf"\1{MARK}", text)
    text = _PHRASE.sub(rf"\1{MARK}", text)
    text = _ACCOUNT.sub(rf"\1{MARK}", text)
    text = _CITIZEN.sub(_if(_is_citizen), text)
    text = _SPOKEN_CHINESE.sub(rf"\1{MARK}", text)
    text = _CARD_CODE.sub(rf"\1{MARK}", text)
    text = _SOCIAL_SECURITY.sub(rf"\1{MARK}", text)
    text = _CARD.sub(_if(_is_card), text)
    text = _IBAN.sub(_if(_is_iban), text)
    text = _BASE64.sub(_if(_is_mixed), text)
    return _RANDOM.sub(_if(_is_mixed), text)


def is_redacted(text: str) -> bool:
    """Whether something was taken out of this text."""
    return MARK in text


def _if(is_secret: Callable[[str], bool]) -> Callable[[re.Match[str]], str]:
    """Replace a match's last group (or the whole match) when it is a secret; what stands before it stays."""

    def replace(match: re.Match[str]) -> str:
        value = match.group(match.lastindex or 0)
        return match.group().removesuffix(value) + MARK if is_secret(value) else match.group()

    return replace


def _looks_random(value: str) -> bool:
    return any(char.isdigit() for char in value) or not value.islower()


def _is_assigned_secret(value: str) -> bool:
    bare = value.strip("\"'")
    if bare.lower() in _NO_SECRET or bare.startswith(("$", "<", "os.", "process.", "env(", MARK)):
        return False
    return value != bare or _looks_random(bare)


def _is_spoken_secret(value: str) -> bool:
    bare = value.rstrip(".,;:!?)")
    return bare.lower() not in _NO_SECRET and bare != MARK


def _is_card(value: str) -> bool:
    digits = [int(char) for char in value if char.isdigit()]
    doubled = [digit if index % 2 == 0 else sum(divmod(2 * digit, 10)) for index, digit in enumerate(reversed(digits))]
    return sum(doubled) % 10 == 0


def _is_citizen(value: str) -> bool:
    """The check character of a Chinese identity number."""
    weighted = sum(int(digit) * (1 << (17 - index)) % 11 for index, digit in enumerate(value[:17]))
    return "10X98765432"[weighted % 11] == value[17].upper()


def _is_iban(value: str) -> bool:
    compact = value.replace(" ", "")
    rearranged = compact[4:] + compact[:4]
    return int("".join(str(int(char, 36)) for char in rearranged)) % 97 == 1


def _is_mixed(value: str) -> bool:
    """Upper and lower case and digits in one long word: neither a hash, nor a UUID, nor an identifier."""
    return (
        any(char.isupper() for char in value)
        and any(char.islower() for char in value)
        and sum(char.isdigit() for char in value) >= _MIN_RANDOM_DIGITS
    )
