package bolt_test

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"bridge/checkpoint"
	"bridge/checkpoint/bolt"
)

// TestKillDuringSaves kills a process that saves, again and again on the same file.
func TestKillDuringSaves(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bridge.db")
	acked := [crashShards]int{-1, -1, -1, -1}
	for round := range 25 {
		saveAndKill(t, "save", path, 1+rand.IntN(60), &acked)
		s, err := bolt.Open(path, bolt.Options{})
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		for shard, last := range acked {
			n := numberOf(s, crashKey(shard))
			// One save may have been under way, or done and not yet told.
			if n < last || n > last+1 {
				t.Fatalf("round %d: shard %d has state %d, the last one acknowledged is %d", round, shard, n, last)
			}
			if n < 0 {
				continue
			}
			if got, err := s.Load(t.Context(), crashKey(shard)); err != nil || !reflect.DeepEqual(got, crashState(n)) {
				t.Fatalf("round %d: shard %d has a state that was not saved: %+v, %v", round, shard, got, err)
			}
			acked[shard] = n
		}
		mustClose(t, s)
	}
	if acked[0] < 10 {
		t.Errorf("only %d saves were made, the test shows nothing", acked[0])
	}
}

// saveAndKill lets a child save until it has acknowledged n saves and kills it. It notes all acknowledgements in acked.
func saveAndKill(t *testing.T, part, path string, n int, acked *[crashShards]int) {
	t.Helper()
	c := child(part, path)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for count := 0; lines.Scan(); count++ {
		var shard, number int
		if _, err := fmt.Sscan(lines.Text(), &shard, &number); err == nil {
			acked[shard] = max(acked[shard], number)
		}
		if count == n {
			if err := c.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := c.Wait(); err == nil || c.ProcessState.Exited() {
		t.Fatalf("the child ended by itself: %v", err)
	}
}

// TestKillDuringCreation kills a process that makes a new file, at all moments of that.
func TestKillDuringCreation(t *testing.T) {
	whole := 0
	for round := range 60 {
		path := filepath.Join(t.TempDir(), "bridge.db")
		c := child("hold", path)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		waitFor(t, func() bool { _, err := os.Stat(path); return err == nil })
		// From the first sight of the file on, up to some milliseconds later.
		for end := time.Now().Add(time.Duration(round) * 150 * time.Microsecond); time.Now().Before(end); {
			continue
		}
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := c.Wait(); err == nil {
			t.Fatal("the child ended by itself")
		}
		if info, err := os.Stat(path); err == nil && info.Size() > 0 {
			whole++
		}
		s := mustOpen(t, path)
		if err := s.Save(t.Context(), crashKey(0), crashState(0)); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
	}
	t.Logf("%d of 60 kills came after the file was whole", whole)
}

func TestAFileInUseByAnotherProcessIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bridge.db")
	c := child("hold", path)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if !bufio.NewScanner(out).Scan() {
		t.Fatal("the child does not open the file")
	}
	begin := time.Now()
	_, err = bolt.Open(path, bolt.Options{LockTimeout: 50 * time.Millisecond})
	if !errors.Is(err, checkpoint.ErrLocked) {
		t.Errorf("Open returns %v, want ErrLocked", err)
	}
	mustSay(t, err, path, "stop the other process")
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("Open takes %v", took)
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err == nil {
		t.Error("the child ended by itself")
	}
	mustOpen(t, path)
}

// waitFor polls until ok, for a minute at most.
func waitFor(t testing.TB, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); {
		if time.Now().After(end) {
			t.Fatal("waited for a minute")
		}
	}
}
