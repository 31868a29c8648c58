package panics_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"example.org/bridge/internal/panics"
)

func explode(list []int) int { return list[len(list)-1] }

func TestGuard(t *testing.T) {
	sentinel := errors.New("sentinel")
	t.Run("an error stays what it is", func(t *testing.T) {
		err := panics.Guard(func() error { return sentinel })
		if err != sentinel || panics.Is(err) || len(panics.LogArgs(err)) != 2 {
			t.Errorf("%v, %v", err, panics.LogArgs(err))
		}
	})
	t.Run("a panic is an error with the stack of where it happened", func(t *testing.T) {
		err := fmt.Errorf("wrapped: %w", panics.Guard(func() error { explode(nil); return nil }))
		if !panics.Is(err) || !strings.Contains(err.Error(), "index out of range [-1]") {
			t.Fatal(err)
		}
		args := panics.LogArgs(err)
		if len(args) != 4 || args[2] != "stack" || !strings.Contains(args[3].(string), "panics_test.explode") {
			t.Errorf("the log would have %v", args)
		}
	})
	t.Run("an error that is panicked with is found in the chain", func(t *testing.T) {
		if err := panics.Guard(func() error { panic(sentinel) }); !errors.Is(err, sentinel) {
			t.Error(err)
		}
	})
}
