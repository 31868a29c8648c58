package config

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"testing"

	"bridge/internal/option"
)

func TestNaming(t *testing.T) {
	for _, c := range []struct {
		stream string
		name   option.Name
		want   string
	}{
		{"", option.NATSCreateStream, "BRIDGE_NATS_CREATE_STREAM"},
		{"orders", option.NATSCreateStream, "BRIDGE_NATS_CREATE_STREAM"},
		{"", option.DeadLetter, "BRIDGE_DEAD_LETTER"},
		{"orders", option.TimeZone, "BRIDGE_STREAM_ORDERS_TIME_ZONE"},
		{"orders", option.Created, "BRIDGE_STREAM_ORDERS_CREATED"},
		{"", option.Created, "BRIDGE_STREAM_<NAME>_CREATED"},
	} {
		if got := Naming(c.stream)(c.name); got != c.want {
			t.Errorf("%s of stream %q is named %s, want %s", c.name, c.stream, got, c.want)
		}
	}
}

func TestText(t *testing.T) {
	err := fmt.Errorf("publish: %w", option.Errorf("set %s", option.SinkURL))
	if got := Text(err); got != "publish: set BRIDGE_SINK_URL" {
		t.Errorf("%q", got)
	}
	if got := Text(errors.New("EOF")); got != "EOF" {
		t.Errorf("%q", got)
	}
}

func TestStreamText(t *testing.T) {
	err := fmt.Errorf("open: %w", option.Errorf("set %s or %s", option.ReconcileMaxDeletes, option.SinkURL))
	if got := StreamText("orders")(err); got != "open: set BRIDGE_STREAM_ORDERS_RECONCILE_MAX_DELETES or BRIDGE_SINK_URL" {
		t.Errorf("%q", got)
	}
}

func TestEveryOptionHasAVariable(t *testing.T) {
	source, err := os.ReadFile("../option/option.go")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`Name = "([A-Z_]+)"`).FindAllStringSubmatch(string(source), -1)
	if len(names) == 0 {
		t.Fatal("no options")
	}
	for _, name := range names {
		if variable := Naming("orders")(option.Name(name[1])); !slices.Contains(known([]string{"orders"}), variable) {
			t.Errorf("%s is not a variable", variable)
		}
	}
}
