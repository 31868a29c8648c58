package acceptance

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"bridge/internal/testenv"
	"bridge/internal/workload"
)

// strict and loose are the streams of the tests of states: strict compares its keys byte for byte and has a MODIFIED column, loose
// compares them without regard to letter case and has none.
const (
	strict = "strict"
	loose  = "loose"
)

// states is a database with the tables of workloads, and those who publish it.
type states struct {
	t         *testing.T
	name, url string
	db        *sql.DB
	// loads are the workloads by their streams.
	loads map[string]*workload.Capabilities
}

// newStates makes the tables of two workloads, which share entities and rate by halves. What opts leaves out is as usual.
func newStates(t *testing.T, server *testenv.MariaDBServer, opts workload.CapabilityOptions, streams ...string) *states {
	t.Helper()
	s := &states{t: t, name: server.NewDatabase(t), loads: make(map[string]*workload.Capabilities)}
	s.db = server.Admin(t, s.name)
	s.url = (&revisions{t: t, server: server, name: s.name, db: s.db}).sourceURL()
	s.db.SetMaxIdleConns(2*opts.Writers + 2)
	opts.DB = s.db
	opts.Entities /= len(streams)
	opts.Changes /= len(streams)
	opts.Rate /= float64(len(streams))
	for _, stream := range streams {
		opts.Table, opts.Loose, opts.WithoutModified = stream, stream == loose, stream == loose
		load, err := workload.NewCapabilities(opts)
		if err != nil {
			t.Fatal(err)
		}
		if err := load.Create(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.loads[stream] = load
	}
	return s
}

// start sets the writers going; wait returns when they are done.
func (s *states) start() (wait func()) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var writers sync.WaitGroup
	errs := make(chan error, len(s.loads))
	for _, load := range s.loads {
		writers.Go(func() { errs <- load.Run(ctx) })
	}
	s.t.Cleanup(func() { cancel(); writers.Wait() })
	return func() {
		s.t.Helper()
		writers.Wait()
		for stream, load := range s.loads {
			if err := <-errs; err != nil {
				s.t.Fatal(err)
			}
			s.t.Logf("%s: %v", stream, load.Sums())
		}
	}
}

// run sets the writers going and waits until they are done.
func (s *states) run() {
	s.t.Helper()
	s.start()()
}

// publisher is one daemon that publishes the tables of states, and a consumer of each stream.
type publisher struct {
	*daemon
	name   string
	bus    bus
	states *states
	tapes  map[string]*tape
}

// publish makes a daemon that publishes the tables to b; start runs it.
func (s *states) publish(b bus, name string, more env) *publisher {
	s.t.Helper()
	p := &publisher{name: name, bus: b, states: s, tapes: make(map[string]*tape)}
	e := b.env().with(env{"BRIDGE_SOURCE_URL": s.url, "BRIDGE_POLL_INTERVAL": pollEvery.String()})
	var streams []string
	for stream := range s.loads {
		streams = append(streams, stream)
		prefix := "BRIDGE_STREAM_" + strings.ToUpper(stream) + "_"
		e[prefix+"TABLE"], e[prefix+"KIND"], e[prefix+"KEY"] = stream, "capability", "app,name"
		e[prefix+"CREATED"], e[prefix+"DELETED"] = "created", "deleted"
		e[prefix+"DESTINATION"] = b.open(s.t, p.destination(stream))
		if stream == strict {
			e[prefix+"MODIFIED"] = "modified"
		}
		p.tapes[stream] = b.follow(s.t, p.destination(stream))
	}
	e["BRIDGE_STREAMS"] = strings.Join(streams, ",")
	p.daemon = newDaemon(s.t, binary(s.t, false), e.with(more))
	return p
}

func (p *publisher) destination(stream string) string {
	return p.states.name + "_" + p.name + "_" + stream
}

// received waits until the consumer of a stream has all that its destination holds, and returns it.
func (p *publisher) received(stream string) []received {
	p.t.Helper()
	tape := p.tapes[stream]
	eventually(p.t, time.Minute, p.name+": the consumer is at the end of "+stream, func() bool {
		return int64(tape.count()) >= p.bus.count(p.t, p.destination(stream))
	})
	return tape.all()
}

// judge reports on what was published of a stream until now and fails the test for what is wrong with it. ended demands that it be
// complete.
func (p *publisher) judge(stream string, ended bool) *stateRuling {
	p.t.Helper()
	r := judgeStates(stateSchemas(p.t), p.received(stream), p.states.loads[stream].Histories())
	found := ""
	if ended {
		r.ended()
		found = r.fold.difference(tableFold(p.t, p.states.db, stream))
	}
	p.t.Logf("%s, %s: %s", p.name, stream, r.stateAccount)
	if verdict := r.verdict(); verdict != "" {
		p.t.Errorf("%s, %s:\n%s", p.name, stream, verdict)
	}
	if found != "" {
		p.t.Errorf("%s, %s: the bus folds to something else than the table:\n%s", p.name, stream, found)
	}
	return r
}

// drained waits until the position of each stream has reached the highest row of its table.
func (p *publisher) drained() {
	p.t.Helper()
	for stream := range p.states.loads {
		var last uint64
		if err := p.states.db.QueryRow("SELECT coalesce(max(id), 0) FROM " + stream).Scan(&last); err != nil {
			p.t.Fatal(err)
		}
		eventually(p.t, time.Minute, fmt.Sprintf("%s has passed row %d of %s", p.name, last, stream),
			func() bool { return p.position(stream) >= last })
	}
}
