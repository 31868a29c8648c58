package option_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"example.org/bridge/internal/option"
)

// full names a setting as an environment could.
func full(name option.Name) string { return "X_" + string(name) }

// ownError is an error type with a text of its own.
type ownError struct{ row int }

func (e ownError) Error() string { return e.Named(option.Short) }

func (e ownError) Named(naming option.Naming) string {
	return fmt.Sprintf("row %d is too large: set %s", e.row, naming(option.DeadLetter))
}

func TestText(t *testing.T) {
	missing := option.Errorf("no stream %q: create it, or set %s=true", "EVENTS", option.NATSCreateStream)
	for name, c := range map[string]struct {
		err         error
		short, full string
	}{
		"an error without a setting stays": {io.EOF, "EOF", "EOF"},
		"a setting gets its full name": {
			missing, `no stream "EVENTS": create it, or set NATS_CREATE_STREAM=true`, `no stream "EVENTS": create it, or set X_NATS_CREATE_STREAM=true`,
		},
		"an error around it stays": {
			fmt.Errorf("open: %w (twice)", missing),
			`open: no stream "EVENTS": create it, or set NATS_CREATE_STREAM=true (twice)`, `open: no stream "EVENTS": create it, or set X_NATS_CREATE_STREAM=true (twice)`,
		},
		"joined errors get their names each": {
			errors.Join(option.Errorf("set %s", option.SinkURL), io.EOF, option.Errorf("set %s", option.SourceURL)),
			"set SINK_URL\nEOF\nset SOURCE_URL", "set X_SINK_URL\nEOF\nset X_SOURCE_URL",
		},
		"an error inside another with a setting gets its name": {
			option.Errorf("set %s: %w", option.SinkURL, missing),
			`set SINK_URL: no stream "EVENTS": create it, or set NATS_CREATE_STREAM=true`, `set X_SINK_URL: no stream "EVENTS": create it, or set X_NATS_CREATE_STREAM=true`,
		},
		"a type of its own names them itself": {
			fmt.Errorf("publish: %w", ownError{7}), "publish: row 7 is too large: set DEAD_LETTER", "publish: row 7 is too large: set X_DEAD_LETTER",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.err.Error(); got != c.short {
				t.Errorf("the error says %q, want %q", got, c.short)
			}
			if got := option.Text(c.err, full); got != c.full {
				t.Errorf("its text is %q, want %q", got, c.full)
			}
		})
	}
}

func TestErrorfWraps(t *testing.T) {
	err := fmt.Errorf("open: %w", option.Errorf("set %s: %w and %w", option.SinkURL, io.EOF, ownError{3}))
	own, ok := errors.AsType[ownError](err)
	if !errors.Is(err, io.EOF) || !ok || own.row != 3 {
		t.Errorf("%v does not wrap what it was made of", err)
	}
	if got := option.Text(err, full); strings.Contains(got, "%!") {
		t.Errorf("%q", got)
	}
}
