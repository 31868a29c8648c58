// Package reconcile compares a table with what was published of it and nominates what differs.
//
// It never publishes: whatever it notices the owner of the shard reads again, compares and publishes.
package reconcile
