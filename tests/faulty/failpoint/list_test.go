package failpoint

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// replace puts text into the file at path in one step.
func replace(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// replaceWith is replace with a list of actions.
func replaceWith(t *testing.T, path string, actions ...Action) {
	t.Helper()
	text, err := json.Marshal(actions)
	if err != nil {
		t.Fatal(err)
	}
	replace(t, path, string(text))
}

// loaded returns the list in the file at path, which must be valid.
func loaded(t *testing.T, path string) *list {
	t.Helper()
	l := &list{path: path, kill: func() { t.Error("the process was killed") }, refuse: func(err error) { t.Error(err) }}
	if err := l.load(); err != nil {
		t.Fatal(err)
	}
	return l
}

// listOf returns a list of actions.
func listOf(t *testing.T, actions ...Action) *list {
	t.Helper()
	path := filepath.Join(t.TempDir(), "list")
	replaceWith(t, path, actions...)
	return loaded(t, path)
}

func TestAPointThatIsNotListedDoesNothing(t *testing.T) {
	for _, l := range []*list{{}, listOf(t), listOf(t, Action{Point: AfterRead, Error: "x"})} {
		if by, err := l.pass(BeforeRead); by != 0 || err != nil {
			t.Errorf("%+v: %s, %v", l.actions, by, err)
		}
	}
}

func TestEveryPointCanBeListed(t *testing.T) {
	for _, point := range Points {
		if _, err := listOf(t, Action{Point: point, Error: "x"}).pass(point); err == nil {
			t.Errorf("%s does nothing", point)
		}
	}
}

func TestActions(t *testing.T) {
	t.Run("kill", func(t *testing.T) {
		l, killed := listOf(t, Action{Point: AfterAck, Kill: true}), false
		l.kill = func() { killed = true }
		_, _ = l.pass(AfterAck)
		if !killed {
			t.Error("not killed")
		}
	})
	t.Run("stop", func(t *testing.T) {
		l, stops := listOf(t, Action{Point: AfterAck, Stop: true, Times: 1}), 0
		l.stop = func() { stops++ }
		for range 2 {
			_, _ = l.pass(AfterAck)
		}
		if stops != 1 {
			t.Errorf("stopped %d times", stops)
		}
	})
	t.Run("error, as often as the list says", func(t *testing.T) {
		l := listOf(t, Action{Point: StoreSync, Error: "the disk", Times: 2})
		for pass, want := range []bool{true, true, false, false} {
			if _, err := l.pass(StoreSync); (err != nil) != want || err != nil && err.Error() != "the disk" {
				t.Errorf("pass %d: %v", pass, err)
			}
		}
	})
	t.Run("with a probability", func(t *testing.T) {
		l, failed := listOf(t, Action{Point: StoreSync, Error: "x", Chance: 0.3}), 0
		const passes = 10_000
		for range passes {
			if _, err := l.pass(StoreSync); err != nil {
				failed++
			}
		}
		// Ten standard deviations.
		if share := float64(failed) / passes; share < 0.25 || share > 0.35 {
			t.Errorf("failed %d times of %d", failed, passes)
		}
	})
	t.Run("sleep", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l, started := listOf(t, Action{Point: BeforeSave, Sleep: 2 * time.Second}), time.Now()
			_, err := l.pass(BeforeSave)
			if took := time.Since(started); took != 2*time.Second || err != nil {
				t.Errorf("took %s, %v", took, err)
			}
		})
	})
	t.Run("shift", func(t *testing.T) {
		if by, err := listOf(t, Action{Point: DatabaseClock, Shift: -5 * time.Second}).pass(DatabaseClock); by != -5*time.Second || err != nil {
			t.Errorf("%s, %v", by, err)
		}
	})
}

func TestAListThatChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list")
	t.Run("ends the hang of a point", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			replaceWith(t, path, Action{Point: OwnerLoop, Hang: true})
			l := loaded(t, path)
			passed := make(chan struct{})
			go func() {
				defer close(passed)
				_, _ = l.pass(OwnerLoop)
			}()
			time.AfterFunc(time.Hour, func() { replaceWith(t, path) })
			started := time.Now()
			<-passed
			if took := time.Since(started); took < time.Hour || took > time.Hour+2*checkEvery {
				t.Errorf("went on after %s", took)
			}
		})
	})
	t.Run("is read every 50 ms and starts its counts from zero", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			replaceWith(t, path, Action{Point: BeforeSave, Error: "one", Times: 1})
			l := loaded(t, path)
			check := func(want string) {
				t.Helper()
				text := ""
				if _, err := l.pass(BeforeSave); err != nil {
					text = err.Error()
				}
				if text != want {
					t.Errorf("failed with %q, want %q", text, want)
				}
			}
			check("one")
			<-time.After(checkEvery)
			check("")
			replaceWith(t, path, Action{Point: BeforeSave, Error: "two", Times: 1})
			check("")
			<-time.After(checkEvery)
			check("two")
			check("")
		})
	})
	t.Run("is refused when it is invalid or missing", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			replaceWith(t, path)
			l, refused := loaded(t, path), 0
			l.refuse = func(error) { refused++ }
			invalid := []string{``, `{`, `[{"Point":"Nowhere"}]`, `[{"Point":"AfterAck","Die":true}]`, `[{"Point":"AfterAck","Times":"often"}]`}
			for _, text := range invalid {
				replace(t, path, text)
				<-time.After(checkEvery)
				_, _ = l.pass(BeforeSave)
			}
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			<-time.After(checkEvery)
			_, _ = l.pass(BeforeSave)
			if want := len(invalid) + 1; refused != want {
				t.Errorf("refused %d times, want %d", refused, want)
			}
		})
	})
}
