CREATE TABLE doctors (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  specialty TEXT NOT NULL,
  consultation_fee REAL NOT NULL,
  hired_on TEXT NOT NULL
);

CREATE TABLE patients (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  birth_date TEXT NOT NULL,
  city TEXT NOT NULL,
  insurance TEXT NOT NULL,
  email TEXT
);

CREATE TABLE visits (
  id INTEGER PRIMARY KEY,
  scheduled_on TEXT NOT NULL,
  duration_minutes INTEGER NOT NULL,
  status TEXT NOT NULL,
  rating INTEGER,
  patient_id INTEGER NOT NULL REFERENCES patients(id),
  doctor_id INTEGER NOT NULL REFERENCES doctors(id)
);

CREATE TABLE treatments (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  category TEXT NOT NULL,
  price REAL NOT NULL,
  visit_id INTEGER NOT NULL REFERENCES visits(id)
);

CREATE TABLE prescriptions (
  id INTEGER PRIMARY KEY,
  drug TEXT NOT NULL,
  days INTEGER NOT NULL,
  repeatable INTEGER NOT NULL,
  visit_id INTEGER NOT NULL REFERENCES visits(id)
);

CREATE TABLE invoices (
  id INTEGER PRIMARY KEY,
  amount REAL NOT NULL,
  issued_on TEXT NOT NULL,
  paid_on TEXT,
  method TEXT,
  patient_id INTEGER NOT NULL REFERENCES patients(id)
);
