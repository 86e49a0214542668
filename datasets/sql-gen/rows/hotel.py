"""Rows of the `hotel` database: a hotel group with its rooms, guests, bookings, extra charges and staff."""

from __future__ import annotations

import random
from datetime import date, timedelta

HOTELS = [
    "Grand Harbour",
    "Grand Harbour Residence",
    "The Old Mill",
    "Parkview Inn",
    "Villa Bianca",
    "Alpenrose",
    "Canal House",
    "iStay Central",
    "Hotel du Lac",
    "Lighthouse Lodge",
    "The Botanist",
    "Maison Margot",
]
CITIES = ["Hamburg", "Hamburg", "Vienna", "Vienna", "Vienna", "Lyon", "Lyon", "Porto", "Porto", "Edinburgh", "Edinburgh"]

# Room type: share of the rooms, usual nightly rate at three stars.
ROOM_TYPES = {"single": (4, 74), "double": (7, 102), "twin": (3, 96), "family": (2, 148), "suite": (2, 219)}

# Guests by the language of their names; the second line is how often such a guest lives in each of COUNTRIES.
COUNTRIES = ["Germany", "Austria", "France", "United Kingdom", "Italy", "Portugal", "Netherlands", "Switzerland"]
GUESTS = {
    "german": (
        [8, 5, 0, 0.5, 0, 0, 0.5, 3],
        [
            "Anna Meyer",
            "Anna Meier",
            "Lukas Gruber",
            "Hannah Schulz",
            "Hanna Schultz",
            "Emma Fischer",
            "Noah Fischer",
            "Nina Bauer",
            "Felix Hofer",
            "Theresa Steiner",
            "Max von Arnim",
            "Greta Wolff",
            "Samuel Keller",
            "Lea Zimmermann",
            "Urs Brunner",
            "Stefan Huber",
            "Birgit Huber",
            "Daniel Weiss",
        ],
    ),
    "dutch": (
        [1, 0, 0, 0, 0, 0, 6, 0],
        [
            "Pieter van der Berg",
            "Jan de Vries",
            "Lotte de Vries",
            "Tom de Wit",
        ],
    ),
    "italian": (
        [1, 0.5, 0.5, 0, 7, 0, 0, 1],
        [
            "Sofia Rossi",
            "Sofia Russo",
            "Giulia Conti",
            "Marco de Luca",
            "Paolo Ferri",
            "Chiara Galli",
            "Laura Bianchi",
        ],
    ),
    "british": (
        [0.5, 0, 0.5, 12, 0, 0, 1, 0],
        [
            "James O'Connor",
            "Oliver Bennett",
            "Olivia Bennett",
            "Fiona MacLeod",
            "Ewan McLeod",
            "Harriet Walsh",
            "Henry Walsh",
            "Rachel Stone",
            "Ruth Abel",
            "Simon Hartley",
            "Gemma Doyle",
            "Patrick Doyle",
            "Isla Campbell",
            "Robert Hale",
        ],
    ),
    "french": (
        [0, 0, 8, 1, 0, 0, 0, 1],
        [
            "Claire Dubois",
            "Claire Dupont",
            "Julien Moreau",
            "Camille Laurent",
            "Victor Lemaire",
            "Amelie Roche",
        ],
    ),
    "portuguese": (
        [0.5, 0, 2, 0, 0, 6, 0, 0],
        [
            "Marta Silva",
            "Miguel Silva",
            "Pedro Carvalho",
            "Ines Ferreira",
            "Beatriz Lopes",
            "Carlos Mendes",
        ],
    ),
    "elsewhere": (
        [8, 6, 6, 6, 2, 3, 2, 2],
        [
            "Tomasz Nowak",
            "Katarzyna Nowak",
            "Sven Lindqvist",
            "Astrid Lindgaard",
            "Mateo Garcia",
            "Lucia Garrido",
            "David Cohen",
            "Priya Raman",
            "Arjun Mehta",
            "Yuki Tanaka",
            "Kenji Mori",
            "Eva Novotna",
            "Peter Kovacs",
            "Nora Kiss",
            "Ahmed Haddad",
            "Leila Haddad",
            "George Papas",
            "Elena Markou",
            "Ingrid Solberg",
            "Rosa Jimenez",
            "Mila Horvat",
        ],
    ),
}
NAMED = ("Anna Meyer", "Anna Meier", "Pieter van der Berg", "Claire Dubois", "Fiona MacLeod")
MAIL_HOSTS = ["gmail.com", "outlook.com", "posteo.de", "orange.fr"]

