package app

import (
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"bridge/internal/catchup"
	"bridge/internal/httpapi"
	"bridge/internal/standby"
)

// waiting returns what the process knows of its group while it waits, else nil.
func (a *App) waiting() *standby.Status {
	if a.member == nil {
		return nil
	}
	s := a.member.Status()
	if s.Works {
		return nil
	}
	return &s
}

// othersWork reports whether another process of the group works.
func (a *App) othersWork() bool {
	s := a.waiting()
	return s != nil && s.Working.Member != ""
}

// refusal returns why a process that waits would not take over, though it is ready.
func refusal(s *standby.Status) []httpapi.Reason {
	if len(s.Differing) == 0 {
		return nil
	}
	return []httpapi.Reason{{Reason: fmt.Sprintf("standby: %s works with another configuration, so this process does not take over: make these the same, or stop the others: %s",
		&s.Other, strings.Join(s.Differing, ", "))}}
}

// worker names the member that works, for people.
func worker(s *standby.Status) string {
	if s.Working.Member == "" {
		return "which is not known now"
	}
	if s.Working.Since.IsZero() {
		return s.Working.String()
	}
	return fmt.Sprintf("%s since %s", &s.Working, s.Working.Since.UTC().Format("2006-01-02T15:04:05Z"))
}

// standbyStatus returns nil where the process works alone.
func standbyStatus(m *standby.Member) *httpapi.StandbyStatus {
	if m == nil {
		return nil
	}
	s := m.Status()
	status := &httpapi.StandbyStatus{
		Group: s.Group, Member: s.Member, Host: s.Host, Works: s.Works, Working: httpapi.Given(s.Working.Member), WorkingHost: s.Working.Host,
		Since: httpapi.Moment(s.Working.Since), HeardAt: httpapi.Moment(s.Seen), Differing: append([]string{}, s.Differing...),
		WorkingAddr: s.Working.Addr, Waiting: make([]httpapi.WaitingMember, 0, len(s.Waiting)),
	}
	for i := range s.Waiting {
		w := &s.Waiting[i]
		status.Waiting = append(status.Waiting, httpapi.WaitingMember{
			Member: w.Member, Host: w.Host, Addr: w.Addr, Ready: w.Ready, Differing: append([]string{}, w.Differing...),
		})
	}
	if s.Err != nil {
		status.Error = httpapi.Given(s.Err.Error())
	}
	return status
}

// newStandbyCollector collects whether this process works, or could take over.
func newStandbyCollector(member *standby.Member, recovery *catchup.CatchUp) prometheus.Collector {
	c := new(collector)
	works := c.metric(gauge, "bridge_standby_working", "1 if this process is the one of its standby group that works, 0 if it waits.", "group")
	ready := c.metric(gauge, "bridge_standby_ready", "1 if this process works, or has read the bus and has the configuration of the one that works, so that it could take over.", "group")
	since := c.metric(gauge, "bridge_standby_working_since_seconds", "Since when the process of the group that works does so, as Unix time; 0 while none is known.", "group")
	differing := c.metric(gauge, "bridge_standby_differing", "How many variables differ from those of the process that works.", "group")
	c.collect = func(send send) {
		s := member.Status()
		send(works, oneIf(s.Works), s.Group)
		send(ready, oneIf(s.Works || len(s.Differing) == 0 && followed(recovery.Progress())), s.Group)
		send(since, unix(s.Working.Since), s.Group)
		send(differing, float64(len(s.Differing)), s.Group)
	}
	return c
}
