-- Tables of Nacos that number their rows.

CREATE TABLE `config_info` (
  `id` bigint(20) NOT NULL AUTO_INCREMENT,
  `data_id` varchar(255) NOT NULL,
  `group_id` varchar(128) DEFAULT NULL,
  `content` longtext NOT NULL,
  `md5` varchar(32) DEFAULT NULL,
  `gmt_create` datetime NOT NULL DEFAULT CURRENT_TIMESTAMP,
  `gmt_modified` datetime NOT NULL DEFAULT CURRENT_TIMESTAMP,
  `src_user` text,
  `src_ip` varchar(50) DEFAULT NULL,
  `app_name` varchar(128) DEFAULT NULL,
  `tenant_id` varchar(128) DEFAULT '',
  `c_desc` varchar(256) DEFAULT NULL,
  `c_use` varchar(64) DEFAULT NULL,
  `effect` varchar(64) DEFAULT NULL,
  `type` varchar(64) DEFAULT NULL,
  `c_schema` text,
  `encrypted_data_key` varchar(1024) NOT NULL DEFAULT '',
  PRIMARY KEY (`id`),
  UNIQUE KEY `uk_config_info` (`data_id`, `group_id`, `tenant_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE `config_info_aggr` (
  `id` bigint(20) NOT NULL AUTO_INCREMENT,
  `data_id` varchar(255) NOT NULL,
  `group_id` varchar(128) NOT NULL,
  `datum_id` varchar(255) NOT NULL,
  `content` longtext NOT NULL,
  `gmt_modified` datetime NOT NULL DEFAULT CURRENT_TIMESTAMP,
  `app_name` varchar(128) DEFAULT NULL,
  `tenant_id` varchar(128) DEFAULT '',
  PRIMARY KEY (`id`),
  UNIQUE KEY `uk_config_info_aggr` (`data_id`, `group_id`, `tenant_id`, `datum_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE `config_info_gray` (
  `id` bigint(20) NOT NULL AUTO_INCREMENT,
  `data_id` varchar(255) NOT NULL,
  `group_id` varchar(128) NOT NULL,
  `content` longtext NOT NULL,
  `md5` varchar(32) DEFAULT NULL,
  `src_user` text,
  `src_ip` varchar(50) DEFAULT NULL,
  `gmt_create` datetime(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
  `gmt_modified` datetime(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
  `app_name` varchar(128) DEFAULT NULL,
  `tenant_id` varchar(128) DEFAULT '',
  `gray_name` varchar(128) NOT NULL,
  `gray_rule` text NOT NULL,
  `encrypted_data_key` varchar(256) NOT NULL DEFAULT '',
  PRIMARY KEY (`id`),
  UNIQUE KEY `uk_config_info_gray` (`data_id`, `group_id`, `tenant_id`, `gray_name`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE `config_info_beta` (
  `id` bigint(20) NOT NULL AUTO_INCREMENT,
  `data_id` varchar(255) NOT NULL,
  `group_id` varchar(128) NOT NULL,
  `app_name` varchar(128) DEFAULT NULL,
  `content` longtext NOT NULL,
  `beta_ips` varchar(1024) DEFAULT NULL,
  `md5` varchar(32) DEFAULT NULL,
  `gmt_create` datetime NOT NULL DEFAULT CURRENT_TIMESTAMP,
  `gmt_modified` datetime NOT NULL DEFAULT CURRENT_TIMESTAMP,
  `src_user` text,
  `src_ip` varchar(50) DEFAULT NULL,
  `tenant_id` varchar(128) DEFAULT '',
  PRIMARY KEY (`id`),
  UNIQUE KEY `uk_config_info_beta` (`data_id`, `group_id`, `tenant_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE `config_info_tag` (
  `id` bigint(20) NOT NULL AUTO_INCREMENT,
  `data_id` varchar(255) NOT NULL,
  `group_id` varchar(128) NOT NULL,
  `tenant_id` varchar(128) DEFAULT '',
  `tag_id` varchar(128) NOT NULL,
  `app_name` varchar(128) DEFAULT NULL,
  `content` longtext NOT NULL,
  `md5` varchar(32) DEFAULT NULL,
  `gmt_create` datetime NOT NULL DEFAULT CURRENT_TIMESTAMP,
  `gmt_modified` datetime NOT NULL DEFAULT CURRENT_TIMESTAMP,
  `src_user` text,
  `src_ip` varchar(50) DEFAULT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uk_config_info_tag` (`data_id`, `group_id`, `tenant_id`, `tag_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE `config_tags_relation` (
  `nid` bigint(20) NOT NULL AUTO_INCREMENT,
  `id` bigint(20) NOT NULL,
  `tag_name` varchar(128) NOT NULL,
  `tag_type` varchar(64) DEFAULT NULL,
  `data_id` varchar(255) NOT NULL,
  `group_id` varchar(128) NOT NULL,
  `tenant_id` varchar(128) DEFAULT '',
  PRIMARY KEY (`nid`),
  UNIQUE KEY `uk_config_tags_relation` (`id`, `tag_name`, `tag_type`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE `group_capacity` (
  `id` bigint(20) unsigned NOT NULL AUTO_INCREMENT,
  `group_id` varchar(128) NOT NULL DEFAULT '',
  `quota` int(10) unsigned NOT NULL DEFAULT '0',
  `usage` int(10) unsigned NOT NULL DEFAULT '0',
  `max_size` int(10) unsigned NOT NULL DEFAULT '0',
  `max_aggr_count` int(10) unsigned NOT NULL DEFAULT '0',
  `max_history_count` int(10) unsigned NOT NULL DEFAULT '0',
  `gmt_create` datetime NOT NULL DEFAULT CURRENT_TIMESTAMP,
  `gmt_modified` datetime NOT NULL DEFAULT CURRENT_TIMESTAMP,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uk_group_capacity` (`group_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE `tenant_capacity` (
  `id` bigint(20) unsigned NOT NULL AUTO_INCREMENT,
  `tenant_id` varchar(128) NOT NULL DEFAULT '',
  `quota` int(10) unsigned NOT NULL DEFAULT '0',
  `usage` int(10) unsigned NOT NULL DEFAULT '0',
  `max_size` int(10) unsigned NOT NULL DEFAULT '0',
  `max_aggr_count` int(10) unsigned NOT NULL DEFAULT '0',
  `max_history_count` int(10) unsigned NOT NULL DEFAULT '0',
  `gmt_create` datetime NOT NULL DEFAULT CURRENT_TIMESTAMP,
  `gmt_modified` datetime NOT NULL DEFAULT CURRENT_TIMESTAMP,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uk_tenant_capacity` (`tenant_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE `his_config_info` (
  `nid` bigint(20) unsigned NOT NULL AUTO_INCREMENT,
  `id` bigint(20) unsigned NOT NULL,
  `data_id` varchar(255) NOT NULL,
  `group_id` varchar(128) NOT NULL,
  `app_name` varchar(128) DEFAULT NULL,
  `content` longtext NOT NULL,
  `md5` varchar(32) DEFAULT NULL,
  `gmt_create` datetime NOT NULL DEFAULT CURRENT_TIMESTAMP,
  `gmt_modified` datetime NOT NULL DEFAULT CURRENT_TIMESTAMP,
  `src_user` text,
  `src_ip` varchar(50) DEFAULT NULL,
  `op_type` char(10) DEFAULT NULL,
  `tenant_id` varchar(128) DEFAULT '',
  `publish_type` varchar(50) DEFAULT 'formal',
  `ext_info` longtext,
  PRIMARY KEY (`nid`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE `tenant_info` (
  `id` bigint(20) NOT NULL AUTO_INCREMENT,
  `kp` varchar(128) NOT NULL,
  `tenant_id` varchar(128) DEFAULT '',
  `tenant_name` varchar(128) DEFAULT '',
  `tenant_desc` varchar(256) DEFAULT NULL,
  `create_source` varchar(32) DEFAULT NULL,
  `gmt_create` bigint(20) NOT NULL,
  `gmt_modified` bigint(20) NOT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uk_tenant_info` (`kp`, `tenant_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Five rows of each table: in the last one what may be NULL is NULL.

INSERT INTO `config_info` (`data_id`, `group_id`, `content`, `md5`, `gmt_create`, `gmt_modified`, `src_user`, `src_ip`, `app_name`, `tenant_id`, `c_desc`, `c_use`, `effect`, `type`, `c_schema`, `encrypted_data_key`) VALUES
  ('1配置 "data_id" line\n1', '1配置 "group_id" line\n2', '1配置 "content" line\n3', '1配置 "md5" line\n4', '2026-01-02 03:04:05', '2026-01-02 03:04:05', '1配置 "src_user" line\n7', '1配置 "src_ip" line\n8', '1配置 "app_name" line\n9', '1配置 "tenant_id" line\n10', '1配置 "c_desc" line\n11', '1配置 "c_use" line\n12', '1配置 "effect" line\n13', '1配置 "type" line\n14', '1配置 "c_schema" line\n15', '1配置 "encrypted_data_key" line\n16'),
  ('2配置 "data_id" line\n1', '2配置 "group_id" line\n2', '2配置 "content" line\n3', '2配置 "md5" line\n4', '2026-02-02 03:04:05', '2026-02-02 03:04:05', '2配置 "src_user" line\n7', '2配置 "src_ip" line\n8', '2配置 "app_name" line\n9', '2配置 "tenant_id" line\n10', '2配置 "c_desc" line\n11', '2配置 "c_use" line\n12', '2配置 "effect" line\n13', '2配置 "type" line\n14', '2配置 "c_schema" line\n15', '2配置 "encrypted_data_key" line\n16'),
  ('3配置 "data_id" line\n1', '3配置 "group_id" line\n2', '3配置 "content" line\n3', '3配置 "md5" line\n4', '2026-03-02 03:04:05', '2026-03-02 03:04:05', '3配置 "src_user" line\n7', '3配置 "src_ip" line\n8', '3配置 "app_name" line\n9', '3配置 "tenant_id" line\n10', '3配置 "c_desc" line\n11', '3配置 "c_use" line\n12', '3配置 "effect" line\n13', '3配置 "type" line\n14', '3配置 "c_schema" line\n15', '3配置 "encrypted_data_key" line\n16'),
  ('4配置 "data_id" line\n1', '4配置 "group_id" line\n2', '4配置 "content" line\n3', '4配置 "md5" line\n4', '2026-04-02 03:04:05', '2026-04-02 03:04:05', '4配置 "src_user" line\n7', '4配置 "src_ip" line\n8', '4配置 "app_name" line\n9', '4配置 "tenant_id" line\n10', '4配置 "c_desc" line\n11', '4配置 "c_use" line\n12', '4配置 "effect" line\n13', '4配置 "type" line\n14', '4配置 "c_schema" line\n15', '4配置 "encrypted_data_key" line\n16'),
  ('5配置 "data_id" line\n1', '5配置 "group_id" line\n2', '5配置 "content" line\n3', NULL, '2026-05-02 03:04:05', '2026-05-02 03:04:05', NULL, NULL, NULL, '5配置 "tenant_id" line\n10', NULL, NULL, NULL, NULL, NULL, '5配置 "encrypted_data_key" line\n16');

INSERT INTO `config_info_aggr` (`data_id`, `group_id`, `datum_id`, `content`, `gmt_modified`, `app_name`, `tenant_id`) VALUES
  ('1配置 "data_id" line\n1', '1配置 "group_id" line\n2', '1配置 "datum_id" line\n3', '1配置 "content" line\n4', '2026-01-02 03:04:05', '1配置 "app_name" line\n6', '1配置 "tenant_id" line\n7'),
  ('2配置 "data_id" line\n1', '2配置 "group_id" line\n2', '2配置 "datum_id" line\n3', '2配置 "content" line\n4', '2026-02-02 03:04:05', '2配置 "app_name" line\n6', '2配置 "tenant_id" line\n7'),
  ('3配置 "data_id" line\n1', '3配置 "group_id" line\n2', '3配置 "datum_id" line\n3', '3配置 "content" line\n4', '2026-03-02 03:04:05', '3配置 "app_name" line\n6', '3配置 "tenant_id" line\n7'),
  ('4配置 "data_id" line\n1', '4配置 "group_id" line\n2', '4配置 "datum_id" line\n3', '4配置 "content" line\n4', '2026-04-02 03:04:05', '4配置 "app_name" line\n6', '4配置 "tenant_id" line\n7'),
  ('5配置 "data_id" line\n1', '5配置 "group_id" line\n2', '5配置 "datum_id" line\n3', '5配置 "content" line\n4', '2026-05-02 03:04:05', NULL, '5配置 "tenant_id" line\n7');

INSERT INTO `config_info_gray` (`data_id`, `group_id`, `content`, `md5`, `src_user`, `src_ip`, `gmt_create`, `gmt_modified`, `app_name`, `tenant_id`, `gray_name`, `gray_rule`, `encrypted_data_key`) VALUES
  ('1配置 "data_id" line\n1', '1配置 "group_id" line\n2', '1配置 "content" line\n3', '1配置 "md5" line\n4', '1配置 "src_user" line\n5', '1配置 "src_ip" line\n6', '2026-01-02 03:04:05', '2026-01-02 03:04:05', '1配置 "app_name" line\n9', '1配置 "tenant_id" line\n10', '1配置 "gray_name" line\n11', '1配置 "gray_rule" line\n12', '1配置 "encrypted_data_key" line\n13'),
  ('2配置 "data_id" line\n1', '2配置 "group_id" line\n2', '2配置 "content" line\n3', '2配置 "md5" line\n4', '2配置 "src_user" line\n5', '2配置 "src_ip" line\n6', '2026-02-02 03:04:05', '2026-02-02 03:04:05', '2配置 "app_name" line\n9', '2配置 "tenant_id" line\n10', '2配置 "gray_name" line\n11', '2配置 "gray_rule" line\n12', '2配置 "encrypted_data_key" line\n13'),
  ('3配置 "data_id" line\n1', '3配置 "group_id" line\n2', '3配置 "content" line\n3', '3配置 "md5" line\n4', '3配置 "src_user" line\n5', '3配置 "src_ip" line\n6', '2026-03-02 03:04:05', '2026-03-02 03:04:05', '3配置 "app_name" line\n9', '3配置 "tenant_id" line\n10', '3配置 "gray_name" line\n11', '3配置 "gray_rule" line\n12', '3配置 "encrypted_data_key" line\n13'),
  ('4配置 "data_id" line\n1', '4配置 "group_id" line\n2', '4配置 "content" line\n3', '4配置 "md5" line\n4', '4配置 "src_user" line\n5', '4配置 "src_ip" line\n6', '2026-04-02 03:04:05', '2026-04-02 03:04:05', '4配置 "app_name" line\n9', '4配置 "tenant_id" line\n10', '4配置 "gray_name" line\n11', '4配置 "gray_rule" line\n12', '4配置 "encrypted_data_key" line\n13'),
  ('5配置 "data_id" line\n1', '5配置 "group_id" line\n2', '5配置 "content" line\n3', NULL, NULL, NULL, '2026-05-02 03:04:05', '2026-05-02 03:04:05', NULL, '5配置 "tenant_id" line\n10', '5配置 "gray_name" line\n11', '5配置 "gray_rule" line\n12', '5配置 "encrypted_data_key" line\n13');

INSERT INTO `config_info_beta` (`data_id`, `group_id`, `app_name`, `content`, `beta_ips`, `md5`, `gmt_create`, `gmt_modified`, `src_user`, `src_ip`, `tenant_id`) VALUES
  ('1配置 "data_id" line\n1', '1配置 "group_id" line\n2', '1配置 "app_name" line\n3', '1配置 "content" line\n4', '1配置 "beta_ips" line\n5', '1配置 "md5" line\n6', '2026-01-02 03:04:05', '2026-01-02 03:04:05', '1配置 "src_user" line\n9', '1配置 "src_ip" line\n10', '1配置 "tenant_id" line\n11'),
  ('2配置 "data_id" line\n1', '2配置 "group_id" line\n2', '2配置 "app_name" line\n3', '2配置 "content" line\n4', '2配置 "beta_ips" line\n5', '2配置 "md5" line\n6', '2026-02-02 03:04:05', '2026-02-02 03:04:05', '2配置 "src_user" line\n9', '2配置 "src_ip" line\n10', '2配置 "tenant_id" line\n11'),
  ('3配置 "data_id" line\n1', '3配置 "group_id" line\n2', '3配置 "app_name" line\n3', '3配置 "content" line\n4', '3配置 "beta_ips" line\n5', '3配置 "md5" line\n6', '2026-03-02 03:04:05', '2026-03-02 03:04:05', '3配置 "src_user" line\n9', '3配置 "src_ip" line\n10', '3配置 "tenant_id" line\n11'),
  ('4配置 "data_id" line\n1', '4配置 "group_id" line\n2', '4配置 "app_name" line\n3', '4配置 "content" line\n4', '4配置 "beta_ips" line\n5', '4配置 "md5" line\n6', '2026-04-02 03:04:05', '2026-04-02 03:04:05', '4配置 "src_user" line\n9', '4配置 "src_ip" line\n10', '4配置 "tenant_id" line\n11'),
  ('5配置 "data_id" line\n1', '5配置 "group_id" line\n2', NULL, '5配置 "content" line\n4', NULL, NULL, '2026-05-02 03:04:05', '2026-05-02 03:04:05', NULL, NULL, '5配置 "tenant_id" line\n11');

INSERT INTO `config_info_tag` (`data_id`, `group_id`, `tenant_id`, `tag_id`, `app_name`, `content`, `md5`, `gmt_create`, `gmt_modified`, `src_user`, `src_ip`) VALUES
  ('1配置 "data_id" line\n1', '1配置 "group_id" line\n2', '1配置 "tenant_id" line\n3', '1配置 "tag_id" line\n4', '1配置 "app_name" line\n5', '1配置 "content" line\n6', '1配置 "md5" line\n7', '2026-01-02 03:04:05', '2026-01-02 03:04:05', '1配置 "src_user" line\n10', '1配置 "src_ip" line\n11'),
  ('2配置 "data_id" line\n1', '2配置 "group_id" line\n2', '2配置 "tenant_id" line\n3', '2配置 "tag_id" line\n4', '2配置 "app_name" line\n5', '2配置 "content" line\n6', '2配置 "md5" line\n7', '2026-02-02 03:04:05', '2026-02-02 03:04:05', '2配置 "src_user" line\n10', '2配置 "src_ip" line\n11'),
  ('3配置 "data_id" line\n1', '3配置 "group_id" line\n2', '3配置 "tenant_id" line\n3', '3配置 "tag_id" line\n4', '3配置 "app_name" line\n5', '3配置 "content" line\n6', '3配置 "md5" line\n7', '2026-03-02 03:04:05', '2026-03-02 03:04:05', '3配置 "src_user" line\n10', '3配置 "src_ip" line\n11'),
  ('4配置 "data_id" line\n1', '4配置 "group_id" line\n2', '4配置 "tenant_id" line\n3', '4配置 "tag_id" line\n4', '4配置 "app_name" line\n5', '4配置 "content" line\n6', '4配置 "md5" line\n7', '2026-04-02 03:04:05', '2026-04-02 03:04:05', '4配置 "src_user" line\n10', '4配置 "src_ip" line\n11'),
  ('5配置 "data_id" line\n1', '5配置 "group_id" line\n2', '5配置 "tenant_id" line\n3', '5配置 "tag_id" line\n4', NULL, '5配置 "content" line\n6', NULL, '2026-05-02 03:04:05', '2026-05-02 03:04:05', NULL, NULL);

INSERT INTO `config_tags_relation` (`id`, `tag_name`, `tag_type`, `data_id`, `group_id`, `tenant_id`) VALUES
  (1001, '1配置 "tag_name" line\n2', '1配置 "tag_type" line\n3', '1配置 "data_id" line\n4', '1配置 "group_id" line\n5', '1配置 "tenant_id" line\n6'),
  (2001, '2配置 "tag_name" line\n2', '2配置 "tag_type" line\n3', '2配置 "data_id" line\n4', '2配置 "group_id" line\n5', '2配置 "tenant_id" line\n6'),
  (3001, '3配置 "tag_name" line\n2', '3配置 "tag_type" line\n3', '3配置 "data_id" line\n4', '3配置 "group_id" line\n5', '3配置 "tenant_id" line\n6'),
  (4001, '4配置 "tag_name" line\n2', '4配置 "tag_type" line\n3', '4配置 "data_id" line\n4', '4配置 "group_id" line\n5', '4配置 "tenant_id" line\n6'),
  (5001, '5配置 "tag_name" line\n2', '5配置 "tag_type" line\n3', '5配置 "data_id" line\n4', '5配置 "group_id" line\n5', NULL);

INSERT INTO `group_capacity` (`group_id`, `quota`, `usage`, `max_size`, `max_aggr_count`, `max_history_count`, `gmt_create`, `gmt_modified`) VALUES
  ('1配置 "group_id" line\n1', 1002, 1003, 1004, 1005, 1006, '2026-01-02 03:04:05', '2026-01-02 03:04:05'),
  ('2配置 "group_id" line\n1', 2002, 2003, 2004, 2005, 2006, '2026-02-02 03:04:05', '2026-02-02 03:04:05'),
  ('3配置 "group_id" line\n1', 3002, 3003, 3004, 3005, 3006, '2026-03-02 03:04:05', '2026-03-02 03:04:05'),
  ('4配置 "group_id" line\n1', 4002, 4003, 4004, 4005, 4006, '2026-04-02 03:04:05', '2026-04-02 03:04:05'),
  ('5配置 "group_id" line\n1', 5002, 5003, 5004, 5005, 5006, '2026-05-02 03:04:05', '2026-05-02 03:04:05');

INSERT INTO `tenant_capacity` (`tenant_id`, `quota`, `usage`, `max_size`, `max_aggr_count`, `max_history_count`, `gmt_create`, `gmt_modified`) VALUES
  ('1配置 "tenant_id" line\n1', 1002, 1003, 1004, 1005, 1006, '2026-01-02 03:04:05', '2026-01-02 03:04:05'),
  ('2配置 "tenant_id" line\n1', 2002, 2003, 2004, 2005, 2006, '2026-02-02 03:04:05', '2026-02-02 03:04:05'),
  ('3配置 "tenant_id" line\n1', 3002, 3003, 3004, 3005, 3006, '2026-03-02 03:04:05', '2026-03-02 03:04:05'),
  ('4配置 "tenant_id" line\n1', 4002, 4003, 4004, 4005, 4006, '2026-04-02 03:04:05', '2026-04-02 03:04:05'),
  ('5配置 "tenant_id" line\n1', 5002, 5003, 5004, 5005, 5006, '2026-05-02 03:04:05', '2026-05-02 03:04:05');

INSERT INTO `his_config_info` (`id`, `data_id`, `group_id`, `app_name`, `content`, `md5`, `gmt_create`, `gmt_modified`, `src_user`, `src_ip`, `op_type`, `tenant_id`, `publish_type`, `ext_info`) VALUES
  (1001, '1配置 "data_id" line\n2', '1配置 "group_id" line\n3', '1配置 "app_name" line\n4', '1配置 "content" line\n5', '1配置 "md5" line\n6', '2026-01-02 03:04:05', '2026-01-02 03:04:05', '1配置 "src_user" line\n9', '1配置 "src_ip" line\n10', '1配置 "op_ty', '1配置 "tenant_id" line\n12', '1配置 "publish_type" line\n13', '1配置 "ext_info" line\n14'),
  (2001, '2配置 "data_id" line\n2', '2配置 "group_id" line\n3', '2配置 "app_name" line\n4', '2配置 "content" line\n5', '2配置 "md5" line\n6', '2026-02-02 03:04:05', '2026-02-02 03:04:05', '2配置 "src_user" line\n9', '2配置 "src_ip" line\n10', '2配置 "op_ty', '2配置 "tenant_id" line\n12', '2配置 "publish_type" line\n13', '2配置 "ext_info" line\n14'),
  (3001, '3配置 "data_id" line\n2', '3配置 "group_id" line\n3', '3配置 "app_name" line\n4', '3配置 "content" line\n5', '3配置 "md5" line\n6', '2026-03-02 03:04:05', '2026-03-02 03:04:05', '3配置 "src_user" line\n9', '3配置 "src_ip" line\n10', '3配置 "op_ty', '3配置 "tenant_id" line\n12', '3配置 "publish_type" line\n13', '3配置 "ext_info" line\n14'),
  (4001, '4配置 "data_id" line\n2', '4配置 "group_id" line\n3', '4配置 "app_name" line\n4', '4配置 "content" line\n5', '4配置 "md5" line\n6', '2026-04-02 03:04:05', '2026-04-02 03:04:05', '4配置 "src_user" line\n9', '4配置 "src_ip" line\n10', '4配置 "op_ty', '4配置 "tenant_id" line\n12', '4配置 "publish_type" line\n13', '4配置 "ext_info" line\n14'),
  (5001, '5配置 "data_id" line\n2', '5配置 "group_id" line\n3', NULL, '5配置 "content" line\n5', NULL, '2026-05-02 03:04:05', '2026-05-02 03:04:05', NULL, NULL, NULL, NULL, NULL, NULL);

INSERT INTO `tenant_info` (`kp`, `tenant_id`, `tenant_name`, `tenant_desc`, `create_source`, `gmt_create`, `gmt_modified`) VALUES
  ('1配置 "kp" line\n1', '1配置 "tenant_id" line\n2', '1配置 "tenant_name" line\n3', '1配置 "tenant_desc" line\n4', '1配置 "create_source" line\n5', 1006, 1007),
  ('2配置 "kp" line\n1', '2配置 "tenant_id" line\n2', '2配置 "tenant_name" line\n3', '2配置 "tenant_desc" line\n4', '2配置 "create_source" line\n5', 2006, 2007),
  ('3配置 "kp" line\n1', '3配置 "tenant_id" line\n2', '3配置 "tenant_name" line\n3', '3配置 "tenant_desc" line\n4', '3配置 "create_source" line\n5', 3006, 3007),
  ('4配置 "kp" line\n1', '4配置 "tenant_id" line\n2', '4配置 "tenant_name" line\n3', '4配置 "tenant_desc" line\n4', '4配置 "create_source" line\n5', 4006, 4007),
  ('5配置 "kp" line\n1', '5配置 "tenant_id" line\n2', NULL, NULL, NULL, 5006, 5007);
