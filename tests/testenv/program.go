package testenv

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// program is a database server as it lies on disk, and how it is called.
type program struct {
	// command starts it: the server itself, or the loader that came with it, its libraries and the
	// server.
	command []string
	// options say where its messages, character sets and plugins are.
	options []string
	// initialise makes an empty data folder dir/data.
	initialise func(dir string) error
	family     family
}

func installedMariaDB() (*program, error) {
	install, err := findProgram("mariadb-install-db")
	if err != nil {
		return nil, err
	}
	daemon, err := findProgram("mariadbd")
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(daemon)
	if err != nil {
		return nil, err
	}
	p := &program{command: []string{daemon}}
	p.initialise = func(dir string) error {
		// Another server, after an upgrade, begins with a folder of its own.
		kept := filepath.Join(cacheDir(), "databases", fmt.Sprintf("installed-%d-%d", info.Size(), info.ModTime().Unix()))
		return copyInitialised(kept, dir, func(dir string) error {
			return initialise(dir, nil, append([]string{install}, "--no-defaults", "--datadir="+filepath.Join(dir, "data"),
				"--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve", "--innodb-log-file-size=16M"))
		})
	}
	return p, nil
}

// unpackedProgram is a server that was unpacked to a folder, with a C library of its own or
// without.
func unpackedProgram(folder string, kind family) (*program, error) {
	daemon, share := filepath.Join(folder, "bin/mysqld"), filepath.Join(folder, "share")
	if !isFile(daemon) {
		daemon, share = filepath.Join(folder, "usr/sbin/mysqld"), filepath.Join(folder, "usr/share/mysql")
		if kind == mariaDB {
			daemon, share = filepath.Join(folder, "usr/sbin/mariadbd"), filepath.Join(folder, "usr/share/mariadb")
		}
	}
	if !isFile(daemon) {
		return nil, fmt.Errorf("%s was fetched without its server %s: remove it", folder, daemon)
	}
	p := &program{command: []string{daemon}, family: kind}
	if loader, err := filepath.Glob(filepath.Join(folder, "usr/lib/*-linux-gnu/ld-linux-*.so.*")); err == nil && len(loader) == 1 {
		p.command = []string{loader[0], "--library-path", filepath.Dir(loader[0]), daemon}
	}
	p.options = []string{"--lc-messages-dir=" + share, "--character-sets-dir=" + filepath.Join(share, "charsets"), "--plugin-dir=" + filepath.Join(folder, "plugin")}
	p.initialise = func(dir string) error {
		return copyInitialised(filepath.Join(folder, "initialised"), dir, p.make(share))
	}
	return p, nil
}

// make returns what makes an empty data folder.
func (p *program) make(share string) func(dir string) error {
	command := append(append([]string{}, p.command...), "--no-defaults")
	command = append(command, p.options...)
	return func(dir string) error {
		data := filepath.Join(dir, "data")
		if p.family == mySQL {
			return initialise(dir, nil, append(command, "--initialize-insecure", "--datadir="+data, "--innodb-redo-log-capacity=16M", "--performance-schema=OFF"))
		}
		// As mariadb-install-db does, which does not know of the loader.
		script, err := bootstrapScript(share)
		if err != nil {
			return err
		}
		if err := os.Mkdir(data, 0o700); err != nil {
			return err
		}
		return initialise(dir, script, append(command, "--bootstrap", "--datadir="+data, "--enforce-storage-engine=", "--innodb-log-file-size=16M",
			"--max-allowed-packet=8M"))
	}
}

// bootstrapScript makes the system tables of MariaDB, with an administrator who has no password.
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

// initialise runs a command that makes a data folder below dir.
func initialise(dir string, input io.Reader, command []string) error {
	command = append(command, runAs()...)
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin = input
	// In a shared folder one server that starts removes the temporary tables of another.
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initialise a data folder with %s: %w\n%s", command[0], err, out)
	}
	return nil
}

// copyInitialised copies an empty data folder to dir/data. The first call makes it and keeps it in
// the folder kept: to make one takes several seconds.
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
