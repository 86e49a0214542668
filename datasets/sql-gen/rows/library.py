"""Rows of the `library` database: the branches of a city library with their books, authors, members, loans and fines."""

from __future__ import annotations

import random
from datetime import date, timedelta

BRANCHES = [
    ("Central Library", "Old Town"),
    ("Abbey Library", "Old Town"),
    ("Harbour Reading Room", "Harbour"),
    ("Westend Library", "Westend"),
    ("McAllister Library", "Westend"),
    ("Hillside Library", "Hillside"),
    ("St. Martin Library", "St. Martin"),
    ("Northgate Library", "Northgate"),
]

# Authors: name, country, and the genres they write in.
AUTHORS = [
    ("Maria Lund", "Norway", ("Crime", "Novel")),
    ("Marie Lund", "Denmark", ("Novel", "Children")),
    ("Erik Solheim", "Norway", ("Crime",)),
    ("Henrik Aasen", "Norway", ("History",)),
    ("Aoife Brennan", "Ireland", ("Novel", "Crime")),
    ("Declan O'Hara", "Ireland", ("Crime",)),
    ("Niamh Keogh", "Ireland", ("Children",)),
    ("Sean Mulroy", "Ireland", ("History", "Novel")),
    ("Duncan MacRae", "Scotland", ("Crime", "Sci-Fi")),
    ("Moira Kerr", "Scotland", ("Novel",)),
    ("Iain Kerr", "Scotland", ("History",)),
    ("Edith Fairley", "England", ("Novel", "Crime")),
    ("Rupert Langdon", "England", ("History",)),
    ("Beth Oakes", "England", ("Children", "Cookery")),
    ("Gregory Pell", "England", ("Sci-Fi",)),
    ("Tamsin Hurst", "England", ("Cookery",)),
    ("Celeste Marchand", "France", ("Novel", "Cookery")),
    ("Bastien Roux", "France", ("Sci-Fi", "Novel")),
    ("Odile Ferrand", "France", ("Cookery", "History")),
    ("Joost van Leeuwen", "Netherlands", ("Crime", "History")),
    ("Marijke de Haan", "Netherlands", ("Children",)),
    ("Karl Reuter", "Germany", ("History", "Novel")),
    ("Karla Reuter", "Germany", ("Children", "Novel")),
    ("Ulrike Stamm", "Germany", ("Crime",)),
    ("Matthias Frey", "Germany", ("Sci-Fi",)),
    ("Lorenzo Vitale", "Italy", ("Cookery", "Crime")),
    ("Ada Ruggeri", "Italy", ("Novel",)),
    ("Livia Bassi", "Italy", ("Cookery",)),
    ("Hiroko Arai", "Japan", ("Novel", "Sci-Fi")),
    ("Kazuo Ide", "Japan", ("Sci-Fi",)),
    ("Noor Rahimi", "Canada", ("Novel", "Children")),
    ("Wade Tolliver", "Canada", ("Sci-Fi", "Crime")),
    ("Joy McBride", "Canada", ("Children", "History")),
    ("Ottilie Berg", "Denmark", ("History", "Cookery")),
]

