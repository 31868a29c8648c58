package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/app/apptest"
	"example.org/bridge/internal/check"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/config/configtest"
	"example.org/bridge/internal/driver"
	"example.org/bridge/internal/driver/nats"
	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/httpapi/httpapitest"
	"example.org/bridge/internal/inspect"
	"example.org/bridge/internal/option"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/stream"
	"example.org/bridge/source"
	sourcememory "example.org/bridge/source/sourcetest/memory"
	"example.org/bridge/tests/must"
)

// inspectedSource is a source that can be reached after some attempts and then finds the same about
// every table.
type inspectedSource struct {
	source.Source
	away   atomic.Int32
	server []inspect.Finding
	table  func(name string) []inspect.Finding
	atOnce int
}

func (s *inspectedSource) Ready(context.Context) error {
	if s.away.Add(-1) >= 0 {
		return errors.New("away")
	}
	return nil
}

func (s *inspectedSource) Inspect(_ context.Context, tables []source.Expected, atOnce int) (found source.Inspection) {
	s.atOnce = atOnce
	found.Server.Findings = s.server
	for _, table := range tables {
		found.Tables = append(found.Tables, source.TableInspection{Findings: s.table(table.Spec.Table)})
	}
	return found
}

func TestARunningBridgeLogsFindingsOnceAStream(t *testing.T) {
	cfg := load(t, configtest.With())
	src := &inspectedSource{
		server: []inspect.Finding{found(inspect.Warning, "server")},
		table: func(name string) []inspect.Finding {
			warning := found(inspect.Warning, name)
			return []inspect.Finding{*warning.Says("correct %s", option.Created), found(inspect.Unsafe, name), {Severity: inspect.Note, Code: inspect.Stride, Subject: name, What: "is note"}}
		},
	}
	// After the source can be reached, one table after another.
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		src.away.Store(5)
		begun, inspected := time.Now(), new(sync.Map)
		look := func() {
			logFindings(t.Context(), cfg, &database{Source: &cfg.Sources[0], from: src}, nil, inspected, textLogger(&log))
		}
		look()
		if time.Since(begun) < time.Second || src.atOnce != 1 {
			t.Errorf("looked after %s at %d tables at once", time.Since(begun), src.atOnce)
		}
		for _, want := range []string{
			`level=WARN msg="finding about the source" code=stride severity=warning subject=server`,
			`level=WARN msg="finding about the source" stream=orders code=stride severity=warning subject="each of orders_0, orders_1" finding="is warning" remedy="correct BRIDGE_STREAM_ORDERS_CREATED" statement=`,
			`level=INFO msg="finding about the source" stream=orders code=stride severity=note subject="each of orders_0, orders_1" finding="is note"` + "\n",
			`remedy="correct BRIDGE_STREAM_ORDERS_CREATED" statement="FIX orders_0; FIX orders_1;"`,
		} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("the log lacks %s:\n%s", want, log.String())
			}
		}
		if strings.Contains(log.String(), "severity=unsafe") {
			t.Errorf("what stops a stream is logged twice:\n%s", log.String())
		}
		if n := strings.Count(log.String(), "\n"); n != 3 {
			t.Errorf("%d lines:\n%s", n, log.String())
		}
		// Of one that is found later, that alone is looked at.
		log.Reset()
		inspected.Delete(store.Key{Stream: "orders", Shard: "orders_1"})
		if look(); strings.Count(log.String(), "subject=orders_1 ") != 2 || strings.Count(log.String(), "\n") != 2 {
			t.Errorf("for one more table:\n%s", log.String())
		}
		log.Reset()
		if look(); log.Len() > 0 {
			t.Errorf("for none more:\n%s", log.String())
		}
	})
}

// textLogger writes lines of all levels as text.
func textLogger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// load reads a configuration that must be right.
func load(t *testing.T, env configtest.Env) *config.Config {
	t.Helper()
	return must.Get(config.Load(env.Environ(), &config.Redactor{}))(t)
}

func found(severity inspect.Severity, subject string) inspect.Finding {
	return inspect.Finding{Severity: severity, Code: inspect.Stride, Subject: subject, What: "is " + severity.String(), Do: "fix it", Statement: "FIX " + subject + ";"}
}

