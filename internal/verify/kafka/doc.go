// Package kafka reads topics for the outside check, with segmentio/kafka-go and without the sink's
// code: every partition from its log start to its end. Records that are not committed are read too:
// bridge writes without transactions.
//
// A partition whose log start is not 0 counts as expired, one with holes between its offsets as
// thinned (compacted).
package kafka
