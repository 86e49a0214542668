"""Rows of `shop`: an online shop for household and electronics goods."""

from __future__ import annotations

import random
from datetime import date, timedelta

CITIES = ["Hamburg", "Berlin", "Munich", "Vienna", "Zurich", "Cologne", "Graz", "Amsterdam"]
CITY_WEIGHTS = [11, 12, 9, 8, 6, 6, 4, 5]

# The people and firms that questions name; they exist in both instances.
NAMED_PEOPLE = [
    "Anna Meyer", "Anna Meier", "Joost van der Berg", "Lucia Rossi", "Thomas Krause", "Miriam Adler",
    "Ole Petersen", "Ines Falk",
]
PEOPLE = [
    "Karin Wolff", "Peter Wolf", "Sven Lindqvist", "Marta Nowak", "Paula Brandt", "Felix Sommer", "Greta Lang",
    "Hannes Vogt", "Julia Steiner", "Jule Steiner", "Robert McAllister", "Sofia de Vries", "Emil Hartmann",
    "Emilia Hartmann", "Nora Zimmer", "Oskar Reuter", "Petra Kuhn", "Quirin Bauer", "Rosa Dietrich", "Samuel Ott",
    "Tabea Winkler", "Ute Schreiber", "Viktor Hahn", "Wanda Pohl", "Yusuf Demir", "Zoe Albrecht", "Bruno Keller",
    "Clara Engel", "David O'Brien", "Elsa Fuchs", "Frank Jansen", "Gerda Moser", "Henrik Lauer", "Isabel Conti",
    "Jonas Pfeiffer", "Lena Baumann", "Mats de Jong", "Ottilie Kern",
]
NAMED_FIRMS = ["Hotel Seeblick", "Cafe Morgenrot", "Kanzlei Brandt", "Atelier Nord"]
FIRMS = [
    "Hotel Alpenhof", "Hotel zur Post", "eventWerk Studio", "Praxis Dr. Lang", "Bistro Limone", "Kita Sonnenkinder",
    "Bauer & Sons Offices", "Co-Working Hafen", "Restaurant Il Ponte", "Fahrschule Kunze", "Tanzschule Tempo",
    "Pension Waldblick", "IT-Haus Weber", "Yogaraum Mitte",
]

SUPPLIERS = [
    "Brightline", "Kettle & Co", "Oak Hollow", "Lumen Works", "van Dijk Trading", "Casa Viva", "HomeForge",
    "Tidewater Goods", "pixelhaus", "Blue Anchor", "Blue Anchor Tools", "Greenfold", "Sundial Home", "e-Motion Parts",
]
SUPPLIERS_WITH_PRODUCTS = ["Brightline", "Oak Hollow", "Casa Viva", "pixelhaus", "Blue Anchor", "Greenfold"]
COUNTRIES = ["Germany", "Italy", "China", "Poland", "Portugal", "Netherlands"]

# name, category, usual price, weight in kg
PRODUCTS = [
    ("Blue Mug", "Kitchen", 8, 0.35), ("Blue Mug XL", "Kitchen", 12, 0.52), ("Chef's knife", "Kitchen", 49, 0.28),
    ("Cast iron pan", "Kitchen", 64, 2.9), ("Espresso maker", "Kitchen", 38, 0.95), ("Bread box", "Kitchen", 33, 1.8),
    ("Salad spinner", "Kitchen", 22, 0.8), ("Stand mixer", "Kitchen", 289, 7.6), ("Electric kettle", "Kitchen", 42, 1.2),
    ("Spice rack", "Kitchen", 27, 1.4), ("Cutting board", "Kitchen", 19, 1.1), ("Cutting board XL", "Kitchen", 29, 2.2),
    ("USB-C hub", "Electronics", 45, 0.12), ("USB-C cable", "Electronics", 11, 0.06),
    ("iPad stand", "Electronics", 35, 0.64), ("Bluetooth speaker", "Electronics", 79, 0.72),
    ("Wireless mouse", "Electronics", 24, 0.1), ("Mechanical keyboard", "Electronics", 119, 0.98),
    ("HDMI adapter", "Electronics", 17, 0.05), ("Noise-cancelling headphones", "Electronics", 229, 0.27),
    ("Smart plug", "Electronics", 18, 0.09), ("Power bank", "Electronics", 39, 0.41), ("e-Reader", "Electronics", 139, 0.2),
    ("LED desk lamp", "Lighting", 55, 1.3), ("LED strip 5 m", "Lighting", 26, 0.3), ("Floor lamp", "Lighting", 129, 6.4),
    ("Paper lantern", "Lighting", 13, 0.22), ("Night light", "Lighting", 9, 0.11), ("Ceiling light", "Lighting", 99, 3.1),
    ("Reading lamp", "Lighting", 44, 0.9), ("Solar garden light", "Lighting", 21, 0.45),
    ("Office chair", "Office", 249, 14.5), ("Desk organizer", "Office", 23, 0.85), ("Standing desk", "Office", 449, 31.0),
    ("Whiteboard", "Office", 74, 5.3), ("Paper shredder", "Office", 89, 4.7), ("Monitor arm", "Office", 84, 3.6),
    ("Desk pad", "Office", 25, 0.7), ("Footrest", "Office", 37, 2.1), ("Label printer", "Office", 69, 0.83),
    ("Bath mat", "Bath", 24, 0.95), ("Shower head", "Bath", 47, 0.6), ("Towel set", "Bath", 39, 1.6),
    ("Soap dispenser", "Bath", 14, 0.38), ("Laundry basket", "Bath", 34, 1.9), ("Bathroom scale", "Bath", 41, 1.75),
    ("Mirror cabinet", "Bath", 159, 11.2), ("Toothbrush holder", "Bath", 10, 0.24),
    ("Watering can", "Garden", 16, 0.66), ("Garden hose", "Garden", 43, 3.4), ("Garden hose 30 m", "Garden", 62, 5.1),
    ("Pruning shears", "Garden", 28, 0.33), ("Plant pot", "Garden", 12, 1.5), ("Raised bed kit", "Garden", 119, 12.8),
    ("Deck chair", "Garden", 92, 6.9), ("Bird feeder", "Garden", 20, 0.74),
]
NAMED_PRODUCTS = {
    "Blue Mug", "Blue Mug XL", "USB-C hub", "USB-C cable", "iPad stand", "LED desk lamp", "Office chair", "Towel set",
    "Cast iron pan", "Garden hose", "Power bank", "Electric kettle",
}
NOT_WEIGHED = ["Smart plug", "HDMI adapter", "Paper lantern", "Bird feeder", "Spice rack", "Label printer", "e-Reader",
               "Wireless mouse", "Desk pad"]

