package checkpoint_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"reflect"
	"runtime"
	"testing"

	"github.com/klauspost/compress/s2"

	"bridge/checkpoint"
	"bridge/checkpoint/checkpointtest"
)

// plain and packed are the forms of version 1 and 2 with this body.
func plain(body []byte) []byte { return seal(append([]byte{1}, body...)...) }

func packed(body []byte) []byte { return seal(append([]byte{2}, s2.EncodeSnappy(nil, body)...)...) }

// bodyOf returns the body of j.
func bodyOf(t testing.TB, j *checkpoint.Journal) []byte {
	t.Helper()
	form := checkpoint.AppendJournal(nil, j)
	body, err := s2.Decode(nil, form[1:len(form)-4])
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func TestALongJournalTakesAFractionOfItsBody(t *testing.T) {
	// Nothing is packed more tightly than what repeats.
	repeats := checkpointtest.Journal(0)
	repeats.Number, repeats.Messages[1].Value = 0, make([]byte, 1<<20)
	for name, test := range map[string]struct {
		j     *checkpoint.Journal
		times int
	}{"rows": {journalOf(2000), 3}, "repeats": {repeats, 19}} {
		form := checkpoint.AppendJournal(nil, test.j)
		if body := bodyOf(t, test.j); len(form)*test.times > len(body) {
			t.Errorf("%s: %d bytes for a body of %d, want one in %d at most", name, len(form), len(body), test.times)
		}
		if got, err := checkpoint.DecodeJournal(form); err != nil || !reflect.DeepEqual(got, test.j) {
			t.Errorf("%s: another journal is read, %v", name, err)
		}
	}
}

// TestDecodeJournalRefusesDamagedBlocksWithAGoodChecksum: a changed byte may be one of an id, say,
// and leave a journal.
func TestDecodeJournalRefusesDamagedBlocksWithAGoodChecksum(t *testing.T) {
	good := checkpoint.AppendJournal(nil, journalOf(3))
	good = good[:len(good)-4]
	for i := 1; i < len(good); i++ {
		if _, err := checkpoint.DecodeJournal(seal(bytes.Clone(good[:i])...)); !errors.Is(err, checkpoint.ErrCorrupt) {
			t.Fatalf("cut to %d bytes: %v, want ErrCorrupt", i, err)
		}
		for bit := range 8 {
			bad := bytes.Clone(good)
			bad[i] ^= 1 << bit
			j, err := checkpoint.DecodeJournal(seal(bad...))
			if err == nil {
				err = j.Check()
			} else if errors.Is(err, checkpoint.ErrCorrupt) || errors.Is(err, checkpoint.ErrNewer) {
				err = nil
			}
			if err != nil {
				t.Fatalf("bit %d of byte %d flipped: %v", bit, i, err)
			}
		}
	}
}

func TestDecodeJournalBelievesNoClaimOfABlock(t *testing.T) {
	body := bodyOf(t, journalOf(3))
	size := uint64(len(body))
	_, head := binary.Uvarint(s2.EncodeSnappy(nil, body))
	elements := s2.EncodeSnappy(nil, body)[head:]
	for _, claim := range []uint64{0, size - 1, size + 1, 30 * uint64(len(elements)), 1 << 30, 1<<32 - 1, 1 << 32, 1<<64 - 1} {
		form := seal(append(binary.AppendUvarint([]byte{2}, claim), elements...)...)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := checkpoint.DecodeJournal(form)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, checkpoint.ErrCorrupt) {
			t.Errorf("a block of %d bytes that claims to hold %d, and holds %d: %v, want ErrCorrupt", len(elements), claim, size, err)
		}
		if got, most := after.TotalAlloc-before.TotalAlloc, 25*uint64(len(form)); got > most {
			t.Errorf("a claim of %d bytes took %d, want at most %d for a form of %d", claim, got, most, len(form))
		}
	}
}
