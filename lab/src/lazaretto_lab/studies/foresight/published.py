"""The tables of docs/foresight-study.md."""

from __future__ import annotations

from lazaretto_lab.harness.cells import CellText, plus_minus, seeds
from lazaretto_lab.harness.pages import by_row
from lazaretto_lab.harness.tables import RowResults
from lazaretto_lab.metrics.intervals import t_interval

SPREAD: dict[str, CellText] = {
    "seeds": seeds,
    "cum. % @8": plus_minus("cumulative_8", 1),
    "@24": plus_minus("cumulative_24", 1),
    "@63": plus_minus("cumulative_end", 1),
    "peak now %": plus_minus("current_peak", 1),
}
REMOVED: dict[str, CellText] = {
    "benign removed": plus_minus("benign_removed", 1),
    "calls": plus_minus("calls_ratio", 2),
}
DIAGNOSIS: dict[str, CellText] = {
    "seeds": seeds,
    "precision %": plus_minus("precision", 1),
    "recall %": plus_minus("recall", 1),
    "F1 %": plus_minus("f1", 1),
    "FPR %": plus_minus("fpr", 1),
    "calls per agent": plus_minus("calls_per_agent", 1),
}
PURIFICATION: dict[str, CellText] = {
    "seeds": seeds,
    "threats gone %": plus_minus("elimination", 1),
    "benign kept %": plus_minus("retention", 1),
    "harmonic %": plus_minus("harmonic", 1),
    "calls per agent": plus_minus("calls_per_agent", 1),
}
COPIES: dict[str, CellText] = {
    "seeds": seeds,
    "carriers found %": plus_minus("recall", 1),
    "healthy accused %": plus_minus("fpr", 1),
    "threats gone %": plus_minus("elimination", 1),
    "benign kept %": plus_minus("retention", 1),
    "calls per agent": plus_minus("calls_per_agent", 1),
}
DEFENCES: dict[str, CellText] = {
    **SPREAD,
    "now @63": plus_minus("current_end", 1),
    **REMOVED,
    "CER %": plus_minus("cer", 0),
    "SDD": plus_minus("sdd", 2),
    "SDI/benign": plus_minus("sdi_ratio", 2),
}
ADAPTIVE: dict[str, CellText] = {
    "seeds": seeds,
    "beta": plus_minus("beta", 2),
    "alpha ask": plus_minus("alpha_question", 2),
    "answer": plus_minus("alpha_answer", 2),
    "cum. % @24": plus_minus("cumulative_24", 1),
    "@63": plus_minus("cumulative_end", 1),
    "peak now %": plus_minus("current_peak", 1),
    "carrying %": plus_minus("carrying_end", 1),
    **REMOVED,
}

