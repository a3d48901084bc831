"""Tells a secret's value from ordinary words: what stands behind "my password is" may also describe it. Pure."""

import re
from collections.abc import Sequence

from semrouter_memory.language.word_lists import word_set

_FUNCTION_WORDS = word_set(
    "a about above across after again against ago all almost along already also although always am among an and another any anybody"
    " anymore anyone anything anyway anywhere apart are around as at away back because been before behind being below beside besides between"
    " beyond both but by can cannot could did do does doing done down due during each either else enough even ever every everybody"
    " everyone everything everywhere few for from further get gets getting going gone gonna got had half has have having he hence her here hers"
    " herself him himself his how however i if in inside instead into is it its itself just last least less let like likely long many"
    " may maybe me mine more most much must my myself near neither never next no nobody none nor not nothing now nowhere of off"
    " often ok okay on once one only onto or other others otherwise our ours ourselves out outside over own per perhaps please quite rather"
    " really same several shall she should since so some somebody someone something sometimes somewhere soon still such than that the their"
    " theirs them themselves then there therefore these they this those though through throughout thus till to today together tomorrow"
    " too toward towards two twice under unless until up upon us use uses using very via was way we well were what whatever when whenever"
    " where wherever whether which while who whoever whole whom whose why will with within without would yes yesterday yet you your"
    " yours yourself na"
)
_DESCRIPTIONS = word_set(
    "accepted accessible active alphanumeric annoying available awful awkward bad based basic best better blank boring broken case causing"
    " certain changed clear common completely complex compromised confidential confirmed correct crap created critical cryptic current decent"
    " default deleted different difficult disabled dumb easier easy embarrassing empty encrypted entered essential exact"
    " exactly expired expiring false fine"
    " first forgotten free fresh funny generated generic gone good great hacked hard hashed hidden horrible identical important impossible incorrect"
    " initially insane insecure intact invalid kept key known lame lazy leaked locked lost mandatory manual masked master memorable minimum"
    " nice cute clever cool creative odd bizarre hilarious rubbish garbage awesome brilliant missing mixed necessary needed"
    " new numeric obsolete obvious old older optional outdated outstanding perfect permanent personal plain plaintext"
    " pointless poor postponed predictable present pretty printed private problem problematic protected public random rarely ready recent redacted"
    " refused rejected remote required reset restricted reused ridiculous right rotated sacred safe salted saved secret"
    " secure secured sensitive set shared short"
    " shorter shown silly similar simple sloppy slow solid special standard stale static sticky stolen stored strange"
    " stricter strict strong stronger stuck"
    " stupid sufficient super supposed synced taken temporary terrible tied tough tricky trivial true ugly unavailable unbreakable unchanged unclear"
    " undefined unique unknown unusable unusual unsafe updated useful useless valid vital vulnerable weak weaker weird"
    " working worthless written wrong"
    " denied null string str text value input password passwords passwort passphrase passcode pin code token"
    " changeme placeholder example xxx xxxx dummy redacted hidden masked"
)
_DESCRIBES = re.compile(r"[a-z]{3,}(?:ed|ing|able|ible|less|ously|ly|ful)|[a-z]{4,}(?:ous|ive)", re.IGNORECASE)
"""Endings of words that describe something."""
_THINGS = word_set(
    "beagle belly bible billy butterfly cable constable creed darling dragonfly duckling earring emily evening family firefly fly holly italy jelly"
    " july kelly king lily marble molly monopoly morning polly pudding ring sally seed speed spring starling steed sterling string swing"
    " table vegetable viking wedding weed wing"
)
"""They end as a description does and are none."""
_MEASURE = re.compile(
    r"\d{1,6}(?:[.,]\d+)?(?:%|[-\s]?(?:st|nd|rd|th|x|k|m|h|d|s|ms|mm|cm|km|g|kg|lb|lbs|gb|mb|kb|[kmg]?hz|[kmg]?bits?"
    r"|[kmg]bps|byte|bytes|am|pm|min|mins|minutes?|hours?|hrs?|days?|weeks?|months?|years?"
    r"|char|chars|characters?|letters?|digits?|symbols?|words?|numbers?|factor|step|party|times|percent|pages?|steps?|people"
    r"|items?)(?:-\w+)*)|[vV]\d+(?:\.\d+)*|\d{1,2}/7",
    re.IGNORECASE,
)
_DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}|\d{1,2}[./]\d{1,2}[./]\d{2,4}|\d{1,2}:\d\d")
_PLACEHOLDER = re.compile(r"[$%{<(\[]|os\.|process\.|env[(.\[]|\*+$|\.{3}|…|x{3,}$|https?://", re.IGNORECASE)
_CALL = re.compile(r"[A-Za-z_][\w.]*[(\[]")
_SEGMENTS = re.compile(r"[^A-Za-z0-9]+")
_LOWER_RUN = re.compile(r"[a-z]{4,}")
_CHANGE = re.compile(r"(?<=[a-z])(?=[A-Z0-9])|(?<=[A-Z])(?=[a-z0-9])|(?<=[0-9])(?=[A-Za-z])")
_TRAILING = ".,;:!?)]}>'\"”’»"
_MIN_RANDOM_DIGITS = 3
_MOST_WORDY = 0.4
_MIN_CHANGES = 4
_MIN_CODE_DIGITS = 3
_MIN_KEY_DIGITS = 2
_MIN_SECRET_DIGITS = 6
_MIN_PASSWORD_CHARS = 5
_MIN_LICENCE_DIGITS = 8


