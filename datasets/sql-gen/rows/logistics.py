"""Rows of the `logistics` database: a parcel and freight carrier in central Europe."""
import random
from datetime import date, timedelta

# name, city, country; the last column says in which instances the warehouse exists
WAREHOUSES = [
    ("Hamburg Port", "Hamburg", "Germany", (1, 2)),
    ("Hamburg Nord", "Hamburg", "Germany", (1, 2)),
    ("Leipzig Hub", "Leipzig", "Germany", (1, 2)),
    ("Rotterdam Quay", "Rotterdam", "Netherlands", (1, 2)),
    ("Utrecht Cross-Dock", "Utrecht", "Netherlands", (1, 2)),
    ("Antwerp Depot", "Antwerp", "Belgium", (1, 2)),
    ("Lyon Est", "Lyon", "France", (1, 2)),
    ("Lille Depot", "Lille", "France", (1, 2)),
    ("Vienna Danube", "Vienna", "Austria", (1, 2)),
    ("Bremen Hub", "Bremen", "Germany", (1,)),
    ("Eindhoven Air", "Eindhoven", "Netherlands", (2,)),
    ("Ghent Canal", "Ghent", "Belgium", (2,)),
    ("Graz South", "Graz", "Austria", (1, 2)),
    ("Nantes Ouest", "Nantes", "France", (1,)),
]
# nothing has been shipped from these yet
IDLE_WAREHOUSES = {1: {"Graz South", "Nantes Ouest"}, 2: {"Graz South", "Eindhoven Air"}}

PLATES = [
    "HH-CL 204", "HH-CL 240", "HH-KR 118", "HH-TR 507", "HH-NV 33", "L-QT 415", "L-QT 451", "L-MV 902",
    "HB-FR 71", "HB-FR 77", "NL-84-KZV", "NL-85-KZV", "NL-12-BGT", "NL-70-RDX", "NL-31-PPL", "BE-1-KLM",
    "BE-1-KLN", "BE-2-TRV", "FR-402-GE", "FR-418-GE", "FR-733-LY", "FR-909-NT", "W-512 DK", "W-521 DK",
    "W-880 TX", "G-114 MH", "HH-BK 5", "NL-09-FTS", "BE-7-VLO", "FR-055-VE", "L-SB 610", "W-77 LKW",
]
BIKE_PLATES = {"HH-BK 5", "NL-09-FTS", "BE-7-VLO", "FR-055-VE"}

DRIVERS = [
    "Anna Meyer", "Anna Meier", "Jonas Becker", "Tomasz Nowak", "Pieter van der Berg", "Marijke de Wit",
    "Luc Moreau", "Claire Dubois", "Stefan Gruber", "Eva Lindner", "Mehmet Yilmaz", "Sofia Rossi",
    "Karel Novotny", "Ines Peeters", "Bart Janssens", "Olaf Petersen", "Greta Hansen", "Youssef Amrani",
    "Nadia Benali", "Hugo Lambert", "Ivana Horvat", "Dirk Schulte", "Paula Schulte", "Rik van Dam",
    "Thea Brandt", "Viktor Sokol", "Milan Kovac", "Jana Wolf", "Theo Martin", "Lena Hofer",
]

CUSTOMERS = [
    "Kowalski Tools", "Kowalski Tooling", "Lumen Lighting", "Lumen Labs", "Rossi Ceramics", "van Dijk Flowers",
    "eBike Depot", "Hansen Seafood", "Orchard Pharma", "Brewhaus Keller", "ToyBarn", "Casa Verde",
    "Nordlicht Optics", "Delta Print",
]
CUSTOMER_WEIGHTS = [15, 7, 13, 7, 11, 9, 8, 10, 12, 7, 5, 6, 4, 3]

CITIES = [
    "Hamburg", "Berlin", "Munich", "Leipzig", "Rotterdam", "Utrecht", "Antwerp", "Brussels", "Lyon",
    "Lille", "Paris", "Vienna", "Graz", "Prague", "Zurich", "Cologne",
]
CITY_WEIGHTS = [14, 13, 9, 6, 11, 5, 9, 6, 10, 5, 12, 10, 4, 5, 3, 7]

ALLOWED_CLASSES = {
    "cargo bike": {"B", "C", "CE"}, "van": {"B", "C", "CE"}, "box truck": {"C", "CE"}, "semi-trailer": {"CE"},
}
PREFERENCE = {"cargo bike": 3, "van": 6, "box truck": 3, "semi-trailer": 1}


def _day(rng, first, last):
    return first + timedelta(days=rng.randrange((last - first).days + 1))


