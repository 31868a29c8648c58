package main

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"bridge/internal/pipeline"
)

func TestDeadLetterCommandLines(t *testing.T) {
	base := settingsOf{
		"BRIDGE_SOURCE_URL": "mysql://a:b@127.0.0.1:1/shop", "BRIDGE_SINK_URL": "stdout:", "BRIDGE_STREAMS": "orders",
		"BRIDGE_STREAM_ORDERS_TABLE": "orders", "BRIDGE_STREAM_ORDERS_KIND": "release",
	}
	with := func(variables ...string) settingsOf {
		env := settingsOf{}
		for name, value := range base {
			env[name] = value
		}
		for i := 0; i < len(variables); i += 2 {
			env[variables[i]] = variables[i+1]
		}
		return env
	}
	for _, c := range []struct {
		name, line string
		env        settingsOf
		status     int
		words      string
	}{
		{"both have a help", "deadletter --help", nil, 0, "bridge deadletter list [--stream orders] [--json]"},
		{"list has one", "deadletter list --help", nil, 0, "Exit status: 0, also where there are none"},
		{"resend has one", "help deadletter resend", nil, 0, "the bridge that runs at BRIDGE_HTTP_ADDR"},
		{"one of them is meant", "deadletter", base, 2, "bridge deadletter needs one of: list, resend"},
		{"and not another", "deadletter purge", base, 2, "did you mean"},
		{"the configuration is judged", "deadletter list", nil, 2, "the configuration is wrong"},
		{"without a destination there are none", "deadletter list", base, 2, "BRIDGE_DEAD_LETTER: is not set"},
		{"nor to be sent again", "deadletter resend", base, 2, "BRIDGE_DEAD_LETTER: is not set"},
		{"a stream has its own", "deadletter list", with("BRIDGE_STREAM_ORDERS_DEAD_LETTER", "dead"), 1, "bridge deadletter list needs a sink that keeps"},
		{"what is printed is not kept", "deadletter resend", with("BRIDGE_DEAD_LETTER", "dead"), 1, "bridge deadletter resend needs a sink that keeps"},
		{"streams are known by name", "deadletter list --stream order", with("BRIDGE_DEAD_LETTER", "dead"), 2, "there are orders"},
		{"rows are numbers", "deadletter resend --row -1", with("BRIDGE_DEAD_LETTER", "dead"), 2, "is no id of a row"},
		{"list has no rows", "deadletter list --row 1", with("BRIDGE_DEAD_LETTER", "dead"), 2, "unknown flag"},
		{"there are no arguments", "deadletter list orders", with("BRIDGE_DEAD_LETTER", "dead"), 2, "takes no arguments"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := outcome{}.call(c.env, strings.Fields(c.line)...)
			if got.status != c.status || !strings.Contains(got.out+got.err, c.words) {
				t.Errorf("status %d, want %d with %q\n%s%s", got.status, c.status, c.words, got.out, got.err)
			}
		})
	}
}

func TestEveryFateHasWords(t *testing.T) {
	for _, fate := range fates {
		if fateWords[fate] == "" {
			t.Errorf("no words for %s", fate)
		}
	}
	if len(fateWords) != len(fates) {
		t.Errorf("%d words for %d fates", len(fateWords), len(fates))
	}
}

