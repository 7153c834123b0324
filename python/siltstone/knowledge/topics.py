"""Finds the topics of a text, and its names, addresses, dates and amounts, by rules and without a model.

The tables are data: a topic is a list of words, in English and in Chinese.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

__all__ = ["TOPICS", "Entity", "entities_of", "has_entity", "named", "topics_of"]

TOPICS: Final[dict[str, str]] = {
    "database": (
        "database databases sql postgres postgresql mysql sqlite mongodb redis schema migration query "
        "index 数据库 数据表 索引 迁移 缓存"
    ),
    "api": (
        "api apis endpoint endpoints webhook webhooks rest graphql grpc http request response 接口 "
        "端点 请求 回调"
    ),
    "deployment": (
        "deploy deploys deployed deployment docker kubernetes k8s container staging production "
        "rollout helm nginx 部署 上线 容器 生产环境 发布"
    ),
    "security": (
        "security auth authentication authorization password token oauth jwt ssl tls certificate cert "
        "permission encryption 安全 认证 授权 密码 证书 权限 加密"
    ),
    "testing": (
        "test tests tested testing pytest unittest coverage mock fixture assertion ci 测试 单元测试 "
        "覆盖率 用例"
    ),
    "bug": (
        "bug bugs error errors exception crash crashes fail fails failed failure broken traceback fix "
        "fixed 错误 异常 崩溃 失败 故障 修复 报错"
    ),
    "performance": (
        "performance latency throughput slow fast memory cpu benchmark profile optimize optimization "
        "性能 延迟 吞吐 优化 内存"
    ),
    "architecture": (
        "architecture design module modules service services microservice event-driven queue pattern "
        "refactor 架构 设计 模块 服务 重构 微服务"
    ),
    "configuration": (
        "config configuration setting settings environment env variable port yaml toml 配置 设置 "
        "环境变量 端口 参数"
    ),
    "frontend": (
        "frontend react vue css html component components browser ui layout 前端 组件 页面 样式 界面"
    ),
    "payment": (
        "payment payments stripe invoice refund refunds billing price checkout 支付 付款 退款 账单 "
        "发票 价格"
    ),
    "finance": (
        "stock stocks share shares market fund trading portfolio dividend 股票 基金 市场 交易 投资 "
        "股价"
    ),
    "schedule": (
        "meeting meetings deadline schedule calendar tomorrow appointment milestone 会议 日程 截止 "
        "明天 安排 计划"
    ),
    "personal": (
        "birthday family wife husband hobby travel vacation prefer favorite 生日 家人 爱好 旅行 喜欢 "
        "偏好"
    ),
}  # fmt: skip
"""The words that indicate each topic. Chinese words are searched anywhere in a text."""

_ENGLISH: Final = {
    word: topic for topic, line in TOPICS.items() for word in line.split() if word.isascii()
}  # fmt: skip
_CHINESE: Final = [
    (word, topic) for topic, line in TOPICS.items() for word in line.split() if not word.isascii()
]  # fmt: skip
_WORD: Final = re.compile(r"[A-Za-z0-9]+(?:-[A-Za-z]+)*")

_SURNAMES: Final = (
    "王李张刘陈杨黄赵吴周徐孙马朱胡郭何高林罗郑梁谢宋唐许韩冯邓曹彭曾萧田董袁潘蒋蔡余杜叶程苏魏吕丁任沈姚卢"
)
_PATTERNS: Final = (
    ("url", re.compile(r"\bhttps?://[^\s<>\"'）)】，。]+[^\s<>\"'）)】，。.,;:!?]", re.IGNORECASE)),
    ("email", re.compile(r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+", re.ASCII)),
    # A stock code needs an exchange or a ticker sign: five digits, or four capitals, are not enough.
    ("stock", re.compile(
        r"\$[A-Z]{1,5}\b|\b(?:NASDAQ|NYSE|HKEX|SSE|SZSE|LSE|AMEX)\s*[:：]\s*[A-Z0-9]{1,6}\b"
        r"|\b\d{6}\.(?:SH|SZ|SS)\b|\b\d{4,5}\.HK\b|(?:股票代码|证券代码)\s*[:：]?\s*\d{5,6}"
    )),
    ("date", re.compile(
        r"\b\d{4}[-/]\d{1,2}[-/]\d{1,2}\b|\d{4}年\d{1,2}月(?:\d{1,2}[日号])?|(?<!\d)\d{1,2}月\d{1,2}[日号]"
        r"|\b(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sep(?:tember)?|"
        r"Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)\.? \d{1,2}(?:st|nd|rd|th)?(?:,? \d{4})?\b"
    )),
    ("amount", re.compile(
        r"(?:US\$|[$€£¥￥])\s?\d+(?:,\d+)*(?:\.\d+)?(?:\s?(?:million|billion|[kKmM])\b)?"
        # Bounded: a table of numbers with commas would be read again from each of them to its end.
        r"|(?<![\w.])\d{1,20}(?:,\d{1,20}){0,12}(?:\.\d{1,20})?\s?(?:USD|EUR|GBP|CNY|RMB|dollars|euros|元|万元|亿元|块钱|美元)"
    )),
    ("project", re.compile(
        r"\b(?:project|repo|repository)\s+[\"'`]?([A-Za-z][\w.-]*[\w])"
        r"|项目\s*[「\"“]([^」\"”]{1,30})[」\"”]",
        re.IGNORECASE,
    )),
    ("person", re.compile(
        r"\b(?:Mr|Mrs|Ms|Dr|Prof)\.?\s+([A-Z][a-z]+(?:\s[A-Z][a-z]+)?)"
        r"|\b(?:[Mm]y name is|I am called|[Aa]sk|[Mm]et|[Cc]ontact|@)\s?(?!(?:Mr|Mrs|Ms|Dr|Prof)\b)"
            r"([A-Z][a-z]+(?:\s[A-Z][a-z]+)?)"
        rf"|(?:我叫|联系|姓名[:：]\s?)([{_SURNAMES}][\u4e00-\u9fff]{{1,2}})"
        rf"|([{_SURNAMES}](?:先生|女士|老师|经理|总|工))"
    )),
)  # fmt: skip


class Entity(NamedTuple):
    """A found entity: its kind, and its text."""

    kind: str
    text: str


def topics_of(text: str) -> tuple[str, ...]:
    """The topics of *text*, in the order of the table."""
    found = {topic for word in _WORD.findall(text.lower()) for part in (word, *word.split("-"))
             if (topic := _ENGLISH.get(part))}  # fmt: skip
    found |= {topic for word, topic in _CHINESE if word in text}
    return tuple(topic for topic in TOPICS if topic in found)


def entities_of(text: str) -> tuple[Entity, ...]:
    """The entities of *text*, each once, by place: person, stock, url, date, amount, project, email."""
    found: dict[Entity, int] = {}
    for kind, pattern in _PATTERNS:
        for match in pattern.finditer(text):
            name = next((group for group in match.groups() if group), match.group())
            found.setdefault(Entity(kind, name.strip()), match.start())
    return tuple(sorted(found, key=lambda entity: (found[entity], entity)))


def named(entities: tuple[Entity, ...]) -> tuple[str, ...]:
    """*entities* in the form of facts: ``person:Ann``."""
    return tuple(f"{entity.kind}:{entity.text}" for entity in entities)


def has_entity(entities: tuple[str, ...], wanted: str) -> bool:
    """Whether *wanted* is one of *entities*, with its kind or without: ``person:Ann`` or ``Ann``."""
    return any(wanted in (each, each.partition(":")[2]) for each in entities)
