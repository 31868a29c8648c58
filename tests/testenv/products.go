package testenv

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A Product is a kind and version of database server. It formats as the name of a subtest.
type Product struct {
	name string
	// folder is where scripts/test-databases has unpacked it, below databases in the cache. Empty
	// means that it is installed.
	folder string
	mySQL  bool
}

var (
	// InstalledMariaDB is the MariaDB of the system, 10.11 on Debian 12.
	InstalledMariaDB = Product{name: "mariadb"}
	// MariaDB118 comes from Debian unstable, with Galera.
	MariaDB118 = Product{name: "mariadb-11.8", folder: "mariadb-11.8"}
	// MySQL80 comes from Maven Central.
	MySQL80 = Product{name: "mysql-8.0", folder: "mysql-8.0", mySQL: true}
	// MySQL97 comes from Debian unstable.
	MySQL97 = Product{name: "mysql-9.7", folder: "mysql-9.7", mySQL: true}
)

func (p Product) String() string { return p.name }

func (p Product) IsMySQL() bool { return p.mySQL }

// AnyMySQL returns the MySQL that `make test` runs on: 9.7, which is the lighter one to fetch, or
// else 8.0.
func AnyMySQL() Product {
	if !MySQL97.unpacked() && MySQL80.unpacked() {
		return MySQL80
	}
	return MySQL97
}

// Products returns those that a test of the source runs on: the installed MariaDB and one MySQL, or
// all with BRIDGE_TEST_SOAK=1.
func Products() []Product {
	if os.Getenv("BRIDGE_TEST_SOAK") != "" {
		return []Product{InstalledMariaDB, MariaDB118, MySQL80, MySQL97}
	}
	return []Product{InstalledMariaDB, AnyMySQL()}
}

// EachProduct runs a test on each of Products, as a subtest with the product's name.
func EachProduct(t *testing.T, test func(*testing.T, Product)) {
	t.Helper()
	needReal(t)
	for _, p := range Products() {
		t.Run(p.String(), func(t *testing.T) { test(t, p) })
	}
}

// OnEveryDatabase skips a test that is a part of the long form alone, which `make test-databases`
// runs.
func OnEveryDatabase(t testing.TB) {
	t.Helper()
	needReal(t)
	if os.Getenv("BRIDGE_TEST_SOAK") == "" {
		t.Skip("a part of make test-databases (BRIDGE_TEST_SOAK=1)")
	}
}

var sharedServers sync.Map

// Shared returns the server of a product that all tests of the binary share.
func (p Product) Shared(t testing.TB) *DatabaseServer {
	t.Helper()
	entry, _ := sharedServers.LoadOrStore(p, new(shared[*DatabaseServer]))
	return entry.(*shared[*DatabaseServer]).get(t, p.name, func() (*DatabaseServer, func(), error) { return p.run(t, nil, nil) })
}

// Start starts a server that belongs to the test. args are added to its command line.
func (p Product) Start(t testing.TB, args ...string) *DatabaseServer {
	t.Helper()
	return p.startOn(t, nil, args...)
}

func (p Product) startOn(t testing.TB, fill func(dir string) error, args ...string) *DatabaseServer {
	t.Helper()
	return own(t, p.name, func() (*DatabaseServer, func(), error) { return p.run(t, fill, args) })
}

func (p Product) path() string { return Cached("databases", p.folder) }

func (p Product) unpacked() bool { return isFile(filepath.Join(p.path(), "ready")) }

// MariaDB returns the shared server of InstalledMariaDB.
func MariaDB(t testing.TB) *DatabaseServer {
	t.Helper()
	return InstalledMariaDB.Shared(t)
}

func StartMariaDB(t testing.TB, args ...string) *DatabaseServer {
	t.Helper()
	return InstalledMariaDB.Start(t, args...)
}

// MySQL returns the shared server of AnyMySQL.
func MySQL(t testing.TB) *DatabaseServer {
	t.Helper()
	return AnyMySQL().Shared(t)
}

// program is a database server as it lies on disk, and how it is called.
type program struct {
	// command starts it: the server itself, or the loader that came with it, its libraries and the
	// server.
	command []string
	options []string
	mySQL   bool
	// kept is an empty data folder, where one was made. install makes one, or else the server with
	// what is in share.
	kept, install, share string
}

