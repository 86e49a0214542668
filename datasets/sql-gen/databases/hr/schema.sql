CREATE TABLE departments (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  city TEXT NOT NULL,
  budget REAL NOT NULL
);
CREATE TABLE employees (
  id INTEGER PRIMARY KEY,
  department_id INTEGER NOT NULL REFERENCES departments(id),
  manager_id INTEGER REFERENCES employees(id),
  name TEXT NOT NULL,
  job_title TEXT NOT NULL,
  contract TEXT NOT NULL,
  hire_date TEXT NOT NULL,
  salary REAL NOT NULL,
  weekly_hours REAL NOT NULL
);
CREATE TABLE salary_changes (
  id INTEGER PRIMARY KEY,
  employee_id INTEGER NOT NULL REFERENCES employees(id),
  change_date TEXT NOT NULL,
  old_salary REAL NOT NULL,
  new_salary REAL NOT NULL,
  reason TEXT NOT NULL
);
CREATE TABLE absences (
  id INTEGER PRIMARY KEY,
  employee_id INTEGER NOT NULL REFERENCES employees(id),
  kind TEXT NOT NULL,
  start_date TEXT NOT NULL,
  days REAL
);
CREATE TABLE trainings (
  id INTEGER PRIMARY KEY,
  title TEXT NOT NULL,
  topic TEXT NOT NULL,
  cost REAL NOT NULL,
  mandatory INTEGER NOT NULL
);
CREATE TABLE bookings (
  id INTEGER PRIMARY KEY,
  training_id INTEGER NOT NULL REFERENCES trainings(id),
  employee_id INTEGER NOT NULL REFERENCES employees(id),
  session_date TEXT NOT NULL,
  score INTEGER
);
