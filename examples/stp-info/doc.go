// Command stp-info plays the capability consumer of STP-Info on bridge: TGF changes the
// capabilities of STPs, STP-Info keeps its store and its cache right by the events of bridge, and
// answers queries that never have a capability whose deletion it has handled. See README.md.
//
//	make example-stp-info
package main
