"""Measures how well a store finds earlier messages: datasets, measures, and reports."""

from siltstone.evaluation.dataset import (
    RECORDED,
    Conversation,
    Dataset,
    Question,
    Turn,
    data_place,
    load_dataset,
    read_dataset,
)
from siltstone.evaluation.report import Abstention, Figures, Latency, Report
from siltstone.evaluation.run import Measurable, evaluate

__all__ = [
    "RECORDED",
    "Abstention",
    "Conversation",
    "Dataset",
    "Figures",
    "Latency",
    "Measurable",
    "Question",
    "Report",
    "Turn",
    "data_place",
    "evaluate",
    "load_dataset",
    "read_dataset",
]
