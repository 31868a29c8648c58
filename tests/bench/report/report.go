package report

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

// The items of a report.
const (
	Scan    = "scan"
	Publish = "publish"
	Bridge  = "bridge"
	Ratio   = "ratio"
	Latency = "latency"
	Idle    = "idle"
	// Busy is many tables that all get a few rows.
	Busy      = "busy"
	Reconcile = "reconcile"
	// Recovery is a start without a checkpoint, when the bus has everything.
	Recovery = "recovery"
	// Restart is a start behind a kill, with the checkpoint.
	Restart = "restart"
	// Growth is bridge and reconcile at other sizes; its figures are under their items.
	Growth = "growth"
	// Delivery is exactly-once beside at-least-once.
	Delivery = "delivery"
	// Profile is the CPU by the parts of the work.
	Profile = "profile"
	// What is measured of bridge and its peers: a backlog, rows at a steady rate, the first row,
	// and rows that are committed behind higher ids.
	PeerBacklog = "peers: backlog"
	PeerSteady  = "peers: steady"
	PeerFirst   = "peers: first row"
	PeerLate    = "peers: late rows"
)

// The parts of the work that a profile tells apart.
const (
	Reading     = "reading"
	Encoding    = "encoding"
	Saving      = "journal and view"
	Compressing = "compressing"
	Publishing  = "publishing"
	Else        = "the rest of bridge"
	Collecting  = "garbage collector"
	Scheduling  = "scheduler"
)

// Parts are all of them, in the order of the work.
var Parts = []string{Reading, Encoding, Saving, Compressing, Publishing, Else, Collecting, Scheduling}

// The metrics of figures.
const (
	Seconds         = "seconds"
	RowsASecond     = "rows a second"
	MessagesASecond = "messages a second"
	SteadyRate      = "rows a second from the first message on"
	CPU             = "CPU-seconds per million rows"
	RssAnon         = "peak RssAnon"
	Allocs          = "allocations a row"
	// AllocsOnward is what is left of Allocs without those of a bare scan of the same pages: the
	// way from page to bus.
	AllocsOnward = "allocations a row, page to bus"
	AllocBytes   = "bytes allocated a row"
	Times        = "(S + P) / T"
	P50          = "p50"
	P99          = "p99"
	P999         = "p99.9"
	Worst        = "max"
	Reached      = "rows a second that were written"
	CPUShare     = "CPU"
	StatementsA  = "statements a second"
	DatabaseCPU  = "CPU of the database"
	Goroutines   = "goroutines"
	ToReady      = "seconds until ready"
	// ToReadyAgain and CPUShareAgain are those of a process that was started again.
	ToReadyAgain  = "seconds until ready, again"
	CPUShareAgain = "CPU, again"
	Series        = "metric series"
	ScrapeTime    = "milliseconds of a scrape"
	OfTheScan     = "of the bare scan"
	BytesOfRow    = "bytes of a row"
	BytesOfEvent  = "bytes of an event"
	BytesOnBus    = "bytes on the bus a row"
	MiBOfStore    = "MiB of the checkpoint"
	LateRows      = "late rows"
	Lost          = "lost"
)

// Case says what was measured. Fields that do not matter for an item are zero.
type Case struct {
	// Kind is that of the stream, Bus the name of the bus, Client what published.
	Kind   string `json:"kind,omitempty"`
	Bus    string `json:"bus,omitempty"`
	Client string `json:"client,omitempty"`
	// Delivery is AtLeastOnce or ExactlyOnce.
	Delivery string `json:"delivery,omitempty"`
	// Rows is the size of the table.
	Rows int `json:"rows,omitempty"`
	// Rate is in rows a second, Window the stability window, Poll the pause between two looks at a
	// table.
	Rate   int    `json:"rate,omitempty"`
	Window string `json:"window,omitempty"`
	Poll   string `json:"poll,omitempty"`
	// Shards is the number of tables.
	Shards int `json:"shards,omitempty"`
	// Part is one of Parts.
	Part string `json:"part,omitempty"`
}

// Figure is one metric of one case: a value for each round, in their order.
type Figure struct {
	Item string `json:"item"`
	Case
	Metric string    `json:"metric"`
	Values []float64 `json:"values"`
	Median float64   `json:"median"`
}

// Machine is where the figures come from.
type Machine struct {
	Cores  int    `json:"cores"`
	CPU    string `json:"cpu"`
	Memory string `json:"memory"`
	Kernel string `json:"kernel"`
	Go     string `json:"go"`
}

// Report is all that one run has measured. It is for one goroutine at a time.
type Report struct {
	// Command is what was typed, where that is recorded.
	Command string `json:"command,omitempty"`
	// Version is that of the program.
	Version string    `json:"version"`
	Began   time.Time `json:"began"`
	// Took is in seconds.
	Took    float64 `json:"took"`
	Machine Machine `json:"machine"`
	// Servers are the versions, by name.
	Servers map[string]string `json:"servers"`
	// Rows is the size of the main table, Rounds how often each of its parts was measured.
	Rows   int `json:"rows"`
	Rounds int `json:"rounds"`
	// Load is the mean load of the machine in the last minute when the run began: above zero,
	// others had their part of it.
	Load float64 `json:"load"`
	// Missing says which peers were left out, and why.
	Missing []string `json:"missing,omitempty"`
	// Replaced says which figures a later run has replaced.
	Replaced string   `json:"replaced,omitempty"`
	Figures  []Figure `json:"figures"`
}

// Add notes a round's value.
func (r *Report) Add(item string, c Case, metric string, value float64) {
	i := r.find(item, c, metric)
	if i < 0 {
		i = len(r.Figures)
		r.Figures = append(r.Figures, Figure{Item: item, Case: c, Metric: metric})
	}
	f := &r.Figures[i]
	f.Values = append(f.Values, value)
	f.Median = Median(f.Values)
}

func (r *Report) find(item string, c Case, metric string) int {
	return slices.IndexFunc(r.Figures, func(f Figure) bool { return f.Item == item && f.Case == c && f.Metric == metric })
}

// Get returns a figure, and whether it was measured.
func (r *Report) Get(item string, c Case, metric string) (Figure, bool) {
	if i := r.find(item, c, metric); i >= 0 {
		return r.Figures[i], true
	}
	return Figure{}, false
}

// Last returns the value of the last round, 0 where there is none.
func (r *Report) Last(item string, c Case, metric string) float64 {
	if f, ok := r.Get(item, c, metric); ok {
		return f.Values[len(f.Values)-1]
	}
	return 0
}

// Cases returns the cases of an item that were measured, in the order of their first values.
func (r *Report) Cases(item string) []Case {
	var cases []Case
	for _, f := range r.Figures {
		if f.Item == item && !slices.Contains(cases, f.Case) {
			cases = append(cases, f.Case)
		}
	}
	return cases
}

// WriteJSON writes r as JSON, for other programs and for Read.
func (r *Report) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", " ")
	return encoder.Encode(r)
}

// Read reads what WriteJSON wrote to a file.
func Read(path string) (*Report, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := new(Report)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("read the figures of %s: %w", path, err)
	}
	return r, nil
}