def says_nothing(word: str) -> bool:
    """Whether it is a function word or describes a secret ("expired"), rather than being one."""
    bare = word.strip(_TRAILING + "(“‘").lower()
    return (
        not bare
        or bare in _FUNCTION_WORDS
        or bare in _DESCRIPTIONS
        or (bare not in _THINGS and bool(_DESCRIBES.fullmatch(bare)))
    )


def is_function_word(word: str) -> bool:
    return word.lower() in _FUNCTION_WORDS


def is_strong(value: str) -> bool:
    """A token that no sentence needs: digits in it, symbols, or capitals behind small letters."""
    bare = value.rstrip(_TRAILING)
    if not bare or _PLACEHOLDER.match(value) or _MEASURE.fullmatch(bare) or _DATE.fullmatch(bare):
        return False
    if any(char.isdigit() for char in bare):
        return True
    return bool(re.search(r"[!@#$^&*+=~|\\]|\w_\w|[a-z][A-Z]", value.rstrip(".,;:?)"))) and not says_nothing(bare)


def is_mixed_token(value: str) -> bool:
    """Letters and digits in one token, which is neither a measure nor a version: enough where no verb connects it."""
    bare = value.rstrip(_TRAILING)
    return is_strong(bare) and any(char.isdigit() for char in bare) and any(char.isalpha() for char in bare)


def is_passphrase(value: str) -> bool:
    """Plain words, none of which a description of a password would need."""
    parts = re.split(r"[ -]", value)
    return all(len(part) > 1 for part in parts) and not any(map(says_nothing, parts))


def is_quoted_secret(value: str) -> bool:
    """What stands in quotation marks behind a name."""
    return not _PLACEHOLDER.match(value) and not (" " not in value and says_nothing(value))


def is_bare_password(value: str) -> bool:
    """What stands behind a name without a verb: letters and digits mixed, or many digits."""
    bare = value.rstrip(_TRAILING)
    return (
        "=" not in value
        and not value.startswith("-")
        and (
            (len(bare) >= _MIN_PASSWORD_CHARS and is_mixed_token(bare))
            or (bare.isdigit() and len(bare) >= _MIN_SECRET_DIGITS)
        )
    )


