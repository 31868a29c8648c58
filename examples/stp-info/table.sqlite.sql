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
CREATE TRIGGER stp_capability_modified AFTER UPDATE OF capability_value, deleted ON stp_capability BEGIN
  UPDATE stp_capability SET gmt_modified = strftime('%Y-%m-%d %H:%M:%f', 'now') WHERE id = NEW.id;
END;

CREATE TABLE stp_info (
  stp_name TEXT NOT NULL,
  capability_key TEXT NOT NULL,
  capability_value TEXT NOT NULL,
  PRIMARY KEY (stp_name, capability_key)
);
