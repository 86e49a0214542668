"""Rows of `support`: the help desk of a software house, its teams, agents, customers, tickets, comments and ratings."""

from __future__ import annotations

import random
from datetime import date, timedelta

TEAMS = ["Billing Desk", "Technical Support", "Onboarding", "Key Accounts", "Weekend Crew"]
TEAM_CITIES = ["Dublin", "Lisbon", "Krakow", "Dublin", "Lisbon"]

AGENTS = [
    "Anna Meyer", "Anna Meier", "Tom de Vries", "Priya Nair", "Luca Rossi", "Sofia Lindqvist", "Marek Nowak", "Yuki Tanaka",
    "Grace Adeyemi", "Carlos Mendes", "Hannah Fischer", "Jonas van der Berg", "Omar Haddad", "Chloe Martin", "Chloe Martins", "Ben Walker",
]
MORE_AGENTS = ["Ines Laurent", "Peter Ostrowski", "Aoife Byrne", "Victor Lund", "Rosa Ferreira"]

CUSTOMERS = [
    "Bluefin Travel", "Bluefin Travels", "Nordlicht Optik", "Harbour Lane Books", "van der Berg Logistics", "Casa Verde Foods", "Pixel & Pine",
    "Maple Street Dental", "Kestrel Insurance", "Old Mill Bakery", "iGlass Studio", "Quantum Freight", "Solaris Gym", "Bright Path Academy",
    "Bright Path Tutors", "Lumen Lighting", "Orchard Pharmacy", "Redwood Legal", "Silver Fern Tours", "Torvik Shipping", "Umbra Cinema",
    "Willow Veterinary", "Zephyr Bikes", "Amber Analytics", "Copperfield Hotel", "Delta Roofing", "eMotion Rentals", "Foxglove Florists",
]
MORE_CUSTOMERS = [
    "Granite Architects", "Hedgehog Toys", "Ivory Keys Music", "Juniper Spa", "Kite & Anchor", "Larkspur Design", "Meridian Housing",
    "Northgate Motors", "Opal Jewellers", "Penrose Printing", "Quayside Fish", "Rosewood Furniture", "Sandpiper Surf", "Tamarind Catering",
    "Upland Dairy", "Vesper Events", "Wren Publishing", "Yarrow Herbs", "MacAllan Tools", "de Groot Tulips", "Hazel Tree Nursery", "Iron Gate Storage",
]
CITIES = ["Berlin", "London", "Madrid", "Lyon", "Oslo", "Rotterdam", "Vienna"]
CITY_WEIGHTS = [9, 8, 6, 5, 4, 6, 4]
PLANS = ["Free", "Basic", "Pro", "Enterprise"]
PLAN_WEIGHTS = [6, 8, 9, 5]

CATEGORIES = ["billing", "bug", "login", "how-to", "feature request"]
CATEGORY_WEIGHTS = [10, 13, 8, 6, 4]
PRIORITIES = ["low", "normal", "high", "urgent"]
PRIORITY_WEIGHTS = [6, 11, 6, 4]
REPLY_CENTRE = {"low": 420, "normal": 230, "high": 110, "urgent": 45}

SUBJECTS = {
    "billing": [
        "Invoice INV-{n} shows the wrong VAT", "Charged twice in {month}", "Refund for {month} has not arrived", "Discount missing on invoice INV-{n}",
        "New payment card declined in {month}", "Please resend invoice INV-{n}", "Refund of credit note {n} is too low",
    ],
    "bug": [
        "Export to {fmt} fails in version {v}", "Dashboard crashes in {browser} {v}", "{device} app freezes since version {v}",
        "Wrong totals in report {n}", "Preview stays empty in {browser} {v}", "Duplicate rows in {fmt} export of report {n}", "Dashboard loads slowly in {browser} {v}",
    ],
    "login": [
        "Cannot log in from {device} since version {v}", "Password reset mail for user {n} never arrives", "Two-factor code rejected for user {n}",
        "Account of user {n} is locked", "Password of user {n} expired too early", "Logged out every hour on {device} {v}",
    ],
    "how-to": [
        "How do I import {fmt} file {n}?", "How can I share report {n}?", "How do I set up the {device} app {v}?",
        "How do I move user {n} to another group?", "How do I schedule the {fmt} export of report {n}?",
    ],
    "feature request": [
        "Please add {fmt} export to report {n}", "Dark mode for the {device} app {v}", "More colours on dashboard {n}",
        "Please let us merge users like {n}", "Shortcut keys in {browser} {v}",
    ],
}
MONTHS = [f"{month} {year}" for year in (2023, 2024, 2025) for month in ("January", "March", "April", "May", "June", "September", "October", "December")]
FORMATS = ["CSV", "PDF", "Excel", "XML"]
BROWSERS = ["Firefox", "Chrome", "Safari", "Edge"]
DEVICES = ["iPad", "iPhone", "Android", "Windows", "MacBook"]

GOOD = ["Quick and friendly", "Great help, thank you", "Solved at once", "Very clear answer", "Patient and polite", "Better than expected"]
MIXED = ["Fine in the end", "Took a while", "Answer was a bit short", "Had to ask twice"]
BAD = ["Far too slow", "Still not fixed", "Nobody called back", "Got a standard answer", "Ticket closed too early"]

START, END = date(2022, 6, 1), date(2025, 6, 30)


