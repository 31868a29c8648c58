-- The issuer's own tables: batches of numbers for everybody, and counters that are moved for each
-- request. Bridge does not read them. Upstream has 64 tables of counters, here are four.
CREATE TABLE ng_business_mysql_autoincrement (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  business VARCHAR(64) NOT NULL,
  version BIGINT UNSIGNED NOT NULL,
  UNIQUE KEY uk_business (business)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

CREATE TABLE ng_business_slowordered_0 (
  sub_business VARCHAR(64) NOT NULL PRIMARY KEY,
  num BIGINT UNSIGNED NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

-- bill is a table whose ids come from batches, im_message one whose ids come from a counter.
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
