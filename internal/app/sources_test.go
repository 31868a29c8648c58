package app

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"example.org/bridge/checkpoint/store"
	storememory "example.org/bridge/checkpoint/store/storetest/memory"
	"example.org/bridge/internal/app/apptest"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/config/configtest"
	"example.org/bridge/internal/inspect"
	"example.org/bridge/internal/lineage"
	"example.org/bridge/internal/outage"
	"example.org/bridge/internal/published"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/stream"
	"example.org/bridge/source"
	"example.org/bridge/tests/must"
)

// exchange gives a server the rows of another database, which is on a server of a name.
func (s *household) exchange(server, name string) {
	s.newShop(server)
	s.tables[server+"/shop.t"].Move(name, false)
	for _, one := range []string{"xaver", "xenia", "xerxes"} {
		s.insert(server+"/shop.t", one+" of "+server, "another")
	}
}

// nothingOfAnother shows that no such row is published.
func (s *household) nothingOfAnother() {
	s.t.Helper()
	for name := range s.folded() {
		if strings.HasPrefix(name, "x") {
			s.t.Errorf("%s is published", name)
		}
	}
}

func (s *household) shard(name string) *shard.Status {
	var all []shard.Status
	for _, of := range s.app.Daemon().Status().Streams {
		all = append(all, of.Shards...)
	}
	return &all[slices.IndexFunc(all, func(one shard.Status) bool { return one.Shard == name })]
}

// stops waits until a table is stopped, and returns why.
func (s *household) stops(name string) (why string) {
	s.t.Helper()
	s.eventually(name+" is stopped", func() bool {
		one := s.shard(name)
		if one.State == "stopped" && one.LastError != "" {
			why = string(one.LastError)
		}
		return why != ""
	})
	return why
}

// filled has three rows of each server be published.
func (s *household) filled() {
	s.t.Helper()
	s.start()
	for _, name := range []string{"anna", "arthur", "adele", "bertha", "boris", "bianca"} {
		s.insert(name[:1]+"/shop.t", name, name+" is new")
	}
	s.eventually("all are published", func() bool { return maps.Equal(s.folded(), s.rows()) })
}

// TestAServerThatIsAwayStopsItsTables: also at a start without a checkpoint, which compares each
// server with the bus before its tables are published.
func TestAServerThatIsAwayStopsItsTables(t *testing.T) {
	for name, another := range map[string]bool{"it comes back": false, "another database comes back": true} {
		t.Run(name, func(t *testing.T) {
			s := newServers(t)
			s.filled()
			s.away.Store("b", true)
			s.publishes("a/shop.t", "agnes", "while b is away")
			s.restart(true)
			s.publishes("a/shop.t", "alma", "after a start")
			s.eventually("the table of b says what it waits for", func() bool {
				reason := string(s.shard("b/shop.t").Reason)
				return strings.Contains(reason, "connection refused") && s.shard("a/shop.t").Reason == ""
			})
			if another {
				s.exchange("b", "c")
				// An open source has the former one.
				s.restart(true)
			}
			s.away.Delete("b")
			if another {
				if why := s.stops("b/shop.t"); !strings.Contains(why, "another database") || !strings.Contains(why, "b/shop.t") {
					t.Error(why)
				}
			} else {
				s.publishes("b/shop.t", "bruno", "behind it")
			}
			s.publishes("a/shop.t", "aaron", "last")
			s.nothingOfAnother()
		})
	}
}

func openSources(t *testing.T, cfg *config.Config) *Sources {
	sources := must.Get(OpenSources(cfg, slog.New(slog.DiscardHandler)))(t)
	t.Cleanup(func() { must.OK(t, sources.Close()) })
	return sources
}

