"""Rows of `bank`: a regional retail bank with its branches, customers, accounts, cards, loans and bookings."""

from __future__ import annotations

import datetime
import random

REGIONS = ["North", "South", "East", "West"]

# The first eight branches exist in both instances; the rest are drawn.
BRANCHES = [
    "Harbour Street", "Market Square", "Station Road", "Old Mill Lane", "Kingsway", "Riverside", "St. Mary's Gate", "Castle Hill",
    "Castle Hill Plaza", "Abbey Fields", "Tollgate", "Northfield", "Quayside",
]  # fmt: skip

CITIES = ["Leeds", "Bristol", "York", "Cardiff", "Norwich", "Exeter", "Bath"]
CITY_WEIGHTS = [15, 12, 9, 10, 8, 7, 6]

# Private people; those in NAMED are customers in both instances.
NAMED_PEOPLE = [
    "Anna Meyer", "Anna Meier", "Tom Hargreaves", "Priya Nair", "Daniel Okafor", "Lucy van der Berg", "Martin O'Neill", "Sofia Rossi",
    "Helen Whitcombe", "Jonas Lindqvist", "Grace Adeyemi", "Oliver Penrose",
]  # fmt: skip
PEOPLE = [
    "Ruth Ashdown", "Samir Haddad", "Chloe Barlow", "Chloe Barlowe", "Peter McAllister", "Ines de la Cruz", "George Tanner", "Maya Kapoor",
    "Liam Fairbrother", "Nadia Petrova", "Edward Lacey", "Fiona Drummond", "Karl Steiner", "Amelia Frost", "Yusuf Demir", "Rosa Delgado",
    "Harry Winslow", "Ingrid Halvorsen", "Ben Carmichael", "Leila Mansour", "Victor Chang", "Judith Marlow", "Owen Pryce", "Tara Quinn",
    "Nathan Brook", "Nathan Brooks", "Zoe Kitching", "Marek Nowak", "Alice Thornbury", "Hugo Laurent", "Bridget Foley", "Simon Achebe",
    "Carmen Vidal", "Joel Rutter", "Eleanor Pike", "Dev Chaudhary", "Miriam Stone", "Callum Reid", "Freya Dahl", "Isaac Goldman",
    "Paula Henshaw", "Ravi Menon", "Stella Moretti", "Arthur Nesbitt", "Wendy Holroyd", "Theo Blackwood",
]  # fmt: skip

# Business customers.
NAMED_FIRMS = ["Oakley Bakery Ltd", "Bluebird Logistics", "Hartmann & Sons", "GreenLeaf Gardens"]
FIRMS = [
    "GreenLeaf Garages", "Pennine Joinery", "McBride Plumbing", "Solway Seafoods", "TechNest Studios", "Albion Print Works", "Copperfield Catering",
    "iRepair Workshop", "Thistle Textiles", "Dunmore Dental", "Lakeside Kennels", "Westgate Motors",
]  # fmt: skip

PERSON_SEGMENTS = ["retail", "premium", "student"]

MERCHANTS = [
    "QuickMart", "QuickMart Express", "Café Lumen", "de Vries Books", "FuelPoint", "Bramley Foods", "iFix Corner", "Rosewood Hotel",
    "SkyHop Travel", "Urban Threads", "PharmaPlus", "The Cod Father",
]  # fmt: skip
MERCHANT_WEIGHTS = [14, 9, 8, 5, 11, 10, 4, 3, 3, 6, 6, 5]
MERCHANT_PRICES = {
    "QuickMart": (8, 95), "QuickMart Express": (3, 40), "Café Lumen": (3, 28), "de Vries Books": (7, 60), "FuelPoint": (25, 90),
    "Bramley Foods": (10, 120), "iFix Corner": (30, 240), "Rosewood Hotel": (80, 420), "SkyHop Travel": (90, 780), "Urban Threads": (20, 180),
    "PharmaPlus": (4, 55), "The Cod Father": (9, 45),
}  # fmt: skip

KINDS = ["deposit", "withdrawal", "card payment", "transfer", "fee"]
KIND_WEIGHTS = [24, 16, 46, 18, 9]

