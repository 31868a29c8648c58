CREATE TABLE app_revision (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  data_center TEXT NOT NULL,
  revision TEXT NOT NULL,
  app_name TEXT NOT NULL,
  base_params TEXT,
  service_params TEXT,
  gmt_create TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
  gmt_modified TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
  client_version TEXT,
  deleted BOOLEAN NOT NULL DEFAULT 0,
  UNIQUE (data_center, revision)
);
