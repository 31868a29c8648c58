// Command apollo plays Apollo's ReleaseMessage on bridge: a sender that writes a row for each
// release and deletes older ones, config services that hear each release once and in order over
// restarts and late commits, and beside them the scanner that Apollo has, which misses some. See
// README.md.
//
//	make example-apollo
package main