FEES = [3.90, 4.90, 5.90, 7.50, 9.90, 14.90, 24.50]
FEE_WEIGHTS = [30, 26, 14, 10, 8, 6, 4]


def price_near(rng: random.Random, usual: float) -> float:
    """A shelf price around the usual one, ending in .99, .95 or .50."""
    return round(max(3, int(usual * rng.uniform(0.82, 1.22))) + rng.choice([0.99, 0.99, 0.5, 0.95]), 2)


def rows(rng: random.Random, instance: int) -> dict[str, list[tuple]]:
    # customers
    people = NAMED_PEOPLE + rng.sample(PEOPLE, 34 if instance == 1 else 31)
    firms = NAMED_FIRMS + rng.sample(FIRMS, 11 if instance == 1 else 10)
    names = [(name, "private") for name in people] + [(name, "business") for name in firms]
    rng.shuffle(names)
    first = date(2022, 1, 10)
    days: set[int] = set()
    while len(days) < len(names):  # no two on one day, more of them in the early years
        days.add(int(1370 * rng.random() ** 1.7))
    signups = sorted(days)
    customers = [
        (number, name, segment, rng.choices(CITIES, CITY_WEIGHTS)[0], (first + timedelta(days=day)).isoformat(),
         int(rng.random() < (0.5 if segment == "private" else 0.3)))
        for number, ((name, segment), day) in enumerate(zip(names, signups, strict=True), start=1)
    ]

    # suppliers: the countries in turn, so that none is missing
    chosen = SUPPLIERS[:]
    if instance == 2:
        chosen.remove("Sundial Home")
    rng.shuffle(chosen)
    countries = COUNTRIES + rng.choices(COUNTRIES, [5, 3, 5, 2, 2, 1], k=len(chosen) - len(COUNTRIES))
    rng.shuffle(countries)
    suppliers = [
        (number, name, country, rng.randint(21, 60) if country == "China" else rng.randint(3, 24))
        for number, (name, country) in enumerate(zip(chosen, countries, strict=True), start=1)
    ]

    # products: one supplier or two deliver nothing at present; some goods are made in the shop's own workshop
    idle = set(rng.sample([name for name in chosen if name not in SUPPLIERS_WITH_PRODUCTS], 2))
    delivering = [row[0] for row in suppliers if row[1] not in idle]
    assortment = [p for p in PRODUCTS if p[0] in NAMED_PRODUCTS or rng.random() < (0.94 if instance == 1 else 0.88)]
    rng.shuffle(assortment)
    not_weighed = set(rng.sample(NOT_WEIGHED, 6)) | {"Smart plug", "HDMI adapter"}
    sources = delivering + rng.choices(delivering, k=len(assortment) - len(delivering))
    rng.shuffle(sources)
    products = []
    for number, ((name, category, usual, weight), source) in enumerate(zip(assortment, sources, strict=True), start=1):
        stock = rng.choices([0, rng.randint(1, 15), rng.randint(16, 80), rng.randint(81, 400)], [8, 22, 45, 25])[0]
        while stock > 15 and any(stock == other[5] for other in products):  # the larger stocks differ
            stock += 1
        price = price_near(rng, usual)
        while any(price == other[4] for other in products):  # all prices differ
            price = round(price + 1, 2)
        products.append((
            number, None if rng.random() < 0.09 else source, name, category, price, stock,
            None if name in not_weighed else round(weight * rng.uniform(0.94, 1.08), 2),
        ))

    # orders: some customers never order, a few order often
    silent = {row[0] for row in rng.sample([c for c in customers if c[2] == "private" and c[1] not in NAMED_PEOPLE], 8)}
    silent |= {row[0] for row in rng.sample([c for c in customers if c[2] == "business" and c[1] not in NAMED_FIRMS], 3)}
    buyers = [c for c in customers if c[0] not in silent]
    weights = [rng.choice([1, 1, 1, 2, 2, 3, 6]) + (2 if c[2] == "business" else 0) for c in buyers]
    count = 148 if instance == 1 else 136
    named = [c for c in buyers if c[1] in NAMED_PEOPLE + NAMED_FIRMS]
    placed = named * 2 + rng.choices(buyers, weights, k=count - 2 * len(named))
    last = date(2025, 12, 20)
    drafts = []
    for customer in placed:
        start = date.fromisoformat(customer[4])
        drafts.append((start + timedelta(days=int((last - start).days * rng.random() ** 1.15)), customer))
    drafts.sort(key=lambda draft: (draft[0], draft[1][0]))
    for at in range(1, len(drafts)):  # one order a day at most, so that sorting by date has one right answer
        drafts[at] = (max(drafts[at][0], drafts[at - 1][0] + timedelta(days=1)), drafts[at][1])
    orders = []
    for number, (day, customer) in enumerate(drafts, start=1):
        late = day >= date(2025, 8, 20)
        status = rng.choices(["delivered", "returned", "cancelled", "open"], [25, 8, 8, 59] if late else [80, 10, 9, 1])[0]
        shipped = (day + timedelta(days=rng.choice([1, 1, 2, 2, 3, 4, 6, 9, 13]))).isoformat()
        if status == "cancelled" or (status == "open" and rng.random() < 0.6):
            shipped = None
        payment = rng.choices(["card", "PayPal", "invoice", "voucher"],
                              [20, 14, 52, 8] if customer[2] == "business" else [42, 34, 12, 9])[0]
        fee = 0.0 if rng.random() < 0.22 else rng.choices(FEES, FEE_WEIGHTS)[0]
        orders.append((number, customer[0], day.isoformat(), shipped, status, payment, fee))

    # order lines: some products are never ordered
    unsold = {p[0] for p in rng.sample([p for p in products if p[2] not in NAMED_PRODUCTS], 5)}
    sold = [p for p in products if p[0] not in unsold]
    pull = [rng.choice([1, 1, 2, 3, 5]) for _ in sold]
    business = {c[0] for c in customers if c[2] == "business"}
    order_lines = []
    for order in orders:
        wanted = rng.choices([1, 2, 3, 4, 5], [38, 30, 18, 9, 5])[0]
        basket: list[tuple] = []
        while len(basket) < wanted:
            product = rng.choices(sold, pull)[0]
            if product not in basket:
                basket.append(product)
        for product in basket:
            most = [1, 2, 3, 5, 6, 8, 10, 12, 20] if order[1] in business else [1, 1, 1, 1, 2, 2, 3, 4, 6]
            quantity = rng.choice(most) if product[4] < 150 else rng.choice([1, 1, 1, 2])
            price = product[4] if rng.random() < 0.7 else round(product[4] * rng.choice([0.8, 0.85, 0.9, 0.95, 1.05]), 2)
            order_lines.append((len(order_lines) + 1, order[0], product[0], quantity, price))

    # reviews of goods that were delivered or returned
    status_of = {order[0]: order for order in orders}
    bought = {}
    for line in order_lines:
        order = status_of[line[1]]
        if order[4] in ("delivered", "returned"):
            bought.setdefault((order[1], line[2]), order)
    pairs = list(bought)
    unreviewed = set(rng.sample(sorted({product for _, product in pairs}), 5))
    pairs = [pair for pair in pairs if pair[1] not in unreviewed]
    drafts = []
    for customer, product in rng.sample(pairs, min(len(pairs), 112 if instance == 1 else 98)):
        order = bought[(customer, product)]
        day = min(date.fromisoformat(order[3]) + timedelta(days=rng.randint(3, 60)), date(2025, 12, 30))
        low = order[4] == "returned"
        rating = rng.choices([1, 2, 3, 4, 5], [30, 30, 20, 12, 8] if low else [4, 7, 16, 34, 39])[0]
        drafts.append((day.isoformat(), product, customer, rating))
    drafts.sort()
    reviews = [(number, product, customer, rating, day) for number, (day, product, customer, rating) in enumerate(drafts, 1)]

    return {
        "customers": customers, "suppliers": suppliers, "products": products, "orders": orders,
        "order_lines": order_lines, "reviews": reviews,
    }