# Titles by genre, and the usual number of pages and price of the genre.
BOOKS = {
    "Novel": (
        (180, 620, 17),
        [
            "The Glass River",
            "The Glass River Returns",
            "A House of Slow Clocks",
            "Letters to Nobody's Aunt",
            "Salt on the Windowsill",
            "What the Tide Kept",
            "The Cartographer's Wife",
            "Small Weather",
            "Twelve Summers in Brod",
            "An Orchard for Elin",
            "The Quiet Ferryman",
            "Ash Wednesday Waltz",
            "Paper Lanterns",
            "The Understudy's Year",
            "Marguerite Alone",
            "A Field of Borrowed Light",
            "The Left Bank of the River Orne",
            "Sundays with Ruben",
            "The Piano Mover",
            "Both Sides of the Canal",
            "Nine Letters Home",
            "The Winter Tenants",
        ],
    ),
    "Crime": (
        (210, 480, 13),
        [
            "Death at Low Water",
            "The Ferry Murders",
            "The Silent Juror",
            "Cold Ink",
            "A Body in the Boathouse",
            "Murder by the River",
            "The Thirteenth Alibi",
            "Inspector Falk's Last Case",
            "Blackthorn Lane",
            "The Forger of Ghent",
            "Nobody Saw Ingrid",
            "The Poisoned Choir",
            "Dead Letter Office",
            "Midnight in Cellar Street",
            "The Salt Road Killings",
            "A Knife for the Baker",
            "Fingerprints in Flour",
            "The Lighthouse Witness",
            "Second Shot",
            "The Tailor Knew",
        ],
    ),
    "Sci-Fi": (
        (240, 760, 15),
        [
            "Orbit of Rust",
            "The Last Gardener of Mars",
            "iMind",
            "Station at Kepler Point",
            "The Copper Satellites",
            "A Map of Small Suns",
            "Children of the Dry Sea",
            "Signal Loss",
            "The Clockwork Comet",
            "Gravity's Accountant",
            "Twin Moons over Tallis",
            "The River Machine",
            "Sleepers of Titan",
            "Nine Minutes of Light",
            "The Borrowed Body",
            "Hull Breach",
        ],
    ),
    "History": (
        (260, 940, 29),
        [
            "A Short History of Salt",
            "The Hanseatic Ledger",
            "Bridges of the Old Town",
            "Kings, Cooks and Couriers",
            "The Wool Merchants",
            "Plague Years of the North",
            "Iron Rails, Wooden Ships",
            "The Clockmakers' Guild",
            "A History of the River Trade",
            "Women of the Print Shops",
            "Harbour Cities 1400-1700",
            "The Long Peace",
            "Monks and Millstones",
            "Maps that Lied",
            "The Tulip Brokers",
            "Street Names and Saints",
            "Atlas of Forgotten Borders",
            "The Lamp Oil Wars",
        ],
    ),
    "Children": (
        (24, 190, 10),
        [
            "Pip and the Paper Whale",
            "The Bear Who Sneezed",
            "Goodnight, Tugboat",
            "Mina and the Moon Ladder",
            "Seven Socks for Otto",
            "The Hedgehog Post Office",
            "Captain Crumb",
            "Captain Crumb Sails Again",
            "Where Do Trams Sleep?",
            "Lulu's Loud Umbrella",
            "A Dragon in the Laundry",
            "The Smallest Snowplough",
            "Grandpa's Upside-down House",
            "Tilda and the Talking Pump",
            "The Owl of Platform 3",
            "Fergus Finds a River",
        ],
    ),
    "Cookery": (
        (96, 410, 24),
        [
            "Soup for Every Tuesday",
            "The Bread Year",
            "Forty Ways with Beetroot",
            "Pasta, Slowly",
            "The Fisherman's Kitchen",
            "Pickle Everything",
            "Baking with Rye",
            "One Pot, Four Seasons",
            "The New Dumpling Book",
            "Cakes of the Coast",
            "The Little Herb Kitchen",
            "Sunday Roasts",
            "Cheese at Home",
            "Feasts for Two",
        ],
    ),
}

