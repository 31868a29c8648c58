package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
)

// guest keeps a process whose user does not own the database from creating the -wal and -shm files
// of a database in WAL mode. SQLite creates them even for a reader when no application has the
// database open; they would belong to the reader, and the application could not write to its own
// database any more.
type guest struct {
	path string
	user int

	mu sync.Mutex
	// header is open for reading its first page until close: closing it any earlier would drop the
	// locks that SQLite holds on the file. It is nil while there was no need to look.
	header *os.File
	// file is what header is.
	file fs.FileInfo
}

// check returns an error while reading file would create files that belong to the wrong user.
func (g *guest) check(file fs.FileInfo) error {
	owner := fileOwner(file)
	// The superuser's SQLite gives the files to the owner of the database.
	if owner < 0 || g.user == owner || g.user <= 0 || exists(g.path+"-wal") && exists(g.path+"-shm") {
		return nil
	}
	shared, err := g.inWALMode(file)
	if err != nil || !shared {
		return err
	}
	return fmt.Errorf("no application has the database open, which is in WAL mode: it is waited for, because the -wal and -shm files that user %d "+
		"would create lock out user %d, who owns the database; to read without the application, run bridge as user %d", g.user, owner, owner)
}

// inWALMode reads from the header whether SQLite will use a write-ahead log
// (https://www.sqlite.org/fileformat2.html, section 1.3).
func (g *guest) inWALMode(file fs.FileInfo) (bool, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.header == nil || !os.SameFile(g.file, file) {
		if err := g.open(); err != nil {
			return false, err
		}
	}
	const readVersion, wal = 19, 2
	version := make([]byte, 1)
	// A file that is too short has no log yet.
	n, _ := g.header.ReadAt(version, readVersion)
	return n == 1 && version[0] == wal, nil
}

func (g *guest) open() error {
	opened, err := os.Open(g.path)
	if err != nil {
		return err
	}
	file, err := opened.Stat()
	if err != nil {
		return errors.Join(err, opened.Close())
	}
	if g.header != nil {
		// A file that was replaced: nobody needs the locks on it.
		err = g.header.Close()
	}
	g.header, g.file = opened, file
	return err
}

func (g *guest) close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.header == nil {
		return nil
	}
	return g.header.Close()
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
