//go:build bridge_noledger

package pipeline

const ledgerOff = true
