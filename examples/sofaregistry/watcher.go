package main

import (
	"context"
	"fmt"

	"bridge/client"
	"bridge/examples/internal/stage"
)

// revision is what a watcher keeps of a row.
type revision struct {
	Revision      string
	AppName       string
	BaseParams    string
	ClientVersion string
}

// watcher is a data or session server: it holds the live revisions, made from the bus alone.
type watcher struct {
	table   *client.Table
	running *stage.Task
}

// watch begins with an empty map, as a process does, and returns when the map is whole.
func watch(ctx context.Context, s *stage.Stage) (*watcher, error) {
	table, err := client.NewTable(s.Bus, s.Options("revisions"))
	if err != nil {
		return nil, err
	}
	w := &watcher{table: table, running: s.Begin(ctx, table.Run)}
	return w, s.Wait(ctx, "a map that is whole", func(context.Context) (bool, error) {
		select {
		case <-table.Ready():
			return true, nil
		default:
			return false, nil
		}
	})
}

// live returns the map by revision.
func (w *watcher) live() (map[string]revision, error) {
	all := make(map[string]revision)
	for e := range w.table.All() {
		var r revision
		if err := e.Decode(&r); err != nil {
			return nil, err
		}
		all[r.Revision] = r
	}
	return all, nil
}

// rows returns the live rows of the table, as SOFARegistry's list loop reads them.
func rows(ctx context.Context, s *stage.Stage) (map[string]revision, error) {
	found, err := s.DB.QueryContext(ctx, "SELECT revision, app_name, base_params, client_version FROM app_revision WHERE deleted = 0")
	if err != nil {
		return nil, fmt.Errorf("read the live rows: %w", err)
	}
	defer func() { _ = found.Close() }() // it repeats the error of Err
	all := make(map[string]revision)
	for found.Next() {
		var r revision
		if err := found.Scan(&r.Revision, &r.AppName, &r.BaseParams, &r.ClientVersion); err != nil {
			return nil, err
		}
		all[r.Revision] = r
	}
	return all, found.Err()
}
