package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"
)

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
	check(t, s.untilReady())
	return s
}

// synced returns nil when the node takes part in the cluster.
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
	check(t, s.Root(t).QueryRow("SET STATEMENT wsrep_sync_wait = 1 FOR SELECT COUNT(*) FROM mysql.db LIMIT 1").Scan(&one))
}
