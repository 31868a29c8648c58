package published_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/published"
	"example.org/bridge/tests/must"
)

type saved map[uint64][]byte

func (s saved) apply(changed []store.Part) (bytes int) {
	for _, p := range changed {
		if bytes += len(p.Bytes); p.Bytes == nil {
			delete(s, p.Number)
		} else {
			s[p.Number] = p.Bytes
		}
	}
	return bytes
}

func (s saved) restore(rows int) (*published.Log, error) {
	var parts []store.Part
	for _, number := range slices.Sorted(maps.Keys(s)) {
		parts = append(parts, store.Part{Number: number, Bytes: s[number]})
	}
	return restore(rows, parts...)
}

func restore(rows int, parts ...store.Part) (*published.Log, error) {
	return published.Restore(rows, func(yield func(store.Part, error) bool) {
		for _, part := range parts {
			if !yield(part, nil) {
				return
			}
		}
	})
}

// TestLogIsWhatWasSaved: whatever is added, the parts that changed make the same log again, in the
// same bound and in another one.
func TestLogIsWhatWasSaved(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.SampledFrom([]int{16, 48, 160}).Draw(t, "limit")
		l, kept := published.NewLog(limit), saved{}
		var model []published.Row
		next := uint64(0)
		for range rapid.IntRange(1, 30).Draw(t, "batches") {
			var rows []published.Row
			for range rapid.IntRange(0, 40).Draw(t, "rows") {
				next += rapid.Uint64Range(1, 5).Draw(t, "step")
				rows = append(rows, published.Row{ID: next, Content: next * 3, Identity: next * 5})
			}
			if len(model) > 0 && rapid.Bool().Draw(t, "update") {
				at := rapid.IntRange(0, len(model)-1).Draw(t, "at")
				model[at].Content++
				rows = append([]published.Row{model[at]}, rows...)
				model = append(model, rows[1:]...)
			} else {
				model = append(model, rows...)
			}
			l.Add(rows)
			if rapid.IntRange(0, 9).Draw(t, "other server") == 0 {
				l.SetOrigin(published.Origin{Server: "b", Started: int64(next)})
			}
			if rapid.IntRange(0, 19).Draw(t, "clear") == 0 {
				l.Clear()
				model = nil
			}
			kept.apply(l.Changed())
		}
		got := slices.Clone(l.Rows())
		if len(got) > limit || len(model) >= limit && len(got) <= limit-limit/16 || len(got) < len(model) && len(got) < limit-limit/16 {
			t.Fatalf("%d rows are held of %d, the limit is %d", len(got), len(model), limit)
		}
		if want := model[len(model)-len(got):]; len(got) > 0 && !slices.Equal(got, want) {
			t.Fatalf("the log has\n%v, want\n%v", got, want)
		}
		if row, ok := l.Find(next); len(got) > 0 && (!ok || row != got[len(got)-1]) {
			t.Fatalf("%+v is found of row %d", row, next)
		}
		for _, bound := range []int{limit, 16, 160} {
			again := must.Get(kept.restore(bound))(t)
			if again.Origin() != l.Origin() {
				t.Fatalf("the origin is %+v, want %+v", again.Origin(), l.Origin())
			}
			rows := again.Rows()
			if want := got[len(got)-len(rows):]; len(rows) > 0 && !slices.Equal(rows, want) || bound == limit && len(rows) != len(got) {
				t.Fatalf("bound %d: the saved log has\n%v, want\n%v", bound, rows, want)
			}
			other := maps.Clone(kept)
			other.apply(again.Changed())
			if last, err := other.restore(bound); err != nil || !slices.Equal(last.Rows(), rows) {
				t.Fatalf("bound %d: saved again it has\n%v, %v, want\n%v", bound, last, err, rows)
			}
		}
	})
}

