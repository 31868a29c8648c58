package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"sync"
	"time"

	"bridge/client"
	"bridge/examples/internal/stage"
)

// service is STP-Info: its events, its query side, and a check of its answers.
type service struct {
	*stage.Stage
	stage.Tally
	info    *info
	events  *stage.Task
	handled *handled
}

// handle handles one event of the stream.
func (p *service) handle(ctx context.Context, e client.Event) error {
	c := change{deleted: e.Operation == client.Deleted}
	if err := e.Decode(&c); err != nil {
		return err
	}
	if e.Repeat {
		// Its successors may be handled already.
		return nil
	}
	p.handled.begin(c)
	if err := p.info.handle(ctx, c); err != nil {
		return err
	}
	p.handled.end(c)
	p.Add("events", 1)
	return nil
}

// serve answers GET /stps/{stp} with the capabilities of an STP, as JSON.
func (p *service) serve(ctx context.Context) (url string, err error) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /stps/{stp}", func(w http.ResponseWriter, r *http.Request) {
		found, err := p.info.query(r.Context(), r.PathValue("stp"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(found) // the client may be gone
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	p.Begin(ctx, func(ctx context.Context) error {
		defer context.AfterFunc(ctx, func() { _ = server.Close() })()
		return server.Serve(listener)
	})
	return "http://" + listener.Addr().String(), nil
}

// get queries STP-Info as a client.
func get(ctx context.Context, url, stp string) (found capabilities, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/stps/"+stp, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	err = json.NewDecoder(response.Body).Decode(&found)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return nil, fmt.Errorf("read the answer for %s: %w", stp, err)
	}
	return found, nil
}

// read queries one STP after the other until ctx ends, and compares each answer with what was
// handled before it was asked for.
func (p *service) read(ctx context.Context, url string) error {
	for n := 0; stage.Pause(ctx, 2*time.Millisecond) == nil; n++ {
		stp := stpName(n % stps)
		before, want, certain := p.handled.state(stp)
		got, err := get(ctx, url, stp)
		if err != nil {
			return err
		}
		if after, _, _ := p.handled.state(stp); after != before || !certain {
			// An event came in between: the answers of before and after it are both right.
			continue
		}
		p.Add("answers compared", 1)
		if !maps.Equal(got, want) {
			p.Add("stale answers", 1)
			p.Say("STALE: %s answers %v, handled was %v", stp, got, want)
		}
	}
	return nil
}

// handled is what the events that were handled say, for the check alone.
type handled struct {
	mu sync.Mutex
	of map[string]capabilities
	// steps counts beginnings and ends, active has what has begun and not ended.
	steps  map[string]int
	active map[string]map[string]bool
}

func newHandled() *handled {
	return &handled{of: make(map[string]capabilities), steps: make(map[string]int), active: make(map[string]map[string]bool)}
}

// begin notes that c is being handled. If that fails it begins again, as the event comes again.
func (h *handled) begin(c change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.steps[c.StpName]++
	if h.active[c.StpName] == nil {
		h.active[c.StpName], h.of[c.StpName] = make(map[string]bool), make(capabilities)
	}
	h.active[c.StpName][c.CapabilityKey] = true
}

// end notes that c is handled.
func (h *handled) end(c change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.steps[c.StpName]++
	delete(h.active[c.StpName], c.CapabilityKey)
	if delete(h.of[c.StpName], c.CapabilityKey); !c.deleted {
		h.of[c.StpName][c.CapabilityKey] = c.CapabilityValue
	}
}

// state returns what was handled of an STP. certain is false while an event is being handled.
func (h *handled) state(stp string) (steps int, of capabilities, certain bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.steps[stp], maps.Clone(h.of[stp]), len(h.active[stp]) == 0
}
