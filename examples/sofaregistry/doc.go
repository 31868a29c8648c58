// Command sofaregistry plays SOFARegistry's watch of a table on bridge: providers register their
// revisions by heartbeat or REPLACE, what is silent is deleted by a column and purged later, and a
// watcher keeps a map of the live revisions from the bus. See README.md.
//
//	make example-sofaregistry
package main
