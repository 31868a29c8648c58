// Package check looks at a source, a bus and a checkpoint before bridge runs with them, and says
// what is unsafe, unwise or in the way and what to do about it. The role packages find; it compares
// with the configuration, puts like findings together and prints. It writes nothing anywhere.
package check
