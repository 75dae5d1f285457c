# ruff: noqa: E501, SIM905
"""Invented subjects and values that the sentences of ``templates`` are filled with."""

from __future__ import annotations

import random
import string
from collections.abc import Callable

Make = Callable[[random.Random], str]

FIRST = "Anna Boris Chloe Dmitri Elena Farid Gloria Hugo Irene Jakob Keiko Lars Maria Nadia Oscar Paula Quentin Rosa Stefan Tara Umar Vera Wendy Xenia Yusuf Zoe Bea Colin Dora Ethan Fiona Gavin".split()
LAST = "Abbott Bianchi Castro Dvorak Eriksen Fontaine Gupta Hofmann Ibarra Jensen Kaya Larsen Molina Nakamura Obi Petrov Quist Romero Sato Tanaka Ueda Varga Wagner Xu Yilmaz Zeller Carver Doyle Ellis Frost".split()
FIRMS = "Alder Basalt Cobalt Delphi Ember Falcon Granite Halcyon Iris Juniper Krypton Lotus Maple Nimbus Opal Pelican Quartz Raven Saffron Topaz Umbra Vega Willow Xylo Yarrow Zephyr".split()
SUFFIX = [
    "Ltd",
    "GmbH",
    "Logistics",
    "Partners",
    "Media",
    "Steel",
    "Textiles",
    "Software",
    "Catering",
    "Chemicals",
    "& Sons",
    "Energy",
]
PLACES = "Lyon Porto Graz Turku Ghent Malmo Bilbao Brno Split Aarhus Basel Cardiff Galway Kiel Linz Nantes Pisa Riga Tartu Varna".split()
SYSTEMS = "billing search payroll inventory checkout reporting telemetry messaging identity scheduling analytics archive gateway catalogue forecasting".split()
DRUGS = "amoxicillin metformin lisinopril atenolol prednisone morphine insulin heparin digoxin gabapentin naproxen furosemide".split()
STREETS = "Oak Birch Station Church Market River Hill Garden Victoria Park Forest Castle".split()
MONTHS = "January February March April May June July August September October November December".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
ITEMS = "pallets valves filters helmets batteries printers cables sensors gaskets bandages syringes tyres".split()
GROUPS = [
    "contractors",
    "trainees",
    "the night crew",
    "junior analysts",
    "external auditors",
    "sales staff",
    "the chat assistant",
    "the crawler agent",
    "temporary workers",
    "the research agent",
    "partner firms",
    "the mail agent",
]
THINGS = [
    "the finance share",
    "the production cluster",
    "patient files",
    "the source repository",
    "the cash safe",
    "the admin console",
    "personnel files",
    "the key cabinet",
    "the test reactor",
    "the audit log",
    "payment records",
    "the backup tapes",
]
ACTIONS = [
    "approve discounts",
    "restart servers",
    "open the vault",
    "delete old records",
    "order spare parts",
    "write to customers",
    "change prices",
    "merge code",
    "book hotels",
    "operate the crane",
    "publish articles",
    "install packages",
]
BOSSES = [
    "the shift leader",
    "a senior buyer",
    "the head of finance",
    "the safety officer",
    "two directors",
    "the line manager",
    "the chief pharmacist",
    "the project sponsor",
    "the store manager",
    "an administrator",
]
MATTERS = [
    "broken machines",
    "lost badges",
    "data leaks",
    "late deliveries",
    "noise complaints",
    "fire drills",
    "water damage",
    "missing parcels",
    "unpaid bills",
    "job applications",
    "press inquiries",
    "travel claims",
    "warranty cases",
    "allergy warnings",
    "phishing mails",
    "contract changes",
    "sick notes",
    "road closures",
    "failed builds",
    "power cuts",
]
JOBS = [
    "night guard",
    "fire warden",
    "lead auditor",
    "union delegate",
    "first aider",
    "pilot",
    "head chef",
    "site foreman",
    "ship's engineer",
    "company lawyer",
    "budget holder",
    "quality inspector",
    "account manager",
    "key holder",
    "network administrator",
    "ward physician",
]
REQUESTS = [
    "Overtime beyond ten hours",
    "Price cuts above 15 percent",
    "New supplier contracts",
    "Hiring of freelancers",
    "Returns without a receipt",
    "Changes to the firewall",
    "Business trips abroad",
    "Cash withdrawals",
    "Model releases",
    "Discharges from the ward",
    "Press statements",
    "Deletion of customer accounts",
    "Orders worth more than 4,000 CHF",
    "Write-offs beyond 750 USD",
]


def pick(*options: str) -> Make:
    return lambda rng: rng.choice(options)


def person(rng: random.Random) -> str:
    return f"{rng.choice(FIRST)} {rng.choice(LAST)}"


def firm(rng: random.Random) -> str:
    return f"{rng.choice(FIRMS)} {rng.choice(SUFFIX)}"


