"""Rows of `events`: an organiser of conferences, concerts, festivals and workshops in six European cities."""

from __future__ import annotations

import datetime
import random

# The first nine venues exist in both instances; the rest are drawn.
VENUES = [
    "Harbour Hall", "The Glasshouse", "Old Brewery Yard", "Linden Park Stage", "City Congress Centre", "Studio 9", "Opera am Ring", "Riverside Meadow",
    "Riverside Pavilion", "Meridian Theatre", "Tram Depot", "eXpo Dome",
]  # fmt: skip
OUTDOOR = {"Linden Park Stage", "Riverside Meadow", "Old Brewery Yard"}
CITIES = ["Dublin", "Amsterdam", "Porto", "Vienna", "Lyon", "Gothenburg"]

# Events in both instances, then those that are drawn.
NAMED_EVENTS = [
    ("DataForward Summit", "conference"), ("Green Cities Forum", "conference"), ("Midsummer Sound", "festival"), ("iOS Builders Day", "workshop"),
    ("Autumn Strings", "concert"), ("Night of Brass", "concert"), ("Fintech Horizons", "conference"), ("Latin Jazz Evening", "concert"),
    ("Street Food Weekend", "festival"), ("Photo Lab", "workshop"), ("Retail Next", "conference"), ("Indie Harbour Festival", "festival"),
]  # fmt: skip
EVENTS = [
    ("DataForward Summit Junior", "conference"), ("Health Tech Congress", "conference"), ("Logistics Live", "conference"), ("UX Europe", "conference"),
    ("Women in Energy", "conference"), ("Cloud & Code", "conference"), ("Tourism Outlook", "conference"), ("New Year Gala", "concert"),
    ("Piano Hour", "concert"), ("Choir of the North", "concert"), ("Electro Fridays", "concert"), ("Fado & Friends", "concert"),
    ("An Evening with van Houten", "concert"), ("Film Music Night", "concert"), ("Books by the River", "festival"), ("Craft Beer Days", "festival"),
    ("Light and Lantern Festival", "festival"), ("Comedy Carnival", "festival"), ("Photo Lab Advanced", "workshop"), ("Public Speaking Bootcamp", "workshop"),
    ("Sourdough Basics", "workshop"), ("Excel for Planners", "workshop"), ("Ceramics Saturday", "workshop"), ("Grant Writing Clinic", "workshop"),
]  # fmt: skip
MONTHS = {
    "Midsummer Sound": (6, 6), "Autumn Strings": (9, 11), "New Year Gala": (1, 1), "Indie Harbour Festival": (6, 8), "Street Food Weekend": (5, 9),
    "Light and Lantern Festival": (11, 12), "Craft Beer Days": (8, 10), "Books by the River": (5, 8), "Comedy Carnival": (2, 3),
}  # fmt: skip
BUDGETS = {"conference": (28000, 165000), "concert": (9000, 72000), "festival": (35000, 240000), "workshop": (1800, 14500)}
PRICES = {"conference": (149, 520), "concert": (24, 95), "festival": (35, 130), "workshop": (45, 210)}

SESSION_TITLES = {
    "conference": [
        "Opening Keynote", "Closing Keynote", "Panel: What Comes Next", "Lessons from the Field", "Data without Drama", "Funding Talk", "Startup Pitches",
        "Customer Stories", "The Road to Zero", "Live Q&A", "Scaling Small Teams", "Ethics Roundtable",
    ],
    "concert": ["Opening Set", "Main Set", "Encore Set", "Artist Talk", "Sound Check Tour", "Meet the Band"],
    "festival": ["Opening Set", "Main Set", "Late Night Set", "Family Hour", "Tasting Session", "Artist Talk", "Dance Class", "Closing Parade"],
    "workshop": ["Warm-up", "Hands-on Basics", "Hands-on Advanced", "Feedback Round", "Live Q&A"],
}  # fmt: skip
MINUTES = {"conference": [20, 25, 30, 40, 45, 45, 50, 60], "concert": [30, 35, 45, 55, 75, 90], "festival": [40, 50, 60, 70, 90, 105], "workshop": [25, 45, 60, 80, 90, 120]}

SPEAKERS = [
    "Nora Feldmann", "Nora Feldman", "Ciarán Walsh", "Beatriz Almeida", "Pieter van Dijk", "Lena Björk", "Thomas Aubry", "Amara Diallo", "Viktor Hasek",
    "Isabel Montes", "Rory McKenna", "Yuki Tanabe", "DJ Kestrel", "Mira Solberg", "Felix Oduya", "Clara de Witt", "Henrik Sand", "Paola Ferri",
]  # fmt: skip
SPEAKER_WEIGHTS = [12, 4, 9, 8, 10, 7, 6, 7, 4, 5, 6, 3, 8, 4, 3, 5, 3, 2]

