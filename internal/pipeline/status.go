package pipeline

import "time"

// State is what a shard is doing.
type State string

// The states of a shard.
const (
	// Starting: the checkpoint is being read and compared with the bus.
	Starting State = "starting"
	// Running: the shard is polled and published.
	Running State = "running"
	// Waiting: the source or the bus is away; the shard goes on by itself once it is back.
	Waiting State = "waiting"
	// Stopped: a person has to do something; the last error says what.
	Stopped State = "stopped"
)

// Status is a snapshot of one shard.
type Status struct {
	Stream, Shard string
	State         State
	// Position is the id up to which everything is published and saved; OpenGaps counts the ranges below it that have
	// not been seen.
	Position uint64
	OpenGaps int
	// Lag is the age of the oldest committed row that is not published; 0 when drained.
	Lag time.Duration
	// LastError is the latest fault, empty while there is none.
	LastError string
	// LastPoll is when the source last answered, by the host's clock; zero before the first time.
	LastPoll time.Time
	// LastTurn is when the owner's loop last turned, by the host's clock. It turns while source and bus are away, too.
	LastTurn time.Time
}
