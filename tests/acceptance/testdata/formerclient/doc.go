// Reader consumes a stream of entities and one of rows. A test builds it with the former package
// client. For each line that it reads it prints what it has by then.
package main
