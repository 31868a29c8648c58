package bench

import (
	"archive/zip"
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/template"

	"example.org/bridge/event"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/world"
)

// peer is a program with its settings that brings the rows of a table to a bus.
type peer struct {
	name       string
	kafkaAlone bool
	// topic is where its messages for an errand go, on Kafka.
	topic func(e errand) string
	// start is nil for the control, which no bus has.
	start func(t testing.TB, e errand) *process
}

// errand is what a peer is to do: to bring the rows of a table to a target of a bus.
type errand struct {
	bus           *bus
	table, target string
}

// peers returns those that can run here, and tells why others cannot.
func (r *rig) peers(t testing.TB) []*peer {
	t.Helper()
	fast := world.Env{"BRIDGE_STABILITY_WINDOW": "0s", "BRIDGE_POLL_INTERVAL": "10ms"}
	all := []*peer{r.bridgePeer("bridge", nil), r.bridgePeer("bridge-fast", fast), {name: "poller"}}
	for _, add := range []func() ([]*peer, error){r.debezium, r.connect} {
		some, err := add()
		if err != nil {
			fmt.Fprintf(os.Stderr, "left out: %v\n", err)
		}
		all = append(all, some...)
	}
	return all
}

func (r *rig) bridgePeer(name string, settings world.Env) *peer {
	return &peer{
		name: name, topic: func(e errand) string { return e.target },
		start: func(t testing.TB, e errand) *process {
			destination := e.target
			if e.bus.Kafka == nil {
				destination += ".{type}"
			}
			env := r.streamEnv(event.Release, e.table, destination).With(e.bus.Env()).With(settings)
			d := &daemon{Daemon: world.NewDaemon(t, r.path, env)}
			d.restart()
			t.Cleanup(d.kill)
			return d.process
		},
	}
}

type settings struct {
	Host, Port, Database, Table, User, Password string
	// Servers are the servers of the bus.
	Servers, Target string
	// Folder is for what the program keeps.
	Folder             string
	HTTPPort, ServerID int
	Tuned              bool
	// Plugins is the folder of the connector, Class its type.
	Plugins, Class string
}

func (r *rig) settingsOf(t testing.TB, e errand, tuned bool) settings {
	t.Helper()
	host, port, err := net.SplitHostPort(r.Server.Addr)
	must.OK(t, err)
	free := testenv.FreePort(t)
	return settings{
		Host: host, Port: port, Database: r.Name, Table: e.table, User: r.User, Password: r.Password, Servers: e.bus.servers,
		Target: e.target, Folder: t.TempDir(), HTTPPort: free, ServerID: free, Tuned: tuned,
	}
}

// file writes a configuration that is made of templates, of a tuned program with what more has, and
// returns its path.
func (s settings) file(t testing.TB, name, more string, templates ...string) string {
	t.Helper()
	if s.Tuned {
		templates = append(templates, more)
	}
	var text bytes.Buffer
	for _, one := range templates {
		must.OK(t, must.Get(template.ParseFiles(filepath.Join("peers", one)))(t).Execute(&text, s))
	}
	path := filepath.Join(s.Folder, name)
	must.OK(t, os.WriteFile(path, text.Bytes(), 0o600))
	return path
}

// variants are a program as shipped, and tuned. command returns what starts it.
func (r *rig) variants(of peer, command func(t testing.TB, e errand, s settings) *exec.Cmd) (both []*peer) {
	for _, tuned := range []bool{false, true} {
		p := of
		if tuned {
			p.name += "-tuned"
		}
		p.start = func(t testing.TB, e errand) *process {
			return startProcess(t, p.name, command(t, e, r.settingsOf(t, e, tuned)))
		}
		both = append(both, &p)
	}
	return both
}

// fetched is a folder in which scripts/peers has put something.
func fetched(name string) (string, error) {
	folder := testenv.Cached("peers", name)
	if _, err := os.Stat(folder); err != nil {
		return "", fmt.Errorf("%w: scripts/peers fetches it", err)
	}
	return folder, nil
}

