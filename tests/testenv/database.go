package testenv

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// DatabaseServer is a MariaDB or MySQL server with an administrator's login.
type DatabaseServer struct {
	// Version is what SELECT VERSION() says.
	Version string
	// Addr is the server's host:port.
	Addr string

	admin *mysql.Config
	*Process
}

// run starts a server on the data folder dir/data that fill makes, an empty one where fill is nil.
// stop ends the server and removes its folder.
func (p Product) run(t testing.TB, fill func(dir string) error, args []string) (s *DatabaseServer, stop func(), err error) {
	program, err := p.locate()
	if err != nil {
		return nil, nil, err
	}
	if fill == nil {
		fill = program.initialise
	}
	return tryPorts(p.name, func(dir string) (*DatabaseServer, *Process, error) {
		if !isFolder(filepath.Join(dir, "data")) {
			if err := fill(dir); err != nil {
				return nil, nil, err
			}
		}
		s := program.server(p.name, dir, FreePort(t), args)
		return s, s.Process, nil
	})
}

// server returns a server that is yet to be started on the data folder dir/data.
func (p *program) server(name, dir string, port int, args []string) *DatabaseServer {
	s := &DatabaseServer{Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), admin: mysql.NewConfig()}
	s.admin.User, s.admin.Net, s.admin.Addr = "root", "tcp", s.Addr
	command := append(append(append([]string{}, p.command...), "--no-defaults"), p.options...)
	command = append(command,
		"--datadir="+filepath.Join(dir, "data"), "--tmpdir="+dir,
		"--socket="+filepath.Join(dir, "sock"), "--pid-file="+filepath.Join(dir, "pid"),
		"--bind-address=127.0.0.1", "--port="+strconv.Itoa(port),
		"--innodb-buffer-pool-size=64M", "--key-buffer-size=1M",
		// Commits survive a killed server, not a killed machine. Without a binary log InnoDB shows
		// a commit before its log has it, and a killed server may lose what was read.
		"--innodb-flush-log-at-trx-commit=2", "--log-bin", "--sync-binlog=0",
		"--performance-schema=OFF", "--character-set-server=utf8mb4",
		// Tests share a server, and each bridge has up to 25 connections to it.
		"--max-connections=1000",
	)
	command = append(append(append(command, p.family.options()...), runAs()...), args...)
	s.Process = &Process{
		name: name, args: command, log: filepath.Join(dir, "log"), data: filepath.Join(dir, "data"), ready: s.identify,
	}
	return s
}

// options returns those that the other family does not have, or has with another default.
func (f family) options() []string {
	// Tables are made and dropped all the time: without the syncs to disk that no test needs it
	// takes a tenth of the time.
	if f == mySQL {
		// The administrator is root@localhost, which skip-name-resolve would not find.
		return []string{"--innodb-flush-method=nosync", "--skip-innodb-doublewrite", "--innodb-redo-log-capacity=64M", "--mysqlx=OFF", "--secure-file-priv="}
	}
	return []string{"--skip-name-resolve", "--innodb-flush-method=nosync", "--skip-innodb-doublewrite", "--sync-frm=OFF", "--innodb-log-file-size=64M", "--aria-pagecache-buffer-size=4M"}
}

// runAs lets a server run as root, which it does only when told.
func runAs() []string {
	if os.Getuid() == 0 {
		return []string{"--user=root"}
	}
	return nil
}

// findProgram finds a program in PATH and in /usr/sbin, which users often lack there.
func findProgram(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		if sbin := "/usr/sbin/" + name; isFile(sbin) {
			return sbin, nil
		}
	}
	return path, err
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