SERVICES = {
    "Breakfast": (34, 14, 62),
    "Minibar": (18, 4, 38),
    "Parking": (14, 12, 70),
    "Spa": (11, 45, 190),
    "Room service": (10, 16, 85),
    "Laundry": (7, 9, 41),
    "Airport transfer": (6, 38, 76),
}

STAFF = [
    "Paula Krause",
    "Martin Krause",
    "Jonas Adler",
    "Mia Adler",
    "Sabine Vogel",
    "Rui Teixeira",
    "Catarina Pinto",
    "Louise Garnier",
    "Hugo Perrin",
    "Chloe Perrin",
    "Angus Reid",
    "Morag Reid",
    "Callum Fraser",
    "Theo Lang",
    "Franziska Lang",
    "Georg Pichler",
    "Elif Demir",
    "Murat Demir",
    "Agnes Toth",
    "Zoltan Toth",
    "Bruno Alves",
    "Joana Alves",
    "Dieter Kraft",
    "Heike Brandt",
    "Yara Nassar",
    "Ivan Petrov",
    "Olga Petrova",
    "Niall Byrne",
    "Sinead Byrne",
    "Antoine Faure",
    "Manon Faure",
    "Kurt Eder",
    "Lena Eder",
    "Rafael Costa",
    "Vera Costa",
    "Kofi Mensah",
    "Ama Mensah",
    "Linh Tran",
    "Duc Tran",
    "Jakub Zeman",
    "Petra Zeman",
    "Silvia Greco",
    "Dario Greco",
    "Gavin Ross",
    "Eilidh Ross",
    "Benedikt Auer",
    "Clara Auer",
    "Marek Wolski",
    "Ewa Wolska",
    "Fatima Zahra",
    "Lars van Dijk",
    "Sanne van Dijk",
    "Colette Blanc",
    "Gilles Blanc",
    "Teresa Rocha",
    "Nuno Rocha",
    "Kirsty Hume",
    "Alan Hume",
]
JOBS = {
    "manager": (0, 4350),
    "receptionist": (8, 2650),
    "housekeeper": (10, 2240),
    "chef": (5, 3180),
    "waiter": (7, 2190),
    "porter": (3, 2080),
}

TODAY = date(2025, 9, 30)  # the day the group took this copy of its data


def day(rng: random.Random, first: date, last: date) -> date:
    return first + timedelta(days=rng.randint(0, (last - first).days))


