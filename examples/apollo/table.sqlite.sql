CREATE TABLE ReleaseMessage (
  Id INTEGER PRIMARY KEY AUTOINCREMENT,
  Message TEXT NOT NULL DEFAULT '',
  DataChange_LastTime TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP
);
CREATE INDEX IX_Message ON ReleaseMessage (Message);
CREATE TABLE Namespace (
  Id INTEGER PRIMARY KEY AUTOINCREMENT,
  AppId TEXT NOT NULL DEFAULT 'default',
  ClusterName TEXT NOT NULL DEFAULT 'default',
  NamespaceName TEXT NOT NULL DEFAULT 'default',
  IsDeleted BOOLEAN NOT NULL DEFAULT 0,
  DeletedAt INTEGER NOT NULL DEFAULT 0,
  DataChange_LastTime TIMESTAMP DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')),
  UNIQUE (AppId, ClusterName, NamespaceName, DeletedAt)
);
CREATE INDEX IX_Namespace_LastTime ON Namespace (DataChange_LastTime);
CREATE TRIGGER Namespace_LastTime AFTER UPDATE OF IsDeleted ON Namespace BEGIN
  UPDATE Namespace SET DataChange_LastTime = strftime('%Y-%m-%d %H:%M:%f', 'now') WHERE Id = NEW.Id;
END;