def is_assigned(value: str) -> bool:
    """What code or a file of settings assigns to a password: anything but a name, a call, or a state."""
    bare = value.rstrip(".,;)")
    if _PLACEHOLDER.match(bare) or _CALL.match(bare):
        return False
    return is_strong(bare) or not (says_nothing(bare) or "_" in bare or "." in bare)


def is_said_in_chinese(value: str) -> bool:
    return not (_PLACEHOLDER.match(value) or says_nothing(value) or _MEASURE.fullmatch(value))


def is_url_login(value: str) -> bool:
    return not _PLACEHOLDER.match(value.partition(":")[2])


def is_code(value: str) -> bool:
    """A code that is typed in: three digits or more, or letters and digits mixed."""
    bare = value.strip("#*").rstrip(_TRAILING)
    digits = sum(char.isdigit() for char in bare)
    if _MEASURE.fullmatch(bare) or _DATE.fullmatch(bare):
        return False
    return digits >= _MIN_CODE_DIGITS or (digits > 0 and len(bare) >= _MIN_CHANGES and bare.isascii())


def is_licence_key(value: str) -> bool:
    """Groups of letters and digits, or many digits: no year, no count."""
    digits = sum(char.isdigit() for char in value)
    return digits >= _MIN_LICENCE_DIGITS or (is_mixed_token(value) and len(value) >= _MIN_PASSWORD_CHARS)


def is_key(body: str) -> bool:
    """What follows a vendor's prefix: not words and numbers joined by signs."""
    segments = [segment for segment in _SEGMENTS.split(body) if segment]
    if all(
        part.isdigit()
        or (part.islower() and part.isalpha())
        or (part.isupper() and part.isalpha())
        or (part.istitle() and part.isalpha())
        for part in segments
    ):
        return False
    return sum(char.isdigit() for char in body) >= _MIN_KEY_DIGITS or len(_CHANGE.findall(body)) >= _MIN_CHANGES


def is_random(value: str) -> bool:
    """Upper and lower case and digits in one long word: neither a hash, nor a UUID, nor words joined to a name."""
    letters = sum(char.isalpha() for char in value)
    wordy = sum(map(len, _LOWER_RUN.findall(value)))
    return (
        any(char.isupper() for char in value)
        and any(char.islower() for char in value)
        and sum(char.isdigit() for char in value) >= _MIN_RANDOM_DIGITS
        and wordy <= _MOST_WORDY * letters
    )


def is_credentials(value: str) -> bool:
    """What follows "Bearer" or "Basic": `dXNlcjpwYXNz`, not "Understanding"."""
    return (
        value.endswith("=")
        or (any(char.isdigit() for char in value) and any(char.isalpha() for char in value))
        or len(_CHANGE.findall(value)) >= _MIN_CHANGES
    )


def is_seed_phrase(value: str) -> bool:
    """Words without grammar: of a mnemonic's words few are function words."""
    said = re.split(r"[ ,]+", value)
    return sum(map(is_function_word, said)) * 4 <= len(said)


def has_luhn_digit(digits: str) -> bool:
    """The check digit of a payment card."""
    doubled = [
        int(char) if index % 2 == 0 else sum(divmod(2 * int(char), 10)) for index, char in enumerate(reversed(digits))
    ]
    return sum(doubled) % 10 == 0


def is_citizen_number(value: str) -> bool:
    """The check character of a Chinese identity number."""
    weighted = sum(int(digit) * (1 << (17 - index)) % 11 for index, digit in enumerate(value[:17]))
    return "10X98765432"[weighted % 11] == value[17].upper()


def has_iban_digits(value: str) -> bool:
    """The check digits of an IBAN."""
    compact = value.replace(" ", "")
    return int("".join(str(int(char, 36)) for char in compact[4:] + compact[:4])) % 97 == 1


def is_account_number(value: str) -> bool:
    return not _DATE.fullmatch(value.strip())


def first_digits_in(digits: str, ranges: Sequence[Sequence[int]]) -> bool:
    return any(low <= int(digits[: len(str(low))]) <= high for low, high in ranges)