MEMBERS = [
    "Tom Becker",
    "Tim Becker",
    "Anna Schmitt",
    "Anna Schmidt",
    "Lena van der Meer",
    "Jonas Hartwig",
    "Ella Brandon",
    "Eleanor Brandon",
    "Ravi Desai",
    "Meera Desai",
    "Grace Whitlock",
    "Peter McKenna",
    "Petra Mackenna",
    "Olga Sidorova",
    "Samira Aziz",
    "Yusuf Aziz",
    "Dorothy Finch",
    "Harold Finch",
    "Bea Castellani",
    "Luis Ortega",
    "Marta Ortega",
    "Freya Holm",
    "Anders Holm",
    "Kiran Shah",
    "Amelia Shaw",
    "Ingo Pfeiffer",
    "Renate Pfeiffer",
    "Clara de Boer",
    "Willem de Boer",
    "Zoe Laskaris",
    "Nikos Laskaris",
    "Ida Nyberg",
    "Oskar Nyberg",
    "Paul Winter",
    "Paula Winters",
    "Fatou Diallo",
    "Issa Diallo",
    "Rosalind Pike",
    "Edwin Pike",
    "Mei Lin",
    "Jun Lin",
    "Agata Zielinska",
    "Piotr Zielinski",
    "Susan Trent",
    "Bernard Trent",
    "Vivian Cole",
    "Desmond Cole",
    "Leonie Kraus",
    "Emil Kraus",
    "Hilda Storm",
    "Gunnar Storm",
    "Teresa Valente",
    "Franco Valente",
    "Jack Underhill",
    "Molly Underhill",
    "Sana Qureshi",
    "Bilal Qureshi",
    "Judith Amsel",
    "Viktor Amsel",
    "Chloe Ashworth",
    "Noel Ashworth",
    "Iris Feldmann",
    "Max Feldmann",
    "Hamish Boyd",
    "Catriona Boyd",
    "Elsa Thorne",
    "Leo Thorne",
    "Margot Sauvage",
    "Luc Sauvage",
    "Dina Haas",
    "Robert Haas",
    "Aisha Bello",
    "Tunde Bello",
    "Nell Farrow",
    "Ben Farrow",
    "Carmen Vidal",
    "Hugo Vidal",
    "Wanda Sikora",
    "Adam Sikora",
    "Pearl Osborne",
    "Frank Osborne",
    "Tessa Quill",
    "Arthur Quill",
    "Ludmila Kadlec",
    "Milan Kadlec",
    "Joan Sterling",
    "Alice Hobbs",
    "Alicia Hobbs",
    "George Lomax",
    "Nadia Ferris",
]
NAMED = ("Tom Becker", "Tim Becker", "Anna Schmitt", "Anna Schmidt", "Lena van der Meer")
MEMBERSHIPS = ["adult", "student", "senior", "child"]
MAIL_HOSTS = ["gmail.com", "gmail.com", "outlook.com", "mailbox.org", "web.de"]

TODAY = date(2025, 9, 30)  # the day the library took this copy of its data


def day(rng: random.Random, first: date, last: date) -> date:
    return first + timedelta(days=rng.randint(0, (last - first).days))