def spread(rng: random.Random, count: int, power: float) -> list[float]:
    """Skewed weights in random order: a few large, many small, some zero."""
    weights = [1 / (place + 1) ** power for place in range(count)]
    for place in range(count - count // 7, count):
        weights[place] = 0.0
    rng.shuffle(weights)
    return weights


def some_day(rng: random.Random, first: date, last: date) -> date:
    return first + timedelta(days=rng.randint(0, (last - first).days))


def rows(rng: random.Random, instance: int) -> dict[str, list[tuple]]:
    cities = TEAM_CITIES[:]
    rng.shuffle(cities)
    teams = [(number, name, city) for number, (name, city) in enumerate(zip(TEAMS, cities, strict=True), 1)]

    names = AGENTS + rng.sample(MORE_AGENTS, 2 + instance)
    rng.shuffle(names)
    team_of = [1, 2, 3, 4, 5, 2, 2, 1, *rng.choices([1, 2, 3, 4, 5], [4, 7, 3, 2, 3], k=len(names) - 8)]
    agents = []
    for number, name in enumerate(names, 1):
        early = number <= 9
        hired = some_day(rng, date(2022, 1, 10), date(2022, 5, 20)) if early else some_day(rng, date(2022, 6, 1), date(2024, 11, 30))
        left = some_day(rng, date(2024, 2, 1), date(2025, 6, 15)) if number % 5 == 3 else None
        if left and left < hired + timedelta(days=120):
            left = hired + timedelta(days=rng.randint(125, 190))
        agents.append((number, name, team_of[number - 1], hired.isoformat(), left.isoformat() if left else None, round(rng.uniform(19, 46), 2)))

    companies = CUSTOMERS + rng.sample(MORE_CUSTOMERS, 14 + 3 * instance)
    rng.shuffle(companies)
    customers = []
    for number, name in enumerate(companies, 1):
        plan = rng.choices(PLANS, PLAN_WEIGHTS)[0]
        vip = int(rng.random() < {"Free": 0.08, "Basic": 0.15, "Pro": 0.3, "Enterprise": 0.6}[plan])
        signup = some_day(rng, date(2022, 1, 5), date(2022, 12, 20)) if rng.random() < 0.5 else some_day(rng, date(2023, 1, 5), date(2025, 3, 31))
        customers.append((number, name, rng.choices(CITIES, CITY_WEIGHTS)[0], plan, vip, signup.isoformat()))

    customer_weights = spread(rng, len(customers), 0.75)
    agent_weights = [weight + 0.04 for weight in spread(rng, len(agents), 0.5)]
    count = 176 + 17 * instance
    days = sorted(START + timedelta(days=int((END - START).days * rng.random() ** 0.75)) for _ in range(count))
    tickets, comments, ratings, seen = [], [], [], set()
    for number, opened in enumerate(days, 1):
        known = [weight if customer[5] <= opened.isoformat() else 0 for customer, weight in zip(customers, customer_weights, strict=True)]
        customer = rng.choices(customers, known)[0]
        present = [
            weight if agent[3] <= opened.isoformat() and (agent[4] is None or agent[4] > (opened + timedelta(days=60)).isoformat()) else 0
            for agent, weight in zip(agents, agent_weights, strict=True)
        ]
        category = rng.choices(CATEGORIES, CATEGORY_WEIGHTS)[0]
        priority = rng.choices(PRIORITIES, PRIORITY_WEIGHTS)[0]
        while True:
            subject = rng.choice(SUBJECTS[category]).format(
                n=rng.randint(1001, 4999), month=rng.choice(MONTHS), fmt=rng.choice(FORMATS), browser=rng.choice(BROWSERS),
                device=rng.choice(DEVICES), v=f"{rng.randint(2, 6)}.{rng.randint(0, 9)}",
            )
            if subject not in seen:
                break
        seen.add(subject)
        age = (END - opened).days
        status = rng.choices(["solved", "pending", "open"], [80, 8, 8] if age > 200 else [48, 18, 30])[0]
        assigned = status != "open" or rng.random() < 0.45
        agent = rng.choices(agents, present)[0][0] if assigned else None
        solved = opened + timedelta(days=min(rng.randint(0, 6) + int(rng.expovariate(1 / 7)), age, 58)) if status == "solved" else None
        reply = max(3, int(REPLY_CENTRE[priority] * rng.lognormvariate(0, 0.7))) if assigned and (status != "open" or rng.random() < 0.7) else None
        tickets.append(
            (number, customer[0], agent, subject, category, priority, status, opened.isoformat(), solved.isoformat() if solved else None, reply)
        )
        last = solved or min(END, opened + timedelta(days=25))
        talk = rng.choices([0, 1, 2, 3, 5], [26, 30, 24, 10, 4])[0]
        moments = sorted(some_day(rng, opened, last) for _ in range(talk))
        for moment in moments:
            author = None
            if agent and rng.random() < 0.68:
                helper = rng.choices(agents, present)[0][0]
                author = agent if rng.random() < 0.8 else helper
            comments.append((number, author, moment.isoformat(), max(4, int(48 * rng.lognormvariate(0, 0.75)))))
        if solved and rng.random() < 0.68:
            score = rng.choices([1, 2, 3, 4, 5], [2, 2, 4, 9, 8] if priority != "low" else [4, 4, 5, 6, 3])[0]
            words = GOOD if score >= 4 else MIXED if score == 3 else BAD
            ratings.append((number, score, rng.choice(words) if rng.random() < 0.55 else None))
    comments.sort(key=lambda comment: comment[2])
    return {
        "teams": teams,
        "agents": agents,
        "customers": customers,
        "tickets": tickets,
        "comments": [(number, *comment) for number, comment in enumerate(comments, 1)],
        "ratings": [(number, *rating) for number, rating in enumerate(ratings, 1)],
    }
