package fold

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"bridge/tests/world"
)

// stamp is the number of a message: of the run of the program, and within that.
type stamp struct{ epoch, seq uint64 }

func (s stamp) less(o stamp) bool {
	return s.epoch < o.epoch || s.epoch == o.epoch && s.seq < o.seq
}

// event is a message as a consumer decodes it.
type event struct {
	stream, tp, id, kind string
	// key and state are those of an entity, token that of a row of a release stream.
	key, state, token string
	// now is what the event says of its entity.
	now condition
	// link is the event that this one follows, empty for none.
	link  string
	stamp stamp
	at    time.Time
}

func (e *event) String() string {
	if e.id == "" {
		return "no event"
	}
	return fmt.Sprintf("%s of %q, %v, id %.8s behind %.8s, stamp %d/%d, in %s", e.kind, e.key, version{e.now, e.state}, e.id, e.link, e.stamp.epoch, e.stamp.seq, e.tp)
}

// decode reads a message of a topic.
func decode(topic string, m world.Message) (*event, error) {
	var body struct {
		Meta  struct{ ID, Type string }
		Data  struct{ K, State, Reason, Token string }
		Links []struct{ Type, Target string }
	}
	document, err := world.Document(m)
	if err == nil {
		err = json.Unmarshal(document, &body)
	}
	if err != nil {
		return nil, err
	}
	e := &event{
		stream: m.Headers["bridge-stream"], tp: topic + "/" + m.Partition, id: body.Meta.ID,
		key: body.Data.K, state: body.Data.State, token: body.Data.Token, at: m.At,
	}
	for _, kind := range []string{"Added", "Modified", "Deleted", "Published"} {
		if strings.HasSuffix(body.Meta.Type, kind+"Event") {
			e.kind = kind
		}
	}
	switch {
	case e.id == "" || e.kind == "":
		return nil, fmt.Errorf("the id %q, the type %q", body.Meta.ID, body.Meta.Type)
	case e.kind == "Deleted" && body.Data.Reason == "TOMBSTONE":
		e.now, e.state = tombstone, ""
	case e.kind == "Deleted" && body.Data.Reason == "FILTERED":
		e.now, e.state = filtered, ""
	case e.kind == "Deleted":
		e.now, e.state = absent, ""
	default:
		e.now = live
	}
	for _, l := range body.Links {
		if l.Type != "PREVIOUS_VERSION" || e.link != "" {
			return nil, fmt.Errorf("links %v", body.Links)
		}
		e.link = l.Target
	}
	fields := strings.Split(m.Headers["bridge-state"], " ")
	if len(fields) < 3 {
		return nil, fmt.Errorf("bridge-state is %q", m.Headers["bridge-state"])
	}
	if e.stamp.epoch, err = strconv.ParseUint(fields[1], 16, 64); err == nil {
		e.stamp.seq, err = strconv.ParseUint(fields[2], 16, 64)
	}
	return e, err
}

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
