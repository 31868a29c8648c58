// Package buckettest is the suite that every buscopy.Bucket passes.
package buckettest
