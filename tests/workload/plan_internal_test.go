package workload

import (
	"math"
	"testing"
	"time"
)

func TestAWriterDoesWhatItsSeedSays(t *testing.T) {
	opts := Options{Seed: 7, Hold: Hold{Short: time.Millisecond}, Mix: Mix{Rollback: 0.2, MultiRow: 0.3}}
	one, same, other := newPlanner(opts, 1), newPlanner(opts, 1), newPlanner(opts, 2)
	differ := false
	for range 100 {
		a, b, c := one.next(), same.next(), other.next()
		if a != b {
			t.Fatalf("the same seed gave %+v and %+v", a, b)
		}
		differ = differ || a != c
	}
	if !differ {
		t.Error("two writers do the same")
	}
}

func TestPlansHaveTheSharesOfTheMix(t *testing.T) {
	opts := Options{
		Hold: Hold{Short: 10 * time.Millisecond, Long: 20 * time.Second, LongShare: 0.1},
		Mix:  Mix{Rollback: 0.05, Burn: 0.1, MultiRow: 0.15, InsertSelect: 0.05, Replace: 0.2, Delete: 0.02},
	}
	const n = 50_000
	counts, long := make(map[kind]int), 0
	p := newPlanner(opts, 0)
	for range n {
		next := p.next()
		counts[next.kind]++
		if next.hold > opts.Hold.Short {
			long++
		}
		if next.hold < 0 || next.hold >= opts.Hold.Long {
			t.Fatalf("hold %s", next.hold)
		}
		switch many := next.kind == multiRow || next.kind == insertSelect; {
		case many && (next.rows < 2 || next.rows > maxRows), next.kind == remove && next.rows != 0, !many && next.kind != remove && next.rows != 1:
			t.Fatalf("%s of %d rows", next.kind, next.rows)
		}
	}
	near := func(what string, got int, want float64) {
		t.Helper()
		if math.Abs(float64(got)/n-want) > 0.01 {
			t.Errorf("%s: %.3f of the plans, want %.3f", what, float64(got)/n, want)
		}
	}
	rest := 1.0
	for _, s := range opts.Mix.shares() {
		near(string(s.kind), counts[s.kind], s.of)
		rest -= s.of
	}
	near("insert", counts[insert], rest)
	near("long", long, 0.1)
}

func TestTheHashThatNamesATableIsJavas(t *testing.T) {
	for sub, want := range map[string]int{"": 0, "hello": 99162322 % 64, "polygenelubricants": 0} {
		if spread(sub) != want {
			t.Errorf("%q goes to table %d, want %d", sub, spread(sub), want)
		}
	}
	used := make(map[int]bool)
	for i := range 1000 {
		table := spread("Hash whose sign is negative " + string(rune('a'+i%26)) + string(rune('A'+i/26)))
		if table < 0 || table >= orderedTables {
			t.Fatalf("table %d", table)
		}
		used[table] = true
	}
	if len(used) < orderedTables/2 {
		t.Errorf("only %d tables are used", len(used))
	}
}
