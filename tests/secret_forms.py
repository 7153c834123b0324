"""Random secrets of many formats, for the tests and the bench of redaction.

None of them was ever in use. They are put together at run time, so that no file of the project contains one.
"""

import base64
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

LOWER = "abcdefghijklmnopqrstuvwxyz"
UPPER = LOWER.upper()
DIGITS = "0123456789"
ALNUM = LOWER + UPPER + DIGITS
HEX = DIGITS + "abcdef"
URL = ALNUM + "-_"
BASE64 = ALNUM + "+/"


def take(random: Random, alphabet: str, length: int) -> str:
    return "".join(random.choice(alphabet) for _ in range(length))


def _uuid(random: Random) -> str:
    return "-".join(take(random, HEX, n) for n in (8, 4, 4, 4, 12))


def _segment(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def _jwt(random: Random) -> str:
    head = _segment({"alg": "HS256", "typ": "JWT"})
    body = _segment({"sub": take(random, DIGITS, 10), "name": "Ann", "iat": random.randrange(10**9)})
    return f"{head}.{body}.{take(random, URL, 43)}"


def _pem(random: Random) -> str:
    lines = "\n".join(take(random, BASE64, 64) for _ in range(random.randrange(4, 12)))
    kind = random.choice(["RSA ", "EC ", "OPENSSH ", ""])
    return f"-----BEGIN {kind}PRIVATE KEY-----\n{lines}\n-----END {kind}PRIVATE KEY-----"


def _password(random: Random) -> str:
    return take(random, ALNUM + "!#%^&*-_", random.randrange(12, 24)) + take(random, DIGITS, 1)


#: A format: what comes before the secret, the secret, and what comes behind it.
Form = Callable[[Random], tuple[str, str, str]]


def _bare(make: Callable[[Random], str]) -> Form:
    return lambda random: ("", make(random), "")


def _prefixed(prefix: str, alphabet: str, length: int) -> Form:
    return _bare(lambda random: prefix + take(random, alphabet, length))


FORMS: dict[str, Form] = {
    "aws access key id": _prefixed("AKIA", UPPER + "234567", 16),
    "aws secret access key": lambda r: ("aws_secret_access_key = ", take(r, BASE64, 40), ""),
    "google api key": _prefixed("AIza", URL, 35),
    "google oauth secret": _prefixed("GOCSPX-", URL, 28),
    "google oauth token": _prefixed("ya29.", URL, 80),
    "azure storage key": lambda r: ("AccountName=store;AccountKey=", take(r, BASE64, 86) + "==", ";"),
    "azure client secret": _bare(lambda r: take(r, ALNUM, 3) + "8Q~" + take(r, ALNUM + "_.", 34)),
    "digitalocean": _prefixed("dop_v1_", HEX, 64),
    "alibaba": _prefixed("LTAI", ALNUM, 20),
    "heroku": lambda r: ("HEROKU_API_KEY=", _uuid(r), ""),
    "vault": _prefixed("hvs.", URL, 90),
    "terraform": _bare(lambda r: take(r, ALNUM, 14) + ".atlasv1." + take(r, ALNUM, 67)),
    "databricks": _prefixed("dapi", HEX, 32),
    "pulumi": _prefixed("pul-", HEX, 40),
    "supabase": _prefixed("sbp_", HEX, 40),
    "planetscale": _prefixed("pscale_tkn_", ALNUM, 43),
    "doppler": _prefixed("dp.pt.", ALNUM, 43),
    "tailscale": _bare(lambda r: f"tskey-auth-{take(r, ALNUM, 12)}-{take(r, ALNUM, 32)}"),
    "github": _bare(lambda r: f"gh{r.choice('pousr')}_{take(r, ALNUM, 36)}"),
    "github fine-grained": _bare(lambda r: f"github_pat_{take(r, ALNUM, 22)}_{take(r, ALNUM, 59)}"),
    "gitlab": _prefixed("glpat-", URL, 20),
    "bitbucket": _prefixed("ATBB", ALNUM, 32),
    "atlassian": _bare(lambda r: "ATATT3xFfGF0" + take(r, URL, 170) + "=" + take(r, HEX.upper(), 8)),
    "npm": _prefixed("npm_", ALNUM, 36),
    "pypi": _prefixed("pypi-AgEIcHlwaS5vcmc", URL, 140),
    "rubygems": _prefixed("rubygems_", HEX, 48),
    "docker": _prefixed("dckr_pat_", URL, 27),
    "crates.io": _prefixed("cio", ALNUM, 32),
    "anthropic": _bare(lambda r: f"sk-ant-api03-{take(r, URL, 93)}AA"),
    "openai": _bare(lambda r: f"sk-proj-{take(r, URL, 74)}T3BlbkFJ{take(r, URL, 74)}"),
    "openai, old": _bare(lambda r: f"sk-{take(r, ALNUM, 20)}T3BlbkFJ{take(r, ALNUM, 20)}"),
    "openrouter": _prefixed("sk-or-v1-", HEX, 64),
    "hugging face": _prefixed("hf_", LOWER + UPPER, 34),
    "groq": _prefixed("gsk_", ALNUM, 52),
    "replicate": _prefixed("r8_", ALNUM, 37),
    "perplexity": _prefixed("pplx-", ALNUM, 48),
    "xai": _prefixed("xai-", ALNUM, 80),
    "nvidia": _prefixed("nvapi-", URL, 64),
    "langsmith": _bare(lambda r: f"lsv2_pt_{take(r, HEX, 32)}_{take(r, HEX, 10)}"),
    "stripe": _bare(lambda r: f"{r.choice(['sk', 'rk'])}_{r.choice(['live', 'test'])}_{take(r, ALNUM, 24)}"),
    "stripe webhook": _prefixed("whsec_", ALNUM, 32),
    "square": _prefixed("sq0csp-", URL, 43),
    "braintree": _bare(lambda r: f"access_token$production${take(r, LOWER, 16)}${take(r, HEX, 32)}"),
    "shopify": _prefixed("shpat_", HEX, 32),
    "razorpay": _prefixed("rzp_live_", ALNUM, 14),
    "plaid": _bare(lambda r: f"access-sandbox-{_uuid(r)}"),
    "slack bot": _bare(lambda r: f"xoxb-{take(r, DIGITS, 12)}-{take(r, DIGITS, 13)}-{take(r, ALNUM, 24)}"),
    "slack app": _bare(
        lambda r: f"xapp-1-A{take(r, UPPER + DIGITS, 10)}-{take(r, DIGITS, 13)}-{take(r, HEX, 64)}"
    ),
    "slack webhook": lambda r: (
        "https://hooks.slack.com/services/",
        f"T{take(r, UPPER, 8)}/B{take(r, UPPER, 10)}/{take(r, ALNUM, 24)}",
        "",
    ),
    "discord bot": lambda r: (
        "discord bot ",
        f"M{take(r, ALNUM, 23)}.{take(r, ALNUM, 6)}.{take(r, ALNUM, 38)}",
        "",
    ),
    "discord webhook": lambda r: (
        f"https://discord.com/api/webhooks/{take(r, DIGITS, 18)}/",
        take(r, ALNUM, 68),
        "",
    ),
    "telegram": _bare(lambda r: f"{r.randrange(1, 9)}{take(r, DIGITS, 9)}:AA{take(r, ALNUM, 33)}"),
    "twilio": _prefixed("SK", HEX, 32),
    "sendgrid": _bare(lambda r: f"SG.{take(r, ALNUM, 22)}.{take(r, ALNUM, 43)}"),
    "mailgun": _prefixed("key-", HEX, 32),
    "mailchimp": _bare(lambda r: f"{take(r, HEX, 32)}-us{r.randrange(1, 21)}"),
    "linear": _prefixed("lin_api_", ALNUM, 40),
    "notion": _prefixed("ntn_", ALNUM, 46),
    "airtable": _bare(lambda r: f"pat{take(r, ALNUM, 14)}.{take(r, HEX, 64)}"),
    "figma": _prefixed("figd_", ALNUM, 43),
    "new relic": _prefixed("NRAK-", UPPER + DIGITS, 27),
    "grafana": _bare(lambda r: f"glsa_{take(r, ALNUM, 32)}_{take(r, HEX, 8)}"),
    "postman": _bare(lambda r: f"PMAK-{take(r, HEX, 24)}-{take(r, HEX, 34)}"),
    "age": _prefixed("AGE-SECRET-KEY-1", "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58),
    "jwt": _bare(_jwt),
    "pem": _bare(_pem),
    "postgres address": lambda r: ("postgresql://app:", _password(r), "@db.internal:5432/app"),
    "mongodb address": lambda r: ("mongodb+srv://app:", take(r, ALNUM, 16), "@cluster0.abcde.mongodb.net/"),
    "redis address": lambda r: ("redis://:", take(r, ALNUM, 24), "@cache:6379/0"),
    "basic auth in an address": lambda r: ("https://deploy:", take(r, ALNUM, 18), "@git.example.com/x.git"),
    "basic authorization": lambda r: (
        "Authorization: Basic ",
        base64.b64encode(take(r, ALNUM, 20).encode()).decode(),
        "",
    ),
    "bearer authorization": lambda r: ("Authorization: Bearer ", take(r, ALNUM + "-_.", 39) + "x", ""),
    "api key": lambda r: ('apiKey: "', take(r, ALNUM, 24), '"'),
    "token": lambda r: ("token=", take(r, ALNUM, 32), ""),
    "password": lambda r: ('password = "', take(r, ALNUM, 13) + "7", '"'),
    "connection string": lambda r: ("Server=db;User Id=app;Password=", take(r, ALNUM, 16), ";Encrypt=true"),
    "hex": lambda r: ("salt ", take(r, HEX, 48), ""),
    "base64": lambda r: ("value ", take(r, BASE64, 44), ""),
}  # fmt: skip


PHRASES = ["basalt", "copper", "delta", "ember", "falcon", "granite", "harbor"]


def _word(random: Random) -> str:
    return take(random, ALNUM, random.randrange(8, 25))


def _phrase(random: Random) -> str:
    return random.choice(" -_").join(random.sample(PHRASES, random.randrange(3, 6)))


def _short(random: Random) -> str:
    return take(random, LOWER, random.randrange(3, 6)) + take(random, DIGITS, 2)


def _around(before: str, behind: str, make: Callable[[Random], str] = _word) -> Form:
    return lambda random: (before, make(random), behind)


#: Passwords beside the words of their forms: each form that the page of redaction names, as people write it.
LOGINS: dict[str, Form] = {
    "curl -u": _around("curl -u ann:", " https://api.example.org/x"),
    "curl -u, in quotes": _around("curl -u 'ann:", "' https://api.example.org/x"),
    "curl -u, joined": _around("curl -s -uann:", " https://api.example.org/x"),
    "curl -sSu": _around("curl -sSu ann:", " https://api.example.org/x"),
    "curl --user": _around("curl --user ann:", " https://api.example.org/x"),
    "curl --user=": _around("curl -s --user=ann:", " -o x https://api.example.org"),
    "curl, proxy": _around("curl --proxy-user ann:", " https://api.example.org/x"),
    "curl, at its end": _around("curl https://api.example.org/x -u ann:", ""),
    "curl, in two lines": _around("curl https://api.example.org/x \\\n  -u ann:", ""),
    ".netrc": _around("machine db.example.org login ann password ", ""),
    ".netrc, in lines": _around("machine db.example.org\n  login ann\n  password ", "\n"),
    ".netrc, default": _around("default\n\tlogin ann\n\tpassword ", "\n"),
    ".netrc, account": _around("machine db.example.org login ann account x password ", ""),
    "environment": _around("export DB_PASSWORD=", ""),
    "environment, of one command": _around("PGPASSWORD=", " psql -h db"),
    "settings": _around("  password: ", ""),
    "properties": _around("spring.datasource.password=", ""),
    "option": _around("mysqldump --password=", " db"),
    "option and value": _around("mysqldump --password ", " db"),
    "a log": _around("login failed user=ann passwd=", " ip=10.1.2.3"),
    "pass": _around("ansible_ssh_pass: ", ""),
    "pwd": _around("pwd=", ""),
    "quotes": _around('connect(host, password="', '")'),
    "quotes, a phrase": _around('passphrase: "', '"', _phrase),
    "quotes, a phrase in JSON": _around('{"user": "ann", "password": "', '"}', _phrase),
    "quotes, short": _around("password = '", "'", _short),
    "quotes, pass": _around('{"user": "ann", "pass": "', '"}'),
    "secret in quotes": _around('client_secret = "', '"'),
    "address of a page": _around("jdbc:mysql://db/app?user=root&password=", ""),
    "form": _around("username=ann&password=", "&x=1"),
    "address of Oracle": _around("jdbc:oracle:thin:scott/", "@db:1521:x"),
    "address of Go": _around("root:", "@tcp(db:3306)/app"),
    "connection string": _around("Server=db;User Id=app;Pwd=", ";Encrypt=true"),
    "element": _around("<password>", "</password>"),
    "authorization by a token": _around("Authorization: token ", "", lambda r: take(r, ALNUM, 40)),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Planted:
    """A text with one secret in it: the name of the form, the text, and the place of the secret."""

    form: str
    text: str
    start: int
    end: int

    @property
    def secret(self) -> str:
        return self.text[self.start : self.end]


def drawn(form: str, random: Random) -> tuple[str, str, str]:
    """A secret of *form*, with the text before and after it."""
    return FORMS[form](random)


def plant(texts: list[str], count: int, seed: int) -> Iterator[Planted]:
    """*count* of *texts*, each with one secret between two of its words; every form in turn.

    The secrets are the same for any *texts*.
    """
    random, secrets = Random(seed), Random(seed + 1)
    forms = list(FORMS)
    for number in range(count):
        form = forms[number % len(forms)]
        text = random.choice(texts)
        spaces = [place for place, char in enumerate(text) if char in " \n"] or [-1]
        place = random.choice(spaces) + 1
        before, secret, behind = drawn(form, secrets)
        head = f"{text[:place]}{before}"
        yield Planted(form, f"{head}{secret}{behind} {text[place:]}", len(head), len(head) + len(secret))
