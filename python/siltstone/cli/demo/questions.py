"""The questions at the end of the demo. Their evidence was read once, and has left the context since."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from siltstone.messages import Message, indexable_texts

__all__ = ["QUESTIONS", "Question", "answerable"]


@dataclass(frozen=True, slots=True)
class Question:
    """A question in plain words, and a pattern of the text that is evidence for its answer."""

    text: str
    evidence: re.Pattern[str]


def _question(text: str, evidence: str) -> Question:
    return Question(text, re.compile(evidence))


# Evidence is a line of source. If versions of Python differ, the pattern leaves the value open, or the
# question is not asked: `answerable` keeps only the questions whose evidence was read.
QUESTIONS = [
    _question("Which port does smtplib use for SMTP over SSL?", r"SMTP_SSL_PORT = 465"),
    _question("What is the default POP3 port?", r"POP3_PORT = 110"),
    _question("Which port is IMAP4 over SSL on?", r"IMAP4_SSL_PORT = 993"),
    _question("On what port does FTP listen according to ftplib?", r"FTP_PORT = 21"),
    _question("How many headers does the http client accept at most?", r"_MAXHEADERS = 100"),
    _question("What port does the UDP syslog handler send to?", r"SYSLOG_UDP_PORT +=? *514"),
    _question("What is the default TCP logging port?", r"DEFAULT_TCP_LOGGING_PORT += 9020"),
    _question(
        "Which port does the logging configuration listener use by default?",
        r"DEFAULT_LOGGING_CONFIG_PORT = 9030",
    ),
    _question("How many bits does an IPv6 address have in ipaddress?", r"IPV6LENGTH = 128"),
    _question(
        "How long does asyncio wait for an SSL handshake before it times out?", r"SSL_HANDSHAKE_TIMEOUT = 60"
    ),
    _question("How many bytes is a tar block?", r"BLOCKSIZE = 512"),
    _question("Above which size, ZIP64_LIMIT, does zipfile switch to ZIP64?", r"ZIP64_LIMIT = "),
    _question("How many file names does tempfile try before it gives up?", r"TMP_MAX = 10000"),
    _question("What is the maximum line size of a base64 encoded line?", r"MAXLINESIZE = 76"),
    _question("How many bytes of entropy do secrets have by default?", r"DEFAULT_ENTROPY = 32"),
    _question("How deep may configparser interpolation go?", r"MAX_INTERPOLATION_DEPTH = 10"),
    _question("What is the name of the default section in configparser?", r'DEFAULTSECT = "DEFAULT"'),
    _question("How often does timeit run the statement by default?", r"default_number = 1000000"),
    _question("How many repeats does timeit make by default?", r"default_repeat = 5"),
    _question("What error code does XML-RPC use for a parse error?", r"PARSE_ERROR += -32700"),
    _question("Which prompt does the cmd interpreter show?", r"PROMPT = '\(Cmd\) '"),
    _question("What buffer size does filecmp compare files with?", r"BUFSIZE = 8\s*\*\s*1024"),
    _question("Which bit stands for the read event in selectors?", r"EVENT_READ = \(1 << 0\)"),
    _question("Which escape character does quoted-printable use?", r"ESCAPE = b'='"),
    _question("How many bits of a float does the random module count on?", r"BPF = 53"),
    _question("Which highest pickle protocol does pickle.py support?", r"HIGHEST_PROTOCOL = \d"),
    _question("What is the wave format number of PCM?", r"WAVE_FORMAT_PCM = 0x0001"),
    _question(
        "How many seconds does asyncio wait before it accepts again after an error?",
        r"ACCEPT_RETRY_DELAY = 1",
    ),
    _question(
        "Which exception says that a queue is empty?",
        r"class (Queue)?Empty\b",
    ),
    _question("Which error does calendar have for an illegal month?", r"class IllegalMonthError"),
    _question("Which reserved namespace UUID stands for DNS names?", r"NAMESPACE_DNS = UUID"),
    _question("What size are the chunks that shutil copies files with?", r"COPY_BUFSIZE = "),
]


def answerable(messages: Sequence[Message]) -> list[Question]:
    """The questions whose evidence is in one of *messages*."""
    texts = list(indexable_texts(messages))
    return [question for question in QUESTIONS if any(question.evidence.search(text) for text in texts)]
