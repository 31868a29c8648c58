// Package jetstream reads the subjects of JetStream streams for the outside check, with an ordered
// consumer of nats.go and without the sink's code. It leaves nothing behind on the server: ordered
// consumers are gone with the connection.
//
// A stream whose first sequence is not 1 counts as expired where it has a limit by age, number or
// size; without one, nothing goes by itself. It counts as thinned where messages are missing and
// may have gone one by one: a limit per subject, a time to live, a retention other than by limits.
package jetstream
