package world

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"example.org/bridge/client/bus"
	"example.org/bridge/internal/shard"
	"example.org/bridge/tests/workload"
)

// Stream is one of bridge's streams over a table of a world.
type Stream struct {
	// Name is the stream, Table its table or tables, Kind "release" or "capability".
	Name, Table, Kind string
	// Env are its other variables by what follows BRIDGE_STREAM_<NAME>_. A DESTINATION exists.
	Env Env
}

// StreamEnv returns the variables of a stream, by what follows BRIDGE_STREAM_<NAME>_.
func StreamEnv(name string, of Env) Env {
	e := make(Env)
	for variable, value := range of {
		e["BRIDGE_STREAM_"+strings.ToUpper(name)+"_"+variable] = value
	}
	return e
}

// Publishing says how one bridge publishes a world.
type Publishing struct {
	// Name tells the publishers of one world apart.
	Name string
	// Path is the program; a program without the race detector by default.
	Path string
	// Env is added to the environment.
	Env Env
	// Streams are by default a stream of states for each table, save that a world with Rows and
	// Entities has a release stream of Rows.
	Streams []Stream
	// Follow has a consumer of each stream receive what is published while it happens.
	Follow bool
}

// Publisher is one bridge that publishes a world to a bus.
type Publisher struct {
	*Daemon
	// Shares are the processes where several share the tables, of which Daemon is the first.
	Shares []*Daemon
	World  *World
	Bus    *Bus
	Name   string
	// streams are in the order of BRIDGE_STREAMS.
	streams []Stream
	tapes   map[string]*Tape
}

// Publish makes a bridge that publishes the world to a bus. Start runs it.
func (w *World) Publish(b *Bus, o Publishing) *Publisher {
	w.T.Helper()
	p := &Publisher{World: w, Bus: b, Name: o.Name, streams: o.Streams, tapes: make(map[string]*Tape)}
	if len(p.streams) == 0 {
		p.streams = w.streams()
	}
	e := b.Env().With(Env{"BRIDGE_SOURCE_URL": w.URL, "BRIDGE_POLL_INTERVAL": PollInterval.String()})
	var names []string
	for _, s := range p.streams {
		names = append(names, s.Name)
		of := Env{"TABLE": s.Table, "KIND": s.Kind}.With(s.Env)
		if of["DESTINATION"] == "" {
			of["DESTINATION"] = b.Open(w.T, p.Destination(s.Name))
		}
		e = e.With(StreamEnv(s.Name, of))
		if o.Follow {
			p.tapes[s.Name] = b.Follow(w.T, p.Destination(s.Name))
		}
	}
	e["BRIDGE_STREAMS"] = strings.Join(names, ",")
	path := o.Path
	if path == "" {
		path = Binary(w.T, false)
	}
	p.Daemon = NewDaemon(w.T, path, e.With(o.Env))
	return p
}

func (w *World) streams() (list []Stream) {
	if w.Rows != nil {
		table, kind := Orders, "capability"
		if n := len(w.Rows.Tables()); n > 1 {
			table = fmt.Sprintf("%s_{0..%d}", Orders, n-1)
			if w.Server != nil {
				table = Orders + "_*"
			}
		}
		if w.Entities != nil {
			kind = "release"
		}
		list = append(list, Stream{Orders, table, kind, Env{"KEY": "entity", "CREATED": "created"}})
	}
	if w.Entities != nil {
		list = append(list, Stream{Strict, Strict, "capability", Env{"KEY": "app,name", "CREATED": "created", "DELETED": "deleted", "MODIFIED": "modified"}})
	}
	return list
}

// Destination returns the name of the topic or stream that a stream is published to.
func (p *Publisher) Destination(stream string) string {
	return strings.ReplaceAll(strings.Join(slices.DeleteFunc([]string{p.World.Name, p.Name, stream}, func(s string) bool { return s == "" }), "_"), "-", "_")
}

// Tape returns the consumer of a stream; of the first one where none is named.
func (p *Publisher) Tape(stream ...string) *Tape {
	if len(stream) == 0 {
		return p.tapes[p.streams[0].Name]
	}
	return p.tapes[stream[0]]
}

// Received returns all that the destination of a stream holds. A consumer that follows it has the
// time at which it came.
func (p *Publisher) Received(stream string) []Message {
	p.T.Helper()
	tape := p.tapes[stream]
	if tape == nil {
		return p.Bus.ReadAll(p.T, p.Destination(stream))
	}
	Eventually(p.T, time.Minute, p.Name+": the consumer is at the end of "+stream, func() bool {
		return int64(tape.Count()) >= p.Bus.Count(p.T, p.Destination(stream))
	})
	return tape.All()
}

func (p *Publisher) heads() map[string]map[string]uint64 {
	p.T.Helper()
	heads := make(map[string]map[string]uint64)
	for _, s := range p.streams {
		heads[s.Name] = make(map[string]uint64)
		for _, table := range p.World.tables(s.Table) {
			heads[s.Name][tableOf(table)] = p.World.Highest(table)
		}
	}
	return heads
}

// Or of its shard, without its database.
func tableOf(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }

