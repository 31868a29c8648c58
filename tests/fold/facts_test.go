package fold

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"bridge/tests/world"
)

// facts is a release stream with its writers: rows that are inserted and stay, some in transactions
// that stay open while others commit higher ids.
type facts struct {
	db    *sql.DB
	table string

	mu sync.Mutex
	// tokens are those of all rows, with whether they were committed.
	tokens map[string]bool
	made   int
}

func newFacts(w *world.World, table string) *facts {
	w.Exec(`CREATE TABLE ` + table + ` (
		id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY,
		token varchar(64) NOT NULL,
		created datetime(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)) ENGINE=InnoDB`)
	return &facts{db: w.DB, table: table, tokens: make(map[string]bool)}
}

// step commits a row or several, or rolls them back.
func (f *facts) step(ctx context.Context, rng *rand.Rand) error {
	tx, err := f.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	var tokens []string
	for range 1 + rng.IntN(3)*rng.IntN(2) {
		token := f.token()
		if _, err := tx.ExecContext(ctx, "INSERT INTO "+f.table+" (token) VALUES (?)", token); err != nil {
			return err
		}
		tokens = append(tokens, token)
	}
	if rng.IntN(30) == 0 {
		world.Pause(time.Duration(rng.Int64N(int64(1500 * time.Millisecond))))
	}
	if rng.IntN(20) == 0 {
		return tx.Rollback()
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, token := range tokens {
		f.tokens[token] = true
	}
	return nil
}

func (f *facts) token() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.made++
	token := fmt.Sprintf("t%d", f.made)
	f.tokens[token] = false
	return token
}

// compare calls fault for each row of the record that arrived does not fit.
func (f *facts) compare(arrived map[string]string, fault func(kind, format string, args ...any)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for token, committed := range f.tokens {
		if _, there := arrived[token]; there != committed {
			fault(map[bool]string{true: "lost row", false: "row that was rolled back"}[committed], "%s", token)
		}
	}
}

// left counts the committed rows that have not arrived.
func (f *facts) left(arrived map[string]string) (n int) {
	f.compare(arrived, func(kind, _ string, _ ...any) { n++ })
	return n
}
