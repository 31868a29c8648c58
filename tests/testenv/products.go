package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// A Product is a kind and version of database server. It formats as the name of a subtest.
type Product struct {
	name string
	// folder is where scripts/test-databases has unpacked it, below databases in the cache. Empty
	// means that it is installed.
	folder string
	family family
}

// family says how the servers of a kind are initialised and which options they have.
type family int

const (
	mariaDB family = iota
	mySQL
)

// The products that tests run on.
var (
	// InstalledMariaDB is the MariaDB of the system, 10.11 on Debian 12.
	InstalledMariaDB = Product{name: "mariadb"}
	// MariaDB118 comes from Debian unstable, with Galera.
	MariaDB118 = Product{name: "mariadb-11.8", folder: "mariadb-11.8"}
	// MySQL80 comes from Maven Central.
	MySQL80 = Product{name: "mysql-8.0", folder: "mysql-8.0", family: mySQL}
	// MySQL97 comes from Debian unstable.
	MySQL97 = Product{name: "mysql-9.7", folder: "mysql-9.7", family: mySQL}
)

func (p Product) String() string { return p.name }

// IsMySQL reports whether the product is a MySQL.
func (p Product) IsMySQL() bool { return p.family == mySQL }

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

// sharedServers has a *shared for each Product that was asked for.
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

// startOn is Start on the data folder dir/data that fill makes.
func (p Product) startOn(t testing.TB, fill func(dir string) error, args ...string) *DatabaseServer {
	t.Helper()
	return own(t, p.name, func() (*DatabaseServer, func(), error) { return p.run(t, fill, args) })
}

// path returns the folder of a product that was fetched.
func (p Product) path() string { return filepath.Join(cacheDir(), "databases", p.folder) }

func (p Product) unpacked() bool { return isFile(filepath.Join(p.path(), "ready")) }

// locate returns the program of a product, or an error that wraps exec.ErrNotFound.
func (p Product) locate() (*program, error) {
	if p.folder == "" {
		return installedMariaDB()
	}
	if !p.unpacked() {
		return nil, fmt.Errorf("%s: %w", p.path(), exec.ErrNotFound)
	}
	return unpackedProgram(p.path(), p.family)
}

// MariaDB returns the shared server of InstalledMariaDB.
func MariaDB(t testing.TB) *DatabaseServer {
	t.Helper()
	return InstalledMariaDB.Shared(t)
}

// StartMariaDB starts a server of InstalledMariaDB that belongs to the test.
func StartMariaDB(t testing.TB, args ...string) *DatabaseServer {
	t.Helper()
	return InstalledMariaDB.Start(t, args...)
}

// MySQL returns the shared server of AnyMySQL.
func MySQL(t testing.TB) *DatabaseServer {
	t.Helper()
	return AnyMySQL().Shared(t)
}

// StartMySQL starts a server of AnyMySQL that belongs to the test.
func StartMySQL(t testing.TB, args ...string) *DatabaseServer {
	t.Helper()
	return AnyMySQL().Start(t, args...)
}
