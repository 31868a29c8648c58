package failpoint

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// opened returns the set of a list that must be good.
func opened(t *testing.T, value string) *set {
	t.Helper()
	s := &set{die: func() { t.Error("the process was killed") }, refuse: func(err error) { t.Error(err) }}
	if err := s.open(value); err != nil {
		t.Fatal(err)
	}
	return s
}

// replace puts a list into the file at path in one step.
func replace(t *testing.T, path, list string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(list), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func TestAPointThatIsNotListedDoesNothing(t *testing.T) {
	for _, list := range []string{"", "AfterRead=error(x)"} {
		if by, err := opened(t, list).pass(BeforeRead); by != 0 || err != nil {
			t.Errorf("%q: %s, %v", list, by, err)
		}
	}
}

func TestActions(t *testing.T) {
	t.Run("kill", func(t *testing.T) {
		s, killed := opened(t, "AfterAck=kill"), false
		s.die = func() { killed = true }
		_, _ = s.pass(AfterAck)
		if !killed {
			t.Error("not killed")
		}
	})
	t.Run("error, as often as it says", func(t *testing.T) {
		s := opened(t, "StoreSync=error(the disk)*2")
		for pass, want := range []bool{true, true, false, false} {
			if _, err := s.pass(StoreSync); (err != nil) != want || err != nil && err.Error() != "the disk" {
				t.Errorf("pass %d: %v", pass, err)
			}
		}
	})
	t.Run("with a probability", func(t *testing.T) {
		s, failed := opened(t, "StoreSync=error(x)@0.3"), 0
		const passes = 10_000
		for range passes {
			if _, err := s.pass(StoreSync); err != nil {
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
			s, started := opened(t, "BeforeSave=sleep(2s)"), time.Now()
			_, err := s.pass(BeforeSave)
			if took := time.Since(started); took != 2*time.Second || err != nil {
				t.Errorf("took %s, %v", took, err)
			}
		})
	})
	t.Run("shift", func(t *testing.T) {
		if by, err := opened(t, "DatabaseClock=shift(-5s)").pass(DatabaseClock); by != -5*time.Second || err != nil {
			t.Errorf("%s, %v", by, err)
		}
	})
}

func TestAListInAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list")
	replace(t, path, "OwnerTurn=hang")
	t.Run("has a hanging point go on when it changes", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := opened(t, "file:"+path)
			passed := make(chan struct{})
			go func() {
				defer close(passed)
				_, _ = s.pass(OwnerTurn)
			}()
			time.AfterFunc(time.Hour, func() { replace(t, path, "") })
			started := time.Now()
			<-passed
			if took := time.Since(started); took < time.Hour || took > time.Hour+2*checkEvery {
				t.Errorf("went on after %s", took)
			}
		})
	})
	t.Run("is looked at every 50 ms and begins its counts anew when it changes", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			replace(t, path, "BeforeSave=error(one)*1")
			s := opened(t, "file:"+path)
			check := func(want string) {
				t.Helper()
				text := ""
				if _, err := s.pass(BeforeSave); err != nil {
					text = err.Error()
				}
				if text != want {
					t.Errorf("failed with %q, want %q", text, want)
				}
			}
			check("one")
			<-time.After(checkEvery)
			check("")
			replace(t, path, "BeforeSave=error(two)*1")
			check("")
			<-time.After(checkEvery)
			check("two")
			check("")
		})
	})
	t.Run("is refused when it is bad or missing", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			replace(t, path, "")
			s, refused := opened(t, "file:"+path), 0
			s.refuse = func(error) { refused++ }
			replace(t, path, "BeforeSave=nothing")
			<-time.After(checkEvery)
			_, _ = s.pass(BeforeSave)
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			<-time.After(checkEvery)
			_, _ = s.pass(BeforeSave)
			if refused != 2 {
				t.Errorf("refused %d times, want 2", refused)
			}
			if err := new(set).open("file:" + path); err == nil {
				t.Error("a file that is not there is accepted")
			}
		})
	})
}
