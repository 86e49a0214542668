"""Rows of `subscriptions`: the billing of a software service, its accounts, plans, subscriptions, invoices, payments and usage."""

from __future__ import annotations

import random
from datetime import date, timedelta

# name and the industries it may be filed under; the first list is there on both instances, of the second a part
ACCOUNTS = [
    ("Acorn Media", "media"), ("Acorn Media Group", "media"), ("Brightwater", "health retail"), ("Brightwater Labs", "health software"),
    ("von Braun Consulting", "software finance"), ("eLearning Loft", "education software"), ("Elmwood School", "education"),
    ("Hillcrest Academy", "education"), ("iPrint Express", "retail media"), ("Windmill Foods", "retail"), ("Quarry Lane Press", "media"),
    ("Cedar Analytics", "software finance"), ("Zinnia Cosmetics", "retail health"), ("Quillon Credit", "finance"), ("Pebble Pay", "finance software"),
    ("Saffron Market", "retail"),
]
MORE_ACCOUNTS = [
    ("Cobalt Clinics", "health"), ("Dunes & Dales", "retail"), ("Fjord Finance", "finance"), ("Glasshouse Retail", "retail"),
    ("Halcyon Health", "health"), ("Jasper Stores", "retail"), ("Kingfisher Bank", "finance"), ("Lantern News", "media"),
    ("Mosaic Software", "software"), ("Nimbus Systems", "software"), ("Oakridge College", "education"), ("Riverbend Hospital", "health"),
    ("Tideline Studios", "media"), ("Ursa Robotics", "software"), ("Vantage Funds", "finance"), ("Xenia Optics", "health retail"),
    ("Yellowbrick Homes", "retail finance"), ("Atlas Tutors", "education"), ("Bramble Kids", "retail"), ("Driftwood Films", "media"),
    ("Evergreen Care", "health"), ("Falcon Apps", "software"), ("Ginger & Co", "retail"), ("Inkwell Books", "retail media"),
    ("Jetstream Cargo", "retail software"), ("Kelp Forest Games", "software media"), ("Lavender Dental", "health"), ("Magnet Radio", "media"),
    ("Northlight Insurance", "finance"), ("Olive Branch Deli", "retail"), ("Pinecone Outdoor", "retail"), ("Rowan Pharmacy", "health retail"),
    ("de Wit Keukens", "retail"), ("McTavish Knitwear", "retail"), ("Harbour Fish Market", "retail"), ("Sunny Side Nursery", "education health"),
    ("Polyglot Classes", "education"), ("Ravel Code", "software"), ("Stonebridge Leasing", "finance"), ("Clover Physio", "health"),
]
COUNTRIES = ["Germany", "France", "Spain", "Netherlands", "Poland", "United Kingdom", "Sweden"]
COUNTRY_WEIGHTS = [10, 7, 5, 6, 5, 9, 4]

# name, price per seat on instance 1 and 2, user limit, still offered
PLANS = [
    ("Starter", (6.50, 7.99), 5, 1),
    ("Team", (11.99, 12.50), 25, 1),
    ("Team Plus", (15.50, 16.99), 60, 1),
    ("Business", (21.99, 19.50), None, 1),
    ("Enterprise", (34.50, 37.99), None, 1),
    ("Legacy Solo", (4.99, 5.50), 1, 0),
    ("Campus", (3.99, 2.99), 200, 0),
]
PLAN_WEIGHTS = [8, 12, 7, 9, 5, 3, 3]
CYCLES = ["quarterly", "yearly"]
REASONS = ["too expensive", "missing feature", "switched vendor", "closed business", "upgraded", None]
REASON_WEIGHTS = [7, 5, 4, 2, 5, 4]
METHODS = ["card", "bank transfer", "PayPal", "direct debit"]
METHOD_WEIGHTS = [9, 6, 3, 5]

END = date(2025, 6, 30)


