package must

// OK ends a test, of its goroutine, unless err is nil.
func OK(t interface {
	Helper()
	Fatal(args ...any)
}, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
