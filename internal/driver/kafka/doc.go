// Package kafka is the driver of kafka:.
package kafka
