package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"example.org/bridge/internal/config"
	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/inspect"
	"example.org/bridge/internal/option"
	"example.org/bridge/internal/outage"
	"example.org/bridge/internal/panics"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/stream"
	"example.org/bridge/source"
)

// Sources are the open databases of a configuration, as one whose tables have the names of the
// configuration. Each has connections, limits and outages of its own: one that is away stops its
// own tables. It is safe for concurrent use.
type Sources struct {
	cfg *config.Config
	all []*database
	// gated says that tables wait until their database was compared with the bus.
	gated bool

	// mu guards what of databases changes.
	mu sync.Mutex
}

type database struct {
	*config.Source
	from source.Source
	// rivals are those that have a database of the same name.
	rivals []*database
	probe  *httpapi.Probe
	// limits are those of all its tables. keys bounds the reads by key, shown those of entities for
	// who asks for them.
	limits      *shard.Limits
	keys, shown chan struct{}

	// server is the one that has answered last.
	server string
	// down is why it does not answer; waits are what ends then, or where false when it is back.
	down  error
	waits map[*context.CancelCauseFunc]bool
	// admitted are the streams for which it was compared with the bus.
	admitted map[string]bool
	// comparing is held by who compares it later, another is that it is another one than the bus
	// has rows of.
	comparing chan struct{}
	another   error
}

// OpenSources opens the databases of a configuration. They connect at the first read.
func OpenSources(cfg *config.Config, logger *slog.Logger) (*Sources, error) {
	s := &Sources{cfg: cfg}
	for i := range cfg.Sources {
		one := &cfg.Sources[i]
		conns, tails := connsOf(cfg, one)
		from, err := one.Open(conns, logger)
		if err != nil {
			return nil, errors.Join((&database{Source: one}).named(err), s.Close())
		}
		streams := 0
		for j := range cfg.Streams {
			if len(cfg.TablesOf(&cfg.Streams[j], one)) > 0 {
				streams++
			}
		}
		d := &database{
			Source: one, from: from, limits: shard.NewLimits(max(1, int64(cfg.MaxInflightBytes)/int64(len(cfg.Sources))), max(1, streams), tails),
			keys: make(chan struct{}, config.KeyReads), shown: make(chan struct{}, config.ServeReads),
			waits: make(map[*context.CancelCauseFunc]bool), admitted: make(map[string]bool), comparing: make(chan struct{}, 1),
		}
		slow := option.Errorf("%s has not answered within %v: see to %s, to the server and to firewalls", d.Addr, sourceWithin, d.Setting())
		d.probe = &httpapi.Probe{Ready: func(ctx context.Context) error {
			ctx, cancel := context.WithTimeoutCause(ctx, sourceWithin, slow)
			defer cancel()
			return d.named(d.from.Ready(ctx))
		}}
		for _, other := range s.all {
			if cfg.SharedDatabase(one, other.Source) != "" {
				d.rivals, other.rivals = append(d.rivals, other), append(other.rivals, d)
			}
		}
		s.all = append(s.all, d)
	}
	return s, nil
}

// Shard returns a table.
func (s *Sources) Shard(spec source.Spec) source.Shard {
	d, name := s.of(spec.Table)
	spec.Table = name
	table := d.from.Shard(spec)
	if len(s.all) == 1 && d.Name == "" {
		return table
	}
	return &namedTable{table, s, d}
}

// Close closes all of them.
func (s *Sources) Close() error {
	return errors.Join(s.each(func(d *database) error { return d.from.Close() })...)
}

// each calls do for all databases, side by side, and returns the errors in their order.
func (s *Sources) each(do func(*database) error) []error {
	errs := make([]error, len(s.all))
	var all sync.WaitGroup
	for i, d := range s.all {
		all.Go(func() { errs[i] = do(d) })
	}
	all.Wait()
	return errs
}

// of returns the database of a table, and what the table is called there.
func (s *Sources) of(table string) (*database, string) {
	src, name := s.cfg.SourceOf(table)
	return s.all[slices.IndexFunc(s.all, func(d *database) bool { return d.Name == src.Name })], name
}

func (s *Sources) ofStream(stream *config.Stream) []*database {
	return slices.DeleteFunc(slices.Clone(s.all), func(d *database) bool { return len(s.cfg.TablesOf(stream, d.Source)) == 0 })
}

// tablesOf begins the name of an outage of the list of a database's tables.
const tablesOf = "tables of "

// withOutage returns the index of the database that an outage is of as a whole, else -1.
func (s *Sources) withOutage(o outage.Outage) int {
	name := strings.TrimPrefix(strings.TrimSuffix(o.Dependency, outage.Probed), tablesOf)
	return slices.IndexFunc(s.all, func(d *database) bool { return d.Label() == name })
}

// errOneServer is returned where two databases lead to one server. It shows nothing about which of
// them is the right one: what was compared then has to be compared again.
var errOneServer = fmt.Errorf("%w", source.ErrUnfit)

