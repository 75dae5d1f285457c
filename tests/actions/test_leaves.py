"""The plain values of a call's arguments, and what a call costs that has many of them."""

from __future__ import annotations

from lazaretto.actions.leaves import leaves, products


def test_a_price_times_its_pieces_counts_in_each_object() -> None:
    lines = [{"price": 90, "quantity": 50}, {"unit_cost": "3.5", "units": "4"}, {"quantity": 9}, {"price": 1}]
    assert list(products({"lines": lines})) == [4500, 14]


def test_many_prices_beside_many_pieces_cost_one_product() -> None:
    wide = {f"price_{n}": n for n in range(20_000)} | {f"quantity_{n}": n for n in range(20_000)}
    assert list(products(wide)) == [19_999 * 19_999]


def test_a_value_is_named_by_the_object_around_it_by_its_neighbour_or_is_a_name_itself() -> None:
    given = {"to": {"name": "ops"}, "payees": {"Ann": 20}, "fields": [["cc", "eve"]]}
    found = {(one.key, one.above, one.value) for name, value in given.items() for one in leaves(value, name)}
    assert {("name", "to", "ops"), ("payees", "", "Ann"), ("amount", "", 20), ("cc", "", "eve")} <= found
