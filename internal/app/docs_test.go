package app

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"example.org/bridge/internal/buscopy"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/standby"
)

// described is a registry that keeps nothing but what its collectors describe.
type described []string

func (d *described) Register(c prometheus.Collector) error {
	descs := make(chan *prometheus.Desc, 100)
	c.Describe(descs)
	close(descs)
	for desc := range descs {
		_, rest, _ := strings.Cut(desc.String(), `fqName: "`)
		name, _, _ := strings.Cut(rest, `"`)
		*d = append(*d, name)
	}
	return nil
}

func (d *described) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		_ = d.Register(c) // there is no error
	}
}

func (d *described) Unregister(prometheus.Collector) bool { return false }

// registered returns the metrics of a process that uses everything.
func registered() (there described) {
	shard.NewMetrics(&there, true)
	registerMetrics(&there, &App{
		opts: Options{Config: new(config.Config)}, kept: &kept{member: standby.New(standby.Options{})}, parts: parts{copies: buscopy.NewKeeper(buscopy.Options{})},
	})
	return there
}

func TestReferenceListsTheMetrics(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference.md")
	if err != nil {
		t.Fatal(err)
	}
	there := registered()
	_, table, _ := strings.Cut(string(page), "\n## Metrics\n")
	var listed []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(bridge_[a-z_]+)`").FindAllStringSubmatch(table, -1) {
		listed = append(listed, row[1])
	}
	slices.Sort(there)
	slices.Sort(listed)
	if !slices.Equal(there, listed) {
		t.Errorf("docs/reference.md lists\n%v\nthere are\n%v", listed, there)
	}
}