// post sends a body to be resent and returns the answer.
func post(d daemon, path, body, origin string) (status int, text string) {
	w, r := httptest.NewRecorder(), httptest.NewRequest("POST", path, strings.NewReader(body))
	if origin != "" {
		r.Header.Set("Origin", origin)
	}
	handler(d, prometheus.NewRegistry()).ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func TestRequestsToResend(t *testing.T) {
	const path = "/api/v1/streams/orders/resend"
	const letter = `{"row":17,"event":"6f1e7f9e-9d8a-5b7c-8d6e-0f1a2b3c4d5e"}`
	body := func(letters ...string) string {
		return `{"shard":"t_0","dryRun":true,"letters":[` + strings.Join(letters, ",") + `]}`
	}
	for _, c := range []struct {
		name, path, body, origin string
		refuses                  error
		status                   int
		words                    string
	}{
		{"is taken", path, body(letter, letter), "", nil, 200, `{"letters":[{"fate":"","event":"","type":"","why":""},{`},
		{"knows the streams", path, body(letter), "", errNoStream, 404, "no such stream"},
		{"says why it cannot", path, body(letter), "", errCannotResend, 409, "cannot send dead letters again now"},
		{"says when it takes too long", path, body(letter), "", errResendTimeout, 504, "not done within"},
		{"has no parameters", path + "?dryRun=true", body(letter), "", nil, 400, "there are no parameters"},
		{"needs letters", path, body(), "", nil, 400, "1 to 100 letters"},
		{"but not too many", path, body(strings.Split(strings.Repeat(letter+";", 100)+letter, ";")...), "", nil, 400, "1 to 100 letters"},
		{"needs a table", path, `{"letters":[` + letter + `]}`, "", nil, 400, "needs a shard"},
		{"knows the members", path, `{"shard":"t_0","dry":true,"letters":[` + letter + `]}`, "", nil, 400, `unknown field`},
		{"needs an event each", path, body(letter, `{"row":17,"event":"17"}`), "", nil, 400, "letter 2 has no event"},
		{"needs an event each that is one", path, body(`{"row":17}`), "", nil, 400, "letter 1 has no event"},
		{"is bounded", path, body(`{"type":"` + strings.Repeat("x", maxResendBytes) + `"}`), "", nil, 413, "send fewer letters"},
		{"needs a body", path, "", "", nil, 400, "read the body"},
		{"has a list of letters", path, `{"shard":"t_0","letters":{"row":17}}`, "", nil, 400, "letters must be a list"},
		{"ends behind the object", path, body(letter) + `{"dryRun":false}`, "", nil, 400, "something follows"},
		{"does not come from a page of another origin", path, body(letter), "https://elsewhere.example", nil, 403, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := &fakeDaemon{refuses: c.refuses}
			status, text := post(d, c.path, c.body, c.origin)
			if status != c.status || !strings.Contains(text, c.words) {
				t.Errorf("%d %s, want %d with %s", status, text, c.status, c.words)
			}
			if (status == 200 || c.refuses != nil) != (len(d.asked) == 1) {
				t.Errorf("asked for %v", d.asked)
			}
		})
	}
	if status, _ := request(t, &fakeDaemon{}, http.MethodGet, path); status != 405 {
		t.Errorf("GET: %d", status)
	}
}

