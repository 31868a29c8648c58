-- app_revision as in create_table.sql of SOFARegistry, without the options that only OceanBase has.
CREATE TABLE `app_revision` (
  `id` bigint(20) NOT NULL AUTO_INCREMENT COMMENT '主键',
  `data_center` varchar(128) NOT NULL COMMENT '集群名',
  `revision` varchar(128) NOT NULL COMMENT 'revision',
  `app_name` varchar(128) NOT NULL COMMENT '应用名',
  `base_params` text DEFAULT NULL COMMENT '基础参数',
  `service_params` text DEFAULT NULL COMMENT '服务参数',
  `gmt_create` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP COMMENT '创建时间',
  `gmt_modified` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP COMMENT '修改时间',
  `client_version` varchar(512) DEFAULT NULL COMMENT '客户端版本',
  `deleted` tinyint(1) NOT NULL DEFAULT 0 COMMENT '是否被删除',
  PRIMARY KEY (`id`),
  UNIQUE KEY `uk_data_center_revision` (`data_center`, `revision`)
) DEFAULT CHARSET = utf8mb4 COMMENT = '服务元数据表';
