// Command stp-info answers what an STP can do from a store and a cache, which it keeps right by the
// Added and Deleted events that bridge makes of TGF's table. See README.md.
//
//	make example-stp-info
package main

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"maps"
	"sync"

	"example.org/bridge/client"
	"example.org/bridge/examples/internal/stage"
)

//go:embed table.sql table.sqlite.sql bridge.env
var files embed.FS

func main() { stage.Main("stp-info", files, story) }

// info is STP-Info: its table stp_info, and before it a cache of the capabilities of each STP. In
// Redis that is a hash for each STP with a number beside it, and fill a script that compares the
// number.
type info struct {
	db *sql.DB

	mu     sync.Mutex
	cached map[string]map[string]string
	drops  map[string]int
}

type change struct {
	StpName, CapabilityKey, CapabilityValue string
	deleted                                 bool
}

// handle applies an event: first to the store, then it drops the STP from the cache. In the other
// order, a query between the two steps puts what the store is about to lose back into the cache,
// where it stays.
func (i *info) handle(ctx context.Context, c change) error {
	if err := i.write(ctx, c); err != nil {
		return err
	}
	i.drop(c.StpName)
	return nil
}

func (i *info) write(ctx context.Context, c change) (err error) {
	if c.deleted {
		_, err = i.db.ExecContext(ctx, "DELETE FROM stp_info WHERE stp_name = ? AND capability_key = ?", c.StpName, c.CapabilityKey)
	} else {
		_, err = i.db.ExecContext(ctx, "REPLACE INTO stp_info VALUES (?, ?, ?)", c.StpName, c.CapabilityKey, c.CapabilityValue)
	}
	return err
}

func (i *info) drop(stp string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.cached, stp)
	i.drops[stp]++
}

// query returns the capabilities of an STP. They may not be changed.
func (i *info) query(ctx context.Context, stp string) (map[string]string, error) {
	i.mu.Lock()
	found, since := i.cached[stp], i.drops[stp]
	i.mu.Unlock()
	if found != nil {
		return found, nil
	}
	found, err := load(ctx, i.db, "stp_info WHERE stp_name = ?", stp)
	if err == nil {
		i.fill(stp, found, since)
	}
	return found, err
}

// fill caches what a query has read, unless the STP was dropped since it began: the store may have
// changed behind it.
func (i *info) fill(stp string, found map[string]string, since int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.drops[stp] == since {
		i.cached[stp] = found
	}
}

func load(ctx context.Context, db *sql.DB, from, stp string) (map[string]string, error) {
	rows, err := db.QueryContext(ctx, "SELECT capability_key, capability_value FROM "+from, stp)
	if err != nil {
		return nil, err
	}
	found := make(map[string]string)
	for rows.Next() {
		var key, value string
		err = errors.Join(err, rows.Scan(&key, &value))
		found[key] = value
	}
	return found, errors.Join(err, rows.Err())
}

// story has TGF set capabilities, change one and delete some, while STP-Info handles the events.
func story(ctx context.Context, s *stage.Stage) error {
	i := &info{db: s.DB, cached: make(map[string]map[string]string), drops: make(map[string]int)}
	o := s.Options("stp")
	o.Types = map[string]client.Operation{"StpCapabilityAddedMessage": client.Added, "StpCapabilityDeletedMessage": client.Deleted}
	if err := s.Listen(ctx, "stp-info", o, func(ctx context.Context, e client.Event) error {
		c := change{deleted: e.Operation == client.Deleted}
		if err := e.Decode(&c); err != nil {
			return err
		}
		if err := i.handle(ctx, c); err != nil {
			return err
		}
		s.Say("%s %s of %s: %s", c.CapabilityKey, c.CapabilityValue, c.StpName, e.Operation)
		return nil
	}); err != nil {
		return err
	}
	for _, statement := range []string{
		"INSERT INTO stp_capability (stp_name, capability_key, capability_value) VALUES ('stp-1', 'cpu.cores', '64'), ('stp-1', 'gpu', '2')",
		"UPDATE stp_capability SET capability_value = '128' WHERE capability_key = 'cpu.cores'",
		"UPDATE stp_capability SET deleted = 'Y' WHERE capability_key = 'gpu'",
		"UPDATE stp_capability SET deleted = 'N' WHERE capability_key = 'gpu'",
	} {
		if _, err := s.DB.ExecContext(ctx, statement); err != nil {
			return err
		}
		var answer map[string]string
		if err := s.Wait(ctx, "the answer that TGF's table has", func() (_ bool, err error) {
			want, err := load(ctx, s.DB, "stp_capability WHERE deleted = 'N' AND stp_name = ?", "stp-1")
			if err == nil {
				answer, err = i.query(ctx, "stp-1")
			}
			return maps.Equal(answer, want), err
		}); err != nil {
			return err
		}
		s.Say("STP-Info answers for stp-1: %v", answer)
	}
	s.Say("each answer is that of TGF's table")
	return nil
}
