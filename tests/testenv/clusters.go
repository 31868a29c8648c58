package testenv

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"example.org/bridge/tests/must"
)

// StartKafkaCluster starts three brokers, which control the cluster as well, and stops them when
// the test ends. Topics have a copy on each of them, and take a message that two have. Of cluster
// only what concerns addresses and topics can be used; members are to be killed and paused.
func StartKafkaCluster(t testing.TB) (cluster *KafkaServer, members []*KafkaServer) {
	t.Helper()
	controllers := freeAddresses(t)
	members = startTogether(t, "three servers of Apache Kafka", func(i int) (*KafkaServer, func(), error) {
		return newKafka(t, KafkaOptions{node: i + 1, controllers: controllers, Config: map[string]string{
			"default.replication.factor": "3", "min.insync.replicas": "2", "offsets.topic.replication.factor": "3",
			"transaction.state.log.replication.factor": "3", "transaction.state.log.min.isr": "2", "replica.lag.time.max.ms": "3000",
		}})
	})
	cluster = &KafkaServer{Version: members[0].Version}
	for _, member := range members {
		cluster.brokers = append(cluster.brokers, member.brokers...)
	}
	return cluster, members
}

// StartNATSCluster starts three servers, and stops them when the test ends.
func StartNATSCluster(t testing.TB) (cluster *NATSServer, members []*NATSServer) {
	t.Helper()
	routes := freeAddresses(t)
	members = startTogether(t, "three servers of NATS", func(i int) (*NATSServer, func(), error) {
		return newNATS(t, []NATSOption{NATSLines(
			fmt.Sprintf("server_name: n%d", i),
			fmt.Sprintf("cluster { name: test, listen: %q, routes: [nats://%s] }", routes[i], strings.Join(routes, ", nats://")),
		)})
	})
	var addresses []string
	for _, member := range members {
		addresses = append(addresses, member.Addr())
	}
	return &NATSServer{Version: members[0].Version, url: &url.URL{Scheme: "nats", Host: strings.Join(addresses, ",")}}, members
}

func freeAddresses(t testing.TB) (all []string) {
	t.Helper()
	needReal(t)
	for range 3 {
		all = append(all, address(FreePort(t)))
	}
	return all
}

// None of these servers is ready alone.
func startTogether[S any](t testing.TB, what string, start func(i int) (S, func(), error)) []S {
	t.Helper()
	members, stops := make([]S, 3), make([]func(), 3)
	var group errgroup.Group
	for i := range members {
		group.Go(func() (err error) {
			members[i], stops[i], err = start(i)
			return err
		})
	}
	err := group.Wait()
	for _, stop := range stops {
		if stop != nil {
			t.Cleanup(stop)
		}
	}
	there(t, what, err)
	return members
}

// OwnNATSCluster returns the members of StartNATSCluster.
func OwnNATSCluster(t testing.TB) []*NATSServer {
	t.Helper()
	_, members := StartNATSCluster(t)
	return members
}

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
	must.OK(t, err)
	change, start := "CHANGE MASTER TO MASTER_HOST='%s', MASTER_PORT=%s, MASTER_USER='copier', MASTER_PASSWORD='copier', MASTER_CONNECT_RETRY=1, "+
		"MASTER_USE_GTID=slave_pos", "START SLAVE"
	if p.IsMySQL() {
		change = "CHANGE REPLICATION SOURCE TO SOURCE_HOST='%s', SOURCE_PORT=%s, SOURCE_USER='copier', SOURCE_PASSWORD='copier', SOURCE_CONNECT_RETRY=1, " +
			"SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1"
		start = "START REPLICA"
	}
	must.Get(primary.Root(t).Exec("CREATE USER copier@'%' IDENTIFIED BY 'copier'; GRANT REPLICATION SLAVE ON *.* TO copier@'%'"))(t)
	must.Get(replica.Root(t).Exec(fmt.Sprintf(change, host, port) + "; " + start))(t)
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
	must.Get(s.Root(t).Exec(promote))(t)
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
	must.OK(t, primary.Root(t).QueryRow(position).Scan(&target))
	if err := s.Root(t).QueryRow(wait, target).Scan(&waited); err != nil || waited != done {
		t.Fatalf("the replica did not reach %s of its primary: %s, %v", target, waited, err)
	}
}