FIRST_CONTACT: dict[str, CellText] = {
    "seeds": seeds,
    "beta": plus_minus("beta", 2),
    "alpha ask": plus_minus("alpha_question", 2),
    "answer": plus_minus("alpha_answer", 2),
    "cum. % @8": plus_minus("cumulative_8", 1),
    "@24": plus_minus("cumulative_24", 1),
    "@63": plus_minus("cumulative_end", 1),
    "peak now %": plus_minus("current_peak", 1),
    "recall %": plus_minus("recall_before_shown", 0),
    **REMOVED,
}
COST: dict[str, CellText] = {
    "seeds": seeds,
    "calls": plus_minus("calls_ratio", 2),
    "cum. % @31": plus_minus("cumulative_end", 1),
    "benign removed": plus_minus("benign_removed", 1),
}
SMALL: dict[str, CellText] = {
    "seeds": seeds,
    "cum. % @8": plus_minus("cumulative_8", 1),
    "end": plus_minus("cumulative_end", 1),
    "carrying %": plus_minus("carrying_end", 1),
    "viruses removed": plus_minus("virus_removed", 0),
    **REMOVED,
}
GUARD: dict[str, CellText] = {
    **SPREAD,
    "viruses removed": plus_minus("virus_removed", 0),
    "benign removed": plus_minus("benign_removed", 0),
    "calls by the defence": plus_minus("calls_by_defence", 0),
    "calls": plus_minus("calls_ratio", 3),
}
TRACING: dict[str, CellText] = {
    "seeds": seeds,
    "infected": plus_minus("infected", 1),
    "rehearsed, contacts first": plus_minus("rehearsed_contacts", 1),
    "rehearsed, scanning": plus_minus("rehearsed_scan", 1),
    "times fewer": plus_minus("times_fewer", 1),
    "calls, contacts first": plus_minus("calls_contacts", 0),
    "calls, scanning": plus_minus("calls_scan", 0),
    "missed": plus_minus("missed_contacts", 1),
    "benign removed": plus_minus("wrong_contacts", 1),
}
RECALL: dict[str, CellText] = {
    "seeds": seeds,
    "beta": plus_minus("beta", 3),
    "K": plus_minus("chats", 0),
    "beta^K %": plus_minus("beta_k", 1),
    "all K fetched it %": plus_minus("all_fetched", 1),
    "recall %": plus_minus("recall", 1),
    "FPR %": plus_minus("fpr", 1),
    "F1 %": plus_minus("f1", 1),
}
MANY: dict[str, CellText] = {
    "seeds": seeds,
    "beta, unseen chats": plus_minus("virus_beta", 2),
    "cum. % @8": plus_minus("cumulative_8", 1),
    "@24": plus_minus("cumulative_24", 1),
    "end": plus_minus("cumulative_end", 1),
    "peak now %": plus_minus("current_peak", 1),
    "carrying % at the end": plus_minus("carrying_end", 1),
    **REMOVED,
}


def at_round(measure: str, number: int) -> CellText:
    """Mean and half of its interval of a curve in one round."""

    def text(row: RowResults) -> str:
        values = [float(result.measures[measure][number]) for result in row.results]
        interval = t_interval(values)
        return f"{interval.value:.2f} ± {interval.half_width:.2f}"

    return text


DRIFT: dict[str, CellText] = {
    "seeds": seeds,
    "benign limit": plus_minus("limit", 2),
    "drift when it comes": at_round("drift", 6),
    "while it is there": at_round("drift", 8),
    "when it goes": at_round("drift", 10),
    "benign agents then": at_round("drift_benign", 10),
}

TABLES = {
    "foresight/table1": by_row("foresight/table1", "row", DEFENCES, right=True),
    "foresight/table2": by_row("foresight/table2", "row", DIAGNOSIS, right=True),
    "foresight/purification": by_row("foresight/purification", "row", PURIFICATION, right=True),
    "foresight/virus_copies": by_row("foresight/virus_copies", "what the infected hold", COPIES, right=True),
    "foresight/table3": by_row("foresight/table3", "row", DIAGNOSIS, right=True),
    "foresight/table7": by_row("foresight/table7", "row", DIAGNOSIS, right=True),
    "foresight/albums": by_row("foresight/albums", "album", {**SPREAD, **REMOVED}, right=True),
    "foresight/rates": by_row("foresight/rates", "infected of 128", {**SPREAD, **REMOVED}, right=True),
    "foresight/cost": by_row("foresight/cost", "row", COST, right=True),
    "foresight/guard": by_row("foresight/guard", "row", GUARD, right=True),
    "foresight/tracing": by_row("foresight/tracing", "row", TRACING, right=True),
    "foresight/named_small": by_row("foresight/named_small", "row", SMALL, right=True),
    "foresight/recall": by_row("foresight/recall", "row", RECALL, right=True, finished=True),
    "foresight/bands": by_row(
        "foresight/many", "row", MANY, right=True, only=lambda row: row.startswith("beta "), finished=True
    ),
    "foresight/many": by_row(
        "foresight/many", "row", MANY, right=True, only=lambda row: not row.startswith("beta "), finished=True
    ),
    "foresight/bank_purification": by_row("foresight/bank_purification", "row", PURIFICATION, right=True),
    "foresight/bank_drift": by_row("foresight/bank_drift", "viruses", DRIFT, right=True),
    "foresight/first_contact": by_row("foresight/first_contact", "row", FIRST_CONTACT, right=True),
    "foresight/adaptive": by_row("foresight/adaptive", "row", ADAPTIVE, right=True, finished=True),
}
