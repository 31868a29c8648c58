package bolt_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"bridge/checkpoint"
	"bridge/checkpoint/bolt"
	"bridge/checkpoint/checkpointtest"
)

// childVar names the part that the test binary plays when a test runs it as a process of its own.
const childVar = "BRIDGE_TEST_BOLT_CHILD"

func TestMain(m *testing.M) {
	parts := map[string]func(path string) error{"save": saveForEver, "views": saveViewsForEver, "preparing": saveViewsPreparing, "hold": hold, "full": fillDisk}
	part := os.Getenv(childVar)
	if part == "" {
		os.Exit(m.Run())
	}
	if err := parts[part](os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// child returns a command that plays a part on the file at path.
func child(part, path string) *exec.Cmd {
	c := exec.Command(os.Args[0], path)
	c.Env = append(os.Environ(), childVar+"="+part)
	c.Stderr = os.Stderr
	return c
}

const crashShards = 4

func crashKey(shard int) checkpoint.Key {
	return checkpoint.Key{Stream: "crash", Shard: fmt.Sprint("shard-", shard)}
}

// crashState is the n-th state of a crash test. Sizes differ so that pages of all kinds are written.
func crashState(n int) checkpoint.State {
	s := checkpointtest.State(n)
	gap := s.Position.Gaps[0]
	for range n % 7 * 300 {
		gap.First, gap.Last = gap.Last+2, gap.Last+2
		s.Position.Gaps = append(s.Position.Gaps, gap)
	}
	last := s.Position.Gaps[1]
	s.Position.Gaps = append(append(s.Position.Gaps[:1:1], s.Position.Gaps[2:]...), last)
	return s
}

// saveForEver saves ascending states of all shards, each from where the file stands, and writes a line for each save that is
// acknowledged.
func saveForEver(path string) error {
	s, err := bolt.Open(path, bolt.Options{})
	if err != nil {
		return err
	}
	return saveAllForEver(s, crashState)
}

// saveAllForEver saves what state makes.
func saveAllForEver(s *bolt.Store, state func(n int) checkpoint.State) error {
	fmt.Println("open")
	var wg sync.WaitGroup
	for shard := range crashShards {
		wg.Go(func() {
			for n := numberOf(s, crashKey(shard)) + 1; ; n++ {
				if err := s.Save(context.Background(), crashKey(shard), state(n)); err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
				fmt.Printf("%d %d\n", shard, n)
			}
		})
	}
	wg.Wait()
	return nil
}

// numberOf returns the number of the state that a shard has, -1 for none.
func numberOf(s *bolt.Store, key checkpoint.Key) int {
	state, err := s.Load(context.Background(), key)
	if err != nil {
		return -1
	}
	return int((state.Position.ID - 1<<63 - 900) / 1000)
}

// hold keeps the file open until it is killed.
func hold(path string) error {
	if _, err := bolt.Open(path, bolt.Options{}); err != nil {
		return err
	}
	fmt.Println("open")
	<-time.After(time.Hour)
	return nil
}

// fillDisk makes the file hit a limit of its size, and lifts the limit again.
func fillDisk(path string) error {
	signal.Ignore(syscall.SIGXFSZ)
	ctx, key := context.Background(), checkpoint.Key{Stream: "orders", Shard: "a"}
	s, err := bolt.Open(path, bolt.Options{})
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if err := s.Save(ctx, key, checkpointtest.State(1)); err != nil {
		return err
	}
	for round := range 3 {
		var former syscall.Rlimit
		if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &former); err != nil {
			return err
		}
		// A limit within what the file has fails at writing a page, one at its end fails at growing.
		full := syscall.Rlimit{Cur: uint64(info.Size()) * uint64(round) / 2, Max: former.Max}
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &full); err != nil {
			return err
		}
		// In the last round the state is larger than the whole file.
		gaps := []int{100_000, 100_000, int(info.Size()) / 2}[round]
		big := manyGaps(2+round, gaps)
		if err := s.Save(ctx, key, big); err == nil {
			return fmt.Errorf("round %d: a save on a full disk returns nil", round)
		}
		if got := numberOf(s, key); got != 1 {
			return fmt.Errorf("round %d: after a failed save the state is %d", round, got)
		}
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &former); err != nil {
			return err
		}
		if err := s.Save(ctx, key, big); err != nil {
			return fmt.Errorf("round %d: with room again: %w", round, err)
		}
		if got := numberOf(s, key); got != 2+round {
			return fmt.Errorf("round %d: the state is %d", round, got)
		}
		if err := s.Save(ctx, key, checkpointtest.State(1)); err != nil {
			return err
		}
		if info, err = os.Stat(path); err != nil {
			return err
		}
	}
	return s.Close()
}

// manyGaps makes state n with this number of gaps, of three bytes each.
func manyGaps(n, gaps int) checkpoint.State {
	s := checkpointtest.State(n)
	gap := s.Position.Gaps[0]
	s.Position.Gaps = s.Position.Gaps[:0]
	for i := range uint64(gaps) {
		gap.First, gap.Last = 3*i, 3*i+1
		s.Position.Gaps = append(s.Position.Gaps, gap)
	}
	return s
}

func TestAFullDiskFailsTheSaveAndHealsWithRoom(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bridge.db")
	if out, err := child("full", path).Output(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s := mustOpen(t, path)
	if got := numberOf(s, checkpoint.Key{Stream: "orders", Shard: "a"}); got != 1 {
		t.Errorf("the state is %d, want 1", got)
	}
}
