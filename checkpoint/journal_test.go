package checkpoint_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"reflect"
	"testing"

	"bridge/checkpoint"
	"bridge/checkpoint/checkpointtest"
)

func TestJournalRoundTrip(t *testing.T) {
	for name, j := range map[string]*checkpoint.Journal{"empty": {}, "full": checkpointtest.Journal(1), "anew": checkpointtest.Journal(2)} {
		t.Run(name, func(t *testing.T) {
			prefix := []byte("prefix")
			b := checkpoint.AppendJournal(prefix, j)
			if !bytes.HasPrefix(b, prefix) {
				t.Fatal("AppendJournal does not append")
			}
			b = b[len(prefix):]
			got, err := checkpoint.DecodeJournal(b)
			if err != nil {
				t.Fatal(err)
			}
			clear(b)
			// The number is the name of what a store keeps.
			got.Number = j.Number
			if !reflect.DeepEqual(got, j) {
				t.Errorf("got\n%+v, want\n%+v", got, j)
			}
		})
	}
}

func TestDecodeJournalRefusesDamage(t *testing.T) {
	good := checkpoint.AppendJournal(nil, checkpointtest.Journal(1))
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 1 << (i % 8)
		if _, err := checkpoint.DecodeJournal(bad); !errors.Is(err, checkpoint.ErrCorrupt) {
			t.Fatalf("byte %d changed: %v, want ErrCorrupt", i, err)
		}
		if _, err := checkpoint.DecodeJournal(good[:i]); !errors.Is(err, checkpoint.ErrCorrupt) {
			t.Fatalf("cut to %d bytes: %v, want ErrCorrupt", i, err)
		}
	}
}

func TestDecodeJournalRefusesNonsenseWithAGoodChecksum(t *testing.T) {
	good := checkpoint.AppendJournal(nil, checkpointtest.Journal(1))
	body := good[:len(good)-4]
	marked := &checkpoint.Journal{After: checkpointtest.State(1)}
	for name, test := range map[string]struct {
		b    []byte
		want error
	}{
		"bytes behind its end":     {seal(append(bytes.Clone(body), 0)...), checkpoint.ErrCorrupt},
		"cut off":                  {seal(body[:len(body)-1]...), checkpoint.ErrCorrupt},
		"newer version":            {seal(2, 0, 0), checkpoint.ErrNewer},
		"version 0":                {seal(0, 0, 0), checkpoint.ErrCorrupt},
		"a billion messages":       {seal(binary.AppendUvarint([]byte{1}, 1<<30)...), checkpoint.ErrCorrupt},
		"a state with marks":       {checkpoint.AppendJournal(nil, marked), checkpoint.ErrCorrupt},
		"a state of a newer time":  {seal(append([]byte{1, 0, 7}, seal(9, 0, 0)...)...), checkpoint.ErrNewer},
		"nothing but a version":    {seal(1), checkpoint.ErrCorrupt},
		"a text of immense length": {seal(append([]byte{1, 1}, bytes.Repeat([]byte{0xff}, 9)...)...), checkpoint.ErrCorrupt},
	} {
		if _, err := checkpoint.DecodeJournal(test.b); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
	}
}

func TestRunRoundTrip(t *testing.T) {
	for _, run := range []checkpoint.Run{{}, checkpointtest.Reconcile(1), checkpointtest.Reconcile(2)} {
		b := checkpoint.AppendRun(nil, run)
		if got, err := checkpoint.DecodeRun(b); err != nil || got != run {
			t.Errorf("got %+v, %v, want %+v", got, err, run)
		}
		for i := range b {
			if _, err := checkpoint.DecodeRun(b[:i]); !errors.Is(err, checkpoint.ErrCorrupt) {
				t.Errorf("cut to %d bytes: %v, want ErrCorrupt", i, err)
			}
		}
	}
}

// FuzzDecodeJournal feeds bodies with a good checksum: the decoder never panics, and what it accepts passes Check and survives
// another round.
func FuzzDecodeJournal(f *testing.F) {
	for _, j := range []*checkpoint.Journal{{}, checkpointtest.Journal(1), checkpointtest.Journal(2)} {
		b := checkpoint.AppendJournal(nil, j)
		f.Add(b[:len(b)-4])
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, body []byte) {
		j, err := checkpoint.DecodeJournal(seal(bytes.Clone(body)...))
		if err != nil {
			if !errors.Is(err, checkpoint.ErrCorrupt) && !errors.Is(err, checkpoint.ErrNewer) {
				t.Fatalf("an error of no kind: %v", err)
			}
			return
		}
		if err := j.Check(); err != nil {
			t.Fatalf("what was decoded is no journal: %v", err)
		}
		again, err := checkpoint.DecodeJournal(checkpoint.AppendJournal(nil, j))
		if err != nil || !reflect.DeepEqual(again, j) {
			t.Fatalf("got %+v, %v, want %+v", again, err, j)
		}
	})
}

// FuzzDecodeRun: as FuzzDecodeJournal.
func FuzzDecodeRun(f *testing.F) {
	b := checkpoint.AppendRun(nil, checkpointtest.Reconcile(1))
	f.Add(b[:len(b)-4])
	f.Fuzz(func(t *testing.T, body []byte) {
		run, err := checkpoint.DecodeRun(seal(bytes.Clone(body)...))
		if err != nil {
			if !errors.Is(err, checkpoint.ErrCorrupt) && !errors.Is(err, checkpoint.ErrNewer) {
				t.Fatalf("an error of no kind: %v", err)
			}
			return
		}
		if again, err := checkpoint.DecodeRun(checkpoint.AppendRun(nil, run)); err != nil || again != run {
			t.Fatalf("got %+v, %v, want %+v", again, err, run)
		}
	})
}

// FuzzDecodeChange: as FuzzDecodeJournal; a change has no checksum of its own.
func FuzzDecodeChange(f *testing.F) {
	for _, c := range checkpointtest.Journal(1).After.View {
		f.Add(checkpoint.AppendChange(nil, c))
	}
	f.Fuzz(func(t *testing.T, form []byte) {
		c, rest, err := checkpoint.DecodeChange(form)
		if err != nil {
			if !errors.Is(err, checkpoint.ErrCorrupt) {
				t.Fatalf("an error of no kind: %v", err)
			}
			return
		}
		if err := c.Check(); err != nil || !bytes.HasSuffix(form, rest) {
			t.Fatalf("what was decoded is no change: %v", err)
		}
		again, rest, err := checkpoint.DecodeChange(checkpoint.AppendChange(nil, c))
		if err != nil || !reflect.DeepEqual(again, c) || len(rest) > 0 {
			t.Fatalf("got %+v, %v, want %+v", again, err, c)
		}
	})
}
