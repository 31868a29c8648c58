//go:build !bridge_noledger

package pipeline

// ledgerOff leaves gaps alone, as a tail without a ledger does: tests build the program with the tag bridge_noledger to show that
// they would notice.
const ledgerOff = false
