// Package testenv starts real servers for tests: MariaDB from the installed package, other versions
// of it and MySQL from packages that were only unpacked (see [Product]), Apache Kafka (KRaft) from
// its jars, NATS from its module, each a process of its own on a free loopback port with a private
// folder, stopped by pid.
//
// Real servers take part when BRIDGE_TEST_REAL is set, as `make test` does after scripts/test-deps
// has fetched what is missing; without it the tests that need them are skipped and `go test ./...`
// needs no service and no network. With CI=true a real server that cannot be had fails the test.
//
// A server of one's own can be made to fail: it can be paused, killed, stopped and brought back
// (Heal), put back to an earlier state (Snapshot, Restore), given other passwords, and reached
// through a network that fails ([Proxy]).
//
// A package that uses shared servers calls [Main] from its TestMain, which stops them at the end.
package testenv