// The error wraps exec.ErrNotFound.
func (p Product) locate() (*program, error) {
	if p.folder == "" {
		daemon, err := findProgram("mariadbd")
		install, missing := findProgram("mariadb-install-db")
		info, unread := os.Stat(daemon)
		if err := errors.Join(err, missing, unread); err != nil {
			return nil, err
		}
		// Another server, after an upgrade, begins with a folder of its own.
		kept := Cached("databases", fmt.Sprintf("installed-%d-%d", info.Size(), info.ModTime().Unix()))
		return &program{command: []string{daemon}, install: install, kept: kept}, nil
	}
	folder := p.path()
	if !p.unpacked() {
		return nil, fmt.Errorf("%s: %w", folder, exec.ErrNotFound)
	}
	daemon, share := filepath.Join(folder, "bin/mysqld"), filepath.Join(folder, "share")
	if !isFile(daemon) {
		daemon, share = filepath.Join(folder, "usr/sbin/mysqld"), filepath.Join(folder, "usr/share/mysql")
		if !p.mySQL {
			daemon, share = filepath.Join(folder, "usr/sbin/mariadbd"), filepath.Join(folder, "usr/share/mariadb")
		}
	}
	if !isFile(daemon) {
		return nil, fmt.Errorf("%s was fetched without its server %s: remove it", folder, daemon)
	}
	of := &program{command: []string{daemon}, mySQL: p.mySQL, kept: filepath.Join(folder, "initialised"), share: share}
	if loader, err := filepath.Glob(filepath.Join(folder, "usr/lib/*-linux-gnu/ld-linux-*.so.*")); err == nil && len(loader) == 1 {
		of.command = []string{loader[0], "--library-path", filepath.Dir(loader[0]), daemon}
	}
	of.options = []string{"--lc-messages-dir=" + share, "--character-sets-dir=" + filepath.Join(share, "charsets"), "--plugin-dir=" + filepath.Join(folder, "plugin")}
	return of, nil
}

// initialise makes dir/data, which is empty.
func (p *program) initialise(dir string) error {
	return copyInitialised(p.kept, dir, func(dir string) error {
		data := filepath.Join(dir, "data")
		command := slices.Concat(p.command, []string{"--no-defaults"}, p.options, []string{"--datadir=" + data})
		var input io.Reader
		switch {
		case p.install != "":
			command = []string{p.install, "--no-defaults", "--datadir=" + data, "--auth-root-authentication-method=normal",
				"--skip-test-db", "--skip-name-resolve", "--innodb-log-file-size=16M"}
		case p.mySQL:
			command = append(command, "--initialize-insecure", "--innodb-redo-log-capacity=16M", "--performance-schema=OFF")
		default:
			// As mariadb-install-db does, which does not know of the loader.
			script, err := bootstrapScript(p.share)
			if err == nil {
				err = os.Mkdir(data, 0o700)
			}
			if err != nil {
				return err
			}
			input = script
			command = append(command, "--bootstrap", "--enforce-storage-engine=", "--innodb-log-file-size=16M", "--max-allowed-packet=8M")
		}
		command = append(command, runAs()...)
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Stdin = input
		// In a shared folder one server that starts removes the temporary tables of another.
		cmd.Env = append(os.Environ(), "TMPDIR="+dir)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("initialise a data folder with %s: %w\n%s", command[0], err, out)
		}
		return nil
	})
}

// The administrator has no password.
func bootstrapScript(share string) (io.Reader, error) {
	script := bytes.NewBufferString("CREATE DATABASE IF NOT EXISTS mysql;\nUSE mysql;\nSET @auth_root_socket=NULL;\n")
	for _, part := range []string{"mariadb_system_tables", "mariadb_performance_tables", "mariadb_system_tables_data", "maria_add_gis_sp_bootstrap", "mariadb_sys_schema"} {
		text, err := os.ReadFile(filepath.Join(share, part+".sql"))
		if err != nil {
			return nil, err
		}
		script.Write(text)
		script.WriteByte('\n')
	}
	return script, nil
}

// The first call makes one, which takes several seconds, and keeps it in the folder kept.
func copyInitialised(kept, dir string, make func(dir string) error) error {
	if _, err := os.Stat(kept); err != nil {
		if err := os.MkdirAll(filepath.Dir(kept), 0o755); err != nil {
			return err
		}
		made, err := os.MkdirTemp(filepath.Dir(kept), "initialising-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(made)
		if err := make(made); err != nil {
			return err
		}
		// Each server names itself when it first starts.
		if err := os.RemoveAll(filepath.Join(made, "data", "auto.cnf")); err != nil {
			return err
		}
		// Another test may have been faster.
		if err := os.Rename(filepath.Join(made, "data"), kept); err != nil && !isFolder(kept) {
			return err
		}
	}
	return os.CopyFS(filepath.Join(dir, "data"), os.DirFS(kept))
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// Sequence returns a derived table for FROM with one column seq and the rows 1 to n, in no order,
// as MariaDB and MySQL both read it. n is at most 100 million.
func Sequence(n int) string {
	seq, digits := "1", []string{"(SELECT 0) AS one"}
	for unit := 1; unit < n; unit *= 10 {
		seq += fmt.Sprintf(" + %d * d%d.d", unit, unit)
		digits = append(digits, fmt.Sprintf("(SELECT 0 AS d%s) AS d%d", strings.Join([]string{
			"", "1", "2", "3", "4", "5", "6", "7", "8", "9",
		}, " UNION ALL SELECT "), unit))
	}
	return fmt.Sprintf("(SELECT seq FROM (SELECT %s AS seq FROM %s) AS numbers WHERE seq <= %d) AS sequence", seq, strings.Join(digits, " CROSS JOIN "), n)
}
