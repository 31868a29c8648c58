package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.org/bridge/checkpoint/store"
	storememory "example.org/bridge/checkpoint/store/storetest/memory"
	"example.org/bridge/internal/buscopy/buckettest"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/config/configtest"
	"example.org/bridge/internal/driver"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/standby/standbytest"
	"example.org/bridge/reconcile"
	"example.org/bridge/sink"
	sinkmemory "example.org/bridge/sink/sinktest/memory"
	"example.org/bridge/source"
	sourcememory "example.org/bridge/source/sourcetest/memory"
	"example.org/bridge/tests/must"
)

// tables are those of databases in memory: of several with the name of the server and a slash.
type tables map[string]*sourcememory.Table

// keptSink and keptStore outlive an app.
type (
	keptSink  struct{ *sinkmemory.Sink }
	keptStore struct{ *storememory.Store }
)

func (keptSink) Close() error { return nil }

// toySink is the bus of a household, of which slow and denied topics are not read.
type toySink struct {
	keptSink
	of *household
}

func (s toySink) TPs(ctx context.Context, destinations []string) ([]sink.TP, error) {
	if s.of.denied.Load() {
		return nil, sink.ErrUnreadable
	}
	return s.keptSink.TPs(ctx, destinations)
}

func (s toySink) Read(ctx context.Context, span sink.Span, each func(*sink.Stored) error) (uint64, error) {
	if s.of.consumed.Load() {
		return span.From, sink.ErrUnreadable
	}
	if slow, _ := s.of.slow.Load().(string); slow != "" && strings.HasPrefix(span.TP, slow) {
		<-ctx.Done()
		return span.From, context.Cause(ctx)
	}
	return s.keptSink.Read(ctx, span, each)
}

func (keptStore) Close() error { return nil }

// household is a stream with two tables, whose rows have a name, which is the key, and a state.
type household struct {
	t      *testing.T
	cfg    *config.Config
	tables tables
	bus    *sinkmemory.Sink
	store  *storememory.Store
	topics []string
	// away has the servers that do not answer.
	away sync.Map
	// unreadable says that the bus cannot be read back, denied that it may not be now.
	unreadable bool
	denied     atomic.Bool
	// consumed says that the bus keeps no messages for readers.
	consumed atomic.Bool
	// slow is a topic whose messages are waited for.
	slow atomic.Value
	// refuses is how often the bus is not opened, opened how many databases are open.
	refuses, opened atomic.Int64
	// inside says that a command runs the bridge.
	inside bool
	// bucket has the progress on the bus, where cfg says so.
	bucket buckettest.Memory
	// entries are those of the standby group, where cfg has one.
	entries standbytest.Entries
	log     sharedLog

	app  *App
	stop func()
}

// emptyHousehold returns one without tables and topics, with the variables of streams.
func emptyHousehold(t *testing.T, env configtest.Env) *household {
	h := &household{t: t, tables: make(tables), bus: sinkmemory.New(sinkmemory.Options{}), store: storememory.New(), stop: func() {}}
	h.configure(env)
	t.Cleanup(func() { h.stop() })
	return h
}

func (h *household) configure(env configtest.Env) {
	h.t.Helper()
	all := configtest.Env{
		"BRIDGE_SINK_URL": "toybus:", "BRIDGE_CHECKPOINT_URL": "file:" + filepath.Join(h.t.TempDir(), "none"),
		"BRIDGE_STABILITY_WINDOW": "0s", "BRIDGE_POLL_INTERVAL": "10ms", "BRIDGE_SHUTDOWN_TIMEOUT": "20ms",
	}
	if env["BRIDGE_SOURCES"] == "" {
		all["BRIDGE_SOURCE_URL"] = "toytables:" + alone
	}
	maps.Copy(all, env)
	drivers := &config.Drivers{Buses: []driver.Bus{toyBus{h}}, Databases: []driver.Database{toyDatabase{household: h}}}
	h.cfg = must.Get(drivers.Load(all.Environ(), &config.Redactor{}))(h.t)
}

// movesEnv has the stream moves, whose entities by name have a state, and further variables.
func movesEnv(pairs ...string) configtest.Env {
	env := configtest.Env{
		"BRIDGE_STREAMS": "moves", "BRIDGE_STREAM_MOVES_KIND": "capability", "BRIDGE_STREAM_MOVES_KEY": "name",
		"BRIDGE_STREAM_MOVES_MODIFIED": "modified", "BRIDGE_RECONCILE_MAX_DELETES": "100%",
	}
	for pair := range slices.Chunk(pairs, 2) {
		env[pair[0]] = pair[1]
	}
	return env
}

