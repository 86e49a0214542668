"""Rows of the `clinic` database: an outpatient clinic in the west of Britain."""
import random
from datetime import date, timedelta

# name, specialty; the last column says in which instances the doctor works here
DOCTORS = [
    ("Helen Marsh", "Cardiology", (1, 2)),
    ("Imran Qureshi", "Cardiology", (1, 2)),
    ("Beatrice Holloway", "Dermatology", (1, 2)),
    ("Niamh Kelleher", "Dermatology", (1, 2)),
    ("George Pritchard", "Orthopaedics", (1, 2)),
    ("Priya Raman", "Orthopaedics", (1, 2)),
    ("Owen Davies", "Paediatrics", (1, 2)),
    ("Owain Davies", "Paediatrics", (1, 2)),
    ("Sofie van Houten", "Neurology", (1, 2)),
    ("Malcolm Reid", "General medicine", (1, 2)),
    ("Fatima Zahra", "General medicine", (1, 2)),
    ("Joanna Lister", "General medicine", (1, 2)),
    ("Marek Dvorak", "Neurology", (2,)),
    ("Callum McRae", "Cardiology", (2,)),
    ("Ruth Abernathy", "Neurology", (1,)),
]

PATIENTS = [
    "Emily Clark", "Emily Clarke", "Ravi Patel", "Rani Patel", "Grace Lindsay", "Grace Lindsey", "Thomas Hughes",
    "Sara de Vries", "Omar al-Sayed", "Jack Morgan", "Jackie Morgan", "Lucy Bennett", "Harold Finch", "Mei Wong",
    "Daniel Foster", "Chloe Evans", "Alun Rees", "Bronwen Price", "Peter Hargreaves", "Irene Walsh", "Kofi Mensah",
    "Agnes Whitlock", "Stanley Cooper", "Leila Haddad", "Victor Almeida", "Hannah Pike", "Martin Shaw",
    "Susan Fletcher", "Yusuf Demir", "Gwen Thomas", "Arthur Pendry", "Nina Petrova", "Samuel Osei", "Maeve Byrne",
    "Colin Barker", "Dilys Jenkins", "Freya Nilsson", "Edward Stone", "Amina Yusuf", "Patrick Doyle", "Rosa Jimenez",
    "Simon Tuck", "Megan Lloyd", "Walter Crane", "Isla Robertson", "Bilal Khan", "Vera Novak", "Huw Griffiths",
    "Tessa Bright", "Raymond Poole", "Zoe Hartley", "Ethan Ward", "Margaret Oakley", "Luca Bianchi", "Sian Bowen",
    "Douglas Kerr", "Eleanor Frost", "Nathan Cole", "Petra Vogel", "Adam Sharp", "Judith Marlow", "Oscar Lund",
    "Celia Barnes", "Hamish Blair", "Ines Duarte", "Toby Flint", "Wendy Ash", "Rhys Parry",
]

CITIES = ["Bristol", "Bath", "Cardiff", "Newport", "Gloucester", "Swindon", "Cheltenham"]
CITY_WEIGHTS = [16, 11, 14, 7, 6, 6, 4]

# name, category, usual price, the specialties that give it (None: all)
TREATMENTS = [
    ("ECG", "diagnostics", 62, ("Cardiology", "General medicine")),
    ("Blood test", "diagnostics", 38, None),
    ("Blood test extended", "diagnostics", 96, None),
    ("X-ray", "diagnostics", 84, ("Orthopaedics", "Paediatrics", "General medicine")),
    ("Ultrasound", "diagnostics", 118, ("Cardiology", "General medicine", "Paediatrics")),
    ("MRI scan", "diagnostics", 345, ("Orthopaedics", "Neurology")),
    ("Allergy test", "diagnostics", 74, ("Dermatology", "Paediatrics")),
    ("Physiotherapy", "therapy", 58, ("Orthopaedics", "Neurology")),
    ("Light therapy", "therapy", 66, ("Dermatology", "Neurology")),
    ("Wound care", "therapy", 44, ("Dermatology", "General medicine", "Paediatrics")),
    ("Plaster cast", "therapy", 92, ("Orthopaedics", "Paediatrics")),
    ("Flu vaccination", "prevention", 27, ("General medicine", "Paediatrics")),
    ("Health check", "prevention", 128, ("General medicine", "Cardiology")),
    ("Skin screening", "prevention", 79, ("Dermatology",)),
    ("Mole removal", "surgery", 212, ("Dermatology",)),
    ("Joint injection", "surgery", 164, ("Orthopaedics",)),
]

# drug, usual days, how often repeatable, specialties
DRUGS = [
    ("Ibuprofen", 10, 0.2, None),
    ("Paracetamol", 7, 0.1, None),
    ("Amoxicillin", 8, 0.0, ("General medicine", "Paediatrics", "Dermatology")),
    ("Atorvastatin", 75, 0.9, ("Cardiology", "General medicine")),
    ("Bisoprolol", 65, 0.85, ("Cardiology",)),
    ("Omeprazole", 28, 0.5, ("General medicine", "Orthopaedics")),
    ("Cetirizine", 30, 0.5, ("Dermatology", "Paediatrics", "General medicine")),
    ("Hydrocortisone cream", 14, 0.3, ("Dermatology",)),
    ("Sumatriptan", 20, 0.6, ("Neurology",)),
    ("Vitamin D", 80, 0.7, None),
    ("Vitamin B12", 56, 0.6, ("Neurology", "General medicine")),
]

LAST_PAST_DAY = date(2025, 10, 31)
CENTS = [0.0, 0.5, 0.99, 0.25, 0.75, 0.4, 0.1, 0.85, 0.6]


