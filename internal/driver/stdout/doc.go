// Package stdout is the driver of stdout:, which prints events.
package stdout
