package torture

import (
	"database/sql"
	"encoding/json"
	"errors"

	"github.com/go-sql-driver/mysql"

	"example.org/bridge/tests/world"
)

const (
	// admitted is the size of a message that the bus takes, bulk that of a value that makes it too
	// large.
	admitted = 100_000
	bulk     = 200_000
)

// largeRows are the rows that a trial has made too large, and the dead letters that came of them.
type largeRows struct {
	// rows are the ids of such rows, by their streams.
	rows map[string]map[uint64]bool
	// events are the ids of the events that were put aside, tokens the rows of the release stream.
	events map[string]bool
	tokens map[string]bool
}

// swelling lets rows become too large for the bus.
func swelling(tr *trial) {
	for _, stream := range bothStreams {
		tr.World.Exec("ALTER TABLE " + stream + " ADD COLUMN bulk mediumtext")
		tr.Bus.Limit(tr.T, tr.Destination(stream), admitted)
	}
	tr.large = &largeRows{rows: map[string]map[uint64]bool{facts: {}, entities: {}}, events: make(map[string]bool), tokens: make(map[string]bool)}
}

// toPutAside is swelling with a destination for dead letters.
func toPutAside(tr *trial) {
	swelling(tr)
	tr.Env["BRIDGE_DEAD_LETTER"] = tr.Bus.OpenDeadLetters(tr.T, tr.Destination("dead"))
}

// swell makes the newest row of a table too large before it is published. A row that is older than
// half the window by then stays as it is.
func (tr *trial) swell(table string) {
	tr.T.Helper()
	id, err := tryToSwell(tr.World, table)
	var refused *mysql.MySQLError
	switch {
	case err == nil:
		tr.large.rows[table][id] = true
	case errors.Is(err, sql.ErrNoRows), errors.As(err, &refused) && refused.Number == 1213:
		// There is no such row any more, or its writer came first.
	default:
		tr.T.Fatal(err)
	}
}

// tryToSwell is swell and returns the row; the error is sql.ErrNoRows where there is none.
func tryToSwell(w *world.World, table string) (id uint64, err error) {
	const young = "created > now(6) - INTERVAL 500000 MICROSECOND"
	tx, err := w.DB.BeginTx(w.T.Context(), nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }()
	if err := tx.QueryRow("SELECT id FROM " + table + " WHERE bulk IS NULL AND " + young + " ORDER BY id DESC LIMIT 1").Scan(&id); err != nil {
		return 0, err
	}
	set := "bulk = ?"
	if table == entities {
		set += ", modified = now(6)"
	}
	if _, err := tx.Exec("UPDATE "+table+" SET "+set+" WHERE id = ?", world.Incompressible(bulk), id); err != nil {
		return 0, err
	}
	// That may have waited for a lock, or for the machine.
	if err := tx.QueryRow("SELECT id FROM "+table+" WHERE id = ? AND "+young, id).Scan(&id); err != nil {
		return 0, err
	}
	return id, tx.Commit()
}

// readDeadLetters reads the dead letters, each of which has to be of a row that was too large.
func (tr *trial) readDeadLetters() {
	tr.T.Helper()
	// What is on its way to the bus gets there.
	tr.flows()
	tokens := tokensOf(tr.World)
	tr.Bus.Read(tr.T, tr.Destination("dead"), func(m world.Message) {
		var deadLetter struct {
			Stream, EventID, Reason string
			RowID                   uint64
			Size                    int
		}
		if err := json.Unmarshal(m.Value, &deadLetter); err != nil {
			tr.T.Fatalf("%v: %.300s", err, m.Value)
		}
		if !tr.large.rows[deadLetter.Stream][deadLetter.RowID] || deadLetter.Size < bulk {
			tr.score.find("row %d of %s was put aside with %d bytes: %s", deadLetter.RowID, deadLetter.Stream, deadLetter.Size, deadLetter.Reason)
		}
		tr.large.events[deadLetter.EventID] = true
		if deadLetter.Stream == facts {
			tr.large.tokens[tokens[deadLetter.RowID]] = true
		}
	})
	if len(tr.large.events) == 0 {
		tr.T.Fatal("no row was put aside")
	}
}

// tokensOf returns the tokens of the rows of the release stream by their ids.
func tokensOf(w *world.World) map[uint64]string {
	w.T.Helper()
	tokens := make(map[uint64]string)
	var id uint64
	var token string
	w.Each("SELECT id, token FROM "+facts+" WHERE bulk IS NOT NULL", []any{&id, &token}, func() { tokens[id] = token })
	return tokens
}