def rows(rng: random.Random, instance: int) -> dict[str, list[tuple]]:
    warehouses = []
    capacities = rng.sample(range(900, 9800, 50), len(WAREHOUSES))
    for (name, city, country, where), capacity in zip(WAREHOUSES, capacities, strict=True):
        if instance in where:
            warehouses.append((len(warehouses) + 1, name, city, country, capacity))
    warehouse_ids = [row[0] for row in warehouses]
    shipping_ids = [row[0] for row in warehouses if row[1] not in IDLE_WAREHOUSES[instance]]

    plates = PLATES[: {1: 30, 2: 32}[instance]]
    payloads = {
        "van": rng.sample(range(780, 1460, 10), 32),
        "box truck": rng.sample(range(2900, 7600, 20), 32),
        "semi-trailer": rng.sample(range(17500, 26500, 50), 32),
        "cargo bike": rng.sample(range(110, 250, 2), 32),
    }
    kinds = ["van"] * 12 + ["box truck"] * 9 + ["semi-trailer"] * 7
    rng.shuffle(kinds)
    vehicles = []
    for number, plate in enumerate(plates, 1):
        kind = "cargo bike" if plate in BIKE_PLATES else kinds.pop()
        service = None
        if rng.random() > 0.17:
            service = _day(rng, date(2023, 2, 1), date(2025, 9, 30)).isoformat()
        home = rng.choice(warehouse_ids) if rng.random() > 0.14 else None
        vehicles.append((number, plate, kind, payloads[kind].pop(), service, home))

    drivers = []
    wages = rng.sample(range(1640, 3090, 5), len(DRIVERS))
    for number, name in enumerate(DRIVERS[: {1: 27, 2: 30}[instance]], 1):
        licence = rng.choices(["B", "C", "CE"], [8, 7, 9])[0]
        hired = _day(rng, date(2022, 1, 3), date(2025, 8, 25)).isoformat()
        drivers.append((number, name, licence, hired, wages[number - 1] / 100, rng.choice(warehouse_ids)))
    idle_drivers = set(rng.sample(range(8, len(drivers) + 1), 4))
    active_drivers = [row for row in drivers if row[0] not in idle_drivers]
    driver_weights = [rng.choice([1, 2, 2, 3, 5, 8]) for _ in active_drivers]
    for position in range(6):
        driver_weights[position] = max(driver_weights[position], 3)
    idle_vehicles = set(rng.sample(range(1, len(vehicles) + 1), 5))
    active_vehicles = [row for row in vehicles if row[0] not in idle_vehicles]
    vehicle_weights = [rng.choice([1, 2, 3, 4, 6]) for _ in active_vehicles]

    shipments = []
    stops = []
    warehouse_weights = [rng.choice([2, 3, 4, 6, 9]) for _ in shipping_ids]
    for number in range(1, {1: 146, 2: 158}[instance] + 1):
        customer = rng.choices(CUSTOMERS, CUSTOMER_WEIGHTS)[0]
        weight = round(min(12400.0, 18 + rng.lognormvariate(5.9, 1.15)), 1)
        price = int(24 + weight * rng.uniform(0.22, 0.61)) + rng.choice([0.5, 0.99, 0.99, 0.49, 0.75, 0.25])
        booked = _day(rng, date(2023, 1, 2), date(2025, 10, 10))
        status = rng.choices(["delivered", "in transit", "booked", "cancelled"], [69, 13, 10, 8])[0]
        if status in ("in transit", "booked"):  # what is still open was booked lately
            booked = _day(rng, date(2025, 8, 20), date(2025, 11, 25))
        delivered = booked + timedelta(days=rng.choice([1, 2, 2, 3, 3, 4, 5, 6, 8, 11, 14]))
        shipments.append((
            number, f"SH-{1000 + number}", customer, weight, round(price, 2), status, booked.isoformat(),
            delivered.isoformat() if status == "delivered" else None,
            rng.choices(shipping_ids, warehouse_weights)[0],
        ))

        if status == "cancelled":
            count = 0
        elif status == "booked":
            count = rng.choice([0, 1])
        else:
            count = rng.choices([1, 2, 3], [4, 5, 2])[0]
        days = sorted(rng.randrange(1, (delivered - booked).days + 1) for _ in range(count))
        if status == "delivered":
            days[-1] = (delivered - booked).days
        for position, offset in enumerate(days, 1):
            delay = 0 if rng.random() < 0.3 else int(rng.expovariate(1 / 34)) + 1
            if status == "booked" or (status == "in transit" and position == count):
                delay = None
            # a vehicle that can carry the shipment, a driver who may drive the vehicle
            fitting = [
                w * PREFERENCE[row[2]] if row[3] >= weight else 0 for row, w in zip(active_vehicles, vehicle_weights, strict=True)
            ]
            vehicle = rng.choices(active_vehicles, fitting)[0]
            allowed = ALLOWED_CLASSES[vehicle[2]]
            fitting = [w if row[2] in allowed else 0 for row, w in zip(active_drivers, driver_weights, strict=True)]
            driver = rng.choices(active_drivers, fitting)[0]
            distance = rng.uniform(1.5, 24) if vehicle[2] == "cargo bike" else rng.triangular(14, 620, 60)
            stops.append([
                rng.choices(CITIES, CITY_WEIGHTS)[0],
                (booked + timedelta(days=offset)).isoformat(),
                round(distance, 1), delay, number, driver[0], vehicle[0],
            ])
    stops.sort(key=lambda row: row[1])
    return {
        "warehouses": warehouses,
        "vehicles": vehicles,
        "drivers": drivers,
        "shipments": shipments,
        "stops": [(number, *row) for number, row in enumerate(stops, 1)],
    }
