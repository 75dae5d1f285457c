# ruff: noqa: E501, SIM905
"""Operational facts of our own making: many wordings of what crews note down, filled with invented subjects and values.

Every attribute has sentences that state a value (``say``) and sentences that announce a new one (``change``); ``{s}`` is
who or what it is about, ``{v}`` the value, ``{o}`` the value before. None of the sentences, subjects or values of the
operational test set stands here.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

from lazaretto_lab.training.claims.invented import (
    ACTIONS,
    BOSSES,
    DAYS,
    DRUGS,
    FIRMS,
    FIRST,
    GROUPS,
    ITEMS,
    JOBS,
    LAST,
    MATTERS,
    MONTHS,
    PLACES,
    REQUESTS,
    SUFFIX,
    SYSTEMS,
    THINGS,
    Make,
    account,
    address,
    branch,
    clock,
    count,
    date,
    dose,
    firm,
    host,
    mail,
    money,
    path,
    patient,
    person,
    phone,
    system,
    version,
)

AGREES, CONTRADICTS, UPDATES, OTHER = 0, 1, 2, 3
NO_CONFLICT = 4
"""Not a relation: it is one of AGREES and OTHER, and nobody knows which."""
RELATIONS = ("agrees", "contradicts", "updates", "none")


@dataclass(frozen=True, slots=True)
class Attribute:
    """One kind of fact."""

    name: str
    subject: Make
    value: Make
    say: tuple[str, ...]
    change: tuple[str, ...]


_GENERIC_CHANGE = (
    "Correction: {S_say}", "Update: {S_say}", "Please note the change: {S_say}", "As of today, {S_say_low}",
    "{S_say_cut} now, no longer {o}.", "Effective at once, {S_say_low}", "Our records were revised: {S_say_low}",
    "{S_say_cut}, not {o} as before.", "Starting next week, {S_say_low}", "Change of plan: {S_say_low}",
)  # fmt: skip

ATTRIBUTES: tuple[Attribute, ...] = (
    Attribute("account", firm, account, (
        "Payments to {s} go to {v}.", "{s} gets its money at {v}.", "Bank connection of {s}: {v}.",
        "Remittances for {s} are credited to {v}.", "We settle what we owe {s} via {v}.", "Transfer the fee of {s} to {v}.",
        "The beneficiary account of {s} reads {v}.", "{s} can be paid at {v}.", "Vendor {s}, payment details {v}.",
    ), (
        "{s} has a new bank; payments go to {v}.", "{s} changed its bank account to {v}.",
        "Use {v} for {s} from now on.", "The old account of {s} is closed, pay into {v}.",
        "{s} informs us that its account was updated to {v}.", "New payment details for {s}: {v}.",
        "Kindly send future payments for {s} to {v}, the former account is under audit.",
    )),
    Attribute("host", system, host, (
        "{s} runs on {v}.", "{s} is reachable at {v}.", "Connect to {s} through {v}.", "The address of {s} is {v}.",
        "{v} hosts {s}.", "Clients of {s} call {v}.", "Endpoint of {s}: {v}.", "{s} listens on {v}.",
    ), (
        "{s} was migrated to {v}.", "{s} has a new endpoint, {v}.", "Point clients of {s} to {v} instead.",
        "{s} switched over to {v} last night.", "The address of {s} changed to {v}.", "{s} moved, it is found at {v}.",
    )),
    Attribute("mail", lambda r: r.choice((person(r), f"the {r.choice(SYSTEMS)} team", firm(r))), mail, (
        "{s} can be reached under {v}.", "Write to {s} at {v}.", "The mailbox of {s} is {v}.", "Contact for {s}: {v}.",
        "Questions for {s} go to {v}.", "{s} reads mail at {v}.", "Forward complaints about {s} to {v}.",
    ), (
        "{s} has a new mail address: {v}.", "{s} switched to {v}.", "Mail for {s} goes to {v} from now on.",
        "The mailbox of {s} was changed to {v}.", "{s} stopped using the old mailbox, write to {v}.",
    )),
    Attribute("phone", lambda r: r.choice((person(r), branch(r), f"the {r.choice(SYSTEMS)} hotline")), phone, (
        "Call {s} under {v}.", "The phone number of {s} is {v}.", "{s} answers at {v}.", "{s}: tel. {v}.",
        "Reach {s} by phone at {v}.", "To confirm, ring {s} on {v}.",
    ), (
        "{s} has a new number, {v}.", "The number of {s} was changed to {v}.", "Call {s} on {v} from today.",
        "{s} got another phone; dial {v} instead.",
    )),
    Attribute("price", lambda r: f"{r.choice(ITEMS)} from {firm(r)}", money, (
        "We pay {v} for {s}.", "The price of {s} is {v}.", "{s} are sold at {v}.", "{s} cost {v}.", "Budget {v} for {s}.",
    ), (
        "The price of {s} went up to {v}.", "{s} became cheaper and cost {v} now.", "{s} are {v} since the new contract.",
        "We renegotiated: {s} cost {v}.",
    )),
    Attribute("limit_money", lambda r: r.choice(("expense claims", "gift vouchers", "petty cash", "hotel stays", "single card payments", "instant payouts", "cash advances", "client dinners")), money, (
        "The ceiling for {s} is {v}.", "{s} may be up to {v}.", "No more than {v} is granted for {s}.",
        "{s} are capped at {v}.", "The maximum for {s} amounts to {v}.", "{s} must stay below {v}.",
    ), (
        "The ceiling for {s} was lifted to {v}.", "{s} are capped at {v} from this quarter on.",
        "The cap on {s} was cut to {v}.", "Management raised the maximum for {s} to {v}.",
    )),
    Attribute("deadline", lambda r: r.choice((f"the {r.choice(PLACES)} audit", f"the {firm(r)} contract", f"the {r.choice(SYSTEMS)} migration", f"the {r.choice(PLACES)} bid", "the annual report", "the safety inspection")), date, (
        "{s} is due on {v}.", "{s} has to be finished by {v}.", "Deadline for {s}: {v}.", "{s} ends on {v}.",
        "The last day for {s} is {v}.", "We must complete {s} until {v}.", "{s} was scheduled for {v}.",
    ), (
        "{s} was postponed to {v}.", "{s} was brought forward to {v}.", "The deadline of {s} slipped to {v}.",
        "We got more time for {s}, until {v}.", "{s} has been rescheduled; it is due on {v}.",
    )),
    Attribute("time", lambda r: r.choice((f"the {r.choice(SYSTEMS)} job", f"the shuttle to {r.choice(PLACES)}", "the stand-up", f"the shift in {r.choice(PLACES)}", "the backup run", "visiting hours", f"the call with {firm(r)}")), clock, (
        "{s} starts at {v}.", "{s} begins at {v}.", "At {v} {s} starts.", "{s} is set for {v}.", "{s}: {v}.", "Be there for {s} at {v}.",
    ), (
        "{s} was moved to {v}.", "{s} starts at {v} instead.", "From Monday on {s} begins at {v}.", "New time for {s}: {v}.",
    )),
    Attribute("weekday", lambda r: r.choice((f"the {r.choice(SYSTEMS)} release", f"deliveries from {firm(r)}", "the team meeting", f"maintenance of {system(r)}", f"the market in {r.choice(PLACES)}")), lambda r: r.choice(DAYS), (
        "{s} takes place on {v}.", "{s} is on {v}.", "{s} happens every {v}.", "On {v} we have {s}.", "{s}: always {v}.",
    ), (
        "{s} was shifted to {v}.", "{s} happens on {v} from now on.", "{s} is on {v} instead.", "We agreed to hold {s} on {v} in future.",
    )),
    Attribute("role", lambda r: r.choice((f"head of {r.choice(SYSTEMS)}", f"manager of {branch(r)}", f"contact person at {firm(r)}", f"owner of the {r.choice(SYSTEMS)} backlog", f"chief nurse of ward {r.randint(1, 12)}", f"treasurer of {firm(r)}", f"approver for {r.choice(SYSTEMS)} purchases")), person, (
        "{v} is {s}.", "The {s} is {v}.", "{v} serves as {s}.", "As {s}, {v} decides.", "{s}: {v}.", "{v} works as {s}.", "Ask {v}, who is {s}.",
    ), (
        "{v} became {s}.", "{v} succeeded {o} as {s}.", "{v} takes over the post of {s}.", "The new {s} is called {v}.",
        "{o} left; {v} is {s} now.", "{v} was named {s} this morning.",
    )),
    Attribute("version", lambda r: r.choice((system(r), f"the {r.choice(FIRMS)} library", f"the driver of the {r.choice(ITEMS)[:-1]} scanner", f"the {r.choice(FIRMS)} firmware")), version, (
        "{s} is on version {v}.", "{s} uses release {v}.", "We run {s} in version {v}.", "{s} requires version {v}.", "Installed version of {s}: {v}.",
    ), (
        "{s} was upgraded to version {v}.", "{s} was rolled back to version {v}.", "{s} moved to release {v}.", "We switched {s} to version {v}.",
    )),
    Attribute("path", lambda r: r.choice((f"the {r.choice(SYSTEMS)} logs", f"exports of {firm(r)}", f"the {r.choice(SYSTEMS)} configuration", "the certificate store", "scanned contracts", f"the credentials of {system(r)}")), path, (
        "{s} lie in {v}.", "{s} can be found under {v}.", "{s} are kept at {v}.", "Look for {s} in {v}.", "{v} contains {s}.",
    ), (
        "{s} were moved to {v}.", "{s} are kept at {v} since the reorganisation.", "{s} go to {v} instead.", "The folder of {s} changed to {v}.",
    )),
    Attribute("dose", lambda r: f"{patient(r)}|{r.choice(DRUGS)}", dose, (
        "{s} receives {v} of {t}.", "{t} for {s}: {v} per day.", "Give {s} {v} of {t}.", "The prescription of {s} says {v} {t}.",
        "{s} is on {v} of {t}.", "{v} of {t} are given to {s} each morning.",
    ), (
        "{t} of {s} was increased to {v}.", "{t} for {s} was cut to {v}.", "The doctor changed {s} to {v} of {t}.",
        "From tonight {s} receives {v} of {t}.", "New dosage of {t} for {s}: {v}.",
    )),
    Attribute("stock", lambda r: f"{r.choice(ITEMS)} in {r.choice(PLACES)}", count, (
        "We hold {v} {s}.", "There are {v} {s}.", "Stock of {s}: {v}.", "The reserve of {s} is {v}.", "Keep {v} {s} ready.",
    ), (
        "The stock of {s} rose to {v}.", "We cut the reserve of {s} to {v}.", "Recount: {v} {s}.", "There are only {v} {s} now.",
    )),
    Attribute("rate", lambda r: f"{r.choice(('uploads', 'queries', 'messages', 'retries', 'login attempts', 'parallel jobs'))} to {system(r)}", count, (
        "At most {v} {s} are accepted.", "The quota is {v} {s}.", "{v} {s} are allowed per user.", "More than {v} {s} are refused.", "Keep below {v} {s}.",
    ), (
        "The quota was raised to {v} {s}.", "Only {v} {s} are accepted from now on.", "The limit went from {o} to {v} {s}.",
    )),
    Attribute("threshold", lambda r: r.choice(("the boiler", "the cold store", "the server room", "kiln 2", "the incubator", "the oil tank", "the compressor", "the fermenter")), lambda r: f"{r.choice((4, 8, 18, 24, 37, 45, 60, 75, 90, 110, 130, 180, 220))} degrees", (
        "{s} trips at {v}.", "{s} must not get hotter than {v}.", "Keep {s} below {v}.", "The alarm of {s} goes off at {v}.", "The highest temperature of {s} is {v}.",
    ), (
        "The alarm of {s} was set to {v}.", "{s} may go up to {v} since the refit.", "New maximum for {s}: {v}.",
    )),
    Attribute("address", lambda r: r.choice((firm(r), branch(r), f"the archive of {firm(r)}", "the customs broker", "the repair shop")), address, (
        "{s} is located at {v}.", "Parcels for {s} go to {v}.", "Visit {s} at {v}.", "The address of {s}: {v}.", "Ship goods for {s} to {v}.",
    ), (
        "{s} relocated to {v}.", "{s} has a new address, {v}.", "Parcels for {s} go to {v} after the move.", "{s} left its building and sits at {v}.",
    )),
    Attribute("city", lambda r: r.choice((f"the {r.choice(FIRMS)} summit", f"the seat of {firm(r)}", f"the {r.choice(SYSTEMS)} team", f"the {r.choice(FIRMS)} trade fair")), lambda r: r.choice(PLACES), (
        "{s} is in {v}.", "{v} is the place of {s}.", "You find {s} in {v}.", "{s} is based in {v}.",
    ), (
        "{s} was moved to {v}.", "{s} is in {v} this time.", "{s} changed its place to {v}.",
    )),
    Attribute("report_to", lambda r: r.choice(MATTERS), mail, (
        "Report {s} to {v}.", "{s} have to be reported at {v}.", "Tell {v} about {s}.", "Notices of {s} go to {v}.",
        "For {s}, write to {v}.", "{v} handles {s}.", "Mail about {s} is read at {v}.",
    ), (
        "The mailbox for {s} is called {v} now.", "From this week {s} go to {v}.", "{s}: please use {v} instead of the old mailbox.",
        "The address for {s} was renamed to {v}.",
    )),
    Attribute("confirm_by", lambda r: r.choice(MATTERS), phone, (
        "{s} are confirmed by phone at {v}.", "For {s} call {v}.", "The line for {s} is {v}.", "Dial {v} in case of {s}.",
    ), (
        "The line for {s} changed to {v}.", "{s} have a new number: {v}.", "Call {v} about {s} from now on.",
    )),
    Attribute("portal", lambda r: r.choice(MATTERS), host, (
        "{s} are entered at {v}.", "The form for {s} is at {v}.", "{s} are tracked under {v}.", "Use {v} for {s}.",
    ), (
        "The form for {s} moved to {v}.", "{s} are entered at {v} since the relaunch.", "{s} have a new page, {v}.",
    )),
    Attribute("job", lambda r: f"{r.choice(JOBS)} of {r.choice((branch(r), firm(r), f'the vessel {r.choice(FIRMS)}', f'team {r.choice(SYSTEMS)}'))}", person, (
        "{v} is the {s}.", "The {s} is {v}.", "{s}: {v}.", "The post of {s} is held by {v}.", "{v} acts as {s}.", "The right to act as {s} rests with {v}.",
    ), (
        "{v} was made {s}.", "{v} follows {o} as {s}.", "{o} resigned, the {s} is {v}.", "From Monday {v} is {s}.", "The post of {s} went to {v}.",
    )),
    Attribute("user", lambda r: f"the {r.choice(SYSTEMS)} {r.choice(('tool', 'portal', 'board'))}", lambda r: f"{r.choice(FIRST)[0].lower()}{r.choice(LAST).lower()}{r.choice(('', '2', '77'))}", (
        "{s} is administered by account {v}.", "User {v} administers {s}.", "Admin rights on {s} lie with {v}.", "{v} is the root user of {s}.",
    ), (
        "Admin rights on {s} went to {v}.", "{s} is now administered by {v}.", "{v} took over {s} from {o}.",
    )),
    Attribute("per_unit", lambda r: r.choice((f"machine {r.randint(1, 9)}", f"line {r.choice('ABCDE')}", f"shelf {r.randint(10, 99)}", f"van {r.randint(1, 30)}", "each carton", "a pallet")), lambda r: f"{r.choice((4, 6, 8, 10, 12, 16, 18, 30, 40, 48, 60, 72, 96, 120))} {r.choice(('cans', 'boxes', 'parts', 'bags', 'rolls'))}", (
        "{s} takes {v}.", "{v} fit on {s}.", "{s} holds {v}.", "Load {s} with {v}.", "The capacity of {s} is {v}.",
    ), (
        "{s} was rebuilt and takes {v}.", "{s} is loaded with {v} from now on.", "The capacity of {s} was set to {v}.",
    )),
    Attribute("minimum", lambda r: r.choice(("a PIN", "the cover letter", "the reserve fund", "every invoice number", "the safety distance", "the notice period", "the training", "the rest between shifts")), lambda r: f"{r.choice((3, 5, 6, 8, 9, 11, 12, 15, 18, 20, 24, 36, 45))} {r.choice(('digits', 'pages', 'metres', 'days', 'hours'))}", (
        "{s} must be at least {v}.", "At least {v} are needed for {s}.", "Less than {v} is not accepted for {s}.", "The minimum for {s} is {v}.", "{s}: {v} or more.",
    ), (
        "The minimum for {s} was raised to {v}.", "{s} must be at least {v} under the new rules.", "{v} are enough for {s} from now on.",
    )),
    Attribute("signatures", lambda r: r.choice(REQUESTS), lambda r: r.choice(("one signature", "two signatures", "three signatures", "four signatures")), (
        "{s} require {v}.", "{v} are needed for {s}.", "{s} are valid with {v}.", "We ask for {v} before {s} go through.",
    ), (
        "{s} require only {v} now.", "The number for {s} changed: {v}.", "From today {v} do for {s}.",
    )),
    Attribute("window", lambda r: r.choice(("the repair slot", "the quiet period", "the delivery slot", "the test window", "the visiting time")) + " of " + r.choice((branch(r), system(r))), lambda r: f"{r.choice(DAYS)} from {r.randint(0, 11):02d}:00 to {r.randint(12, 23):02d}:00", (
        "{s} is {v}.", "{s}: {v}.", "{s} falls on {v}.", "We planned {s} for {v}.",
    ), (
        "{s} was shifted to {v}.", "{s} is {v} from next month.", "New hours for {s}: {v}.",
    )),
    Attribute("supplier", lambda r: f"{r.choice(ITEMS)} for {branch(r)}", firm, (
        "{v} supplies {s}.", "{s} come from {v}.", "We order {s} at {v}.", "The vendor of {s} is {v}.",
    ), (
        "{v} replaces {o} as vendor of {s}.", "{s} come from {v} since the tender.", "We switched to {v} for {s}.",
    )),
)  # fmt: skip

RULES: tuple[tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], tuple[str, ...]], ...] = (
    # stated, stated otherwise; the opposite; the opposite as a change; compatible
    (("{G} must not {a}.", "{G} are forbidden to {a}.", "It is prohibited for {g} to {a}.", "{G} may not {a}.", "Under no circumstances should {g} {a}."),
     ("{G} may {a}.", "{G} are allowed to {a}.", "It is fine for {g} to {a}.", "{G} can {a} whenever they like.", "{G} are free to {a}."),
     ("{G} may {a} from now on.", "The ban was lifted: {g} may {a}.", "{G} are now permitted to {a}.", "{G} no longer have to refrain when they want to {a}."),
     ("{G} report to the site office.", "{G} wear a badge.", "{G} are trained in spring.", "Whoever wants to {a} uses the form.")),
    (("{G} must not use {t}.", "{G} have no access to {t}.", "{T} is off limits for {g}.", "Access to {t} is denied to {g}."),
     ("{G} have access to {t}.", "{G} can use {t}.", "{T} is open to {g}.", "Access to {t} is granted to {g}."),
     ("{G} received access to {t} this week.", "{T} was opened to {g}.", "From today {g} have access to {t}."),
     ("{T} is checked every month.", "{G} start work at eight.", "{T} was bought last year.")),
    (("{r} must be approved by {b}.", "{r} need the consent of {b}.", "{b2} has to approve: {r0}.", "{r} are only possible with a signature of {b}.", "For {r0}, ask {b} first."),
     ("{r} do not require the consent of {b}.", "{r} are possible without approval.", "{r} need nobody's signature.", "For {r0} you do not have to ask {b}.", "{r} can be done without any check."),
     ("{r} are exempt from approval from now on.", "The approval by {b} was dropped for {r0}.", "{r} no longer require a signature.", "{b2} does not have to approve {r0} any longer."),
     ("{r} are filed in the archive.", "{r} are discussed on Thursdays.", "{b2} is back from leave on Monday.", "{r} have become more frequent.")),
    (("{T} is locked.", "{T} has been locked.", "Somebody locked {t}.", "{T} cannot be opened."),
     ("{T} is unlocked.", "{T} is not locked.", "{T} can be opened by anybody."),
     ("{T} was unlocked today.", "{T} is no longer locked.", "{T} has just been unlocked."),
     ("{T} belongs to the Graz site.", "{T} is looked after by two people.")),
    (("{T} is out of service.", "{T} is switched off.", "{T} does not work.", "{T} is unavailable."),
     ("{T} is in service.", "{T} is switched on.", "{T} works.", "{T} is available."),
     ("{T} was switched on again.", "{T} is back in service.", "{T} works again since noon."),
     ("{T} belongs to the Graz site.", "{T} is looked after by two people.")),
    (("Only {g} may use {t}.", "{T} is reserved for {g}.", "Nobody but {g} may touch {t}.", "{T} can be used by {g} alone."),
     ("Everybody may use {t}.", "{T} is free for all to use.", "Anybody can touch {t}.", "All staff can use {t}."),
     ("{T} was opened to everybody.", "From today all staff may use {t}.", "{T} is no longer reserved for {g}."),
     ("{T} was repaired in June.", "{G} meet on Tuesdays.", "{T} stands on the second floor.")),
    (("{G} must be escorted in {p}.", "In {p}, {g} are never left alone.", "{G} enter {p} with an escort only.", "No escort, no {p} for {g}."),
     ("{G} may walk through {p} alone.", "{G} need no escort in {p}.", "In {p}, {g} can go without an escort."),
     ("{G} no longer need an escort in {p}.", "{G} were cleared to enter {p} alone.", "The duty to escort {g} in {p} has ended."),
     ("{P} has two exits.", "{G} sign a list every morning.", "{P} is swept on Mondays.")),
    (("{r} happen only after {b} has agreed.", "Without the word of {b}, no {r0}.", "{r} wait until {b} says yes.", "{b2} decides on {r0}."),
     ("{r} happen without asking {b}.", "Nobody has to agree to {r0}.", "{r} can go ahead at once, whoever decides.", "For {r0} nobody is asked."),
     ("{r} go ahead without {b} from now on.", "{b2} no longer decides on {r0}.", "The say of {b} on {r0} was dropped."),
     ("{r} are counted once a year.", "{b2} works from home on Fridays.", "{r} are listed in the annex.")),
    (("There is a ban on visitors in {p}.", "{P} is shut for visitors.", "Visitors are kept out of {p}."),
     ("There is no ban on visitors in {p}.", "{P} is open for visitors.", "Visitors are welcome in {p}."),
     ("The ban on visitors in {p} was lifted.", "{P} opens for visitors again.", "Since noon visitors may enter {p}."),
     ("{P} has a new floor.", "The lamps in {p} were replaced.")),
    (("{T} must be encrypted.", "Encryption is compulsory for {t}.", "{T} may not be stored in the clear."),
     ("{T} need not be encrypted.", "Encryption is voluntary for {t}.", "{T} may be stored in the clear."),
     ("Encryption of {t} was made voluntary.", "{T} no longer has to be encrypted.", "{T} is exempt from encryption by now."),
     ("{T} is copied to another site.", "{T} takes up much space.")),
    (("Wearing {w} is mandatory in {p}.", "{W} is required in {p}.", "Nobody enters {p} without {w}."),
     ("Wearing {w} is optional in {p}.", "{W} is not needed in {p}.", "You can enter {p} without {w}."),
     ("{W} is no longer required in {p}.", "The duty to use {w} in {p} was abolished."),
     ("{P} was painted in spring.", "{W} can be borrowed at the gate.")),
)  # fmt: skip
_WEAR = ("a helmet", "eye protection", "a mask", "a safety vest", "a hardware token", "an escort")
_WHERE = ("hall 3", "the clean room", "the yard", "the paint shop", "zone 7", "the server room")
_PREFIXES = ("", "", "", "", "", "Note: ", "FYI, ", "From the handbook: ", "Reminder: ", "I learned that ", "According to the wiki, ", "Memo: ")  # fmt: skip


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def _low(text: str) -> str:
    return text if text[:2].isupper() or text.split(" ")[0] in {*FIRST, *FIRMS} else text[:1].lower() + text[1:]


def _fill(template: str, subject: str, value: str, old: str = "") -> str:
    subject, _, thing = subject.partition("|")
    return _upper(template.format(s=subject, v=value, o=old, t=thing))


_CLOCK = re.compile(r"^(\d\d):(\d\d)$")
_DAY = re.compile(r"^(\d{1,2}) ([A-Z]\w+)(?: (\d{4}))?$")
_AMOUNT = re.compile(r"^([\d,]+) ([A-Z]{3})$")
_UNIT = re.compile(r"^(\d+) (mg|ml|mcg|degrees)$")
_LONG = {"mg": "milligrams", "ml": "millilitres", "mcg": "micrograms", "degrees": "°C"}
_HOURS = "twelve one two three four five six seven eight nine ten eleven".split()


def respelt(rng: random.Random, value: str) -> str:
    """The same value written another way, where there is one."""
    found = _CLOCK.match(value)
    if found:
        hour, minute = int(found[1]), int(found[2])
        half = "pm" if hour > 11 else "am"
        if minute == 30 and rng.random() < 0.5:
            part = "in the morning" if hour < 12 else "in the afternoon" if hour < 18 else "in the evening"
            return f"half past {_HOURS[hour % 12]} {part}"
        return f"{hour % 12 or 12}{'' if minute == 0 else f':{minute:02d}'} {half}"
    found = _DAY.match(value)
    if found and found[2] in MONTHS:
        month = MONTHS.index(found[2]) + 1
        if found[3]:
            return rng.choice(
                (
                    f"{found[3]}-{month:02d}-{int(found[1]):02d}",
                    f"{found[2]} {found[1]}, {found[3]}",
                    f"{int(found[1]):02d}.{month:02d}.{found[3]}",
                )
            )
        return rng.choice((f"{found[2]} {found[1]}", f"the {found[1]}th of {found[2]}"))
    found = _AMOUNT.match(value)
    if found:
        number = found[1].replace(",", "")
        sign = {"EUR": "€", "USD": "$", "GBP": "£"}.get(found[2])
        return rng.choice(
            (
                f"{found[2]} {number}",
                f"{sign}{int(number):,}" if sign else f"{found[2]} {int(number):,}",
                f"{int(number):,} {found[2]}",
            )
        )
    found = _UNIT.match(value)
    if found:
        return rng.choice(
            (
                f"{found[1]}{'' if found[2] != 'degrees' else ' '}{found[2] if found[2] != 'degrees' else '°C'}",
                f"{found[1]} {_LONG[found[2]]}",
            )
        )
    if value.startswith("IBAN ") or re.match(r"^[A-Z]{2}\d\d", value):
        bare = value.removeprefix("IBAN ").replace(" ", "")
        spaced = " ".join(bare[i : i + 4] for i in range(0, len(bare), 4))
        return rng.choice((bare, spaced, f"IBAN {bare}", f"the account {spaced}"))
    return value


_FILLERS = (
    "Lunch is served at the canteen.", "The meeting went well.", "Please bring your badge.", "It rained all day.",
    "The minutes were sent around.", "Everybody liked the cake.", "The new chairs have arrived.", "See the wiki for details.",
    "The lift is slow again.", "We talked about the summer party.", "The coffee machine was cleaned.", "Thanks to all who helped.",
)  # fmt: skip


def buried(rng: random.Random, text: str) -> str:
    """The text among sentences that have nothing to do with it."""
    around = rng.sample(_FILLERS, rng.choice((1, 2)))
    around.insert(rng.randint(0, len(around)), text)
    return " ".join(around)


def _said(rng: random.Random, text: str) -> str:
    prefix = rng.choice(_PREFIXES)
    return prefix + (_low(text) if prefix.endswith((", ", "that ")) else text)


def _changed(rng: random.Random, kind: Attribute, subject: str, value: str, old: str) -> str:
    if rng.random() < 0.7:
        return _fill(rng.choice(kind.change), subject, value, old)
    say = _fill(rng.choice(kind.say), subject, value)
    return _upper(rng.choice(_GENERIC_CHANGE).format(S_say=say, S_say_low=_low(say), S_say_cut=say.rstrip("."), o=old))


Pair = tuple[str, str, int]


def value_pairs(rng: random.Random) -> list[Pair]:
    """Pairs around one invented fact: same, other value, change, other attribute, other subject."""
    kind = rng.choice(ATTRIBUTES)
    subject, value = kind.subject(rng), kind.value(rng)
    other = kind.value(rng)
    while other == value:
        other = kind.value(rng)
    if kind.name in ("dose", "stock", "rate", "price") and rng.random() < 0.3:  # the slip that hurts: a digit more
        digits = "".join(c for c in value if c.isdigit())
        other = value.replace(digits, digits + "0", 1) if digits and digits in value else other
    say = list(kind.say)
    rng.shuffle(say)
    old = _said(rng, _fill(say[0], subject, value))
    same = rng.choice(say[:1] * (rng.random() < 0.2) or say[1:])
    subject = _shortened(rng, subject)
    made = [
        (old, _said(rng, _fill(same, subject, respelt(rng, value))), AGREES),
        (old, _said(rng, _fill(rng.choice(say), subject, other)), CONTRADICTS),
        (old, _changed(rng, kind, subject, other, value), UPDATES),
    ]
    if rng.random() < 0.3:
        made.append((old, _fill(rng.choice(say[1:]), subject, respelt(rng, value)), AGREES))
    if rng.random() < 0.15:
        made.append((old, buried(rng, _said(rng, _fill(rng.choice(say), subject, other))), CONTRADICTS))
        made.append((buried(rng, old), _said(rng, _fill(same, subject, respelt(rng, value))), AGREES))
    nearby = _neighbour(rng, subject)
    if nearby != subject:  # the same thing elsewhere: one word differs, and it is another thing
        made.append((old, _said(rng, _fill(say[0] if rng.random() < 0.5 else rng.choice(say), nearby, other)), OTHER))
        if rng.random() < 0.4:
            made.append((old, _changed(rng, kind, nearby, other, value), OTHER))
    elsewhere = kind.subject(rng)
    if elsewhere != subject:
        made.append((old, _said(rng, _fill(rng.choice(say), elsewhere, rng.choice((other, value)))), OTHER))
        if rng.random() < 0.5:
            made.append((old, _changed(rng, kind, elsewhere, other, value), OTHER))
    fellow = rng.choice([one for one in ATTRIBUTES if one.name != kind.name])
    made.append(
        (old, _said(rng, _fill(rng.choice(fellow.say), _adopted(rng, fellow, subject), fellow.value(rng))), OTHER)
    )
    if rng.random() < 0.3:  # an agreement that announces nothing new
        made.append((_changed(rng, kind, subject, value, other), _said(rng, _fill(same, subject, value)), AGREES))
    if rng.random() < 0.3:  # against what was announced before
        made.append(
            (
                _changed(rng, kind, subject, value, other),
                _said(rng, _fill(same, subject, kind.value(rng) if rng.random() < 0.5 else other)),
                CONTRADICTS,
            )
        )
    return made


def _neighbour(rng: random.Random, subject: str) -> str:
    """The same kind of subject with one of its words exchanged."""
    pools = (FIRST, LAST, FIRMS, PLACES, SYSTEMS, DRUGS, ITEMS, FIRMS, list(SUFFIX))
    places = [(i, pool) for i, word in enumerate(subject.split(" ")) for pool in pools if word in pool]
    if not places:
        return re.sub(r"\d+", lambda m: str(int(m[0]) + rng.randint(1, 9)), subject, count=1)
    words = subject.split(" ")
    where, pool = rng.choice(places)
    words[where] = rng.choice([one for one in pool if one != words[where]])
    return " ".join(words)


def _shortened(rng: random.Random, subject: str) -> str:
    """People drop what follows a firm's name, and titles before a person's."""
    if rng.random() < 0.35:
        for word in (*(f" {one}" for one in SUFFIX), "patient ", "Mrs. ", "the "):
            subject = subject.replace(word, "", 1)
    return subject


def _adopted(rng: random.Random, fellow: Attribute, subject: str) -> str:
    """The subject of another attribute, often about the same thing: what else is said of it is not a contradiction."""
    own = fellow.subject(rng)
    if rng.random() < 0.7 and "|" not in own:
        return subject.partition("|")[0]
    return own


def rule_pairs(rng: random.Random) -> list[Pair]:
    """Pairs around one invented rule: who may do what, and who must agree."""
    stated, opposite, changed, fine = rng.choice(RULES)
    words, others = _rule_words(rng), _rule_words(rng)
    two = rng.sample(stated, 2)
    old = _said(rng, _upper(two[0].format(**words)))

    def make(templates: tuple[str, ...], by: dict[str, str]) -> str:
        return _said(rng, _upper(rng.choice(templates).format(**by)))

    made = [
        (old, _said(rng, _upper(two[1].format(**words))), AGREES),
        (old, make(opposite, words), CONTRADICTS),
        (old, make(changed, words), UPDATES),
        (old, make(fine, words), OTHER),
        (old, make(rng.choice((stated, opposite, changed)), others), OTHER),
        (old, make(rng.choice((stated, opposite, changed)), _near(rng, words)), OTHER),
        (make(opposite, words), make(stated, words), CONTRADICTS),
    ]
    if rng.random() < 0.5:
        made.append((make(opposite, words), make(opposite, words), AGREES))
    return made


def _rule_words(rng: random.Random) -> dict[str, str]:
    group, thing, boss, request = rng.choice(GROUPS), rng.choice(THINGS), rng.choice(BOSSES), rng.choice(REQUESTS)
    wear, where = rng.choice(_WEAR), rng.choice(_WHERE)
    return {
        "g": group, "G": _upper(group), "a": rng.choice(ACTIONS), "t": thing, "T": _upper(thing), "b": boss,
        "b2": _upper(boss), "r": request, "r0": _low(request), "w": wear, "W": _upper(wear), "p": where, "P": _upper(where),
    }  # fmt: skip


def _near(rng: random.Random, words: dict[str, str]) -> dict[str, str]:
    """Another rule that differs in one thing: who, what, or where."""
    other = _rule_words(rng)
    keys = rng.choice((("g", "G"), ("a", "t", "T"), ("r", "r0", "w", "W", "p", "P")))
    changed = {**words, **{key: other[key] for key in keys}}
    if len({changed["g"], words["g"]}) == 1 and "g" in keys:
        return other
    # every template must speak of something that differs
    return (
        {**changed, "a": other["a"], "t": other["t"], "T": other["T"], "r": other["r"], "r0": other["r0"]}
        if "g" not in keys
        else {
            **changed,
            "r": other["r"],
            "r0": other["r0"],
            "p": other["p"],
            "P": other["P"],
            "t": other["t"],
            "T": other["T"],
        }
    )


def operational_pairs(count: int, seed: int = 0) -> list[Pair]:
    """So many pairs, always the same for a seed."""
    rng = random.Random(seed)
    made: list[Pair] = []
    while len(made) < count:
        made += value_pairs(rng) if rng.random() < 0.7 else rule_pairs(rng)
    return made[:count]
