package jetstream_test

import (
	"strings"
	"testing"

	"example.org/bridge/client/jetstream/server"
	"example.org/bridge/internal/standby"
	"example.org/bridge/internal/standby/jetstream"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testenv"
)

// TestRights: what jetstream.Grant names is enough, and what is missing is named by it. A check
// changes nothing.
func TestRights(t *testing.T) {
	t.Parallel()
	const rest = `"$JS.API.STREAM.INFO.KV_bridge-standby", "$JS.API.STREAM.MSG.GET.KV_bridge-standby", "$JS.API.DIRECT.GET.KV_bridge-standby.>"`
	s := testenv.StartNATS(t, testenv.NATSLines(
		`no_auth_user: admin`,
		`authorization { users = [`,
		`  { user: admin, password: a }`,
		`  { user: reader, password: a, permissions: { publish: [`+rest+`] } }`,
		`  { user: all, password: a, permissions: { publish: [`+rest+`, "$KV.bridge-standby.>", "$JS.API.STREAM.CREATE.KV_bridge-standby"] } }`,
		`] }`))
	member := func(user string) *standby.Lease {
		return standby.NewLease(jetstream.New(jetstream.Options{
			Connection: &server.Options{URLs: []string{"nats://" + user + ":a@" + s.Addr()}},
			Key:        "g.0", Timeout: timeout / 4,
		}), timeout)
	}
	self := standby.Claim{Member: "m", Ready: true}
	denied := func(user string, do func(*standby.Lease) error) {
		t.Helper()
		l := member(user)
		if err := do(l); err == nil || !strings.Contains(err.Error(), jetstream.Grant) {
			t.Errorf("%s: %v", user, err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	step := func(l *standby.Lease) error { _, _, err := l.Step(t.Context(), self); return err }
	check := func(l *standby.Lease) error { return l.Check(t.Context()) }
	must.OK(t, check(member("all")))
	if _, err := s.JetStream(t).KeyValue(t.Context(), jetstream.Bucket); err == nil {
		t.Fatal("a check has made the bucket")
	}
	denied("reader", step)
	works := member("all")
	if got, _, err := works.Step(t.Context(), self); err != nil || got.Member != "m" {
		t.Fatalf("%+v, %v", got, err)
	}
	if err := check(member("all")); err != nil {
		t.Error(err)
	}
	denied("reader", check)
	if got, _, err := works.Step(t.Context(), self); err != nil || got.Member != "m" {
		t.Errorf("behind the checks: %+v, %v", got, err)
	}
}
