package buckettest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"example.org/bridge/internal/buscopy"
	"example.org/bridge/tests/must"
)

// Options describe a Bucket to the suite.
type Options struct {
	// Open returns another way to one and the same bucket, which is empty at first.
	Open func(t *testing.T) func() buscopy.Bucket
}

// Run runs the suite.
func Run(t *testing.T, o Options) {
	for name, test := range map[string]func(*testing.T, func() buscopy.Bucket){
		"puts and deletes do as in memory":  random,
		"one who follows reads what is new": follow,
		"a value of half a megabyte fits":   large,
		"a call ends with its context":      cancelled,
	} {
		t.Run(name, func(t *testing.T) {
			open := o.Open(t)
			test(t, func() buscopy.Bucket {
				b := open()
				t.Cleanup(func() { must.OK(t, b.Close()) })
				return b
			})
		})
	}
}

func set(t *testing.T, b buscopy.Bucket, key, value string) {
	t.Helper()
	must.OK(t, b.Put(t.Context(), key, []byte(value)))
}

func text(t *testing.T, b buscopy.Bucket, prefix string) string {
	t.Helper()
	entries := must.Get(b.Entries(t.Context(), prefix))(t)
	var all strings.Builder
	for _, e := range entries {
		fmt.Fprintf(&all, "%s=%s ", e.Key, e.Value)
	}
	return all.String()
}

// random puts and deletes values by two ways: each sees what was put last and is not deleted, in
// the order of the puts, and so does one that is opened in the end.
func random(t *testing.T, open func() buscopy.Bucket) {
	ways, plain := []buscopy.Bucket{open(), open()}, new(Memory)
	prefixes := []string{"d=2E1.orders.", "d=2E1.orders2.", "D=2E1.orders."}
	for n := range 60 {
		way, key := ways[rand.IntN(2)], fmt.Sprintf("%s%d.0.0", prefixes[rand.IntN(3)], rand.IntN(4))
		if rand.IntN(4) > 0 {
			set(t, way, key, fmt.Sprint(n))
			set(t, plain, key, fmt.Sprint(n))
		} else if err := errors.Join(way.Delete(t.Context(), []string{key, "never"}), way.Delete(t.Context(), nil), plain.Delete(t.Context(), []string{key})); err != nil {
			t.Fatal(err)
		}
		for _, prefix := range prefixes {
			if want := text(t, plain, prefix); n%6 == 5 && (text(t, ways[0], prefix) != want || text(t, ways[1], prefix) != want) {
				t.Fatalf("after %d changes %q has %q and %q, want %q", n+1, prefix, text(t, ways[0], prefix), text(t, ways[1], prefix), want)
			}
		}
	}
	last := open()
	for _, prefix := range prefixes {
		if got, want := text(t, last, prefix), text(t, plain, prefix); got != want {
			t.Errorf("opened in the end, %q has %q, want %q", prefix, got, want)
		}
	}
	if found := text(t, ways[0], "none."); found != "" {
		t.Errorf("with a prefix that nothing has there is %s", found)
	}
}

func follow(t *testing.T, open func() buscopy.Bucket) {
	a, b := open(), open()
	next := b.Follow("k.")
	expect := func(want string) {
		t.Helper()
		entries := must.Get(next(t.Context()))(t)
		var got []string
		for _, e := range entries {
			got = append(got, e.Key[2:]+string(e.Value))
		}
		if fmt.Sprint(got) != want {
			t.Errorf("it finds %v, want %s", got, want)
		}
	}
	expect("[]")
	for i := range 20 {
		set(t, a, "k.a", fmt.Sprint(i))
		set(t, a, "other", "x")
		set(t, a, "k.b", fmt.Sprint(i))
		expect(fmt.Sprintf("[a%d b%d]", i, i))
	}
	set(t, a, "k.a", "last")
	expect("[b19 alast]")
	expect("[b19 alast]")
	must.OK(t, a.Delete(t.Context(), []string{"k.b"}))
	set(t, a, "k.b", "again")
	expect("[alast bagain]")
}

func large(t *testing.T, open func() buscopy.Bucket) {
	value := string(bytes.Repeat([]byte("0123456789abcdef"), 33<<10))
	b := open()
	set(t, b, "k.large", value)
	if got := text(t, b, "k."); got != "k.large="+value+" " {
		t.Errorf("%d bytes are read of %d", len(got), len(value))
	}
}

func cancelled(t *testing.T, open func() buscopy.Bucket) {
	b := open()
	cause := errors.New("no longer")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	must.Fail(t, b.Put(ctx, "k.1", []byte("1")), cause)
	must.Fail(t, must.Err(b.Entries(ctx, "k.")), cause)
}