PURPOSES = ["home", "car", "education", "renovation", "equipment"]
PURPOSE_AMOUNTS = {"home": (60000, 290000), "car": (5500, 36000), "education": (2500, 19000), "renovation": (4000, 48000), "equipment": (7000, 88000)}
PURPOSE_RATES = {"home": (2.4, 5.2), "car": (3.9, 8.4), "education": (2.1, 5.6), "renovation": (3.6, 7.9), "equipment": (4.4, 9.6)}

LAST = datetime.date(2025, 12, 20)


def day(rng: random.Random, first: datetime.date, last: datetime.date) -> datetime.date:
    return first + datetime.timedelta(days=rng.randint(0, max(0, (last - first).days)))


def price(rng: random.Random, low: float, high: float) -> float:
    """A shop price: most end in .99, .50 or .95, some in odd cents."""
    whole = int(rng.triangular(low, high, low + (high - low) * 0.3))
    return round(whole + rng.choice([0.99, 0.99, 0.5, 0.95, 0.2, 0.49, 0.75, 0.35, rng.randint(1, 99) / 100]), 2)


def rows(rng: random.Random, instance: int) -> dict[str, list[tuple]]:
    # Branches: staff counts are all different, so that "the largest" is never a tie.
    names = BRANCHES[:8] + rng.sample(BRANCHES[8:], 3 if instance == 1 else 4)
    rng.shuffle(names)
    regions = (REGIONS * 4)[: len(names)]
    rng.shuffle(regions)
    branches = [(i, n, r, s) for i, (n, r, s) in enumerate(zip(names, regions, rng.sample(range(4, 39), len(names)), strict=True), 1)]
    branch_weights = rng.sample(range(4, 25), len(branches))

    # Customers in the order in which they joined.
    firms = NAMED_FIRMS + rng.sample(FIRMS, 8 if instance == 1 else 7)
    people = NAMED_PEOPLE + rng.sample(PEOPLE, 44 if instance == 1 else 40)
    who = [(n, "business") for n in firms] + [(n, rng.choices(PERSON_SEGMENTS, [50, 24, 22])[0]) for n in people]
    named = set(NAMED_PEOPLE + NAMED_FIRMS)
    drafts, taken = [], set()
    for name, segment in who:
        # Named customers joined early, so that each has time for accounts and bookings.
        joined = day(rng, datetime.date(2022, 1, 5), datetime.date(2022, 12, 31) if name in named else datetime.date(2024, 11, 30))
        while joined in taken:  # all joining dates differ
            joined += datetime.timedelta(days=1)
        taken.add(joined)
        score = None if rng.random() < (0.5 if segment == "student" else 0.12) else int(rng.triangular(505, 848, 690))
        branch = None if rng.random() < 0.14 else rng.choices(range(1, len(branches) + 1), branch_weights)[0]
        drafts.append((joined.isoformat(), name, rng.choices(CITIES, CITY_WEIGHTS)[0], segment, score, branch))
    drafts.sort()
    customers = [(i, n, c, s, score, j, b) for i, (j, n, c, s, score, b) in enumerate(drafts, 1)]

    # Accounts: a few customers have none yet, some have several.
    drafts = []
    for cid, name, _, segment, _, joined, _ in customers:
        joined_day = datetime.date.fromisoformat(joined)
        count = rng.choices([0, 1, 2, 3], [12, 50, 28, 10])[0]
        if name in named:
            count = max(1, count)
        for n in range(count):
            kind = "current" if n == 0 and rng.random() < 0.85 else rng.choices(["current", "savings", "fixed-term"], [2, 6, 3])[0]
            opened = joined_day if n == 0 and rng.random() < 0.6 else day(rng, joined_day, min(datetime.date(2025, 11, 15), joined_day + datetime.timedelta(days=600)))
            factor = {"business": 3.2, "premium": 2.6, "retail": 1.0, "student": 0.35}[segment]
            if kind == "current":
                balance = -rng.uniform(15, 900) if rng.random() < 0.14 else rng.lognormvariate(7.3, 0.9) * factor
            elif kind == "savings":
                balance = rng.lognormvariate(8.6, 0.8) * factor
            else:
                balance = rng.choice([2000, 5000, 10000, 15000]) * factor + rng.uniform(1, 900)
            drafts.append((opened.isoformat(), cid, kind, round(balance, 2)))
    drafts.sort()
    accounts = [(i, c, k, b, o) for i, (o, c, k, b) in enumerate(drafts, 1)]

    # Cards: mostly on current accounts; a card without a credit limit is a debit card.
    cards = []
    for aid, _, kind, _, _ in accounts:
        for _ in range(rng.choices([0, 1, 2], [25, 55, 20] if kind == "current" else [78, 20, 2])[0]):
            limit = None if rng.random() < 0.38 else round(rng.choice([500, 750, 1000, 1500, 2000, 2500, 3000, 4000, 5000, 7500, 10000]) + rng.choice([0, 0, 50, 100, 250]), 2)
            network = rng.choices(["Visa", "Mastercard", "Amex"], [48, 36, 16])[0]
            cards.append((len(cards) + 1, aid, network, None if limit is None else float(limit), int(rng.random() < 0.27)))

    # Loans: about half of the customers have one, a few have two or three.
    drafts = []
    for cid, _, _, segment, _, joined, _ in customers:
        first = datetime.date.fromisoformat(joined)
        weights = {"business": [15, 45, 25, 15], "premium": [35, 40, 20, 5], "retail": [42, 42, 13, 3], "student": [45, 48, 7, 0]}[segment]
        for _ in range(rng.choices([0, 1, 2, 3], weights)[0]):
            if segment == "business":
                purpose = rng.choices(PURPOSES, [2, 4, 0, 3, 11])[0]
            elif segment == "student":
                purpose = rng.choices(PURPOSES, [0, 2, 9, 0, 1])[0]
            else:
                purpose = rng.choices(PURPOSES, [8, 8, 2, 7, 1])[0]
            started = day(rng, first, min(datetime.date(2025, 11, 30), first + datetime.timedelta(days=900)))
            repaid = None
            if rng.random() < 0.55 and (LAST - started).days > 150:
                repaid = day(rng, started + datetime.timedelta(days=90), LAST).isoformat()
            amount = round(rng.uniform(*PURPOSE_AMOUNTS[purpose]) / 50) * 50 + rng.choice([0, 0, 0.5, 25, 12.75])
            drafts.append((started.isoformat(), cid, purpose, round(float(amount), 2), round(rng.uniform(*PURPOSE_RATES[purpose]), 2), repaid))
    drafts.sort(key=lambda d: d[:3])
    loans = [(i, c, p, a, r, s, e) for i, (s, c, p, a, r, e) in enumerate(drafts, 1)]

    # Transactions: some accounts have none, a few have many.
    by_id = {c[0]: c[1] for c in customers}
    weights = []
    for _, cid, kind, _, _ in accounts:
        weight = rng.lognormvariate(0, 0.8) * {"current": 3, "savings": 1, "fixed-term": 0.4}[kind]
        if by_id[cid] in named:
            weight = max(weight, 2.5) * 1.6
        elif rng.random() < 0.13:
            weight = 0
        weights.append(weight)
    drafts = []
    for _ in range(285 if instance == 1 else 270):
        aid, _, kind, _, opened = rng.choices(accounts, weights)[0]
        what = rng.choices(KINDS, KIND_WEIGHTS if kind == "current" else [30, 10, 0, 25, 6])[0]
        merchant = None
        if what == "deposit":
            amount = rng.uniform(150, 4800)
        elif what == "withdrawal":
            amount = rng.choice([20, 30, 40, 50, 60, 80, 100, 150, 200, 250, 300, 400])
        elif what == "transfer":
            amount = rng.uniform(20, 2600)
        elif what == "fee":
            amount = rng.choice([2.5, 3.99, 4.5, 5.99, 7.5, 9.99, 12.5, 14.99, 19.99, 24.5])
        else:
            merchant = rng.choices(MERCHANTS, MERCHANT_WEIGHTS)[0]
            amount = price(rng, *MERCHANT_PRICES[merchant])
        booked = day(rng, datetime.date.fromisoformat(opened), LAST)
        drafts.append((booked.isoformat(), rng.random(), aid, what, round(float(amount), 2), merchant))
    drafts.sort()
    transactions = [(i, a, k, m, d, s) for i, (d, _, a, k, m, s) in enumerate(drafts, 1)]

    return {"branches": branches, "customers": customers, "accounts": accounts, "cards": cards, "loans": loans, "transactions": transactions}
