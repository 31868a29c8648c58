package app

import (
	"github.com/prometheus/client_golang/prometheus"

	"bridge/internal/catchup"
)

// newRecoveryCollector collects how far streams have caught up, and their nominated entities.
func newRecoveryCollector(streams []*stream, recovery *catchup.CatchUp) prometheus.Collector {
	c := new(collector)
	caughtUp := c.metric(gauge, "bridge_caught_up", "1 once the stream has read from the bus what the checkpoint lacked, 0 before.", "stream")
	read := c.metric(counter, "bridge_catch_up_messages_total", "Messages of the stream that were read back from the bus.", "stream")
	left := c.metric(gauge, "bridge_catch_up_left", "Offsets that are left to read until the stream has caught up, those of other messages included.", "stream")
	nominated := c.metric(gauge, "bridge_nominated_entities", "Entities that wait until their rows are read in all tables of the stream.", "stream")
	twins := c.metric(counter, "bridge_twin_rows_total", "How often a key was found to have two rows.", "stream")
	superseded := c.metric(gauge, "bridge_superseded", "1 once another process publishes the same streams, and this one publishes nothing any more.")
	c.collect = func(send send) {
		progress := recovery.Progress()
		send(superseded, oneIf(progress.Superseded != nil))
		for _, s := range progress.Streams {
			send(caughtUp, oneIf(s.Ready && s.Err == nil), s.Stream)
			send(read, float64(s.Messages), s.Stream)
			send(left, float64(s.Left), s.Stream)
		}
		for _, s := range streams {
			if s.movers != nil {
				send(nominated, float64(s.movers.Waiting()), s.Name)
				send(twins, float64(s.movers.Twins()), s.Name)
			}
		}
	}
	return c
}
