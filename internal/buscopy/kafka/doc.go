// Package kafka is a bucket in a compacted topic of one partition.
package kafka
