package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bridge/checkpoint"
	"bridge/internal/app"
	"bridge/internal/config"
	"bridge/sink"
	"bridge/source"
	"bridge/source/ledger"
)

// filled returns a configuration whose checkpoint has two shards of orders and one of bills.
func filled(t *testing.T) (settingsOf, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bridge.db")
	s, err := app.OpenStore(path)
	if err != nil {
		t.Fatal(err)
	}
	saved := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	state := checkpoint.State{
		Position: ledger.Position{ID: 1<<64 - 1, Gaps: []ledger.Gap{{First: 7, Last: 9, Missed: saved}}},
		Offsets:  []sink.Offset{{TP: "orders/3", Last: 12}},
		Saved:    saved,
	}
	for _, key := range []checkpoint.Key{{Stream: "orders", Shard: "t_0"}, {Stream: "orders", Shard: "t_1"}, {Stream: "bills", Shard: "b"}} {
		if err := s.Save(t.Context(), key, state); err != nil {
			t.Fatal(err)
		}
	}
	for key, run := range map[checkpoint.Key]checkpoint.Run{
		{Stream: "bills", Shard: "b"}:    {Started: saved, Ended: saved.Add(time.Minute), Verified: saved},
		{Stream: "orders", Shard: "t_0"}: {Started: saved, Ended: saved.Add(time.Minute), Guard: "too many are gone"},
	} {
		if err := s.SaveRun(t.Context(), key, run, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return settingsOf{"BRIDGE_CHECKPOINT_URL": "file:" + path}, path
}

// shown returns what checkpoint show --json prints.
func shown(t *testing.T, env settingsOf) []checkpointView {
	t.Helper()
	got := outcome{}.call(env, "checkpoint", "show", "--json")
	var list struct{ Checkpoints []checkpointView }
	if err := json.Unmarshal([]byte(got.out), &list); err != nil || got.status != 0 {
		t.Fatalf("%v, %+v", err, got)
	}
	return list.Checkpoints
}

func TestCheckpointShow(t *testing.T) {
	t.Run("prints a table for people", func(t *testing.T) {
		env, _ := filled(t)
		got := outcome{}.call(env, "checkpoint", "show")
		want := "STREAM   SHARD   ID                     GAPS   SAVED                  VERIFIED THROUGH       RECONCILE\n" +
			"bills    b       18446744073709551615   1      2026-01-02T03:04:05Z   2026-01-02T03:04:05Z   ended 2026-01-02T03:05:05Z\n" +
			"orders   t_0     18446744073709551615   1      2026-01-02T03:04:05Z   -                      deletes held back\n" +
			"orders   t_1     18446744073709551615   1      2026-01-02T03:04:05Z   -                      none yet\n"
		if got.status != 0 || got.out != want {
			t.Errorf("%+v, want\n%s", got, want)
		}
	})
	t.Run("prints everything as JSON", func(t *testing.T) {
		env, _ := filled(t)
		list := shown(t, env)
		if len(list) != 3 || list[1].Stream != "orders" || list[1].ID != 1<<64-1 || list[1].Gaps[0].Last != 9 || list[1].Offsets[0].TP != "orders/3" ||
			list[2].Reconcile != nil || *list[1].Reconcile.Guard != "too many are gone" || list[0].Reconcile.VerifiedThrough.Year() != 2026 {
			t.Errorf("%+v", list)
		}
	})
	t.Run("makes no file where there is none", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "none.db")
		got := outcome{}.call(settingsOf{"BRIDGE_CHECKPOINT_URL": "file:" + path}, "checkpoint", "show")
		if got.status != 1 || !strings.Contains(got.err, "there is no checkpoint at "+path) {
			t.Errorf("%+v", got)
		}
		if _, err := os.Stat(path); err == nil {
			t.Error("the file is there now")
		}
	})
	t.Run("needs no other variable, but a right one", func(t *testing.T) {
		got := outcome{}.call(settingsOf{"BRIDGE_CHECKPOINT_URL": "http://x"}, "checkpoint", "show")
		if got.status != 2 || !strings.Contains(got.err, "BRIDGE_CHECKPOINT_URL") {
			t.Errorf("%+v", got)
		}
	})
	t.Run("refuses a file that is not ours", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "list")
		if err := os.WriteFile(path, []byte("a shopping list"), 0o600); err != nil {
			t.Fatal(err)
		}
		got := outcome{}.call(settingsOf{"BRIDGE_CHECKPOINT_URL": "file:" + path}, "checkpoint", "show")
		if got.status != 1 || !strings.Contains(got.err, checkpoint.ErrForeign.Error()) || !strings.Contains(got.err, "set BRIDGE_CHECKPOINT_URL to") {
			t.Errorf("%+v", got)
		}
	})
	t.Run("says to stop a bridge that runs", func(t *testing.T) {
		env, path := filled(t)
		s, err := app.OpenStore(path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}()
		for _, args := range []string{"show", "set orders t_0 1", "reset orders"} {
			got := outcome{}.call(env, append([]string{"checkpoint"}, strings.Fields(args)...)...)
			if got.status != 1 || !strings.Contains(got.err, "stop bridge first") {
				t.Errorf("checkpoint %s: %+v", args, got)
			}
		}
	})
}

