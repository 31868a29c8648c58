package panics

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// Error is a panic that [Guard] recovered from.
type Error struct {
	// Value is what panic was called with.
	Value any
	// Stack is that of the goroutine that panicked.
	Stack []byte
}

func (e *Error) Error() string {
	return fmt.Sprintf("a defect of bridge: panic: %v: please report it with the stack in the log", e.Value)
}

// Unwrap returns the value where that is an error.
func (e *Error) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Guard calls f and returns its error, or an [*Error] where f panics. Deferred functions of f have
// run then; what f had reserved and did not release in one of them is for the caller to release.
func Guard(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &Error{Value: v, Stack: debug.Stack()}
		}
	}()
	return f()
}

// Is reports whether err comes from a panic.
func Is(err error) bool {
	_, ok := errors.AsType[*Error](err)
	return ok
}

// LogArgs returns the arguments of a log line about err: the error, and the stack where it comes
// from a panic.
func LogArgs(err error) []any {
	args := []any{"error", err}
	if p, ok := errors.AsType[*Error](err); ok {
		args = append(args, "stack", string(p.Stack))
	}
	return args
}