def _day(rng, first, last):
    return first + timedelta(days=rng.randrange((last - first).days + 1))


def _fits(entry, specialty):
    return entry[-1] is None or specialty in entry[-1]


def rows(rng: random.Random, instance: int) -> dict[str, list[tuple]]:
    doctors = []
    fees = rng.sample(range(5200, 16800, 50), len(DOCTORS))
    for position, (name, specialty, where) in enumerate(DOCTORS):
        if instance not in where:
            continue
        if position in (0, 2, 4, 9) or rng.random() < 0.45:  # these doctors came first
            hired = _day(rng, date(2022, 1, 10), date(2023, 3, 1))
        else:
            hired = _day(rng, date(2023, 3, 2), date(2025, 6, 2))
        doctors.append((len(doctors) + 1, name, specialty, fees[position] / 100, hired.isoformat()))
    # a doctor hired lately has no visits yet
    newcomer = {1: 8, 2: 12}[instance]
    row = doctors[newcomer - 1]
    doctors[newcomer - 1] = (*row[:4], _day(rng, date(2025, 9, 1), date(2025, 10, 20)).isoformat())
    popularity = {row[0]: rng.choice([3, 4, 4, 5, 7]) for row in doctors}

    patients = []
    for number, name in enumerate(PATIENTS[: {1: 62, 2: 68}[instance]], 1):
        year = rng.choices([rng.randint(1938, 1964), rng.randint(1965, 1999), rng.randint(2000, 2020)], [8, 9, 5])[0]
        born = _day(rng, date(year, 1, 1), date(year, 12, 31)).isoformat()
        email = None
        if rng.random() > 0.24:
            host = rng.choice(["mailbox.example", "post.example", "webmail.example"])
            email = name.lower().replace(" ", ".") + "@" + host
        insurance = rng.choices(["public", "private", "self-pay"], [11, 7, 3])[0]
        patients.append((number, name, born, rng.choices(CITIES, CITY_WEIGHTS)[0], insurance, email))
    absent = set(rng.sample(range(17, len(patients) + 1), 7))
    regulars = {number: rng.choice([1, 1, 2, 2, 3, 6]) for number in range(1, len(patients) + 1) if number not in absent}

    for number in range(2, 17, 2):  # these come more often
        regulars[number] = max(regulars[number], 3)

    drafts = []
    for _ in range({1: 142, 2: 156}[instance]):
        status = rng.choices(["completed", "cancelled", "no-show", "scheduled"], [65, 11, 12, 12])[0]
        first, last = (date(2025, 11, 3), date(2025, 12, 19)) if status == "scheduled" else (date(2023, 1, 9), LAST_PAST_DAY)
        day = _day(rng, first, last)
        patient = rng.choices(list(regulars), list(regulars.values()))[0]
        child = patients[patient - 1][2] >= "2008"
        able = [
            row for row in doctors
            if row[4] < day.isoformat() and row[0] != newcomer and (child or row[2] != "Paediatrics")
        ]
        weights = [popularity[row[0]] * (6 if child and row[2] == "Paediatrics" else 1) for row in able]
        doctor = rng.choices(able, weights)[0]
        rating = None
        if status == "completed" and rng.random() < 0.62:
            rating = rng.choices([1, 2, 3, 4, 5], [1, 2, 4, 8, 9])[0]
        drafts.append((day, rng.choice([10, 15, 15, 20, 20, 25, 30, 30, 40, 45, 60, 75, 90]), status, rating, patient, doctor))
    drafts.sort(key=lambda draft: draft[0])

    visits, treatments, prescriptions, bills = [], [], [], []
    for number, (day, minutes, status, rating, patient, doctor) in enumerate(drafts, 1):
        visits.append((number, day.isoformat(), minutes, status, rating, patient, doctor[0]))
        if status != "completed":
            continue
        amount = doctor[3]
        for name, category, usual, _ in rng.sample(
            [entry for entry in TREATMENTS if _fits(entry, doctor[2])], rng.choices([0, 1, 2, 3], [2, 6, 4, 1])[0]
        ):
            price = round(int(usual * rng.uniform(0.82, 1.3)) + rng.choice(CENTS), 2)
            treatments.append((len(treatments) + 1, name, category, price, number))
            amount += price
        for drug, usual, often, _ in rng.sample(
            [entry for entry in DRUGS if _fits(entry, doctor[2])], rng.choices([0, 1, 2], [5, 8, 4])[0]
        ):
            days = max(3, round(usual * rng.uniform(0.6, 1.45)))
            prescriptions.append((len(prescriptions) + 1, drug, days, int(rng.random() < often), number))
        if rng.random() < 0.92:
            bills.append((day + timedelta(days=rng.randint(1, 12)), round(amount, 2), patient))

    invoices = []
    bills.sort(key=lambda bill: bill[0])
    for number, (issued, amount, patient) in enumerate(bills, 1):
        paid, method = issued + timedelta(days=rng.choice([0, 2, 4, 7, 9, 13, 14, 21, 30, 44])), None
        if rng.random() < 0.17 or paid > date(2025, 11, 14):
            paid = None
        else:
            method = rng.choices(["card", "transfer", "cash"], [7, 5, 3])[0]
        invoices.append((number, amount, issued.isoformat(), paid.isoformat() if paid else None, method, patient))
    return {
        "doctors": doctors,
        "patients": patients,
        "visits": visits,
        "treatments": treatments,
        "prescriptions": prescriptions,
        "invoices": invoices,
    }