def months_later(day: date, months: int) -> date:
    month = day.month - 1 + months
    return date(day.year + month // 12, month % 12 + 1, min(day.day, 28))


def some_day(rng: random.Random, first: date, last: date) -> date:
    return first + timedelta(days=rng.randint(0, max(0, (last - first).days)))


def rows(rng: random.Random, instance: int) -> dict[str, list[tuple]]:
    names = ACCOUNTS + rng.sample(MORE_ACCOUNTS, 26 + 3 * instance)
    rng.shuffle(names)
    countries = COUNTRIES * 3 + rng.choices(COUNTRIES, COUNTRY_WEIGHTS, k=len(names) - 3 * len(COUNTRIES))
    rng.shuffle(countries)
    accounts = []
    for number, (name, industries) in enumerate(names, 1):
        industry = rng.choice(industries.split())
        created = some_day(rng, date(2022, 1, 3), date(2023, 6, 30)) if rng.random() < 0.65 else some_day(rng, date(2023, 7, 1), date(2025, 4, 30))
        accounts.append(
            (number, name, countries[number - 1], industry, max(3, int(75 * rng.lognormvariate(0, 1.05))), created.isoformat())
        )
    plans = [(number, name, prices[instance - 1], limit, offered) for number, (name, prices, limit, offered) in enumerate(PLANS, 1)]

    drafts = []
    for account in accounts:
        start = some_day(rng, date.fromisoformat(account[5]), date.fromisoformat(account[5]) + timedelta(days=70))
        for _ in range(rng.choices([0, 1, 2, 3], [5, 20, 13, 8])[0]):
            if start > date(2025, 5, 31):
                break
            plan = rng.choices(plans, PLAN_WEIGHTS)[0]
            if account[3] == "education" and rng.random() < 0.35:
                plan = plans[6]
            elif plan[1] == "Campus" and account[3] != "education":
                plan = plans[1]
            seats = min(max(1, int(account[4] * rng.uniform(0.05, 0.5))), plan[3] or 160)
            cancelled, reason = None, None
            if rng.random() < 0.64:
                cancelled = some_day(rng, start + timedelta(days=100), start + timedelta(days=720))
                if cancelled > END:
                    cancelled = None
                else:
                    reason = rng.choices(REASONS, REASON_WEIGHTS)[0]
            drafts.append((account[0], plan[0], seats, rng.choices(CYCLES, [6, 7])[0], start, cancelled, reason))
            start = (cancelled or start) + timedelta(days=rng.randint(1, 200))
    drafts.sort(key=lambda draft: draft[4])
    subscriptions = [
        (number, *draft[:4], draft[4].isoformat(), draft[5].isoformat() if draft[5] else None, draft[6]) for number, draft in enumerate(drafts, 1)
    ]

    bills, usage = [], []
    for number, (account, plan, seats, cycle, start, cancelled, _) in enumerate(drafts, 1):
        months = 3 if cycle == "quarterly" else 12
        last = min(cancelled or END, END)
        discount = rng.choice([0, 0, 0, 0.05, 0.1, 0.125])
        issued, step = start, 0
        while issued <= last and step < 9:
            amount = plans[plan - 1][2] * seats * months * (1 - discount) + rng.choice([0, 1, 1, 1]) * rng.uniform(4, 120)
            bills.append((account, issued, issued + timedelta(days=rng.choice([14, 14, 30])), round(amount, 2)))
            step += 1
            issued = months_later(start, months * step)
        calls = 900 * rng.lognormvariate(0, 1.1) * (1 + seats / 20)
        storage = rng.uniform(0.4, 6) * (1 + seats / 12)
        for _ in range(rng.choices([0, 2, 3, 4, 6], [3, 6, 7, 5, 3])[0]):
            seen_on = some_day(rng, start + timedelta(days=5), last)
            usage.append((number, seen_on, int(calls * rng.lognormvariate(0, 0.4)), round(storage * rng.uniform(0.7, 1.6), 2)))
    bills.sort(key=lambda bill: bill[1])
    usage.sort(key=lambda record: record[1])

    paid = []
    for number, (_, issued, due, amount) in enumerate(bills, 1):
        if rng.random() < (0.12 if issued < date(2025, 3, 1) else 0.35):
            continue
        day = some_day(rng, issued + timedelta(days=1), due) if rng.random() < 0.72 else due + timedelta(days=rng.randint(1, 38))
        if day > END:
            continue
        method = rng.choices(METHODS, METHOD_WEIGHTS)[0]
        if rng.random() < 0.07:
            half = round(amount / 2, 2)
            later = min(END, day + timedelta(days=rng.randint(7, 30)))
            paid += [(number, day, half, method), (number, later, round(amount - half, 2), method)]
        else:
            paid.append((number, day, amount, method))
    paid.sort(key=lambda payment: payment[1])
    return {
        "accounts": accounts,
        "plans": plans,
        "subscriptions": subscriptions,
        "invoices": [(number, bill[0], bill[1].isoformat(), bill[2].isoformat(), bill[3]) for number, bill in enumerate(bills, 1)],
        "payments": [(number, payment[0], payment[1].isoformat(), *payment[2:]) for number, payment in enumerate(paid, 1)],
        "usage_logs": [(number, record[0], record[1].isoformat(), *record[2:]) for number, record in enumerate(usage, 1)],
    }
