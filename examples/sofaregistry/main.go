package main

import (
	"context"
	"embed"
	"fmt"
	"maps"
	"time"

	"bridge/examples/internal/stage"
)

//go:embed table.sql table.sqlite.sql bridge.env
var files embed.FS

func main() {
	stage.Main(stage.Example{Name: "sofaregistry", Files: files, Story: story,
		Hurry: map[string]string{"BRIDGE_RECONCILE_INTERVAL": "2s", "BRIDGE_POLL_INTERVAL": "100ms"}})
}

const (
	apps = 6
	// nodes is how many processes each application has.
	nodes = 3
)

// story registers applications for some ten seconds. Half of them get a new release, others are
// switched off; in between the watcher and bridge are killed.
func story(ctx context.Context, s *stage.Stage) error {
	if err := s.Bridge.Start(ctx); err != nil {
		return err
	}
	r := &registry{Stage: s, cache: make(map[string]time.Time)}
	s.Begin(ctx, clean(r.expire))
	running := make([]*deployment, apps)
	for i := range running {
		running[i] = r.deploy(ctx, fmt.Sprintf("app-%d", i), 1)
	}
	w, err := watch(ctx, s)
	if err != nil {
		return err
	}
	if err := r.compare(ctx, w, apps); err != nil {
		return err
	}

	for i := range apps / 2 {
		running[i].end()
		running[i] = r.deploy(ctx, running[i].app, 2)
	}
	s.Say("%d applications get release 2, the revisions of release 1 fall silent", apps/2)
	if err := stage.Pause(ctx, time.Second); err != nil {
		return err
	}
	w.running.End()
	s.Bridge.Kill()
	running[apps-1].end()
	s.Say("the watcher and bridge are killed; %s is switched off meanwhile", running[apps-1].app)
	if err := stage.Pause(ctx, time.Second); err != nil {
		return err
	}
	if err := s.Bridge.Start(ctx); err != nil {
		return err
	}
	if w, err = watch(ctx, s); err != nil {
		return err
	}
	s.Say("both are back; the watcher's map has %d revisions again, all read from the bus", w.table.Len())

	const silent = apps/2 + 1
	if err := r.await(ctx, w, "expired", silent); err != nil {
		return err
	}
	s.Begin(ctx, clean(r.purge))
	if err := r.await(ctx, w, "purged", silent); err != nil {
		return err
	}
	reports := r.Of("heartbeats") + r.Of("replaces") + r.Of("spared by the cache")
	s.Say("%d reports of nodes = %d heartbeats + %d replaces + %d spared by the cache", reports, r.Of("heartbeats"), r.Of("replaces"), r.Of("spared by the cache"))
	s.Say("the second watcher took %d events, from the first one on", w.table.Stats().Applied)
	s.Conclude("the watcher's map and the table have the same %d live revisions", w.table.Len())
	return nil
}

// deployment is the nodes of an application in one release.
type deployment struct {
	app   string
	nodes []*stage.Task
}

func (r *registry) deploy(ctx context.Context, app string, release int) *deployment {
	d := &deployment{app: app}
	for range nodes {
		d.nodes = append(d.nodes, r.Begin(ctx, r.node(app, release)))
	}
	return d
}

func (d *deployment) end() {
	for _, n := range d.nodes {
		n.End()
	}
}

// await waits until so many revisions are expired or purged, and compares.
func (r *registry) await(ctx context.Context, w *watcher, what string, revisions int) error {
	if err := r.Wait(ctx, "silent revisions that are "+what, func(context.Context) (bool, error) {
		return r.Of(what) >= revisions, nil
	}); err != nil {
		return err
	}
	r.Say("%d silent revisions are %s", revisions, what)
	return r.compare(ctx, w, apps-1)
}

// compare waits until map and table are the same, with so many live revisions.
func (r *registry) compare(ctx context.Context, w *watcher, live int) error {
	err := r.Wait(ctx, "a map that equals the live rows of the table", func(ctx context.Context) (bool, error) {
		table, err := rows(ctx, r.Stage)
		if err != nil {
			return false, err
		}
		held, err := w.live()
		return len(table) == live && maps.Equal(held, table), err
	})
	if err == nil {
		r.Say("the map equals the table: %d live revisions", live)
	}
	return err
}
