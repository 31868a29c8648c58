package buscopy_test

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"example.org/bridge/internal/buscopy"
	"example.org/bridge/internal/natskv"
	sinkjetstream "example.org/bridge/sink/jetstream"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testenv"
)

// documented returns the subjects that docs/how-to.md names for a bucket: those of all, and the
// one that making it needs besides.
func documented(t *testing.T) (all []string, create string) {
	t.Helper()
	page := must.Get(os.ReadFile("../../docs/how-to.md"))(t)
	for _, right := range regexp.MustCompile("`(\\$(?:KV|JS)\\.[^`]*)`").FindAllStringSubmatch(string(page), -1) {
		switch subject := right[1]; {
		case subject == "$JS.API.STREAM.CREATE.KV_bridge-progress":
			create = subject
		case strings.Contains(subject, "bridge-progress"), subject == "$JS.API.STREAM.NAMES", subject == "$JS.API.CONSUMER.>":
			all = append(all, subject)
		}
	}
	if create == "" || len(all) < 6 {
		t.Fatalf("the page names %q and %q", all, create)
	}
	return all, create
}

// TestRights: what docs/how-to.md names is enough, and with less it does not work.
func TestRights(t *testing.T) {
	t.Parallel()
	rest, create := documented(t)
	quoted := func(subjects ...string) string { return `"` + strings.Join(subjects, `", "`) + `"` }
	s := testenv.StartNATS(t, testenv.NATSLines(
		`no_auth_user: admin`,
		`authorization { users = [`,
		`  { user: admin, password: a }`,
		`  { user: maker, password: a, permissions: { publish: [`+quoted(append(rest, create)...)+`], subscribe: ["_INBOX.>"] } }`,
		`  { user: user, password: a, permissions: { publish: [`+quoted(rest...)+`], subscribe: ["_INBOX.>"] } }`,
		`  { user: wrong, password: a, permissions: { publish: ["$JS.API.STREAM.INFO.>"], subscribe: ["_INBOX.>"] } }`,
		`] }`))
	as := func(user string, giveUp time.Duration) *buscopy.Messages {
		bus := must.Get(sinkjetstream.Open(sinkjetstream.Options{
			Connection: sinkjetstream.Connection{URLs: []string{"nats://" + user + ":a@" + s.Addr()}, GiveUpAfter: giveUp},
			Bucket:     "bridge-progress", CreateStream: true,
		}))(t)
		return buscopy.NewKV(bus, "bridge-progress")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	short, end := context.WithTimeout(ctx, 2*time.Second)
	defer end()
	wrong := as("wrong", time.Second)
	if err := wrong.Put(short, "d.s", []byte("1")); err == nil {
		t.Error("a login without the rights writes")
	}
	_ = wrong.Close()
	for _, user := range []string{"maker", "user"} {
		b := as(user, 0)
		for _, value := range []string{"1", "2"} {
			if err := b.Put(ctx, "d."+user, []byte(value)); err != nil {
				t.Fatalf("%s: %v", user, err)
			}
		}
		found, err := b.Entries(ctx, "d.")
		if err != nil || len(found) != 1 || string(found[0].Value) != "2" {
			t.Errorf("%s reads %q: %v", user, found, err)
		}
		if err := b.Delete(ctx, []string{"d." + user}); err != nil {
			t.Errorf("%s deletes: %v", user, err)
		}
		must.OK(t, b.Close())
	}
	if _, err := s.JetStream(t).Stream(ctx, natskv.Stream("bridge-progress")); err != nil {
		t.Error(err)
	}
}
