// Package gcpace trades CPU time that nobody misses for memory: while the process has little to do, the garbage collector is made to run
// twice as often, which keeps the heap near what lives.
//
// Go's default lets the heap grow to twice what lives (GOGC=100), however long that takes. Under a backlog this is right: to collect more
// often would cost throughput. Under the load of most days a process that lives on 40 MiB would take 80 for ever, to save a few
// hundredths of a core.
package gcpace