// TestASaveWritesOnePartOfTheLog: a row at a time costs a part, not the whole log.
func TestASaveWritesOnePartOfTheLog(t *testing.T) {
	l, kept := published.NewLog(1000), saved{}
	most, total := 0, 0
	for id := uint64(1); id <= 5000; id++ {
		l.Add([]published.Row{{ID: id, Content: 1 << 60, Identity: 1 << 60}})
		bytes := kept.apply(l.Changed())
		most, total = max(most, bytes), total+bytes
	}
	if most > 1100 || total/5000 > 600 {
		t.Errorf("a save writes up to %d bytes, %d in the mean", most, total/5000)
	}
	if len(l.Rows()) < 900 || len(l.Rows()) > 1000 || len(kept) > 17 {
		t.Errorf("%d rows in %d parts", len(l.Rows()), len(kept))
	}
}

// TestLostRowsStay: rows that a server has lost are there when the log has dropped them, and in
// what is saved.
func TestLostRowsStay(t *testing.T) {
	l, kept := published.NewLog(32), saved{}
	l.SetOrigin(published.Origin{Shape: 1, Server: "a"})
	add := func(from, to uint64) {
		for id := from; id <= to; id++ {
			l.Add([]published.Row{{ID: id, Content: id, Identity: 2 * id}})
		}
		kept.apply(l.Changed())
	}
	lost := func(ids ...uint64) *published.Check {
		c := &published.Check{Moved: true, Floor: ids[len(ids)-1] - 1}
		for _, id := range ids {
			c.Gone = append(c.Gone, published.Row{ID: id, Content: id, Identity: 2 * id})
		}
		return c
	}
	until := time.UnixMilli(1_700_000_000_000)
	expect := func(what string, survivor uint64, ids ...uint64) {
		t.Helper()
		restored := must.Get(kept.restore(32))(t)
		for _, log := range []*published.Log{l, restored} {
			got := log.Lost()
			if got == nil {
				t.Fatalf("%s: nothing is lost", what)
			}
			var held []uint64
			for _, row := range got.Rows {
				held = append(held, row.ID)
				if row.Content != row.ID || row.Identity != 2*row.ID {
					t.Errorf("%s: %+v", what, row)
				}
			}
			if !slices.Equal(held, ids) || got.Survivor != survivor || !got.Until.Equal(until) || log.Origin() != l.Origin() {
				t.Errorf("%s: %v of %+v until %v, survivor %d", what, held, log.Origin(), got.Until, got.Survivor)
			}
		}
	}
	add(1, 40)
	if n := l.Lose(lost(40, 39, 38), until); n != 3 {
		t.Errorf("%d rows are lost", n)
	}
	l.SetOrigin(published.Origin{Shape: 1, Server: "b"})
	add(41, 200)
	expect("160 rows later", 37, 38, 39, 40)
	if n := l.Lose(lost(200, 199, 40), until); n != 2 {
		t.Errorf("%d more rows are lost", n)
	}
	add(201, 201)
	expect("after a second loss", 37, 38, 39, 40, 199, 200)
	l.Found([]uint64{200, 39, 38})
	add(202, 202)
	expect("after some were found", 37, 40, 199)
	l.Found([]uint64{40, 199})
	add(203, 203)
	if restored, err := kept.restore(32); l.Lost() != nil || err != nil || restored.Lost() != nil {
		t.Errorf("%+v is still lost, %v", l.Lost(), err)
	}
	var many []uint64
	for id := uint64(300); id > 200; id-- {
		many = append(many, id)
	}
	l.Lose(lost(many...), until)
	if got := l.Lost().Rows; len(got) != 32 || got[31].ID != 300 {
		t.Errorf("%d lost rows are kept, the newest of them is %d", len(got), got[len(got)-1].ID)
	}
	l.SetOrigin(published.Origin{Shape: 2, Server: "b"})
	if l.Lost() != nil || len(l.Rows()) > 0 {
		t.Error("rows of another shape are compared")
	}
}