func TestIDsThatARateHoldsBack(t *testing.T) {
	cfg := load(t, configtest.With("BRIDGE_STREAM_ORDERS_RATE", "2"))
	stream := &cfg.Streams[0]
	for highest, want := range map[uint64]string{7200: "", 14_400: "which take 2h0m0s", 1 << 63: "which take 1000000h0m0s"} {
		var columns []source.Column
		for _, name := range append([]string{stream.ID}, stream.Key...) {
			columns = append(columns, source.Column{Name: name, Kind: source.Int})
		}
		table := sourcememory.NewTable(source.Spec{Table: "orders_0", ID: stream.ID, Key: stream.Key}, columns...)
		table.InsertAt(highest)
		r := rowInspection{cfg: cfg, stream: stream, table: "orders_0", shards: func(source.Spec) source.Shard { return table }, position: new(uint64)}
		err := r.inspect(t.Context())
		if got := fmt.Sprint(r.Findings); err != nil || !strings.Contains(got, want) || (len(r.Findings) > 0) != (want != "") {
			t.Errorf("up to %d: %s, %v, want %q", highest, got, err, want)
		}
	}
}

func TestATakenPortIsAFinding(t *testing.T) {
	free := must.Get(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	must.OK(t, free.Close())
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	running := httpapitest.Serve(t, &httpapitest.Daemon{State: httpapi.Status{Started: time.Now()}})
	for name, c := range map[string]struct{ addr, summary, want string }{
		"a free one is none":                    {free.Addr().String(), "", ""},
		"one at which a bridge answers is none": {running, running + ", where a bridge answers", ""},
		"one of another process is one":         {strings.TrimPrefix(other.URL, "http://"), "127.0.0.1", "set BRIDGE_HTTP_ADDR to another port"},
		"one of an address of another host too": {"192.0.2.1:8080", "192.0.2.1:8080", "cannot be listened on"},
	} {
		t.Run(name, func(t *testing.T) {
			token := func() (string, error) { return "0123456789abcdef", nil }
			report, _ := inspectHTTP(t.Context(), &config.Config{Process: config.Process{HTTPAddr: c.addr}, HTTPToken: token})
			if !strings.HasPrefix(report.Summary, c.summary) || c.summary == "" && report.Summary != "" {
				t.Errorf("the summary is %q, want %q", report.Summary, c.summary)
			}
			found := report.Findings
			if c.want == "" && len(found) == 0 {
				return
			}
			if len(found) != 1 || found[0].Code != inspect.HTTPAddress || !found[0].Blocks() || !strings.Contains(found[0].String(), c.want) {
				t.Errorf("found %v, want %q", found, c.want)
			}
		})
	}
}

// TestARunningBridgeSaysWhatStopsIt: what is stopped is found with its stream and its remedy, and
// why it is not ready, also of a stream that is not configured here.
func TestARunningBridgeSaysWhatStopsIt(t *testing.T) {
	shards := []shard.Status{{Stream: "orders", Shard: "orders", State: shard.Stopped, LastError: "one member less", Cause: shard.CauseSchema}}
	streams := []*appStream{{Stream: &config.Stream{Name: "orders"}}}
	s, d := apptest.NewShop(t), &httpapitest.Daemon{Reasons: []httpapi.Reason{
		{Stream: "orders", Shard: "orders", Reason: "one member less"}, {Stream: "other", Shard: "t_1", Reason: "is behind"}, {Reason: "the disk is full"},
	}}
	d.State = statusOf(streams, stream.CatchUpProgress{Streams: make([]stream.StreamProgress, 1)}, shards)
	d.State.Started = time.Now()
	s.Env["BRIDGE_HTTP_ADDR"] = httpapitest.Serve(t, d)
	var got []string
	for _, g := range Examine(t.Context(), load(t, s.Env)) {
		for _, f := range g.Findings {
			if f.Code == inspect.NotReady {
				got = append(got, g.Kind+" "+f.Label()+" "+f.String())
			}
		}
	}
	want := []string{
		"stream warning orders is stopped in the bridge that runs: one member less: Increase BRIDGE_STREAM_ORDERS_EVENT_VERSION, or give the table its column back.",
		"http warning t_1 is not ready: is behind: see its log, and type bridge status",
		"http warning " + s.Env["BRIDGE_HTTP_ADDR"] + " is not ready: the disk is full: see its log, and type bridge status",
	}
	if !slices.Equal(got, want) {
		t.Errorf("found\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestAMissingTokenIsANote: where other hosts reach the listener, and in a group on one host, too.
func TestAMissingTokenIsANote(t *testing.T) {
	for _, c := range []struct {
		addr, group string
		want        bool
	}{
		{"127.0.0.1:0", "", false}, {"localhost:0", "", false}, {"[::1]:0", "", false}, {":0", "", true}, {"0.0.0.0:0", "", true}, {"127.0.0.1:0", "g", true},
	} {
		for _, token := range []driver.Secret{nil, func() (string, error) { return "", nil }} {
			cfg := &config.Config{Process: config.Process{HTTPAddr: c.addr}, HTTPToken: token, Standby: config.Standby{Group: c.group}, Sink: config.Sink{Driver: new(nats.Driver)}}
			report, _ := inspectHTTP(t.Context(), cfg)
			found := slices.DeleteFunc(report.Findings, func(f inspect.Finding) bool { return f.Code != inspect.HTTPToken })
			noted := len(found) == 1
			if noted != (c.want && token == nil) || noted && (found[0].Severity != inspect.Note || !strings.Contains(found[0].Do, "HTTP_TOKEN") || c.group != "" && !strings.HasPrefix(found[0].What, "has no token")) {
				t.Errorf("%+v, with a token %t: %v", c, token != nil, found)
			}
		}
	}
}

type brokenInspector struct{ source.Source }

func (brokenInspector) Inspect(context.Context, []source.Expected, int) source.Inspection {
	panic("a defect")
}

func TestAPanicOfAnInspectionIsAFinding(t *testing.T) {
	var log bytes.Buffer
	found := (&database{Source: new(config.Source), from: brokenInspector{}}).inspect(t.Context(), new(config.Config), nil, 1, slog.New(slog.NewTextHandler(&log, nil)))
	if f := found.Server.Findings; len(f) != 1 || f[0].Code != inspect.NotInspected || f[0].Severity != inspect.Unsafe || !strings.Contains(f[0].What, "a defect") {
		t.Errorf("found %+v", f)
	}
	if !strings.Contains(log.String(), "brokenInspector") {
		t.Errorf("no stack in the log: %s", log.String())
	}
}

// TestWarningsAtTheStart: those about the process come first, by name, then those of each stream in
// the order of BRIDGE_STREAMS; all before anything else is logged.
func TestWarningsAtTheStart(t *testing.T) {
	s := apptest.NewShop(t)
	s.Exec(t, "CREATE TABLE bills (id INTEGER PRIMARY KEY AUTOINCREMENT, gone INT)")
	maps.Copy(s.Env, configtest.Env{
		"BRIDGE_STREAMS": "orders,bills", "BRIDGE_STREAM_BILLS_TABLE": "bills", "BRIDGE_STREAM_BILLS_KIND": "release",
		"BRIDGE_STREAM_BILLS_DELETED": "gone", "BRIDGE_STREAM_BILLS_TIME_ZONE": "Asia/Shanghai", "BRIDGE_STREAM_ORDERS_TIME_ZONE": "Asia/Shanghai",
		"BRIDGE_NATS_NKEY": "x", "BRIDGE_NATS_CREDS": "x", "BRIDGE_KAFKA_TLS": "true", "BRIDGE_KAFKA_COMPRESSION": "gzip",
	})
	want := []string{
		"BRIDGE_KAFKA_COMPRESSION", "BRIDGE_KAFKA_TLS", "BRIDGE_NATS_CREDS", "BRIDGE_NATS_NKEY",
		"BRIDGE_STREAM_ORDERS_TIME_ZONE", "BRIDGE_STREAM_BILLS_TIME_ZONE", "BRIDGE_STREAM_BILLS_DELETED",
	}
	log := new(sharedLog)
	a := must.Get(OpenProcess(t.Context(), ProcessOptions{Config: load(t, s.Env), Logger: slog.New(slog.NewTextHandler(log, nil)), Build: build}))(t)
	must.OK(t, a.Close())
	var got []string
	for i, line := range strings.Split(strings.TrimSpace(log.String()), "\n") {
		if m := regexp.MustCompile(`level=WARN .* variable=(\w+)`).FindStringSubmatch(line); m != nil && i == len(got) {
			got = append(got, m[1])
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the log begins with warnings of %q, want %q:\n%s", got, want, log)
	}
}

// TestAShardNamesVariables: the log, readiness, status and refusals to send dead letters again name
// the variables of the stream.
func TestAShardNamesVariables(t *testing.T) {
	s, log := apptest.NewShop(t), new(sharedLog)
	s.Env["BRIDGE_STREAM_ORDERS_KEY"] = "customer"
	a := must.Get(Open(t.Context(), Options{Config: load(t, s.Env), Logger: textLogger(log)}))(t)
	defer start(t, a)()
	const remedy = "correct BRIDGE_STREAM_ORDERS_KEY"
	h, body := a.Daemon(), ""
	until(t, "/readyz says "+remedy, func() any { return body }, func() bool {
		_, body = httpapitest.Request(t, h, http.MethodGet, "/readyz")
		return strings.Contains(body, remedy)
	})
	stops := regexp.MustCompile(`msg="shard stopped".*` + remedy)
	until(t, "the log says "+remedy, func() any { return log }, func() bool { return stops.MatchString(log.String()) })
	if _, body := httpapitest.Request(t, h, http.MethodGet, "/api/v1/status"); !strings.Contains(body, remedy) {
		t.Errorf("the status does not say %q: %s", remedy, body)
	}
	resend := func() string {
		w := httptest.NewRecorder()
		r := httpapitest.NewRequest(t, http.MethodPost, "/api/v1/streams/orders/resend",
			strings.NewReader(`{"shard":"orders","letters":[{"row":1,"event":"6f1e7f9e-9d8a-5b7c-8d6e-0f1a2b3c4d5e"}]}`))
		httpapitest.Checked(t, httpapi.Handler(h, prometheus.NewRegistry(), httpapi.Access{})).ServeHTTP(w, r)
		var answer struct{ Error string }
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != http.StatusConflict {
			t.Errorf("%d %s, %v", w.Code, w.Body, err)
		}
		return answer.Error
	}
	if text := resend(); !strings.Contains(text, "BRIDGE_DEAD_LETTER is not set") {
		t.Errorf("without a destination: %s", text)
	}
	a.opts.Config.Streams[0].DeadLetter = "dead"
	if text := resend(); !strings.Contains(text, remedy) {
		t.Errorf("of a table that cannot be read: %s", text)
	}
}

// TestACheckBesideABridge of a group with its progress on the bus: what the bridge has published is
// its own. It has the metrics that docs/reference.md lists, and its status lacks nothing.
func TestACheckBesideABridge(t *testing.T) {
	t.Parallel()
	h := newHousehold(t, "moves")
	h.cfg.Standby, h.cfg.CheckpointTopic = config.Standby{Group: "g", Timeout: groupTimeout}, "progress"
	h.restart(false)
	h.publishes("d_0", "M", "one")
	const want = "toybus: prints events; standby group g.0; progress in progress"
	if text := strings.Join(strings.Fields(check.Text(Examine(t.Context(), h.cfg), false)), " "); !strings.Contains(text, want) || strings.Contains(text, "another database") {
		t.Errorf("it says %s", text)
	}
	families := must.Get(h.app.Metrics().Gather())(t)
	var there []string
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "bridge_") {
			there = append(there, f.GetName())
		}
	}
	if slices.Sort(there); !slices.Equal(there, listedMetrics(t)) {
		t.Errorf("docs/reference.md lists\n%v\nthere are\n%v", listedMetrics(t), there)
	}
	if from := h.app.Daemon().Status().Source; from.Kind != "toytables" || from.Address != alone {
		t.Errorf("the source is %+v", from)
	}
}
