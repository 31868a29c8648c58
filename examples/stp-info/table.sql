-- stp_capability is TGF's table: a row is a capability of an STP, such as the cores of its CPU.
CREATE TABLE stp_capability (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  stp_name VARCHAR(64) NOT NULL,
  capability_key VARCHAR(64) NOT NULL,
  capability_value VARCHAR(255) NOT NULL,
  deleted CHAR(1) NOT NULL DEFAULT 'N',
  gmt_create DATETIME(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
  gmt_modified DATETIME(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3),
  UNIQUE KEY uk_stp_capability (stp_name, capability_key),
  KEY idx_gmt_modified (gmt_modified)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

-- stp_info is STP-Info's own table: bridge does not read it.
CREATE TABLE stp_info (
  stp_name VARCHAR(64) NOT NULL,
  capability_key VARCHAR(64) NOT NULL,
  capability_value VARCHAR(255) NOT NULL,
  PRIMARY KEY (stp_name, capability_key)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
