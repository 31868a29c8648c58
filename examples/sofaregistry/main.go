// Command sofaregistry is what SOFARegistry's servers do with bridge: they keep a map of the live
// revisions, made from the bus alone, while others write heartbeats and a REPLACE for what is new,
// delete what is silent by a column, and purge it later. See README.md.
//
//	make example-sofaregistry
package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"maps"

	"example.org/bridge/client"
	"example.org/bridge/examples/internal/stage"
)

//go:embed table.sql table.sqlite.sql bridge.env
var files embed.FS

func main() { stage.Main("sofaregistry", files, story) }

type revision struct{ Revision, AppName, BaseParams, ClientVersion string }

// server makes a table from the bus alone, as a data or session server does at its start, and
// returns it when it is whole.
func server(ctx context.Context, s *stage.Stage) (*client.Table, error) {
	table, err := client.NewTable(s.Bus, s.Options("revisions"))
	if err != nil {
		return nil, err
	}
	s.Go(ctx, table.Run)
	select {
	case <-table.Ready():
		return table, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

const replace = "REPLACE INTO app_revision (data_center, revision, app_name, base_params, client_version, deleted) VALUES "

func story(ctx context.Context, s *stage.Stage) error {
	s.Say("two applications report: a REPLACE each")
	if _, err := s.DB.ExecContext(ctx, replace+"('hz', 'app-0-1', 'app-0', '{}', '5.1', 0), ('hz', 'app-1-1', 'app-1', '{}', '5.1', 0)"); err != nil {
		return err
	}
	table, err := server(ctx, s)
	if err != nil {
		return err
	}
	s.Go(ctx, func(ctx context.Context) error {
		for change := range table.Watch(ctx, true) {
			s.Say("%s: %s", change.Key, change.Operation)
		}
		return nil
	})
	if err := equal(ctx, s, table, 2); err != nil {
		return err
	}
	for _, step := range []struct {
		what, statement string
		live            int
	}{
		{"they report again: heartbeats", "UPDATE app_revision SET gmt_modified = CURRENT_TIMESTAMP WHERE deleted = 0", 2},
		{"app-0 gets a new release", replace + "('hz', 'app-0-2', 'app-0', '{}', '5.2', 0)", 3},
		{"its former revision is silent and expires: a REPLACE, too", replace + "('hz', 'app-0-1', 'app-0', '{}', '5.1', 1)", 2},
		{"what has expired is purged", "DELETE FROM app_revision WHERE deleted = 1", 2},
	} {
		s.Say("%s", step.what)
		if _, err := s.DB.ExecContext(ctx, step.statement); err != nil {
			return err
		}
		if err := equal(ctx, s, table, step.live); err != nil {
			return err
		}
	}
	second, err := server(ctx, s)
	if err != nil {
		return err
	}
	if err := equal(ctx, s, second, 2); err != nil {
		return err
	}
	// Heartbeats and the purge are no events.
	if events := second.Stats().Applied; events != 4 {
		return fmt.Errorf("the bus has %d events, want 4", events)
	}
	s.Say("the maps of 2 servers and the table have the same 2 live revisions, from 4 events")
	return nil
}

func equal(ctx context.Context, s *stage.Stage, table *client.Table, live int) error {
	return s.Wait(ctx, fmt.Sprintf("a map that equals the %d live rows", live), func() (bool, error) {
		rows, err := s.DB.QueryContext(ctx, "SELECT revision, app_name, base_params, client_version FROM app_revision WHERE deleted = 0")
		if err != nil {
			return false, err
		}
		want, got := make(map[string]revision), make(map[string]revision)
		for rows.Next() {
			var r revision
			err = errors.Join(err, rows.Scan(&r.Revision, &r.AppName, &r.BaseParams, &r.ClientVersion))
			want[r.Revision] = r
		}
		for e := range table.All() {
			var r revision
			err = errors.Join(err, e.Decode(&r))
			got[r.Revision] = r
		}
		return len(want) == live && maps.Equal(got, want), errors.Join(err, rows.Err())
	})
}
