CREATE TABLE outbox (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  aggregatetype TEXT NOT NULL,
  aggregateid TEXT NOT NULL,
  type TEXT NOT NULL,
  payload JSON
);
CREATE TABLE purchase_order (
  id TEXT PRIMARY KEY,
  state TEXT NOT NULL
);