// TestDeadLettersOfAShop has rows that are larger than any message of the server inside the process.
func TestDeadLettersOfAShop(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.env["BRIDGE_DEAD_LETTER"] = "eiffel.dead"
	s.env["BRIDGE_RECONCILE_INTERVAL"] = "1h"
	s.call(exitFailed, "there is no folder", "deadletter list")
	s.exec("UPDATE orders SET name = id || hex(zeroblob(4200000)) WHERE id IN (7, 8)")
	s.env["BRIDGE_STREAM_ORDERS_KEY"] = "id"
	s.call(exitFine, "", "reconcile")
	s.call(exitFine, "orders orders 7 7 OrdersAddedEvent", "deadletter list")
	got := outcome{}.call(s.env, "deadletter", "list", "--json")
	var list letterList
	if err := json.Unmarshal([]byte(got.out), &list); err != nil || len(list.Letters) != 2 || list.Others != 0 || list.Letters[1].Count != 1 ||
		list.Letters[1].RowID != 8 || list.Letters[1].First == nil || list.Letters[1].Size < 8_400_000 {
		t.Errorf("%v: %.400s %s", err, got.out, got.err)
	}
	// They are still too large.
	s.call(exitFailed, "2 letters: 2 refused", "deadletter resend")

	s.exec("UPDATE orders SET name = 'small' WHERE id = 7")
	s.exec("DELETE FROM orders WHERE id = 8")
	path := strings.TrimPrefix(s.env["BRIDGE_CHECKPOINT_URL"], "file:")
	before := contents(t, path)
	s.call(exitFine, "2 letters: 2 current dry run: nothing was published", "deadletter resend --dry-run")
	if contents(t, path) != before {
		t.Error("a dry run has changed the checkpoint")
	}
	s.call(exitFine, "published as it is now: OrdersModifiedEvent", "deadletter resend --stream orders --shard orders --row 7")
	got = outcome{}.call(s.env, "deadletter", "resend", "--json")
	var sent sentList
	if err := json.Unmarshal([]byte(got.out), &sent); err != nil || !sent.Good || len(sent.Letters) != 2 || sent.Letters[0].Fate != pipeline.Superseded || sent.Letters[0].SentEvent != nil ||
		sent.Letters[1].Fate != pipeline.SentCurrent || *sent.Letters[1].SentType != "OrdersDeletedEvent" {
		t.Errorf("%v: %s %s", err, got.out, got.err)
	}
	s.call(exitFine, "there are no dead letters", "deadletter resend --row 9")

	s.env["BRIDGE_CHECKPOINT_URL"] += ".other"
	s.env["BRIDGE_SINK_URL"] = "embedded://" + filepath.Join(filepath.Dir(path), "nats")
	s.call(exitFailed, "there is no checkpoint at", "deadletter resend")
	s.env["BRIDGE_STREAM_ORDERS_TABLE"] = "other"
	s.call(exitFailed, "2 letters: 2 notConfigured", "deadletter resend")
}

func TestDeadLettersOfARunningServerInside(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.env["BRIDGE_DEAD_LETTER"] = "eiffel.dead"
	running, err := openSink(load(t, s.env), slog.New(slog.DiscardHandler), func(string, error) {})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := running.Close(); err != nil {
			t.Error(err)
		}
	}()
	s.call(exitFailed, "stop it, or let bridge deadletter list in with ?listen=", "deadletter list")
	s.call(exitFailed, "stop it, or let bridge deadletter resend in with ?listen=", "deadletter resend")
}

func TestALongListOfLettersTakesLittleMemory(t *testing.T) {
	text := `{"shard":"t_0","letters":[` + strings.Repeat("{},", maxResendBytes/4) + `{}]}`
	result := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r := httptest.NewRequest("POST", "/", strings.NewReader(text))
			if _, err := resendRequestOf(httptest.NewRecorder(), r); err == nil || !strings.Contains(err.Error(), "1 to 100 letters") {
				b.Fatal(err)
			}
		}
	})
	if result.N == 0 || result.AllocedBytesPerOp() > 8*maxResendBytes {
		t.Errorf("a body of %d bytes takes %d bytes", len(text), result.AllocedBytesPerOp())
	}
}

func TestResendByTheRunningBridge(t *testing.T) {
	d := &fakeDaemon{refuses: errors.New("t_0 is stopped")}
	b := &runningBridge{addr: serveDaemon(t, d)["BRIDGE_HTTP_ADDR"]}
	ask := ResendRequest{Stream: "orders", Shard: "t_0", DryRun: true, Letters: []pipeline.Letter{{Row: 1, Event: "6f1e7f9e-9d8a-5b7c-8d6e-0f1a2b3c4d5e"}}}
	if _, err := b.resend(t.Context(), ask); err == nil || err.Error() != "t_0 is stopped" {
		t.Errorf("%v", err)
	}
	d.refuses = nil
	if outcomes, err := b.resend(t.Context(), ask); err != nil || len(outcomes) != 1 || d.asked[1] != "orders/t_0/true/1" {
		t.Errorf("%v, %v, asked %v", outcomes, err, d.asked)
	}
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	b.addr = strings.TrimPrefix(server.URL, "http://")
	if _, err := b.resend(t.Context(), ask); err == nil || !strings.Contains(err.Error(), "sends no dead letters again (status 404)") {
		t.Errorf("%v", err)
	}
}
