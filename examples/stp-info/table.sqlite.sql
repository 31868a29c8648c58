CREATE TABLE stp_capability (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  stp_name TEXT NOT NULL,
  capability_key TEXT NOT NULL,
  capability_value TEXT NOT NULL,
  deleted CHAR(1) NOT NULL DEFAULT 'N',
  gmt_create DATETIME NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')),
  gmt_modified DATETIME NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')),
  UNIQUE (stp_name, capability_key)
);
CREATE INDEX idx_gmt_modified ON stp_capability (gmt_modified);

CREATE TABLE stp_info (
  stp_name TEXT NOT NULL,
  capability_key TEXT NOT NULL,
  capability_value TEXT NOT NULL,
  PRIMARY KEY (stp_name, capability_key)
);
