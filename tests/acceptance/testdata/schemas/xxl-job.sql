-- Tables of XXL-JOB that number their rows.

CREATE TABLE `xxl_job_info` (
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `job_group` int(11) NOT NULL,
  `job_desc` varchar(255) NOT NULL,
  `add_time` datetime DEFAULT NULL,
  `update_time` datetime DEFAULT NULL,
  `author` varchar(64) DEFAULT NULL,
  `alarm_email` varchar(255) DEFAULT NULL,
  `schedule_type` varchar(50) NOT NULL DEFAULT 'NONE',
  `schedule_conf` varchar(128) DEFAULT NULL,
  `misfire_strategy` varchar(50) NOT NULL DEFAULT 'DO_NOTHING',
  `executor_route_strategy` varchar(50) DEFAULT NULL,
  `executor_handler` varchar(255) DEFAULT NULL,
  `executor_param` varchar(512) DEFAULT NULL,
  `executor_block_strategy` varchar(50) DEFAULT NULL,
  `executor_timeout` int(11) NOT NULL DEFAULT '0',
  `executor_fail_retry_count` int(11) NOT NULL DEFAULT '0',
  `glue_type` varchar(50) NOT NULL,
  `glue_source` mediumtext,
  `glue_remark` varchar(128) DEFAULT NULL,
  `glue_updatetime` datetime DEFAULT NULL,
  `child_jobid` varchar(255) DEFAULT NULL,
  `trigger_status` tinyint(4) NOT NULL DEFAULT '0',
  `trigger_last_time` bigint(13) NOT NULL DEFAULT '0',
  `trigger_next_time` bigint(13) NOT NULL DEFAULT '0',
  PRIMARY KEY (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

CREATE TABLE `xxl_job_log` (
  `id` bigint(20) NOT NULL AUTO_INCREMENT,
  `job_group` int(11) NOT NULL,
  `job_id` int(11) NOT NULL,
  `executor_address` varchar(255) DEFAULT NULL,
  `executor_handler` varchar(255) DEFAULT NULL,
  `executor_param` varchar(512) DEFAULT NULL,
  `executor_sharding_param` varchar(20) DEFAULT NULL,
  `executor_fail_retry_count` int(11) NOT NULL DEFAULT '0',
  `trigger_time` datetime DEFAULT NULL,
  `trigger_code` int(11) NOT NULL,
  `trigger_msg` text,
  `handle_time` datetime DEFAULT NULL,
  `handle_code` int(11) NOT NULL,
  `handle_msg` text,
  `alarm_status` tinyint(4) NOT NULL DEFAULT '0',
  PRIMARY KEY (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

CREATE TABLE `xxl_job_log_report` (
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `trigger_day` datetime DEFAULT NULL,
  `running_count` int(11) NOT NULL DEFAULT '0',
  `suc_count` int(11) NOT NULL DEFAULT '0',
  `fail_count` int(11) NOT NULL DEFAULT '0',
  `update_time` datetime DEFAULT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `i_unique` (`trigger_day`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

CREATE TABLE `xxl_job_logglue` (
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `job_id` int(11) NOT NULL,
  `glue_type` varchar(50) DEFAULT NULL,
  `glue_source` mediumtext,
  `glue_remark` varchar(128) NOT NULL,
  `add_time` datetime DEFAULT NULL,
  `update_time` datetime DEFAULT NULL,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

CREATE TABLE `xxl_job_registry` (
  `id` bigint(20) NOT NULL AUTO_INCREMENT,
  `registry_group` varchar(50) NOT NULL,
  `registry_key` varchar(255) NOT NULL,
  `registry_value` varchar(255) NOT NULL,
  `update_time` datetime DEFAULT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `i_unique` (`registry_group`, `registry_key`, `registry_value`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

CREATE TABLE `xxl_job_group` (
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `app_name` varchar(64) NOT NULL,
  `title` varchar(12) NOT NULL,
  `address_type` tinyint(4) NOT NULL DEFAULT '0',
  `address_list` text,
  `update_time` datetime DEFAULT NULL,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

CREATE TABLE `xxl_job_user` (
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `username` varchar(50) NOT NULL,
  `password` varchar(100) NOT NULL,
  `token` varchar(100) DEFAULT NULL,
  `role` tinyint(4) NOT NULL,
  `permission` varchar(255) DEFAULT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `i_unique` (`username`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

-- Five rows of each table: in the last one what may be NULL is NULL.

INSERT INTO `xxl_job_info` (`job_group`, `job_desc`, `add_time`, `update_time`, `author`, `alarm_email`, `schedule_type`, `schedule_conf`, `misfire_strategy`, `executor_route_strategy`, `executor_handler`, `executor_param`, `executor_block_strategy`, `executor_timeout`, `executor_fail_retry_count`, `glue_type`, `glue_source`, `glue_remark`, `glue_updatetime`, `child_jobid`, `trigger_status`, `trigger_last_time`, `trigger_next_time`) VALUES
  (1001, '1配置 "job_desc" line\n2', '2026-01-02 03:04:05', '2026-01-02 03:04:05', '1配置 "author" line\n5', '1配置 "alarm_email" line\n6', '1配置 "schedule_type" line\n7', '1配置 "schedule_conf" line\n8', '1配置 "misfire_strategy" line\n9', '1配置 "executor_route_strategy" line\n10', '1配置 "executor_handler" line\n11', '1配置 "executor_param" line\n12', '1配置 "executor_block_strategy" line\n13', 1014, 1015, '1配置 "glue_type" line\n16', '1配置 "glue_source" line\n17', '1配置 "glue_remark" line\n18', '2026-01-02 03:04:05', '1配置 "child_jobid" line\n20', 1, 1022, 1023),
  (2001, '2配置 "job_desc" line\n2', '2026-02-02 03:04:05', '2026-02-02 03:04:05', '2配置 "author" line\n5', '2配置 "alarm_email" line\n6', '2配置 "schedule_type" line\n7', '2配置 "schedule_conf" line\n8', '2配置 "misfire_strategy" line\n9', '2配置 "executor_route_strategy" line\n10', '2配置 "executor_handler" line\n11', '2配置 "executor_param" line\n12', '2配置 "executor_block_strategy" line\n13', 2014, 2015, '2配置 "glue_type" line\n16', '2配置 "glue_source" line\n17', '2配置 "glue_remark" line\n18', '2026-02-02 03:04:05', '2配置 "child_jobid" line\n20', 2, 2022, 2023),
  (3001, '3配置 "job_desc" line\n2', '2026-03-02 03:04:05', '2026-03-02 03:04:05', '3配置 "author" line\n5', '3配置 "alarm_email" line\n6', '3配置 "schedule_type" line\n7', '3配置 "schedule_conf" line\n8', '3配置 "misfire_strategy" line\n9', '3配置 "executor_route_strategy" line\n10', '3配置 "executor_handler" line\n11', '3配置 "executor_param" line\n12', '3配置 "executor_block_strategy" line\n13', 3014, 3015, '3配置 "glue_type" line\n16', '3配置 "glue_source" line\n17', '3配置 "glue_remark" line\n18', '2026-03-02 03:04:05', '3配置 "child_jobid" line\n20', 3, 3022, 3023),
  (4001, '4配置 "job_desc" line\n2', '2026-04-02 03:04:05', '2026-04-02 03:04:05', '4配置 "author" line\n5', '4配置 "alarm_email" line\n6', '4配置 "schedule_type" line\n7', '4配置 "schedule_conf" line\n8', '4配置 "misfire_strategy" line\n9', '4配置 "executor_route_strategy" line\n10', '4配置 "executor_handler" line\n11', '4配置 "executor_param" line\n12', '4配置 "executor_block_strategy" line\n13', 4014, 4015, '4配置 "glue_type" line\n16', '4配置 "glue_source" line\n17', '4配置 "glue_remark" line\n18', '2026-04-02 03:04:05', '4配置 "child_jobid" line\n20', 4, 4022, 4023),
  (5001, '5配置 "job_desc" line\n2', NULL, NULL, NULL, NULL, '5配置 "schedule_type" line\n7', NULL, '5配置 "misfire_strategy" line\n9', NULL, NULL, NULL, NULL, 5014, 5015, '5配置 "glue_type" line\n16', NULL, NULL, NULL, NULL, 5, 5022, 5023);

INSERT INTO `xxl_job_log` (`job_group`, `job_id`, `executor_address`, `executor_handler`, `executor_param`, `executor_sharding_param`, `executor_fail_retry_count`, `trigger_time`, `trigger_code`, `trigger_msg`, `handle_time`, `handle_code`, `handle_msg`, `alarm_status`) VALUES
  (1001, 1002, '1配置 "executor_address" line\n3', '1配置 "executor_handler" line\n4', '1配置 "executor_param" line\n5', '1配置 "executor_shardi', 1007, '2026-01-02 03:04:05', 1009, '1配置 "trigger_msg" line\n10', '2026-01-02 03:04:05', 1012, '1配置 "handle_msg" line\n13', 1),
  (2001, 2002, '2配置 "executor_address" line\n3', '2配置 "executor_handler" line\n4', '2配置 "executor_param" line\n5', '2配置 "executor_shardi', 2007, '2026-02-02 03:04:05', 2009, '2配置 "trigger_msg" line\n10', '2026-02-02 03:04:05', 2012, '2配置 "handle_msg" line\n13', 2),
  (3001, 3002, '3配置 "executor_address" line\n3', '3配置 "executor_handler" line\n4', '3配置 "executor_param" line\n5', '3配置 "executor_shardi', 3007, '2026-03-02 03:04:05', 3009, '3配置 "trigger_msg" line\n10', '2026-03-02 03:04:05', 3012, '3配置 "handle_msg" line\n13', 3),
  (4001, 4002, '4配置 "executor_address" line\n3', '4配置 "executor_handler" line\n4', '4配置 "executor_param" line\n5', '4配置 "executor_shardi', 4007, '2026-04-02 03:04:05', 4009, '4配置 "trigger_msg" line\n10', '2026-04-02 03:04:05', 4012, '4配置 "handle_msg" line\n13', 4),
  (5001, 5002, NULL, NULL, NULL, NULL, 5007, NULL, 5009, NULL, NULL, 5012, NULL, 5);

INSERT INTO `xxl_job_log_report` (`trigger_day`, `running_count`, `suc_count`, `fail_count`, `update_time`) VALUES
  ('2026-01-02 03:04:05', 1002, 1003, 1004, '2026-01-02 03:04:05'),
  ('2026-02-02 03:04:05', 2002, 2003, 2004, '2026-02-02 03:04:05'),
  ('2026-03-02 03:04:05', 3002, 3003, 3004, '2026-03-02 03:04:05'),
  ('2026-04-02 03:04:05', 4002, 4003, 4004, '2026-04-02 03:04:05'),
  ('2026-05-02 03:04:05', 5002, 5003, 5004, NULL);

INSERT INTO `xxl_job_logglue` (`job_id`, `glue_type`, `glue_source`, `glue_remark`, `add_time`, `update_time`) VALUES
  (1001, '1配置 "glue_type" line\n2', '1配置 "glue_source" line\n3', '1配置 "glue_remark" line\n4', '2026-01-02 03:04:05', '2026-01-02 03:04:05'),
  (2001, '2配置 "glue_type" line\n2', '2配置 "glue_source" line\n3', '2配置 "glue_remark" line\n4', '2026-02-02 03:04:05', '2026-02-02 03:04:05'),
  (3001, '3配置 "glue_type" line\n2', '3配置 "glue_source" line\n3', '3配置 "glue_remark" line\n4', '2026-03-02 03:04:05', '2026-03-02 03:04:05'),
  (4001, '4配置 "glue_type" line\n2', '4配置 "glue_source" line\n3', '4配置 "glue_remark" line\n4', '2026-04-02 03:04:05', '2026-04-02 03:04:05'),
  (5001, NULL, NULL, '5配置 "glue_remark" line\n4', NULL, NULL);

INSERT INTO `xxl_job_registry` (`registry_group`, `registry_key`, `registry_value`, `update_time`) VALUES
  ('1配置 "registry_group" line\n1', '1配置 "registry_key" line\n2', '1配置 "registry_value" line\n3', '2026-01-02 03:04:05'),
  ('2配置 "registry_group" line\n1', '2配置 "registry_key" line\n2', '2配置 "registry_value" line\n3', '2026-02-02 03:04:05'),
  ('3配置 "registry_group" line\n1', '3配置 "registry_key" line\n2', '3配置 "registry_value" line\n3', '2026-03-02 03:04:05'),
  ('4配置 "registry_group" line\n1', '4配置 "registry_key" line\n2', '4配置 "registry_value" line\n3', '2026-04-02 03:04:05'),
  ('5配置 "registry_group" line\n1', '5配置 "registry_key" line\n2', '5配置 "registry_value" line\n3', NULL);

INSERT INTO `xxl_job_group` (`app_name`, `title`, `address_type`, `address_list`, `update_time`) VALUES
  ('1配置 "app_name" line\n1', '1配置 "title" ', 1, '1配置 "address_list" line\n4', '2026-01-02 03:04:05'),
  ('2配置 "app_name" line\n1', '2配置 "title" ', 2, '2配置 "address_list" line\n4', '2026-02-02 03:04:05'),
  ('3配置 "app_name" line\n1', '3配置 "title" ', 3, '3配置 "address_list" line\n4', '2026-03-02 03:04:05'),
  ('4配置 "app_name" line\n1', '4配置 "title" ', 4, '4配置 "address_list" line\n4', '2026-04-02 03:04:05'),
  ('5配置 "app_name" line\n1', '5配置 "title" ', 5, NULL, NULL);

INSERT INTO `xxl_job_user` (`username`, `password`, `token`, `role`, `permission`) VALUES
  ('1配置 "username" line\n1', '1配置 "password" line\n2', '1配置 "token" line\n3', 1, '1配置 "permission" line\n5'),
  ('2配置 "username" line\n1', '2配置 "password" line\n2', '2配置 "token" line\n3', 2, '2配置 "permission" line\n5'),
  ('3配置 "username" line\n1', '3配置 "password" line\n2', '3配置 "token" line\n3', 3, '3配置 "permission" line\n5'),
  ('4配置 "username" line\n1', '4配置 "password" line\n2', '4配置 "token" line\n3', 4, '4配置 "permission" line\n5'),
  ('5配置 "username" line\n1', '5配置 "password" line\n2', NULL, 5, NULL);
