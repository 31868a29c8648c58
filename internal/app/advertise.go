package app

import (
	"context"
	"net"
	"time"

	"bridge/internal/config"
)

// advertised returns where other hosts reach the HTTP server that listens on addr: there, or where
// it listens on all addresses of the host, at the one that the host reaches the bus from.
func advertised(ctx context.Context, addr net.Addr, bus []string) string {
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return ""
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		if host = localIP(ctx, bus); host == "" {
			return ""
		}
	}
	return net.JoinHostPort(host, port)
}

// lookupLimit bounds the lookup of the names of the bus's hosts.
const lookupLimit = 2 * time.Second

// localIP returns the address from which this host reaches one of hosts, each host:port, else the
// one from which it reaches other networks. It sends nothing but lookups of names.
func localIP(ctx context.Context, hosts []string) string {
	ctx, cancel := context.WithTimeout(ctx, lookupLimit)
	defer cancel()
	// Addresses for documentation, which the default route leads to.
	for _, host := range append(hosts[:len(hosts):len(hosts)], "192.0.2.1:9", "[2001:db8::1]:9") {
		conn, err := new(net.Dialer).DialContext(ctx, "udp", host)
		if err != nil {
			continue
		}
		local := conn.LocalAddr().(*net.UDPAddr).IP
		// Nothing was sent that could be lost.
		_ = conn.Close()
		return local.String()
	}
	return ""
}

// onlyOwnHost reports whether only its own host reaches an address.
func onlyOwnHost(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	return err != nil || host == "localhost" || net.ParseIP(host).IsLoopback()
}

// busHosts returns the servers of the bus.
func busHosts(cfg *config.Config) []string {
	if cfg.Sink.Scheme == "kafka" {
		return cfg.Sink.Kafka.Brokers
	}
	return cfg.Sink.NATS.Servers
}
