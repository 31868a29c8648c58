package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// childVariable holds the job of a child process.
const childVariable = "BRIDGE_TEST_BENCH_CHILD"

// job is what a child does. It prepares, then does the work, whose time and CPU alone count.
type job struct {
	// Do is the name of the work.
	Do string
	// DSN and Table are what a scan reads; Spool holds the messages to publish, Servers and Target
	// say where to.
	DSN, Table      string
	Spool           string
	Servers, Target string
	Destination     string
}

// result is what a child measured.
type result struct {
	// Seconds passed; CPU seconds the process used in them.
	Seconds, CPU float64
	// Mallocs is how many pieces of memory the process allocated in them.
	Mallocs uint64
	// Count is how many rows or messages there were, Bytes their size.
	Count, Bytes int64
	Error        string
}

// works are what children can do. A work prepares, calls begin, and returns when all is done.
var works = map[string]func(j job, begin func()) (count, bytes int64, err error){
	"scan":      scanTable,
	"franz-go":  publishFranz,
	"nats.go":   publishNATS,
	"kafka":     publishOurKafka,
	"jetstream": publishOurJetStream,
}

// runChild does the job in text, writes the result and returns the exit status.
func runChild(text string, out io.Writer) int {
	var j job
	var r result
	err := json.Unmarshal([]byte(text), &j)
	if err == nil {
		r, err = work(j)
	}
	if err != nil {
		r.Error = err.Error()
	}
	if err := json.NewEncoder(out).Encode(r); err != nil {
		return 1
	}
	return 0
}

func work(j job) (result, error) {
	do := works[j.Do]
	if do == nil {
		return result{}, fmt.Errorf("no work %q", j.Do)
	}
	var began time.Time
	var used float64
	var mallocs uint64
	count, size, err := do(j, func() { mallocs, used, began = ownMallocs(), ownCPU(), time.Now() })
	return result{Seconds: time.Since(began).Seconds(), CPU: ownCPU() - used, Mallocs: ownMallocs() - mallocs, Count: count, Bytes: size}, err
}

// ownMallocs is how many pieces of memory this process has allocated, by the counter that bridge
// shows as go_memstats_mallocs_total.
func ownMallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

// ownCPU is what this process has used, in seconds.
func ownCPU() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// child runs a job in a process of its own and returns what that measured.
func child(t testing.TB, j job) result {
	t.Helper()
	text, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(self)
	command.Env = append(os.Environ(), childVariable+"="+string(text))
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var log bytes.Buffer
	command.Stderr = &log
	out, err := command.Output()
	var r result
	if err := errors.Join(err, json.Unmarshal(out, &r)); err != nil {
		t.Fatalf("%s in a process of its own: %v\n%s\n%s", j.Do, err, out, log.String())
	}
	if r.Error != "" {
		t.Fatalf("%s: %s\n%s", j.Do, r.Error, log.String())
	}
	return r
}
