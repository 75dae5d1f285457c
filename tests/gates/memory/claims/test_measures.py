"""Two values of one measure, how often something is done, and words that are plainly at odds. No model."""

from __future__ import annotations

import pytest

from lazaretto.gates.memory.claims.at_odds import bar_at_odds
from lazaretto.gates.memory.claims.comparison import Overlap, gives_another_value, meeting
from lazaretto.gates.memory.claims.extraction import read_claim
from lazaretto.gates.memory.claims.measures import how_often

YEAR = 8760


@pytest.mark.parametrize(
    ("text", "times"),
    [
        ("four times a year", 4),
        ("every three months", 4),
        ("once in two years", 0.5),
        ("every second Monday", 26.07),
        ("dreimal täglich", 1095),
        ("alle drei Jahre", 1 / 3),
        ("toutes les deux semaines", 26.07),
        ("dos veces por semana", 104.3),
        ("Contrôle hebdomadaire", 52.14),
    ],
)
def test_how_often_is_read_as_a_number(text: str, times: float) -> None:
    ((hours, _, _),) = how_often(text)
    assert YEAR / hours == pytest.approx(times, rel=0.01)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Filters are changed every 90 days.", "The filters are changed once a year."),
        ("The kiln is fired at 1240 degrees.", "Fire the kiln at 980 degrees."),
        ("Der Boden wird täglich gewischt.", "Gewischt wird der Boden einmal im Monat."),
        ("Ein Termin dauert 50 Minuten.", "Für einen Termin reichen 15 Minuten."),
        ("Les filtres sont changés chaque mois.", "On change les filtres tous les deux ans."),
        ("La sauna está a 80 grados.", "La sauna llega a 110 grados."),
        ("La entrada cuesta 8 euros.", "Cobramos 20 euros por la entrada."),
    ],
)
def test_two_values_of_one_measure_are_plain(old: str, new: str) -> None:
    first, second = read_claim(old), read_claim(new)
    assert gives_another_value(first, second) and meeting(first, second, 0.6) is Overlap.OPPOSED


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Filters are changed every 90 days.", "Filters are changed four times a year."),
        ("A group class takes 45 minutes.", "A private class takes 30 minutes."),
        ("The kiln opens at 9:00.", "The kiln closes at 17:00."),
        ("Stay at least 30 minutes.", "Stay at most 45 minutes."),
        ("The rent of 5 Mill Lane is 1,150 pounds.", "The rent of 7 Mill Lane is 1,450 pounds."),
        ("The van held 8 crates on Monday.", "The van held 12 crates on Tuesday."),
        ("The pool opens at 9:00.", "The pool opens at 10:00 today."),
        ("Die Tageskarte kostet 14 Euro.", "Die Monatskarte kostet 55 Euro."),
        ("Les pneus sont contrôlés chaque semaine.", "Les freins sont contrôlés chaque mois."),
        ("M. Lacombe prend 10 mg de ramipril.", "Mme Lacombe prend 5 mg de ramipril."),
        ("El blanco reposa tres meses.", "El tinto reposa doce meses."),
        ("The lake is 12 km long.", "The lake is 3 km wide."),
    ],
)
def test_other_things_other_days_and_other_bounds_are_not(old: str, new: str) -> None:
    assert not gives_another_value(read_claim(old), read_claim(new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Records are kept for 42 days.", "We delete records after six weeks."),
        ("The filter is changed every 90 days.", "Four times a year the filter is changed."),
        ("Jeder Gurt wird monatlich geprüft.", "Einmal im Monat prüfen wir alle Gurte."),
        ("El riego se abre dos veces por semana.", "Se riega dos veces cada semana."),
    ],
)
def test_the_same_measure_in_other_words_is_the_same(old: str, new: str) -> None:
    assert meeting(read_claim(old), read_claim(new), 0.7) is Overlap.SAME


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Only the warden opens the gate.", "Anybody may open the gate."),
        ("Den Ofen fährt nur der Meister an.", "Den Ofen darf auch jeder Lehrling anfahren."),
        ("La barrière est fermée la nuit.", "La barrière est ouverte la nuit."),
        ("Our printer is Callum Reid.", "Joan Peel is our printer."),
        ("Students may not leave the yard.", "Students may leave the yard."),
        ("The alarm is tested every Monday.", "The alarm is no longer tested."),
        ("El permiso de los padres es obligatorio.", "El permiso de los padres es opcional."),
    ],
)
def test_words_at_odds_have_a_lower_bar(old: str, new: str) -> None:
    bar = bar_at_odds(read_claim(old), read_claim(new))
    assert bar is not None and bar < 0.6


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Only the warden opens the gate.", "The gate is opened by the warden alone."),
        ("Only the agent may push to main.", "Every agent may push to its own branch."),
        ("Ohne Ausweis gibt es keinen Schlüssel.", "Den Schlüssel gibt es nur mit Ausweis."),
        ("La barrière est fermée la nuit.", "La boutique est ouverte le dimanche."),
        ("Our printer is Callum Reid.", "Joan Peel bought two prints on Monday."),
        ("Students may not leave the yard.", "The break takes twenty minutes."),
        ("Wooden pallets must carry a stamp of the treatment.", "Plastic pallets need no stamp."),
    ],
)
def test_honest_look_alikes_are_not_at_odds(old: str, new: str) -> None:
    assert bar_at_odds(read_claim(old), read_claim(new)) is None


def test_families_that_buy_two_things_did_two_things() -> None:
    first, second = read_claim("Familie Brandl kaufte sechs Gläser."), read_claim("Familie Otto kaufte zwei Karaffen.")
    assert meeting(first, second, 0.6) is Overlap.TWO_THINGS