def iban(rng: random.Random) -> str:
    body = "".join(rng.choices(string.digits, k=rng.choice((14, 16, 18, 20))))
    text = f"{rng.choice(('DE', 'FR', 'GB', 'NL', 'SE', 'FI', 'HU', 'LU', 'IE'))}{rng.randint(10, 98)}{body}"
    return " ".join(text[i : i + 4] for i in range(0, len(text), 4)) if rng.random() < 0.5 else text


def account(rng: random.Random) -> str:
    kind = rng.random()
    if kind < 0.6:
        return ("IBAN " if rng.random() < 0.4 else "") + iban(rng)
    if kind < 0.8:
        return f"account number {rng.randint(10**7, 10**9)}"
    return "0x" + "".join(rng.choices("0123456789abcdef", k=40))


def host(rng: random.Random) -> str:
    kind = rng.random()
    if kind < 0.3:
        return ".".join(str(rng.randint(1, 254)) for _ in range(4))
    name = f"{rng.choice(SYSTEMS)}{rng.choice(('', '-a', '-b', '01', '02', '-eu', '-us'))}"
    domain = rng.choice(("corp.local", "intra.net", "example.io", "svc.cluster.local", "ops.dev", "hosting.com"))
    return (
        (f"https://{name}.{domain}/{rng.choice(('v1', 'app', 'hook', ''))}").rstrip("/")
        if kind > 0.75
        else f"{name}.{domain}"
    )


def mail(rng: random.Random) -> str:
    return f"{rng.choice(FIRST).lower()}.{rng.choice(LAST).lower()}@{rng.choice(FIRMS).lower()}.{rng.choice(('com', 'org', 'io'))}"


def phone(rng: random.Random) -> str:
    return f"+{rng.choice((31, 33, 41, 43, 45, 46, 48))} {rng.randint(10, 99)} {rng.randint(100, 999)} {rng.randint(1000, 9999)}"


def money(rng: random.Random) -> str:
    amount = rng.choice((rng.randint(1, 99) * 10, rng.randint(1, 99) * 100, rng.randint(1, 50) * 1000))
    code = rng.choice(("EUR", "USD", "CHF", "GBP"))
    return rng.choice((f"{amount:,} {code}", f"{code} {amount}", f"{amount} {code}"))


def date(rng: random.Random) -> str:
    day, month, year = rng.randint(1, 28), rng.randint(0, 11), rng.choice((2026, 2027, 2028))
    return rng.choice(
        (
            f"{day} {MONTHS[month]}",
            f"{day} {MONTHS[month]} {year}",
            f"{MONTHS[month]} {day}",
            f"{year}-{month + 1:02d}-{day:02d}",
        )
    )


def clock(rng: random.Random) -> str:
    hour = rng.randint(0, 23)
    return rng.choice(
        (f"{hour:02d}:{rng.choice(('00', '15', '30', '45'))}", f"{hour % 12 or 12} {'pm' if hour > 11 else 'am'}")
    )


def version(rng: random.Random) -> str:
    return rng.choice(
        (f"{rng.randint(0, 9)}.{rng.randint(0, 20)}", f"{rng.randint(0, 9)}.{rng.randint(0, 20)}.{rng.randint(0, 30)}")
    )


def path(rng: random.Random) -> str:
    return f"/{rng.choice(('opt', 'data', 'home/ops', 'var/lib', 'mnt/nas', 'exports'))}/{rng.choice(SYSTEMS)}{rng.choice(('', '/daily', '/out', '.cfg'))}"


def dose(rng: random.Random) -> str:
    return f"{rng.choice((1, 2, 5, 8, 10, 25, 40, 50, 75, 100, 200, 250, 500, 850, 1000))} {rng.choice(('mg', 'mg', 'ml', 'mcg', 'units'))}"


def count(rng: random.Random) -> str:
    return str(rng.choice((rng.randint(2, 20), rng.randint(2, 99) * 10, rng.randint(1, 30) * 100)))


def address(rng: random.Random) -> str:
    return f"{rng.randint(1, 180)} {rng.choice(STREETS)} {rng.choice(('Road', 'Avenue', 'Lane', 'Square'))}, {rng.choice(PLACES)}"


def system(rng: random.Random) -> str:
    return f"the {rng.choice(SYSTEMS)} {rng.choice(('service', 'database', 'cluster', 'API', 'queue', 'server'))}"


def branch(rng: random.Random) -> str:
    return f"the {rng.choice(PLACES)} {rng.choice(('office', 'branch', 'plant', 'warehouse', 'clinic', 'shop'))}"


def patient(rng: random.Random) -> str:
    return rng.choice(
        (f"patient {rng.choice(LAST)}", f"Mrs. {rng.choice(LAST)}", f"room {rng.randint(1, 60)}", person(rng))
    )
