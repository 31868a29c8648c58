-- The first of 64 tables of orders; orders_01 to orders_63 are alike. status is 1 for an order that
-- waits and 2 for one that was processed. idx_status is for the scan; bridge does not need it.
CREATE TABLE orders_00 (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  order_no VARCHAR(32) NOT NULL,
  status TINYINT NOT NULL DEFAULT 1,
  created DATETIME(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
  KEY idx_status (status, id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
