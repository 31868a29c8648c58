package bench

import (
	"bytes"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"text/template"

	"bridge/event"
	"bridge/tests/testenv"
)

// peer is a program with its settings that brings the rows of a table to a bus.
type peer struct {
	name string
	// on are the buses that it can publish to.
	on []string
	// topic is where its messages for an errand go, on Kafka.
	topic func(e errand) string
	start func(b *peerBench, e errand) *process
	// versions are those of its parts, by name.
	versions map[string]string
}

// errand is what a peer is to do: to bring the rows of a table to a target of a bus.
type errand struct {
	bus             bus
	database, table string
	target          string
}

// holder is the topic or the stream that holds the messages of a peer.
func (p *peer) holder(e errand) string {
	if e.bus.name() == "jetstream" {
		return e.target
	}
	return p.topic(e)
}

// bridgePeer is bridge, with variables besides those that say what is where.
func bridgePeer(name string, settings env) peer {
	return peer{
		name: name, on: busNames,
		topic: func(e errand) string { return e.target },
		start: func(b *peerBench, e errand) *process {
			destination := e.target
			if e.bus.name() == "jetstream" {
				destination += ".{type}"
			}
			all := b.streamEnv(event.Release, e.table, destination)
			maps.Copy(all, e.bus.env(e.target))
			maps.Copy(all, settings)
			return startDaemon(b.t, b.path, all).process
		},
	}
}

// settings fill the templates of a peer's configuration.
type settings struct {
	Host, Port, Database, Table, User, Password string
	// Servers are those of the bus.
	Servers, Target string
	// Folder is for what the program keeps.
	Folder             string
	HTTPPort, ServerID int
	Tuned              bool
	// Plugins is the folder of the connector, Class its type.
	Plugins, Class string
}

// settingsOf are those for an errand.
func (b *peerBench) settingsOf(e errand, tuned bool) settings {
	b.t.Helper()
	host, port, err := net.SplitHostPort(b.db.server.Addr)
	if err != nil {
		b.t.Fatal(err)
	}
	free := testenv.FreePort(b.t)
	return settings{
		Host: host, Port: port, Database: b.db.name, Table: e.table, User: b.db.reader, Password: readerPassword, Servers: e.bus.servers(),
		Target: e.target, Folder: b.t.TempDir(), HTTPPort: free, ServerID: free, Tuned: tuned,
	}
}

// file writes a configuration that is made of templates, and returns its path.
func (s settings) file(t testing.TB, name string, templates ...string) string {
	t.Helper()
	var text bytes.Buffer
	for _, one := range templates {
		made, err := template.ParseFiles(filepath.Join("peers", one))
		if err != nil {
			t.Fatal(err)
		}
		if err := made.Execute(&text, s); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(s.Folder, name)
	if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// peersFolder is where scripts/peers puts what it fetches.
func peersFolder() string {
	if dir := os.Getenv("BRIDGE_TEST_CACHE"); dir != "" {
		return filepath.Join(dir, "peers")
	}
	return filepath.Join(top(), ".cache", "peers")
}

// peers returns all that can run here, and why the others cannot.
func (b *peerBench) peers() (all []peer, missing []string) {
	all = append(all, bridgePeer(bridgeName, nil),
		bridgePeer(bridgeFast, env{"BRIDGE_STABILITY_WINDOW": "0s", "BRIDGE_POLL_INTERVAL": "10ms"}))
	for _, add := range []func() ([]peer, error){debezium, connect} {
		some, err := add()
		if err != nil {
			missing = append(missing, fmt.Sprint(err))
		}
		all = append(all, some...)
	}
	return all, missing
}

// The names of the peers.
const (
	bridgeName = "bridge"
	bridgeFast = "bridge, window 0s, poll 10ms"
	shipped    = ", as shipped"
	tuned      = ", tuned"
	pollerName = "SELECT … WHERE id > ?"
)

// onlyJar returns the one jar that matches a pattern of package filepath.
func onlyJar(pattern string) (string, error) {
	jars, err := filepath.Glob(pattern)
	if err != nil {
		return "", err
	}
	if len(jars) != 1 {
		return "", fmt.Errorf("%d files match %s, want 1", len(jars), pattern)
	}
	return jars[0], nil
}

// versionOf reads the version from the name of a jar, and the name in front of it. The version is
// empty where the name has none.
func versionOf(jar string) (name, version string) {
	name = strings.TrimSuffix(filepath.Base(jar), ".jar")
	if parts := versionedName.FindStringSubmatch(name); parts != nil {
		return parts[1], parts[2]
	}
	return name, ""
}

// versionedName is the name of a jar, with its version behind.
var versionedName = regexp.MustCompile(`^(.+?)-(\d.*)$`)

// runs reports whether p can publish to a bus.
func (p *peer) runs(one bus) bool { return strings.Contains(strings.Join(p.on, ","), one.name()) }
