// Package clienttest tests what client.Table and client.Events do on a bus. Every client.Bus
// passes it.
package clienttest
