-- Orders by the hash of their number. status is 1 for an order that waits and 2 for one that was
-- processed. An index on it is for a scan; bridge does not need it.
CREATE TABLE orders_0 (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  order_no VARCHAR(32) NOT NULL,
  status TINYINT NOT NULL DEFAULT 1,
  created DATETIME(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
CREATE TABLE orders_1 LIKE orders_0;
CREATE TABLE orders_2 LIKE orders_0;
CREATE TABLE orders_3 LIKE orders_0;
