package checkpoint_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/s2"
	"pgregory.net/rapid"

	"bridge/checkpoint"
	"bridge/checkpoint/checkpointtest"
	"bridge/sink"
	"bridge/source/ledger"
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

func TestJournalRoundTripOfAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j := drawJournal(t)
		if err := j.Check(); err != nil {
			t.Fatalf("Check: %v", err)
		}
		got, err := checkpoint.DecodeJournal(checkpoint.AppendJournal(nil, j))
		if err != nil || !reflect.DeepEqual(got, j) {
			t.Fatalf("got %+v, %v, want %+v", got, err, j)
		}
	})
}

// drawJournal makes journals with values that have more or less to compress.
func drawJournal(t *rapid.T) *checkpoint.Journal {
	drawBytes := rapid.Custom(func(t *rapid.T) []byte {
		return append([]byte(nil), strings.Repeat(rapid.String().Draw(t, "text"), rapid.IntRange(1, 50).Draw(t, "times"))...)
	})
	drawText := rapid.OneOf(rapid.Just("orders"), rapid.String())
	j := &checkpoint.Journal{After: drawState(t)}
	j.After.Offsets = nil
	for range rapid.IntRange(0, 10).Draw(t, "messages") {
		j.Messages = append(j.Messages, sink.Message{
			Destination: drawText.Draw(t, "destination"), Key: drawBytes.Draw(t, "key"), Value: drawBytes.Draw(t, "value"),
			ID: rapid.String().Draw(t, "id"), Type: drawText.Draw(t, "type"), Version: drawText.Draw(t, "version"),
			Stream: drawText.Draw(t, "stream"), Shard: drawText.Draw(t, "shard"), RowID: rapid.Uint64().Draw(t, "row"),
			Origin: sink.Origin(drawText.Draw(t, "origin")), Time: j.After.Saved,
		})
	}
	if n := rapid.IntRange(0, 10).Draw(t, "changes"); n > 0 {
		j.After.View = checkpointtest.RandomChanges(rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)), n)
	}
	if rapid.Bool().Draw(t, "ledger") {
		j.After.Ledger = []ledger.Chunk{{Key: rapid.Uint64().Draw(t, "part"), Bytes: append([]byte{}, drawBytes.Draw(t, "bytes")...)}}
	}
	return j
}

// TestAJournalOfVersion1IsRead holds the form of the versions of bridge that did not compress.
func TestAJournalOfVersion1IsRead(t *testing.T) {
	form, err := os.ReadFile("testdata/journal-1")
	if err != nil {
		t.Fatal(err)
	}
	want := checkpointtest.Journal(1)
	got, err := checkpoint.DecodeJournal(form)
	if err != nil {
		t.Fatal(err)
	}
	got.Number = want.Number
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v, want\n%+v", got, want)
	}
	// The state in it has a version of its own, and both end with checksums.
	state := checkpoint.AppendState(nil, want.After)
	former := seal(append([]byte{2}, state[1:len(state)-4]...)...)
	form = bytes.Replace(form, former, state, 1)
	if body := plain(bodyOf(t, want)); !bytes.Equal(body[:len(body)-4], form[:len(form)-4]) {
		t.Error("the body is another one than in version 1")
	}
}

func TestJournalsAreFormedSideBySide(t *testing.T) {
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			want := checkpointtest.Journal(n)
			for length := range 50 {
				want.Messages[1].Value = bytes.Repeat([]byte{byte(n)}, 1+length*(n+1)*100)
				got, err := checkpoint.DecodeJournal(checkpoint.AppendJournal(nil, want))
				if err != nil {
					t.Error(err)
					return
				}
				got.Number = want.Number
				if !reflect.DeepEqual(got, want) {
					t.Errorf("journal %d has become another one", n)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestDecodeJournalRefusesDamage(t *testing.T) {
	body := bodyOf(t, checkpointtest.Journal(1))
	for version, good := range [][]byte{1: plain(body), 2: packed(body)} {
		for i := range good {
			bad := bytes.Clone(good)
			bad[i] ^= 1 << (i % 8)
			if _, err := checkpoint.DecodeJournal(bad); !errors.Is(err, checkpoint.ErrCorrupt) {
				t.Fatalf("version %d, byte %d changed: %v, want ErrCorrupt", version, i, err)
			}
			if _, err := checkpoint.DecodeJournal(good[:i]); !errors.Is(err, checkpoint.ErrCorrupt) {
				t.Fatalf("version %d, cut to %d bytes: %v, want ErrCorrupt", version, i, err)
			}
		}
	}
}

func TestDecodeJournalRefusesNonsenseWithAGoodChecksum(t *testing.T) {
	body := bodyOf(t, checkpointtest.Journal(1))
	type test struct {
		b    []byte
		want error
	}
	tests := map[string]test{
		"newer version":                    {seal(3, 0, 0), checkpoint.ErrNewer},
		"version 0":                        {seal(0, 0, 0), checkpoint.ErrCorrupt},
		"nothing but version 1":            {seal(1), checkpoint.ErrCorrupt},
		"nothing but version 2":            {seal(2), checkpoint.ErrCorrupt},
		"a body that is said to be packed": {seal(append([]byte{2}, body...)...), checkpoint.ErrCorrupt},
		"a block that is said to be plain": {seal(append([]byte{1}, s2.EncodeSnappy(nil, body)...)...), checkpoint.ErrCorrupt},
		"bytes behind the block":           {seal(append(append([]byte{2}, s2.EncodeSnappy(nil, body)...), 0)...), checkpoint.ErrCorrupt},
		"a state with marks":               {checkpoint.AppendJournal(nil, &checkpoint.Journal{After: checkpointtest.State(1)}), checkpoint.ErrCorrupt},
	}
	for name, nonsense := range map[string]test{
		"bytes behind its end":     {append(bytes.Clone(body), 0), checkpoint.ErrCorrupt},
		"cut off":                  {body[:len(body)-1], checkpoint.ErrCorrupt},
		"nothing":                  {nil, checkpoint.ErrCorrupt},
		"a billion messages":       {binary.AppendUvarint(nil, 1<<30), checkpoint.ErrCorrupt},
		"a state of a newer time":  {append([]byte{0, 7}, seal(9, 0, 0)...), checkpoint.ErrNewer},
		"a text of immense length": {append([]byte{1}, bytes.Repeat([]byte{0xff}, 9)...), checkpoint.ErrCorrupt},
	} {
		tests[name+", plain"] = test{plain(nonsense.b), nonsense.want}
		tests[name+", packed"] = test{packed(nonsense.b), nonsense.want}
	}
	for name, test := range tests {
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

// FuzzDecodeJournal feeds forms with a good checksum: the decoder never panics, and what it accepts
// passes Check and survives another round. What version 1 says, version 2 says too: in a block that
// is whole the fuzzer reaches the body.
func FuzzDecodeJournal(f *testing.F) {
	for _, j := range []*checkpoint.Journal{{}, checkpointtest.Journal(1), checkpointtest.Journal(2)} {
		b := checkpoint.AppendJournal(nil, j)
		f.Add(b[:len(b)-4])
		f.Add(append([]byte{1}, bodyOf(f, j)...))
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, form []byte) {
		j, err := checkpoint.DecodeJournal(seal(bytes.Clone(form)...))
		if len(form) > 0 && form[0] == 1 {
			same, sameErr := checkpoint.DecodeJournal(packed(form[1:]))
			if !reflect.DeepEqual(same, j) || (sameErr == nil) != (err == nil) {
				t.Fatalf("packed it is %+v, %v, want %+v, %v", same, sameErr, j, err)
			}
		}
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
