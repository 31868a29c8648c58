package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
)

// debezium is Debezium Server, as shipped and tuned.
func debezium() ([]peer, error) {
	folder := filepath.Join(peersFolder(), "debezium-server")
	if _, err := os.Stat(folder); err != nil {
		return nil, fmt.Errorf("Debezium Server is left out: %w: scripts/peers fetches it", err)
	}
	home, err := javaOf(21)
	if err != nil {
		return nil, fmt.Errorf("Debezium Server is left out: %w", err)
	}
	core, err := onlyJar(filepath.Join(folder, "lib", "debezium-server-core-*.jar"))
	if err != nil {
		return nil, fmt.Errorf("Debezium Server is left out: %w", err)
	}
	_, version := versionOf(core)
	var both []peer
	for _, is := range []bool{false, true} {
		name := "Debezium Server" + shipped
		if is {
			name = "Debezium Server" + tuned
		}
		both = append(both, peer{
			name: name, on: busNames, versions: map[string]string{"Debezium Server": version},
			topic: func(e errand) string { return e.target + "." + e.database + "." + e.table },
			start: func(b *peerBench, e errand) *process {
				s := b.settingsOf(e, is)
				templates := []string{"debezium.properties", "debezium-" + e.bus.name() + ".properties"}
				if is {
					templates = append(templates, "debezium-tuned.properties")
				}
				command := exec.Command("bash", "run.sh")
				command.Dir = folder
				command.Env = append(os.Environ(), "JAVA_HOME="+home, "QUARKUS_CONFIG_LOCATIONS="+s.file(b.t, "application.properties", templates...),
					// Java 25 keeps its own classes to itself.
					"JAVA_OPTS=--add-opens=java.base/java.lang=ALL-UNNAMED")
				return startProcess(b.t, name, command)
			},
		})
	}
	return both, nil
}

// javaOf returns the home of the newest Java that is at least of a version.
func javaOf(least int) (string, error) {
	homes, err := filepath.Glob("/usr/lib/jvm/*")
	if err != nil {
		return "", err
	}
	if home := os.Getenv("JAVA_HOME"); home != "" {
		homes = append(homes, home)
	}
	best, newest := "", least-1
	for _, home := range homes {
		release, err := os.ReadFile(filepath.Join(home, "release"))
		if err != nil {
			continue
		}
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

// javaBinary is the newest Java for programs that need no special one.
func javaBinary() (string, error) {
	home, err := javaOf(17)
	if err == nil {
		return filepath.Join(home, "bin", "java"), nil
	}
	return exec.LookPath("java")
}
