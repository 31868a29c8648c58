package failpoint

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestAListIsRead(t *testing.T) {
	list := " BeforePublish=kill@0.02; StoreSync=error(input/output error)*3\nOwnerTurn=hang;;BeforeSave=sleep(2s)@0.5*7\n DatabaseClock=shift(-5s)\n"
	got, err := parse(list)
	if err != nil {
		t.Fatal(err)
	}
	want := map[Point]action{
		BeforePublish: {verb: kill, probability: 0.02, left: -1},
		StoreSync:     {verb: fail, probability: 1, left: 3},
		OwnerTurn:     {verb: hang, probability: 1, left: -1},
		BeforeSave:    {verb: sleep, by: 2 * time.Second, probability: 0.5, left: 7},
		DatabaseClock: {verb: shift, by: -5 * time.Second, probability: 1, left: -1},
	}
	if len(got) != len(want) {
		t.Errorf("%d points, want %d", len(got), len(want))
	}
	for point, a := range got {
		if point == StoreSync {
			if a.err == nil || a.err.Error() != "input/output error" {
				t.Errorf("the error is %v", a.err)
			}
			a.err = nil
		}
		if *a != want[point] {
			t.Errorf("%s is %+v, want %+v", point, *a, want[point])
		}
	}
}

func TestEveryPointCanKillSleepAndHang(t *testing.T) {
	for _, point := range []Point{OwnerTurn, DatabaseClock, BeforeRead, AfterRead, BeforeReread, AfterReread, BeforeJournal, AfterJournal,
		BeforePublish, AfterPublish, BeforeAck, AfterAck, BeforeSave, AfterSave, StoreSync, StoreHeaderSync} {
		for _, action := range []string{"kill", "sleep(1ms)", "hang"} {
			if _, err := parse(string(point) + "=" + action); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestABadListIsRefused(t *testing.T) {
	bad := map[string]string{
		"BeforePublish":                 "want point=action",
		"Nowhere=kill":                  `no point "Nowhere"`,
		"BeforePublish=die":             `no action "die"`,
		"BeforePublish=":                `no action ""`,
		"BeforePublish=kill(1)":         "takes no argument",
		"BeforePublish=hang()":          "takes no argument",
		"BeforePublish=kill@0":          "probability",
		"BeforePublish=kill@1.1":        "probability",
		"BeforePublish=kill@NaN":        "probability",
		"BeforePublish=kill@":           "probability",
		"BeforePublish=kill*0":          "count",
		"BeforePublish=kill*":           "count",
		"BeforePublish=kill*2@0.5":      "count",
		"BeforePublish=sleep":           "want a time",
		"BeforePublish=sleep(5)":        "want a time",
		"BeforePublish=sleep(-5s)":      "want a time",
		"BeforePublish=sleep(5s":        "not closed",
		"BeforePublish=sleep(5s)x":      "probability",
		"StoreSync=error":               "want error(text)",
		"StoreSync=error()":             "want error(text)",
		"BeforePublish=error(x)":        "cannot fail",
		"BeforeRead=shift(1s)":          "is no clock",
		"OwnerTurn=hang;OwnerTurn=kill": "twice",
	}
	for _, list := range slices.Sorted(maps.Keys(bad)) {
		_, err := parse(list)
		if err == nil {
			t.Errorf("%q is accepted", list)
		} else if !strings.Contains(err.Error(), bad[list]) || !strings.Contains(err.Error(), strings.SplitN(list, ";", 2)[0][:4]) {
			t.Errorf("%q: the error is %q, want one about %q", list, err, bad[list])
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("BeforePublish=kill@0.02; StoreSync=error(input/output error)*3")
	f.Add("OwnerTurn=hang\nDatabaseClock=shift(-5s)")
	f.Fuzz(func(t *testing.T, list string) {
		actions, err := parse(list)
		if err != nil {
			return
		}
		for point, a := range actions {
			if !point.known() || a.verb == fail && (!point.fails() || a.err == nil) || a.verb == shift && !point.shifts() || a.left == 0 ||
				!(a.probability > 0 && a.probability <= 1) {
				t.Errorf("%q has %s as %+v", list, point, a)
			}
		}
	})
}