// TestAServerOfWhichTheBusHasNothing is not waited for, though it is known to be away before it is
// asked; but one of all has to answer, and another one is not refused for good before it does. A
// topic that does not answer keeps no server waiting whose rows have survived, or that is back.
func TestAServerOfWhichTheBusHasNothing(t *testing.T) {
	s := newServers(t)
	sources := openSources(t, s.cfg)
	b, _ := sources.of("b/shop.t")
	s.insert("a/shop.t", "anna", "of another server")
	var page source.Page
	encoder := must.Get(s.cfg.Encoder(&s.cfg.Streams[0], "a/shop.t"))(t)
	must.OK(t, s.tables["a/shop.t"].Read(t.Context(), source.Query{Limit: 1, MaxBytes: 1}, &page))
	must.OK(t, encoder.Bind(page.Columns))
	digest := must.Get(encoder.Digest(page.Rows[0]))(t)
	row := published.RowOf(encoder, page.Columns, page.Rows[0], digest.Sum, digest.Key)
	fact := lineage.Fact{Live: true, Form: encoder.Form(), Content: row.Content, Identity: row.Identity, Server: "elsewhere"}
	silent := func(ctx context.Context) { <-ctx.Done() }
	for name, c := range map[string]struct {
		has   map[string]lineage.Newest
		awayA bool
		// ofB waits for the topic of b.
		ofB   func(context.Context)
		ended bool
	}{
		"nothing":         {ended: true},
		"nothing of any":  {awayA: true},
		"rows of b":       {has: map[string]lineage.Newest{"b/shop.t": {1: {}}}},
		"others of a":     {has: map[string]lineage.Newest{"a/shop.t": {1000: &fact}}},
		"the row of a":    {has: map[string]lineage.Newest{"a/shop.t": {1: &fact}}, ofB: silent, ended: true},
		"what b has then": {ofB: func(ctx context.Context) { sources.note(b, nil); silent(ctx) }},
	} {
		sources.note(b, errors.New("connection refused"))
		if s.away.Delete("a"); c.awayA {
			s.away.Store("a", true)
		}
		e := &entitlement{of: &admissions{parts: &parts{sources: sources, store: storememory.New(), faults: outage.New(slog.New(slog.DiscardHandler))}, cfg: s.cfg}}
		e.scan = func(ctx context.Context, s *lineage.Stream, _ uint64) (lineage.Found, error) {
			if s.Tables[0] == "b/shop.t" && c.ofB != nil {
				c.ofB(ctx)
			}
			return lineage.Found{Tables: c.has}, context.Cause(ctx)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		if ended, err := e.compare(ctx); ended != c.ended || err != nil || ctx.Err() != nil {
			t.Errorf("the bus has %s: it ends: %t, %v", name, ended, errors.Join(err, ctx.Err()))
		}
		cancel()
	}
}

// TestAServerWhoseTablesAreStoppedIsCompared: it was away when an app began where its only table
// stays stopped. Once it is back, what it does not have counts, whatever another stream waits for.
func TestAServerWhoseTablesAreStoppedIsCompared(t *testing.T) {
	t.Parallel()
	s := newServers(t, "BRIDGE_STREAMS", "first,moves", "BRIDGE_STREAM_FIRST_TABLE", "b/shop.u", "BRIDGE_STREAM_FIRST_KIND", "release")
	s.newTable("b/shop.u").Move("b", false)
	s.bus.Create("first")
	s.filled()
	s.insert("b/shop.u", "x", "y")
	s.eventually("the other stream is published", func() bool { return len(s.bus.Messages("first")) == 1 })
	for _, sh := range s.app.shards {
		if sh.Status().Shard == "b/shop.t" {
			sh.Stop(errors.New("a defect"))
		}
	}
	s.stops("b/shop.t")
	s.stop()
	s.away.Store("b", true)
	s.slow.Store("first")
	a := must.Get(Open(t.Context(), Options{Config: s.cfg, Logger: textLogger(t.Output()), former: s.app.legacy()}))(t)
	s.app, s.stop = a, start(t, a)
	s.publishes("a/shop.t", "agnes", "while b is away")
	d, _ := a.sources.of("b/shop.t")
	if a.sources.isAdmitted("moves", d) {
		t.Fatal("it was compared while it is away")
	}
	s.away.Delete("b")
	s.eventually("it is compared", func() bool { return a.sources.isAdmitted("moves", d) })
	if state := s.shard("b/shop.t").State; state != shard.Stopped {
		t.Errorf("its table is %s", state)
	}
}

// TestNoServerIsTheOne: a process of which no server has the rows of the bus, or answers, does not
// take over from the one that publishes them.
func TestNoServerIsTheOne(t *testing.T) {
	for name, another := range map[string]bool{"all are away": false, "all are others": true} {
		t.Run(name, func(t *testing.T) {
			s := newServers(t)
			s.filled()
			for _, server := range []string{"a", "b"} {
				s.away.Store(server, !another)
				if another {
					s.away.Delete(server)
					s.exchange(server, "other "+server)
				}
			}
			s.restart(true)
			if another {
				for _, table := range []string{"a/shop.t", "b/shop.t"} {
					if why := s.stops(table); !strings.Contains(why, "another database") || !strings.Contains(why, "BRIDGE_DOMAIN_ID") {
						t.Error(why)
					}
				}
			} else {
				s.eventually("the tables say what they wait for", func() bool {
					a, b := string(s.shard("a/shop.t").Reason), string(s.shard("b/shop.t").Reason)
					return strings.Contains(a, "connection refused") && strings.Contains(b, "connection refused")
				})
			}
			if s.app.recovery.Epoch() != nil {
				t.Error("it has taken over")
			}
			if another {
				return
			}
			s.away.Delete("b")
			s.publishes("b/shop.t", "bruno", "b is back")
		})
	}
}

// TestPatternsAlone: a process that knows no table of any server takes over once one answers.
func TestPatternsAlone(t *testing.T) {
	s := newServers(t)
	s.configure(serversEnv("BRIDGE_STREAM_MOVES_TABLE", "a/shop.*,b/shop.*"))
	sources := openSources(t, s.cfg)
	e := &entitlement{of: &admissions{parts: &parts{sources: sources}, cfg: s.cfg}}
	for i, away := range [][]string{{"a", "b"}, {"a"}, nil} {
		s.away.Clear()
		for _, server := range away {
			s.away.Store(server, true)
		}
		if ended, err := e.compare(t.Context()); ended != (i > 0) || err != nil {
			t.Errorf("away are %v: it may take over: %v, %v", away, ended, err)
		}
	}
}

// TestOneServerUnderTwoNames is refused: each row would be published twice.
func TestOneServerUnderTwoNames(t *testing.T) {
	s := newServers(t)
	s.tables["a/shop.t"].Move("one", false)
	s.tables["b/shop.t"] = s.tables["a/shop.t"]
	s.insert("a/shop.t", "anna", "new")
	s.start()
	s.eventually("a table is stopped", func() bool {
		return slices.ContainsFunc([]string{"a/shop.t", "b/shop.t"}, func(name string) bool {
			one := s.shard(name)
			return one.State == "stopped" && strings.Contains(string(one.LastError), "BRIDGE_SOURCE_A_URL") && strings.Contains(string(one.LastError), "BRIDGE_SOURCE_B_URL") &&
				strings.Contains(string(one.LastError), "the database shop of both")
		})
	})
}

// replicas is a source that finds that it is a replica.
type replicas struct{ toyDatabase }

func (replicas) Inspect(context.Context, []source.Expected, int) (found source.Inspection) {
	found.Server.Add(inspect.Warning, inspect.Replica, "server", "is a replica")
	return found
}

// TestReplicasWithOneDatabaseName may be those of two servers with other rows: to unset one of them
// would lose its rows, so that is not told without the condition.
func TestReplicasWithOneDatabaseName(t *testing.T) {
	s := newServers(t)
	sources := openSources(t, s.cfg)
	for _, d := range sources.all {
		d.from = replicas{d.from.(toyDatabase)}
		findings := inspectSource(t.Context(), s.cfg, sources, d.Source, nil, slog.New(slog.DiscardHandler)).Server.Findings
		i := slices.IndexFunc(findings, func(f inspect.Finding) bool { return f.Subject == d.Label() })
		if i < 0 || !strings.Contains(findings[i].What, "where one of the two replicates the other") || !strings.Contains(findings[i].Do, "neither where their rows differ") {
			t.Errorf("%s: %+v", d.Name, findings)
		}
	}
}

// TestAMissingFileNamesItsVariable: the error of a source that is not ready names its own.
func TestAMissingFileNamesItsVariable(t *testing.T) {
	env := configtest.Env{
		"BRIDGE_SOURCES": "a", "BRIDGE_SOURCE_A_URL": "sqlite://" + filepath.Join(t.TempDir(), "none.db"), "BRIDGE_SINK_URL": "stdout:",
		"BRIDGE_STREAMS": "orders", "BRIDGE_STREAM_ORDERS_TABLE": "a/orders", "BRIDGE_STREAM_ORDERS_KIND": "release",
	}
	cfg := load(t, env)
	sources := openSources(t, cfg)
	text := config.Text(sources.all[0].probe.Ready(t.Context()))
	if !strings.Contains(text, "BRIDGE_SOURCE_A_URL") || strings.Contains(text, "BRIDGE_SOURCE_URL") {
		t.Error(text)
	}
}

// TestAnAliasIsComparedOnceItLeadsElsewhere: while two sources lead to one server, nothing shows
// whether the second one is the right one.
func TestAnAliasIsComparedOnceItLeadsElsewhere(t *testing.T) {
	s := newServers(t)
	s.filled()
	s.stop()
	s.exchange("b", "a")
	s.store = storememory.New()
	s.start()
	says := func(table, what string) bool {
		one := s.shard(table)
		return one.Reason != "" && strings.Contains(string(one.Reason), what) || one.LastError != "" && strings.Contains(string(one.LastError), what)
	}
	s.eventually("a table says that the server is that of another source", func() bool {
		return says("a/shop.t", "lead to one server") || says("b/shop.t", "lead to one server")
	})
	s.tables["b/shop.t"].Move("c", false)
	s.eventually("b is compared", func() bool { return says("b/shop.t", "another database") })
	s.publishes("a/shop.t", "agnes", "a goes on")
	s.nothingOfAnother()
}

// TestOneFileUnderTwoNames is refused as one server is, also by way of a link.
func TestOneFileUnderTwoNames(t *testing.T) {
	shop := apptest.NewShop(t)
	file := strings.TrimPrefix(shop.Env["BRIDGE_SOURCE_URL"], "sqlite://")
	link := filepath.Join(t.TempDir(), "link.db")
	must.OK(t, os.Symlink(file, link))
	delete(shop.Env, "BRIDGE_SOURCE_URL")
	maps.Copy(shop.Env, configtest.Env{
		"BRIDGE_SOURCES": "a,b", "BRIDGE_SOURCE_A_URL": "sqlite://" + file, "BRIDGE_SOURCE_B_URL": "sqlite://" + link, "BRIDGE_STREAM_ORDERS_TABLE": "a/orders,b/orders",
	})
	cfg := load(t, shop.Env)
	sources := openSources(t, cfg)
	var p source.Page
	must.OK(t, sources.Shard(cfg.Streams[0].Spec("a/orders")).Read(t.Context(), source.Query{Limit: 1}, &p))
	err := sources.Shard(cfg.Streams[0].Spec("b/orders")).Read(t.Context(), source.Query{Limit: 1}, &p)
	if err == nil || !strings.Contains(config.Text(err), "BRIDGE_SOURCE_A_URL lead to one server") {
		t.Errorf("the same file is read as another one: %v", err)
	}
}

// TestServersThatNothingTellsApart: of two servers of MariaDB without @@server_uid the error says
// what an administrator changes.
func TestServersThatNothingTellsApart(t *testing.T) {
	env := configtest.Env{
		"BRIDGE_SINK_URL": "stdout:", "BRIDGE_STREAMS": "orders", "BRIDGE_STREAM_ORDERS_KIND": "release", "BRIDGE_STREAM_ORDERS_TABLE": "a/orders,b/orders",
		"BRIDGE_SOURCES": "a,b", "BRIDGE_SOURCE_A_URL": "mysql://bridge@a/shop", "BRIDGE_SOURCE_B_URL": "mysql://bridge@b/shop",
	}
	cfg := load(t, env)
	for server, want := range map[string]bool{"db 3306 1": true, "db 3306 1 read-only": true, "db 3306 1 uid=5": false, "2cb3a1a0-0000": false} {
		sources := openSources(t, cfg)
		must.OK(t, sources.meet(sources.all[0], server))
		if text := config.Text(sources.meet(sources.all[1], server)); !strings.Contains(text, "lead to one server") || strings.Contains(text, "SET GLOBAL server_id") != want {
			t.Errorf("%s: %s", server, text)
		}
	}
}

// TestATableOfAnotherName: a table that gets a source goes on under its new name with the rows that
// had not committed, and publishes no row once more; also when it is moved back. With a KEY, an
// entity whose row has gone before is deleted.
func TestATableOfAnotherName(t *testing.T) {
	for name, c := range map[string]struct {
		kind, key string
		lost      bool
	}{
		"releases by the checkpoint": {kind: "release"}, "releases by the bus": {kind: "release", lost: true},
		"entities by the checkpoint": {kind: "capability", key: "name"}, "entities by the bus": {kind: "capability", key: "name", lost: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServers(t)
			of := []string{"BRIDGE_STREAM_MOVES_KIND", c.kind, "BRIDGE_STREAM_MOVES_KEY", c.key, "BRIDGE_SOURCES", "b", "BRIDGE_SOURCE_B_URL", "toytables:b"}
			s.configure(movesEnv(append(of, "BRIDGE_SOURCE_URL", "toytables:a", "BRIDGE_STREAM_MOVES_TABLE", "shop.t,b/shop.t")...))
			unnamed := s.cfg
			s.configure(movesEnv(append(of, "BRIDGE_SOURCES", "a,b", "BRIDGE_SOURCE_A_URL", "toytables:a", "BRIDGE_STREAM_MOVES_TABLE", "a/shop.t,b/shop.t")...))
			named := s.cfg
			s.cfg = unnamed
			s.filled()
			now := time.Now().UTC().Format("2006-01-02 15:04:05.000000")
			open := s.tables["a/shop.t"].Open("olga", "is late", now)
			later := s.tables["a/shop.t"].Open("otto", "is later", now)
			s.insert("a/shop.t", "agnes", "after them")
			s.eventually("agnes is saved", func() bool { return s.shard("shop.t").Position == 6 })
			move := func(cfg *config.Config, from, to string) {
				t.Helper()
				s.cfg = cfg
				s.restart(c.lost)
				if why := s.stops(to); !strings.Contains(why, "bridge checkpoint move moves "+from+" "+to) || !strings.Contains(why, "bridge checkpoint set moves "+to+" 0") {
					t.Error(why)
				}
				s.stop()
				image := must.Get(s.store.Load(t.Context()))(t)
				rename := stream.Rename{Stream: "moves", From: from, To: to, Epoch: stream.NextEpoch(&image, time.Now()), Now: time.Now()}
				must.Get(rename.Apply(t.Context(), s.store))(t)
				s.start()
			}
			want := 10
			if c.key != "" {
				// Row 2 is arthur.
				s.tables["a/shop.t"].Delete(2)
				want++
			}
			move(named, "shop.t", "a/shop.t")
			s.tables["a/shop.t"].Commit(open)
			s.published("olga", "is late")
			s.publishes("a/shop.t", "alma", "last")
			if c.key != "" {
				s.reconciled()
				s.published("arthur", "")
			}
			if !c.lost {
				move(unnamed, "a/shop.t", "shop.t")
			}
			s.tables["a/shop.t"].Commit(later)
			s.published("otto", "is later")
			if n := len(s.bus.Messages("moves")); n != want {
				t.Errorf("%d messages, want one of each row: %s", n, s.history())
			}
		})
	}
}

