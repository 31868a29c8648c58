package main

import (
	"testing"

	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
)

// TestTheDocumentOfARunningBridge: requests of all kinds get answers that the OpenAPI document has.
func TestTheDocumentOfARunningBridge(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	s := newShop(t)
	s.env["BRIDGE_SERVE"], s.env["BRIDGE_STREAM_ORDERS_DEAD_LETTER"] = "true", "bridge.dead-letter"
	s.startDaemon()
	// A tail has no end. Whether a table or a next page is there is not for a schema to say.
	testenv.Schemathesis(t, "http://"+s.env["BRIDGE_HTTP_ADDR"]+"/api/v1/openapi.json", "--seed=1", "--max-examples=20", "--exclude-path=/api/v1/tail",
		"--checks=all", "--exclude-checks=ignored_auth,positive_data_acceptance", "--request-timeout=30", "--no-color")
}
