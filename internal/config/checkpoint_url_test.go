package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestProgressOnTheBus(t *testing.T) {
	t.Parallel()
	folder := func(pairs ...string) string {
		t.Helper()
		cfg := load(t, with(append([]string{"BRIDGE_CHECKPOINT_URL", "bus:"}, pairs...)...))
		if cfg.CheckpointTopic != "bridge-progress" {
			t.Errorf("the topic is %q", cfg.CheckpointTopic)
		}
		return cfg.CheckpointPath
	}
	t.Run("the folder is found again, and of one configuration and address alone", func(t *testing.T) {
		one := folder()
		if filepath.Dir(one) != filepath.Clean(os.TempDir()) || folder() != one {
			t.Errorf("folders %s and %s", one, folder())
		}
		if one == folder("BRIDGE_DOMAIN_ID", "other") || one == folder("BRIDGE_HTTP_ADDR", ":8081") {
			t.Error("two processes have one folder")
		}
		if got := folder("BRIDGE_CHECKPOINT_URL", "bus:///var/lib/bridge/cache"); got != "/var/lib/bridge/cache" {
			t.Errorf("the folder is %s", got)
		}
		if got := folder("BRIDGE_CHECKPOINT_URL", "bus:cache"); got != "cache" {
			t.Errorf("the folder is %s", got)
		}
	})
	t.Run("a folder alone needs no topic", func(t *testing.T) {
		cfg := load(t, with("BRIDGE_CHECKPOINT_TOPIC", "x"))
		if cfg.CheckpointTopic != "" || len(cfg.Warnings) != 1 || cfg.Warnings[0].Variable != "BRIDGE_CHECKPOINT_TOPIC" {
			t.Errorf("%q, %v", cfg.CheckpointTopic, cfg.Warnings)
		}
	})
	t.Run("what cannot be is refused", func(t *testing.T) {
		for _, url := range []string{"embedded:", "stdout:"} {
			wantFault(t, with("BRIDGE_SINK_URL", url, "BRIDGE_CHECKPOINT_URL", "bus:"), "BRIDGE_CHECKPOINT_URL", "Kafka or NATS")
		}
		wantFault(t, with("BRIDGE_CHECKPOINT_URL", "bus://host/x"), "BRIDGE_CHECKPOINT_URL", "three slashes")
		wantFault(t, with("BRIDGE_CHECKPOINT_URL", "bus:", "BRIDGE_CHECKPOINT_TOPIC", "a.b"), "BRIDGE_CHECKPOINT_TOPIC", "invalid name")
		wantFault(t, with("BRIDGE_CHECKPOINT_URL", "bus:", "BRIDGE_CHECKPOINT_TOPIC", "x", "BRIDGE_STREAM_ORDERS_DESTINATION", "x"), "BRIDGE_CHECKPOINT_TOPIC", "a topic of the stream orders")
	})
	t.Run("processes of a group agree on it", func(t *testing.T) {
		settings := func(url string) string {
			var names []string
			for name := range load(t, with("BRIDGE_STANDBY", "a", "BRIDGE_CHECKPOINT_URL", url)).Standby.Settings {
				names = append(names, name)
			}
			return strings.Join(names, ",")
		}
		if !strings.Contains(settings("bus:///a"), "CHECKPOINT_URL") || strings.Contains(settings("file:a"), "CHECKPOINT") {
			t.Errorf("%s, %s", settings("bus:///a"), settings("file:a"))
		}
	})
}
