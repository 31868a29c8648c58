package pebble

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/checkpoint/store/storetest"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testall"
)

// childVar names the part that the test binary plays when a test runs it as a process of its own.
const childVar = "BRIDGE_TEST_PEBBLE_CHILD"

// crashSize makes some batches larger than a memtable of the child, others far smaller.
const crashSize = 60 << 10

func TestMain(m *testing.M) {
	parts := map[string]func(s *Store) error{"apply": applyForEver, "wait": waitForEnd, "full": fillDisk}
	part := os.Getenv(childVar)
	if part == "" {
		os.Exit(m.Run())
	}
	s, err := Open(context.Background(), os.Args[1], Options{memtable: 128 << 10})
	if err == nil {
		err = parts[part](s)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func child(part, path string) *exec.Cmd {
	c := exec.Command(os.Args[0], path)
	c.Env = append(os.Environ(), childVar+"="+part)
	c.Stderr = os.Stderr
	return c
}

// applyForEver applies crash batches from where the store stands. It writes a line for each batch
// and each sync.
func applyForEver(s *Store) error {
	ctx := context.Background()
	image, err := s.Load(ctx)
	if err != nil {
		return err
	}
	fmt.Println("open")
	for n := image.Epoch + 1; ; n++ {
		if err := s.Apply(ctx, storetest.CrashBatch(n, crashSize)); err != nil {
			return err
		}
		fmt.Println("applied", n)
		if n%40 == 0 {
			if err := s.Sync(ctx); err != nil {
				return err
			}
			fmt.Println("synced", n)
		}
	}
}

func waitForEnd(*Store) error {
	fmt.Println("open")
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// kill calls opened when a child has opened the store, kills the child when it has written so many
// lines, and returns all that it wrote.
func kill(t *testing.T, c *exec.Cmd, after int, opened func()) (lines []string) {
	t.Helper()
	in := must.Get(c.StdinPipe())(t)
	defer in.Close()
	out := must.Get(c.StdoutPipe())(t)
	must.OK(t, c.Start())
	for scanner := bufio.NewScanner(out); scanner.Scan(); {
		if lines = append(lines, scanner.Text()); len(lines) == 1 {
			opened()
		}
		if len(lines) == after {
			if err := c.Process.Signal(syscall.SIGKILL); err != nil {
				t.Error(err)
			}
		}
	}
	must.Fail(t, c.Wait(), "killed")
	return lines
}

// checkLocations returns an error unless each hash has just the locations of its entities, one for
// each.
func checkLocations(s *Store) error {
	snapshot := s.db.NewSnapshot()
	type where struct {
		stream uint32
		hash   uint64
		at     location
	}
	left := map[where]int{}
	err := each(snapshot, []byte{hashTag}, []byte{hashTag + 1}, func(key, value []byte) error {
		locations, err := decodeLocations(nil, value)
		for _, at := range locations {
			left[where{binary.BigEndian.Uint32(key[1:]), binary.BigEndian.Uint64(key[5:]), at}]++
		}
		return err
	})
	for _, tag := range []byte{entryTag, absentTag} {
		err = errors.Join(err, each(snapshot, []byte{tag}, []byte{tag + 1}, func(key, value []byte) error {
			at, entity, err := split(key)
			if err != nil {
				return err
			}
			stream := binary.BigEndian.Uint32(key[1:])
			if !at.absent {
				shard, _ := s.names.shard(at.shard)
				stream, _ = s.names.find(streamOf(shard.Stream))
			}
			w := where{stream, s.hash(entity), at}
			left[w]--
			_, _, err = decodeEntry(at, value)
			return err
		}))
	}
	for w, n := range left {
		if n != 0 {
			err = errors.Join(err, fmt.Errorf("%+v has %d entries too few", w, n))
		}
	}
	return errors.Join(err, snapshot.Close())
}

func TestAfterAKillThereIsAPrefixOfWholeBatches(t *testing.T) {
	var path string
	var held, longest uint64
	for i := range testall.Cases(2, 20) {
		// The check repeats all batches from the first one on.
		if i%5 == 0 {
			path, held = filepath.Join(t.TempDir(), "store"), 0
		}
		var synced uint64
		for _, line := range kill(t, child("apply", path), 1+rand.N(60), func() {}) {
			if n, ok := strings.CutPrefix(line, "synced "); ok {
				var err error
				if synced, err = strconv.ParseUint(n, 10, 64); err != nil {
					t.Fatal(err)
				}
			}
		}
		begin := time.Now()
		s := openTest(t, path)
		took := time.Since(begin)
		n, err := storetest.Prefix(s, crashSize)
		must.OK(t, errors.Join(err, checkLocations(s)))
		if n < synced || n < held {
			t.Fatalf("the store holds %d batches, of which %d were synced and %d were there before", n, synced, held)
		}
		longest = max(longest, n-held)
		held = n
		must.OK(t, s.Close())
		if took > time.Minute {
			t.Errorf("to open took %v", took)
		}
	}
	if longest == 0 {
		t.Error("no run added a batch: the test proves nothing")
	}
}

func TestASecondProcessIsRefusedUntilTheFirstOneEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	kill(t, child("wait", path), 1, func() {
		must.Fail(t, must.Err(Open(t.Context(), path, Options{LockWait: 30 * time.Millisecond})), store.ErrLocked)
	})
	s := openTest(t, path)
	must.Fail(t, must.Err(Open(t.Context(), path, Options{})), store.ErrLocked)
	must.OK(t, s.Close())
	openTest(t, path)
}

func fillDisk(s *Store) error {
	signal.Ignore(syscall.SIGXFSZ)
	ctx := context.Background()
	if err := s.Apply(ctx, storetest.CrashBatch(1, crashSize)); err != nil {
		return err
	}
	var former syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &former); err != nil {
		return err
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 100, Max: former.Max}); err != nil {
		return err
	}
	if err := s.Sync(ctx); !errors.Is(err, store.ErrOutage) {
		return fmt.Errorf("a sync on a full disk returns %v", err)
	}
	if err := s.Apply(ctx, storetest.CrashBatch(2, crashSize)); !errors.Is(err, store.ErrOutage) {
		return fmt.Errorf("an apply on a full disk returns %v", err)
	}
	if n, err := storetest.Prefix(s, crashSize); n != 1 || err != nil {
		return fmt.Errorf("on a full disk there are %d batches, %w", n, err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &former); err != nil {
		return err
	}
	for tick := time.NewTicker(retryPause); errors.Is(s.Sync(ctx), store.ErrOutage); {
		<-tick.C
	}
	for n := range uint64(50) {
		if err := s.Apply(ctx, storetest.CrashBatch(2+n, crashSize)); err != nil {
			return err
		}
	}
	return s.Close()
}

func TestAFullDiskIsAnOutageThatHealsWithRoom(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	if out, err := child("full", path).Output(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s := openTest(t, path)
	if n, err := storetest.Prefix(s, crashSize); n != 51 || err != nil {
		t.Errorf("there are %d batches, %v", n, err)
	}
}

// TestReadFault has a disk on which a read of a file fails now and then: a lookup finds all
// entities or fails, and a batch is applied as a whole or not at all. An entity that is taken for
// unknown would be published as added again.
func TestReadFault(t *testing.T) {
	const size, page = 4_000, 100
	path := filepath.Join(t.TempDir(), "store")
	s := openTest(t, path)
	entity := func(n int) []byte { return fmt.Appendf(nil, "entity %d", n) }
	row := make([]uint64, size)
	change := func(n int) store.Change {
		return store.Change{Entity: entity(n), Entry: store.Entry{Shard: "db.orders", Row: row[n], State: store.Live}}
	}
	changes := make([]store.Change, size)
	for n := range changes {
		row[n] = uint64(n) + 1
		changes[n] = change(n)
	}
	must.OK(t, s.Apply(t.Context(), &store.Batch{Views: []store.ViewChange{{Stream: "orders", Changes: changes}}}))
	must.OK(t, s.Close())
	random := rand.New(rand.NewPCG(1, 5))
	// untilFault is how many reads there are until one fails.
	var untilFault atomic.Int32
	faulty := errorfs.Wrap(vfs.Default, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileReadAt && untilFault.Add(-1) == 0 {
			return syscall.EIO
		}
		return nil
	}))
	failed := 0
	for round := range testall.Cases(10, 40) {
		// With nothing in its cache.
		s := must.Get(Open(t.Context(), path, Options{fs: faulty, memtable: 256 << 10}))(t)
		var asks []store.Ask
		moved := store.ViewChange{Stream: "orders"}
		former := map[int]uint64{}
		for i := range page {
			n := random.IntN(size)
			ask := store.Ask{Entity: entity(n)}
			if i%2 == 0 {
				ask.Shard, ask.Row = "db.orders", row[n]
			}
			asks = append(asks, ask)
			if _, ok := former[n]; !ok {
				former[n] = row[n]
				row[n] = uint64(size*(round+1) + i + 1)
				moved.Changes = append(moved.Changes, change(n))
			}
		}
		untilFault.Store(1 + random.Int32N(150))
		got, err := s.Lookup(t.Context(), "orders", asks, nil)
		if err != nil {
			failed++
		}
		for i := range got {
			if got[i].State != store.Live {
				t.Fatalf("round %d: %s is unknown, without an error", round, asks[i].Entity)
			}
		}
		untilFault.Store(1 + random.Int32N(150))
		err = s.Apply(t.Context(), &store.Batch{Views: []store.ViewChange{moved}})
		untilFault.Store(0)
		if err != nil {
			failed++
			for n, r := range former {
				row[n] = r
			}
		}
		for n := range former {
			got, err := s.Lookup(t.Context(), "orders", storetest.Asks(entity(n)), nil)
			if err != nil || got[0].Row != row[n] {
				t.Fatalf("round %d: entity %d in row %d, not %d: %v", round, n, got[0].Row, row[n], err)
			}
		}
		if err := checkLocations(s); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		must.OK(t, s.Close())
	}
	if failed == 0 {
		t.Error("no read has failed")
	}
	t.Logf("%d of 80 calls failed", failed)
}

