package torture

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"bridge/tests/testenv"
	"bridge/tests/world"
)

func TestMain(m *testing.M) { world.Main(m) }

// servers are a bus and a database of their own, on which trials run one after the other.
type servers struct {
	bus *world.Bus
	db  *testenv.DatabaseServer
	// busProxy and dbProxy are ways to the servers that networkFaults harm.
	busProxy, dbProxy *testenv.Proxy
}

func startServers(t *testing.T, bus string) *servers {
	t.Helper()
	s := &servers{db: testenv.StartMariaDB(t)}
	s.dbProxy = testenv.StartProxy(t, s.db.Addr)
	if bus == "kafka" {
		s.bus = world.KafkaBus(testenv.StartKafka(t, testenv.KafkaOptions{Proxied: true, SASL: true}))
		s.busProxy = s.bus.Kafka.Proxy()
		if *tortureOnce {
			s.bus = s.bus.ExactlyOnce(t.Name())
		}
	} else {
		s.bus = world.NATSBus(testenv.StartNATS(t))
		s.busProxy = testenv.StartProxy(t, s.bus.NATS.Addr())
	}
	return s
}

// heal undoes what a trial that ended early has left.
func (s *servers) heal(t testing.TB) {
	t.Helper()
	s.dbProxy.Heal()
	s.busProxy.Heal()
	s.db.Heal(t)
	s.bus.Heal(t)
}

// with returns servers with the same database and another bus.
func (s *servers) with(bus *world.Bus) *servers {
	other := *s
	other.bus = bus
	return &other
}

// clustered returns servers with the same database and a bus that is three servers.
func clustered(t testing.TB, s *servers) *servers { return s.with(s.bus.Clustered(t)) }

// processFaults are done to the process of bridge itself.
var processFaults = []fault{
	{
		name: "bridge-killed", family: "bridge", what: "SIGKILL at random moments, again and again", repeats: true,
		inject: func(tr *trial) {
			for range 5 {
				tr.sometime(1500 * time.Millisecond)
				tr.kill()
				tr.sometime(1500 * time.Millisecond)
				tr.Start()
			}
		},
	},
	{
		name: "bridge-terminated", family: "bridge", what: "SIGTERM under load, then a start, three times",
		inject: func(tr *trial) {
			for range 3 {
				tr.sometime(time.Second)
				tr.terminate()
				tr.Start()
				tr.flows()
			}
		},
	},
	{
		name: "bridge-paused", family: "bridge", what: "SIGSTOP for 30 s, as a paused virtual machine", soaks: true,
		inject: func(tr *trial) {
			pid := tr.Cmd.Process.Pid
			_ = syscall.Kill(pid, syscall.SIGSTOP)
			tr.outage(30 * time.Second)
			_ = syscall.Kill(pid, syscall.SIGCONT)
		},
	},
}

// recorder is a test that notes what is wrong instead of failing. What cleans up after it runs at
// the end of run.
type recorder struct {
	testing.TB
	mu       sync.Mutex
	findings []string
	cleanups []func()
}

// run runs do in a goroutine that Fatal ends.
func (r *recorder) run(do func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			for _, clean := range slices.Backward(r.cleanups) {
				clean()
			}
		}()
		do()
	}()
	<-done
}

func (r *recorder) note(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.findings = append(r.findings, text)
}

func (r *recorder) Cleanup(f func())             { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Error(args ...any)            { r.note(fmt.Sprint(args...)) }
func (r *recorder) Errorf(form string, a ...any) { r.note(fmt.Sprintf(form, a...)) }
func (r *recorder) Fatal(args ...any)            { r.note(fmt.Sprint(args...)); runtime.Goexit() }
func (r *recorder) Fatalf(form string, a ...any) { r.note(fmt.Sprintf(form, a...)); runtime.Goexit() }
func (r *recorder) FailNow()                     { runtime.Goexit() }
func (r *recorder) Failed() bool                 { r.mu.Lock(); defer r.mu.Unlock(); return len(r.findings) > 0 }
func (r *recorder) Log(...any)                   {}
func (r *recorder) Logf(string, ...any)          {}
