package configtest

import (
	"maps"
	"slices"
)

// Env is an environment: names and values of variables.
type Env map[string]string

// Minimal returns an environment with what is required and nothing else: a capability stream of two
// tables.
func Minimal() Env {
	return Env{
		"BRIDGE_SOURCE_URL":          "mysql://reader:secret-of-source@db.example.com/shop",
		"BRIDGE_SINK_URL":            "kafka://k1:9093,k2",
		"BRIDGE_STREAMS":             "orders",
		"BRIDGE_STREAM_ORDERS_TABLE": "orders_{0..1}",
		"BRIDGE_STREAM_ORDERS_KIND":  "capability",
	}
}

// With returns Minimal with variables set, or unset where the value is "-". Names and values
// alternate.
func With(pairs ...string) Env {
	env := Minimal()
	for pair := range slices.Chunk(pairs, 2) {
		if env[pair[0]] = pair[1]; pair[1] == "-" {
			delete(env, pair[0])
		}
	}
	return env
}

// Environ returns the environment as os.Environ does, sorted.
func (e Env) Environ() []string {
	var entries []string
	for _, name := range slices.Sorted(maps.Keys(e)) {
		entries = append(entries, name+"="+e[name])
	}
	return entries
}
