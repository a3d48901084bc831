"""Secrets go, ordinary text stays."""

import pytest

from semrouter_memory.retain.redact import MARK, is_redacted
from semrouter_memory.retain.redact import without_secrets as redact

SECRETS = [
    ("my key is sk-live-4eC39HqLyjWDarjtT1zdp7dc", "sk-live"),
    ("use ghp_16C7e42F292c6912E7710c838347Ae178B4a", "ghp_"),
    ("AKIAIOSFODNN7EXAMPLE is the id", "AKIA"),
    ("slack: xoxb-123456789012-abcdefGHIJ", "xoxb"),
    ("maps AIzaSyA-1234567890abcdefghijklmnopqrstu", "AIza"),
    ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmN", "eyJ"),
    ("-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----", "MIIEow"),
    ("-----BEGIN PRIVATE KEY-----\nMIIEow cut off", "MIIEow"),
    ("Authorization: Bearer abcDEF123456789xyz", "abcDEF"),
    ("postgres://app:Winter2024@db.local/x", "Winter2024"),
    ("DB_PASSWORD=Gr33nTea!", "Gr33nTea"),
    ('api_key: "qwertyuiop"', "qwertyuiop"),
    ("client_secret = a1b2c3d4", "a1b2c3d4"),
    ("my password is hunter2", "hunter2"),
    ("the sticker says WLAN key 5582-9911-0374-6620-1187", "6620"),
    ("the isp login is user kg77-online pass Regenbogen#44", "Regenbogen"),
    ("product key XK4T9-PL2MM-88QRT-5JJ21", "88QRT"),
    ("our alarm code is four seven one one", "seven"),
    ("the PIN for the door is 4711", "4711"),
    ("我的密码是abc12345", "abc12345"),
    ("pay with 4111 1111 1111 1111", "4111"),
    ("我的4111 1111 1111 1111，谢谢", "4111"),
    ("付到DE89370400440532013000吧", "370400"),
    ("cvv 123", "123"),
    ("IBAN DE89 3704 0044 0532 0130 00", "3704"),
    ("my ssn is 078-05-1120", "078-05"),
    ("zQ8vK2mN5xR7tY1wB4cD6fG9hJ3kL0pS", "zQ8vK2"),
    ("My OTP is 839201", "839201"),
    ("our door code is 4812 too", "4812"),
    ("the code for the alarm is 9931#", "9931"),
    ("my wifi password's Moose77x", "Moose77"),
    ("pw: tulip-77", "tulip"),
    ("pay with 4111.1111.1111.1111", "4111"),
    ("iban de89370400440532013000", "370400"),
    ("seed phrase: apple river stone cloud tiger lemon ocean piano green house light table", "piano"),
    ("sort code 12-34-56", "34-56"),
    ("wJalrXUtnFEMI/K7MDENG/bPxRfiCY3X4MPLE6KEY", "K7MDENG"),
    ("-----BEGIN PGP PRIVATE KEY BLOCK-----\nlQdGBF\n-----END PGP PRIVATE KEY BLOCK-----", "lQdGBF"),
    ("shpat_0a1b2c3d4e5f6a7b8c9d", "shpat"),
    ("验证码 558213", "558213"),
    ("身份证 11010519491231002X", "19491231"),
    # traditional Chinese
    ("我的密碼是 hunter2x", "hunter2x"),
    ("門禁碼是 4471#", "4471"),
    ("身分證字號 A123456789", "A123456789"),
    ("護照號碼 310234567", "310234567"),
    # with characters that people do not see or tell apart
    ("my pass\u200bword is giraffe77", "giraffe"),
    ("pass\u00adword: giraffe77", "giraffe"),
    ("key sk-ant-api03-AAAAbbbb1111\u200bBBBBcccc1234567890abcdefghijkl12345", "BBBBcccc"),
    ("pay with 4111\u200b1111\u200b1111\u200b1111", "4111"),
    ("my ｐａｓｓｗｏｒｄ is giraffe77", "giraffe"),
    ("密码是ａｂｃ１２３４", "ａｂｃ"),
]


@pytest.mark.parametrize(("text", "secret"), SECRETS, ids=[secret for _, secret in SECRETS])
def test_a_secret_is_taken_out(text: str, secret: str) -> None:
    cleaned = redact(text)
    assert secret not in cleaned
    assert is_redacted(cleaned)


@pytest.mark.parametrize(
    "text",
    [
        "call me at +49 151 23456789 or 555-867-5309",
        "the trip is from 2026-05-03 to 2026-05-17 and costs $10,000",
        "order 550e8400-e29b-41d4-a716-446655440000",
        "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
        "my password is not working",
        "max_tokens=500, tokens: 12",
        "the token is invalid",
        "read https://example.org/a/very/long/path/with/many/parts?page=2",
        "serial 4111 1111 1111 1112",
        "我的密码忘了",
        "we use password=os.environ['X'] and secret=$VAULT",
        "my pin is wrong",
        "the postal code is 10115",
        "the country code for the UK is 44",
        "the error code is 4012",
        "my account number of followers is 12",
        "see src/components/dashboard/widgets/TableView/index",
        "the combination of red and blue",
    ],
)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert redact(text) == text


def test_the_name_in_front_of_a_secret_stays() -> None:
    assert redact("DB_PASS=Tr1cky-One!9 and HOST=db") == f"DB_PASS={MARK} and HOST=db"


def test_the_sentence_after_a_spoken_secret_stays_one() -> None:
    assert redact("My password is Hunter2x9. I work as a nurse") == "My password is [redacted]. I work as a nurse"
