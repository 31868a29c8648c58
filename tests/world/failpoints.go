package world

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"example.org/bridge/tests/faulty/failpoint"
)

// Failpoints is a list of failpoints that a test changes while programs use it.
type Failpoints struct {
	t    testing.TB
	path string
}

// NewFailpoints makes an empty list.
func NewFailpoints(t testing.TB) *Failpoints {
	t.Helper()
	f := &Failpoints{t: t, path: filepath.Join(t.TempDir(), "failpoints")}
	f.Set()
	return f
}

// Set replaces the list; programs follow within 50 ms.
func (f *Failpoints) Set(actions ...failpoint.Action) {
	f.t.Helper()
	text, err := json.Marshal(actions)
	if err == nil {
		err = os.WriteFile(f.path+".new", text, 0o600)
	}
	if err == nil {
		err = os.Rename(f.path+".new", f.path)
	}
	check(f.t, err)
}

// Env returns the variable that names the list.
func (f *Failpoints) Env() Env { return Env{failpoint.Variable: f.path} }
