package fold

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/go-sql-driver/mysql"

	"example.org/bridge/tests/world"
)

// hopping is a stream of entities that hop between its tables, with its writers. An entity belongs
// to one writer, so the order of its versions is known.
type hopping struct {
	world  *world.World
	db     *sql.DB
	tables []string
	record *record
	owners []*owner
	// filtered: rows may be hidden.
	filtered bool
}

// owner is one writer.
type owner struct {
	*hopping
	rng      *rand.Rand
	entities []*entity
	made     int
}

// entity is what its writer knows of it: table is the one with the row, while there is one.
type entity struct {
	version
	key   string
	table int
	// unique says that each state is a new one; else there are three, again and again.
	unique bool
	states int
}

const (
	ownersPerStream   = 6
	entitiesPerStream = 180
	// restless are the entities of a writer that have half of its changes: they hop again within a
	// moment.
	restless = 3
)

// newHopping makes the tables of a stream.
func newHopping(w *world.World, tables []string, seed uint64) *hopping {
	h := &hopping{world: w, db: w.DB, tables: tables, record: newRecord()}
	for _, table := range tables {
		w.Exec(`CREATE TABLE ` + table + ` (
			id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY,
			k varchar(64) COLLATE utf8mb4_bin NOT NULL,
			state varchar(64) NOT NULL,
			created datetime(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
			modified datetime(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
			deleted tinyint(1) NOT NULL DEFAULT 0,
			hidden tinyint(1) NOT NULL DEFAULT 0,
			secret varchar(100) NOT NULL,
			UNIQUE KEY k (k), KEY modified (modified)) ENGINE=InnoDB`)
	}
	for i := range ownersPerStream {
		o := &owner{hopping: h, rng: rand.New(rand.NewPCG(seed, uint64(i)))}
		for range entitiesPerStream / ownersPerStream {
			o.entities = append(o.entities, o.newcomer(i))
		}
		h.owners = append(h.owners, o)
	}
	return h
}

// newcomer returns an entity without a row. Some keys have bytes that messages encode.
func (o *owner) newcomer(writer int) *entity {
	o.made++
	decoration := []string{"", "", "", "+", "%", " é", "\t"}[o.rng.IntN(7)]
	return &entity{key: fmt.Sprintf("e%d.%d%s", writer, o.made, decoration), unique: o.made%2 == 0}
}

// change is something that happens to an entity in one or two commits, in one of some conditions.
type change struct {
	weight int
	from   []condition
	run    func(*owner, context.Context, *entity) error
}

var (
	alive   = []condition{live}
	deleted = []condition{tombstone, filtered}
	there   = []condition{live, tombstone, filtered}
)

var changes = []change{
	{10, []condition{absent}, (*owner).insert},
	{18, alive, func(o *owner, ctx context.Context, e *entity) error { return o.set(ctx, e, o.draw(e), touched) }},
	// Without a trace that a second cursor sees.
	{6, alive, func(o *owner, ctx context.Context, e *entity) error { return o.set(ctx, e, o.draw(e), "") }},
	{8, alive, (*owner).replace},
	{14, there, (*owner).hop},
	{6, alive, (*owner).hopBack},
	{5, alive, (*owner).hopInTwo},
	{5, alive, (*owner).hopOverlapping},
	{4, alive, (*owner).swap},
	{4, alive, (*owner).softDelete},
	{4, deleted, func(o *owner, ctx context.Context, e *entity) error { return o.set(ctx, e, o.draw(e), touched) }},
	{4, there, (*owner).remove},
	{2, there, (*owner).reinsert},
	{3, there, (*owner).giveUp},
}

// step makes one change.
func (o *owner) step(ctx context.Context) error {
	sum := 0
	for _, c := range changes {
		sum += c.weight
	}
	for {
		from := len(o.entities)
		if o.rng.IntN(2) == 0 {
			from = restless
		}
		e, n := o.entities[o.rng.IntN(from)], o.rng.IntN(sum)
		i := 0
		for n -= changes[i].weight; n >= 0; n -= changes[i].weight {
			i++
		}
		if slices.Contains(changes[i].from, e.condition) {
			return changes[i].run(o, ctx, e)
		}
	}
}

// outcome is what a commit makes of an entity.
type outcome struct {
	e     *entity
	table int
	version
}

// statement is one of a transaction.
type statement struct {
	text string
	args []any
}

func (o *owner) put(e *entity, table int, v version) statement {
	return statement{"INSERT INTO " + o.tables[table] + " (k, state, deleted, hidden, secret) VALUES (?, ?, ?, ?, ?)",
		[]any{e.key, v.state, v.condition == tombstone, v.condition == filtered, secret + v.state}}
}

func (o *owner) drop(e *entity) statement {
	return statement{"DELETE FROM " + o.tables[e.table] + " WHERE k = ?", []any{e.key}}
}

