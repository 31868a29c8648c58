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