type brokenStore struct {
	store.Store
	err error
}

func (s brokenStore) Progress(context.Context, store.Key) (store.Progress, bool, error) {
	return store.Progress{}, false, s.err
}

// TestACheckpointThatIsNotReadNow stops no table for good, unless it is damaged.
func TestACheckpointThatIsNotReadNow(t *testing.T) {
	for _, cause := range []error{syscall.EIO, store.ErrDamaged} {
		a := &admissions{parts: &parts{store: brokenStore{err: cause}}}
		err := a.refuseRenamed(t.Context(), "s", "t")
		if again := errors.Is(err, stream.ErrUnread) && errors.Is(err, stream.ErrReadBack); !errors.Is(err, cause) || again != (cause == syscall.EIO) {
			t.Errorf("%v", err)
		}
	}
}

// TestAStreamKeepsItsOwnTablesAlone: all tables of thousands of streams would be as many times in
// memory.
func TestAStreamKeepsItsOwnTablesAlone(t *testing.T) {
	cfg, kept, b := must.Get(config.Load(configtest.With().Environ(), &config.Redactor{}))(t), storememory.New(), &store.Batch{}
	for _, name := range []string{"orders", "others"} {
		b.Shards = append(b.Shards, store.ShardChange{Key: store.Key{Stream: name, Shard: "t"}, Progress: &store.Progress{Saved: time.Now()}})
	}
	must.OK(t, kept.Apply(t.Context(), b))
	a := &admissions{parts: &parts{store: kept}, cfg: cfg, known: make(map[string]map[store.Key]store.Progress)}
	must.OK(t, a.refuseRenamed(t.Context(), "orders", "t"))
	if n := len(a.known["orders"]); n != 1 {
		t.Errorf("%d tables are kept", n)
	}
}