func (r *rig) debezium() (both []*peer, err error) {
	folder, err := fetched("debezium-server")
	if err != nil {
		return nil, err
	}
	home, err := javaOf(21)
	if err != nil {
		return nil, fmt.Errorf("Debezium Server: %w", err)
	}
	of := peer{name: "debezium", topic: func(e errand) string { return e.target + "." + r.Name + "." + e.table }}
	return r.variants(of, func(t testing.TB, e errand, s settings) *exec.Cmd {
		command := exec.Command("bash", "run.sh")
		command.Dir = folder
		command.Env = append(os.Environ(), "JAVA_HOME="+home, "QUARKUS_CONFIG_LOCATIONS="+
			s.file(t, "application.properties", "debezium-tuned.properties", "debezium.properties", "debezium-"+e.bus.name+".properties"),
			// Java 25 keeps its own classes to itself.
			"JAVA_OPTS=--add-opens=java.base/java.lang=ALL-UNNAMED")
		return command
	}), nil
}

// connect is Kafka Connect with a JDBC source, as shipped and tuned. BENCH_JDBC_CONNECTOR names the
// jar of the source connector, or the folder with its jars.
func (r *rig) connect() (both []*peer, err error) {
	const variable = "BENCH_JDBC_CONNECTOR"
	if os.Getenv(variable) == "" {
		return nil, fmt.Errorf("Kafka Connect: %s names no JDBC source connector", variable)
	}
	jars, err := jarsOf(os.Getenv(variable))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", variable, err)
	}
	class, err := sourceClass(jars)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", variable, err)
	}
	libs, err := fetched("connect-libs")
	if err != nil {
		return nil, err
	}
	home, err := javaOf(17)
	if err != nil {
		return nil, fmt.Errorf("Kafka Connect: %w", err)
	}
	drivers, err := filepath.Glob(filepath.Join(libs, "mariadb-java-client-*.jar"))
	if err != nil {
		return nil, err
	}
	of := peer{name: "connect", kafkaAlone: true, topic: func(e errand) string { return e.target + "." + e.table }}
	return r.variants(of, func(t testing.TB, _ errand, s settings) *exec.Cmd {
		s.Class, s.Plugins = class, filepath.Join(s.Folder, "plugins")
		// The connector and the driver have to lie beside each other.
		beside := filepath.Join(s.Plugins, "jdbc")
		must.OK(t, os.MkdirAll(beside, 0o755))
		for _, jar := range slices.Concat(drivers, jars) {
			if err := os.Symlink(jar, filepath.Join(beside, filepath.Base(jar))); err != nil && !os.IsExist(err) {
				t.Fatal(err)
			}
		}
		return exec.Command(filepath.Join(home, "bin", "java"), "-cp", libs+"/*", "org.apache.kafka.connect.cli.ConnectStandalone",
			s.file(t, "worker.properties", "connect-worker-tuned.properties", "connect-worker.properties"),
			s.file(t, "source.properties", "connect-tuned.properties", "connect.properties"))
	}), nil
}

func javaOf(least int) (best string, err error) {
	homes, err := filepath.Glob("/usr/lib/jvm/*")
	if err != nil {
		return "", err
	}
	newest := least - 1
	for _, home := range append(homes, os.Getenv("JAVA_HOME")) {
		release, _ := os.ReadFile(filepath.Join(home, "release")) // a folder without one is no Java
		if found := javaVersion.FindSubmatch(release); found != nil {
			if version, _ := strconv.Atoi(string(found[1])); version > newest {
				best, newest = home, version
			}
		}
	}
	if best == "" {
		return "", fmt.Errorf("needs Java %d or newer: none is under /usr/lib/jvm or in JAVA_HOME", least)
	}
	return best, nil
}

var javaVersion = regexp.MustCompile(`(?m)^JAVA_VERSION="(\d+)`)

func jarsOf(at string) ([]string, error) {
	at, err := filepath.Abs(at)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(at)
	if err != nil || !info.IsDir() {
		return []string{at}, err
	}
	return filepath.Glob(filepath.Join(at, "*.jar"))
}

// sourceClass is the type of the JDBC source in some jars: the connectors are named alike in the
// packages of those who publish them.
func sourceClass(jars []string) (class string, err error) {
	for _, jar := range jars {
		names, err := zip.OpenReader(jar)
		if err != nil {
			return "", err
		}
		for _, f := range names.File {
			if class, ok := strings.CutSuffix(f.Name, "/JdbcSourceConnector.class"); ok {
				return strings.ReplaceAll(class, "/", ".") + ".JdbcSourceConnector", names.Close()
			}
		}
		if err := names.Close(); err != nil {
			return "", err
		}
	}
	return "", fmt.Errorf("no JdbcSourceConnector in %s", strings.Join(jars, ", "))
}