// commit runs a transaction, which has not happened after a conflict. Few stay open for up to a
// second.
func (o *owner) commit(ctx context.Context, outcomes []outcome, statements ...statement) error {
	tx, err := o.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	for _, s := range statements {
		if _, err := tx.ExecContext(ctx, s.text, s.args...); err != nil {
			return conflict(err)
		}
	}
	if o.rng.IntN(60) == 0 {
		world.Pause(time.Duration(o.rng.Int64N(int64(time.Second))))
	}
	if len(outcomes) == 0 {
		return tx.Rollback()
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	for _, c := range outcomes {
		c.e.version, c.e.table = c.version, c.table
		kept := c.version
		if kept.condition != live {
			kept.state = ""
		}
		o.record.add(c.e.key, kept)
	}
	return nil
}

// conflict returns an error but for those of locks: that transaction has not happened.
func conflict(err error) error {
	var failed *mysql.MySQLError
	if errors.As(err, &failed) && (failed.Number == 1205 || failed.Number == 1213) {
		return nil
	}
	return err
}

// other returns another table than that of the entity.
func (o *owner) other(e *entity) int {
	return (e.table + 1 + o.rng.IntN(len(o.tables)-1)) % len(o.tables)
}

// draw returns another live version.
func (o *owner) draw(e *entity) version {
	if e.unique {
		e.states++
		return version{live, fmt.Sprintf("s%d", e.states)}
	}
	for {
		if state := []string{"a", "b", "c"}[o.rng.IntN(3)]; state != e.state {
			return version{live, state}
		}
	}
}

// drawOrKeep returns the version of an entity that moves: the same, or another one.
func (o *owner) drawOrKeep(e *entity) version {
	if e.condition == live && o.rng.IntN(2) == 0 {
		return o.draw(e)
	}
	return e.version
}

func (o *owner) insert(ctx context.Context, e *entity) error {
	table, v := o.rng.IntN(len(o.tables)), o.draw(e)
	return o.commit(ctx, []outcome{{e, table, v}}, o.put(e, table, v))
}

func (o *owner) set(ctx context.Context, e *entity, v version, touched string) error {
	return o.commit(ctx, []outcome{{e, e.table, v}}, statement{
		"UPDATE " + o.tables[e.table] + " SET state = ?, deleted = ?, hidden = ?, secret = ?" + touched + " WHERE k = ?",
		[]any{v.state, v.condition == tombstone, v.condition == filtered, secret + v.state, e.key},
	})
}

const touched = ", modified = CURRENT_TIMESTAMP(6)"

func (o *owner) softDelete(ctx context.Context, e *entity) error {
	to := tombstone
	if o.filtered && o.rng.IntN(2) == 0 {
		to = filtered
	}
	return o.set(ctx, e, version{to, e.state}, touched)
}

// replace gives the entity another row of its table.
func (o *owner) replace(ctx context.Context, e *entity) error {
	v := o.drawOrKeep(e)
	s := o.put(e, e.table, v)
	s.text = "REPLACE" + s.text[len("INSERT"):]
	return o.commit(ctx, []outcome{{e, e.table, v}}, s)
}

// hop moves the row to another table in one commit.
func (o *owner) hop(ctx context.Context, e *entity) error { return o.hopTo(ctx, e, o.other(e)) }

func (o *owner) hopTo(ctx context.Context, e *entity, to int) error {
	v := o.drawOrKeep(e)
	return o.commit(ctx, []outcome{{e, to, v}}, o.drop(e), o.put(e, to, v))
}

// hopBack moves the row to another table and back at once.
func (o *owner) hopBack(ctx context.Context, e *entity) error {
	from := e.table
	if err := o.hop(ctx, e); err != nil || e.table == from {
		return err
	}
	return o.hopTo(ctx, e, from)
}

// hopInTwo moves the row in two commits, so that no table has it for a moment.
func (o *owner) hopInTwo(ctx context.Context, e *entity) error {
	to, v := o.other(e), o.drawOrKeep(e)
	if err := o.remove(ctx, e); err != nil || e.condition != absent {
		return err
	}
	return o.commit(ctx, []outcome{{e, to, v}}, o.put(e, to, v))
}

// hopOverlapping moves the row in two commits, so that two tables have it for a moment.
func (o *owner) hopOverlapping(ctx context.Context, e *entity) error {
	to, v, out := o.other(e), o.drawOrKeep(e), o.drop(e)
	if err := o.commit(ctx, []outcome{{e, to, v}}, o.put(e, to, v)); err != nil || e.table != to {
		return err
	}
	for left := 1; left > 0; {
		if err := o.commit(ctx, []outcome{{e, e.table, e.version}}, out); err != nil {
			return err
		}
		from := out.text[len("DELETE FROM "):]
		if err := o.db.QueryRowContext(ctx, "SELECT count(*) FROM "+from, out.args...).Scan(&left); err != nil {
			return err
		}
	}
	return nil
}

// swap has two entities change their tables in one commit, where there are such two.
func (o *owner) swap(ctx context.Context, e *entity) error {
	with := o.entities[o.rng.IntN(len(o.entities))]
	if with.condition != live || e.table == with.table {
		return o.hop(ctx, e)
	}
	v, w := o.drawOrKeep(e), o.drawOrKeep(with)
	return o.commit(ctx, []outcome{{e, with.table, v}, {with, e.table, w}},
		o.drop(e), o.drop(with), o.put(e, with.table, v), o.put(with, e.table, w))
}

func (o *owner) remove(ctx context.Context, e *entity) error {
	return o.commit(ctx, []outcome{{e, e.table, version{}}}, o.drop(e))
}

// reinsert removes the row and inserts the entity again, in any table.
func (o *owner) reinsert(ctx context.Context, e *entity) error {
	if err := o.remove(ctx, e); err != nil || e.condition != absent {
		return err
	}
	return o.insert(ctx, e)
}

// giveUp rolls a hop back, which burns an id.
func (o *owner) giveUp(ctx context.Context, e *entity) error {
	return o.commit(ctx, nil, o.drop(e), o.put(e, o.other(e), o.draw(e)))
}

// rows returns the states of the live rows of all tables.
func (h *hopping) rows() map[string]string {
	h.world.T.Helper()
	states := make(map[string]string)
	for _, table := range h.tables {
		var key, state string
		h.world.Each("SELECT k, state FROM "+table+" WHERE deleted = 0 AND hidden = 0", []any{&key, &state}, func() {
			if _, twice := states[key]; twice {
				h.world.T.Errorf("two tables have %q at the end: the writers are wrong", key)
			}
			states[key] = state
		})
	}
	return states
}
