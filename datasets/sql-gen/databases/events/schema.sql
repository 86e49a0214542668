CREATE TABLE venues (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  city TEXT NOT NULL,
  capacity INTEGER NOT NULL,
  outdoor INTEGER NOT NULL
);

CREATE TABLE events (
  id INTEGER PRIMARY KEY,
  title TEXT NOT NULL,
  category TEXT NOT NULL,
  venue_id INTEGER REFERENCES venues(id),
  starts_on TEXT NOT NULL,
  budget REAL NOT NULL
);

CREATE TABLE sessions (
  id INTEGER PRIMARY KEY,
  event_id INTEGER NOT NULL REFERENCES events(id),
  title TEXT NOT NULL,
  speaker TEXT,
  minutes INTEGER NOT NULL
);

CREATE TABLE attendees (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  company TEXT,
  country TEXT NOT NULL,
  registered_on TEXT NOT NULL
);

CREATE TABLE tickets (
  id INTEGER PRIMARY KEY,
  event_id INTEGER NOT NULL REFERENCES events(id),
  attendee_id INTEGER NOT NULL REFERENCES attendees(id),
  tier TEXT NOT NULL,
  price REAL NOT NULL,
  bought_on TEXT NOT NULL,
  checked_in INTEGER NOT NULL
);

CREATE TABLE sponsorships (
  id INTEGER PRIMARY KEY,
  event_id INTEGER NOT NULL REFERENCES events(id),
  sponsor TEXT NOT NULL,
  package TEXT NOT NULL,
  amount REAL NOT NULL,
  paid_on TEXT
);
