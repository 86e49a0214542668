"""Rows of `hr`: the people department of a firm founded in 2022."""

from __future__ import annotations

import random
from datetime import date, timedelta

FOUNDED = date(2022, 1, 17)
LAST = date(2025, 12, 19)

# name, share of the staff, job titles with their usual yearly salary
DEPARTMENTS = [
    ("Sales", 15, [("Sales Representative", 41000), ("Senior Sales Representative", 52000), ("Account Manager", 56000)]),
    ("Customer Service", 14, [("Support Agent", 31500), ("Senior Support Agent", 38500)]),
    ("Software Development", 16, [("Developer", 57000), ("Senior Developer", 74000), ("QA Tester", 46000)]),
    ("Logistics", 13, [("Warehouse Clerk", 29800), ("Dispatcher", 35500)]),
    ("Finance", 8, [("Accountant", 44500), ("Senior Accountant", 56500), ("Analyst", 51000)]),
    ("Marketing", 7, [("Copywriter", 39500), ("Analyst", 48000), ("Brand Manager", 58000)]),
    ("Human Resources", 5, [("Recruiter", 42500), ("HR Advisor", 45500)]),
    ("IT Support", 6, [("Support Agent", 34000), ("System Administrator", 50500)]),
    ("IT Security", 3, [("Analyst", 55500), ("System Administrator", 59500)]),
    ("Legal", 2, [("Legal Counsel", 71000)]),
    ("Sustainability", 0, []),  # newly founded, nobody works there yet
]
CITIES = ["Dublin", "London", "Leeds", "Bristol", "Cork"]

# The people that questions name; they exist in both instances.
NAMED = ["Laura Quinn", "Laura Quinlan", "Tom Becker", "Aoife Byrne", "Piet van der Meer", "Priya Nair", "Marcus Hale", "Grace Osei"]
NAMES = [
    "Tomas Beckett", "Adam Whitlock", "Bethany Cole", "Callum Doyle", "Chiara Bianchi", "Daniel O'Shea", "Deirdre Walsh",
    "Eamon Kerr", "Elena Petrova", "Farah Siddiqui", "Finn Gallagher", "Gareth Pugh", "Hannah Lindgren", "Hugo da Silva",
    "Imogen Frost", "Isaac Mensah", "Jack Redmond", "Jade Sutton", "Joanna Kowalska", "Kieran Moss", "Kirsten Dahl",
    "Leo McBride", "Lily McBride", "Maeve Corrigan", "Mina Tanaka", "Mohammed Aziz", "Nadia Haddad", "Neil Ferris",
    "Niamh Doherty", "Noah Clarke", "Noel Clark", "Olivia Grant", "Orla Fagan", "Oscar Lund", "Patrick Nolan", "Paula de Groot",
    "Quentin Marsh", "Rachel Stein", "Ravi Menon", "Rosa Delgado", "Ruth Abbott", "Sami Laine", "Sarah Kemp", "Sara Kemper",
    "Sean Tierney", "Sofia Marin", "Stella Brook", "Steven Ashby", "Tara Lynch", "Theo Vance", "Ursula Held", "Victor Obi",
    "Wendy Sharp", "Will Hastings", "Xenia Popov", "Yara Nasser", "Zack Norton", "Zoe Carmody", "Amir Rahimi", "Anita Joshi",
    "Ben Tully", "Brid Kinsella", "Carl Mercer", "Claudia Weiss", "Conor Daly", "Dora Mulligan", "Ed Foley", "Erin Hogan",
    "Felix Arnott", "Fiona Reid", "George Tan", "Gwen Rowe", "Helen Pike", "Ian Bartlett", "Ines Moreau", "Jonas Krall",
    "Karen Boyd", "Liam Cusack", "Marie Leclerc", "Martin Strand",
]

# title, topic, usual cost
TRAININGS = [
    ("Fire Safety", "Safety", 90), ("First Aid", "Safety", 120), ("First Aid Refresher", "Safety", 75),
    ("Forklift Licence", "Safety", 640), ("Excel Basics", "Software", 180), ("Excel for Analysts", "Software", 320),
    ("SQL for Beginners", "Software", 410), ("iPad in the Field", "Software", 150), ("Leadership 1", "Leadership", 890),
    ("Leadership 2", "Leadership", 990), ("Conflict Management", "Leadership", 460), ("Public Speaking", "Communication", 350),
    ("Negotiation Skills", "Communication", 520), ("Telephone Skills", "Communication", 210),
    ("Data Protection Essentials", "Compliance", 110), ("Phishing Awareness", "Compliance", 60),
    ("Anti-Bribery Rules", "Compliance", 85), ("Business English", "Languages", 480), ("French for Work", "Languages", 530),
]
NAMED_TRAININGS = {"Fire Safety", "First Aid", "First Aid Refresher", "Excel Basics", "Excel for Analysts", "Leadership 1",
                   "Data Protection Essentials", "Negotiation Skills", "Business English"}