# Attendees in both instances, then those that are drawn.
NAMED_ATTENDEES = [
    "Emma Visser", "Emma Fischer", "Luca Marin", "Johan de Groot", "Aoife Brennan", "Marta Pinto", "Stefan Gruber", "Chantal Roche", "Oskar Nyström",
    "Hannah Kowalski", "Dario Conti", "Siobhan Daly",
]  # fmt: skip
ATTENDEES = [
    "Lukas Berger", "Lucas Berger", "Sanne Bakker", "Tiago Rocha", "Elin Håkansson", "Pauline Mercier", "Ronan Keane", "Katrin Wolf", "Bram Jansen",
    "Inês Carvalho", "Hugo Lefèvre", "Maeve Nolan", "Astrid Lund", "Florian Huber", "Joost van Leeuwen", "Rita Sousa", "Camille Girard", "Declan Murphy",
    "Theresa Bauer", "Niels Kramer", "Pedro Antunes", "Margaux Petit", "Sven Eklund", "Orla Flynn", "Georg Steiner", "Femke Smit", "Duarte Lopes",
    "Julien Moreau", "Karin Holm", "Padraig Quinn", "Leonie Maier", "Leonie Meier", "Wouter de Vries", "Ana Ribeiro", "Bastien Faure", "Gustav Ek",
    "Niamh Doyle", "Matthias Pichler", "Lotte Hendriks", "Vasco Teixeira", "Elodie Blanc", "Ingrid Sjöberg", "Conor Hayes", "Verena Lang", "Daan Visser",
    "Sofia Moura", "Antoine Roussel", "Malin Dahlberg", "Fergus O'Shea", "Birgit Egger", "Ruben Mulder", "Catarina Neves", "Noémie Laurent", "Axel Wallin",
    "Grainne Casey", "Christoph Hofer", "Anouk Peters", "Nuno Barros", "Damien Colin", "Ylva Strand",
]  # fmt: skip
COUNTRIES = ["Ireland", "Netherlands", "Portugal", "Austria", "France", "Sweden", "Germany"]
COUNTRY_WEIGHTS = [16, 15, 10, 12, 9, 8, 13]
COMPANIES = ["Nordwind Energy", "BlueDock Software", "Tulip Foods", "Keystone Advisory", "iMotion Labs", "Porto Ceramics", "van Loon Media", "Alpine Insurance", "CityRail", "Quill & Co"]
COMPANY_WEIGHTS = [12, 14, 7, 9, 6, 4, 5, 8, 6, 3]

SPONSORS = [
    "Aurora Bank", "Aurora Beverages", "BlueDock Software", "Fresh & Fizz", "Hallmark Audio", "Kestrel Airlines", "Lumina Lighting", "Metro Telecom",
    "Nordwind Energy", "Oak & Ash Furniture", "PixelPrint", "Tulip Foods", "eGo Scooters",
]  # fmt: skip
SPONSOR_WEIGHTS = [14, 5, 10, 6, 7, 8, 4, 11, 9, 3, 4, 6, 4]
PACKAGES = {"gold": (9500, 24000), "silver": (4000, 9400), "bronze": (800, 3900)}

LAST = datetime.date(2025, 12, 20)


def day(rng: random.Random, first: datetime.date, last: datetime.date) -> datetime.date:
    return first + datetime.timedelta(days=rng.randint(0, max(0, (last - first).days)))


