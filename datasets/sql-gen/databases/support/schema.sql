CREATE TABLE teams (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  city TEXT NOT NULL
);
CREATE TABLE agents (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  team_id INTEGER NOT NULL REFERENCES teams(id),
  hired_on TEXT NOT NULL,
  left_on TEXT,
  hourly_cost REAL NOT NULL
);
CREATE TABLE customers (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  city TEXT NOT NULL,
  plan TEXT NOT NULL,
  is_vip INTEGER NOT NULL,
  signup_date TEXT NOT NULL
);
CREATE TABLE tickets (
  id INTEGER PRIMARY KEY,
  customer_id INTEGER NOT NULL REFERENCES customers(id),
  agent_id INTEGER REFERENCES agents(id),
  subject TEXT NOT NULL,
  category TEXT NOT NULL,
  priority TEXT NOT NULL,
  status TEXT NOT NULL,
  opened_on TEXT NOT NULL,
  solved_on TEXT,
  first_reply_minutes INTEGER
);
CREATE TABLE comments (
  id INTEGER PRIMARY KEY,
  ticket_id INTEGER NOT NULL REFERENCES tickets(id),
  agent_id INTEGER REFERENCES agents(id),
  posted_on TEXT NOT NULL,
  word_count INTEGER NOT NULL
);
CREATE TABLE ratings (
  id INTEGER PRIMARY KEY,
  ticket_id INTEGER NOT NULL REFERENCES tickets(id),
  score INTEGER NOT NULL,
  remark TEXT
);
