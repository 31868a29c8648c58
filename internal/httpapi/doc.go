// Package httpapi has the HTTP server of a running bridge and its client.
//
// The server answers /livez, /readyz, /metrics and /api/v1/status, and takes requests for a
// reconcile and for dead letters to be sent again. What it serves comes through [Daemon].
// The client is what the commands health, reconcile and deadletter ask with. The JSON types
// are those of both sides; their members are relied on from outside.
package httpapi
