package acceptance

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/go-sql-driver/mysql"
)

const (
	// admitted is the size of a message that the bus takes, bulk that of a value that makes it too large.
	admitted = 100_000
	bulk     = 200_000
)

// letters are the rows that a trial has made too large, and the dead letters that came of them.
type letters struct {
	// rows are the ids of such rows, by their streams.
	rows map[string]map[uint64]bool
	// events are the ids of the events that were put aside, tokens the rows of the release stream.
	events map[string]bool
	tokens map[string]bool
}

// swelling lets rows become too large for the bus.
func swelling(tr *trial) {
	for _, stream := range []string{facts, entities} {
		tr.exec("ALTER TABLE " + stream + " ADD COLUMN bulk mediumtext")
		tr.lane.admit(tr.t, tr.destination(stream), admitted)
	}
	tr.letters = &letters{rows: map[string]map[uint64]bool{facts: {}, entities: {}}, events: make(map[string]bool), tokens: make(map[string]bool)}
}

// toPutAside is swelling with a destination for dead letters.
func toPutAside(tr *trial) {
	swelling(tr)
	tr.lane.open(tr.t, tr.destination("dead"))
	tr.env["BRIDGE_DEAD_LETTER"] = tr.destination("dead")
	if tr.lane.nats != nil {
		tr.env["BRIDGE_DEAD_LETTER"] += ".letters"
	}
}

// swell makes the newest row of a table too large, most times before it is published.
func (tr *trial) swell(table string) {
	tr.t.Helper()
	var id uint64
	err := tr.db.QueryRow("SELECT id FROM " + table + " WHERE bulk IS NULL AND created > now(6) - INTERVAL 500000 MICROSECOND ORDER BY id DESC LIMIT 1").Scan(&id)
	if err == nil {
		set := "bulk = ?"
		if table == entities {
			set += ", modified = now(6)"
		}
		_, err = tr.db.Exec("UPDATE "+table+" SET "+set+" WHERE id = ?", incompressible(bulk), id)
	}
	var refused *mysql.MySQLError
	switch {
	case err == nil:
		tr.letters.rows[table][id] = true
	case errors.Is(err, sql.ErrNoRows), errors.As(err, &refused) && refused.Number == 1213:
		// There is no such row, or its writer came first.
	default:
		tr.t.Fatal(err)
	}
}

// gatherLetters reads the dead letters, each of which has to be of a row that was too large.
func (tr *trial) gatherLetters() {
	tr.t.Helper()
	// What is on its way to the bus gets there.
	tr.flows()
	tokens := tr.tokens()
	tr.lane.harvest(tr.t, tr.destination("dead"), func(m received) {
		var letter struct {
			Stream, EventID, Reason string
			RowID                   uint64
			Size                    int
		}
		if err := json.Unmarshal(m.value, &letter); err != nil {
			tr.t.Fatalf("%v: %.300s", err, m.value)
		}
		if !tr.letters.rows[letter.Stream][letter.RowID] || letter.Size < bulk {
			tr.score.find("row %d of %s was put aside with %d bytes: %s", letter.RowID, letter.Stream, letter.Size, letter.Reason)
		}
		tr.letters.events[letter.EventID] = true
		if letter.Stream == facts {
			tr.letters.tokens[tokens[letter.RowID]] = true
		}
	})
	if len(tr.letters.events) == 0 {
		tr.t.Fatal("no row was put aside")
	}
}

// tokens returns the tokens of the rows of the release stream by their ids.
func (tr *trial) tokens() map[uint64]string {
	tr.t.Helper()
	tokens := make(map[uint64]string)
	rows, err := tr.db.Query("SELECT id, token FROM " + facts + " WHERE bulk IS NOT NULL")
	if err != nil {
		tr.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id uint64
		var token string
		if err := rows.Scan(&id, &token); err != nil {
			tr.t.Fatal(err)
		}
		tokens[id] = token
	}
	if err := rows.Err(); err != nil {
		tr.t.Fatal(err)
	}
	return tokens
}

// excuses reports whether all that bridge verify has found is what was put aside: rows without an event, and events that follow on one
// that the bus does not have.
func (l *letters) excuses(report string) error {
	var r struct {
		Streams []struct {
			Stream string
			Faults []struct {
				Fault string
				Count int
			}
		}
	}
	if err := json.Unmarshal([]byte(report), &r); err != nil {
		return err
	}
	for _, s := range r.Streams {
		for _, f := range s.Faults {
			if !slices.Contains([]string{"missing", "brokenLink"}, f.Fault) || f.Count > len(l.events) {
				return fmt.Errorf("%s: %d %s, and %d dead letters", s.Stream, f.Count, f.Fault, len(l.events))
			}
		}
	}
	return nil
}

// aside reports whether the event that this one follows on was put aside.
func (l *letters) aside(e stateEvent) bool {
	return l != nil && len(e.Links) == 1 && l.events[e.Links[0].Target]
}