func TestDamagedPartsAreRefused(t *testing.T) {
	l := published.NewLog(16)
	l.SetOrigin(published.Origin{Shape: 1, Server: "a", Started: 5})
	l.Add([]published.Row{{ID: 5}, {ID: 8}, {ID: 9}})
	l.Lose(&published.Check{Gone: []published.Row{{ID: 9}, {ID: 8}}, Floor: 5}, time.UnixMilli(1_700_000_000_000))
	parts := l.Changed()
	// version, shape, started, the length of the server, server, the separator behind it
	const withoutLost = 1 + 8 + 1 + 1 + 1 + 1
	for i := range parts {
		for size := range len(parts[i].Bytes) {
			if parts[i].Number == 0 && (size == withoutLost || size == len(parts[i].Bytes)-17) {
				// Nothing is lost, or one row less.
				continue
			}
			cut := slices.Clone(parts)
			cut[i].Bytes = cut[i].Bytes[:size]
			if got, err := restore(16, cut...); !errors.Is(err, published.ErrBadLog) {
				t.Errorf("part %d of %d bytes is read as %+v, %v", cut[i].Number, size, got, err)
			}
		}
	}
	if _, err := restore(16, parts[2], parts[1]); !errors.Is(err, published.ErrBadLog) {
		t.Errorf("parts out of order: %v", err)
	}
	for _, part := range parts {
		for _, version := range []byte{part.Bytes[0] - 1, part.Bytes[0] + 1} {
			other := slices.Clone(part.Bytes)
			other[0] = version
			text := fmt.Sprintf("version %d, this program knows %d", version, part.Bytes[0])
			if _, err := restore(16, store.Part{Number: part.Number, Bytes: other}); !errors.Is(err, published.ErrBadLog) || !strings.Contains(err.Error(), text) {
				t.Errorf("part %d: %v", part.Number, err)
			}
		}
	}
}

// TestAListOfTheFormerVersion does not compare: the next rows begin another one.
func TestAListOfTheFormerVersion(t *testing.T) {
	head := binary.BigEndian.AppendUint64([]byte{2}, 77)
	head = append(binary.AppendVarint(head, 5), "\x04db-1"...)
	part := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64([]byte{1, 9}, 3), 4)
	l := must.Get(restore(16, store.Part{Number: 0, Bytes: head}, store.Part{Number: 9, Bytes: part}))(t)
	now := published.Origin{Shape: 1, Server: "db-1/shop", Started: 5}
	if l.SetOrigin(now); len(l.Rows()) != 0 || l.Origin() != now {
		t.Errorf("%d rows of %+v", len(l.Rows()), l.Origin())
	}
}

// TestServersOfTheSameNames: the uid tells them apart, where both have one.
func TestServersOfTheSameNames(t *testing.T) {
	for _, c := range []struct {
		was, is string
		same    bool
	}{
		{"db-0 3306 1 uid=7/shop", "db-0 3306 1 uid=7/shop", true},
		{"db-0 3306 1 uid=7/shop", "db-0 3306 1 uid=70/shop", false},
		{"db-0 3306 1/shop", "db-0 3306 1 uid=7/shop", true},
		{"db-0 3306 1 uid=7/shop", "db-0 3306 1/shop", true},
		{"db-0 3306 1/shop", "db-0 3306 2 uid=7/shop", false},
		{"db-0 3306 1 uid=7", "db-0 3306 1 uid=7 read-only", true},
		{"db-0 3306 1/shop", "db-0 3306 1 uid=7/other", false},
	} {
		if got := (published.Origin{Server: c.is, Started: 5}).SameServer(published.Origin{Server: c.was, Started: 5}); got != c.same {
			t.Errorf("%q and %q: %t", c.was, c.is, got)
		}
	}
}

func TestAStopOutlivesItsRows(t *testing.T) {
	l := published.NewLog(16)
	l.Stop("the next id is 1")
	l.Clear()
	again, err := restore(16, l.Changed()...)
	if err != nil || again.Stopped() != "the next id is 1" {
		t.Errorf("%q, %v", again.Stopped(), err)
	}
}
