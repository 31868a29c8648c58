package main

import (
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"bridge/internal/config"
	"bridge/internal/demo"
)

// demoAddress is where the demo's NATS server listens: a free port of the loopback.
const demoAddress = "127.0.0.1:0"

// reconcileEvery is the demo's interval, short enough for its finds to show.
const reconcileEvery = 3 * time.Second

// demoEnviron is the configuration of the demo in the folder dir, as bridge run would read it.
func demoEnviron(dir string) []string {
	path := func(scheme, name string) string {
		return (&url.URL{Scheme: scheme, Path: filepath.Join(dir, name)}).String()
	}
	stream := func(table string, settings ...string) []string {
		for i := range settings {
			settings[i] = config.StreamPrefix(table) + settings[i]
		}
		return append(settings, config.StreamPrefix(table)+"TABLE="+table, config.StreamPrefix(table)+"CREATED=created")
	}
	return slices.Concat(
		[]string{
			"BRIDGE_SOURCE_URL=" + path("sqlite", "app.db"),
			"BRIDGE_SINK_URL=" + path("embedded", "nats") + "?listen=" + url.QueryEscape(demoAddress),
			"BRIDGE_CHECKPOINT_URL=" + path("file", "bridge.db"),
			"BRIDGE_STREAMS=" + strings.Join(demo.Tables, ","),
			"BRIDGE_DOMAIN_ID=demo",
			"BRIDGE_POLL_INTERVAL=100ms",
			// A young row need not wait: the ledger finds what is committed late.
			"BRIDGE_STABILITY_WINDOW=0s",
			"BRIDGE_RECONCILE_INTERVAL=" + reconcileEvery.String(),
		},
		stream(demo.Products, "KIND=capability", "KEY=sku", "MODIFIED=modified", "DELETED=deleted", "FAMILY=shop", "EVENT=Product"),
		stream(demo.Stock, "KIND=capability", "KEY=warehouse,sku", "FAMILY=shop"),
		// The shop draws the ids of orders itself, so that one can be committed late.
		stream(demo.Orders, "KIND=release", "ID_ORDER=segmented", "FAMILY=shop", "EVENT=Order"),
	)
}
