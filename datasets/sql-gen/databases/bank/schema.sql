CREATE TABLE branches (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  region TEXT NOT NULL,
  staff_count INTEGER NOT NULL
);

CREATE TABLE customers (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  city TEXT NOT NULL,
  segment TEXT NOT NULL,
  credit_score INTEGER,
  joined_on TEXT NOT NULL,
  branch_id INTEGER REFERENCES branches(id)
);

CREATE TABLE accounts (
  id INTEGER PRIMARY KEY,
  customer_id INTEGER NOT NULL REFERENCES customers(id),
  type TEXT NOT NULL,
  balance REAL NOT NULL,
  opened_on TEXT NOT NULL
);

CREATE TABLE cards (
  id INTEGER PRIMARY KEY,
  account_id INTEGER NOT NULL REFERENCES accounts(id),
  network TEXT NOT NULL,
  credit_limit REAL,
  blocked INTEGER NOT NULL
);

CREATE TABLE loans (
  id INTEGER PRIMARY KEY,
  customer_id INTEGER NOT NULL REFERENCES customers(id),
  purpose TEXT NOT NULL,
  amount REAL NOT NULL,
  interest_rate REAL NOT NULL,
  started_on TEXT NOT NULL,
  repaid_on TEXT
);

CREATE TABLE transactions (
  id INTEGER PRIMARY KEY,
  account_id INTEGER NOT NULL REFERENCES accounts(id),
  kind TEXT NOT NULL,
  amount REAL NOT NULL,
  booked_on TEXT NOT NULL,
  merchant TEXT
);
