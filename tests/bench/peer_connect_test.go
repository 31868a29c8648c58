package bench

import (
	"archive/zip"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// connectorVariable names the jar of a JDBC source connector, or the folder with its jars.
const connectorVariable = "BENCH_JDBC_CONNECTOR"

// connect is Kafka Connect with a JDBC source, as shipped and tuned.
func connect() ([]peer, error) {
	at := os.Getenv(connectorVariable)
	if at == "" {
		return nil, fmt.Errorf("Kafka Connect with a JDBC source is left out: %s names no connector", connectorVariable)
	}
	class, jar, err := sourceClass(at)
	if err != nil {
		return nil, fmt.Errorf("Kafka Connect with a JDBC source is left out: %s: %w", connectorVariable, err)
	}
	libs := filepath.Join(peersFolder(), "connect-libs")
	if _, err := os.Stat(libs); err != nil {
		return nil, fmt.Errorf("Kafka Connect is left out: %w: scripts/peers fetches it", err)
	}
	java, err := javaBinary()
	if err != nil {
		return nil, fmt.Errorf("Kafka Connect is left out: %w", err)
	}
	runtime, err := onlyJar(filepath.Join(libs, "connect-runtime-*.jar"))
	if err != nil {
		return nil, fmt.Errorf("Kafka Connect is left out: %w", err)
	}
	_, version := versionOf(runtime)
	connector, connectorVersion := versionOf(jar)
	versions := map[string]string{"Kafka Connect": version, connector: connectorVersion}
	var both []peer
	for _, is := range []bool{false, true} {
		name, worker, source := "Kafka Connect, JDBC"+shipped, []string{"connect-worker.properties"}, []string{"connect.properties"}
		if is {
			name, worker, source = "Kafka Connect, JDBC"+tuned, append(worker, "connect-worker-tuned.properties"), append(source, "connect-tuned.properties")
		}
		both = append(both, peer{
			name: name, on: []string{"kafka"}, versions: versions,
			topic: func(e errand) string { return e.target + "." + e.table },
			start: func(b *peerBench, e errand) *process {
				s := b.settingsOf(e, is)
				s.Class, s.Plugins = class, filepath.Join(s.Folder, "plugins")
				if err := gather(s.Plugins, at, libs); err != nil {
					b.t.Fatal(err)
				}
				return startProcess(b.t, name, exec.Command(java, "-cp", libs+"/*", "org.apache.kafka.connect.cli.ConnectStandalone",
					s.file(b.t, "worker.properties", worker...), s.file(b.t, "source.properties", source...)))
			},
		})
	}
	return both, nil
}

// gather makes a folder of plugins: the connector and the driver, which have to lie beside each
// other.
func gather(plugins, connector, libs string) error {
	folder := filepath.Join(plugins, "jdbc")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	jars, err := filepath.Glob(filepath.Join(libs, "mariadb-java-client-*.jar"))
	if err != nil {
		return err
	}
	own, err := jarsOf(connector)
	if err != nil {
		return err
	}
	for _, jar := range append(jars, own...) {
		if err := os.Symlink(jar, filepath.Join(folder, filepath.Base(jar))); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return nil
}

// jarsOf are the jars of a connector: one, or all of a folder.
func jarsOf(at string) ([]string, error) {
	at, err := filepath.Abs(at)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(at)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{at}, nil
	}
	return filepath.Glob(filepath.Join(at, "*.jar"))
}

// sourceClass is the type of the JDBC source in a jar or in a folder of jars, and the jar that has
// it: the connectors are named alike in the packages of those who publish them.
func sourceClass(at string) (class, jar string, err error) {
	jars, err := jarsOf(at)
	if err != nil {
		return "", "", err
	}
	for _, jar := range jars {
		names, err := zip.OpenReader(jar)
		if err != nil {
			return "", "", err
		}
		for _, f := range names.File {
			if class, ok := strings.CutSuffix(f.Name, ".class"); ok && strings.HasSuffix(class, "/JdbcSourceConnector") {
				return strings.ReplaceAll(class, "/", "."), jar, names.Close()
			}
		}
		if err := names.Close(); err != nil {
			return "", "", err
		}
	}
	return "", "", fmt.Errorf("no JdbcSourceConnector in %s", at)
}
