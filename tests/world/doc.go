// Package world is what the tests of the built program share: the program itself as a daemon or a
// command, the real buses and databases around it, consumers of what it publishes, and the judge
// that compares what they received with the record that the writers keep. It reads topics to their
// end offsets and decodes events itself: it shares with the program the client's reading of
// headers, the names of operations and the schemas.
package world
