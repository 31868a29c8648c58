package config

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

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

func TestConfig(t *testing.T) {
	t.Run("takes every setting of a stream", func(t *testing.T) {
		s := load(t, with(
			"BRIDGE_STREAM_ORDERS_TABLE", "a, shop.b",
			"BRIDGE_STREAM_ORDERS_EVENT", "Order",
			"BRIDGE_STREAM_ORDERS_EVENT_NAMES", "added:OrderAddedMessage, modified:OrderAddedMessage",
			"BRIDGE_STREAM_ORDERS_FIELDS", "order_no:number, state,",
			"BRIDGE_STREAM_ORDERS_ID", "seq",
			"BRIDGE_STREAM_ORDERS_KEY", "order_no",
			"BRIDGE_STREAM_ORDERS_CREATED", "made",
			"BRIDGE_STREAM_ORDERS_MODIFIED", "made",
			"BRIDGE_STREAM_ORDERS_DELETED", "gone != a|b c",
			"BRIDGE_STREAM_ORDERS_DESTINATION", "shop.{table}",
			"BRIDGE_STREAM_ORDERS_START", "18446744073709551615",
		)).Streams[0]
		if s.Name != "orders" || s.Kind != event.Capability || !slices.Equal(s.Tables, []string{"a", "shop.b"}) || s.Event != "Order" {
			t.Errorf("%+v", s)
		}
		if s.EventNames[event.Added] != "OrderAddedMessage" || s.EventNames[event.Modified] != "OrderAddedMessage" {
			t.Errorf("event names %v", s.EventNames)
		}
		if !slices.Equal(s.Fields, []event.Field{{Column: "order_no", Member: "number"}, {Column: "state"}}) {
			t.Errorf("fields %v", s.Fields)
		}
		if !s.Deletion.Except || !slices.Equal(s.Deletion.Values, []string{"a", "b c"}) {
			t.Errorf("deletion %+v", s.Deletion)
		}
		if s.ID != "seq" || s.Created != "made" || s.Modified != "made" || s.Deleted != "gone" || s.Destination != "shop.{table}" {
			t.Errorf("%+v", s)
		}
		if s.Start != (Start{After: 1<<64 - 1}) {
			t.Errorf("start %+v", s.Start)
		}
	})

	t.Run("lets a stream override the global tuning, with zero too", func(t *testing.T) {
		env := with("BRIDGE_STREAMS", "orders,bills", "BRIDGE_STREAM_BILLS_TABLE", "b", "BRIDGE_STREAM_BILLS_KIND", "release",
			"BRIDGE_STABILITY_WINDOW", "5s", "BRIDGE_STREAM_BILLS_STABILITY_WINDOW", "0s",
			"BRIDGE_TIME_ZONE", "Asia/Shanghai", "BRIDGE_STREAM_ORDERS_TIME_ZONE", "UTC")
		streams := load(t, env).Streams
		if streams[0].StabilityWindow != 5*time.Second || streams[1].StabilityWindow != 0 {
			t.Errorf("windows %s and %s", streams[0].StabilityWindow, streams[1].StabilityWindow)
		}
		if streams[0].TimeZone.Location.String() != "UTC" || streams[1].TimeZone.Location.String() != "Asia/Shanghai" {
			t.Errorf("zones %s and %s", streams[0].TimeZone.Location, streams[1].TimeZone.Location)
		}
	})

	t.Run("takes a variable that is empty for one that is not set", func(t *testing.T) {
		cfg := load(t, with("BRIDGE_POLL_INTERVAL", "", "BRIDGE_KAFKA_TLS", " ", "BRIDGE_STREAM_ORDERS_START", "", "BRIDGE_SOMETHING", ""))
		if cfg.Streams[0].PollInterval != 200*time.Millisecond || kafkaOf(cfg.Sink).TLS != nil {
			t.Errorf("%+v", cfg)
		}
	})

	t.Run("does not mind the letter case of a value that is one of a list", func(t *testing.T) {
		cfg := load(t, with("BRIDGE_LOG_LEVEL", "DEBUG", "BRIDGE_KAFKA_COMPRESSION", "ZSTD", "BRIDGE_STREAM_ORDERS_KIND", "Capability"))
		if cfg.LogLevel.String() != "DEBUG" || kafkaOf(cfg.Sink).Compression != kafka.Zstd || cfg.Streams[0].Kind != event.Capability {
			t.Errorf("%+v", cfg)
		}
	})
}

