CREATE TABLE hotels (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  city TEXT NOT NULL,
  stars INTEGER NOT NULL,
  opened_date TEXT NOT NULL
);

CREATE TABLE rooms (
  id INTEGER PRIMARY KEY,
  hotel_id INTEGER NOT NULL REFERENCES hotels(id),
  room_number INTEGER NOT NULL,
  room_type TEXT NOT NULL,
  nightly_rate REAL NOT NULL,
  has_balcony INTEGER NOT NULL
);

CREATE TABLE guests (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  country TEXT NOT NULL,
  email TEXT,
  member_since TEXT
);

CREATE TABLE bookings (
  id INTEGER PRIMARY KEY,
  guest_id INTEGER NOT NULL REFERENCES guests(id),
  room_id INTEGER NOT NULL REFERENCES rooms(id),
  check_in TEXT NOT NULL,
  check_out TEXT NOT NULL,
  status TEXT NOT NULL,
  price REAL NOT NULL,
  rating INTEGER
);

CREATE TABLE charges (
  id INTEGER PRIMARY KEY,
  booking_id INTEGER NOT NULL REFERENCES bookings(id),
  service TEXT NOT NULL,
  amount REAL NOT NULL
);

CREATE TABLE staff (
  id INTEGER PRIMARY KEY,
  hotel_id INTEGER NOT NULL REFERENCES hotels(id),
  name TEXT NOT NULL,
  job TEXT NOT NULL,
  salary REAL NOT NULL,
  hired_date TEXT NOT NULL
);
