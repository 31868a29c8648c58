-- Two tables to try bridge with, and a login that may only read them.
CREATE DATABASE IF NOT EXISTS shop;
USE shop;
-- A row is a fact: an order that was placed.
CREATE TABLE IF NOT EXISTS orders (
  id       bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY,
  customer varchar(64)     NOT NULL,
  total    decimal(12,2)   NOT NULL,
  created  datetime(6)     NOT NULL DEFAULT CURRENT_TIMESTAMP(6)
);
-- A row is the current state of an entity: how much of a product there is.
CREATE TABLE IF NOT EXISTS stock (
  id       bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY,
  sku      varchar(64)     NOT NULL,
  quantity int             NOT NULL,
  modified datetime(6)     NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6),
  UNIQUE KEY (sku),
  KEY (modified)
);
-- Both, because an anonymous local user would match before '%'.
CREATE USER IF NOT EXISTS 'bridge'@'%' IDENTIFIED BY 'secret';
CREATE USER IF NOT EXISTS 'bridge'@'localhost' IDENTIFIED BY 'secret';
GRANT SELECT ON shop.* TO 'bridge'@'%';
GRANT SELECT ON shop.* TO 'bridge'@'localhost';
INSERT INTO orders (customer, total) VALUES ('ada', 12.50), ('grace', 7.25), ('edsger', 99.00);
INSERT INTO stock (sku, quantity) VALUES ('lamp', 5), ('chair', 2);