def rows(rng: random.Random, instance: int) -> dict[str, list[tuple]]:
    # Hotels: every hotel is there, its city, class and opening day change with the instance. The newest has no bookings yet.
    cities = [*CITIES, rng.choice(["Hamburg", "Porto"])]
    rng.shuffle(cities)
    newest = len(HOTELS) - instance
    hotels = []
    for number, (name, city) in enumerate(zip(HOTELS, cities, strict=True)):
        stars = rng.choices([2, 3, 4, 5], [1, 4, 5, 2])[0]
        opened = date(2025, 9, rng.randint(2, 20)) if number == newest else day(rng, date(2022, 1, 10), date(2024, 5, 30))
        hotels.append((number + 1, name, city, stars, opened.isoformat()))

    # Rooms: numbered floor by floor; the rate follows the type and the class of the hotel.
    rooms = []
    for hotel in hotels:
        size = rng.choice([5, 6, 7, 8, 8, 9, 11])
        for place in range(size):
            kind = rng.choices(list(ROOM_TYPES), [share for share, _ in ROOM_TYPES.values()])[0]
            rate = ROOM_TYPES[kind][1] * (1 + 0.24 * (hotel[3] - 3)) * rng.uniform(0.86, 1.17)
            rate = int(rate) + rng.choice([0.0, 0.5, 0.5, 0.9, 0.99])
            balcony = int(rng.random() < (0.7 if kind in ("suite", "family") else 0.25))
            rooms.append((len(rooms) + 1, hotel[0], (place // 4 + 1) * 100 + place % 4 + 1, kind, round(rate, 2), balcony))

    # Guests: half of them are members of the loyalty programme, some leave no email address.
    # The second instance has fewer guests from Germany. Those whom the questions name are always there.
    known = [(name, weights) for weights, names in GUESTS.values() for name in names]
    rng.shuffle(known)
    known.sort(key=lambda pair: pair[0] not in NAMED)
    known = known[: 68 + 4 * instance]
    rng.shuffle(known)
    guests = []
    for name, weights in known:
        country = rng.choices(COUNTRIES, [weights[0] * (1.7 if instance == 1 else 0.6), *weights[1:]])[0]
        first, last = name.lower().replace("'", "").split(" ", 1)
        email = f"{first}.{last.replace(' ', '')}@{rng.choice(MAIL_HOSTS)}" if rng.random() < 0.8 else None
        member = day(rng, date(2022, 2, 1), date(2025, 8, 31)).isoformat() if rng.random() < 0.52 else None
        guests.append((len(guests) + 1, name, country, email, member))

    # Bookings: some guests have none, a few come often; no room is let twice for a night.
    loyalty = [rng.choice([0, 0.6, 1, 1, 1.4, 2, 2.5, 6]) for _ in guests]
    for place, guest in enumerate(guests):
        if guest[1] in NAMED:
            loyalty[place] = 5
    popularity = {hotel[0]: rng.choice([0.5, 1, 1.5, 2.2]) for hotel in hotels}
    opened = {hotel[0]: date.fromisoformat(hotel[4]) for hotel in hotels}
    letting = [room for room in rooms if room[1] != newest + 1]
    weights = [popularity[room[1]] * rng.choice([0.3, 1, 1, 1.7]) for room in letting]
    taken: dict[int, list[tuple[date, date]]] = {}
    drafts = []
    while len(drafts) < 205 + 20 * instance:
        room = rng.choices(letting, weights)[0]
        earliest = max(opened[room[1]] + timedelta(days=7), date(2022, 3, 1))
        check_in = day(rng, earliest, date(2025, 12, 20))
        nights = rng.choices([1, 2, 3, 4, 5, 7, 10, 14], [6, 9, 8, 5, 4, 4, 1, 0.6])[0]
        check_out = check_in + timedelta(days=nights)
        if any(check_in < end and start < check_out for start, end in taken.get(room[0], [])) or check_in <= TODAY < check_out:
            continue
        guest = rng.choices(guests, loyalty)[0]
        dice = rng.random()
        if dice < 0.13:
            status = "cancelled"
        elif check_in > TODAY:
            status = "upcoming"
        else:
            status = "no-show" if dice < 0.18 else "completed"
        if status in ("completed", "upcoming"):
            taken.setdefault(room[0], []).append((check_in, check_out))
        season = 1.18 if check_in.month in (6, 7, 8, 12) else 0.94
        price = round(nights * room[4] * season * rng.uniform(0.9, 1.08), 2)
        rating = rng.choices([1, 2, 3, 4, 5], [1, 2, 5, 9, 8])[0] if status == "completed" and rng.random() < 0.62 else None
        drafts.append((check_in.isoformat(), guest[0], room[0], check_out.isoformat(), status, price, rating))
    drafts.sort()
    bookings = [
        (number, guest, room, check_in, check_out, status, price, rating)
        for number, (check_in, guest, room, check_out, status, price, rating) in enumerate(drafts, 1)
    ]

    # Charges: extra services of guests who did come.
    charges = []
    for booking in bookings:
        if booking[5] != "completed":
            continue
        for _ in range(rng.choices([0, 1, 2, 3, 4], [10, 7, 5, 2, 1])[0]):
            service = rng.choices(list(SERVICES), [share for share, _, _ in SERVICES.values()])[0]
            _, low, high = SERVICES[service]
            charges.append((len(charges) + 1, booking[0], service, round(rng.triangular(low, high, low + (high - low) / 4), 2)))

    # Staff: one manager a hotel, the rest spread unevenly.
    names = STAFF[:]
    rng.shuffle(names)
    jobs = ["manager"] * len(hotels) + [job for job in JOBS if job != "manager"] * 3
    jobs += rng.choices(list(JOBS), [share for share, _ in JOBS.values()], k=19 + 3 * instance)
    staff = []
    for place, (name, job) in enumerate(zip(names, jobs, strict=False)):
        hotel = hotels[place] if job == "manager" else rng.choice(hotels)
        pay = round(JOBS[job][1] * (1 + 0.05 * (hotel[3] - 3)) * rng.uniform(0.9, 1.22), 2)
        hired = day(rng, date.fromisoformat(hotel[4]) - timedelta(days=9), date(2025, 9, 12))
        staff.append((hotel[0], name, job, pay, hired.isoformat()))
    rng.shuffle(staff)
    staff = [(number, *row) for number, row in enumerate(staff, 1)]

    return {"hotels": hotels, "rooms": rooms, "guests": guests, "bookings": bookings, "charges": charges, "staff": staff}
