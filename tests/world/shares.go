package world

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"example.org/bridge/internal/shard"
)

// NewShare makes the process of a share; of all tables, where the number is 0.
func (p *Publisher) NewShare(index, number int) *Daemon {
	p.T.Helper()
	env := p.Env.WithoutOwn().With(Env{"BRIDGE_CHECKPOINT_URL": p.Env["BRIDGE_CHECKPOINT_URL"]})
	if delete(env, "BRIDGE_SHARE"); number > 0 {
		env["BRIDGE_SHARE"] = fmt.Sprintf("%d/%d", index, number)
	}
	return NewDaemon(p.T, p.Path, env)
}

// StartShares starts the processes of a number of shares, in any order, and waits until they are
// ready. The publisher needs a folder and progress on the bus.
func (p *Publisher) StartShares(number int) {
	p.T.Helper()
	p.Shares = nil
	for i := range max(1, number) {
		p.Shares = append(p.Shares, p.NewShare(i, number))
	}
	for _, i := range rand.Perm(len(p.Shares)) {
		p.Shares[i].Start()
	}
	p.Daemon = p.Shares[0]
	p.Ready()
}

func (p *Publisher) processes() []*Daemon {
	if p.Shares == nil {
		return []*Daemon{p.Daemon}
	}
	return p.Shares
}

// Shards returns the shards of a stream in all processes.
func (p *Publisher) Shards(stream string) (all []shard.Status) {
	for _, d := range p.processes() {
		all = append(all, d.Shards(stream)...)
	}
	return all
}

func (p *Publisher) of(stream string) *Daemon {
	p.T.Helper()
	i := slices.IndexFunc(p.processes(), func(d *Daemon) bool { return len(d.Shards(stream)) > 0 })
	if i < 0 {
		p.T.Fatalf("no process has %s", stream)
	}
	return p.processes()[i]
}

func (p *Publisher) isReady() bool { return len(p.unready()) == 0 }

// unready returns what the processes that are not ready say of it.
func (p *Publisher) unready() (said []string) {
	for _, d := range p.processes() {
		if code, body := d.Get("/readyz"); code != http.StatusOK {
			said = append(said, fmt.Sprintf("%s: /readyz is %d: %s", d.addr, code, body))
		}
	}
	return said
}

// Ready waits until all processes are ready.
func (p *Publisher) Ready() {
	p.T.Helper()
	Eventually(p.T, 2*time.Minute, "all processes are ready", p.isReady)
}

// Tables returns how many tables a share has.
func (p *Publisher) Tables(share *Daemon) (n int) {
	for _, s := range p.streams {
		n += len(share.Shards(s.Name))
	}
	return n
}

// GoesOn waits until a share has published all rows of the moment of its tables.
func (p *Publisher) GoesOn(share *Daemon) {
	p.T.Helper()
	AwaitReady(p.T, share)
	for _, s := range p.streams {
		for _, of := range share.Shards(s.Name) {
			table := tableOf(of.Shard)
			id := p.World.Highest(table)
			Eventually(p.T, time.Minute, share.Env["BRIDGE_SHARE"]+" goes on with "+table, func() bool {
				return slices.ContainsFunc(share.Shards(s.Name), func(now shard.Status) bool { return now.Shard == of.Shard && now.Position >= id })
			})
		}
	}
}