def rows(rng: random.Random, instance: int) -> dict[str, list[tuple]]:
    # Branches: the opening hours change with the instance, no two branches have the same.
    hours = sorted(rng.sample(range(16, 54), len(BRANCHES) - 1), reverse=True)
    hours = [58 + instance, *hours[1:4], hours[0], *hours[4:]]
    branches = [(number, name, district, hours[number - 1]) for number, (name, district) in enumerate(BRANCHES, 1)]

    # Authors: a few are left out of each instance, and a few have no book on the shelves.
    named = ("Maria Lund", "Marie Lund", "Declan O'Hara", "Karl Reuter")
    left_out = rng.sample([name for name, _, _ in AUTHORS if name not in named], 1 + 2 * instance)
    known = [author for author in AUTHORS if author[0] not in left_out]
    rng.shuffle(known)
    authors = [(number, name, country) for number, (name, country, _) in enumerate(known, 1)]
    silent = rng.sample([number for number, name, _ in authors if name not in named], 3 + instance)
    fame = {number: rng.choice([0.6, 1, 1, 2, 3]) for number, _, _ in authors}

    # Books: one row is one copy, kept at one branch; reference books stay in the house.
    shelf = {1: 4, 2: 1, 3: 2, 4: 2.5, 5: 1, 6: 1.5, 7: 1.2, 8: 0.6}
    drafts = []
    for genre, ((short, long, cost), titles) in BOOKS.items():
        writers = [number for number, (_, _, genres) in enumerate(known, 1) if genre in genres and number not in silent]
        for title in titles:
            if rng.random() < 0.05 * (1 + instance) and title not in ("The Glass River", "Cold Ink", "The Bread Year"):
                continue
            author = rng.choices(writers, [fame[writer] for writer in writers])[0]
            branch = rng.choices(list(shelf), list(shelf.values()))[0]
            pages = round(rng.triangular(short, long, short + (long - short) / 3))
            year = 2025 - round(rng.triangular(0, 68, 5))
            price = int(cost * rng.uniform(0.6, 1.7) * (1 + pages / 3000)) + rng.choice([0.99, 0.99, 0.5, 0.95, 0.0])
            reference = int(rng.random() < {"History": 0.38, "Cookery": 0.15, "Children": 0.1}.get(genre, 0.07))
            if title in ("The Glass River", "Cold Ink", "The Bread Year"):
                reference = 0
            drafts.append((author, branch, title, genre, pages, year, round(price, 2), reference))
    rng.shuffle(drafts)
    books = [(number, *draft) for number, draft in enumerate(drafts, 1)]

    # Members: registered at one branch; children rarely leave an email address.
    names = [name for name in MEMBERS if name not in NAMED]
    names = [*NAMED, *rng.sample(names, 68 + 5 * instance)]
    rng.shuffle(names)
    members = []
    for name in names:
        membership = rng.choices(MEMBERSHIPS, [10, 6 - instance, 3 + instance, 4])[0]
        first, last = name.lower().split(" ", 1)
        host = rng.choice(MAIL_HOSTS)
        email = f"{first}.{last.replace(' ', '')}@{host}" if rng.random() < (0.25 if membership == "child" else 0.82) else None
        branch = rng.choices(list(shelf), list(shelf.values()))[0]
        members.append((len(members) + 1, branch, name, membership, email, day(rng, date(2022, 1, 8), date(2025, 8, 28)).isoformat()))

    # Loans: some members never borrow, a few read a lot; a book is lent to one person at a time.
    zeal = [5 if member[2] in NAMED else rng.choice([0, 0.4, 0.7, 1, 1, 1.5, 2, 5]) for member in members]
    reading = [book for book in books if not book[8]]
    appeal = [rng.choice([0, 0.3, 0.5, 1, 1, 2, 4]) if book[3] != "The Glass River" else 3 for book in reading]
    liking = {"Crime": 1.7, "Novel": 1.4, "Children": 1.3 if instance == 1 else 2.6}
    appeal = [pull * liking.get(book[4], 1) for book, pull in zip(reading, appeal, strict=True)]
    away: dict[int, list[tuple[date, date]]] = {}
    drafts = []
    while len(drafts) < 248 + 18 * instance:
        member = rng.choices(members, zeal)[0]
        book = rng.choices(reading, appeal)[0]
        lent = day(rng, date.fromisoformat(member[5]), TODAY - timedelta(days=1))
        renewals = rng.choices([0, 1, 2, 3], [14, 5, 2, 1])[0]
        if (TODAY - lent).days < 14 * renewals + 10:
            renewals = 0  # too early to have been renewed
        due = lent + timedelta(days=28 + 14 * renewals)
        earliest = lent + timedelta(days=14 * renewals + 10 if renewals else 3)
        back = due + timedelta(days=rng.randint(1, 40)) if rng.random() < 0.2 else day(rng, earliest, due)
        lost = rng.random() < 0.03 and due < TODAY
        end = date(2026, 12, 31) if lost else back
        if any(lent <= other and start <= end for start, other in away.get(book[0], [])) or lent.weekday() == 6:
            continue
        away.setdefault(book[0], []).append((lent, end))
        back_text = None if lost or back >= TODAY else back.isoformat()
        drafts.append((lent.isoformat(), book[0], member[0], due.isoformat(), back_text, renewals, lost))
    drafts.sort()
    loans = [(number, *draft[1:3], draft[0], *draft[3:6]) for number, draft in enumerate(drafts, 1)]
    lost_loans = {number for number, draft in enumerate(drafts, 1) if draft[6]}

    # Fines: for late returns, for damage, and for books that never came back.
    fines = []
    for loan in loans:
        price = books[loan[1] - 1][7]
        due, back = date.fromisoformat(loan[4]), loan[5] and date.fromisoformat(loan[5])
        owed = []
        if loan[0] in lost_loans:
            owed.append((TODAY if due + timedelta(days=60) > TODAY else due + timedelta(days=60), "lost book", round(price + 5.5, 2)))
        if back and back > due and rng.random() < 0.9:
            owed.append((back, "late return", round((back - due).days * 0.25 + rng.choice([0.5, 0.7, 0.95, 1.0, 1.35]), 2)))
        if back and rng.random() < 0.075:
            owed.append((back, "damage", round(price * rng.uniform(0.15, 0.8), 2)))
        for asked, reason, amount in owed:
            paid = asked + timedelta(days=rng.choice([0, 0, 1, 3, 6, 12, 20, 33, 47]))
            open_still = paid >= TODAY or rng.random() < (0.6 if reason == "lost book" else 0.22)
            fines.append((len(fines) + 1, loan[0], reason, amount, None if open_still else paid.isoformat()))

    return {"branches": branches, "authors": authors, "books": books, "members": members, "loans": loans, "fines": fines}
