CREATE TABLE accounts (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  country TEXT NOT NULL,
  industry TEXT NOT NULL,
  employees INTEGER NOT NULL,
  created_on TEXT NOT NULL
);
CREATE TABLE plans (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  seat_price REAL NOT NULL,
  user_limit INTEGER,
  is_offered INTEGER NOT NULL
);
CREATE TABLE subscriptions (
  id INTEGER PRIMARY KEY,
  account_id INTEGER NOT NULL REFERENCES accounts(id),
  plan_id INTEGER NOT NULL REFERENCES plans(id),
  seats INTEGER NOT NULL,
  billing_cycle TEXT NOT NULL,
  started_on TEXT NOT NULL,
  cancelled_on TEXT,
  cancel_reason TEXT
);
CREATE TABLE invoices (
  id INTEGER PRIMARY KEY,
  account_id INTEGER NOT NULL REFERENCES accounts(id),
  issued_on TEXT NOT NULL,
  due_on TEXT NOT NULL,
  amount REAL NOT NULL
);
CREATE TABLE payments (
  id INTEGER PRIMARY KEY,
  invoice_id INTEGER NOT NULL REFERENCES invoices(id),
  paid_on TEXT NOT NULL,
  amount REAL NOT NULL,
  method TEXT NOT NULL
);
CREATE TABLE usage_logs (
  id INTEGER PRIMARY KEY,
  subscription_id INTEGER NOT NULL REFERENCES subscriptions(id),
  recorded_on TEXT NOT NULL,
  api_calls INTEGER NOT NULL,
  storage_gb REAL NOT NULL
);
