-- bill is a table whose ids come from batches, im_message_0 one whose ids come from a counter.
CREATE TABLE bill (
  id BIGINT UNSIGNED NOT NULL PRIMARY KEY,
  container VARCHAR(32) NOT NULL,
  created DATETIME(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

CREATE TABLE im_message_0 (
  id BIGINT UNSIGNED NOT NULL PRIMARY KEY,
  container VARCHAR(32) NOT NULL,
  created DATETIME(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
