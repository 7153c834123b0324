"""Measures how well a store finds earlier messages: datasets, measures, and reports."""

from siltstone.evaluation.dataset import (
    RECORDED as RECORDED,
    Conversation as Conversation,
    Dataset as Dataset,
    Question as Question,
    Turn as Turn,
    data_place as data_place,
    load_dataset as load_dataset,
    read_dataset as read_dataset,
)
from siltstone.evaluation.report import Report as Report
from siltstone.evaluation.run import evaluate as evaluate
