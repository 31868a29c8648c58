package config

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"example.org/bridge/event"
	"example.org/bridge/internal/config/configtest"
	kafkadriver "example.org/bridge/internal/driver/kafka"
	natsdriver "example.org/bridge/internal/driver/nats"
	"example.org/bridge/internal/option"
	"example.org/bridge/internal/stream"
	"example.org/bridge/sink/jetstream"
	"example.org/bridge/sink/kafka"
	"example.org/bridge/source"
	"example.org/bridge/source/ledger"
	"example.org/bridge/tests/must"
)

// TestConfig has settings with what they change of a configuration.
func TestConfig(t *testing.T) {
	unset := whatIsSet(t, load(t, minimal()))
	configtest.Recorded(t, "testdata/config.txt", *update, func(t *testing.T, input []string) string {
		set := whatIsSet(t, load(t, changed(input)))
		for name := range unset {
			set[name] += ""
		}
		var said strings.Builder
		for _, name := range slices.Sorted(maps.Keys(set)) {
			if set[name] != unset[name] {
				fmt.Fprintln(&said, name+":", cmp.Or(set[name], "not set"))
			}
		}
		return said.String()
	})
}

// whatIsSet returns the fields of a configuration that are not zero, by their paths.
func whatIsSet(t *testing.T, cfg *Config) map[string]string {
	t.Helper()
	all := make(map[string]string)
	var walk func(at string, v reflect.Value)
	walk = func(at string, v reflect.Value) {
		switch {
		case v.IsZero() || v.Kind() == reflect.Func:
		case v.CanInterface() && v.Type().Implements(reflect.TypeFor[fmt.Stringer]()):
			all[at] = fmt.Sprint(v)
		case v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface:
			walk(at, v.Elem())
		case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct:
			for i := range v.Len() {
				walk(fmt.Sprint(at, "[", i, "]"), v.Index(i))
			}
		case v.Kind() == reflect.Struct:
			for i := range v.NumField() {
				if field := v.Type().Field(i); field.IsExported() || field.Anonymous {
					walk(strings.TrimPrefix(at+"."+field.Name, "."), v.Field(i))
				}
			}
		default:
			all[at] = fmt.Sprintf("%+v", v)
		}
	}
	walk("", reflect.ValueOf(cfg).Elem())
	return all
}

// TestStreamPrefixes: no two settings could be taken for one another.
func TestStreamPrefixes(t *testing.T) {
	all := streamVariables("")
	for _, long := range all {
		for _, short := range all {
			if strings.HasSuffix(long.Name, "_"+strings.TrimPrefix(short.Name, StreamPrefix(""))) && long.Name != short.Name && !strings.HasSuffix(long.Name, reconcileRate) {
				t.Errorf("%s ends as %s does: a stream name could hide it", long.Name, short.Name)
			}
		}
	}
}

type settingsOf = configtest.Env

var minimal, with = configtest.Minimal, configtest.With

func load(t *testing.T, env settingsOf) *Config {
	t.Helper()
	cfg := must.Get(Load(env.Environ(), &Redactor{}))(t)
	return cfg
}

// kafkaOf and natsOf return the options with which the bus is opened.
func kafkaOf(s Sink) kafka.Options    { return s.Driver.(*kafkadriver.Driver).Options }
func natsOf(s Sink) jetstream.Options { return s.Driver.(*natsdriver.Driver).Options }

func TestStreamLoggerNamesTheVariablesOfItsStream(t *testing.T) {
	var log strings.Builder
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: new(Redactor).Attr}))
	one := StreamLogger(logger, "orders").With("shard", "items")
	one.Error("shard stopped", "error", fmt.Errorf("read items: %w", option.Errorf("no column %q, which %s names", "x", option.Created)), "rows", 3)
	one.Warn("no name", "error", errors.New("EOF"))
	for _, want := range []string{"which BRIDGE_STREAM_ORDERS_CREATED names", "stream=orders shard=items", "rows=3", "error=EOF"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not say %q:\n%s", want, log.String())
		}
	}
}

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
		encoder := must.Get(event.NewEncoder(event.Options{
			Stream: "orders", Shard: "orders", Kind: event.Capability, Stem: "Order", Version: "1.0.0", Format: event.FormatEiffel,
			Domain: "d", Source: "s", Table: "orders", BadValue: event.StopOnBad, Fields: fields,
		}))(t)
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
	source := must.Get(os.ReadFile("../option/option.go"))(t)
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

// TestIDsWithoutAnOrder: those that are no integers have none.
func TestIDsWithoutAnOrder(t *testing.T) {
	s := &load(t, with("BRIDGE_STREAM_ORDERS_ID_FORMAT", "ULID")).Streams[0]
	if spec := s.Spec("orders"); spec.IDFormat != source.ULID || s.Order() != source.OrderNone {
		t.Errorf("read as %+v, in the order %s", spec, s.Order())
	}
	if s := &load(t, with()).Streams[0]; s.Spec("orders").IDFormat != "" || s.Order() != "" {
		t.Errorf("without a format: %q, in the order %q", s.Spec("orders").IDFormat, s.Order())
	}
}
