package httpapi_test

import (
	"context"
	"errors"
	"testing"

	"bridge/internal/httpapi"
)

func TestAProbeReturnsTheError(t *testing.T) {
	refused := errors.New("connection refused")
	q := &httpapi.Probe{Ready: func(context.Context) error { return refused }}
	if err := q.Do(t.Context()); !errors.Is(err, refused) {
		t.Errorf("got %v", err)
	}
}
