"""Measures how well a store finds earlier messages: datasets, measures, and reports."""

from siltstone.evaluation.dataset import Conversation, Dataset, Question, Turn
from siltstone.evaluation.plain import read_dataset
from siltstone.evaluation.protocols import Measurable
from siltstone.evaluation.recorded import RECORDED, data_place, load_dataset
from siltstone.evaluation.report import Abstention, Figures, Latency, Report
from siltstone.evaluation.run import evaluate

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
