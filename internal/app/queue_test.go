package app

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"example.org/bridge/checkpoint/store"
)

// TestAReloadWaitsForNoOtherServer: behind a reload the quiet tables of a server that is away,
// which come first, do not hold up those of another one.
func TestAReloadWaitsForNoOtherServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServers(t)
		// By the 5 s that four of them may take, those of a would need 50 s.
		names := "b/shop.t,b/shop.u"
		for i := range 40 {
			names = fmt.Sprintf("a/shop.t_%d,%s", i, names)
			s.newShop("a")
			s.tables[fmt.Sprintf("a/shop.t_%d", i)] = s.tables["a/shop.t"]
		}
		s.tables["b/shop.u"] = s.tables["b/shop.t"]
		s.newShop("b")
		s.configure(serversEnv("BRIDGE_STREAM_MOVES_TABLE", names))
		s.start()
		s.insert("b/shop.t", "bertha", "one")
		s.insert("a/shop.t_0", "anna", "one")
		s.published("bertha", "one")
		s.published("anna", "one")
		s.stop()
		s.away.Store("a", true)
		began := time.Now()
		a, err := Open(t.Context(), Options{
			Config: s.cfg, Logger: textLogger(t.Output()), former: &legacy{busy: map[store.Key]bool{{Stream: "moves", Shard: "b/shop.t"}: true}},
			openStore: func(context.Context, string, *slog.Logger) (store.Store, error) { return keptStore{s.store}, nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		s.app = a
		stop := start(t, a)
		defer stop()
		for _, name := range []string{"b/shop.t", "b/shop.u"} {
			s.eventually(name+" runs", func() bool { return s.shard(name).State == "running" })
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("the tables of b run after %s", took)
		}
		s.away.Delete("a")
		s.eventually("the tables of a run", func() bool {
			return s.shard("a/shop.t_0").State == "running" && s.shard("a/shop.t_39").State == "running"
		})
	})
}
