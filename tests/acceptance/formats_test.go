package acceptance

import (
	"crypto/rand"
	"database/sql"
	"encoding/base64"
	"fmt"
	"math/big"
	mathrand "math/rand/v2"
	"testing"
	"time"

	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/world"
)

// TestIDsThatAreNotIntegers has monotonic ULIDs, many of one number, and UUIDs of version 7 as
// bytes, with MODIFIED, written by several writers, also in transactions that stay open, while the
// program is killed and loses its folder. New rows are found without a reconcile; one brings the
// changes that nothing else tells.
func TestIDsThatAreNotIntegers(t *testing.T) {
	testall.Beside(t)
	eachDelivery(t, func(t *testing.T, b *world.Bus) {
		w := world.Empty(t, testenv.MariaDB(t))
		w.Exec("CREATE TABLE ulids (id char(26) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY, v int NOT NULL)")
		w.Exec("CREATE TABLE uuids (id binary(16) NOT NULL PRIMARY KEY, v int NOT NULL, touched timestamp(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3), KEY (touched))")
		env := world.Env{"STABILITY_WINDOW": "0s", "RECONCILE_INTERVAL": "1h"}
		p := w.Publish(b, world.Publishing{Env: progressOnBus(t, b), Streams: []world.Stream{
			{Name: "ulids", Table: "ulids", Kind: "capability", Env: env.With(world.Env{"ID_FORMAT": "ulid"})},
			{Name: "uuids", Table: "uuids", Kind: "capability", Env: env.With(world.Env{"ID_FORMAT": "uuid7", "MODIFIED": "touched"})},
		}})
		f := &formatted{T: t, w: w, b: b, p: p}
		f.insert(w.DB, 300)
		p.Start()
		f.allThere("the first run")

		late, far := f.open(), f.open()
		stop := every(200*time.Millisecond, func() { f.insert(w.DB, 1+mathrand.IntN(60)) })
		defer stop()
		for round := range 3 {
			world.Pause(world.Between(0, 3*time.Second))
			p.Kill()
			if round == 1 {
				p.LoseCheckpoint()
			}
			world.Pause(world.Between(0, time.Second))
			p.Start()
		}
		must.OK(t, late.Commit())
		// Longer than what is read again each second, and at first by a process that begins.
		world.Pause(25 * time.Second)
		stop()
		f.allThere("while one transaction is open")
		// With these the cursor is saved.
		f.insert(w.DB, 1)
		f.allThere("the last rows before the kill")
		p.Kill()
		p.Start()
		world.AwaitReady(t, p.Daemon)
		// What a start has due is over then.
		p.Reconcile("ulids", "uuids")
		reconciled := p.Metric(reconciledRows)
		must.OK(t, far.Commit())
		f.allThere("rows of a transaction that was open longer than the look-back")
		if n := p.Metric(reconciledRows); n != reconciled {
			t.Errorf("a reconcile has read %v rows meanwhile", n-reconciled)
		}

		w.Exec("UPDATE uuids SET v = -2 WHERE v % 7 = 0")
		f.allThere("updates with MODIFIED", "uuids")
		w.Exec("UPDATE ulids SET v = -1 WHERE v % 5 = 0")
		w.Exec("DELETE FROM ulids WHERE v % 50 = 1")
		w.Exec("DELETE FROM uuids WHERE v % 50 = 1")
		p.Kill()
		p.Start()
		world.AwaitReady(t, p.Daemon)
		p.Reconcile("ulids", "uuids")
		f.allThere("what a reconcile finds")
		for _, table := range []string{"ulids", "uuids"} {
			if _, repeated := f.fold(table); b.Once() && repeated > 0 {
				t.Errorf("%s: %d events came twice", table, repeated)
			}
		}
		mustVerify(t, p.Env)
	})
}

type formatted struct {
	*testing.T
	w *world.World
	b *world.Bus
	p *world.Publisher
	n int
}

type execer interface {
	Exec(statement string, args ...any) (sql.Result, error)
}

// Their ids are of one millisecond.
func (f *formatted) insert(db execer, n int) {
	f.Helper()
	ms, random := time.Now().UnixMilli(), make([]byte, 10)
	_, _ = rand.Read(random)
	random[0] &= 0x7f
	next := new(big.Int).SetBytes(random)
	for range n {
		f.n++
		ulid := new(big.Int).Or(new(big.Int).Lsh(big.NewInt(ms), 80), next.Add(next, big.NewInt(1)))
		_, err := db.Exec("INSERT INTO ulids VALUES (?, ?)", crockford(ulid), f.n)
		must.OK(f, err)
		uuid := make([]byte, 16)
		_, _ = rand.Read(uuid)
		big.NewInt(ms).FillBytes(uuid[:6])
		// Some share all that comes first.
		uuid[6], uuid[7], uuid[8] = 0x70, uuid[7]&3, 0x80|uuid[8]&1
		_, err = db.Exec("INSERT INTO uuids (id, v) VALUES (?, ?)", uuid, f.n)
		must.OK(f, err)
	}
}

func (f *formatted) open() *sql.Tx {
	f.Helper()
	tx := f.w.Open()
	f.insert(tx, 20)
	return tx
}

func crockford(id *big.Int) string {
	const digits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	text := make([]byte, 26)
	left, digit := new(big.Int).Set(id), new(big.Int)
	for i := len(text) - 1; i >= 0; i-- {
		left.DivMod(left, big.NewInt(32), digit)
		text[i] = digits[digit.Int64()]
	}
	return string(text)
}

func (f *formatted) fold(table string) (map[string]string, int) {
	return fold(f, f.b, f.p.Destination(table), func(e world.Event) (entity, state string) { return member(e, "id"), member(e, "v") })
}

func (f *formatted) rows(table string) map[string]string {
	rows := make(map[string]string)
	var id []byte
	var v int
	f.w.Each("SELECT id, v FROM "+table, []any{&id, &v}, func() {
		name := string(id)
		if table == "uuids" {
			name = base64.StdEncoding.EncodeToString(id)
		}
		rows[name] = fmt.Sprint(v)
	})
	return rows
}

// allThere waits until the bus folds to both tables, or to those that are named.
func (f *formatted) allThere(what string, tables ...string) {
	f.Helper()
	if tables == nil {
		tables = []string{"ulids", "uuids"}
	}
	for _, table := range tables {
		world.Until(f, 2*time.Minute, what+": all of "+table+" is there", func() any {
			folded, _ := f.fold(table)
			return otherwise(folded, f.rows(table))
		})
	}
}
