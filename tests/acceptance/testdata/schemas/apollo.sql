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

