CREATE TABLE branches (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  district TEXT NOT NULL,
  weekly_hours INTEGER NOT NULL
);

CREATE TABLE authors (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  country TEXT NOT NULL
);

CREATE TABLE books (
  id INTEGER PRIMARY KEY,
  author_id INTEGER NOT NULL REFERENCES authors(id),
  branch_id INTEGER NOT NULL REFERENCES branches(id),
  title TEXT NOT NULL,
  genre TEXT NOT NULL,
  pages INTEGER NOT NULL,
  published_year INTEGER NOT NULL,
  price REAL NOT NULL,
  is_reference INTEGER NOT NULL
);

CREATE TABLE members (
  id INTEGER PRIMARY KEY,
  branch_id INTEGER NOT NULL REFERENCES branches(id),
  name TEXT NOT NULL,
  membership TEXT NOT NULL,
  email TEXT,
  joined_date TEXT NOT NULL
);

CREATE TABLE loans (
  id INTEGER PRIMARY KEY,
  book_id INTEGER NOT NULL REFERENCES books(id),
  member_id INTEGER NOT NULL REFERENCES members(id),
  loan_date TEXT NOT NULL,
  due_date TEXT NOT NULL,
  return_date TEXT,
  renewals INTEGER NOT NULL
);

CREATE TABLE fines (
  id INTEGER PRIMARY KEY,
  loan_id INTEGER NOT NULL REFERENCES loans(id),
  reason TEXT NOT NULL,
  amount REAL NOT NULL,
  paid_date TEXT
);
