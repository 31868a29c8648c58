package config

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"example.org/bridge/event"
	"example.org/bridge/internal/option"
	"example.org/bridge/internal/stream"
	"example.org/bridge/source"
	"example.org/bridge/source/ledger"
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

// TestErrorsOfAStreamNameItsVariables has errors of packages that know no variable, wrapped as a
// shard wraps them.
func TestErrorsOfAStreamNameItsVariables(t *testing.T) {
	columns := &source.Columns{List: []source.Column{{Name: "id", Kind: source.Int}, {Name: "row", Kind: source.Text}}, Key: []int{0}, Created: -1, Modified: -1, Deleted: -1}
	bind := func(fields ...event.Field) error {
		encoder, err := event.NewEncoder(event.Options{
			Stream: "orders", Shard: "orders", Kind: event.Capability, Stem: "Order", Version: "1.0.0", Format: event.FormatEiffel,
			Domain: "d", Source: "s", Table: "orders", BadValue: event.StopOnBad, Fields: fields,
		})
		if err != nil {
			t.Fatal(err)
		}
		return encoder.Bind(columns)
	}
	_, hold := ledger.New(ledger.Options{Policy: ledger.GapHold, Order: source.OrderSegmented}, 0)
	_, start := stream.StartProgress(event.Release, stream.StartSetting{After: 10}, 5)
	if !errors.Is(start, source.ErrUnfit) {
		t.Errorf("%v does not wrap source.ErrUnfit", start)
	}
	const own = "BRIDGE_STREAM_ORDERS_"
	for name, c := range map[string]struct {
		err  error
		want []string
	}{
		"a value that cannot be encoded": {&event.BadValueError{Table: "orders", Row: 7, Column: "name", Fault: "is not valid UTF-8"}, []string{"out of " + own + "FIELDS", "set " + own + "ON_BAD_VALUE=null"}},
		"a column that is not there":     {bind(event.Field{Column: "nowhere"}), []string{own + "FIELDS names", "correct " + own + "FIELDS to"}},
		"a column that is there twice":   {bind(event.Field{Column: "id", Member: "a"}, event.Field{Column: "id", Member: "b"}), []string{own + "FIELDS names"}},
		"a member that events keep":      {bind(), []string{"another member in " + own + "FIELDS"}},
		"a policy that does not fit":     {hold, []string{own + "GAP_POLICY=hold", own + "ID_ORDER=segmented", "use " + own + "GAP_POLICY=late"}},
		"a start above the table":        {start, []string{own + "START is 10", "correct " + own + "START,"}},
	} {
		err := fmt.Errorf("orders: %w: %w", source.ErrUnfit, c.err)
		got := StreamText("orders")(err)
		for _, want := range c.want {
			if c.err == nil || !strings.Contains(got, want) {
				t.Errorf("%s: %q does not say %q", name, got, want)
			}
		}
		if short := strings.ReplaceAll(got, own, ""); short != err.Error() {
			t.Errorf("%s: the text is %q, the error says %q", name, got, err)
		}
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
		if variable := Naming("orders")(option.Name(name[1])); !slices.Contains(NewDrivers().known([]string{"orders"}), variable) {
			t.Errorf("%s is not a variable", variable)
		}
	}
}
