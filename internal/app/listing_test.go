package app

import (
	"context"
	"errors"
	"testing"
	"time"

	"example.org/bridge/internal/app/apptest"
	"example.org/bridge/source"
)

// unlisted is a source that does not list its tables until its context ends.
type unlisted struct{ source.Source }

func (unlisted) Tables(ctx context.Context) (source.TableList, error) {
	<-ctx.Done()
	return source.TableList{}, context.Cause(ctx)
}

// TestAServerThatDoesNotListItsTables: those of the others are found, and it is told apart.
func TestAServerThatDoesNotListItsTables(t *testing.T) {
	a, _ := apptest.NewTwoShops(t)
	a.Exec(t, "CREATE TABLE log_1 (id INTEGER PRIMARY KEY AUTOINCREMENT)")
	all, err := OpenSources(load(t, a.Env), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := all.Close(); err != nil {
			t.Error(err)
		}
	})
	hangs := all.all[1]
	hangs.from = unlisted{hangs.from}
	notes := make(chan error, 2)
	lists, err := all.listTables(t.Context(), 300*time.Millisecond, func(_ *database, err error) { notes <- err })
	if err == nil || len(lists) != 1 || len(lists[all.all[0]].Names) == 0 {
		t.Errorf("%v: the lists are %v", err, lists)
	}
	if logged := errors.Join(<-notes, <-notes); logged == nil {
		t.Error("nobody is told of the one that hangs")
	}
}
