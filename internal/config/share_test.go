package config

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestShare(t *testing.T) {
	shared := func(more ...string) settingsOf {
		return with(append([]string{"BRIDGE_CHECKPOINT_URL", "bus:///var/lib/bridge", "BRIDGE_SHARE", "1/3"}, more...)...)
	}
	t.Run("it has a folder of its own, and a name on the bus", func(t *testing.T) {
		cfg := load(t, shared())
		if cfg.Share.String() != "1/3" || cfg.CheckpointPath != "/var/lib/bridge/1-of-3" {
			t.Errorf("share %s has the folder %s", cfg.Share, cfg.CheckpointPath)
		}
		if folder := load(t, shared("BRIDGE_CHECKPOINT_URL", "bus:")).CheckpointPath; filepath.Base(folder) != "1-of-3" {
			t.Errorf("the folder is %s", folder)
		}
	})
	t.Run("a reload cannot change it", func(t *testing.T) {
		if _, err := load(t, shared()).Reloaded(load(t, shared("BRIDGE_SHARE", "2/3"))); err == nil || !strings.Contains(err.Error(), "BRIDGE_SHARE") {
			t.Errorf("the error is %v", err)
		}
	})
	t.Run("without it nothing is another", func(t *testing.T) {
		cfg := load(t, with("BRIDGE_CHECKPOINT_URL", "bus:///var/lib/bridge"))
		if cfg.Share.One() || OfShare(cfg) != cfg || cfg.CheckpointPath != "/var/lib/bridge" {
			t.Errorf("share %s has the folder %s", cfg.Share, cfg.CheckpointPath)
		}
	})
}

// TestTablesOfAShare: each table of a release stream, and of entities that are of their table, is
// in one share; a stream whose entities may move is in one as a whole; of patterns each share has
// what matches there.
func TestTablesOfAShare(t *testing.T) {
	all := with("BRIDGE_CHECKPOINT_URL", "bus:", "BRIDGE_STREAMS", "facts,states,moving,found,few",
		"BRIDGE_STREAM_FACTS_TABLE", "t_{0..39}", "BRIDGE_STREAM_FACTS_KIND", "release",
		"BRIDGE_STREAM_STATES_TABLE", "u_{0..39}", "BRIDGE_STREAM_STATES_KIND", "capability",
		"BRIDGE_STREAM_MOVING_TABLE", "v_{0..39}", "BRIDGE_STREAM_MOVING_KIND", "capability", "BRIDGE_STREAM_MOVING_KEY", "name",
		"BRIDGE_STREAM_FOUND_TABLE", "w_0,x_*", "BRIDGE_STREAM_FOUND_KIND", "release",
		"BRIDGE_STREAM_FEW_TABLE", "few", "BRIDGE_STREAM_FEW_KIND", "release",
	)
	found := map[string][]string{"found": {"x_0", "x_1", "x_2", "x_3", "x_4", "x_5", "x_6", "x_7"}}
	owners := make(map[string]int)
	delete(all, "BRIDGE_STREAM_ORDERS_TABLE")
	delete(all, "BRIDGE_STREAM_ORDERS_KIND")
	for _, share := range []string{"0/3", "1/3", "2/3"} {
		all["BRIDGE_SHARE"] = share
		full := load(t, all)
		own := OfShare(full)
		for _, one := range []*Config{own, OfShare(own).WithTables(found)} {
			moving := one.Stream("moving")
			if moving != nil && len(moving.Tables) != 40 {
				t.Errorf("share %s has %d tables of moving", share, len(moving.Tables))
			}
			if one.Stream("found") == nil {
				t.Errorf("share %s does not look for tables", share)
			}
		}
		for _, s := range own.WithTables(found).Streams {
			for _, table := range s.Tables {
				owners[s.Name+" "+table]++
			}
			if n := len(s.Tables); n == 40 && s.Name != "moving" {
				t.Errorf("share %s has all tables of %s", share, s.Name)
			}
		}
		if len(full.Streams) != 5 || len(full.Stream("facts").Tables) != 40 || !slices.Equal(full.WithTables(found).Stream("found").Tables, append([]string{"w_0"}, found["found"]...)) {
			t.Errorf("all streams are %+v", full.Streams)
		}
	}
	if len(owners) != 3*40+1+8+1 {
		t.Errorf("%d tables have an owner", len(owners))
	}
	for table, n := range owners {
		if n != 1 {
			t.Errorf("%s has %d owners", table, n)
		}
	}
}
