// Command number-issuer plays a number issuer on bridge: containers hold batches of ids and insert
// rows far out of order, strict counters are moved by compare-and-set, and one container dies with
// half of its batch. No row is lost. See README.md.
//
//	make example-number-issuer
package main
