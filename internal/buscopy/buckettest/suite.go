package buckettest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"example.org/bridge/internal/buscopy"
)

// Options describe a Bucket to the suite.
type Options struct {
	// Open returns another way to one and the same bucket, which is empty at first.
	Open func(t *testing.T) func() buscopy.Bucket
}

// Run runs the suite.
func Run(t *testing.T, o Options) {
	for name, test := range map[string]func(*testing.T, func() buscopy.Bucket){
		"what was put last is there, also for others":  put,
		"entries come in the order of their last puts": order,
		"what was deleted is gone, and may come again": deleted,
		"one who follows reads what is new":            follow,
		"a value of half a megabyte fits":              large,
		"a call ends with its context":                 cancelled,
	} {
		t.Run(name, func(t *testing.T) {
			open := o.Open(t)
			test(t, func() buscopy.Bucket {
				b := open()
				t.Cleanup(func() {
					if err := b.Close(); err != nil {
						t.Error(err)
					}
				})
				return b
			})
		})
	}
}

func set(t *testing.T, b buscopy.Bucket, key, value string) {
	t.Helper()
	if err := b.Put(t.Context(), key, []byte(value)); err != nil {
		t.Fatal(err)
	}
}

func expect(t *testing.T, b buscopy.Bucket, prefix string, want map[string]string) {
	t.Helper()
	entries, err := b.Entries(t.Context(), prefix)
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]string)
	for _, e := range entries {
		got[e.Key] = string(e.Value)
	}
	if !maps.Equal(got, want) {
		t.Errorf("entries with %q are %v, want %v", prefix, got, want)
	}
}

func put(t *testing.T, open func() buscopy.Bucket) {
	a, b := open(), open()
	expect(t, a, "", map[string]string{})
	for i := range 20 {
		set(t, a, "d=2E1.orders.7.0.0", fmt.Sprint("a", i))
		set(t, b, "d=2E1.orders.8.1.12", fmt.Sprint("b", i))
		set(t, b, "d=2E1.orders.7.0.0", fmt.Sprint("c", i))
	}
	set(t, b, "d=2E1.orders2.7.0.0", "3")
	set(t, b, "D=2E1.orders.7.0.0", "4")
	for _, one := range []buscopy.Bucket{a, b, open()} {
		expect(t, one, "d=2E1.orders.", map[string]string{"d=2E1.orders.7.0.0": "c19", "d=2E1.orders.8.1.12": "b19"})
	}
	expect(t, a, "none.", map[string]string{})
}

func order(t *testing.T, open func() buscopy.Bucket) {
	a, b := open(), open()
	for i := range 10 {
		set(t, []buscopy.Bucket{a, b}[i%2], fmt.Sprintf("k.%d", (i*7)%10), "1")
	}
	set(t, a, "k.0", "2")
	for _, from := range []buscopy.Bucket{a, b} {
		entries, err := from.Entries(t.Context(), "k.")
		if err != nil {
			t.Fatal(err)
		}
		var keys []string
		for _, e := range entries {
			keys = append(keys, e.Key[2:])
		}
		if got := strings.Join(keys, ""); got != "7418529630" {
			t.Errorf("the order is %s", got)
		}
	}
}

func deleted(t *testing.T, open func() buscopy.Bucket) {
	a, b := open(), open()
	for _, key := range []string{"k.1", "k.2", "k.3"} {
		set(t, a, key, key)
	}
	if err := errors.Join(b.Delete(t.Context(), []string{"k.1", "k.3", "k.never"}), b.Delete(t.Context(), nil)); err != nil {
		t.Fatal(err)
	}
	expect(t, a, "k.", map[string]string{"k.2": "k.2"})
	set(t, a, "k.3", "again")
	expect(t, b, "k.", map[string]string{"k.2": "k.2", "k.3": "again"})
}

func follow(t *testing.T, open func() buscopy.Bucket) {
	a, b := open(), open()
	next := b.Follow("k.")
	expect := func(want string) {
		t.Helper()
		entries, err := next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
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
	if err := a.Delete(t.Context(), []string{"k.b"}); err != nil {
		t.Fatal(err)
	}
	set(t, a, "k.b", "again")
	expect("[alast bagain]")
}

func large(t *testing.T, open func() buscopy.Bucket) {
	value := string(bytes.Repeat([]byte("0123456789abcdef"), 33<<10))
	b := open()
	set(t, b, "k.large", value)
	expect(t, b, "k.", map[string]string{"k.large": value})
}

func cancelled(t *testing.T, open func() buscopy.Bucket) {
	b := open()
	cause := errors.New("no longer")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if err := b.Put(ctx, "k.1", []byte("1")); !errors.Is(err, cause) {
		t.Errorf("Put returns %v", err)
	}
	if _, err := b.Entries(ctx, "k."); !errors.Is(err, cause) {
		t.Errorf("Entries returns %v", err)
	}
}
