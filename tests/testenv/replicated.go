package testenv

import (
	"fmt"
	"net"
	"testing"
)

// StartReplicated starts a primary and a replica that copies from it, by GTID, and is read-only.
func (p Product) StartReplicated(t testing.TB) (primary, replica *DatabaseServer) {
	t.Helper()
	common := []string{"--log-bin=binlog", "--binlog-format=ROW", "--sync-binlog=0"}
	readOnly := "--read-only=1"
	if p.IsMySQL() {
		common = append(common, "--gtid-mode=ON", "--enforce-gtid-consistency=ON")
		readOnly = "--super-read-only=1"
	}
	primary = p.Start(t, append(common, "--server-id=1")...)
	replica = p.Start(t, append(common, "--server-id=2", readOnly)...)
	host, port, err := net.SplitHostPort(primary.Addr)
	check(t, err)
	change, start := "CHANGE MASTER TO MASTER_HOST='%s', MASTER_PORT=%s, MASTER_USER='copier', MASTER_PASSWORD='copier', MASTER_CONNECT_RETRY=1, "+
		"MASTER_USE_GTID=slave_pos", "START SLAVE"
	if p.IsMySQL() {
		change = "CHANGE REPLICATION SOURCE TO SOURCE_HOST='%s', SOURCE_PORT=%s, SOURCE_USER='copier', SOURCE_PASSWORD='copier', SOURCE_CONNECT_RETRY=1, " +
			"SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1"
		start = "START REPLICA"
	}
	run := func(s *DatabaseServer, statement string) {
		t.Helper()
		if _, err := s.Root(t).Exec(statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	run(primary, "CREATE USER copier@'%' IDENTIFIED BY 'copier'; GRANT REPLICATION SLAVE ON *.* TO copier@'%'")
	run(replica, fmt.Sprintf(change, host, port))
	run(replica, start)
	replica.CatchUp(t, primary)
	return primary, replica
}

// Promote has a replica take writes and copy from none any more.
func (s *DatabaseServer) Promote(t testing.TB) {
	t.Helper()
	promote := "STOP SLAVE; RESET SLAVE ALL; SET GLOBAL read_only = OFF"
	if !s.IsMariaDB() {
		promote = "STOP REPLICA; RESET REPLICA ALL; SET GLOBAL super_read_only = OFF, GLOBAL read_only = OFF"
	}
	_, err := s.Root(t).Exec(promote)
	check(t, err)
}

// CatchUp waits up to two minutes until a replica has copied all that its primary has committed so
// far.
func (s *DatabaseServer) CatchUp(t testing.TB, primary *DatabaseServer) {
	t.Helper()
	position, wait, done := "SELECT @@gtid_binlog_pos", "SELECT MASTER_GTID_WAIT(?, 120)", "0"
	if !s.IsMariaDB() {
		position, wait = "SELECT @@gtid_executed", "SELECT WAIT_FOR_EXECUTED_GTID_SET(?, 120)"
	}
	var target, waited string
	check(t, primary.Root(t).QueryRow(position).Scan(&target))
	if err := s.Root(t).QueryRow(wait, target).Scan(&waited); err != nil || waited != done {
		t.Fatalf("the replica did not reach %s of its primary: %s, %v", target, waited, err)
	}
}
