// Package memory is a checkpoint store in memory: the twin of the real stores for tests.
//
// It keeps states in the form of [checkpoint.AppendState], so that a test sees the same rounding
// and refusals as with a real store, and passes the suite in checkpoint/checkpointtest.
// [Store.Fail] makes saves fail, [Store.Saves] counts them.
package memory
