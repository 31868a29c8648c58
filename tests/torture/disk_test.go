package torture

import (
	"database/sql"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"github.com/go-sql-driver/mysql"

	"bridge/tests/faulty/failpoint"
	"bridge/tests/testenv"
	"bridge/tests/world"
)

// diskFaults are done to the disk that the checkpoint lies on.
var diskFaults = []fault{
	{
		name: "disk-full", family: "disk and clock", what: "the checkpoint's disk is full for 30 s",
		prepare: func(tr *trial) {
			tr.Env["BRIDGE_CHECKPOINT_URL"] = "file:" + filepath.Join(testenv.SmallDisk(tr.T, 8<<20), "bridge.db")
		},
		inject: func(tr *trial) {
			empty := testenv.FillDisk(tr.T, tr.checkpoint())
			tr.waits("no space left on device", 30*time.Second)
			empty()
		},
	},
	{
		name: "checkpoint-read-only", family: "disk and clock", what: "the checkpoint can be read and not be written for 30 s",
		prepare: func(tr *trial) {
			if err := immutableStops(tr.T.TempDir()); err != nil {
				tr.cannot("a folder cannot be made immutable", err)
			}
		},
		inject: func(tr *trial) {
			files := filepath.Join(tr.checkpoint(), "db")
			tr.check(setImmutable(files, true))
			defer func() { tr.check(setImmutable(files, false)) }()
			tr.waits("operation not permitted", 30*time.Second)
		},
	},
	{
		name: "fsync-slow", family: "disk and clock", what: "each fsync of the checkpoint takes 1 s, for a minute",
		prepare: func(tr *trial) { tr.withFailpoints() },
		inject: func(tr *trial) {
			tr.points.Set(failpoint.Action{Point: failpoint.StoreSync, Sleep: time.Second})
			tr.outage(time.Minute)
			tr.flows()
			tr.points.Set()
		},
	},
	{
		name: "fsync-fails", family: "disk and clock", what: "fsync fails five times, then for 30 s, then until bridge is killed and started", repeats: true,
		prepare: func(tr *trial) { tr.withFailpoints() },
		inject: func(tr *trial) {
			tr.points.Set(failpoint.Action{Point: failpoint.StoreSync, Error: "input/output error", Times: 5})
			world.Eventually(tr.T, syncWithin, "the log tells", func() bool { return strings.Contains(tr.Log.String(), "input/output error") })
			tr.flows()
			tr.points.Set(failpoint.Action{Point: failpoint.StoreSync, Error: "the disk is gone"})
			tr.waits("the disk is gone", 30*time.Second)
			tr.points.Set()
			tr.flows()
			tr.points.Set(failpoint.Action{Point: failpoint.StoreSync, Error: "the disk is gone again"})
			tr.waits("the disk is gone again", 10*time.Second)
			tr.kill()
			tr.points.Set()
			tr.Start()
		},
	},
	{
		name: "fsync-in-doubt", family: "disk and clock", what: "fsync fails when the list of files is written: bridge ends, and is started again, three times", repeats: true,
		prepare: func(tr *trial) { tr.withFailpoints() },
		inject: func(tr *trial) {
			for range 3 {
				said := len(tr.Log.String())
				tr.points.Set(failpoint.Action{Point: failpoint.ManifestSync, Error: "input/output error"})
				status := tr.ended()
				tr.cuts++
				tr.says("after a failed fsync of the manifest", status, tr.Log.String()[said:], "check its disk, then restart bridge", "input/output error")
				tr.points.Set()
				tr.Start()
				tr.flows()
			}
		},
	},
}

// syncWithin is more than the time between two syncs of the checkpoint.
const syncWithin = 100 * time.Second

// waits lets an outage of the checkpoint's disk pass, of which the program has to say why, and that
// it lives and is not ready.
func (tr *trial) waits(why string, d time.Duration) {
	tr.T.Helper()
	world.Eventually(tr.T, syncWithin, "not ready, because of: "+why, func() bool {
		code, body := tr.Get("/readyz")
		return code == 503 && strings.Contains(body, why) && strings.Contains(body, "checkpoint")
	})
	tr.outage(d)
	if code, body := tr.Get("/livez"); code != 200 {
		tr.score.find("/livez is %d while the disk is away: %s", code, body)
	}
	if code, body := tr.Get("/readyz"); code != 503 {
		tr.score.find("/readyz is %d while the disk is away: %s", code, body)
	}
	// What comes back within 10 s of its end has no line of its own.
	if !strings.Contains(tr.Log.String(), "dependency=checkpoint") {
		tr.score.find("the log says nothing about the checkpoint: %s", why)
	}
}

// immutableStops returns nil when no file can be made in a folder that is made immutable.
func immutableStops(folder string) error {
	err := setImmutable(folder, true)
	if err == nil {
		if os.WriteFile(filepath.Join(folder, "probe"), nil, 0o600) == nil {
			err = errors.New("the file system lets files be made")
		}
		err = errors.Join(err, setImmutable(folder, false))
	}
	return err
}

// setImmutable switches the flag that keeps a folder as it is, as `chattr +i` does. It takes root,
// and a file system that knows it.
func setImmutable(path string, on bool) error {
	const (
		getFlags, setFlags = 0x80086601, 0x40086602 // FS_IOC_GETFLAGS, FS_IOC_SETFLAGS of linux/fs.h on 64 bits
		immutable          = 0x10
	)
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	var flags int
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, file.Fd(), getFlags, uintptr(unsafe.Pointer(&flags))); errno != 0 {
		return errno
	}
	if flags &^= immutable; on {
		flags |= immutable
	}
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, file.Fd(), setFlags, uintptr(unsafe.Pointer(&flags))); errno != 0 {
		return errno
	}
	return nil
}

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
	for _, stream := range []string{facts, entities} {
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