// galeraLibrary is where Debian's galera-4 puts it, on which mariadb-server depends.
const galeraLibrary = "/usr/lib/galera/libgalera_smm.so"

// StartGalera starts two nodes of the installed MariaDB as one cluster, which belong to the test.
func StartGalera(t testing.TB) (first, second *DatabaseServer) {
	t.Helper()
	needReal(t)
	if !isFile(galeraLibrary) {
		missing(t, "Galera", fmt.Errorf("%s: %w", galeraLibrary, exec.ErrNotFound))
	}
	ports := [2]int{FreePort(t), FreePort(t)}
	first = startNode(t, nil, ports[0], "gcomm://", 2)
	// With the data of the first, only what it has written since is to be transferred.
	data := first.Snapshot(t)
	fill := func(dir string) error {
		// rsync, which tells a node that all is transferred, gives up its rights when it is started
		// by root.
		return errors.Join(os.CopyFS(filepath.Join(dir, "data"), os.DirFS(data)), os.Chmod(dir, 0o711), os.Chmod(filepath.Join(dir, "data"), 0o777))
	}
	second = startNode(t, fill, ports[1], "gcomm://127.0.0.1:"+strconv.Itoa(ports[0]), 1)
	return first, second
}

// startNode starts one node on the data folder that fill makes, nil for an empty one. weight is
// what it counts for where the cluster decides whether it is a majority.
func startNode(t testing.TB, fill func(dir string) error, port int, cluster string, weight int) *DatabaseServer {
	t.Helper()
	// Each node hands out ids of its own, though the other is away.
	offset := 3 - weight
	options := fmt.Sprintf("gmcast.listen_addr=tcp://127.0.0.1:%d;ist.recv_addr=127.0.0.1:%d;pc.weight=%d", port, FreePort(t), weight)
	s := InstalledMariaDB.startOn(t, fill,
		"--binlog-format=ROW", "--innodb-autoinc-lock-mode=2", "--wsrep-on=ON", "--wsrep-provider="+galeraLibrary, "--wsrep-provider-options="+options,
		"--wsrep-cluster-address="+cluster, "--wsrep-node-address=127.0.0.1",
		"--wsrep-auto-increment-control=OFF", "--auto-increment-increment=2", fmt.Sprintf("--auto-increment-offset=%d", offset),
		fmt.Sprintf("--wsrep-sst-receive-address=127.0.0.1:%d", FreePort(t)))
	s.more = s.recovered
	s.ready = s.synced
	must.OK(t, s.untilReady())
	return s
}

func (s *DatabaseServer) synced(ctx context.Context) error {
	db, err := s.open("")
	if err != nil {
		return err
	}
	defer db.Close()
	var name, state string
	if err := db.QueryRowContext(ctx, "SHOW STATUS LIKE 'wsrep_local_state_comment'").Scan(&name, &state); err != nil {
		return err
	}
	if state != "Synced" {
		return fmt.Errorf("the node is %s", state)
	}
	return nil
}

var recoveredPosition = regexp.MustCompile(`Recovered position:? ([0-9a-f-]{36}:-?[0-9]+)`)

// recovered returns where a node that was killed has ended, as an argument: with that it asks the
// others for the rest alone.
func (s *DatabaseServer) recovered() ([]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	args := append(slices.Clone(s.args[1:]), "--wsrep-recover")
	said, err := exec.CommandContext(ctx, s.args[0], args...).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("recover the position of a node: %w\n%s", err, said)
	}
	found := recoveredPosition.FindSubmatch(said)
	if found == nil {
		return nil, fmt.Errorf("the node does not say which position it has recovered:\n%s", said)
	}
	return []string{"--wsrep-start-position=" + string(found[1])}, nil
}

// AwaitCluster waits until a node shows all that the others have committed so far.
func (s *DatabaseServer) AwaitCluster(t testing.TB) {
	t.Helper()
	var one int
	must.OK(t, s.Root(t).QueryRow("SET STATEMENT wsrep_sync_wait = 1 FOR SELECT COUNT(*) FROM mysql.db LIMIT 1").Scan(&one))
}
