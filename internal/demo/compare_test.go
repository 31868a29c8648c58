package demo

import (
	"errors"
	"testing"
	"time"
)

// story writes versions of entity e: each a row and a state that lasts for lasted.
func story(t *testing.T, lasted time.Duration, states ...state) *Record {
	t.Helper()
	r := new(Record)
	for i, s := range states {
		s.entity = "e"
		r.commitAt(t, s)
		if i > 0 && lasted > 0 {
			for v := r.last[name{Products, "e"}].before; v != nil; v = v.before {
				v.committed = v.ended.Add(-lasted)
			}
		}
	}
	return r
}

func (r *Record) commitAt(t *testing.T, s state) {
	t.Helper()
	if err := r.commit(change{table: Products, states: []state{s}}, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
}

func row(id int64, text string) state { return state{id: id, text: text} }

// says is the event of a row with a state.
func says(id int64, text, origin string) Event {
	e := Event{ID: "e", Table: Products, Row: id, Origin: origin, Stored: time.Now()}
	switch text {
	case deletedState:
		e.Members = []Member{{"reason", "TOMBSTONE"}}
	case goneState:
		e.Members = []Member{{"reason", "ABSENT_IN_SNAPSHOT"}}
	default:
		e.Members = []Member{{"priceCents", text}}
	}
	return e
}

func TestJudge(t *testing.T) {
	long, short := ReadWithin+time.Second, time.Second
	for _, c := range []struct {
		name   string
		record *Record
		events []Event
		want   Verdict
	}{
		{"a life of which everything was read",
			story(t, long, row(1, "a"), row(2, "b"), row(2, "c"), row(2, goneState), row(3, "a"), row(3, deletedState)),
			[]Event{says(1, "a", "tail"), says(2, "b", "late"), says(2, "c", "modified"), says(2, goneState, "reconcile"), says(3, "a", "tail"), says(3, deletedState, "modified")},
			Verdict{States: 6, Events: 6, Late: 1, Modified: 2, Reconciled: 1}},
		{"states that were over soon", story(t, short, row(1, "a"), row(2, "b"), row(3, "c")), []Event{says(3, "c", "tail")},
			Verdict{States: 3, Events: 1, Brief: 2}},
		{"a REPLACE with the values that were there", story(t, long, row(1, "a"), row(2, "a")), []Event{says(1, "a", "tail")},
			Verdict{States: 1, Silent: 1, Events: 1}},
		{"the same, the later row was read", story(t, long, row(1, "a"), row(2, "a")), []Event{says(2, "a", "tail")},
			Verdict{States: 1, Silent: 1, Events: 1}},
		{"a state that is back before the other was read", story(t, short, row(1, "a"), row(2, "b"), row(3, "a")), []Event{says(1, "a", "tail")},
			Verdict{States: 3, Events: 1, Brief: 1, Unchanged: 1}},
		{"a delete of what was never read", story(t, short, row(1, "a"), row(1, goneState)), nil, Verdict{States: 2, Brief: 1, Unchanged: 1}},
		{"a delete of a row that was not read, but another one", story(t, short, row(1, "a"), row(2, "b"), row(2, goneState)),
			[]Event{says(1, "a", "tail"), says(1, goneState, "reconcile")}, Verdict{States: 3, Events: 2, Brief: 1, Reconciled: 1}},
		{"the end of a row that was marked", story(t, long, row(1, "a"), row(1, deletedState), row(1, goneState)),
			[]Event{says(1, "a", "tail"), says(1, deletedState, "tail")}, Verdict{States: 3, Events: 2, Unchanged: 1}},
		{"a state without an event", story(t, long, row(1, "a"), row(2, "b")), []Event{says(1, "a", "tail")},
			Verdict{States: 2, Events: 1, Lost: []Fact{{Products, 2, "b"}}}},
		{"one that lasted long", story(t, long, row(1, "a"), row(2, "b")), []Event{says(2, "b", "tail")},
			Verdict{States: 2, Events: 1, Lost: []Fact{{Products, 1, "a"}}}},
		{"an update without an event", story(t, short, row(1, "a"), row(1, "b")), []Event{says(1, "a", "tail")},
			Verdict{States: 2, Events: 1, Lost: []Fact{{Products, 1, "b"}}}},
		{"a delete without an event", story(t, short, row(1, "a"), row(1, goneState)), []Event{says(1, "a", "tail")},
			Verdict{States: 2, Events: 1, Lost: []Fact{{Products, 1, goneState}}}},
		{"repeats and events about nothing", story(t, long, row(1, "a")), []Event{says(1, "a", "tail"), says(1, "a", "tail"), says(1, "b", "tail"), says(9, "a", "tail")},
			Verdict{States: 1, Events: 4, Repeated: 1, Unknown: 2}},
		{"an older state after a newer one", story(t, long, row(1, "a"), row(2, "b")), []Event{says(2, "b", "tail"), says(1, "a", "late")},
			Verdict{States: 2, Events: 2, Stale: 1, Late: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Compare(c.events, c.record)
			got.P50, got.P99 = 0, 0
			if sum := got.Events - got.Unknown - got.Repeated + len(got.Lost) + got.Brief + got.Unchanged; sum != got.States {
				t.Errorf("the parts add up to %d, want %d states", sum, got.States)
			}
			if len(got.Lost) != len(c.want.Lost) || len(got.Lost) == 1 && got.Lost[0] != c.want.Lost[0] {
				t.Errorf("lost %v, want %v", got.Lost, c.want.Lost)
			}
			got.Lost, c.want.Lost = nil, nil
			if !equal(got, c.want) {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

func equal(a, b Verdict) bool {
	return a.States == b.States && a.Silent == b.Silent && a.Events == b.Events && a.Brief == b.Brief && a.Unchanged == b.Unchanged && a.Unknown == b.Unknown &&
		a.Repeated == b.Repeated && a.Stale == b.Stale && a.Late == b.Late && a.Modified == b.Modified && a.Reconciled == b.Reconciled
}

func TestJudgeForgivesAPurge(t *testing.T) {
	r := new(Record)
	r.commitAt(t, order(1, "ada", 100))
	if err := r.commit(change{table: Products, purged: []int64{1}}, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	if v := Compare(nil, r); len(v.Lost) != 0 || v.Brief != 1 {
		t.Errorf("%+v", v)
	}
}

func TestRecordForgetsAFailedCommit(t *testing.T) {
	r := story(t, 0, row(1, "a"))
	failed := errors.New("failed")
	c := change{table: Products, states: []state{{"e", 2, "b"}}, touched: 1}
	if err := r.commit(c, func() error { return failed }); !errors.Is(err, failed) {
		t.Fatal(err)
	}
	if v := Compare([]Event{says(1, "a", "tail")}, r); v.States != 1 || v.Silent != 0 || len(v.Lost) != 0 {
		t.Errorf("%+v", v)
	}
}
