// Package memory is a store in memory: the twin of the real ones for tests. It passes the suite in
// checkpoint/store/storetest, checks batches as they do, and rounds times as they do.
package memory
