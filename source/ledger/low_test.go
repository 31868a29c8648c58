package ledger_test

import (
	"testing"
	"time"

	"bridge/source/ledger"
)

func wantLow(t *testing.T, l *ledger.Ledger, want uint64) {
	t.Helper()
	if got := l.Low(); got != want {
		t.Errorf("Low is %d, want %d", got, want)
	}
}

func TestLow(t *testing.T) {
	t.Run("without gaps it is behind the position", func(t *testing.T) {
		l := mustLedger(t, ledger.Options{}, 10)
		wantLow(t, l, 11)
		l.Advance(12, []uint64{11, 12}, base)
		wantLow(t, l, 13)
	})
	t.Run("it is the lowest missing id", func(t *testing.T) {
		l := mustLedger(t, ledger.Options{}, 10)
		l.Advance(20, []uint64{11, 13, 14, 16, 17, 18, 19, 20}, base)
		wantLow(t, l, 12)
		l.Fill(15, base)
		wantLow(t, l, 12)
		l.Fill(12, base)
		wantLow(t, l, 21)
	})
	t.Run("an id that is given up is passed", func(t *testing.T) {
		l := mustLedger(t, ledger.Options{}, 10)
		l.Advance(20, []uint64{11, 13, 14, 15, 16, 17, 18, 19, 20}, base)
		pollWith(l, after(time.Second))
		l.Advance(22, []uint64{22}, after(24*time.Hour))
		wantLow(t, l, 12)
		pollWith(l, after(25*time.Hour))
		sweep(l, after(25*time.Hour))
		wantLow(t, l, 21)
		l = mustRestore(t, ledger.Options{}, l.Position(), l.All())
		wantLow(t, l, 21)
	})
	t.Run("a pending id is not passed, however old", func(t *testing.T) {
		l := mustLedger(t, ledger.Options{}, 10)
		l.Advance(20, []uint64{11, 13, 15, 16, 17, 18, 19, 20}, base)
		for day := range 5 {
			now := after(time.Duration(day) * 24 * time.Hour)
			pollWith(l, now, 14)
			sweep(l, now, 14)
		}
		wantLow(t, l, 14)
		l.Fill(14, after(5*24*time.Hour))
		wantLow(t, l, 21)
	})
	t.Run("the low end of a wide gap is not passed", func(t *testing.T) {
		l, now := stray(t, ledger.Options{}, 9_000_000_000)
		wantLow(t, l, 101)
		l.Fill(101, now)
		wantLow(t, l, 102)
	})
	t.Run("the highest id", func(t *testing.T) {
		l := mustLedger(t, ledger.Options{}, 1<<64-2)
		l.Advance(1<<64-1, []uint64{1<<64 - 1}, base)
		wantLow(t, l, 1<<64-1)
	})
}
