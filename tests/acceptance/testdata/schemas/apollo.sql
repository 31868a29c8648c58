-- Tables of Apollo: the config database and the portal database, but for those that both have.

CREATE TABLE `App` (
  `Id` int(11) unsigned NOT NULL AUTO_INCREMENT,
  `AppId` varchar(64) NOT NULL DEFAULT 'default',
  `Name` varchar(500) NOT NULL DEFAULT 'default',
  `OrgId` varchar(32) NOT NULL DEFAULT 'default',
  `OrgName` varchar(64) NOT NULL DEFAULT 'default',
  `OwnerName` varchar(500) NOT NULL DEFAULT 'default',
  `OwnerEmail` varchar(500) NOT NULL DEFAULT 'default',
  `IsDeleted` bit(1) NOT NULL DEFAULT b'0',
  `DeletedAt` bigint(20) NOT NULL DEFAULT '0',
  `DataChange_CreatedBy` varchar(64) NOT NULL DEFAULT 'default',
  `DataChange_CreatedTime` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
  `DataChange_LastModifiedBy` varchar(64) DEFAULT '',
  `DataChange_LastTime` timestamp NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  PRIMARY KEY (`Id`),
  KEY `DataChange_LastTime` (`DataChange_LastTime`),
  UNIQUE KEY `UK` (`AppId`, `DeletedAt`),
  KEY `IX_Name` (`Name`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

CREATE TABLE `AppNamespace` (
  `Id` int(11) unsigned NOT NULL AUTO_INCREMENT,
  `Name` varchar(32) NOT NULL DEFAULT '',
  `AppId` varchar(64) NOT NULL DEFAULT '',
  `Format` varchar(32) NOT NULL DEFAULT 'properties',
  `IsPublic` bit(1) NOT NULL DEFAULT b'0',
  `Comment` varchar(64) NOT NULL DEFAULT '',
  `IsDeleted` bit(1) NOT NULL DEFAULT b'0',
  `DeletedAt` bigint(20) NOT NULL DEFAULT '0',
  `DataChange_CreatedBy` varchar(64) NOT NULL DEFAULT 'default',
  `DataChange_CreatedTime` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
  `DataChange_LastModifiedBy` varchar(64) DEFAULT '',
  `DataChange_LastTime` timestamp NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  PRIMARY KEY (`Id`),
  KEY `DataChange_LastTime` (`DataChange_LastTime`),
  UNIQUE KEY `UK` (`AppId`, `Name`, `DeletedAt`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

CREATE TABLE `Audit` (
  `Id` int(11) unsigned NOT NULL AUTO_INCREMENT,
  `EntityName` varchar(50) NOT NULL DEFAULT 'default',
  `EntityId` int(10) unsigned DEFAULT NULL,
  `OpName` varchar(50) NOT NULL DEFAULT 'default',
  `Comment` varchar(500) DEFAULT NULL,
  `IsDeleted` bit(1) NOT NULL DEFAULT b'0',
  `DeletedAt` bigint(20) NOT NULL DEFAULT '0',
  `DataChange_CreatedBy` varchar(64) NOT NULL DEFAULT 'default',
  `DataChange_CreatedTime` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
  `DataChange_LastModifiedBy` varchar(64) DEFAULT '',
  `DataChange_LastTime` timestamp NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  PRIMARY KEY (`Id`),
  KEY `DataChange_LastTime` (`DataChange_LastTime`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

CREATE TABLE `Cluster` (
  `Id` int(11) unsigned NOT NULL AUTO_INCREMENT,
  `Name` varchar(32) NOT NULL DEFAULT '',
  `AppId` varchar(64) NOT NULL DEFAULT '',
  `ParentClusterId` int(11) unsigned NOT NULL DEFAULT '0',
  `Comment` varchar(64) DEFAULT NULL,
  `IsDeleted` bit(1) NOT NULL DEFAULT b'0',
  `DeletedAt` bigint(20) NOT NULL DEFAULT '0',
  `DataChange_CreatedBy` varchar(64) NOT NULL DEFAULT 'default',
  `DataChange_CreatedTime` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
  `DataChange_LastModifiedBy` varchar(64) DEFAULT '',
  `DataChange_LastTime` timestamp NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  PRIMARY KEY (`Id`),
  KEY `DataChange_LastTime` (`DataChange_LastTime`),
  UNIQUE KEY `UK` (`AppId`, `Name`, `DeletedAt`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

CREATE TABLE `Commit` (
  `Id` int(11) unsigned NOT NULL AUTO_INCREMENT,
  `ChangeSets` longtext NOT NULL,
  `AppId` varchar(64) NOT NULL DEFAULT 'default',
  `ClusterName` varchar(500) NOT NULL DEFAULT 'default',
  `NamespaceName` varchar(500) NOT NULL DEFAULT 'default',
  `Comment` varchar(500) DEFAULT NULL,
  `IsDeleted` bit(1) NOT NULL DEFAULT b'0',
  `DeletedAt` bigint(20) NOT NULL DEFAULT '0',
  `DataChange_CreatedBy` varchar(64) NOT NULL DEFAULT 'default',
  `DataChange_CreatedTime` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
  `DataChange_LastModifiedBy` varchar(64) DEFAULT '',
  `DataChange_LastTime` timestamp NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  PRIMARY KEY (`Id`),
  KEY `DataChange_LastTime` (`DataChange_LastTime`),
  KEY `IX_AppId` (`AppId`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

CREATE TABLE `GrayReleaseRule` (
  `Id` int(11) unsigned NOT NULL AUTO_INCREMENT,
  `AppId` varchar(64) NOT NULL DEFAULT 'default',
  `ClusterName` varchar(32) NOT NULL DEFAULT 'default',
  `NamespaceName` varchar(32) NOT NULL DEFAULT 'default',
  `BranchName` varchar(32) NOT NULL DEFAULT 'default',
  `Rules` varchar(16000) DEFAULT '[]',
  `ReleaseId` int(11) unsigned NOT NULL DEFAULT '0',
  `BranchStatus` tinyint(2) DEFAULT '1',
  `IsDeleted` bit(1) NOT NULL DEFAULT b'0',
  `DeletedAt` bigint(20) NOT NULL DEFAULT '0',
  `DataChange_CreatedBy` varchar(64) NOT NULL DEFAULT 'default',
  `DataChange_CreatedTime` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
  `DataChange_LastModifiedBy` varchar(64) DEFAULT '',
  `DataChange_LastTime` timestamp NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  PRIMARY KEY (`Id`),
  KEY `DataChange_LastTime` (`DataChange_LastTime`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

CREATE TABLE `Instance` (
  `Id` int(11) unsigned NOT NULL AUTO_INCREMENT,
  `AppId` varchar(64) NOT NULL DEFAULT 'default',
  `ClusterName` varchar(32) NOT NULL DEFAULT 'default',
  `DataCenter` varchar(64) NOT NULL DEFAULT 'default',
  `Ip` varchar(32) NOT NULL DEFAULT '',
  `DataChange_CreatedBy` varchar(64) NOT NULL DEFAULT 'default',
  `DataChange_CreatedTime` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
  `DataChange_LastModifiedBy` varchar(64) DEFAULT '',
  `DataChange_LastTime` timestamp NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  PRIMARY KEY (`Id`),
  KEY `DataChange_LastTime` (`DataChange_LastTime`),
  UNIQUE KEY `UK` (`AppId`, `ClusterName`, `Ip`, `DataCenter`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

CREATE TABLE `InstanceConfig` (
  `Id` int(11) unsigned NOT NULL AUTO_INCREMENT,
  `InstanceId` int(11) unsigned DEFAULT NULL,
  `ConfigAppId` varchar(64) NOT NULL DEFAULT 'default',
  `ConfigClusterName` varchar(32) NOT NULL DEFAULT 'default',
  `ConfigNamespaceName` varchar(32) NOT NULL DEFAULT 'default',
  `ReleaseKey` varchar(64) NOT NULL DEFAULT '',
  `ReleaseDeliveryTime` timestamp NULL DEFAULT NULL,
  `DataChange_CreatedBy` varchar(64) NOT NULL DEFAULT 'default',
  `DataChange_CreatedTime` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
  `DataChange_LastModifiedBy` varchar(64) DEFAULT '',
  `DataChange_LastTime` timestamp NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  PRIMARY KEY (`Id`),
  KEY `DataChange_LastTime` (`DataChange_LastTime`),
  UNIQUE KEY `UK` (`InstanceId`, `ConfigAppId`, `ConfigNamespaceName`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

CREATE TABLE `Item` (
  `Id` int(11) unsigned NOT NULL AUTO_INCREMENT,
  `NamespaceId` int(10) unsigned NOT NULL DEFAULT '0',
  `Key` varchar(128) NOT NULL DEFAULT 'default',
  `Type` tinyint(3) unsigned NOT NULL DEFAULT '0',
  `Value` longtext NOT NULL,
  `Comment` varchar(1024) DEFAULT '',
  `LineNum` int(10) unsigned DEFAULT '0',
  `IsDeleted` bit(1) NOT NULL DEFAULT b'0',
  `DeletedAt` bigint(20) NOT NULL DEFAULT '0',
  `DataChange_CreatedBy` varchar(64) NOT NULL DEFAULT 'default',
  `DataChange_CreatedTime` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
  `DataChange_LastModifiedBy` varchar(64) DEFAULT '',
  `DataChange_LastTime` timestamp NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  PRIMARY KEY (`Id`),
  KEY `DataChange_LastTime` (`DataChange_LastTime`),
  KEY `IX_NamespaceId` (`NamespaceId`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

CREATE TABLE `Namespace` (
  `Id` int(11) unsigned NOT NULL AUTO_INCREMENT,
  `AppId` varchar(64) NOT NULL DEFAULT 'default',
  `ClusterName` varchar(255) NOT NULL DEFAULT 'default',
  `NamespaceName` varchar(255) NOT NULL DEFAULT 'default',
  `IsDeleted` bit(1) NOT NULL DEFAULT b'0',
  `DeletedAt` bigint(20) NOT NULL DEFAULT '0',
  `DataChange_CreatedBy` varchar(64) NOT NULL DEFAULT 'default',
  `DataChange_CreatedTime` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
  `DataChange_LastModifiedBy` varchar(64) DEFAULT '',
  `DataChange_LastTime` timestamp NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  PRIMARY KEY (`Id`),
  KEY `DataChange_LastTime` (`DataChange_LastTime`),
  UNIQUE KEY `UK` (`AppId`, `ClusterName`, `NamespaceName`, `DeletedAt`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

CREATE TABLE `NamespaceLock` (
  `Id` int(11) unsigned NOT NULL AUTO_INCREMENT,
  `NamespaceId` int(10) unsigned NOT NULL DEFAULT '0',
  `IsDeleted` bit(1) NOT NULL DEFAULT b'0',
  `DeletedAt` bigint(20) NOT NULL DEFAULT '0',
  `DataChange_CreatedBy` varchar(64) NOT NULL DEFAULT 'default',
  `DataChange_CreatedTime` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
  `DataChange_LastModifiedBy` varchar(64) DEFAULT '',
  `DataChange_LastTime` timestamp NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  PRIMARY KEY (`Id`),
  KEY `DataChange_LastTime` (`DataChange_LastTime`),
  UNIQUE KEY `UK` (`NamespaceId`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

CREATE TABLE `Release` (
  `Id` int(11) unsigned NOT NULL AUTO_INCREMENT,
  `ReleaseKey` varchar(64) NOT NULL DEFAULT '',
  `Name` varchar(64) NOT NULL DEFAULT 'default',
  `Comment` varchar(256) DEFAULT NULL,
  `AppId` varchar(64) NOT NULL DEFAULT 'default',
  `ClusterName` varchar(255) NOT NULL DEFAULT 'default',
  `NamespaceName` varchar(255) NOT NULL DEFAULT 'default',
  `Configurations` longtext NOT NULL,
  `IsAbandoned` bit(1) NOT NULL DEFAULT b'0',
  `IsDeleted` bit(1) NOT NULL DEFAULT b'0',
  `DeletedAt` bigint(20) NOT NULL DEFAULT '0',
  `DataChange_CreatedBy` varchar(64) NOT NULL DEFAULT 'default',
  `DataChange_CreatedTime` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
  `DataChange_LastModifiedBy` varchar(64) DEFAULT '',
  `DataChange_LastTime` timestamp NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  PRIMARY KEY (`Id`),
  KEY `DataChange_LastTime` (`DataChange_LastTime`),
  UNIQUE KEY `UK` (`ReleaseKey`, `DeletedAt`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

CREATE TABLE `ReleaseHistory` (
  `Id` int(11) unsigned NOT NULL AUTO_INCREMENT,
  `AppId` varchar(64) NOT NULL DEFAULT 'default',
  `ClusterName` varchar(32) NOT NULL DEFAULT 'default',
  `NamespaceName` varchar(32) NOT NULL DEFAULT 'default',
  `BranchName` varchar(32) NOT NULL DEFAULT 'default',
  `ReleaseId` int(11) unsigned NOT NULL DEFAULT '0',
  `PreviousReleaseId` int(11) unsigned NOT NULL DEFAULT '0',
  `Operation` tinyint(3) unsigned NOT NULL DEFAULT '0',
  `OperationContext` longtext NOT NULL,
  `IsDeleted` bit(1) NOT NULL DEFAULT b'0',
  `DeletedAt` bigint(20) NOT NULL DEFAULT '0',
  `DataChange_CreatedBy` varchar(64) NOT NULL DEFAULT 'default',
  `DataChange_CreatedTime` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
  `DataChange_LastModifiedBy` varchar(64) DEFAULT '',
  `DataChange_LastTime` timestamp NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  PRIMARY KEY (`Id`),
  KEY `DataChange_LastTime` (`DataChange_LastTime`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

CREATE TABLE `ReleaseMessage` (
  `Id` int(11) unsigned NOT NULL AUTO_INCREMENT,
  `Message` varchar(1024) NOT NULL DEFAULT '',
  `DataChange_LastTime` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  PRIMARY KEY (`Id`),
  KEY `DataChange_LastTime` (`DataChange_LastTime`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

CREATE TABLE `ServerConfig` (
  `Id` int(11) unsigned NOT NULL AUTO_INCREMENT,
  `Key` varchar(64) NOT NULL DEFAULT 'default',
  `Cluster` varchar(32) NOT NULL DEFAULT 'default',
  `Value` varchar(2048) NOT NULL DEFAULT 'default',
  `Comment` varchar(1024) DEFAULT '',
  `IsDeleted` bit(1) NOT NULL DEFAULT b'0',
  `DeletedAt` bigint(20) NOT NULL DEFAULT '0',
  `DataChange_CreatedBy` varchar(64) NOT NULL DEFAULT 'default',
  `DataChange_CreatedTime` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
  `DataChange_LastModifiedBy` varchar(64) DEFAULT '',
  `DataChange_LastTime` timestamp NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  PRIMARY KEY (`Id`),
  KEY `DataChange_LastTime` (`DataChange_LastTime`),
  UNIQUE KEY `UK` (`Key`, `Cluster`, `DeletedAt`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

CREATE TABLE `AccessKey` (
  `Id` int(11) unsigned NOT NULL AUTO_INCREMENT,
  `AppId` varchar(64) NOT NULL DEFAULT 'default',
  `Secret` varchar(128) NOT NULL DEFAULT '',
  `Mode` tinyint(3) unsigned NOT NULL DEFAULT '0',
  `IsEnabled` bit(1) NOT NULL DEFAULT b'0',
  `IsDeleted` bit(1) NOT NULL DEFAULT b'0',
  `DeletedAt` bigint(20) NOT NULL DEFAULT '0',
  `DataChange_CreatedBy` varchar(64) NOT NULL DEFAULT 'default',
  `DataChange_CreatedTime` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
  `DataChange_LastModifiedBy` varchar(64) DEFAULT '',
  `DataChange_LastTime` timestamp NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  PRIMARY KEY (`Id`),
  KEY `DataChange_LastTime` (`DataChange_LastTime`),
  UNIQUE KEY `UK` (`AppId`, `Secret`, `DeletedAt`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

CREATE TABLE `Consumer` (
  `Id` int(11) unsigned NOT NULL AUTO_INCREMENT,
  `AppId` varchar(64) NOT NULL DEFAULT 'default',
  `Name` varchar(500) NOT NULL DEFAULT 'default',
  `OrgId` varchar(32) NOT NULL DEFAULT 'default',
  `OrgName` varchar(64) NOT NULL DEFAULT 'default',
  `OwnerName` varchar(500) NOT NULL DEFAULT 'default',
  `OwnerEmail` varchar(500) NOT NULL DEFAULT 'default',
  `IsDeleted` bit(1) NOT NULL DEFAULT b'0',
  `DeletedAt` bigint(20) NOT NULL DEFAULT '0',
  `DataChange_CreatedBy` varchar(64) NOT NULL DEFAULT 'default',
  `DataChange_CreatedTime` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
  `DataChange_LastModifiedBy` varchar(64) DEFAULT '',
  `DataChange_LastTime` timestamp NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  PRIMARY KEY (`Id`),
  KEY `DataChange_LastTime` (`DataChange_LastTime`),
  UNIQUE KEY `UK` (`AppId`, `DeletedAt`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

CREATE TABLE `ConsumerAudit` (
  `Id` int(11) unsigned NOT NULL AUTO_INCREMENT,
  `ConsumerId` int(11) unsigned DEFAULT NULL,
  `Uri` varchar(1024) NOT NULL DEFAULT '',
  `Method` varchar(16) NOT NULL DEFAULT '',
  `DataChange_CreatedBy` varchar(64) NOT NULL DEFAULT 'default',
  `DataChange_CreatedTime` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
  `DataChange_LastModifiedBy` varchar(64) DEFAULT '',
  `DataChange_LastTime` timestamp NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  PRIMARY KEY (`Id`),
  KEY `DataChange_LastTime` (`DataChange_LastTime`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

CREATE TABLE `ConsumerToken` (
  `Id` int(11) unsigned NOT NULL AUTO_INCREMENT,
  `ConsumerId` int(11) unsigned DEFAULT NULL,
  `Token` varchar(128) NOT NULL DEFAULT '',
  `RateLimit` int NOT NULL DEFAULT 0,
  `Expires` datetime NOT NULL DEFAULT '2099-01-01 00:00:00',
  `IsDeleted` bit(1) NOT NULL DEFAULT b'0',
  `DeletedAt` bigint(20) NOT NULL DEFAULT '0',
  `DataChange_CreatedBy` varchar(64) NOT NULL DEFAULT 'default',
  `DataChange_CreatedTime` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
  `DataChange_LastModifiedBy` varchar(64) DEFAULT '',
  `DataChange_LastTime` timestamp NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  PRIMARY KEY (`Id`),
  KEY `DataChange_LastTime` (`DataChange_LastTime`),
  UNIQUE KEY `UK` (`Token`, `DeletedAt`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

CREATE TABLE `Favorite` (
  `Id` int(11) unsigned NOT NULL AUTO_INCREMENT,
  `UserId` varchar(32) NOT NULL DEFAULT 'default',
  `AppId` varchar(64) NOT NULL DEFAULT 'default',
  `Position` int(32) NOT NULL DEFAULT '10000',
  `IsDeleted` bit(1) NOT NULL DEFAULT b'0',
  `DeletedAt` bigint(20) NOT NULL DEFAULT '0',
  `DataChange_CreatedBy` varchar(64) NOT NULL DEFAULT 'default',
  `DataChange_CreatedTime` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
  `DataChange_LastModifiedBy` varchar(64) DEFAULT '',
  `DataChange_LastTime` timestamp NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  PRIMARY KEY (`Id`),
  KEY `DataChange_LastTime` (`DataChange_LastTime`),
  UNIQUE KEY `UK` (`UserId`, `AppId`, `DeletedAt`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

CREATE TABLE `Permission` (
  `Id` int(11) unsigned NOT NULL AUTO_INCREMENT,
  `PermissionType` varchar(32) NOT NULL DEFAULT '',
  `TargetId` varchar(256) NOT NULL DEFAULT '',
  `IsDeleted` bit(1) NOT NULL DEFAULT b'0',
  `DeletedAt` bigint(20) NOT NULL DEFAULT '0',
  `DataChange_CreatedBy` varchar(64) NOT NULL DEFAULT 'default',
  `DataChange_CreatedTime` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
  `DataChange_LastModifiedBy` varchar(64) DEFAULT '',
  `DataChange_LastTime` timestamp NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  PRIMARY KEY (`Id`),
  KEY `DataChange_LastTime` (`DataChange_LastTime`),
  UNIQUE KEY `UK` (`TargetId`, `PermissionType`, `DeletedAt`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

CREATE TABLE `Role` (
  `Id` int(11) unsigned NOT NULL AUTO_INCREMENT,
  `RoleName` varchar(256) NOT NULL DEFAULT '',
  `IsDeleted` bit(1) NOT NULL DEFAULT b'0',
  `DeletedAt` bigint(20) NOT NULL DEFAULT '0',
  `DataChange_CreatedBy` varchar(64) NOT NULL DEFAULT 'default',
  `DataChange_CreatedTime` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
  `DataChange_LastModifiedBy` varchar(64) DEFAULT '',
  `DataChange_LastTime` timestamp NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  PRIMARY KEY (`Id`),
  KEY `DataChange_LastTime` (`DataChange_LastTime`),
  UNIQUE KEY `UK` (`RoleName`, `DeletedAt`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

CREATE TABLE `RolePermission` (
  `Id` int(11) unsigned NOT NULL AUTO_INCREMENT,
  `RoleId` int(10) unsigned DEFAULT NULL,
  `PermissionId` int(10) unsigned DEFAULT NULL,
  `IsDeleted` bit(1) NOT NULL DEFAULT b'0',
  `DeletedAt` bigint(20) NOT NULL DEFAULT '0',
  `DataChange_CreatedBy` varchar(64) NOT NULL DEFAULT 'default',
  `DataChange_CreatedTime` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
  `DataChange_LastModifiedBy` varchar(64) DEFAULT '',
  `DataChange_LastTime` timestamp NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  PRIMARY KEY (`Id`),
  KEY `DataChange_LastTime` (`DataChange_LastTime`),
  UNIQUE KEY `UK` (`RoleId`, `PermissionId`, `DeletedAt`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

CREATE TABLE `UserRole` (
  `Id` int(11) unsigned NOT NULL AUTO_INCREMENT,
  `UserId` varchar(128) DEFAULT '',
  `RoleId` int(10) unsigned DEFAULT NULL,
  `IsDeleted` bit(1) NOT NULL DEFAULT b'0',
  `DeletedAt` bigint(20) NOT NULL DEFAULT '0',
  `DataChange_CreatedBy` varchar(64) NOT NULL DEFAULT 'default',
  `DataChange_CreatedTime` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
  `DataChange_LastModifiedBy` varchar(64) DEFAULT '',
  `DataChange_LastTime` timestamp NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  PRIMARY KEY (`Id`),
  KEY `DataChange_LastTime` (`DataChange_LastTime`),
  UNIQUE KEY `UK` (`UserId`, `RoleId`, `DeletedAt`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

CREATE TABLE `Users` (
  `Id` int(11) unsigned NOT NULL AUTO_INCREMENT,
  `Username` varchar(64) NOT NULL DEFAULT 'default',
  `Password` varchar(512) NOT NULL DEFAULT 'default',
  `UserDisplayName` varchar(512) NOT NULL DEFAULT 'default',
  `Email` varchar(64) NOT NULL DEFAULT 'default',
  `Enabled` tinyint(4) DEFAULT NULL,
  PRIMARY KEY (`Id`),
  UNIQUE KEY `UK` (`Username`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

-- Five rows of each table: in the last one what may be NULL is NULL.

INSERT INTO `App` (`AppId`, `Name`, `OrgId`, `OrgName`, `OwnerName`, `OwnerEmail`, `IsDeleted`, `DeletedAt`, `DataChange_CreatedBy`, `DataChange_CreatedTime`, `DataChange_LastModifiedBy`) VALUES
  ('1配置 "AppId" line\n1', '1配置 "Name" line\n2', '1配置 "OrgId" line\n3', '1配置 "OrgName" line\n4', '1配置 "OwnerName" line\n5', '1配置 "OwnerEmail" line\n6', b'0', 0, '1配置 "DataChange_CreatedBy" line\n9', '2026-01-02 03:04:05', '1配置 "DataChange_LastModifiedBy" line\n11'),
  ('2配置 "AppId" line\n1', '2配置 "Name" line\n2', '2配置 "OrgId" line\n3', '2配置 "OrgName" line\n4', '2配置 "OwnerName" line\n5', '2配置 "OwnerEmail" line\n6', b'0', 0, '2配置 "DataChange_CreatedBy" line\n9', '2026-02-02 03:04:05', '2配置 "DataChange_LastModifiedBy" line\n11'),
  ('3配置 "AppId" line\n1', '3配置 "Name" line\n2', '3配置 "OrgId" line\n3', '3配置 "OrgName" line\n4', '3配置 "OwnerName" line\n5', '3配置 "OwnerEmail" line\n6', b'0', 0, '3配置 "DataChange_CreatedBy" line\n9', '2026-03-02 03:04:05', '3配置 "DataChange_LastModifiedBy" line\n11'),
  ('4配置 "AppId" line\n1', '4配置 "Name" line\n2', '4配置 "OrgId" line\n3', '4配置 "OrgName" line\n4', '4配置 "OwnerName" line\n5', '4配置 "OwnerEmail" line\n6', b'0', 0, '4配置 "DataChange_CreatedBy" line\n9', '2026-04-02 03:04:05', '4配置 "DataChange_LastModifiedBy" line\n11'),
  ('5配置 "AppId" line\n1', '5配置 "Name" line\n2', '5配置 "OrgId" line\n3', '5配置 "OrgName" line\n4', '5配置 "OwnerName" line\n5', '5配置 "OwnerEmail" line\n6', b'0', 0, '5配置 "DataChange_CreatedBy" line\n9', '2026-05-02 03:04:05', NULL);

INSERT INTO `AppNamespace` (`Name`, `AppId`, `Format`, `IsPublic`, `Comment`, `IsDeleted`, `DeletedAt`, `DataChange_CreatedBy`, `DataChange_CreatedTime`, `DataChange_LastModifiedBy`) VALUES
  ('1配置 "Name" line\n1', '1配置 "AppId" line\n2', '1配置 "Format" line\n3', b'0', '1配置 "Comment" line\n5', b'0', 0, '1配置 "DataChange_CreatedBy" line\n8', '2026-01-02 03:04:05', '1配置 "DataChange_LastModifiedBy" line\n10'),
  ('2配置 "Name" line\n1', '2配置 "AppId" line\n2', '2配置 "Format" line\n3', b'0', '2配置 "Comment" line\n5', b'0', 0, '2配置 "DataChange_CreatedBy" line\n8', '2026-02-02 03:04:05', '2配置 "DataChange_LastModifiedBy" line\n10'),
  ('3配置 "Name" line\n1', '3配置 "AppId" line\n2', '3配置 "Format" line\n3', b'0', '3配置 "Comment" line\n5', b'0', 0, '3配置 "DataChange_CreatedBy" line\n8', '2026-03-02 03:04:05', '3配置 "DataChange_LastModifiedBy" line\n10'),
  ('4配置 "Name" line\n1', '4配置 "AppId" line\n2', '4配置 "Format" line\n3', b'0', '4配置 "Comment" line\n5', b'0', 0, '4配置 "DataChange_CreatedBy" line\n8', '2026-04-02 03:04:05', '4配置 "DataChange_LastModifiedBy" line\n10'),
  ('5配置 "Name" line\n1', '5配置 "AppId" line\n2', '5配置 "Format" line\n3', b'0', '5配置 "Comment" line\n5', b'0', 0, '5配置 "DataChange_CreatedBy" line\n8', '2026-05-02 03:04:05', NULL);

INSERT INTO `Audit` (`EntityName`, `EntityId`, `OpName`, `Comment`, `IsDeleted`, `DeletedAt`, `DataChange_CreatedBy`, `DataChange_CreatedTime`, `DataChange_LastModifiedBy`) VALUES
  ('1配置 "EntityName" line\n1', 1002, '1配置 "OpName" line\n3', '1配置 "Comment" line\n4', b'0', 0, '1配置 "DataChange_CreatedBy" line\n7', '2026-01-02 03:04:05', '1配置 "DataChange_LastModifiedBy" line\n9'),
  ('2配置 "EntityName" line\n1', 2002, '2配置 "OpName" line\n3', '2配置 "Comment" line\n4', b'0', 0, '2配置 "DataChange_CreatedBy" line\n7', '2026-02-02 03:04:05', '2配置 "DataChange_LastModifiedBy" line\n9'),
  ('3配置 "EntityName" line\n1', 3002, '3配置 "OpName" line\n3', '3配置 "Comment" line\n4', b'0', 0, '3配置 "DataChange_CreatedBy" line\n7', '2026-03-02 03:04:05', '3配置 "DataChange_LastModifiedBy" line\n9'),
  ('4配置 "EntityName" line\n1', 4002, '4配置 "OpName" line\n3', '4配置 "Comment" line\n4', b'0', 0, '4配置 "DataChange_CreatedBy" line\n7', '2026-04-02 03:04:05', '4配置 "DataChange_LastModifiedBy" line\n9'),
  ('5配置 "EntityName" line\n1', NULL, '5配置 "OpName" line\n3', NULL, b'0', 0, '5配置 "DataChange_CreatedBy" line\n7', '2026-05-02 03:04:05', NULL);

INSERT INTO `Cluster` (`Name`, `AppId`, `ParentClusterId`, `Comment`, `IsDeleted`, `DeletedAt`, `DataChange_CreatedBy`, `DataChange_CreatedTime`, `DataChange_LastModifiedBy`) VALUES
  ('1配置 "Name" line\n1', '1配置 "AppId" line\n2', 1003, '1配置 "Comment" line\n4', b'0', 0, '1配置 "DataChange_CreatedBy" line\n7', '2026-01-02 03:04:05', '1配置 "DataChange_LastModifiedBy" line\n9'),
  ('2配置 "Name" line\n1', '2配置 "AppId" line\n2', 2003, '2配置 "Comment" line\n4', b'0', 0, '2配置 "DataChange_CreatedBy" line\n7', '2026-02-02 03:04:05', '2配置 "DataChange_LastModifiedBy" line\n9'),
  ('3配置 "Name" line\n1', '3配置 "AppId" line\n2', 3003, '3配置 "Comment" line\n4', b'0', 0, '3配置 "DataChange_CreatedBy" line\n7', '2026-03-02 03:04:05', '3配置 "DataChange_LastModifiedBy" line\n9'),
  ('4配置 "Name" line\n1', '4配置 "AppId" line\n2', 4003, '4配置 "Comment" line\n4', b'0', 0, '4配置 "DataChange_CreatedBy" line\n7', '2026-04-02 03:04:05', '4配置 "DataChange_LastModifiedBy" line\n9'),
  ('5配置 "Name" line\n1', '5配置 "AppId" line\n2', 5003, NULL, b'0', 0, '5配置 "DataChange_CreatedBy" line\n7', '2026-05-02 03:04:05', NULL);

INSERT INTO `Commit` (`ChangeSets`, `AppId`, `ClusterName`, `NamespaceName`, `Comment`, `IsDeleted`, `DeletedAt`, `DataChange_CreatedBy`, `DataChange_CreatedTime`, `DataChange_LastModifiedBy`) VALUES
  ('1配置 "ChangeSets" line\n1', '1配置 "AppId" line\n2', '1配置 "ClusterName" line\n3', '1配置 "NamespaceName" line\n4', '1配置 "Comment" line\n5', b'0', 0, '1配置 "DataChange_CreatedBy" line\n8', '2026-01-02 03:04:05', '1配置 "DataChange_LastModifiedBy" line\n10'),
  ('2配置 "ChangeSets" line\n1', '2配置 "AppId" line\n2', '2配置 "ClusterName" line\n3', '2配置 "NamespaceName" line\n4', '2配置 "Comment" line\n5', b'0', 0, '2配置 "DataChange_CreatedBy" line\n8', '2026-02-02 03:04:05', '2配置 "DataChange_LastModifiedBy" line\n10'),
  ('3配置 "ChangeSets" line\n1', '3配置 "AppId" line\n2', '3配置 "ClusterName" line\n3', '3配置 "NamespaceName" line\n4', '3配置 "Comment" line\n5', b'0', 0, '3配置 "DataChange_CreatedBy" line\n8', '2026-03-02 03:04:05', '3配置 "DataChange_LastModifiedBy" line\n10'),
  ('4配置 "ChangeSets" line\n1', '4配置 "AppId" line\n2', '4配置 "ClusterName" line\n3', '4配置 "NamespaceName" line\n4', '4配置 "Comment" line\n5', b'0', 0, '4配置 "DataChange_CreatedBy" line\n8', '2026-04-02 03:04:05', '4配置 "DataChange_LastModifiedBy" line\n10'),
  ('5配置 "ChangeSets" line\n1', '5配置 "AppId" line\n2', '5配置 "ClusterName" line\n3', '5配置 "NamespaceName" line\n4', NULL, b'0', 0, '5配置 "DataChange_CreatedBy" line\n8', '2026-05-02 03:04:05', NULL);

INSERT INTO `GrayReleaseRule` (`AppId`, `ClusterName`, `NamespaceName`, `BranchName`, `Rules`, `ReleaseId`, `BranchStatus`, `IsDeleted`, `DeletedAt`, `DataChange_CreatedBy`, `DataChange_CreatedTime`, `DataChange_LastModifiedBy`) VALUES
  ('1配置 "AppId" line\n1', '1配置 "ClusterName" line\n2', '1配置 "NamespaceName" line\n3', '1配置 "BranchName" line\n4', '1配置 "Rules" line\n5', 1006, 1, b'0', 0, '1配置 "DataChange_CreatedBy" line\n10', '2026-01-02 03:04:05', '1配置 "DataChange_LastModifiedBy" line\n12'),
  ('2配置 "AppId" line\n1', '2配置 "ClusterName" line\n2', '2配置 "NamespaceName" line\n3', '2配置 "BranchName" line\n4', '2配置 "Rules" line\n5', 2006, 2, b'0', 0, '2配置 "DataChange_CreatedBy" line\n10', '2026-02-02 03:04:05', '2配置 "DataChange_LastModifiedBy" line\n12'),
  ('3配置 "AppId" line\n1', '3配置 "ClusterName" line\n2', '3配置 "NamespaceName" line\n3', '3配置 "BranchName" line\n4', '3配置 "Rules" line\n5', 3006, 3, b'0', 0, '3配置 "DataChange_CreatedBy" line\n10', '2026-03-02 03:04:05', '3配置 "DataChange_LastModifiedBy" line\n12'),
  ('4配置 "AppId" line\n1', '4配置 "ClusterName" line\n2', '4配置 "NamespaceName" line\n3', '4配置 "BranchName" line\n4', '4配置 "Rules" line\n5', 4006, 4, b'0', 0, '4配置 "DataChange_CreatedBy" line\n10', '2026-04-02 03:04:05', '4配置 "DataChange_LastModifiedBy" line\n12'),
  ('5配置 "AppId" line\n1', '5配置 "ClusterName" line\n2', '5配置 "NamespaceName" line\n3', '5配置 "BranchName" line\n4', NULL, 5006, NULL, b'0', 0, '5配置 "DataChange_CreatedBy" line\n10', '2026-05-02 03:04:05', NULL);

INSERT INTO `Instance` (`AppId`, `ClusterName`, `DataCenter`, `Ip`, `DataChange_CreatedBy`, `DataChange_CreatedTime`, `DataChange_LastModifiedBy`) VALUES
  ('1配置 "AppId" line\n1', '1配置 "ClusterName" line\n2', '1配置 "DataCenter" line\n3', '1配置 "Ip" line\n4', '1配置 "DataChange_CreatedBy" line\n5', '2026-01-02 03:04:05', '1配置 "DataChange_LastModifiedBy" line\n7'),
  ('2配置 "AppId" line\n1', '2配置 "ClusterName" line\n2', '2配置 "DataCenter" line\n3', '2配置 "Ip" line\n4', '2配置 "DataChange_CreatedBy" line\n5', '2026-02-02 03:04:05', '2配置 "DataChange_LastModifiedBy" line\n7'),
  ('3配置 "AppId" line\n1', '3配置 "ClusterName" line\n2', '3配置 "DataCenter" line\n3', '3配置 "Ip" line\n4', '3配置 "DataChange_CreatedBy" line\n5', '2026-03-02 03:04:05', '3配置 "DataChange_LastModifiedBy" line\n7'),
  ('4配置 "AppId" line\n1', '4配置 "ClusterName" line\n2', '4配置 "DataCenter" line\n3', '4配置 "Ip" line\n4', '4配置 "DataChange_CreatedBy" line\n5', '2026-04-02 03:04:05', '4配置 "DataChange_LastModifiedBy" line\n7'),
  ('5配置 "AppId" line\n1', '5配置 "ClusterName" line\n2', '5配置 "DataCenter" line\n3', '5配置 "Ip" line\n4', '5配置 "DataChange_CreatedBy" line\n5', '2026-05-02 03:04:05', NULL);

INSERT INTO `InstanceConfig` (`InstanceId`, `ConfigAppId`, `ConfigClusterName`, `ConfigNamespaceName`, `ReleaseKey`, `ReleaseDeliveryTime`, `DataChange_CreatedBy`, `DataChange_CreatedTime`, `DataChange_LastModifiedBy`) VALUES
  (1001, '1配置 "ConfigAppId" line\n2', '1配置 "ConfigClusterName" line\n3', '1配置 "ConfigNamespaceName" line\n4', '1配置 "ReleaseKey" line\n5', '2026-01-02 03:04:05', '1配置 "DataChange_CreatedBy" line\n7', '2026-01-02 03:04:05', '1配置 "DataChange_LastModifiedBy" line\n9'),
  (2001, '2配置 "ConfigAppId" line\n2', '2配置 "ConfigClusterName" line\n3', '2配置 "ConfigNamespaceName" line\n4', '2配置 "ReleaseKey" line\n5', '2026-02-02 03:04:05', '2配置 "DataChange_CreatedBy" line\n7', '2026-02-02 03:04:05', '2配置 "DataChange_LastModifiedBy" line\n9'),
  (3001, '3配置 "ConfigAppId" line\n2', '3配置 "ConfigClusterName" line\n3', '3配置 "ConfigNamespaceName" line\n4', '3配置 "ReleaseKey" line\n5', '2026-03-02 03:04:05', '3配置 "DataChange_CreatedBy" line\n7', '2026-03-02 03:04:05', '3配置 "DataChange_LastModifiedBy" line\n9'),
  (4001, '4配置 "ConfigAppId" line\n2', '4配置 "ConfigClusterName" line\n3', '4配置 "ConfigNamespaceName" line\n4', '4配置 "ReleaseKey" line\n5', '2026-04-02 03:04:05', '4配置 "DataChange_CreatedBy" line\n7', '2026-04-02 03:04:05', '4配置 "DataChange_LastModifiedBy" line\n9'),
  (5001, '5配置 "ConfigAppId" line\n2', '5配置 "ConfigClusterName" line\n3', '5配置 "ConfigNamespaceName" line\n4', '5配置 "ReleaseKey" line\n5', NULL, '5配置 "DataChange_CreatedBy" line\n7', '2026-05-02 03:04:05', NULL);

INSERT INTO `Item` (`NamespaceId`, `Key`, `Type`, `Value`, `Comment`, `LineNum`, `IsDeleted`, `DeletedAt`, `DataChange_CreatedBy`, `DataChange_CreatedTime`, `DataChange_LastModifiedBy`) VALUES
  (1001, '1配置 "Key" line\n2', 1, '1配置 "Value" line\n4', '1配置 "Comment" line\n5', 1006, b'0', 0, '1配置 "DataChange_CreatedBy" line\n9', '2026-01-02 03:04:05', '1配置 "DataChange_LastModifiedBy" line\n11'),
  (2001, '2配置 "Key" line\n2', 2, '2配置 "Value" line\n4', '2配置 "Comment" line\n5', 2006, b'0', 0, '2配置 "DataChange_CreatedBy" line\n9', '2026-02-02 03:04:05', '2配置 "DataChange_LastModifiedBy" line\n11'),
  (3001, '3配置 "Key" line\n2', 3, '3配置 "Value" line\n4', '3配置 "Comment" line\n5', 3006, b'0', 0, '3配置 "DataChange_CreatedBy" line\n9', '2026-03-02 03:04:05', '3配置 "DataChange_LastModifiedBy" line\n11'),
  (4001, '4配置 "Key" line\n2', 4, '4配置 "Value" line\n4', '4配置 "Comment" line\n5', 4006, b'0', 0, '4配置 "DataChange_CreatedBy" line\n9', '2026-04-02 03:04:05', '4配置 "DataChange_LastModifiedBy" line\n11'),
  (5001, '5配置 "Key" line\n2', 5, '5配置 "Value" line\n4', NULL, NULL, b'0', 0, '5配置 "DataChange_CreatedBy" line\n9', '2026-05-02 03:04:05', NULL);

INSERT INTO `Namespace` (`AppId`, `ClusterName`, `NamespaceName`, `IsDeleted`, `DeletedAt`, `DataChange_CreatedBy`, `DataChange_CreatedTime`, `DataChange_LastModifiedBy`) VALUES
  ('1配置 "AppId" line\n1', '1配置 "ClusterName" line\n2', '1配置 "NamespaceName" line\n3', b'0', 0, '1配置 "DataChange_CreatedBy" line\n6', '2026-01-02 03:04:05', '1配置 "DataChange_LastModifiedBy" line\n8'),
  ('2配置 "AppId" line\n1', '2配置 "ClusterName" line\n2', '2配置 "NamespaceName" line\n3', b'0', 0, '2配置 "DataChange_CreatedBy" line\n6', '2026-02-02 03:04:05', '2配置 "DataChange_LastModifiedBy" line\n8'),
  ('3配置 "AppId" line\n1', '3配置 "ClusterName" line\n2', '3配置 "NamespaceName" line\n3', b'0', 0, '3配置 "DataChange_CreatedBy" line\n6', '2026-03-02 03:04:05', '3配置 "DataChange_LastModifiedBy" line\n8'),
  ('4配置 "AppId" line\n1', '4配置 "ClusterName" line\n2', '4配置 "NamespaceName" line\n3', b'0', 0, '4配置 "DataChange_CreatedBy" line\n6', '2026-04-02 03:04:05', '4配置 "DataChange_LastModifiedBy" line\n8'),
  ('5配置 "AppId" line\n1', '5配置 "ClusterName" line\n2', '5配置 "NamespaceName" line\n3', b'0', 0, '5配置 "DataChange_CreatedBy" line\n6', '2026-05-02 03:04:05', NULL);

INSERT INTO `NamespaceLock` (`NamespaceId`, `IsDeleted`, `DeletedAt`, `DataChange_CreatedBy`, `DataChange_CreatedTime`, `DataChange_LastModifiedBy`) VALUES
  (1001, b'0', 0, '1配置 "DataChange_CreatedBy" line\n4', '2026-01-02 03:04:05', '1配置 "DataChange_LastModifiedBy" line\n6'),
  (2001, b'0', 0, '2配置 "DataChange_CreatedBy" line\n4', '2026-02-02 03:04:05', '2配置 "DataChange_LastModifiedBy" line\n6'),
  (3001, b'0', 0, '3配置 "DataChange_CreatedBy" line\n4', '2026-03-02 03:04:05', '3配置 "DataChange_LastModifiedBy" line\n6'),
  (4001, b'0', 0, '4配置 "DataChange_CreatedBy" line\n4', '2026-04-02 03:04:05', '4配置 "DataChange_LastModifiedBy" line\n6'),
  (5001, b'0', 0, '5配置 "DataChange_CreatedBy" line\n4', '2026-05-02 03:04:05', NULL);

INSERT INTO `Release` (`ReleaseKey`, `Name`, `Comment`, `AppId`, `ClusterName`, `NamespaceName`, `Configurations`, `IsAbandoned`, `IsDeleted`, `DeletedAt`, `DataChange_CreatedBy`, `DataChange_CreatedTime`, `DataChange_LastModifiedBy`) VALUES
  ('1配置 "ReleaseKey" line\n1', '1配置 "Name" line\n2', '1配置 "Comment" line\n3', '1配置 "AppId" line\n4', '1配置 "ClusterName" line\n5', '1配置 "NamespaceName" line\n6', '1配置 "Configurations" line\n7', b'0', b'0', 0, '1配置 "DataChange_CreatedBy" line\n11', '2026-01-02 03:04:05', '1配置 "DataChange_LastModifiedBy" line\n13'),
  ('2配置 "ReleaseKey" line\n1', '2配置 "Name" line\n2', '2配置 "Comment" line\n3', '2配置 "AppId" line\n4', '2配置 "ClusterName" line\n5', '2配置 "NamespaceName" line\n6', '2配置 "Configurations" line\n7', b'0', b'0', 0, '2配置 "DataChange_CreatedBy" line\n11', '2026-02-02 03:04:05', '2配置 "DataChange_LastModifiedBy" line\n13'),
  ('3配置 "ReleaseKey" line\n1', '3配置 "Name" line\n2', '3配置 "Comment" line\n3', '3配置 "AppId" line\n4', '3配置 "ClusterName" line\n5', '3配置 "NamespaceName" line\n6', '3配置 "Configurations" line\n7', b'0', b'0', 0, '3配置 "DataChange_CreatedBy" line\n11', '2026-03-02 03:04:05', '3配置 "DataChange_LastModifiedBy" line\n13'),
  ('4配置 "ReleaseKey" line\n1', '4配置 "Name" line\n2', '4配置 "Comment" line\n3', '4配置 "AppId" line\n4', '4配置 "ClusterName" line\n5', '4配置 "NamespaceName" line\n6', '4配置 "Configurations" line\n7', b'0', b'0', 0, '4配置 "DataChange_CreatedBy" line\n11', '2026-04-02 03:04:05', '4配置 "DataChange_LastModifiedBy" line\n13'),
  ('5配置 "ReleaseKey" line\n1', '5配置 "Name" line\n2', NULL, '5配置 "AppId" line\n4', '5配置 "ClusterName" line\n5', '5配置 "NamespaceName" line\n6', '5配置 "Configurations" line\n7', b'0', b'0', 0, '5配置 "DataChange_CreatedBy" line\n11', '2026-05-02 03:04:05', NULL);

INSERT INTO `ReleaseHistory` (`AppId`, `ClusterName`, `NamespaceName`, `BranchName`, `ReleaseId`, `PreviousReleaseId`, `Operation`, `OperationContext`, `IsDeleted`, `DeletedAt`, `DataChange_CreatedBy`, `DataChange_CreatedTime`, `DataChange_LastModifiedBy`) VALUES
  ('1配置 "AppId" line\n1', '1配置 "ClusterName" line\n2', '1配置 "NamespaceName" line\n3', '1配置 "BranchName" line\n4', 1005, 1006, 1, '1配置 "OperationContext" line\n8', b'0', 0, '1配置 "DataChange_CreatedBy" line\n11', '2026-01-02 03:04:05', '1配置 "DataChange_LastModifiedBy" line\n13'),
  ('2配置 "AppId" line\n1', '2配置 "ClusterName" line\n2', '2配置 "NamespaceName" line\n3', '2配置 "BranchName" line\n4', 2005, 2006, 2, '2配置 "OperationContext" line\n8', b'0', 0, '2配置 "DataChange_CreatedBy" line\n11', '2026-02-02 03:04:05', '2配置 "DataChange_LastModifiedBy" line\n13'),
  ('3配置 "AppId" line\n1', '3配置 "ClusterName" line\n2', '3配置 "NamespaceName" line\n3', '3配置 "BranchName" line\n4', 3005, 3006, 3, '3配置 "OperationContext" line\n8', b'0', 0, '3配置 "DataChange_CreatedBy" line\n11', '2026-03-02 03:04:05', '3配置 "DataChange_LastModifiedBy" line\n13'),
  ('4配置 "AppId" line\n1', '4配置 "ClusterName" line\n2', '4配置 "NamespaceName" line\n3', '4配置 "BranchName" line\n4', 4005, 4006, 4, '4配置 "OperationContext" line\n8', b'0', 0, '4配置 "DataChange_CreatedBy" line\n11', '2026-04-02 03:04:05', '4配置 "DataChange_LastModifiedBy" line\n13'),
  ('5配置 "AppId" line\n1', '5配置 "ClusterName" line\n2', '5配置 "NamespaceName" line\n3', '5配置 "BranchName" line\n4', 5005, 5006, 5, '5配置 "OperationContext" line\n8', b'0', 0, '5配置 "DataChange_CreatedBy" line\n11', '2026-05-02 03:04:05', NULL);

INSERT INTO `ReleaseMessage` (`Message`) VALUES
  ('1配置 "Message" line\n1'),
  ('2配置 "Message" line\n1'),
  ('3配置 "Message" line\n1'),
  ('4配置 "Message" line\n1'),
  ('5配置 "Message" line\n1');

INSERT INTO `ServerConfig` (`Key`, `Cluster`, `Value`, `Comment`, `IsDeleted`, `DeletedAt`, `DataChange_CreatedBy`, `DataChange_CreatedTime`, `DataChange_LastModifiedBy`) VALUES
  ('1配置 "Key" line\n1', '1配置 "Cluster" line\n2', '1配置 "Value" line\n3', '1配置 "Comment" line\n4', b'0', 0, '1配置 "DataChange_CreatedBy" line\n7', '2026-01-02 03:04:05', '1配置 "DataChange_LastModifiedBy" line\n9'),
  ('2配置 "Key" line\n1', '2配置 "Cluster" line\n2', '2配置 "Value" line\n3', '2配置 "Comment" line\n4', b'0', 0, '2配置 "DataChange_CreatedBy" line\n7', '2026-02-02 03:04:05', '2配置 "DataChange_LastModifiedBy" line\n9'),
  ('3配置 "Key" line\n1', '3配置 "Cluster" line\n2', '3配置 "Value" line\n3', '3配置 "Comment" line\n4', b'0', 0, '3配置 "DataChange_CreatedBy" line\n7', '2026-03-02 03:04:05', '3配置 "DataChange_LastModifiedBy" line\n9'),
  ('4配置 "Key" line\n1', '4配置 "Cluster" line\n2', '4配置 "Value" line\n3', '4配置 "Comment" line\n4', b'0', 0, '4配置 "DataChange_CreatedBy" line\n7', '2026-04-02 03:04:05', '4配置 "DataChange_LastModifiedBy" line\n9'),
  ('5配置 "Key" line\n1', '5配置 "Cluster" line\n2', '5配置 "Value" line\n3', NULL, b'0', 0, '5配置 "DataChange_CreatedBy" line\n7', '2026-05-02 03:04:05', NULL);

INSERT INTO `AccessKey` (`AppId`, `Secret`, `Mode`, `IsEnabled`, `IsDeleted`, `DeletedAt`, `DataChange_CreatedBy`, `DataChange_CreatedTime`, `DataChange_LastModifiedBy`) VALUES
  ('1配置 "AppId" line\n1', '1配置 "Secret" line\n2', 1, b'0', b'0', 0, '1配置 "DataChange_CreatedBy" line\n7', '2026-01-02 03:04:05', '1配置 "DataChange_LastModifiedBy" line\n9'),
  ('2配置 "AppId" line\n1', '2配置 "Secret" line\n2', 2, b'0', b'0', 0, '2配置 "DataChange_CreatedBy" line\n7', '2026-02-02 03:04:05', '2配置 "DataChange_LastModifiedBy" line\n9'),
  ('3配置 "AppId" line\n1', '3配置 "Secret" line\n2', 3, b'0', b'0', 0, '3配置 "DataChange_CreatedBy" line\n7', '2026-03-02 03:04:05', '3配置 "DataChange_LastModifiedBy" line\n9'),
  ('4配置 "AppId" line\n1', '4配置 "Secret" line\n2', 4, b'0', b'0', 0, '4配置 "DataChange_CreatedBy" line\n7', '2026-04-02 03:04:05', '4配置 "DataChange_LastModifiedBy" line\n9'),
  ('5配置 "AppId" line\n1', '5配置 "Secret" line\n2', 5, b'0', b'0', 0, '5配置 "DataChange_CreatedBy" line\n7', '2026-05-02 03:04:05', NULL);

INSERT INTO `Consumer` (`AppId`, `Name`, `OrgId`, `OrgName`, `OwnerName`, `OwnerEmail`, `IsDeleted`, `DeletedAt`, `DataChange_CreatedBy`, `DataChange_CreatedTime`, `DataChange_LastModifiedBy`) VALUES
  ('1配置 "AppId" line\n1', '1配置 "Name" line\n2', '1配置 "OrgId" line\n3', '1配置 "OrgName" line\n4', '1配置 "OwnerName" line\n5', '1配置 "OwnerEmail" line\n6', b'0', 0, '1配置 "DataChange_CreatedBy" line\n9', '2026-01-02 03:04:05', '1配置 "DataChange_LastModifiedBy" line\n11'),
  ('2配置 "AppId" line\n1', '2配置 "Name" line\n2', '2配置 "OrgId" line\n3', '2配置 "OrgName" line\n4', '2配置 "OwnerName" line\n5', '2配置 "OwnerEmail" line\n6', b'0', 0, '2配置 "DataChange_CreatedBy" line\n9', '2026-02-02 03:04:05', '2配置 "DataChange_LastModifiedBy" line\n11'),
  ('3配置 "AppId" line\n1', '3配置 "Name" line\n2', '3配置 "OrgId" line\n3', '3配置 "OrgName" line\n4', '3配置 "OwnerName" line\n5', '3配置 "OwnerEmail" line\n6', b'0', 0, '3配置 "DataChange_CreatedBy" line\n9', '2026-03-02 03:04:05', '3配置 "DataChange_LastModifiedBy" line\n11'),
  ('4配置 "AppId" line\n1', '4配置 "Name" line\n2', '4配置 "OrgId" line\n3', '4配置 "OrgName" line\n4', '4配置 "OwnerName" line\n5', '4配置 "OwnerEmail" line\n6', b'0', 0, '4配置 "DataChange_CreatedBy" line\n9', '2026-04-02 03:04:05', '4配置 "DataChange_LastModifiedBy" line\n11'),
  ('5配置 "AppId" line\n1', '5配置 "Name" line\n2', '5配置 "OrgId" line\n3', '5配置 "OrgName" line\n4', '5配置 "OwnerName" line\n5', '5配置 "OwnerEmail" line\n6', b'0', 0, '5配置 "DataChange_CreatedBy" line\n9', '2026-05-02 03:04:05', NULL);

INSERT INTO `ConsumerAudit` (`ConsumerId`, `Uri`, `Method`, `DataChange_CreatedBy`, `DataChange_CreatedTime`, `DataChange_LastModifiedBy`) VALUES
  (1001, '1配置 "Uri" line\n2', '1配置 "Method" lin', '1配置 "DataChange_CreatedBy" line\n4', '2026-01-02 03:04:05', '1配置 "DataChange_LastModifiedBy" line\n6'),
  (2001, '2配置 "Uri" line\n2', '2配置 "Method" lin', '2配置 "DataChange_CreatedBy" line\n4', '2026-02-02 03:04:05', '2配置 "DataChange_LastModifiedBy" line\n6'),
  (3001, '3配置 "Uri" line\n2', '3配置 "Method" lin', '3配置 "DataChange_CreatedBy" line\n4', '2026-03-02 03:04:05', '3配置 "DataChange_LastModifiedBy" line\n6'),
  (4001, '4配置 "Uri" line\n2', '4配置 "Method" lin', '4配置 "DataChange_CreatedBy" line\n4', '2026-04-02 03:04:05', '4配置 "DataChange_LastModifiedBy" line\n6'),
  (NULL, '5配置 "Uri" line\n2', '5配置 "Method" lin', '5配置 "DataChange_CreatedBy" line\n4', '2026-05-02 03:04:05', NULL);

INSERT INTO `ConsumerToken` (`ConsumerId`, `Token`, `RateLimit`, `Expires`, `IsDeleted`, `DeletedAt`, `DataChange_CreatedBy`, `DataChange_CreatedTime`, `DataChange_LastModifiedBy`) VALUES
  (1001, '1配置 "Token" line\n2', 1003, '2026-01-02 03:04:05', b'0', 0, '1配置 "DataChange_CreatedBy" line\n7', '2026-01-02 03:04:05', '1配置 "DataChange_LastModifiedBy" line\n9'),
  (2001, '2配置 "Token" line\n2', 2003, '2026-02-02 03:04:05', b'0', 0, '2配置 "DataChange_CreatedBy" line\n7', '2026-02-02 03:04:05', '2配置 "DataChange_LastModifiedBy" line\n9'),
  (3001, '3配置 "Token" line\n2', 3003, '2026-03-02 03:04:05', b'0', 0, '3配置 "DataChange_CreatedBy" line\n7', '2026-03-02 03:04:05', '3配置 "DataChange_LastModifiedBy" line\n9'),
  (4001, '4配置 "Token" line\n2', 4003, '2026-04-02 03:04:05', b'0', 0, '4配置 "DataChange_CreatedBy" line\n7', '2026-04-02 03:04:05', '4配置 "DataChange_LastModifiedBy" line\n9'),
  (NULL, '5配置 "Token" line\n2', 5003, '2026-05-02 03:04:05', b'0', 0, '5配置 "DataChange_CreatedBy" line\n7', '2026-05-02 03:04:05', NULL);

INSERT INTO `Favorite` (`UserId`, `AppId`, `Position`, `IsDeleted`, `DeletedAt`, `DataChange_CreatedBy`, `DataChange_CreatedTime`, `DataChange_LastModifiedBy`) VALUES
  ('1配置 "UserId" line\n1', '1配置 "AppId" line\n2', 1003, b'0', 0, '1配置 "DataChange_CreatedBy" line\n6', '2026-01-02 03:04:05', '1配置 "DataChange_LastModifiedBy" line\n8'),
  ('2配置 "UserId" line\n1', '2配置 "AppId" line\n2', 2003, b'0', 0, '2配置 "DataChange_CreatedBy" line\n6', '2026-02-02 03:04:05', '2配置 "DataChange_LastModifiedBy" line\n8'),
  ('3配置 "UserId" line\n1', '3配置 "AppId" line\n2', 3003, b'0', 0, '3配置 "DataChange_CreatedBy" line\n6', '2026-03-02 03:04:05', '3配置 "DataChange_LastModifiedBy" line\n8'),
  ('4配置 "UserId" line\n1', '4配置 "AppId" line\n2', 4003, b'0', 0, '4配置 "DataChange_CreatedBy" line\n6', '2026-04-02 03:04:05', '4配置 "DataChange_LastModifiedBy" line\n8'),
  ('5配置 "UserId" line\n1', '5配置 "AppId" line\n2', 5003, b'0', 0, '5配置 "DataChange_CreatedBy" line\n6', '2026-05-02 03:04:05', NULL);

INSERT INTO `Permission` (`PermissionType`, `TargetId`, `IsDeleted`, `DeletedAt`, `DataChange_CreatedBy`, `DataChange_CreatedTime`, `DataChange_LastModifiedBy`) VALUES
  ('1配置 "PermissionType" line\n1', '1配置 "TargetId" line\n2', b'0', 0, '1配置 "DataChange_CreatedBy" line\n5', '2026-01-02 03:04:05', '1配置 "DataChange_LastModifiedBy" line\n7'),
  ('2配置 "PermissionType" line\n1', '2配置 "TargetId" line\n2', b'0', 0, '2配置 "DataChange_CreatedBy" line\n5', '2026-02-02 03:04:05', '2配置 "DataChange_LastModifiedBy" line\n7'),
  ('3配置 "PermissionType" line\n1', '3配置 "TargetId" line\n2', b'0', 0, '3配置 "DataChange_CreatedBy" line\n5', '2026-03-02 03:04:05', '3配置 "DataChange_LastModifiedBy" line\n7'),
  ('4配置 "PermissionType" line\n1', '4配置 "TargetId" line\n2', b'0', 0, '4配置 "DataChange_CreatedBy" line\n5', '2026-04-02 03:04:05', '4配置 "DataChange_LastModifiedBy" line\n7'),
  ('5配置 "PermissionType" line\n1', '5配置 "TargetId" line\n2', b'0', 0, '5配置 "DataChange_CreatedBy" line\n5', '2026-05-02 03:04:05', NULL);

INSERT INTO `Role` (`RoleName`, `IsDeleted`, `DeletedAt`, `DataChange_CreatedBy`, `DataChange_CreatedTime`, `DataChange_LastModifiedBy`) VALUES
  ('1配置 "RoleName" line\n1', b'0', 0, '1配置 "DataChange_CreatedBy" line\n4', '2026-01-02 03:04:05', '1配置 "DataChange_LastModifiedBy" line\n6'),
  ('2配置 "RoleName" line\n1', b'0', 0, '2配置 "DataChange_CreatedBy" line\n4', '2026-02-02 03:04:05', '2配置 "DataChange_LastModifiedBy" line\n6'),
  ('3配置 "RoleName" line\n1', b'0', 0, '3配置 "DataChange_CreatedBy" line\n4', '2026-03-02 03:04:05', '3配置 "DataChange_LastModifiedBy" line\n6'),
  ('4配置 "RoleName" line\n1', b'0', 0, '4配置 "DataChange_CreatedBy" line\n4', '2026-04-02 03:04:05', '4配置 "DataChange_LastModifiedBy" line\n6'),
  ('5配置 "RoleName" line\n1', b'0', 0, '5配置 "DataChange_CreatedBy" line\n4', '2026-05-02 03:04:05', NULL);

INSERT INTO `RolePermission` (`RoleId`, `PermissionId`, `IsDeleted`, `DeletedAt`, `DataChange_CreatedBy`, `DataChange_CreatedTime`, `DataChange_LastModifiedBy`) VALUES
  (1001, 1002, b'0', 0, '1配置 "DataChange_CreatedBy" line\n5', '2026-01-02 03:04:05', '1配置 "DataChange_LastModifiedBy" line\n7'),
  (2001, 2002, b'0', 0, '2配置 "DataChange_CreatedBy" line\n5', '2026-02-02 03:04:05', '2配置 "DataChange_LastModifiedBy" line\n7'),
  (3001, 3002, b'0', 0, '3配置 "DataChange_CreatedBy" line\n5', '2026-03-02 03:04:05', '3配置 "DataChange_LastModifiedBy" line\n7'),
  (4001, 4002, b'0', 0, '4配置 "DataChange_CreatedBy" line\n5', '2026-04-02 03:04:05', '4配置 "DataChange_LastModifiedBy" line\n7'),
  (5001, 5002, b'0', 0, '5配置 "DataChange_CreatedBy" line\n5', '2026-05-02 03:04:05', NULL);

INSERT INTO `UserRole` (`UserId`, `RoleId`, `IsDeleted`, `DeletedAt`, `DataChange_CreatedBy`, `DataChange_CreatedTime`, `DataChange_LastModifiedBy`) VALUES
  ('1配置 "UserId" line\n1', 1002, b'0', 0, '1配置 "DataChange_CreatedBy" line\n5', '2026-01-02 03:04:05', '1配置 "DataChange_LastModifiedBy" line\n7'),
  ('2配置 "UserId" line\n1', 2002, b'0', 0, '2配置 "DataChange_CreatedBy" line\n5', '2026-02-02 03:04:05', '2配置 "DataChange_LastModifiedBy" line\n7'),
  ('3配置 "UserId" line\n1', 3002, b'0', 0, '3配置 "DataChange_CreatedBy" line\n5', '2026-03-02 03:04:05', '3配置 "DataChange_LastModifiedBy" line\n7'),
  ('4配置 "UserId" line\n1', 4002, b'0', 0, '4配置 "DataChange_CreatedBy" line\n5', '2026-04-02 03:04:05', '4配置 "DataChange_LastModifiedBy" line\n7'),
  ('5配置 "UserId" line\n1', 5002, b'0', 0, '5配置 "DataChange_CreatedBy" line\n5', '2026-05-02 03:04:05', NULL);

INSERT INTO `Users` (`Username`, `Password`, `UserDisplayName`, `Email`, `Enabled`) VALUES
  ('1配置 "Username" line\n1', '1配置 "Password" line\n2', '1配置 "UserDisplayName" line\n3', '1配置 "Email" line\n4', 1),
  ('2配置 "Username" line\n1', '2配置 "Password" line\n2', '2配置 "UserDisplayName" line\n3', '2配置 "Email" line\n4', 2),
  ('3配置 "Username" line\n1', '3配置 "Password" line\n2', '3配置 "UserDisplayName" line\n3', '3配置 "Email" line\n4', 3),
  ('4配置 "Username" line\n1', '4配置 "Password" line\n2', '4配置 "UserDisplayName" line\n3', '4配置 "Email" line\n4', 4),
  ('5配置 "Username" line\n1', '5配置 "Password" line\n2', '5配置 "UserDisplayName" line\n3', '5配置 "Email" line\n4', NULL);