func TestStreamPrefixes(t *testing.T) {
	two := func(pairs ...string) settingsOf {
		return with(append([]string{
			"BRIDGE_STREAMS", "a,a_b", "BRIDGE_STREAM_ORDERS_TABLE", "-", "BRIDGE_STREAM_ORDERS_KIND", "-",
			"BRIDGE_STREAM_A_TABLE", "ta", "BRIDGE_STREAM_A_KIND", "release",
			"BRIDGE_STREAM_A_B_TABLE", "tab", "BRIDGE_STREAM_A_B_KIND", "capability",
		}, pairs...)...)
	}
	t.Run("the longest name wins where two share a prefix", func(t *testing.T) {
		streams := load(t, two()).Streams
		if streams[0].Tables[0] != "ta" || streams[1].Tables[0] != "tab" {
			t.Errorf("tables %v and %v", streams[0].Tables, streams[1].Tables)
		}
	})
	t.Run("no two settings could be taken for one another", func(t *testing.T) {
		all := streamVariables("")
		for _, long := range all {
			for _, short := range all {
				if strings.HasSuffix(long.Name, "_"+strings.TrimPrefix(short.Name, StreamPrefix(""))) && long.Name != short.Name && !strings.HasSuffix(long.Name, reconcileRate) {
					t.Errorf("%s ends as %s does: a stream name could hide it", long.Name, short.Name)
				}
			}
		}
	})
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

// TestConnections: a source can have its own bound, none too.
func TestConnections(t *testing.T) {
	for own, want := range map[string]int{"-": 9, "12": 12, "0": 0} {
		all := load(t, several("BRIDGE_SOURCE_CONNECTIONS", "9", "BRIDGE_SOURCE_B_CONNECTIONS", own)).Sources
		if all[0].Connections != 9 || all[1].Connections != want {
			t.Errorf("%s: %d and %d connections", own, all[0].Connections, all[1].Connections)
		}
	}
	load(t, with("BRIDGE_SOURCE_CONNECTIONS", "7"))
}

func TestChangesLimitsAlone(t *testing.T) {
	before := with("BRIDGE_RATE", "5")
	for _, c := range []struct {
		name, value string
		want        bool
	}{
		{"BRIDGE_RATE", "6", true}, {"BRIDGE_RATE", "5", false}, {"BRIDGE_STREAM_ORDERS_RATE", "9", true}, {"BRIDGE_SOURCE_CONNECTIONS", "20", true},
		{"BRIDGE_STREAM_ORDERS_RECONCILE_RATE", "9", false}, {"BRIDGE_POLL_INTERVAL", "1s", false},
	} {
		after := maps.Clone(before)
		after[c.name] = c.value
		if got := load(t, before).ChangesLimitsAlone(load(t, after)); got != c.want {
			t.Errorf("%s=%s: %t", c.name, c.value, got)
		}
		after["BRIDGE_BATCH_ROWS"] = "17"
		if load(t, before).ChangesLimitsAlone(load(t, after)) {
			t.Errorf("%s with BATCH_ROWS changes limits alone", c.name)
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

// TestNoFullList: a stream that has none says why.
func TestNoFullList(t *testing.T) {
	const interval = "BRIDGE_STREAM_ORDERS_FULL_LIST_INTERVAL"
	for _, c := range []struct {
		env  settingsOf
		want string
	}{
		{with(interval, "1h", "BRIDGE_STREAM_ORDERS_KIND", "release"), "is a log"},
		{with(interval, "1h", "BRIDGE_STREAM_ORDERS_KIND", "capability", "BRIDGE_SHARE", "0/2", "BRIDGE_CHECKPOINT_URL", "bus:"), "BRIDGE_SHARE"},
		{with(interval, "1h", "BRIDGE_STREAM_ORDERS_KIND", "capability", "BRIDGE_SINK_URL", "stdout:"), "can be read"},
		{with(interval, "5ms", "BRIDGE_STREAM_ORDERS_KIND", "capability"), "1s or more"},
	} {
		if _, err := Load(c.env.Environ(), &Redactor{}); err == nil || !strings.Contains(err.Error(), interval) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v", c.env, err)
		}
	}
	load(t, with(interval, "1h", "BRIDGE_STREAM_ORDERS_KIND", "capability"))
}

// TestFormatsOfIDs: what does not go with ids that are not integers is refused by name.
func TestFormatsOfIDs(t *testing.T) {
	const own = "BRIDGE_STREAM_ORDERS_"
	good := with(own+"ID_FORMAT", "ULID", own+"KIND", "capability", "BRIDGE_GAP_TTL", "1h", "BRIDGE_ID_ORDER", "segmented")
	cfg := load(t, good)
	s := &cfg.Streams[0]
	if spec := s.Spec("orders"); spec.IDFormat != source.ULID || s.Order() != source.OrderNone {
		t.Errorf("read as %+v, in the order %s", spec, s.Order())
	}
	if s := &load(t, with()).Streams[0]; s.Spec("orders").IDFormat != "" || s.Order() != "" {
		t.Errorf("without a format: %q, in the order %q", s.Spec("orders").IDFormat, s.Order())
	}
	for name, c := range map[string]struct{ value, want string }{
		"KIND": {"release", own + "ID_FORMAT: is for capability streams"}, "ID_ORDER": {"strict", own + "ID_ORDER: is strict"},
		"GAP_POLICY": {"late", own + "GAP_POLICY: has no meaning"}, "GAP_TTL": {"2h", own + "GAP_TTL: has no meaning"},
		"START": {"latest", own + "START: is not beginning, and with " + own + "ID_FORMAT=ulid"}, "ID_FORMAT": {"uuid4", own + "ID_FORMAT"},
	} {
		env := settingsOf{}
		maps.Copy(env, good)
		env[own+name] = c.value
		if _, err := Load(env.Environ(), &Redactor{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s=%s: %v", name, c.value, err)
		}
	}
	random := with(own+"KIND", "capability", "BRIDGE_ID_ORDER", "none", own+"START", "7")
	if _, err := Load(random.Environ(), &Redactor{}); err == nil || !strings.Contains(err.Error(), own+"START: is not beginning, and with "+own+"ID_ORDER=none") {
		t.Errorf("START where ids have no order: %v", err)
	}
}
