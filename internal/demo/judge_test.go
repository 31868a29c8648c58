package demo

import (
	"errors"
	"testing"
	"time"
)

// wrote makes a record of rows 1 to n of a table, written a second ago.
func wrote(t *testing.T, n int64) *Record {
	t.Helper()
	r := new(Record)
	for id := int64(1); id <= n; id++ {
		if err := r.commit(change{table: "t", added: []int64{id}}, func() error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// gone says that a row was replaced after lived.
func (r *Record) goneAfter(id int64, lived time.Duration) {
	row := Row{"t", id}
	f := r.rows[row]
	r.rows[row] = fate{f.committed, f.committed.Add(lived)}
}

func about(id int64) Event {
	return Event{ID: "e", Row: Row{"t", id}, Origin: "tail", Stored: time.Now()}
}

func TestJudge(t *testing.T) {
	t.Run("finds nothing where every row has its event", func(t *testing.T) {
		late := about(2)
		late.Origin = "late"
		v := Judge([]Event{about(1), late, about(3)}, wrote(t, 3))
		if len(v.Lost) != 0 || v.Repeated != 0 || v.Unknown != 0 || v.Gone != 0 || v.Late != 1 || v.Rows != 3 || v.Events != 3 {
			t.Errorf("%+v", v)
		}
	})
	t.Run("finds a row without an event", func(t *testing.T) {
		if v := Judge([]Event{about(1)}, wrote(t, 2)); len(v.Lost) != 1 || v.Lost[0].ID != 2 {
			t.Errorf("%+v", v)
		}
	})
	t.Run("forgives a row that was gone soon, and no other", func(t *testing.T) {
		r := wrote(t, 2)
		r.goneAfter(1, time.Second)
		r.goneAfter(2, SeenWithin+time.Second)
		if v := Judge(nil, r); len(v.Lost) != 1 || v.Lost[0].ID != 2 || v.Gone != 1 {
			t.Errorf("%+v", v)
		}
	})
	t.Run("finds repeats and events about nothing", func(t *testing.T) {
		if v := Judge([]Event{about(1), about(1), about(9)}, wrote(t, 1)); v.Repeated != 1 || v.Unknown != 1 {
			t.Errorf("%+v", v)
		}
	})
}

func TestRecordForgetsAFailedCommit(t *testing.T) {
	r := wrote(t, 1)
	failed := errors.New("failed")
	c := change{table: "t", added: []int64{2}, removed: []int64{1}, heartbeats: 1}
	if err := r.commit(c, func() error { return failed }); !errors.Is(err, failed) {
		t.Fatal(err)
	}
	if v := Judge([]Event{about(1)}, r); v.Rows != 1 || v.Heartbeats != 0 || len(v.Lost) != 0 {
		t.Errorf("%+v", v)
	}
	if v := Judge(nil, r); len(v.Lost) != 1 {
		t.Errorf("the row that was not removed is not missed: %+v", v)
	}
}