// newTable makes an empty table of the first stream, in place of a former one.
func (h *household) newTable(name string) *sourcememory.Table {
	spec := h.cfg.Streams[0].Spec(name)
	if _, in, several := strings.Cut(name, "/"); several {
		spec.Table = in
	}
	h.tables[name] = sourcememory.NewTable(spec,
		source.Column{Name: "id", Kind: source.Int}, source.Column{Name: "name", Kind: source.Text},
		source.Column{Name: "state", Kind: source.Text}, source.Column{Name: "modified", Kind: source.DateTime, Precision: 6})
	return h.tables[name]
}

// newHousehold begins a life with a bridge that runs. topic may name the table.
func newHousehold(t *testing.T, topic string) *household {
	h := emptyHousehold(t, movesEnv("BRIDGE_STREAM_MOVES_TABLE", "d_{0..1}", "BRIDGE_STREAM_MOVES_DESTINATION", topic))
	s := &h.cfg.Streams[0]
	for _, table := range s.Tables {
		h.newTable(table)
	}
	h.topics = h.cfg.Destinations(s)
	for _, topic := range h.topics {
		h.bus.Create(topic)
	}
	h.start()
	return h
}

// newServers has the table shop.t on the servers a and b, where entities by name have a state, and
// further variables.
func newServers(t *testing.T, pairs ...string) *household {
	h := emptyHousehold(t, serversEnv(append(pairs, "BRIDGE_STREAM_MOVES_TABLE", "a/shop.t,b/shop.t")...))
	h.newShop("a")
	h.newShop("b")
	h.topics = []string{"moves"}
	h.bus.Create("moves")
	return h
}

// serversEnv is movesEnv with the servers a and b.
func serversEnv(pairs ...string) configtest.Env {
	return movesEnv(append([]string{"BRIDGE_SOURCES", "a,b", "BRIDGE_SOURCE_A_URL", "toytables:a", "BRIDGE_SOURCE_B_URL", "toytables:b"}, pairs...)...)
}

// newShop gives a server an empty table in place of its former one.
func (h *household) newShop(server string) { h.newTable(server+"/shop.t").Move(server, false) }

func (h *household) start() {
	h.t.Helper()
	a := must.Get(Open(h.t.Context(), Options{
		inside: h.inside, Config: h.cfg, Logger: textLogger(io.MultiWriter(h.t.Output(), &h.log)),
		openStore: func(context.Context, string, *slog.Logger) (store.Store, error) { return keptStore{h.store}, nil },
	}))(h.t)
	h.app, h.stop = a, sync.OnceFunc(start(h.t, a))
}

// restart stops the bridge, which drops what the bus does not take, and starts another one.
func (h *household) restart(loseStore bool) {
	h.t.Helper()
	h.stop()
	if loseStore {
		h.store = storememory.New()
	}
	h.start()
}

func (h *household) insert(table, name, state string) (id uint64) {
	return h.tables[table].Insert(name, state, time.Now().UTC().Format("2006-01-02 15:04:05.000000"))
}

func (h *household) update(table string, id uint64, name, state string) {
	h.tables[table].Update(id, name, state, time.Now().UTC().Format("2006-01-02 15:04:05.000000"))
}

func (h *household) eventually(what string, is func() bool) {
	h.t.Helper()
	until(h.t, what, func() any { return fmt.Sprint(h.folded(), h.history()) }, is)
}

// sent runs do and waits until it has led to another publish, which may not return.
func (h *household) sent(do func()) {
	h.t.Helper()
	before := h.bus.Publishes()
	do()
	h.eventually("something is published", func() bool { return h.bus.Publishes() > before })
}

func (h *household) published(name, state string) {
	h.t.Helper()
	h.eventually(name+" is "+state, func() bool { return h.folded()[name] == state })
}

// publishes inserts a row, and waits until it is published.
func (h *household) publishes(table, name, state string) (id uint64) {
	h.t.Helper()
	id = h.insert(table, name, state)
	h.published(name, state)
	return id
}