func (p *Publisher) behind(heads map[string]map[string]uint64) (tables []string) {
	for stream, ids := range heads {
		at := make(map[string]uint64)
		for _, of := range p.Shards(stream) {
			at[tableOf(of.Shard)] = of.Position
		}
		for table, id := range ids {
			if position := at[table]; position < id {
				tables = append(tables, fmt.Sprintf("%s is at %d of %d", table, position, id))
			}
		}
	}
	return tables
}

// HasRows reports whether each stream has a table with a row.
func (p *Publisher) HasRows() bool {
	p.T.Helper()
	for _, ids := range p.heads() {
		if slices.Max(slices.Collect(maps.Values(ids))) == 0 {
			return false
		}
	}
	return true
}

// CaughtUp waits until all rows of the moment are published and the program is ready, and returns
// how long that took.
func (p *Publisher) CaughtUp(limit time.Duration, what string) time.Duration {
	p.T.Helper()
	begun, heads := time.Now(), p.heads()
	Until(p.T, limit, what, func() any {
		if wrong := append(p.behind(heads), p.unready()...); len(wrong) > 0 {
			return wrong
		}
		return nil
	})
	return time.Since(begun)
}

// AllPublished waits until all that was committed is published, as far as it can be without a
// reconcile, and is older than the window: what is younger reconcile neither publishes nor judges.
func (p *Publisher) AllPublished() {
	p.T.Helper()
	if p.World.caughtUp != nil {
		p.World.caughtUp(p.T)
	}
	p.CaughtUp(time.Minute, "drained")
	Eventually(p.T, time.Minute, "no id is in flight", func() bool {
		for _, s := range p.streams {
			shards := p.Shards(s.Name)
			if len(shards) == 0 || slices.ContainsFunc(shards, func(s shard.Status) bool { return s.State == "" || s.Gaps.InFlight > 0 }) {
				return false
			}
		}
		return true
	})
	Pause(1500 * time.Millisecond)
}

// MustMatch reports on what was published of a stream and fails the test for what is wrong with it.
// Of a stream of entities it compares what the bus folds to with the table, too.
func (p *Publisher) MustMatch(stream string, expect Expect) *Verdict {
	p.T.Helper()
	v := p.Verdict(stream, expect)
	p.T.Logf("%s, %s: %s", p.Name, stream, v)
	if wrong := v.Wrong(); wrong != "" {
		p.T.Errorf("%s, %s:\n%s", p.Name, stream, wrong)
		p.locate(v.Lost)
	}
	return v
}

// Verdict is Judge without failing the test.
func (p *Publisher) Verdict(stream string, expect Expect) *Verdict {
	p.T.Helper()
	j := p.newJudge(stream, expect)
	if p.tapes[stream] == nil {
		p.Bus.Read(p.T, p.Destination(stream), j.Message)
	} else {
		for _, m := range p.Received(stream) {
			j.Message(m)
		}
	}
	v := j.End()
	p.compareTable(stream, j)
	return v
}

func (p *Publisher) newJudge(stream string, expect Expect) *Judge {
	p.T.Helper()
	var j *Judge
	if stream == Strict {
		j = NewEntityJudge(p.T, p.World.Entities.Histories(), expect)
	} else {
		j = NewRowJudge(p.T, p.World.Rows.Rows(), expect)
	}
	j.domain = p.Env["BRIDGE_DOMAIN_ID"]
	if !expect.Altered {
		j.schemas = Schemas(p.T, p.Env, stream)
	}
	return j
}

// Of has the judge leave out the messages of other streams than one of the program with this
// environment, and demand the schemas that it prints.
func (j *Judge) Of(t testing.TB, e Env, stream string) *Judge {
	t.Helper()
	j.stream, j.schemas = stream, Schemas(t, e, stream)
	return j
}

const notDeleted = "deleted = 0"

func (p *Publisher) compareTable(stream string, j *Judge) {
	p.T.Helper()
	if _, ok := j.record.(*entityRecord); ok {
		j.Compare(p.World.TableFold(notDeleted, stream))
	}
}

// Difference returns what the bus folds to otherwise than a table of entities, empty when nothing.
func (p *Publisher) Difference(stream string) string {
	p.T.Helper()
	return p.World.Difference(stream, p.Received(stream))
}

// Difference returns what messages fold to otherwise than a table of entities, empty when nothing.
// The messages of others are left out.
func (w *World) Difference(table string, messages []Message) string {
	w.T.Helper()
	j := NewEntityJudge(w.T, nil, Expect{Sampled: true})
	for _, m := range messages {
		if m.Headers[bus.HeaderStream] != "" {
			j.Message(m)
		}
	}
	if j.Counts["no event"] > 0 {
		w.T.Fatal(j.Wrong())
	}
	return j.Difference(w.TableFold(notDeleted, table))
}

func (p *Publisher) locate(lost []workload.Row) {
	p.T.Helper()
	for _, row := range lost[:min(len(lost), faultsShown)] {
		var id uint64
		err := p.World.DB.QueryRow("SELECT id FROM "+row.Table+" WHERE token = ?", row.Token).Scan(&id)
		p.T.Logf("%s: lost %s has the id %d (%v)", p.Name, row.Token, id, err)
	}
	for _, s := range p.streams {
		p.T.Logf("%s: %s %+v", p.Name, s.Name, p.Shards(s.Name))
	}
}
