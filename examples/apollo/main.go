// Command apollo is what Apollo's config services do with bridge: they hear each release once and
// in order from the bus, also one whose transaction commits late, while a job deletes older rows;
// and they follow the namespaces, which Apollo deletes softly. See README.md.
//
//	make example-apollo
package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"
	"sync"

	"example.org/bridge/client"
	"example.org/bridge/examples/internal/stage"
)

//go:embed table.sql table.sqlite.sql bridge.env
var files embed.FS

func main() { stage.Main("apollo", files, story) }

// service is a config service: all its processes, one after the other.
type service struct {
	*stage.Stage
	name string

	mu    sync.Mutex
	heard []string
}

// listen runs a service that hears a stream. The bus keeps where it is, under the name of its
// group.
func listen(ctx context.Context, s *stage.Stage, name, stream string) (*service, error) {
	c := &service{Stage: s, name: name}
	return c, s.Listen(ctx, name, s.Options(stream), func(_ context.Context, e client.Event) error {
		if e.Repeat {
			// At least once: after a kill of either side the last events come again.
			return nil
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.heard = append(c.heard, fmt.Sprintf("%s %s in row %d", e.Operation, e.Key, e.RowID))
		s.Say("%s: %s", name, c.heard[len(c.heard)-1])
		return nil
	})
}

func (c *service) has(ctx context.Context, events []string) error {
	return c.Wait(ctx, fmt.Sprintf("at %s %q", c.name, events), func() (bool, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		return slices.Equal(c.heard, events), nil
	})
}

func story(ctx context.Context, s *stage.Stage) error {
	a, err := listen(ctx, s, "config-a", "releases")
	b, failed := listen(ctx, s, "config-b", "releases")
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	const insert = "INSERT INTO ReleaseMessage (Id, Message) VALUES (?, 'app+default+application')"
	const releases, late = 9, 4
	commit := func() error {
		// SQLite has one writer at a time: the row comes with its id later.
		_, err := s.DB.ExecContext(ctx, insert, late)
		return err
	}
	if s.MySQL {
		tx, err := s.DB.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, insert, late); err != nil {
			return err
		}
		commit = tx.Commit
	}
	s.Say("a transaction has taken id %d and goes on working", late)
	heard := func(id int) string { return fmt.Sprintf("published app%%2Bdefault%%2Bapplication in row %d", id) }
	var want []string
	for id := 1; id <= releases; id++ {
		if id == late {
			continue
		}
		if _, err := s.DB.ExecContext(ctx, insert, id); err != nil {
			return err
		}
		want = append(want, heard(id))
	}
	if err := errors.Join(a.has(ctx, want), b.has(ctx, want)); err != nil {
		return err
	}
	s.Say("the transaction commits, far below the newest id")
	want = append(want, heard(late))
	if err := errors.Join(commit(), a.has(ctx, want), b.has(ctx, want)); err != nil {
		return err
	}
	// Apollo's job deletes older rows: that is no event.
	if _, err := s.DB.ExecContext(ctx, "DELETE FROM ReleaseMessage WHERE Id < ?", releases); err != nil {
		return err
	}
	if err := errors.Join(namespaces(ctx, s), a.has(ctx, want), b.has(ctx, want)); err != nil {
		return err
	}
	s.Say("2 config services heard %d releases, each once and in order, and a namespace that was deleted came again", releases)
	return nil
}

// namespaces makes a namespace, deletes it softly and makes it again. A soft delete moves
// DeletedAt, a part of the key, and is one Deleted event with the key that the namespace had.
func namespaces(ctx context.Context, s *stage.Stage) error {
	c, err := listen(ctx, s, "namespaces", "namespaces")
	if err != nil {
		return err
	}
	const key = "billing+default+application+0"
	var want []string
	for _, step := range [][2]string{
		{"INSERT INTO Namespace (AppId, ClusterName, NamespaceName) VALUES ('billing', 'default', 'application')", "added " + key + " in row 1"},
		{"UPDATE Namespace SET IsDeleted = 1, DeletedAt = 1700000000000", "deleted " + key + " in row 1"},
		{"INSERT INTO Namespace (AppId, ClusterName, NamespaceName) VALUES ('billing', 'default', 'application')", "added " + key + " in row 2"},
	} {
		if _, err := s.DB.ExecContext(ctx, step[0]); err != nil {
			return err
		}
		want = append(want, step[1])
		if err := c.has(ctx, want); err != nil {
			return err
		}
	}
	return nil
}
