// Package tracingtest is a collector of OTLP over HTTP for tests: it keeps the spans that it gets.
package tracingtest
