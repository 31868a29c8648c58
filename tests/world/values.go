package world

import (
	"encoding/base64"
	"math/rand/v2"
)

// Incompressible returns n bytes of text that no codec makes small.
func Incompressible(n int) string {
	raw := make([]byte, n*3/4)
	rand.NewChaCha8([32]byte{}).Read(raw)
	return base64.StdEncoding.EncodeToString(raw)
}
