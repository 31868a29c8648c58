package main

import (
	"maps"
	"testing"

	"example.org/bridge/tests/testenv"
)

// TestCommandsOverTLS: in the container, whose certificate is not for 127.0.0.1, and elsewhere with
// the authorities alone.
func TestCommandsOverTLS(t *testing.T) {
	t.Parallel()
	certs, s := testenv.NewCerts(t), newShop(t)
	s.env["BRIDGE_HTTP_TLS_CERT"], s.env["BRIDGE_HTTP_TLS_KEY"] = certs.NamedCert, certs.NamedKey
	s.startDaemon()
	for line, words := range map[string]string{"health": "live", "health --ready": "ready", "status": "orders orders running", "reconcile": "orders orders"} {
		s.call(exitFine, words, line)
	}
	elsewhere := &shop{Shop: s.Shop, t: t, env: maps.Clone(s.env)}
	delete(elsewhere.env, "BRIDGE_HTTP_TLS_CERT")
	delete(elsewhere.env, "BRIDGE_HTTP_TLS_KEY")
	elsewhere.call(exitFailed, "it speaks TLS: set BRIDGE_HTTP_TLS_CA: see that it runs", "health")
	elsewhere.env["BRIDGE_HTTP_TLS_CA"] = certs.CA
	elsewhere.call(exitFailed, "127.0.0.1", "health")
	s.env["BRIDGE_HTTP_TLS_CERT"] = certs.ServerCert
	s.call(exitFailed, "its certificate is not trusted: x509: certificate signed by unknown authority: see BRIDGE_HTTP_TLS_CA", "health")
	s.call(exitUsage, "BRIDGE_HTTP_TLS_CERT: and BRIDGE_HTTP_TLS_KEY name files that are no pair", "run")
}
