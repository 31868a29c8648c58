CREATE TABLE orders_00 (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  order_no TEXT NOT NULL,
  status INTEGER NOT NULL DEFAULT 1,
  created DATETIME NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now'))
);

CREATE INDEX idx_status_00 ON orders_00 (status, id);
