package app

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"example.org/bridge/internal/buscopy"
	"example.org/bridge/internal/driver"
	"example.org/bridge/internal/inspect"
	"example.org/bridge/internal/standby"
	"example.org/bridge/internal/standby/standbytest"
	"example.org/bridge/internal/verify"
	"example.org/bridge/sink"
	"example.org/bridge/source"
)

// toyDatabase and toyBus are drivers of what a household has in memory. They show what a new
// database and a new bus take: nothing outside this file knows them but the lists of drivers.
type (
	toyDatabase struct {
		*household
		// name is that of the server, alone where there is one.
		name string
	}
	toyBus struct{ *household }
)

var (
	_ driver.Database = toyDatabase{}
	_ source.Source   = toyDatabase{}
	_ driver.Readable = toyBus{}
	_ driver.Shared   = toyBus{}
)

// alone is the URL of the one server behind toytables:.
const alone = "none"

var errRefused = errors.New("connection refused")

func (toyDatabase) Scheme() string { return "toytables" }

func (d toyDatabase) Load(in *driver.Input) (driver.Opener, driver.DatabaseTraits) {
	_, name, _ := strings.Cut(in.URL, ":")
	if name == alone {
		return d, driver.DatabaseTraits{Addr: name, Database: name, Alone: true}
	}
	return toyDatabase{d.household, name}, driver.DatabaseTraits{Addr: name, Database: "shop"}
}

func (d toyDatabase) Open(source.Conns, *slog.Logger) (source.Source, error) {
	d.opened.Add(1)
	return d, nil
}

func (d toyDatabase) Shard(spec source.Spec) source.Shard {
	name := spec.Table
	if d.name != "" {
		name = d.name + "/" + name
	}
	return toyTable{d.tables[name].As(spec), d}
}

func (d toyDatabase) Ready(context.Context) error {
	if _, away := d.away.Load(d.name); away {
		return errRefused
	}
	return nil
}

func (d toyDatabase) Close() error {
	d.opened.Add(-1)
	return nil
}

// toyTable is a table of a server, which may be away.
type toyTable struct {
	source.Shard
	of toyDatabase
}

func (t toyTable) Read(ctx context.Context, q source.Query, p *source.Page) error {
	if err := t.of.Ready(ctx); err != nil {
		return err
	}
	return t.Shard.Read(ctx, q, p)
}

func (t toyTable) Traits(ctx context.Context) (source.Traits, error) {
	if err := t.of.Ready(ctx); err != nil {
		return source.Traits{}, err
	}
	return t.Shard.Traits(ctx)
}

func (toyDatabase) Readers(most int) int { return most }

func (toyBus) Scheme() string { return "toybus" }

func (toyBus) Settings() []driver.Settings { return nil }

func (toyBus) Load(in *driver.Input) driver.BusTraits {
	if _, rest, _ := strings.Cut(in.URL, ":"); rest != "" {
		in.Fault("SINK_URL", "has something after toybus: write toybus: alone")
	}
	return driver.BusTraits{Destinations: driver.Topics, Tombstones: true, LogsOutages: true}
}

func (b toyBus) Open(driver.Use) (sink.Sink, error) {
	if b.refuses.Add(-1) >= 0 {
		return nil, errRefused
	}
	if b.unreadable {
		return struct{ sink.Sink }{keptSink{b.bus}}, nil
	}
	return toySink{keptSink{b.bus}, b.household}, nil
}

func (b toyBus) Read(ctx context.Context, _ driver.Use, what driver.Reading) (*verify.Bus, error) {
	return verify.OpenBus(ctx, verify.BusOptions{Reader: keptSink{b.bus}, Topics: what.Destinations})
}

func (toyBus) Group(name string) string { return name }

func (toyBus) Grant(string) string { return "" }

func (b toyBus) Elector(_ string, silence time.Duration, _ driver.Use) (standby.Elector, error) {
	return standby.NewLease(standbytest.NewRegister(&b.entries), silence), nil
}

func (b toyBus) Progress(string, time.Duration, driver.Use) (buscopy.Bucket, sink.Inspector, error) {
	return &b.bucket, b, nil
}

func (toyBus) Inspect(context.Context) inspect.Report { return inspect.Report{} }