// meet notes which server has answered for a database. It returns an error where that is the one of
// another source, which has the same tables.
func (s *Sources) meet(d *database, server string) error {
	server = source.WithoutRole(server)
	s.mu.Lock()
	defer s.mu.Unlock()
	d.server = server
	for _, rival := range d.rivals {
		if server != "" && rival.server == server {
			remedy := "Remove one of them, or correct it"
			if source.NamesAlone(server) {
				remedy += "; if they are two servers with one host name, port and server_id, give one of them another server_id: SET GLOBAL server_id, and in its configuration"
			}
			return option.Errorf("%w: %s and %s lead to one server (%s), with the database %s of both: its rows would be published twice. %s",
				errOneServer, d.Setting(), rival.Setting(), server, s.cfg.SharedDatabase(d.Source, rival.Source), remedy)
		}
	}
	return nil
}

func (s *Sources) admit(stream string, d *database, is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d.admitted[stream] = is
}

func (s *Sources) isAdmitted(stream string, d *database) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.gated || d.admitted[stream]
}

// note has reads of a database that does not answer be cancelled, where others are read besides.
func (s *Sources) note(d *database, err error) {
	if len(s.all) == 1 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	was := d.down
	if d.down = nil; err != nil {
		d.down = fmt.Errorf("%s %w: %w", d.Label(), stream.ErrAway, err)
	}
	for cancel, up := range d.waits {
		if up && err != nil || !up && err == nil && was != nil {
			(*cancel)(d.down)
		}
	}
}

// while returns a context that ends when a database does not answer, so that what waits for it does
// not hold up what waits for another one; where up is false, when it answers again.
func (s *Sources) while(ctx context.Context, d *database, up bool) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if up && d.down != nil {
		cancel(d.down)
	}
	d.waits[&cancel] = up
	return ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(d.waits, &cancel)
		cancel(nil)
	}
}

const sourceWithin = 3 * time.Second

func (d *database) named(err error) error {
	if err == nil || d.Name == "" {
		return err
	}
	return &namedError{err, d}
}

// A panic outside its tables becomes a finding about the server.
func (d *database) inspect(
	ctx context.Context, cfg *config.Config, tables []source.Expected, atOnce int, logger *slog.Logger,
) (found source.Inspection) {
	inspector, ok := d.from.(source.Inspector)
	if !ok {
		found.Server.Summary = d.Scheme + ", which cannot be looked at"
		return found
	}
	tables = slices.Clone(tables)
	names := make(map[string]string)
	for i := range tables {
		table := &tables[i].Spec.Table
		_, name := cfg.SourceOf(*table)
		names[name], *table = *table, name
	}
	if err := panics.Guard(func() error { found = inspector.Inspect(ctx, tables, atOnce); return nil }); err != nil {
		logger.Error("the source could not be looked at", panics.LogArgs(err)...)
		found.Server.Findings = append(found.Server.Findings, inspect.Panicked("source", err))
	}
	rename := func(findings []inspect.Finding) {
		for i := range findings {
			f := findings[i].Renamed(d.OwnName)
			if name := names[f.Subject]; name != "" {
				f.Subject = name
			}
			findings[i] = f
		}
	}
	rename(found.Server.Findings)
	for i := range found.Tables {
		rename(found.Tables[i].Findings)
	}
	return found
}

// namedTable is a table of a database among others: its errors name the variable of that, and it is
// not read where another one is the same.
type namedTable struct {
	source.Shard
	all *Sources
	of  *database
}

var (
	_ source.HeadReader = (*namedTable)(nil)
	_ source.Uptimer    = (*namedTable)(nil)
)

// answered ends a read: server has answered, or err says why none has.
func (t *namedTable) answered(server string, err error) error {
	if err == nil {
		err = t.all.meet(t.of, server)
	}
	return t.of.named(err)
}

func (t *namedTable) Read(ctx context.Context, q source.Query, p *source.Page) error {
	err := t.Shard.Read(ctx, q, p)
	return t.answered(p.Server, err)
}

func (t *namedTable) ReadIDs(ctx context.Context, ranges []source.Range, uncommitted bool, limit int, ids *source.IDs) error {
	err := t.Shard.ReadIDs(ctx, ranges, uncommitted, limit, ids)
	return t.answered(ids.Server, err)
}

func (t *namedTable) Traits(ctx context.Context) (source.Traits, error) {
	traits, err := t.Shard.Traits(ctx)
	return traits, t.answered(traits.Server, err)
}

func (t *namedTable) ReadChanges(ctx context.Context, q source.ChangeQuery, c *source.Changes) error {
	err := t.Shard.ReadChanges(ctx, q, c)
	return t.answered(c.Server, err)
}

func (t *namedTable) NextID(ctx context.Context) (uint64, error) {
	id, err := t.Shard.NextID(ctx)
	return id, t.of.named(err)
}

// ReadHead implements source.HeadReader. A Read says what keeps the table from being read.
func (t *namedTable) ReadHead(ctx context.Context, wait time.Duration, p *source.Page) (seen bool, err error) {
	if able, is := t.Shard.(source.HeadReader); is {
		seen, err = able.ReadHead(ctx, wait, p)
	}
	return seen && t.answered(p.Server, nil) == nil, err
}

func (t *namedTable) Started() time.Time {
	if able, is := t.Shard.(source.Uptimer); is {
		return able.Started()
	}
	return time.Time{}
}

// namedError names the variable of the database that it is from.
type namedError struct {
	error
	of *database
}

func (e *namedError) Unwrap() error { return e.error }

// Named returns the text with settings as naming has them.
func (e *namedError) Named(naming option.Naming) string {
	return option.Text(e.error, func(name option.Name) string { return naming(e.of.OwnName(name)) })
}
