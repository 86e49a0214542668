CREATE TABLE warehouses (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  city TEXT NOT NULL,
  country TEXT NOT NULL,
  capacity_pallets INTEGER NOT NULL
);

CREATE TABLE vehicles (
  id INTEGER PRIMARY KEY,
  plate TEXT NOT NULL,
  type TEXT NOT NULL,
  payload_kg INTEGER NOT NULL,
  last_service_on TEXT,
  warehouse_id INTEGER REFERENCES warehouses(id)
);

CREATE TABLE drivers (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  licence_class TEXT NOT NULL,
  hired_on TEXT NOT NULL,
  hourly_wage REAL NOT NULL,
  warehouse_id INTEGER NOT NULL REFERENCES warehouses(id)
);

CREATE TABLE shipments (
  id INTEGER PRIMARY KEY,
  reference TEXT NOT NULL,
  customer TEXT NOT NULL,
  weight_kg REAL NOT NULL,
  price REAL NOT NULL,
  status TEXT NOT NULL,
  booked_on TEXT NOT NULL,
  delivered_on TEXT,
  warehouse_id INTEGER NOT NULL REFERENCES warehouses(id)
);

CREATE TABLE stops (
  id INTEGER PRIMARY KEY,
  city TEXT NOT NULL,
  planned_on TEXT NOT NULL,
  distance_km REAL NOT NULL,
  delay_minutes INTEGER,
  shipment_id INTEGER NOT NULL REFERENCES shipments(id),
  driver_id INTEGER NOT NULL REFERENCES drivers(id),
  vehicle_id INTEGER NOT NULL REFERENCES vehicles(id)
);
