"""The embedded jury: trained local models as judges, with no key and no network.

Read ``views``, ``scorer`` and ``debaters``, in this order.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from lazaretto.policy import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    from lazaretto.cases.library import Precedents
    from lazaretto.cases.records import InputKind
    from lazaretto.gates.content.jury.scorer import ErrorRates
    from lazaretto.gates.content.records import Order, Panel


def embedded_panel(
    library: Precedents | None,
    precedents: int = 3,
    without: Collection[str] = (),
    orders: Mapping[InputKind, Order] | None = None,
    limits: Limits = DEFAULT_LIMITS,
    *,
    rates: ErrorRates | None = None,
    quick: bool = False,
    second: bool = True,
) -> Panel:
    """The panel with the shipped models in every role; ``without`` names roles to leave empty.

    ``rates`` set the gray band; ``quick`` settles clearly harmless content without a debate, unless the policy asks for
    fewer misses than one look was measured for; ``second`` asks a larger reader in doubt, where one is set up.
    """
    from lazaretto.gates.content.jury.debaters import JuryArbiter, JuryDebater, JuryGlance
    from lazaretto.gates.content.jury.scorer import DEFAULT_RATES, shipped_models
    from lazaretto.gates.content.jury.second_opinion import SecondOpinion, glance_numbers
    from lazaretto.gates.content.jury.supporter import JurySupporter
    from lazaretto.gates.content.jury.views import JuryPreprocessor
    from lazaretto.gates.content.records import Panel, Role

    models, rates = shipped_models(), rates or DEFAULT_RATES
    return Panel(
        "embedded",
        JuryPreprocessor(limits=limits),
        JuryArbiter(models, orders, rates, SecondOpinion() if second else None),
        None if "supporter" in without else JurySupporter(library, precedents),
        None if "strict" in without else JuryDebater(Role.STRICT, models),
        None if "loose" in without else JuryDebater(Role.LOOSE, models),
        JuryGlance(models, glance_numbers() if second else None)
        if quick and rates.misses >= DEFAULT_RATES.misses
        else None,
    )
