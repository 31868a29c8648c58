package must

// T is a test, of its goroutine.
type T interface {
	Helper()
	Fatal(args ...any)
}

// OK ends a test unless err is nil.
func OK(t T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Get ends a test unless err is nil, and returns v, as in must.Get(os.ReadFile(name))(t).
func Get[V any](v V, err error) func(t T) V {
	return func(t T) V {
		t.Helper()
		OK(t, err)
		return v
	}
}
