package main

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"example.org/bridge/internal/config"
	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/null"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/share"
	"example.org/bridge/internal/terminal"
)

const askedAtOnce = 32

type statuses struct {
	Processes []processStatus `json:"processes"`
	// Totals are sums over the processes that work. Lacking are shares that none of these has.
	Totals  *httpapi.Totals `json:"totals"`
	Lacking []string        `json:"lacking"`
}

type processStatus struct {
	Address string          `json:"address"`
	Error   null.Text       `json:"error"`
	Status  *httpapi.Status `json:"status"`
}

// works reports whether the process has said that the tables are its own: one that waits of a
// standby group shows those of another.
func (p *processStatus) works() bool {
	return p.Status != nil && (p.Status.Standby == nil || p.Status.Standby.Works)
}

func (p *processStatus) name() string {
	if p.Status.Share != nil {
		return share.Share(*p.Status.Share).String()
	}
	return p.Address
}

// clientsOf returns a client for each address of a list such as host-1:8080,host-2, and what cannot
// be looked up. A name stands for all its addresses, as that of a headless service does. like has
// the port of those without one.
func clientsOf(ctx context.Context, list string, like *httpapi.Client) (clients []*httpapi.Client, unknown []processStatus, err error) {
	_, port, err := net.SplitHostPort(like.Addr)
	if err != nil {
		return nil, nil, err
	}
	for item := range strings.SplitSeq(list, ",") {
		host, own, err := net.SplitHostPort(strings.TrimSpace(item))
		if err != nil {
			host, own = strings.Trim(strings.TrimSpace(item), "[]"), port
		}
		if host == "" || own == "" {
			return nil, nil, usageErrorf("--all has an item without a host: write host-1:8080,host-2:8080, or the name of a headless service")
		}
		found, err := net.DefaultResolver.LookupHost(ctx, host)
		if err != nil {
			unknown = append(unknown, processStatus{Address: net.JoinHostPort(host, own), Error: null.Text(err.Error())})
		}
		// A process with addresses of both kinds is one.
		if isIPv4 := func(ip string) bool { return net.ParseIP(ip).To4() != nil }; slices.ContainsFunc(found, isIPv4) {
			found = slices.DeleteFunc(found, func(ip string) bool { return !isIPv4(ip) })
		}
		slices.Sort(found)
		for _, ip := range found {
			one := *like
			one.Addr, one.Host = net.JoinHostPort(ip, own), host
			if !slices.ContainsFunc(clients, func(c *httpapi.Client) bool { return c.Addr == one.Addr }) {
				clients = append(clients, &one)
			}
		}
	}
	return clients, unknown, nil
}

func (s selection) ofAll(ctx context.Context, list string, like *httpapi.Client) (*statuses, error) {
	clients, unknown, err := clientsOf(ctx, list, like)
	if err != nil {
		return nil, err
	}
	all := &statuses{Processes: make([]processStatus, len(clients)), Lacking: []string{}}
	var asked errgroup.Group
	asked.SetLimit(askedAtOnce)
	for i, c := range clients {
		asked.Go(func() error {
			one := &all.Processes[i]
			one.Address = c.Addr
			if status, err := c.StatusOf(ctx, s.stream, s.state); err != nil {
				one.Error = null.Text(config.Text(err))
			} else {
				one.Status = &status
			}
			return nil
		})
	}
	if err := asked.Wait(); err != nil {
		return nil, err
	}
	all.Processes = append(all.Processes, unknown...)
	has := func(p processStatus) bool {
		return p.Status != nil && slices.ContainsFunc(p.Status.Streams, func(one httpapi.StreamStatus) bool { return one.Name == s.stream })
	}
	if s.stream != "" && all.answered() > 0 && !slices.ContainsFunc(all.Processes, has) {
		return nil, fmt.Errorf("none of the %d bridges that answered has a stream %q", all.answered(), s.stream)
	}
	all.sum()
	return all, nil
}

func (s *statuses) answered() (n int) {
	for i := range s.Processes {
		if s.Processes[i].Status != nil {
			n++
		}
	}
	return n
}

func (s *statuses) sum() {
	s.Totals = &httpapi.Totals{States: make(map[shard.State]int)}
	streams, shares := make(map[string]bool), make(map[share.Share]bool)
	for i := range s.Processes {
		p := &s.Processes[i]
		if !p.works() {
			continue
		}
		if of := p.Status.Share; of != nil {
			shares[share.Share(*of)] = true
		}
		for j := range p.Status.Streams {
			streams[p.Status.Streams[j].Name] = true
		}
		if t := p.Status.Totals; t != nil {
			s.Totals.Shards += t.Shards
			for state, n := range t.States {
				s.Totals.States[state] += n
			}
		}
	}
	s.Totals.Streams, s.Totals.Matching = len(streams), len(streams)
	for one := range shares {
		for index := range one.Number {
			if other := (share.Share{Index: index, Number: one.Number}); !shares[other] {
				s.Lacking = append(s.Lacking, other.String())
			}
		}
	}
	slices.Sort(s.Lacking)
	s.Lacking = slices.Compact(s.Lacking)
}

func (s *statuses) text(now time.Time) string {
	var head strings.Builder
	t := newStatusTable(now, "PROCESS")
	for i := range s.Processes {
		p := &s.Processes[i]
		if p.Status == nil {
			fmt.Fprintf(&head, "%s: no answer: %s\n", p.Address, terminal.OneLine(string(p.Error)))
			continue
		}
		of := ""
		if p.Status.Share != nil {
			of = "share " + p.name() + ", "
		}
		fmt.Fprintf(&head, "%s: %sruns since %s, %s\n%s", p.Address, of, p.Status.Started.Format(time.RFC3339), p.Status.Delivery, standbyText(p.Status.Standby))
		if p.works() {
			t.add(p.name(), p.Status)
		}
	}
	if len(s.Lacking) > 0 {
		fmt.Fprintf(&head, "%s\n", terminal.Wrap("no process that works on share "+strings.Join(s.Lacking, ", ")+" has answered", 0))
	}
	return head.String() + totalsText(s.Totals) + "\n" + t.text()
}

// err says that processes or shares are missing, nil if none is.
func (s *statuses) err() error {
	switch n := len(s.Processes) - s.answered(); {
	case n > 0:
		return fmt.Errorf("%d of %d bridges did not answer", n, len(s.Processes))
	case len(s.Lacking) > 0:
		return fmt.Errorf("nobody that works on share %s has answered: name its host with --all, or start it", strings.Join(s.Lacking, ", "))
	}
	return nil
}
