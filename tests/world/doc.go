// Package world is what the tests of the built program share: the program itself as a daemon or a
// command, the real buses and databases around it, consumers of what it publishes, and judges that
// compare what they received with the record that the writers keep. A judge reads topics to their
// end offsets and decodes events itself: of the program it knows the schemas alone.
package world
