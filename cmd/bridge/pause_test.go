package main

import (
	"strings"
	"testing"
	"time"

	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/httpapi/httpapitest"
	"example.org/bridge/internal/null"
)

func TestPauseAndResume(t *testing.T) {
	since := null.At(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	done := &httpapitest.Daemon{Left: httpapi.Paused{PausedAt: since}}
	held := &httpapitest.Daemon{Left: httpapi.Paused{PausedAt: since, Publishing: 1, NotOnBus: "another folder does not know it"}}
	refuses := &httpapitest.Daemon{Refuses: httpapi.ErrCannotPause}
	for _, c := range []struct {
		daemon    *httpapitest.Daemon
		line      string
		status    int
		out, errs string
		asked     string
	}{
		{done, "pause orders", exitFine, "orders: 1 table paused since 2026-01-02T03:04:05Z\n", "", "{Stream:orders Table: Resume:false}"},
		{done, "pause orders --table shop.o_7", exitFine, "orders: 1 table paused", "", "{Stream:orders Table:shop.o_7 Resume:false}"},
		{done, "resume orders", exitFine, "orders: resumed 1 table\n", "", "{Stream:orders Table: Resume:true}"},
		{held, "pause orders", exitFailed, "orders: 1 table paused", "rows in flight, which the bus or the source holds up: bridge status says when it is paused\nanother folder does not know it", "{Stream:orders Table: Resume:false}"},
		{refuses, "resume orders", exitFailed, "", "cannot be paused or resumed now", "{Stream:orders Table: Resume:true}"},
		{done, "pause", exitUsage, "", "takes 1 argument", ""},
		{done, "pause orders --table=", exitUsage, "", "leave it out for all tables", ""},
	} {
		before := len(c.daemon.Asked())
		got := outcome{}.call(settingsOf{"BRIDGE_HTTP_ADDR": httpapitest.Serve(t, c.daemon)}, strings.Fields(c.line)...)
		asked := strings.Join(c.daemon.Asked()[before:], " ")
		if got.status != c.status || !strings.Contains(got.out, c.out) || !strings.Contains(got.err, c.errs) || asked != c.asked {
			t.Errorf("%s: %+v, asked for %q", c.line, got, asked)
		}
	}
	mustCall(t, settingsOf{"BRIDGE_HTTP_ADDR": "127.0.0.1:1"}, exitFailed, "where no bridge runs nothing is published", "pause orders")
}