// TestAFolderThatIsRemoved: what a store cannot write any more is damage, which is told once, and
// its process can end.
func TestAFolderThatIsRemoved(t *testing.T) {
	for name, harm := range map[string]func(t *testing.T, path string){
		"removed":          func(t *testing.T, path string) { must.OK(t, os.RemoveAll(path)) },
		"removed to files": func(t *testing.T, path string) { must.OK(t, os.RemoveAll(path)); write(t, path, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "store")
			var log strings.Builder
			s := must.Get(Open(t.Context(), path, Options{Log: slog.New(slog.NewTextHandler(&log, nil))}))(t)
			must.OK(t, s.Apply(t.Context(), storetest.CrashBatch(1, crashSize)))
			harm(t, path)
			must.Fail(t, s.Sync(t.Context()), store.ErrDamaged)
			<-s.Damaged()
			must.Fail(t, s.Close(), store.ErrDamaged)
			if n := strings.Count(log.String(), "\n"); n > 5 {
				t.Errorf("%d lines are logged:\n%.2000s", n, log.String())
			}
		})
	}
}

// TestADiskThatIsAway: a file that went stale, or a server of files that is away, is an outage, no
// damage: another file is made.
func TestADiskThatIsAway(t *testing.T) {
	for _, fault := range []error{syscall.ESTALE, syscall.ETIMEDOUT, syscall.ENOTCONN} {
		t.Run(fault.Error(), func(t *testing.T) {
			var away atomic.Bool
			faulty := errorfs.Wrap(vfs.Default, errorfs.InjectorFunc(func(op errorfs.Op) error {
				if (op.Kind == errorfs.OpCreate || op.Kind == errorfs.OpFileWrite) && strings.HasSuffix(op.Path, ".sst") && away.Load() {
					return &os.PathError{Op: "write", Path: op.Path, Err: fault}
				}
				return nil
			}))
			s, err := Open(t.Context(), filepath.Join(t.TempDir(), "store"), Options{fs: faulty})
			must.OK(t, err)
			must.OK(t, s.Apply(t.Context(), storetest.CrashBatch(1, crashSize)))
			away.Store(true)
			must.Fail(t, s.Sync(t.Context()), store.ErrOutage)
			away.Store(false)
			for err = store.ErrOutage; errors.Is(err, store.ErrOutage); {
				err = s.Sync(t.Context())
			}
			must.OK(t, err)
			must.OK(t, s.Close())
		})
	}
}