MANDATORY = {"Fire Safety", "Data Protection Essentials"}


def rows(rng: random.Random, instance: int) -> dict[str, list[tuple]]:
    # departments: their cities in turn, so that none is missing
    order = DEPARTMENTS[:]
    rng.shuffle(order)
    cities = CITIES + rng.choices(CITIES, [4, 5, 2, 2, 1], k=len(order) - len(CITIES))
    rng.shuffle(cities)
    departments = [
        (number, name, city, round(rng.uniform(60_000, 130_000) * (1 + share / 3), 2))
        for number, ((name, share, _), city) in enumerate(zip(order, cities, strict=True), start=1)
    ]

    # employees: a head (no manager), one or two team leads and staff in each department
    names = NAMED + rng.sample(NAMES, 74 if instance == 1 else 68)
    rng.shuffle(names)
    jobs: list[tuple[int, str, int]] = []
    for number, (_, share, _) in enumerate(order, start=1):
        if share:
            jobs.append((number, "Head of Department", rng.randint(78_000, 105_000)))
            jobs += [(number, "Team Lead", rng.randint(54_000, 72_000))] * (share >= 5) + [(number, "Team Lead", 63_000)] * (share >= 14)
    staffed = [number for number, (_, share, _) in enumerate(order, start=1) if share]
    shares = [order[number - 1][1] for number in staffed]
    while len(jobs) < len(names):
        number = rng.choices(staffed, shares)[0]
        title, usual = rng.choice(order[number - 1][2])
        jobs.append((number, title, usual))
    days = set()
    while len(days) < len(names):  # no two start on one day; more in the early years
        days.add(int((date(2025, 11, 3) - FOUNDED).days * rng.random() ** 1.6))
    hired = [FOUNDED + timedelta(days=day) for day in sorted(days)]
    heads = [job for job in jobs if job[1] == "Head of Department"]
    others = [job for job in jobs if job[1] != "Head of Department"]
    rng.shuffle(heads)
    rng.shuffle(others)
    others.sort(key=lambda job: job[1] != "Team Lead")
    early = others[:32]  # team leads came in the first years, among the first staff
    rng.shuffle(early)
    late_heads = 3  # most departments began with their head
    line_up = heads[:-late_heads] + early + others[32:]
    for job in heads[-late_heads:]:
        line_up.insert(rng.randint(8, 30), job)
    head_of = {job[0]: at for at, job in enumerate(line_up, 1) if job[1] == "Head of Department"}
    leads_of: dict[int, list[int]] = {}
    for at, job in enumerate(line_up, 1):
        if job[1] == "Team Lead":
            leads_of.setdefault(job[0], []).append(at)
    employees = []
    for number, ((department, title, usual), name, day) in enumerate(zip(line_up, names, hired, strict=True), start=1):
        chief = title in ("Head of Department", "Team Lead")
        if title == "Head of Department":
            manager = None
        else:
            manager = head_of[department] if title == "Team Lead" else rng.choice([*leads_of.get(department, []), head_of[department]])
        contract = "permanent" if chief else rng.choices(["permanent", "fixed-term", "apprentice", "intern"], [60, 27, 8, 5])[0]
        hours = rng.choices([40.0, 37.5, 32.0, 30.0, 24.0, 20.0], [50, 19, 8, 10, 6, 7])[0] if title != "Head of Department" else 40.0
        learner = contract in ("apprentice", "intern")
        salary = rng.uniform(15_500, 22_500) if learner else usual * rng.uniform(0.87, 1.16) * hours / 40
        salary = round(salary / 10) * 10 + rng.choice([0.0, 0.0, 0.5])
        while any(salary == other[7] for other in employees):
            salary += 10
        employees.append((number, department, manager, name, title, contract, day.isoformat(), salary, hours))

    # salary changes lead up to today's salary; newcomers and apprentices have none
    drafts = []
    for employee in employees:
        start = date.fromisoformat(employee[6])
        years = (LAST - start).days / 365
        if employee[5] in ("apprentice", "intern") or years < 0.7 or rng.random() < 0.15:
            continue
        steps = min(5, max(1, round(years * rng.uniform(0.4, 1.3))))
        when = sorted(rng.sample(range(170, max(200, (LAST - start).days - 10)), steps))
        current = employee[7]
        for back in reversed(when):
            reason = rng.choices(["annual review", "promotion", "market adjustment", "transfer"], [55, 20, 15, 10])[0]
            growth = {"annual review": (0.012, 0.045), "promotion": (0.06, 0.16), "market adjustment": (0.01, 0.07),
                      "transfer": (-0.04, 0.06)}[reason]
            before = round(current / (1 + rng.uniform(*growth)), 2)
            if reason == "transfer" and rng.random() < 0.4:  # some move at unchanged pay
                before = current
            drafts.append(((start + timedelta(days=back)).isoformat(), employee[0], before, current, reason))
            current = before
    drafts.sort()
    salary_changes = [(n, who, day, old, new, why) for n, (day, who, old, new, why) in enumerate(drafts, start=1)]

    # absences: a few people were never away, some often; those that still run have no number of days yet
    never = set(rng.sample([e[0] for e in employees if e[3] not in NAMED], 6))
    weights = [
        0 if e[0] in never else rng.choice([1, 1, 2, 3, 5]) * ((LAST - date.fromisoformat(e[6])).days / 500 + 0.2) for e in employees
    ]
    drafts = []
    named = [e for e in employees if e[3] in NAMED]
    count = 236 if instance == 1 else 214
    for employee in named * 2 + rng.choices(employees, weights, k=count - 2 * len(named)):
        start = date.fromisoformat(employee[6])
        begun = start + timedelta(days=rng.randint(5, max(6, (LAST - start).days)))
        begun = min(begun, LAST)
        kind = rng.choices(["vacation", "sick leave", "special leave", "parental leave"], [47, 38, 11, 4])[0]
        length = {
            "vacation": rng.choice([1, 2, 3, 4, 5, 5, 8, 10, 10, 12, 15, 20]),
            "sick leave": rng.choice([0.5, 1, 1, 2, 3, 3, 4, 5, 7, 9, 14, 26]),
            "special leave": rng.choice([0.5, 1, 1, 2]),
            "parental leave": rng.randint(20, 130),
        }[kind]
        running = begun + timedelta(days=length * 1.4) > LAST or (begun > date(2025, 10, 1) and rng.random() < 0.45)
        drafts.append((begun.isoformat(), employee[0], kind, None if running else float(length)))
    present = [e for e, weight in zip(employees, weights, strict=True) if weight and e[6] < "2025-10-01"]
    for kind in ("sick leave", "sick leave", "parental leave", "special leave"):  # some of each kind still run
        begun = date(2025, 11, 10) + timedelta(days=rng.randint(0, 35))
        drafts.append((begun.isoformat(), rng.choice(present)[0], kind, None))
    drafts.sort(key=lambda draft: draft[:3])
    absences = [(n, who, kind, day, length) for n, (day, who, kind, length) in enumerate(drafts, start=1)]

    # trainings and their bookings; some trainings nobody has booked, sessions of late 2025 have no score yet
    offer = [t for t in TRAININGS if t[0] in NAMED_TRAININGS or rng.random() < 0.88]
    rng.shuffle(offer)
    trainings = []
    for number, (title, topic, usual) in enumerate(offer, start=1):
        mandatory = title in MANDATORY or (topic in ("Safety", "Compliance") and rng.random() < 0.5) or rng.random() < 0.08
        trainings.append((number, title, topic, int(usual * rng.uniform(0.8, 1.25)) + rng.choice([0.0, 0.5, 0.9]), int(mandatory)))
    unbooked = set(rng.sample([t[0] for t in trainings if t[1] not in NAMED_TRAININGS], 2))
    pull = [0 if t[0] in unbooked else (4 if t[4] else rng.choice([1, 1, 2])) for t in trainings]
    away = set(rng.sample([e[0] for e in employees if e[3] not in NAMED], 9))
    booked: dict[tuple[int, int], None] = {}
    learners = [e for e in employees if e[0] not in away]
    for employee in learners:  # the named people take part at least twice
        if employee[3] in NAMED:
            while sum(pair[1] == employee[0] for pair in booked) < 2:
                booked[(rng.choices(trainings, pull)[0][0], employee[0])] = None
    while len(booked) < (138 if instance == 1 else 127):
        booked[(rng.choices(trainings, pull)[0][0], rng.choice(learners)[0])] = None
    hire = {e[0]: date.fromisoformat(e[6]) for e in employees}
    drafts = []
    for training, who in booked:
        day = min(hire[who] + timedelta(days=rng.randint(20, max(30, (LAST - hire[who]).days))), LAST)
        score = None if day > date(2025, 11, 10) or rng.random() < 0.14 else min(100, max(31, round(rng.gauss(78, 13))))
        drafts.append((day.isoformat(), training, who, score))
    drafts.sort(key=lambda draft: draft[:3])
    bookings = [(n, training, who, day, score) for n, (day, training, who, score) in enumerate(drafts, start=1)]

    return {
        "departments": departments, "employees": employees, "salary_changes": salary_changes, "absences": absences,
        "trainings": trainings, "bookings": bookings,
    }
