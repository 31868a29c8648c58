// Package check inspects a source, a bus and a checkpoint before bridge runs with them, and says
// what is unsafe, unwise or in the way and what to do about it. The role packages make the
// findings. This package compares them with the configuration, joins like ones and prints them. It
// writes nothing anywhere.
package check
