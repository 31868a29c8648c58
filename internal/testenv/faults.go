package testenv

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// Answers says whether the server answers a ping within two seconds.
func (s *MariaDBServer) Answers() bool { return answers(s.ping) }

// Heal has a server of StartMariaDB answer again, whether it was paused, killed or stopped, and returns once it does.
func (s *MariaDBServer) Heal(t testing.TB) { t.Helper(); s.server.heal(t) }

// Snapshot stops a server of StartMariaDB in good order, copies its data, starts it, and returns the folder of the copy, which is gone
// when the test ends.
func (s *MariaDBServer) Snapshot(t testing.TB) string { t.Helper(); return s.server.snapshot(t) }

// Restore kills the server, puts a copy made by Snapshot in place of its data and starts it. The copy stays.
func (s *MariaDBServer) Restore(t testing.TB, snapshot string) {
	t.Helper()
	s.server.restore(t, snapshot)
}

// Answers says whether the broker names a cluster within two seconds.
func (s *KafkaServer) Answers() bool { return answers(s.ping) }

// Heal has a broker of StartKafka answer again, whether it was paused, killed or stopped, and returns once it does.
func (s *KafkaServer) Heal(t testing.TB) { t.Helper(); s.server.heal(t) }

// Snapshot stops a broker of StartKafka in good order, copies its data with topics, offsets and logins, starts it, and returns the folder
// of the copy, which is gone when the test ends.
func (s *KafkaServer) Snapshot(t testing.TB) string { t.Helper(); return s.server.snapshot(t) }

// Restore kills the broker, puts a copy made by Snapshot in place of its data and starts it: the bus as it was. The copy stays.
func (s *KafkaServer) Restore(t testing.TB, snapshot string) {
	t.Helper()
	s.server.restore(t, snapshot)
}

// Answers says whether JetStream answers within two seconds.
func (s *NATSServer) Answers() bool {
	return answers(func(ctx context.Context) error { _, err := s.ask(ctx); return err })
}

// Heal has a server of StartNATS answer again, whether it was paused, killed or stopped, and returns once it does.
func (s *NATSServer) Heal(t testing.TB) { t.Helper(); s.server.heal(t) }

// Snapshot stops a server of StartNATS in good order, copies its data with streams and consumers, starts it, and returns the folder of
// the copy, which is gone when the test ends.
func (s *NATSServer) Snapshot(t testing.TB) string { t.Helper(); return s.server.snapshot(t) }

// Restore kills the server, puts a copy made by Snapshot in place of its data and starts it: the bus as it was. The copy stays.
func (s *NATSServer) Restore(t testing.TB, snapshot string) {
	t.Helper()
	s.server.restore(t, snapshot)
}

func answers(check func(context.Context) error) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	done := make(chan error, 1)
	// Not every client heeds the context: what it starts ends by limits of its own soon after.
	go func() { done <- check(ctx) }()
	select {
	case err := <-done:
		return err == nil
	case <-ctx.Done():
		return false
	}
}

// heal starts the process unless it runs and answers. One that does not answer 15 s after it was resumed is killed first.
func (p *process) heal(t testing.TB) {
	t.Helper()
	p.signal(syscall.SIGCONT)
	if p.running() {
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
		defer cancel()
		if poll(ctx, func() error { return p.ready(ctx) }) == nil {
			return
		}
		p.kill()
	}
	p.mustStart(t)
}

func (p *process) mustStart(t testing.TB) {
	t.Helper()
	if err := p.start(); err != nil {
		t.Fatal(err)
	}
}

func (p *process) snapshot(t testing.TB) string {
	t.Helper()
	p.stop()
	copied := filepath.Join(t.TempDir(), "snapshot")
	if err := os.CopyFS(copied, os.DirFS(p.data)); err != nil {
		t.Fatalf("copy the data of %s: %v", p.name, err)
	}
	p.mustStart(t)
	return copied
}

func (p *process) restore(t testing.TB, snapshot string) {
	t.Helper()
	p.kill()
	if err := os.RemoveAll(p.data); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(p.data, os.DirFS(snapshot)); err != nil {
		t.Fatalf("put back the data of %s: %v", p.name, err)
	}
	p.mustStart(t)
}
