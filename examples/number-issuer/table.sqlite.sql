CREATE TABLE ng_business_mysql_autoincrement (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  business TEXT NOT NULL UNIQUE,
  version INTEGER NOT NULL
);

CREATE TABLE ng_business_slowordered_0 (
  sub_business TEXT NOT NULL PRIMARY KEY,
  num INTEGER NOT NULL
);

CREATE TABLE bill (
  id INTEGER PRIMARY KEY,
  container TEXT NOT NULL,
  created DATETIME NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now'))
);

CREATE TABLE im_message_0 (
  id INTEGER PRIMARY KEY,
  container TEXT NOT NULL,
  created DATETIME NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now'))
);