// saved waits until the rows are in the books of bridge, and not on the bus alone: a reconcile that
// begins before does not know what it would miss.
func (h *household) saved() {
	h.t.Helper()
	h.eventually("the rows are saved", func() bool {
		return !slices.ContainsFunc(h.app.Daemon().Status().Streams[0].Shards, func(s shard.Status) bool {
			return slices.ContainsFunc(h.page(s.Shard).Rows, func(row source.Row) bool { return row.ID > s.Position })
		})
	})
}

// reconcile asks for a reconcile, and does not wait for it.
func (h *household) reconcile() { h.app.scheduler.Request("moves", reconcile.Mode{}) }

// reconciled reconciles all tables and returns how many differences that found.
func (h *household) reconciled() (differences uint64) {
	h.t.Helper()
	h.reconcile()
	idle := func() bool {
		for _, r := range h.app.reconcilers {
			if s := r.Status(); s.Running || s.Waiting > 0 || s.Resumed {
				return false
			}
		}
		return true
	}
	h.eventually("all is reconciled", idle)
	for _, r := range h.app.reconcilers {
		last := r.Status().LastRun
		if last.Error != "" || last.Guard != "" || last.Unjudged != "" {
			h.t.Errorf("the reconcile ended with %+v", last)
		}
		differences += last.Added + last.Modified + last.Deleted
	}
	return differences
}

type said struct {
	name, state string
	message     *sink.Message
}

func (h *household) say(m *sink.Message) said {
	h.t.Helper()
	var body struct{ Data struct{ Name, State string } }
	must.OK(h.t, json.Unmarshal(m.Value, &body))
	if strings.HasSuffix(m.Type, "DeletedEvent") {
		body.Data.State = "deleted"
	}
	return said{body.Data.Name, body.Data.State, m}
}

// folded returns the state of each entity that a consumer ends with: the last one of a topic, and
// of several topics the one that was sent last.
func (h *household) folded() map[string]string {
	last := make(map[string]said)
	for _, topic := range h.topics {
		here := make(map[string]said)
		messages := h.bus.Messages(topic)
		for i := range messages {
			if messages[i].List != "" {
				continue
			}
			s := h.say(&messages[i])
			here[s.name] = s
		}
		for name, s := range here {
			if was, there := last[name]; !there || before(was.message, s.message) {
				last[name] = s
			}
		}
	}
	states := make(map[string]string)
	for name, s := range last {
		if s.state != "deleted" {
			states[name] = s.state
		}
	}
	return states
}

// before reports whether a has the lower stamp.
func before(a, b *sink.Message) bool {
	return a.State.Epoch < b.State.Epoch || a.State.Epoch == b.State.Epoch && a.State.Seq < b.State.Seq
}

func (h *household) history() string {
	var text strings.Builder
	for _, topic := range h.topics {
		messages := h.bus.Messages(topic)
		for i := range messages {
			s := h.say(&messages[i])
			fmt.Fprintf(&text, "\n%s %s %s row %d: %s %s, %d.%d", topic, s.message.Shard, s.message.Origin, s.message.RowID, s.name, s.state, s.message.State.Epoch, s.message.State.Seq)
		}
	}
	return text.String()
}

func (h *household) page(table string) (page source.Page) {
	h.t.Helper()
	must.OK(h.t, h.tables[table].Read(h.t.Context(), source.Query{Limit: 1000}, &page))
	return page
}

func (h *household) rows() map[string]string {
	states := make(map[string]string)
	for table := range h.tables {
		for _, row := range h.page(table).Rows {
			states[string(row.Values[1])] = string(row.Values[2])
		}
	}
	return states
}

// compare holds the bus against the tables after one reconcile; a second one finds nothing.
func (h *household) compare() {
	h.t.Helper()
	h.saved()
	h.reconciled()
	want := h.rows()
	h.eventually("the bus ends with the rows", func() bool { return maps.Equal(h.folded(), want) })
	if n := h.reconciled(); n != 0 {
		h.t.Errorf("another reconcile finds %d differences: %s", n, h.history())
	}
	if got := h.folded(); !maps.Equal(got, want) {
		h.t.Errorf("the bus ends with %v, the tables hold %v: %s", got, want, h.history())
	}
	h.eventually("nothing is nominated", func() bool {
		stream := h.app.Daemon().Status().Streams[0]
		return stream.Nominated == 0 && stream.CatchUp.Ready
	})
}
