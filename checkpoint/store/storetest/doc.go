// Package storetest is the suite that every implementation of store.Store passes, and what their
// crash tests share: numbered batches, and a check that a store holds a prefix of them.
package storetest