def rows(rng: random.Random, instance: int) -> dict[str, list[tuple]]:
    # Venues: every city has at least one, capacities are all different.
    names = VENUES[:9] + rng.sample(VENUES[9:], 2 if instance == 1 else 3)
    rng.shuffle(names)
    cities = (CITIES + rng.choices(CITIES, k=6))[: len(names)]
    rng.shuffle(cities)
    capacities = rng.sample(range(90, 5200, 10), len(names))
    venues = [(i, n, c, k, int(n in OUTDOOR)) for i, (n, c, k) in enumerate(zip(names, cities, capacities, strict=True), 1)]
    venue_weights = [*rng.sample(range(3, 22), len(venues) - 1), 0]  # the last one is new and has had no event yet

    # Events in the order of their dates; a few have no venue yet.
    drafts = []
    drawn = rng.sample(EVENTS, 20 if instance == 1 else 17)
    homeless = {title for title, _ in drawn[: 4 if instance == 1 else 3]}
    for title, category in NAMED_EVENTS + drawn:
        first, last = MONTHS.get(title, (1, 12))
        starts = day(rng, datetime.date(2022, 7, 1), LAST)
        while not first <= starts.month <= last or (starts.month, starts.day) > (12, 20):
            starts = day(rng, datetime.date(2022, 7, 1), LAST)
        indoor = [0 if category == "workshop" and v[4] else w for v, w in zip(venues, venue_weights, strict=True)]
        venue = None if title in homeless else rng.choices(range(1, len(venues) + 1), indoor)[0]
        budget = round(rng.triangular(*BUDGETS[category], sum(BUDGETS[category]) / 3) / 50) * 50 + rng.choice([0, 0, 0, 25, 12.5])
        drafts.append((starts, title, category, venue, round(float(budget), 2)))
    drafts.sort()
    events = [(i, t, c, v, s.isoformat(), b) for i, (s, t, c, v, b) in enumerate(drafts, 1)]
    starts = {e[0]: datetime.date.fromisoformat(e[4]) for e in events}
    named_titles = {t for t, _ in NAMED_EVENTS}

    # Sessions: a session without a speaker has not been cast yet or needs none; some events have no programme yet.
    sessions = []
    for eid, title, category, _, _, _ in events:
        count = rng.choices([0, 2, 3, 4, 6], [12, 22, 30, 22, 14])[0]
        if title in named_titles:
            count = max(count, 3)
        for session in rng.sample(SESSION_TITLES[category], min(count, len(SESSION_TITLES[category]))):
            speaker = None if rng.random() < 0.17 else rng.choices(SPEAKERS, SPEAKER_WEIGHTS)[0]
            sessions.append((len(sessions) + 1, eid, session, speaker, rng.choice(MINUTES[category]) + rng.choice([0, 0, 5])))

    # Attendees in the order in which they registered; private visitors have no company.
    drafts = []
    for name in NAMED_ATTENDEES + rng.sample(ATTENDEES, 52 if instance == 1 else 47):
        last = datetime.date(2022, 12, 31) if name in NAMED_ATTENDEES else datetime.date(2025, 6, 30)
        company = None if rng.random() < 0.42 else rng.choices(COMPANIES, COMPANY_WEIGHTS)[0]
        drafts.append((day(rng, datetime.date(2022, 1, 10), last).isoformat(), name, company, rng.choices(COUNTRIES, COUNTRY_WEIGHTS)[0]))
    drafts.sort(key=lambda d: d[:2])
    attendees = [(i, n, p, c, r) for i, (r, n, p, c) in enumerate(drafts, 1)]

    # Tickets: bought between registration and the event; some attendees never bought one, a few go to everything.
    person_weights = []
    for _, name, _, _, _ in attendees:
        weight = rng.lognormvariate(0, 0.7)
        person_weights.append(max(weight, 1.2) * 2 if name in NAMED_ATTENDEES else 0 if rng.random() < 0.14 else weight)
    event_weights = []
    for _, title, category, _, _, _ in events:
        weight = rng.lognormvariate(0, 0.6) * {"conference": 3, "concert": 2.2, "festival": 2.6, "workshop": 0.9}[category]
        event_weights.append(max(weight, 1.8) if title in named_titles else 0 if rng.random() < 0.15 else weight)
    base = {e[0]: rng.uniform(*PRICES[e[2]]) for e in events}
    drafts, pairs = [], set()
    while len(drafts) < (268 if instance == 1 else 246):
        event, attendee = rng.choices(events, event_weights)[0], rng.choices(attendees, person_weights)[0]
        eid, aid = event[0], attendee[0]
        registered = datetime.date.fromisoformat(attendee[4])
        if (eid, aid) in pairs or (starts[eid] - registered).days < 5:
            continue
        pairs.add((eid, aid))
        bought = day(rng, max(registered, starts[eid] - datetime.timedelta(days=190)), starts[eid] - datetime.timedelta(days=1))
        early = (starts[eid] - bought).days > 75
        tier = "early bird" if early and rng.random() < 0.6 else rng.choices(["standard", "VIP", "student"], [60, 18, 22])[0]
        factor = {"standard": 1.0, "VIP": 2.1, "early bird": 0.8, "student": 0.55}[tier]
        price = int(base[eid] * factor * rng.uniform(0.94, 1.06)) + rng.choice([0.99, 0.5, 0.99, 0.0, 0.95])
        drafts.append((bought.isoformat(), eid, aid, tier, round(price, 2), int(rng.random() < 0.78)))
    drafts.sort(key=lambda d: d[:3])
    tickets = [(i, e, a, t, p, b, c) for i, (b, e, a, t, p, c) in enumerate(drafts, 1)]

    # Sponsorships: paid before or after the event, or not paid yet.
    drafts = []
    for eid, title, category, _, _, _ in events:
        count = rng.choices([0, 1, 2, 3, 4], {"conference": [8, 20, 30, 26, 16], "concert": [34, 40, 20, 6, 0], "festival": [5, 20, 30, 30, 15], "workshop": [68, 28, 4, 0, 0]}[category])[0]
        if title in named_titles and category in ("conference", "festival"):
            count = max(count, 3)
        chosen: list[str] = []
        while len(chosen) < count:
            sponsor = rng.choices(SPONSORS, SPONSOR_WEIGHTS)[0]
            if sponsor not in chosen:
                chosen.append(sponsor)
        for sponsor in chosen:
            package = rng.choices(["gold", "silver", "bronze"], [25, 35, 40] if category in ("conference", "festival") else [8, 30, 62])[0]
            amount = round(rng.uniform(*PACKAGES[package]) / 50) * 50 + rng.choice([0, 0, 0, 25, 37.5])
            paid = None if rng.random() < 0.24 else min(LAST, day(rng, starts[eid] - datetime.timedelta(days=150), starts[eid] + datetime.timedelta(days=45)))
            drafts.append((eid, sponsor, package, round(float(amount), 2), paid and max(paid, datetime.date(2022, 2, 1)).isoformat()))
    sponsorships = [(i, *draft) for i, draft in enumerate(drafts, 1)]

    return {"venues": venues, "events": events, "sessions": sessions, "attendees": attendees, "tickets": tickets, "sponsorships": sponsorships}