func TestCheckpointSet(t *testing.T) {
	t.Run("moves a shard and drops its offsets", func(t *testing.T) {
		env, _ := filled(t)
		got := outcome{}.call(env, "checkpoint", "set", "orders", "t_1", "41")
		if want := "orders t_1: id 18446744073709551615 is now id 41, no gaps\n"; got.status != 0 || got.out != want {
			t.Fatalf("%+v, want %s", got, want)
		}
		one := shown(t, env)[2]
		if one.Shard != "t_1" || one.ID != 41 || len(one.Gaps) != 0 || len(one.Offsets) != 0 || time.Since(one.Saved) > time.Minute {
			t.Errorf("%+v", one)
		}
	})
	t.Run("keeps what is missing up to the id", func(t *testing.T) {
		for _, c := range []struct {
			id   string
			says string
			want []source.Range
		}{
			{"14", "3 ids up to there stay missing", []source.Range{{First: 4, Last: 4}, {First: 12, Last: 13}}},
			{"12", "2 ids up to there stay missing", []source.Range{{First: 4, Last: 4}, {First: 12, Last: 12}}},
			{"4", "1 id up to there stays missing", []source.Range{{First: 4, Last: 4}}},
			{"0", "0 ids up to there stay missing", nil},
			{"99", "3 ids up to there stay missing", []source.Range{{First: 4, Last: 4}, {First: 12, Last: 13}}},
		} {
			env, path := filled(t)
			key, now := checkpoint.Key{Stream: "orders", Shard: "t_1"}, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
			inStore(t, path, func(s app.Store) {
				l, err := ledger.New(ledger.Options{}, 0)
				if err != nil {
					t.Fatal(err)
				}
				l.Advance(20, []uint64{1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 14, 15, 16, 17, 18, 19, 20}, now)
				state := checkpoint.State{Position: ledger.Position{ID: 20}, Ledger: l.Changed(), ReplaceLedger: true, Saved: now}
				if err := s.Save(t.Context(), key, state); err != nil {
					t.Fatal(err)
				}
			})
			got := outcome{}.call(env, "checkpoint", "set", "orders", "t_1", c.id)
			if want := "orders t_1: id 20 is now id " + c.id + ", " + c.says + "\n"; got.status != 0 || got.out != want {
				t.Errorf("%+v, want %s", got, want)
			}
			inStore(t, path, func(s app.Store) {
				state, err := s.Load(t.Context(), key)
				if err != nil {
					t.Fatal(err)
				}
				l, err := ledger.RestoreParts(ledger.Options{}, state.Position.ID, state.Ledger[0].Bytes, checkpoint.LedgerParts(t.Context(), s, key))
				if err != nil {
					t.Fatal(err)
				}
				var missing []source.Range
				l.Unpublished(func(r source.Range) bool { missing = append(missing, r); return true })
				if !slices.Equal(missing, c.want) {
					t.Errorf("at %s: missing are %v, want %v", c.id, missing, c.want)
				}
			})
		}
	})
	t.Run("forgets what was published of the rows above the id, in the view, too", func(t *testing.T) {
		env, path := filled(t)
		key := checkpoint.Key{Stream: "orders", Shard: "t_1"}
		entities := [][]byte{[]byte("high"), []byte("low")}
		inStore(t, path, func(s app.Store) {
			state := checkpoint.State{Position: ledger.Position{ID: 50}, View: []checkpoint.Change{
				{Entity: entities[0], Known: checkpoint.Known{Row: 42, Fate: checkpoint.Live}},
				{Entity: entities[1], Known: checkpoint.Known{Row: 41, Fate: checkpoint.Live}},
			}}
			if err := s.Save(t.Context(), key, state); err != nil {
				t.Fatal(err)
			}
		})
		if got := (outcome{}).call(env, "checkpoint", "set", "orders", "t_1", "41"); got.status != 0 {
			t.Fatalf("%+v", got)
		}
		inStore(t, path, func(s app.Store) {
			known, err := s.Lookup(t.Context(), key, entities, nil)
			if err != nil || known[0].Fate != checkpoint.Unknown || known[1].Fate != checkpoint.Live {
				t.Errorf("%+v, %v", known, err)
			}
		})
	})
	t.Run("doubts what batches on their way are about", func(t *testing.T) {
		env, path := filled(t)
		key := checkpoint.Key{Stream: "orders", Shard: "t_1"}
		live := func(row uint64, event byte) checkpoint.Known {
			return checkpoint.Known{Row: row, State: [16]byte{event}, Event: [16]byte{event}, Fate: checkpoint.Live}
		}
		doubt := func(row uint64, event byte) checkpoint.Known {
			known := live(row, event)
			known.State = checkpoint.InDoubt
			return known
		}
		gone := func(event byte) checkpoint.Known {
			return checkpoint.Known{Row: 1, Event: [16]byte{event}, Fate: checkpoint.Gone, Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
		}
		softly := live(8, 1)
		softly.Fate = checkpoint.Tombstone
		var none checkpoint.Known
		cases := []struct {
			name                      string
			held, first, second, want checkpoint.Known
		}{
			{"deleted", live(1, 1), gone(2), none, doubt(1, 1)},
			{"modified", live(2, 1), live(2, 2), none, doubt(2, 1)},
			{"modified and deleted", live(3, 1), live(3, 2), gone(3), doubt(3, 2)},
			{"modified twice", live(3, 1), live(3, 2), live(3, 3), doubt(3, 2)},
			{"in another row, which is above the id", live(4, 1), live(60, 2), none, doubt(4, 1)},
			{"in another row, without an event", live(5, 1), live(60, 1), none, live(5, 1)},
			{"new above the id", none, live(60, 2), none, none},
			{"new below it", none, live(6, 2), none, doubt(6, 2)},
			{"new and deleted", none, live(6, 2), gone(3), doubt(6, 2)},
			{"back", gone(1), live(7, 2), none, doubt(7, 2)},
			{"no longer deleted softly", softly, live(8, 2), none, doubt(8, 2)},
			{"not touched", live(9, 1), none, none, live(9, 1)},
		}
		inStore(t, path, func(s app.Store) {
			at := ledger.Position{ID: 50}
			first, second := &checkpoint.Journal{Number: 1}, &checkpoint.Journal{Number: 2}
			first.After.Position, second.After.Position = at, at
			state := checkpoint.State{Position: at, Journals: []*checkpoint.Journal{first, second}}
			for _, c := range cases {
				for view, known := range map[*[]checkpoint.Change]checkpoint.Known{
					&state.View: c.held, &first.After.View: c.first, &second.After.View: c.second,
				} {
					if known != none {
						*view = append(*view, checkpoint.Change{Entity: []byte(c.name), Known: known})
					}
				}
			}
			if err := s.Save(t.Context(), key, state); err != nil {
				t.Fatal(err)
			}
		})
		if got := (outcome{}).call(env, "checkpoint", "set", "orders", "t_1", "50"); got.status != 0 {
			t.Fatalf("%+v", got)
		}
		inStore(t, path, func(s app.Store) {
			for _, c := range cases {
				known, err := s.Lookup(t.Context(), key, [][]byte{[]byte(c.name)}, nil)
				if err != nil || known[0] != c.want {
					t.Errorf("%s: the view holds %+v, %v, want %+v", c.name, known, err, c.want)
				}
			}
			if state, err := s.Load(t.Context(), key); err != nil || len(state.Journals) > 0 {
				t.Errorf("%d batches are on their way, %v", len(state.Journals), err)
			}
		})
	})
	t.Run("makes the checkpoint of a shard that has none, in a new file too", func(t *testing.T) {
		env := settingsOf{"BRIDGE_CHECKPOINT_URL": "file:" + filepath.Join(t.TempDir(), "new.db")}
		got := outcome{}.call(env, "checkpoint", "set", "orders", "db.t_9", "7")
		if got.status != 0 || !strings.Contains(got.out, "had no checkpoint, is now at id 7") {
			t.Fatalf("%+v", got)
		}
		if list := shown(t, env); len(list) != 1 || list[0].Shard != "db.t_9" || list[0].ID != 7 {
			t.Errorf("%+v", list)
		}
	})
	t.Run("refuses an id beyond 64 bits and changes nothing", func(t *testing.T) {
		env, _ := filled(t)
		if got := (outcome{}).call(env, "checkpoint", "set", "orders", "t_1", "18446744073709551616"); got.status != 2 {
			t.Errorf("%+v", got)
		}
		if one := shown(t, env)[2]; one.ID != 1<<64-1 {
			t.Errorf("%+v", one)
		}
	})
}

func TestMovedShardTakesWhatItPassesByForPublished(t *testing.T) {
	at := func(id uint64, pending source.Range) checkpoint.State {
		return checkpoint.State{Position: ledger.Position{ID: id}, Snapshot: pending}
	}
	for name, c := range map[string]struct {
		before checkpoint.State
		id     uint64
		want   source.Range
	}{
		"back":                 {at(50, source.Range{}), 41, source.Range{}},
		"to the beginning":     {at(50, source.Range{First: 7, Last: 50}), 0, source.Range{}},
		"ahead":                {at(50, source.Range{}), 60, source.Range{First: 51, Last: 60}},
		"without a checkpoint": {checkpoint.State{}, 60, source.Range{First: 1, Last: 60}},
		"ahead while the table is still taken down": {at(50, source.Range{First: 7, Last: 50}), 60, source.Range{First: 7, Last: 60}},
		"back while the table is still taken down":  {at(50, source.Range{First: 7, Last: 50}), 40, source.Range{First: 7, Last: 40}},
		"back before what is left to take down":     {at(50, source.Range{First: 7, Last: 50}), 6, source.Range{}},
	} {
		if got := moved(c.before, c.id, nil); got.Snapshot != c.want || got.Position.ID != c.id {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// inStore calls do with the open checkpoint at path.
func inStore(t *testing.T, path string, do func(app.Store)) {
	t.Helper()
	s, err := app.OpenStore(path)
	if err != nil {
		t.Fatal(err)
	}
	do(s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestCheckpointReset(t *testing.T) {
	t.Run("forgets the shards of one stream", func(t *testing.T) {
		env, _ := filled(t)
		got := outcome{}.call(env, "checkpoint", "reset", "orders")
		if want := "orders: removed the checkpoint of 2 shards\n"; got.status != 0 || got.out != want {
			t.Fatalf("%+v, want %s", got, want)
		}
		if list := shown(t, env); len(list) != 1 || list[0].Stream != "bills" {
			t.Errorf("%+v", list)
		}
	})
	t.Run("names the streams there are when there is no such one", func(t *testing.T) {
		env, _ := filled(t)
		got := outcome{}.call(env, "checkpoint", "reset", "order")
		if got.status != 1 || !strings.Contains(got.err, "bills, orders") {
			t.Errorf("%+v", got)
		}
	})
}

func TestCheckpointPath(t *testing.T) {
	for url, want := range map[string]string{
		"":                       "bridge.db",
		"file:data/b.db":         "data/b.db",
		"file:/abs/b.db":         "/abs/b.db",
		"file:///abs/a%20b%23.d": "/abs/a b#.d",
	} {
		if got, err := config.LoadCheckpointPath([]string{"BRIDGE_CHECKPOINT_URL=" + url}); err != nil || got != want {
			t.Errorf("%q leads to %q, %v, want %q", url, got, err, want)
		}
	}
	for _, url := range []string{"file:", "file:///", "file:a?b", "file:a#b", "file:a%zz", "file:a%00"} {
		if got, err := config.LoadCheckpointPath([]string{"BRIDGE_CHECKPOINT_URL=" + url}); err == nil {
			t.Errorf("%q leads to %q, want a fault", url, got)
		}
	}
	if got := checkpoint.StreamsOf(nil); slices.Contains(got, "") {
		t.Errorf("streams %v", got)
	}
}
